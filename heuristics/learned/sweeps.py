"""Move nodes between blocks in sweeps over the graph, compiled by numba.

A node may go to any block from the last of its predecessors' to the first of its successors', so no edge ever points
backwards. It goes where the score is highest, a linear function of what the move would do.
"""

from __future__ import annotations

import math

import numpy as np

from heuristics.local_search.state import PartitionState, move, places_for, start_state, times_after
from heuristics.orders.kernels import kahn_kernel
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays

__all__ = ["FEATURES", "sweep"]

#: What the score of a block is made of; times of blocks are in units of the room.
FEATURES = (
    "stays",
    "stays, by how much is done",
    "change of the eighth powers of the costs",
    "the same, by how much is done",
    "change of the larger of the two costs",
    "change of the sum of costs, in mean works of a node",
    "cost of the block then",
    "share of the neighbours there",
    "distance",
    "excess of the blocks on the side that it leaves",
)
_SWEEPS = 4
#: Nodes times blocks are at most so many, by means of fewer blocks: that bounds the time and the table of readers.
_PAIRS = 2**24


@compiled
def sweep(noise: FloatArray, weights: FloatArray, room: float, k: int, arrays: KernelArrays) -> IntArray:
    """Cut a random order into pieces of equal work, move nodes in four sweeps, and list the blocks.

    Sweeps go against the edges and along them in turn, so that chains of nodes can move either way.

    Parameters
    ----------
    noise : (n,) floats
        Priorities of the order to start from; the sweeps follow it.
    weights : (f,) floats
        Of `FEATURES`.
    room : float
        Cost that a block should not exceed, positive, without memory overflow.
    k : int
    arrays : KernelArrays

    Returns
    -------
    (n,) integers
        A topological order that lists the blocks of the smallest bottleneck seen, one after another.
    """
    n = len(noise)
    k = max(1, min(k, n, _PAIRS // n))
    order = np.empty(n, dtype=np.int64)
    kahn_kernel(arrays.successor_start, arrays.successor, arrays.indegree, noise, order)
    state = start_state(_equal_pieces(order, k, arrays), order, k, arrays)
    before_start, before = _predecessors(arrays)
    node_unit = arrays.work.sum() / n
    node_unit = node_unit if node_unit > 0.0 else room
    columns = np.empty(len(weights))
    for step in range(_SWEEPS * n):
        i = step % n
        v = order[i if step // n % 2 else n - 1 - i]
        a = state.block[v]
        low, high = places_for(v, state, arrays, before_start, before)
        if low >= high:
            continue
        fair = state.time.sum() / room / k
        excess = state.time[a:].sum() / room - (k - a) * fair, state.time[: a + 1].sum() / room - (a + 1) * fair
        chosen, highest, times_then = a, -math.inf, (0.0, 0.0)
        for b in range(low, high + 1):
            times = (state.time[a], state.time[a]) if b == a else times_after(v, a, b, state, arrays)
            _describe(
                v, a, b, times, step / (_SWEEPS * n), room, node_unit, columns, state, arrays, before_start, before
            )
            columns[9] = 0.0 if b == a else excess[int(b > a)]
            score = 0.0
            for f in range(len(weights)):
                score += weights[f] * columns[f]
            if score > highest:
                chosen, highest, times_then = b, score, times
        if chosen != a:
            move(v, a, chosen, times_then, state, arrays)
            if state.time.max() < state.best[0]:
                state.best[0] = state.time.max()
                state.best_block[:] = state.block
    position = np.empty(n, dtype=np.int64)
    for i in range(n):
        position[order[i]] = i
    return np.argsort(state.best_block * n + position)


@compiled
def _equal_pieces(order: IntArray, k: int, arrays: KernelArrays) -> IntArray:
    block = np.zeros(len(order), dtype=np.int64)
    total, done = arrays.work.sum(), 0.0
    for v in order:
        if total > 0.0:
            block[v] = min(k - 1, int(k * (done / total)))
        done += arrays.work[v]
    return block


@compiled
def _predecessors(arrays: KernelArrays) -> tuple[IntArray, IntArray]:
    """Compressed rows of the nodes before each node."""
    n = len(arrays.indegree)
    start = np.zeros(n + 1, dtype=np.int64)
    start[1:] = np.cumsum(arrays.indegree)
    end, before = start[:-1].copy(), np.empty(len(arrays.successor), dtype=np.int64)
    for u in range(n):
        for e in range(arrays.successor_start[u], arrays.successor_start[u + 1]):
            v = arrays.successor[e]
            before[end[v]] = u
            end[v] += 1
    return start, before


@compiled(allocates=False)
def _describe(
    v: int,
    a: int,
    b: int,
    times: tuple[float, float],
    done: float,
    room: float,
    node_unit: float,
    columns: FloatArray,
    state: PartitionState,
    arrays: KernelArrays,
    before_start: IntArray,
    before: IntArray,
) -> None:
    """Fill in the columns but the last of a move of `v` from block a to block b, whose costs are `times` then."""
    neighbours = there = 0
    for e in range(before_start[v], before_start[v + 1]):
        neighbours += 1
        there += state.block[before[e]] == b
    for e in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
        neighbours += 1
        there += state.block[arrays.successor[e]] == b
    columns[:] = 0.0
    columns[6] = times[1] / room
    columns[7] = there / max(1, neighbours)
    if a == b:
        columns[0], columns[1] = 1.0, done
        return
    old = (state.time[a], state.time[b])
    powers = _power(times[0] / room) + _power(times[1] / room) - _power(old[0] / room) - _power(old[1] / room)
    columns[2], columns[3] = powers, powers * done
    columns[4] = (max(times[0], times[1]) - max(old[0], old[1])) / room
    columns[5] = (times[0] + times[1] - old[0] - old[1]) / node_unit
    columns[8] = abs(b - a) / len(state.time)


@compiled(allocates=False)
def _power(x: float) -> float:
    x *= x
    x *= x
    return x * x
