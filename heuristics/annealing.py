"""Simulated annealing on partitions, compiled by numba.

A move takes a node to another block between those of its predecessors and its successors, so no edge ever points
backwards; a swap also takes a node of that block back. Either costs time proportional to the degrees of its nodes.

The search minimises the sum of the sixteenth powers of the block costs over the best bottleneck, a smooth stand-in
for their maximum. Where costs depend on the peak memory of an order, only moves that would be accepted without it
pay for the peaks of their two blocks.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from heuristics.block_peaks import peak_of
from heuristics.state import State, cost_of, move, settle, times_after
from instances.arrays import KernelArrays
from instances.tensors import FloatArray, IntArray

__all__ = ["anneal"]

#: Part of the moves that try a swap.
_SWAPS = 0.5


@njit(cache=True)
def anneal(
    state: State,
    arrays: KernelArrays,
    before_start: IntArray,
    before: IntArray,
    moves: int,
    hot: float,
    cold: float,
    seed: int,
) -> None:
    """Try `moves` random moves while the temperature falls from `hot` to `cold`; `state` goes along."""
    np.random.seed(seed)
    block, best = state.block, state.best[0]
    n, k = len(block), len(state.time)
    if best <= 0.0 or k == 1:
        return
    cost = np.array([cost_of(b, state, arrays) for b in range(k)])
    energy = _powers(cost, best)
    changed = np.flatnonzero(block != state.best_block)  # where the walk is not at its best
    stack, height = np.empty(n, dtype=np.int64), len(changed)
    stack[:height] = changed
    on_stack = block != state.best_block
    temperature, cooling = hot, (cold / hot) ** (1.0 / moves)
    for _ in range(moves):
        temperature *= cooling
        v = int(n * np.random.random())
        a = block[v]
        low, high = _range(v, k, block, arrays, before_start, before)
        if low == high:
            continue
        b = low + int((high - low) * np.random.random())
        if b >= a:
            b += 1
        w = _partner(v, a, b, k, state, arrays, before_start, before) if np.random.random() < _SWAPS else v
        if w < 0:
            continue
        # The highest energy of the two blocks that is accepted.
        limit = energy[a] + energy[b] - temperature * math.log(1.0 - np.random.random())
        old = (state.time[a], state.time[b], state.held[a], state.held[b], state.peak[a], state.peak[b])
        times = times_after(v, a, b, state, arrays)
        if w == v and _power(times[0] / best) + _power(times[1] / best) > limit:
            continue
        move(v, a, b, times, state, arrays)
        if w != v:
            times = times_after(w, b, a, state, arrays)
            if _power(times[0] / best) + _power(times[1] / best) > limit:
                _take_back(v, v, a, b, old, state, arrays)
                continue
            move(w, b, a, times, state, arrays)
        if arrays.needs_peaks:
            state.peak[a] = peak_of(a, block, state.reads, state.queues, arrays)
            state.peak[b] = peak_of(b, block, state.reads, state.queues, arrays)
        cost_a, cost_b = cost_of(a, state, arrays), cost_of(b, state, arrays)
        energy_a, energy_b = _power(cost_a / best), _power(cost_b / best)
        if energy_a + energy_b > limit:
            _take_back(v, w, a, b, old, state, arrays)
            continue
        cost[a], cost[b], energy[a], energy[b] = cost_a, cost_b, energy_a, energy_b
        settle(v, a, b, state)
        if w != v:
            settle(w, b, a, state)
        for u in (v, w):
            if not on_stack[u]:
                on_stack[u] = True
                stack[height] = u
                height += 1
        if cost_a < best and cost_b < best and cost.max() < best:
            best = cost.max()
            for i in range(height):
                on_stack[stack[i]] = False
                state.best_block[stack[i]] = block[stack[i]]
            height = 0
            if best <= 0.0:
                break
            energy = _powers(cost, best)
    state.best[0] = best


@njit(cache=True, inline="always")
def _power(x: float) -> float:
    x *= x
    x *= x
    x *= x
    return x * x


@njit(cache=True)
def _powers(cost: FloatArray, best: float) -> FloatArray:
    return np.array([_power(c / best) for c in cost])


@njit(cache=True)
def _range(
    v: int, k: int, block: IntArray, arrays: KernelArrays, before_start: IntArray, before: IntArray
) -> tuple[int, int]:
    """First and last block that node `v` can be in while all others stay."""
    low, high = 0, k - 1
    for e in range(before_start[v], before_start[v + 1]):
        low = max(low, block[before[e]])
    for e in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
        high = min(high, block[arrays.successor[e]])
    return low, high


@njit(cache=True)
def _partner(
    v: int, a: int, b: int, k: int, state: State, arrays: KernelArrays, before_start: IntArray, before: IntArray
) -> int:
    """A node of block b that `v` can change places with, `v` itself if b is empty, or -1."""
    if state.size[b] == 0:
        return v
    w = state.members[state.end[b] - 1 - int(state.size[b] * np.random.random())]
    low, high = _range(w, k, state.block, arrays, before_start, before)
    if a < low or a > high:
        return -1
    first, last = (v, w) if a < b else (w, v)
    for e in range(arrays.successor_start[first], arrays.successor_start[first + 1]):
        if arrays.successor[e] == last:
            return -1
    return w


@njit(cache=True)
def _take_back(
    v: int,
    w: int,
    a: int,
    b: int,
    old: tuple[float, float, float, float, float, float],
    state: State,
    arrays: KernelArrays,
) -> None:
    """Undo the move of `v` from a to b, and of `w` from b to a unless it is `v`."""
    if w != v:
        move(w, a, b, old[:2], state, arrays)
    move(v, b, a, (old[1], old[0]), state, arrays)
    state.held[a], state.held[b], state.peak[a], state.peak[b] = old[2:]
