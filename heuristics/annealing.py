"""Simulated annealing on partitions, compiled by numba.

A move takes a node to another block between those of its predecessors and its successors, so no edge ever points
backwards. For each tensor the readers in each block are counted. Then a move changes the cost of two blocks alone,
in time proportional to the degree of the node: a third block that sends to the node sends to one of the two before
and after.

The search minimises the sum of the sixteenth powers of the block costs over the best bottleneck, a smooth stand-in
for their maximum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from instances.arrays import KernelArrays
from instances.tensors import FloatArray, IntArray

__all__ = ["State", "anneal", "start_state"]


class State(NamedTuple):
    """A partition with the sums that its costs are made of.

    Parameters
    ----------
    block : (n,) integers
    size : (k,) integers
        Nodes in each block.
    time : (k,) floats
        Cost of each block without overflow.
    held : (k,) floats
        Parameter bytes of each block.
    reads : (t, k) integers
        Readers of each tensor in each block.
    uses : (g, k) integers
        Users of each shared parameter in each block.
    """

    block: IntArray
    size: IntArray
    time: FloatArray
    held: FloatArray
    reads: NDArray[np.int32]
    uses: NDArray[np.int32]


@njit(cache=True)
def start_state(block: IntArray, k: int, arrays: KernelArrays) -> State:
    """Count what `block` says."""
    size = np.zeros(k, dtype=np.int64)
    time, held = np.zeros(k), np.zeros(k)
    reads = np.zeros((len(arrays.tensor_time), k), dtype=np.int32)
    uses = np.zeros((len(arrays.shared_bytes), k), dtype=np.int32)
    for v in range(len(block)):
        b = block[v]
        size[b] += 1
        time[b] += arrays.work[v]
        held[b] += arrays.param_bytes[v]
        for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
            reads[arrays.input_tensor[e], b] += 1
        for e in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
            g = arrays.shared[e]
            if uses[g, b] == 0:
                held[b] += arrays.shared_bytes[g]
            uses[g, b] += 1
    for t in range(len(reads)):
        home = block[arrays.producer[t]]
        if reads[t, home] < arrays.readers[t]:
            time[home] += arrays.tensor_time[t]
        for b in range(k):
            if b != home and reads[t, b] > 0:
                time[b] += arrays.tensor_time[t]
    return State(block.copy(), size, time, held, reads, uses)


@njit(cache=True)
def anneal(
    state: State,
    k: int,
    arrays: KernelArrays,
    before_start: IntArray,
    before: IntArray,
    moves: int,
    hot: float,
    cold: float,
    seed: int,
) -> tuple[float, IntArray]:
    """Try `moves` random moves while the temperature falls from `hot` to `cold`.

    Returns
    -------
    tuple
        The smallest bottleneck seen, and its blocks; `state` is left where the walk ends.
    """
    np.random.seed(seed)
    block = state.block
    n = len(block)
    cost = np.empty(k)
    for b in range(k):
        cost[b] = state.time[b] + _overflow(state.held[b], state.size[b], arrays)
    best, best_block = cost.max(), block.copy()
    if best <= 0.0:
        return best, best_block
    temperature, cooling = hot, (cold / hot) ** (1.0 / moves)
    for _ in range(moves):
        temperature *= cooling
        v = np.random.randint(n)
        a = block[v]
        low, high = 0, k - 1
        for e in range(before_start[v], before_start[v + 1]):
            low = max(low, block[before[e]])
        for e in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
            high = min(high, block[arrays.successor[e]])
        if low == high:
            continue
        b = low + np.random.randint(high - low)
        if b >= a:
            b += 1
        time_a, time_b = _times_after(v, a, b, state, arrays)
        held_a, held_b = _held_after(v, a, b, state, arrays)
        cost_a = time_a + _overflow(held_a, state.size[a] - 1, arrays)
        cost_b = time_b + _overflow(held_b, state.size[b] + 1, arrays)
        rise = _power(cost_a / best) + _power(cost_b / best) - _power(cost[a] / best) - _power(cost[b] / best)
        if rise > 0 and np.random.random() >= math.exp(-rise / temperature):
            continue
        _move(v, a, b, state, arrays)
        state.time[a], state.time[b] = time_a, time_b
        state.held[a], state.held[b] = held_a, held_b
        cost[a], cost[b] = cost_a, cost_b
        if cost_a < best and cost_b < best:
            bottleneck = cost.max()
            if bottleneck < best:
                best = bottleneck
                best_block[:] = block
                if best <= 0.0:
                    break
    return best, best_block


@njit(cache=True, inline="always")
def _power(x: float) -> float:
    x *= x
    x *= x
    x *= x
    return x * x


@njit(cache=True)
def _times_after(v: int, a: int, b: int, state: State, arrays: KernelArrays) -> tuple[float, float]:
    """Costs without overflow of blocks a and b once v has moved from a to b."""
    time_a = state.time[a] - arrays.work[v]
    time_b = state.time[b] + arrays.work[v]
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        t = arrays.input_tensor[e]
        home = state.block[arrays.producer[t]]
        if home == a:
            if state.reads[t, a] == arrays.readers[t]:  # nobody else: a starts to send
                time_a += arrays.tensor_time[t]
        elif state.reads[t, a] == 1:
            time_a -= arrays.tensor_time[t]
        if home == b:
            if state.reads[t, b] == arrays.readers[t] - 1:  # only v was elsewhere: b stops sending
                time_b -= arrays.tensor_time[t]
        elif state.reads[t, b] == 0:
            time_b += arrays.tensor_time[t]
    for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
        if state.reads[t, a] < arrays.readers[t]:
            time_a -= arrays.tensor_time[t]
        if state.reads[t, b] < arrays.readers[t]:
            time_b += arrays.tensor_time[t]
        if state.reads[t, a] > 0:
            time_a += arrays.tensor_time[t]
        if state.reads[t, b] > 0:
            time_b -= arrays.tensor_time[t]
    return time_a, time_b


@njit(cache=True)
def _held_after(v: int, a: int, b: int, state: State, arrays: KernelArrays) -> tuple[float, float]:
    held_a = state.held[a] - arrays.param_bytes[v]
    held_b = state.held[b] + arrays.param_bytes[v]
    for e in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
        g = arrays.shared[e]
        if state.uses[g, a] == 1:
            held_a -= arrays.shared_bytes[g]
        if state.uses[g, b] == 0:
            held_b += arrays.shared_bytes[g]
    return held_a, held_b


@njit(cache=True)
def _move(v: int, a: int, b: int, state: State, arrays: KernelArrays) -> None:
    state.block[v] = b
    state.size[a] -= 1
    state.size[b] += 1
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        t = arrays.input_tensor[e]
        state.reads[t, a] -= 1
        state.reads[t, b] += 1
    for e in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
        g = arrays.shared[e]
        state.uses[g, a] -= 1
        state.uses[g, b] += 1


@njit(cache=True, inline="always")
def _overflow(held: float, size: int, arrays: KernelArrays) -> float:
    """Linear overflow; the true peak of an order is left to the caller."""
    if arrays.memory == math.inf or size == 0:
        return 0.0
    return max(0.0, held + arrays.activation_buffer - arrays.memory) / arrays.bandwidth
