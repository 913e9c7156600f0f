"""Search for one block that is worth much and costs little, compiled by numba.

A block is a convex set of nodes: whatever lies on a path between two of its nodes belongs to it. A move adds a node
or takes one out, mostly of the block or beside it: few others are of use. For each node the ancestors and the
descendants that it has in the block are counted, and sets are kept as bits, so that whether a move leaves the set
convex takes n / 64 steps; its cost takes time proportional to the degree.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import ComputationGraph
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays
from mtpp_models.bounds.priced.block_cost import LeastOverflow
from mtpp_models.cuts.max_flow import BoolArray, reachability

__all__ = ["Relations", "heaviest_block"]

_WORD = 64
_STEEP = 8.0
# Parts of the moves that try any node, and one of the block; the others try what is beside such a one.
_ANY, _INSIDE = 0.1, 0.3


class _Members(NamedTuple):
    """The nodes of a block as a list, from which one is drawn in constant time."""

    nodes: IntArray  # (n,)
    place: IntArray  # (n,): where each node of the block stands in it
    size: IntArray  # (1,)


class Relations(NamedTuple):
    """Pairs of nodes that are connected by a path."""

    reach: BoolArray  # (n, n): whether a path leads from the row to the column
    behind: NDArray[np.uint64]  # (n, n / 64): what each node reaches, as bits
    before: NDArray[np.uint64]  # (n, n / 64): what reaches each node, as bits

    @classmethod
    def of(cls, graph: ComputationGraph) -> Relations:
        """Follow all paths of a graph; a node does not reach itself."""
        reach = reachability(*graph.successors, graph.topological_order)
        np.fill_diagonal(reach, False)
        return cls(reach, _bits(reach), _bits(reach.T))


def _bits(rows: BoolArray) -> NDArray[np.uint64]:
    padded = np.zeros((len(rows), -(-rows.shape[1] // _WORD) * _WORD), dtype=bool)
    padded[:, : rows.shape[1]] = rows
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


@compiled(nogil=True)
def heaviest_block(
    inside: BoolArray,
    price: FloatArray,
    ceiling: float,
    arrays: KernelArrays,
    overflow: LeastOverflow,
    relations: Relations,
    moves: int,
    hot: float,
    cold: float,
    penalty: float,
    seed: int,
) -> tuple[float, BoolArray]:
    """Search for a block of high price that costs at most `ceiling`, by annealing.

    Parameters
    ----------
    inside : (n,) booleans
        The convex set to begin with.
    price : (n,) floats
        Not negative.
    ceiling : float
        Positive.
    overflow : LeastOverflow
        Counts in the cost.
    hot, cold : float
        Temperatures, in the unit of the prices, at the first move and at the last.
    penalty : float
        What a cost above the ceiling takes from the price, for each part of the ceiling.

    Returns
    -------
    tuple
        The price of the best block seen and its nodes; -1 if all cost more than `ceiling`.
    """
    np.random.seed(seed)
    n, words = len(inside), relations.behind.shape[1]
    reads, uses = np.zeros(len(arrays.tensor_time), dtype=np.int32), np.zeros(len(overflow.shared), dtype=np.int32)
    ancestors, descendants = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
    # Bits: the block, what reaches into it, and what it reaches.
    block, above, below = np.zeros(words, np.uint64), np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    given, inside = inside, np.zeros(n, dtype=np.bool_)
    members = _Members(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(1, np.int64))
    # Without overflow, what the nodes stream, their largest excess, and the price.
    moved, streamed, excess, value = 0.0, 0.0, -math.inf, 0.0
    for v in range(n):
        if not given[v]:
            continue
        moved += _cost_of_joining(v, inside, reads, arrays, 0)
        streamed, excess = streamed + _stream_of(v, uses, overflow, 0), max(excess, overflow.excess[v])
        _use(v, 1, uses, overflow)
        value += price[v]
        _flip(v, inside, members, reads, ancestors, descendants, block, above, below, arrays, relations)
    best, best_inside, cost = -1.0, inside.copy(), moved + max(0.0, streamed + excess)
    if cost <= ceiling:
        best = value
    temperature, cooling = hot, (cold / hot) ** (1.0 / moves)
    for _ in range(moves):
        temperature *= cooling
        v = _draw(members, arrays)
        sign = -1.0 if inside[v] else 1.0
        new_moved = moved + sign * _cost_of_joining(v, inside, reads, arrays, 1 if inside[v] else 0)
        new_streamed = streamed + sign * _stream_of(v, uses, overflow, 1 if inside[v] else 0)
        new_excess = _excess_without(v, excess, members, overflow) if inside[v] else max(excess, overflow.excess[v])
        new_cost = new_moved + max(0.0, new_streamed + new_excess)
        rise = sign * price[v] - _fine(new_cost / ceiling, penalty) + _fine(cost / ceiling, penalty)
        if rise < 0 and np.random.random() >= math.exp(rise / temperature):
            continue
        if inside[v]:
            if ancestors[v] > 0 and descendants[v] > 0:
                continue
        elif not _fits(v, block, above, below, relations):
            continue
        _use(v, -1 if inside[v] else 1, uses, overflow)
        _flip(v, inside, members, reads, ancestors, descendants, block, above, below, arrays, relations)
        moved, streamed, excess = new_moved, new_streamed, new_excess
        cost, value = new_cost, value + sign * price[v]
        if value > best and cost <= ceiling:
            best = value
            best_inside[:] = inside
    return best, best_inside


@compiled(allocates=False)
def _draw(members: _Members, arrays: KernelArrays) -> int:
    """A random node: any of the graph (`_ANY`), one of the block (`_INSIDE`), else a neighbour of one of the block."""
    part, size = np.random.random(), members.size[0]
    if size == 0 or part < _ANY:
        return np.random.randint(len(members.nodes))
    u = members.nodes[np.random.randint(size)]
    first, begin = arrays.successor_start[u], arrays.input_start[u]
    behind, before = arrays.successor_start[u + 1] - first, arrays.input_start[u + 1] - begin
    if part < _ANY + _INSIDE or behind + before == 0:
        return int(u)
    i = np.random.randint(behind + before)
    if i < behind:
        return int(arrays.successor[first + i])
    return int(arrays.producer[arrays.input_tensor[begin + i - behind]])


@compiled(inline="always")
def _fine(cost: float, penalty: float) -> float:
    """Penalty for a cost, in multiples of the ceiling: 0 up to 1, then linear and quadratic.

    The quadratic part grows faster than any economy of scale, so no set far above the ceiling pays.
    """
    over = max(0.0, cost - 1.0)
    return penalty * over * (1.0 + _STEEP * over)


@compiled
def _fits(
    v: int, block: NDArray[np.uint64], above: NDArray[np.uint64], below: NDArray[np.uint64], relations: Relations
) -> bool:
    """Whether the block with `v` is convex: no node outside of it lies on a path between `v` and the block."""
    for w in range(len(block)):
        between = (relations.behind[v, w] & above[w]) | (relations.before[v, w] & below[w])
        if between & ~block[w]:
            return False
    return True


@compiled
def _flip(
    v: int,
    inside: BoolArray,
    members: _Members,
    reads: NDArray[np.int32],
    ancestors: NDArray[np.int32],
    descendants: NDArray[np.int32],
    block: NDArray[np.uint64],
    above: NDArray[np.uint64],
    below: NDArray[np.uint64],
    arrays: KernelArrays,
    relations: Relations,
) -> None:
    """Add `v` to the block, or remove it if it is there; all counts and bits follow."""
    inside[v] = not inside[v]
    step = 1 if inside[v] else -1
    if inside[v]:
        members.nodes[members.size[0]], members.place[v] = v, members.size[0]
    else:  # the last one takes its place
        last, place = members.nodes[members.size[0] - 1], members.place[v]
        members.nodes[place], members.place[last] = last, place
    members.size[0] += step
    block[v // _WORD] ^= np.uint64(1) << np.uint64(v % _WORD)
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        reads[arrays.input_tensor[e]] += step
    for u in range(len(inside)):
        if relations.reach[v, u]:
            _count(u, step, ancestors, below)
        if relations.reach[u, v]:
            _count(u, step, descendants, above)


@compiled(allocates=False)
def _count(u: int, step: int, counts: NDArray[np.int32], positive: NDArray[np.uint64]) -> None:
    """Add `step` to the count of node `u`, and set its bit in `positive` exactly if the count is positive."""
    counts[u] += step
    bit = np.uint64(1) << np.uint64(u % _WORD)
    if counts[u] > 0:
        positive[u // _WORD] |= bit
    else:
        positive[u // _WORD] &= ~bit


@compiled(allocates=False)
def _stream_of(v: int, uses: NDArray[np.int32], overflow: LeastOverflow, counted: int) -> float:
    """Time to stream what the block holds for `v` alone; `counted` is 1 if `uses` counts `v` already, else 0."""
    time = overflow.stream[v]
    for i in range(overflow.start[v], overflow.start[v + 1]):
        if uses[overflow.used[i]] == counted:
            time += overflow.shared[overflow.used[i]]
    return float(time)


@compiled(allocates=False)
def _use(v: int, change: int, uses: NDArray[np.int32], overflow: LeastOverflow) -> None:
    """Add `change` (1 or -1) to the number of nodes in the block that use each parameter of `v`."""
    for i in range(overflow.start[v], overflow.start[v + 1]):
        uses[overflow.used[i]] += change


@compiled(allocates=False)
def _excess_without(v: int, excess: float, members: _Members, overflow: LeastOverflow) -> float:
    """The largest excess of the nodes of the block but `v`, of which `excess` is the largest of all."""
    if overflow.excess[v] < excess:
        return excess
    largest = -math.inf
    for place in range(members.size[0]):
        u = members.nodes[place]
        if u != v:
            largest = max(largest, overflow.excess[u])
            if largest == excess:
                break
    return largest


@compiled
def _cost_of_joining(v: int, inside: BoolArray, reads: NDArray[np.int32], arrays: KernelArrays, counted: int) -> float:
    """Cost of the block with `v` less that without; `counted` is 1 if `reads` counts `v` already, else 0."""
    cost = arrays.work[v]
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        t = arrays.input_tensor[e]
        others = reads[t] - counted
        if inside[arrays.producer[t]]:
            if others == arrays.readers[t] - 1:  # v is the last reader outside
                cost -= arrays.tensor_time[t]
        elif others == 0:
            cost += arrays.tensor_time[t]
    for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
        if reads[t] < arrays.readers[t]:
            cost += arrays.tensor_time[t]
        if reads[t] > 0:
            cost -= arrays.tensor_time[t]
    return cost
