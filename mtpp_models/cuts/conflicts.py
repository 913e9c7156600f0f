r"""Rows that strengthen models: cliques of conflicts, uncut edges and windows.

**Pairs of nodes that no cheap partition puts into one block.**

A block that holds u and v is a convex set around both, so it costs at least :math:`L(\{u, v\})`, the minimum cut of
`mtpp_models.cuts.cuts` around u, v and all nodes between them. If that is T or more, u and v lie in different
blocks of every partition with a bottleneck below T.

A convex set S that holds u and v and has f(S) < T shows that :math:`L(\{u, v\}) < T`: it satisfies whatever the cut
asks for. So one such set clears all its pairs, and most pairs need no cut; see `mtpp_models.cuts.cuts`.

**Edges that no cheap partition cuts.**

If the ends u and v of an edge lie in different blocks, the block of u holds u and not v, and the block of v holds v
and not u. So if

.. math:: \min \{ f(S) : u \in S, v \notin S \} \ge T  \quad\text{or}\quad  \min \{ f(S) : v \in S, u \notin S \} \ge T,

every partition with a bottleneck below T keeps u and v together, and with them whatever lies between. Merging them
leaves a smaller graph with :math:`\mathrm{OPT} \ge \min(T, \mathrm{OPT}_\mathrm{merged})`; a partition of bottleneck T
itself may be lost, so it is kept outside.

A convex set that costs less than T answers the question for all edges that lead into it or out of it, so that few need
a cut of their own.

**Blocks that a node can be in.**

If node v lies in one of the first s blocks, these hold an ideal I, a set without edges into it, around v. Merging them
saves tensors, so that in a partition with a bottleneck below T

.. math:: \mathrm{work}(I) + \mathrm{out}(I) \le \sum_{b \le s} \mathrm{block}_b < s\, T,

where out(I) is the time of all tensors that leave I; overflow only adds to it. The least of the left sides over all
ideals around v is a minimum cut, and so is that over the sets without edges out of them, for the last s blocks. Of two
nodes that cannot share a block, the later one lies at least one block behind. Windows of the question's own are where
all this begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from instances import Instance
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import IntArray, components
from instances.partitioning.symmetry import Contraction, merge
from mtpp_models.cuts.cuts import UNIT, BlockCuts, PairCuts
from mtpp_models.cuts.max_flow import BoolArray, augment

# Large cliques by a greedy method, compiled by numba.


# Nodes from which a search starts.
_SEEDS = 20


@compiled
def core(adjacent: BoolArray, degree: int) -> BoolArray:
    """(n,) the largest set of nodes that each have at least `degree` neighbours in it.

    `adjacent`, (n, n), is symmetric and without loops.
    """
    n = len(adjacent)
    inside = np.ones(n, dtype=np.bool_)
    neighbours = np.empty(n, dtype=np.int64)
    for v in range(n):
        neighbours[v] = adjacent[v].sum()
    queue = np.empty(n, dtype=np.int64)
    size = done = 0
    for v in range(n):
        if neighbours[v] < degree:
            inside[v], queue[size] = False, v
            size += 1
    while done < size:
        row = adjacent[queue[done]]
        done += 1
        for v in range(n):
            if row[v]:
                neighbours[v] -= 1
                if inside[v] and neighbours[v] < degree:
                    inside[v], queue[size] = False, v
                    size += 1
    return inside


@compiled
def find_clique(adjacent: BoolArray, size: int) -> IntArray | None:
    """(size,) a clique of `size` nodes, at least 1; None if the greedy search has no success.

    Starting from each of the nodes with most neighbours, it adds the node that leaves most candidates. `adjacent`,
    (n, n), is symmetric and without loops.
    """
    n = len(adjacent)
    inside = core(adjacent, size - 1)
    neighbours = np.zeros(n, dtype=np.int64)
    for v in range(n):
        if inside[v]:
            neighbours[v] = (adjacent[v] & inside).sum()
    seeds = np.argsort(-neighbours, kind="mergesort")[: min(_SEEDS, inside.sum())]
    clique, among = np.empty(size, dtype=np.int64), np.empty(n, dtype=np.int64)
    for seed in seeds:
        clique[0], count = seed, 1
        candidates = adjacent[seed] & inside
        for v in range(n):
            among[v] = (adjacent[v] & candidates).sum() if candidates[v] else -1
        remaining = candidates.sum()
        while count < size and count + remaining >= size:
            chosen = np.argmax(among)
            clique[count] = chosen
            count += 1
            for w in range(n):
                if candidates[w] and not adjacent[chosen, w]:
                    candidates[w], among[w] = False, -1
                    remaining -= 1
                    for v in range(n):
                        if candidates[v] and adjacent[w, v]:
                            among[v] -= 1
        if count == size:
            return clique
    return None


def conflicts(instance: Instance, cutoff: float, deadline: Deadline | None = None) -> IntArray:
    """All pairs of nodes that, by minimum cuts, lie in different blocks of every partition below `cutoff`.

    Pairs (u, v), the rows of (c, 2) integers, have u < v and are sorted.

    Parameters
    ----------
    instance : Instance
        The question; its constraints are ignored.
    cutoff : float
        T, positive.
    deadline : Deadline, optional
        Soon after it, the pairs proved so far are returned.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 1, 3], output_bytes=[1, 1, 0])
    >>> conflicts(Instance(graph, Platform(k=2, bandwidth=1)), cutoff=4.5).tolist()
    [[0, 2], [1, 2]]
    """
    deadline = deadline or Deadline()
    pairs = PairCuts(BlockCuts(instance, cutoff), UNIT - 1, deadline)
    for u in range(instance.graph.n):
        if not pairs.resolve(u, deadline):
            break
    return np.argwhere(np.triu(pairs.cost) > 0)


def join(instance: Instance, cutoff: float, deadline: Deadline | None = None) -> Contraction:
    """Contraction of all edges that no partition with a bottleneck below `cutoff`, T > 0, cuts.

    Soon after the deadline, the contraction of the edges proved so far is returned.
    """
    deadline, cuts = deadline or Deadline(), BlockCuts(instance, cutoff)
    edges = np.unique(instance.graph.edges, axis=0)
    u, v = edges.T
    cheap = cuts.alone() < cutoff
    # Whether a set below the cutoff holds one end and not the other.
    without_v, without_u = cheap[u], cheap[v]
    joined = []
    for e, (a, b) in enumerate(edges.tolist()):
        if deadline.passed:
            break
        for inside, outside, settled in ((a, b, without_v), (b, a, without_u)):
            if settled[e]:
                continue
            cost, nodes = cuts.cut([inside], without=outside)
            if cost >= cutoff:
                joined.append((a, b))
                break
            if cuts.is_convex(nodes):
                without_v |= nodes[u] & ~nodes[v]
                without_u |= nodes[v] & ~nodes[u]
    return merge(instance, _components(instance, np.array(joined, dtype=np.int64).reshape(-1, 2)))


def _components(instance: Instance, joined: IntArray) -> IntArray:
    """(n,) group of each node: joined nodes share one, and so do all nodes on paths between two of a group."""
    n, edges = instance.graph.n, instance.graph.edges
    both_ways = np.concatenate((edges, joined, joined[:, ::-1]))
    return components(both_ways, n, directed=True)


#: More than the rounding of a sum of floats.
_ROUNDING = 1e-12


class BlockWindows(NamedTuple):
    """First and last (super)block of each node, from 1; two (n,) arrays."""

    first: IntArray
    last: IntArray


def allowed_windows(instance: Instance, sizes: Sequence[int]) -> BlockWindows | None:
    """First and last superblock of each node by the constraints; None without constraints.

    `sizes` are the numbers of blocks in the superblocks.
    """
    if not instance.constraints:
        return None
    home = np.repeat(np.arange(1, len(sizes) + 1), sizes)
    return BlockWindows(home[instance.rules.first], home[instance.rules.last])


def windows(
    instance: Instance, cutoff: float, apart: IntArray | None = None, deadline: Deadline | None = None
) -> BlockWindows:
    """First and last block of each node in all partitions with a bottleneck below `cutoff`.

    Parameters
    ----------
    instance : Instance
        With any number of blocks up to its k, empty ones anywhere.
    cutoff : float
        T, positive.
    apart : (c, 2) integers, optional
        Pairs of nodes that cannot share a block; see `mtpp_models.cuts.conflicts`.
    deadline : Deadline, optional
        After it, no more cuts are computed and windows follow from work alone.

    Returns
    -------
    BlockWindows
        The first block is behind the last one where there is no such partition.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 2, 2], output_bytes=[1, 1, 0])
    >>> first, last = windows(Instance(graph, Platform(k=3, bandwidth=1)), cutoff=4.9)
    >>> first.tolist(), last.tolist()
    ([1, 2, 2], [2, 2, 3])
    """
    n, k, work = instance.graph.n, instance.k, instance.graph.work
    deadline, cuts = deadline or Deadline(), BlockCuts(instance, k * cutoff)
    before = np.zeros((n, n), dtype=bool)
    if apart is not None:
        before[tuple(apart.T)] = before[tuple(apart.T[::-1])] = True
    before &= cuts.reach  # u before v, and not in one block
    first, last = allowed_windows(instance, (1,) * k) or (np.ones(n, dtype=np.int64), np.full(n, k))
    order = instance.graph.topological_order
    for v in order:
        ahead = max(float(work @ cuts.reach_back[v]), _least(cuts, v, deadline, ideal=True))
        first[v] = max(_blocks(ahead, cutoff), first[cuts.reach_back[v]].max(), first[before[:, v]].max(initial=0) + 1)
    for v in order[::-1]:
        behind = max(float(work @ cuts.reach[v]), _least(cuts, v, deadline, ideal=False))
        last[v] = min(
            k + 1 - _blocks(behind, cutoff), last[cuts.reach[v]].min(), last[before[v]].min(initial=k + 1) - 1
        )
    return BlockWindows(first, last)


def _blocks(cost: float, cutoff: float) -> int:
    """Least number of blocks, each below the cutoff, that together cost `cost`."""
    return int(cost / cutoff * (1 - _ROUNDING)) + 1


def _least(cuts: BlockCuts, v: int, deadline: Deadline, *, ideal: bool) -> float:
    """Lower bound on the cost [time unit] of an ideal with `v`, or, if not `ideal`, of a set without outgoing edges.

    It is 0 if time is up.
    """
    if deadline.passed:
        return 0.0
    network, n = cuts.network, len(cuts.reach)
    every, none = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
    before, behind = (none, every) if ideal else (every, none)
    reached = np.zeros(len(network.drain), dtype=bool)
    flow = augment(network, network.capacity.copy(), network.drain.copy(), np.array([v]), before, behind, UNIT, reached)
    return float(cuts.scaled(flow))
