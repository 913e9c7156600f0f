r"""Maximum flows around blocks, compiled by numba.

The network of `mtpp_models.cuts.block_cuts` stands in compressed rows and is never rebuilt: a cut starts from a copy of
the capacities. Arcs into the sink are numbers at their nodes, the drains. The arcs that keep blocks convex run along
the edges of the graph and have no limit, so that two rows of booleans say which of them are there.

The algorithm is Dinic's (1970): all shortest augmenting paths, then longer ones. Its flow is feasible whenever it
stops, so its value is never above a cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import IntArray

__all__ = ["MOST_PAIRED", "UNLIMITED", "BoolArray", "FlowNetwork", "augment", "reachability", "reached_from"]

BoolArray = NDArray[np.bool_]

#: Capacity of what must not be cut; sums of a few of them stay below 2^63.
UNLIMITED = 2**60
#: Of graphs with more nodes no pairs of nodes are looked at: their matrices would take gigabytes, and minutes.
MOST_PAIRED = 5_000

_FORWARD, _BACKWARD = 1, 2


class FlowNetwork(NamedTuple):
    """Arcs in compressed rows, each beside its reverse; the nodes of the graph come first."""

    start: IntArray  # (N + 1,): the arcs of node v are ``start[v]`` to ``start[v + 1]``
    head: IntArray  # (a,): where each arc leads
    mate: IntArray  # (a,): the reverse of each arc
    along: NDArray[np.int8]  # (a,): 1 where an edge of the graph leads the same way, 2 where one leads back, else 0
    capacity: IntArray  # (a,)
    drain: IntArray  # (N,): capacity from each node to the sink

    @classmethod
    def of(
        cls, tail: IntArray, head: IntArray, there: IntArray, back: IntArray, edges: int, drain: IntArray
    ) -> FlowNetwork:
        """Sort arcs from `tail` to `head` with their capacities there and back; the first `edges` are edges."""
        count = len(tail)
        tails, heads = np.concatenate((tail, head)), np.concatenate((head, tail))
        along = np.zeros(2 * count, dtype=np.int8)
        along[:edges], along[count : count + edges] = _FORWARD, _BACKWARD
        by_tail = np.argsort(tails, kind="stable")
        place = np.argsort(by_tail)
        return cls(
            np.searchsorted(tails[by_tail], np.arange(len(drain) + 1)),
            heads[by_tail],
            np.roll(place, count)[by_tail],
            along[by_tail],
            np.concatenate((there, back))[by_tail],
            drain,
        )

    def with_supplies(self, n: int) -> tuple[FlowNetwork, IntArray]:
        """The same network with one more node, the last, and (n,) its arcs of capacity 0 to the first n nodes."""
        size = len(self.drain)
        arc, tail = np.arange(len(self.head)), np.repeat(np.arange(size), np.diff(self.start))
        edges = np.flatnonzero(self.along == _FORWARD)
        kept = np.concatenate((edges, np.flatnonzero((self.along == 0) & (arc < self.mate))))
        nothing = np.zeros(n, dtype=np.int64)
        larger = FlowNetwork.of(
            np.concatenate((tail[kept], np.full(n, size))),
            np.concatenate((self.head[kept], np.arange(n))),
            np.concatenate((self.capacity[kept], nothing)),
            np.concatenate((self.capacity[self.mate[kept]], nothing)),
            len(edges),
            np.append(self.drain, 0),
        )
        arcs = np.arange(larger.start[size], larger.start[size + 1])
        return larger, arcs[np.argsort(larger.head[arcs])]


@compiled
def augment(
    network: FlowNetwork,
    residual: IntArray,
    drain: IntArray,
    sources: IntArray,
    before: BoolArray,
    behind: BoolArray,
    limit: int,
    reached: BoolArray,
) -> int:
    """Push up to `limit` from the sources to the sink.

    Parameters
    ----------
    network : FlowNetwork
    residual, drain : integers
        What the arcs and the ways to the sink still carry; updated.
    sources : integers
    before, behind : (n,) booleans
        Nodes from which the way to a source, or to which the way from a source, must stay within the block.
    limit : int
    reached : (N,) booleans
        Set to the source side of the smallest minimum cut, if less than `limit` was pushed.
    """
    start, head, mate, along = network.start, network.head, network.mate, network.along
    level = np.full(len(drain), -1, dtype=np.int64)
    cursor = np.empty(len(drain), dtype=np.int64)
    queue = np.empty(len(drain), dtype=np.int64)
    path = np.empty(len(drain), dtype=np.int64)
    total = 0
    while total < limit:
        size = 0
        for v in sources:
            level[v], queue[size] = 0, v
            size += 1
        last, i = -1, 0
        while i < size and last < 0:
            v = queue[i]
            i += 1
            if drain[v] > 0:
                last = level[v]
                break
            for a in range(start[v], start[v + 1]):
                w = head[a]
                if level[w] < 0 and _is_open(a, w, residual, along, before, behind):
                    level[w], queue[size] = level[v] + 1, w
                    size += 1
        if last < 0:
            reached[:] = level >= 0
            return total
        for i in range(size):
            cursor[queue[i]] = start[queue[i]]
        for source in sources:
            v, depth = source, 0
            while total < limit:
                if drain[v] > 0 and depth == last:
                    amount = min(drain[v], limit - total)
                    for i in range(depth):
                        a = path[i]
                        if not _is_unlimited(a, head[a], along, before, behind):
                            amount = min(amount, residual[a])
                    drain[v] -= amount
                    total += amount
                    for i in range(depth - 1, -1, -1):
                        a = path[i]
                        residual[a] -= amount
                        residual[mate[a]] += amount
                        if not _is_open(a, head[a], residual, along, before, behind):
                            depth, v = i, head[mate[a]]
                    continue
                advanced = False
                while depth < last and cursor[v] < start[v + 1]:
                    a = cursor[v]
                    w = head[a]
                    if level[w] == depth + 1 and _is_open(a, w, residual, along, before, behind):
                        path[depth] = a
                        depth += 1
                        v = w
                        advanced = True
                        break
                    cursor[v] += 1
                if advanced:
                    continue
                if depth == 0:
                    break
                depth -= 1
                v = head[mate[path[depth]]]
                cursor[v] += 1
        for i in range(size):
            level[queue[i]] = -1
    return total


@compiled(inline="always")
def _is_unlimited(a: int, w: int, along: NDArray[np.int8], before: BoolArray, behind: BoolArray) -> bool:
    """Whether arc a to w keeps the block convex."""
    return (along[a] == _FORWARD and before[w]) or (along[a] == _BACKWARD and behind[w])


@compiled(inline="always")
def _is_open(a: int, w: int, residual: IntArray, along: NDArray[np.int8], before: BoolArray, behind: BoolArray) -> bool:
    return residual[a] > 0 or _is_unlimited(a, w, along, before, behind)


@compiled
def reachability(start: IntArray, after: IntArray, order: IntArray) -> BoolArray:
    """(n, n) booleans: whether a path, maybe of no edge, leads from the row to the column.

    The successors are compressed rows; the order, (n,), is topological.
    """
    n = len(order)
    reach = np.zeros((n, n), dtype=np.bool_)
    for i in range(n - 1, -1, -1):
        v = order[i]
        reach[v, v] = True
        for a in range(start[v], start[v + 1]):
            w = after[a]
            if not reach[v, w]:
                reach[v] |= reach[w]
    return reach


@compiled
def reached_from(start: IntArray, after: IntArray, nodes: IntArray) -> BoolArray:
    """(n,) booleans: whether a path, maybe of no edge, leads from one of the nodes there.

    The successors are compressed rows; with predecessors, paths lead backwards.
    """
    found = np.zeros(len(start) - 1, dtype=np.bool_)
    queue, size = np.empty(len(found), dtype=np.int64), 0
    for v in nodes:
        if not found[v]:
            found[v], queue[size] = True, v
            size += 1
    i = 0
    while i < size:
        v = queue[i]
        i += 1
        for a in range(start[v], start[v + 1]):
            w = after[a]
            if not found[w]:
                found[w], queue[size] = True, w
                size += 1
    return found
