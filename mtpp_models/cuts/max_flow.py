r"""Maximum flows around blocks, compiled by numba.

The network of `mtpp_models.cuts.cuts` stands in compressed rows and is never rebuilt: a cut starts from a copy of
the capacities. Arcs into the sink are numbers at their nodes, the drains. The arcs that keep blocks convex run along
the edges of the graph and have no limit, so that two rows of booleans say which of them are there.

Flow is pushed along shortest paths, which stand in a tree that is mended where pushes have torn it (incremental
breadth-first search; Goldberg et al., 2011, here from the sources alone). The flow is feasible whenever it stops, so
its value is never above a cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import IntArray

BoolArray = NDArray[np.bool_]

#: Capacity of what must not be cut; sums of a few of them stay below 2^63.
UNLIMITED = 2**60
#: Of graphs with more nodes no pairs of nodes are looked at: their matrices would take gigabytes, and minutes.
MOST_PAIRED = 5_000

_FORWARD, _BACKWARD = 1, 2
# In the place of an arc or a node.
_ROOT, _NOBODY = -2, -1


class FlowNetwork(NamedTuple):
    """A flow network: arcs in compressed rows, each with its reverse; the nodes of the graph come first."""

    start: IntArray  # (N + 1,): the arcs of node v are ``start[v]`` to ``start[v + 1]``
    head: IntArray  # (a,): where each arc leads
    mate: IntArray  # (a,): the reverse of each arc
    along: NDArray[np.int8]  # (a,): 1 where an edge of the graph leads the same way, 2 where one leads back, else 0
    capacity: IntArray  # (a,)
    drain: IntArray  # (N,): capacity from each node to the sink

    @classmethod
    def of(
        cls, tail: IntArray, head: IntArray, forward: IntArray, backward: IntArray, edges: int, drain: IntArray
    ) -> FlowNetwork:
        """Network of arcs from `tail` to `head` with capacities forward and backward, and `drain` to the sink.

        The first `edges` arcs are edges of the graph.
        """
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
            np.concatenate((forward, backward))[by_tail],
            drain,
        )

    def with_supplies(self, n: int) -> tuple[FlowNetwork, IntArray]:
        """The network with one more node, the last, and (n,) the arcs, of capacity 0, from it to the first n nodes."""
        size = len(self.drain)
        arc, tail = np.arange(len(self.head)), np.repeat(np.arange(size), np.diff(self.start))
        edges = np.flatnonzero(self.along == _FORWARD)
        single = np.concatenate((edges, np.flatnonzero((self.along == 0) & (arc < self.mate))))
        nothing = np.zeros(n, dtype=np.int64)
        larger = FlowNetwork.of(
            np.concatenate((tail[single], np.full(n, size))),
            np.concatenate((self.head[single], np.arange(n))),
            np.concatenate((self.capacity[single], nothing)),
            np.concatenate((self.capacity[self.mate[single]], nothing)),
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
    """Augment a flow by at most `limit` from the sources to the sink; return the amount pushed.

    Parameters
    ----------
    residual, drain : integers
        Residual capacities of the arcs, and from the nodes to the sink; updated.
    sources : integers
    before, behind : (n,) booleans
        Nodes with a path to a pinned node, and nodes with a path from one; edges towards a pinned node are unlimited.
    reached : (N,) booleans
        Set to the source side of the smallest minimum cut, if less than `limit` was pushed.
    """
    if limit <= 0:
        return 0
    size = len(drain)
    paths = _Paths(
        np.full(size, size + 1),
        np.empty(size, dtype=np.int64),
        np.empty((2, size), dtype=np.int64),
        np.zeros(2, dtype=np.int64),
        np.full(size, _NOBODY),
        np.empty(size, dtype=np.int64),
    )
    return _pushed(network, residual, drain, sources, before, behind, limit, reached, paths)


class _Paths(NamedTuple):
    """Shortest paths from the sources to all nodes reached, as a tree."""

    level: IntArray  # (N,): number of arcs of the path; more than N where there is none
    parent: IntArray  # (N,): last arc of the path
    queue: IntArray  # (2, N): nodes of the current level and of the next one; even levels are in row 0, odd ones in 1
    waiting: IntArray  # (2,): number of nodes in each row
    orphan: IntArray  # (N,): head of the list of each level's orphans, nodes that have lost their last arc
    following: IntArray  # (N,): next orphan in the list


# Kernels that make no arrays: with reference counts they take twice as long.
@compiled(allocates=False)
def _pushed(
    network: FlowNetwork,
    residual: IntArray,
    drain: IntArray,
    sources: IntArray,
    before: BoolArray,
    behind: BoolArray,
    limit: int,
    reached: BoolArray,
    paths: _Paths,
) -> int:
    """Total flow pushed along shortest paths, at most `limit`; arguments are those of `augment`, `paths` is empty."""
    start, head, along = network.start, network.head, network.along
    level, parent, queue, waiting = paths.level, paths.parent, paths.queue, paths.waiting
    nowhere = len(drain) + 1
    for v in sources:
        parent[v] = _ROOT
        _enqueue(v, 0, paths)
    total, depth = 0, 0
    while waiting[depth % 2] > 0:
        waiting[(depth + 1) % 2] = 0
        torn = True
        while torn:
            torn = False
            for i in range(waiting[depth % 2]):
                v, pushed = queue[depth % 2, i], 1
                while pushed > 0 and drain[v] > 0 and level[v] == depth:
                    pushed = _push(v, min(drain[v], limit - total), network, residual, before, behind, paths)
                    drain[v] -= pushed
                    total += pushed
                    if total == limit:
                        return total
                torn |= pushed == 0
            _mend(depth, network, residual, before, behind, paths)
        for i in range(waiting[depth % 2]):
            v = queue[depth % 2, i]
            for a in range(start[v], start[v + 1] if level[v] == depth else start[v]):
                w = head[a]
                if level[w] == nowhere and _is_open(a, w, residual, along, before, behind):
                    parent[w] = a
                    _enqueue(w, depth + 1, paths)
        depth += 1
    for v in range(len(reached)):
        reached[v] = level[v] < nowhere
    return total


@compiled(allocates=False)
def _enqueue(v: int, level: int, paths: _Paths) -> None:
    """Set the level of node `v` and append it to the queue of that level."""
    row = level % 2
    paths.level[v] = level
    paths.queue[row, paths.waiting[row]] = v
    paths.waiting[row] += 1


@compiled(allocates=False)
def _push(
    v: int, amount: int, network: FlowNetwork, residual: IntArray, before: BoolArray, behind: BoolArray, paths: _Paths
) -> int:
    """Flow pushed along the path to `v`, at most `amount`; 0 if an orphan lies on the path.

    Nodes whose arc in the tree is then full become orphans.
    """
    head, mate, along, parent = network.head, network.mate, network.along, paths.parent
    u = v
    while parent[u] != _ROOT:
        if parent[u] == _NOBODY:
            return 0
        if not _is_unlimited(parent[u], u, along, before, behind):
            amount = min(amount, residual[parent[u]])
        u = head[mate[parent[u]]]
    while parent[v] != _ROOT:
        a = parent[v]
        residual[a] -= amount
        residual[mate[a]] += amount
        if not _is_open(a, v, residual, along, before, behind):
            _abandon(v, paths)
        v = head[mate[a]]
    return amount


@compiled(allocates=False)
def _abandon(v: int, paths: _Paths) -> None:
    """Take the arc to `v` out of the tree: `v` becomes an orphan of its level."""
    paths.parent[v] = _NOBODY
    paths.following[v] = paths.orphan[paths.level[v]]
    paths.orphan[paths.level[v]] = v


@compiled(allocates=False)
def _mend(
    depth: int, network: FlowNetwork, residual: IntArray, before: BoolArray, behind: BoolArray, paths: _Paths
) -> None:
    """Find new shortest paths for orphans, level by level up to `depth`; those further away leave the tree for now."""
    start, head, mate, along = network.start, network.head, network.mate, network.along
    level, parent, orphan = paths.level, paths.parent, paths.orphan
    for height in range(1, depth + 1):
        while orphan[height] != _NOBODY:
            v = orphan[height]
            orphan[height] = paths.following[v]
            least, arc = len(level), 0
            for a in range(start[v], start[v + 1]):
                w = head[a]
                if level[w] < least and _is_open(mate[a], v, residual, along, before, behind):
                    least, arc = level[w], mate[a]
                    if least == height - 1:
                        break
            if least == height - 1:
                parent[v] = arc
                continue
            for a in range(start[v], start[v + 1]):
                if parent[head[a]] == a and level[head[a]] == height + 1:
                    _abandon(head[a], paths)
            if least < depth:
                level[v] = least + 1
                _abandon(v, paths)
                if least + 1 == depth:
                    _enqueue(v, depth, paths)
            else:
                level[v] = len(level) + 1


@compiled(inline="always")
def _is_unlimited(a: int, w: int, along: NDArray[np.int8], before: BoolArray, behind: BoolArray) -> bool:
    """Whether arc `a` to node `w` has unlimited capacity: cutting it would leave a block that is not convex."""
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
    """(n,) booleans: whether a path, maybe of no edge, leads from one of `nodes` to each node.

    The successors are compressed rows; with predecessors in their place, paths lead backwards.
    """
    reached = np.zeros(len(start) - 1, dtype=np.bool_)
    queue, size = np.empty(len(reached), dtype=np.int64), 0
    for v in nodes:
        if not reached[v]:
            reached[v], queue[size] = True, v
            size += 1
    i = 0
    while i < size:
        v = queue[i]
        i += 1
        for a in range(start[v], start[v + 1]):
            w = after[a]
            if not reached[w]:
                reached[w], queue[size] = True, w
                size += 1
    return reached
