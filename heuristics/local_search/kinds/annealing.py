"""Simulated annealing on partitions over kinds of devices, compiled by numba.

The blocks and the bytes that they move, receive and hold change as in `heuristics.local_search.state`, in a question
whose nodes have no work and whose bandwidth is 1. Beside, each block has a work for every kind, so that it may change
its kind in no time. The sum of the eighth powers of the block costs over the best bottleneck is what becomes small.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from heuristics.local_search.cooling import Cooling, factor_of
from heuristics.local_search.state import PartitionState, move, places_for, times_after
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays

__all__ = ["KindArrays", "anneal_kinds"]

#: Part of the moves that go to the first or the last block that a node may be in.
_TO_NEIGHBOURS = 0.6


class KindArrays(NamedTuple):
    """Work, bandwidth and memory of each kind; what is beyond the memory takes its bytes over a rate of its own."""

    work: FloatArray  # (T, n)
    bandwidth: FloatArray  # (T,)
    memory: FloatArray  # (T,)
    overflow_bandwidth: FloatArray  # (T,)
    overflow_step: FloatArray  # (T,)
    buffer: float  # bytes of a block with nodes


@compiled
def anneal_kinds(
    state: PartitionState,
    arrays: KernelArrays,
    kinds: KindArrays,
    kind: IntArray,
    rows: tuple[IntArray, IntArray],
    cooling: Cooling,
    exchanges: float,
    seed: int,
) -> tuple[float, IntArray, IntArray]:
    """Try random moves while the temperature falls; the best bottleneck seen, its blocks and their kinds.

    Parameters
    ----------
    state : PartitionState
        Of the bytes; it goes along.
    kind : (K,) integers
        Kind of each device: block b is on device b, and devices beyond k are free. It goes along.
    rows : tuple
        Predecessors of the nodes.
    exchanges : float
        Part of the moves that exchange the kinds of two blocks.
    """
    np.random.seed(seed)
    before_start, before = rows
    n, k, size = len(state.block), len(state.time), len(kind)
    work = np.zeros((len(kinds.work), k))
    for v in range(n):
        work[:, state.block[v]] += kinds.work[:, v]
    cost = np.zeros(k)
    for b in range(k):
        cost[b] = _cost(work[kind[b], b], state.time[b], state.held[b], state.size[b], kind[b], kinds)
    best, best_block, best_kind = cost.max(), state.block.copy(), kind.copy()
    if best <= 0.0:
        return best, best_block, best_kind
    temperature, factor = cooling.hot, factor_of(cooling)
    for _ in range(cooling.moves):
        temperature *= factor
        limit = -temperature * math.log(1.0 - np.random.random())
        if np.random.random() < exchanges:
            a, b = np.random.randint(k), np.random.randint(size)
            if kind[a] == kind[b]:
                continue
            new_a = _cost(work[kind[b], a], state.time[a], state.held[a], state.size[a], kind[b], kinds)
            new_b, old_b = 0.0, 0.0
            if b < k:
                new_b = _cost(work[kind[a], b], state.time[b], state.held[b], state.size[b], kind[a], kinds)
                old_b = cost[b]
            if _power(new_a / best) + _power(new_b / best) > _power(cost[a] / best) + _power(old_b / best) + limit:
                continue
            kind[a], kind[b] = kind[b], kind[a]
            cost[a] = new_a
            if b < k:
                cost[b] = new_b
        else:
            v = np.random.randint(n)
            a = state.block[v]
            low, high = places_for(v, state, arrays, before_start, before)
            if low == high:
                continue
            if np.random.random() < _TO_NEIGHBOURS:
                b = low if np.random.random() < 0.5 else high
                if b == a:
                    b = low + high - a
            else:
                b = low + np.random.randint(high - low)
                b += b >= a
            times = times_after(v, a, b, state, arrays)
            # Held bytes change by moving; what a cost leaves out of them here is corrected behind.
            work_a, work_b = work[kind[a], a] - kinds.work[kind[a], v], work[kind[b], b] + kinds.work[kind[b], v]
            old = _power(cost[a] / best) + _power(cost[b] / best)
            least = _power((work_a + times[0] / kinds.bandwidth[kind[a]]) / best)
            least += _power((work_b + times[1] / kinds.bandwidth[kind[b]]) / best)
            if least > old + limit:
                continue
            time_a, time_b, held_a, held_b = state.time[a], state.time[b], state.held[a], state.held[b]
            move(v, a, b, times, state, arrays)
            new_a = _cost(work_a, state.time[a], state.held[a], state.size[a], kind[a], kinds)
            new_b = _cost(work_b, state.time[b], state.held[b], state.size[b], kind[b], kinds)
            if _power(new_a / best) + _power(new_b / best) > old + limit:
                move(v, b, a, (time_b, time_a), state, arrays)
                state.held[a], state.held[b] = held_a, held_b
                continue
            cost[a], cost[b] = new_a, new_b
            for t in range(len(work)):
                work[t, a] -= kinds.work[t, v]
                work[t, b] += kinds.work[t, v]
        highest = cost.max()
        if highest < best:
            best = highest
            best_block[:] = state.block
            best_kind[:] = kind
            if best <= 0.0:  # what other costs are divided by
                break
    return best, best_block, best_kind


@compiled(inline="always")
def _cost(work: float, moved: float, held: float, size: int, t: int, kinds: KindArrays) -> float:
    """Cost of a block on kind t, but for the peak of its activations; an empty one costs nothing."""
    if size == 0:
        return 0.0
    excess = held + kinds.buffer - kinds.memory[t]
    over = kinds.overflow_step[t] + excess / kinds.overflow_bandwidth[t] if excess > 0.0 else 0.0
    return max(0.0, work) + max(0.0, moved) / kinds.bandwidth[t] + over


@compiled(inline="always")
def _power(x: float) -> float:
    x *= x
    x *= x
    return x * x
