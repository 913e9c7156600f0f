"""Multilevel search: coarser graphs, pools of partitions, refinement."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from heuristics.local_search.annealing import Budget, Walker, best_of
from heuristics.orders.orders import kahn
from heuristics.orders.slicing import slice_order
from instances import Instance, Partition
from instances.compiled import compiled
from instances.errors import InputError, NothingFoundError
from instances.graph.tensors import FloatArray, IntArray, sums_by
from instances.partitioning.symmetry import Contraction, merge

# Pairs of nodes that may become one without a cycle, compiled by numba.


_Words = NDArray[np.uint64]


@compiled
def join_by_reach(
    source: IntArray,
    reader: IntArray,
    order: IntArray,
    size: FloatArray,
    limit: FloatArray,
    kind: IntArray,
    target: int,
) -> IntArray:
    """Merge the ends of edges, one edge after the other, unless a path joins both through a third cluster.

    Parameters
    ----------
    source, reader : (m,) integers
        Distinct edges.
    order : (n,) integers
        A topological order.
    size : (q, n) floats
        Sizes that are summed over a cluster, such as work and bytes.
    limit : (q,) floats
        Largest sum allowed in a cluster.
    kind : (n,) integers
        Only nodes of one kind are joined.
    target : int
        Number of clusters at which to stop.

    Returns
    -------
    (n,) integers
        For each node, one node of its cluster, the same for all members.
    """
    n = len(order)
    after, before = _reach(source, reader, order)
    cluster, total = np.arange(n), size.copy()
    remaining = n
    for e in range(len(source)):
        if remaining <= target:
            break
        a, b = _root(source[e], cluster), _root(reader[e], cluster)
        if a == b or kind[a] != kind[b] or not _is_room(a, b, total, limit) or _meet(after[a], before[b]):
            continue
        _join(a, b, after, before)
        _merge(a, b, cluster, total)
        remaining -= 1
    _name_roots(cluster)
    return cluster


@compiled
def join_by_degree(
    source: IntArray, reader: IntArray, size: FloatArray, limit: FloatArray, kind: IntArray, target: int
) -> IntArray:
    """Join each node with a single predecessor to that predecessor, in the order of the edges.

    All edges into a cluster end at its first node, which reaches its other nodes, so no cycle arises. Parameters are
    those of `join_by_reach`; for nodes with a single successor, reverse the edges.
    """
    n = size.shape[1]
    degree, cluster, total = np.zeros(n, dtype=np.int64), np.arange(n), size.copy()
    for v in reader:
        degree[v] += 1
    remaining = n
    for e in range(len(source)):
        if remaining <= target:
            break
        if degree[reader[e]] != 1:
            continue
        a, b = _root(source[e], cluster), _root(reader[e], cluster)
        if kind[a] != kind[b] or not _is_room(a, b, total, limit):
            continue
        _merge(a, b, cluster, total)
        remaining -= 1
    _name_roots(cluster)
    return cluster


@compiled
def _reach(source: IntArray, reader: IntArray, order: IntArray) -> tuple[_Words, _Words]:
    """Two (n, w) tables of bits, 64 nodes an entry: the descendants of each node, and its ancestors."""
    n = len(order)
    words = (n + 63) // 64
    after, before = np.zeros((n, words), dtype=np.uint64), np.zeros((n, words), dtype=np.uint64)
    start = np.zeros(n + 1, dtype=np.int64)
    for u in source:
        start[u + 1] += 1
    start = np.cumsum(start)
    fill, successor = start[:-1].copy(), np.empty(len(source), dtype=np.int64)
    for e in range(len(source)):
        successor[fill[source[e]]] = reader[e]
        fill[source[e]] += 1
    for i in range(n - 1, -1, -1):
        u = order[i]
        for e in range(start[u], start[u + 1]):
            _unite(after[u], after[successor[e]])
            _set(after[u], successor[e])
    for u in order:
        for e in range(start[u], start[u + 1]):
            _unite(before[successor[e]], before[u])
            _set(before[successor[e]], u)
    return after, before


@compiled(allocates=False)
def _join(a: int, b: int, after: _Words, before: _Words) -> None:
    """Merge node `b` into `a` in the tables of reachable nodes; `b` becomes empty."""
    _unite(after[a], after[b])
    _unite(before[a], before[b])
    for rows, others in ((after, before), (before, after)):
        for v in (a, b):
            _clear(rows[a], v)
        for w in range(rows.shape[1]):
            bits = rows[a, w]
            i = 64 * w
            while bits != np.uint64(0):
                if bits & np.uint64(1):
                    _unite(others[i], others[a])
                    _set(others[i], a)
                    _clear(others[i], b)
                bits >>= np.uint64(1)
                i += 1


@compiled(allocates=False)
def _root(v: int, cluster: IntArray) -> int:
    while cluster[v] != v:
        cluster[v] = cluster[cluster[v]]
        v = cluster[v]
    return v


@compiled(allocates=False)
def _merge(a: int, b: int, cluster: IntArray, total: FloatArray) -> None:
    """Put the cluster of `b` into that of `a`."""
    cluster[b] = a
    for i in range(len(total)):
        total[i, a] += total[i, b]


@compiled(allocates=False)
def _name_roots(cluster: IntArray) -> None:
    for v in range(len(cluster)):
        cluster[v] = _root(v, cluster)


@compiled(allocates=False)
def _is_room(a: int, b: int, total: FloatArray, limit: FloatArray) -> bool:
    room = True
    for i in range(len(limit)):
        room = room and total[i, a] + total[i, b] <= limit[i]
    return room


@compiled(allocates=False)
def _meet(first: _Words, second: _Words) -> bool:
    w = 0
    while w < len(first) and not first[w] & second[w]:
        w += 1
    return w < len(first)


@compiled(allocates=False)
def _unite(first: _Words, second: _Words) -> None:
    for w in range(len(first)):
        first[w] |= second[w]


@compiled(allocates=False)
def _set(bits: _Words, v: int) -> None:
    bits[v >> 6] |= np.uint64(1) << np.uint64(v & 63)


@compiled(allocates=False)
def _clear(bits: _Words, v: int) -> None:
    bits[v >> 6] &= ~(np.uint64(1) << np.uint64(v & 63))


# Multilevel search: cut a coarse copy of the graph, then refine the cut while the graph is uncoarsened.
#
# Edges that are expensive to cut are contracted one after another, unless that closes a cycle or makes a node that is
# too heavy for a block. The question that is left after a few levels has some dozens of nodes, and annealing solves it
# in milliseconds. Back in the finer questions a short walk at low temperature is enough. A move on a coarse level takes
# a whole part of the graph to another block, which single moves do not reach: every step of the way would cost more.
#
# Each cycle draws how heavy a joined node may be, and noise for the ratings of the edges, so no two are the same.
#
# References
# ----------
# Herrmann, Özkaya, Uçar, Kaya, Çatalyürek: Multilevel algorithms for acyclic partitioning of directed acyclic graphs.
# SIAM Journal on Scientific Computing 41 (2019), whose scheme it is, with reachability in place of levels.


#: Each level has so many times fewer nodes than the one before, down to so many a block, or to this part of the nodes
#: where that is less, but never below so many a block and in all.
_SHRINK, _NODES_PER_BLOCK, _COARSEST_PART, _FEWEST_PER_BLOCK, _FEWEST = 2.5, 6, 0.25, 2, 24
#: A level that leaves more than this part of the nodes is not worth it.
_LEAST_SHRINK = 0.95
#: A joined node has at most a 2nd, 4th or 8th of the work of a block.
_PARTS = (2, 4, 8)
#: Spread of the noise on ratings.
_NOISE = 0.5
#: Up to here paths through third nodes are looked at; above, only the degrees of nodes.
_REACH_NODES = 5_000
#: Walks on the coarsest level: how many, and moves for each node and block.
_STARTS, _COARSEST_MOVES = 3, 60
#: Walks on the levels above, and on the graph itself: moves a node, the fewest, the most, and the heat.
_LEVEL_MOVES, _LEVEL_HEAT = (50, 8_000, 80_000), 0.1
_LAST_MOVES, _LAST_HEAT = (100, 40_000, 200_000), 0.25
#: Heat of the walk on the coarsest level of a cycle that begins from a partition, and part of these cycles that cut the
#: coarsest level anew, as most walks from a good partition lead back to it.
_KEPT_HEAT, _FRESH = 1.0, 0.5
#: Part of these cycles in which work and transfers are multiplied by up to so much until the last walk. Good partitions
#: of that question are near good ones of this, and less often the one that the cycle began from.
_VARIED, _MOST_VARIED = 0.4, 2.0


def cycle(
    instance: Instance,
    rng: np.random.Generator,
    budget: Budget,
    best: Partition,
    others: Sequence[Partition] | None = None,
) -> Partition:
    """Run one cycle of coarsening, cutting and refinement.

    Parameters
    ----------
    instance : Instance
        The question, which is coarsened.
    rng : numpy.random.Generator
        Source of randomness of ratings, cuts and walks.
    budget : Budget
        Budget of moves, shared with other cycles.
    best : Partition
        Best partition so far, from which the cycle begins if no slicing of the coarsest question obeys the constraints.
    others : sequence of Partition, optional
        If given, only nodes are joined that share a block in `best` and in each of these, and half of the cycles begin
        from `best`, the others from new cuts of the coarse graph. In two fifths of the cycles, all walks but the last
        one use randomly changed work and tensors.
    """
    coarse = _vary(instance, rng) if others is not None and rng.random() < _VARIED else instance
    levels = _coarsen(coarse, rng, budget, [] if others is None else [parent.block for parent in (best, *others)])
    if others is None or rng.random() < _FRESH:
        partition, levels = _first_cut(levels, rng, budget, best)
    else:
        partition = _walk_on(levels, rng, budget, best)
    for level in reversed(levels):
        partition = level.expand(partition)
        n, walker = partition.instance.graph.n, Walker(partition.instance, rng, budget)
        if level is not levels[0]:
            partition = walker.slice(walker.walk(partition, _moves(n, *_LEVEL_MOVES), heat=_LEVEL_HEAT))
    walker, partition = Walker(instance, rng, budget), partition.under(instance)
    return walker.slice(walker.walk(partition, _moves(instance.graph.n, *_LAST_MOVES), heat=_LAST_HEAT))


def _vary(instance: Instance, rng: np.random.Generator) -> Instance:
    """The instance with work and tensors that are randomly larger.

    None is smaller, so a partition that is good enough there is good enough in the instance.
    """
    graph, tensors = instance.graph, instance.graph.tensors
    with suppress(InputError), np.errstate(over="ignore"):  # beyond the largest number
        work = graph.work * rng.uniform(1.0, _MOST_VARIED, graph.n)
        sizes = tensors.bytes * rng.uniform(1.0, _MOST_VARIED, len(tensors.bytes))
        return replace(instance, graph=replace(graph, work=work, tensors=replace(tensors, bytes=sizes)))
    return instance


def _moves(n: int, a_node: int, fewest: int, limit: int) -> int:
    return min(max(a_node * n, fewest), limit)


def _coarsen(
    instance: Instance, rng: np.random.Generator, budget: Budget, apart: Sequence[IntArray]
) -> list[Contraction]:
    """Coarser and coarser instances; only nodes with equal windows and equal numbers in `apart` are merged."""
    levels: list[Contraction] = []
    marks = np.stack((instance.rules.first, instance.rules.last, *apart))
    kind = np.unique(marks, axis=1, return_inverse=True)[1].astype(np.int64).ravel()
    # Of the share of a block in the work, and of what may be held.
    limit = np.array([instance.graph.work.sum() / instance.k, instance.platform.memory]) / rng.choice(_PARTS)
    weighted = bool(rng.integers(2))
    n, k = instance.graph.n, instance.k
    fewest = max(min(_NODES_PER_BLOCK * k, int(_COARSEST_PART * n)), _FEWEST_PER_BLOCK * k, _FEWEST)
    while (n := instance.graph.n) > fewest and not budget.limits.deadline.passed:
        cluster = clusters(instance, rng, limit, weighted, kind, max(fewest, int(n / _SHRINK)))
        _, group = np.unique(cluster, return_inverse=True)
        if group.max() + 1 > _LEAST_SHRINK * n:
            break
        levels.append(merge(instance, group.astype(np.int64)))
        instance, kind = levels[-1].instance, kind[levels[-1].anchor]
    return levels


def clusters(
    instance: Instance,
    rng: np.random.Generator,
    limit: FloatArray,
    weighted: bool,
    kind: IntArray,
    target: int,
    reach_nodes: int = _REACH_NODES,
) -> IntArray:
    """Clusters of nodes, made by merging the ends of edges, expensive edges first.

    Parameters
    ----------
    instance : Instance
        The question whose nodes are joined.
    rng : numpy.random.Generator
        Source of the noise on the ratings.
    limit : (2,) floats
        Largest work, and largest parameter and state bytes, of a cluster.
    weighted : bool
        Whether edges between light nodes come first.
    kind : (n,) integers
        Only nodes of one kind are joined.
    target : int
        Number of clusters at which to stop.
    reach_nodes : int
        Number of nodes above which `join_by_degree` is used in place of `join_by_reach`.

    Returns
    -------
    (n,) integers
        Number of the cluster of each node: one of its nodes.
    """
    graph, n = instance.graph, instance.graph.n
    keys, where = np.unique(graph.edges @ np.array([n, 1]), return_inverse=True)
    source, reader = np.divmod(keys, n)
    share = instance.tensor_time / np.maximum(1, np.diff(graph.tensors.start))
    rating = sums_by(where, share[graph.edge_tensor], len(keys)) * rng.lognormal(0.0, _NOISE, len(keys))
    if weighted:
        mean = float(graph.work.mean())
        work = np.sqrt(graph.work / mean + 0.01) if mean > 0 else np.ones(n)
        rating /= work[source] * work[reader]
    falling = np.argsort(-rating, kind="stable")
    source, reader = source[falling], reader[falling]
    size = np.stack((graph.work, graph.held_bytes))
    # Copies of one type each, so that kernels are compiled once.
    limit, kind = np.array(limit, dtype=np.float64), np.array(kind, dtype=np.int64)
    if n <= reach_nodes:
        order = np.array(graph.topological_order, dtype=np.int64)
        return join_by_reach(source, reader, order, size, limit, kind, int(target))
    if rng.integers(2):
        source, reader = reader, source
    return join_by_degree(source, reader, size, limit, kind, int(target))


def _first_cut(
    levels: list[Contraction], rng: np.random.Generator, budget: Budget, best: Partition
) -> tuple[Partition, list[Contraction]]:
    """Best partition of a few walks on the coarsest level that can be sliced; and the levels finer than it."""
    while levels:
        instance = levels[-1].instance
        n, k, candidates = instance.graph.n, instance.k, []
        walker = Walker(instance, rng, budget)
        with suppress(NothingFoundError):
            for _ in range(_STARTS):
                start = slice_order(instance, kahn(instance.graph, rng.random(n)))
                candidates.append(walker.walk(start, _COARSEST_MOVES * n * k))
                if budget.spent(candidates[-1].bottleneck):
                    break
        if candidates:
            return walker.slice(best_of(candidates)), levels
        levels = levels[:-1]
    return best, levels


def _walk_on(levels: list[Contraction], rng: np.random.Generator, budget: Budget, best: Partition) -> Partition:
    """Best partition of a walk on the coarsest instance from `best`, whose blocks no level merges across."""
    for level in levels:
        best = level.restrict(best)
    if not levels:
        return best
    walker = Walker(best.instance, rng, budget)
    return walker.slice(walker.walk(best, _COARSEST_MOVES * best.instance.graph.n * best.instance.k, heat=_KEPT_HEAT))


# Pool of partitions for crossover, which combines parts on which several of them agree.
#
# A cycle that joins only nodes that share a block in both parents keeps what they have in common, and walks decide the
# rest. Its result takes the place of the partition most like it among those that are no better, so the pool stays
# varied (Sanders, Schulz: Distributed evolutionary graph partitioning, ALENEX 2012).
#
# Which basin a pool ends in hangs on its first partitions, and it gets there soon. So once it finds nothing better, a
# generation begins from nothing, unknown to the one before; then the better halves of both are crossed, and so on by
# turns.


#: Partitions in the pool, and at least before any are crossed.
_SIZE, _FEWEST_IN_POOL = 16, 3
#: The pool is filled from nothing for at most this part of the time.
_FILLING = 0.1
#: Part of the cycles that have one parent.
_ALONE = 0.2
#: A generation ends after so many partitions in a row none of which is its best: of graphs with up to so many nodes,
#: whose generations end within a per cent of each other, and of larger ones.
SMALL_NODES = 200
_STALE_SMALL, _STALE = 48, 16


class Pool:
    """Partitions of one instance.

    Parameters
    ----------
    instance : Instance
    rng : numpy.random.Generator
    budget : Budget
    partitions : sequence of Partition
        Members of the first generation.
    """

    def __init__(
        self, instance: Instance, rng: np.random.Generator, budget: Budget, partitions: Sequence[Partition]
    ) -> None:
        self._instance, self._rng, self._budget = instance, rng, budget
        self._members: list[Partition] = []
        self._kept: list[Partition] = []  # of the generations before, while one begins from nothing
        self._idle, self._until = 0, _FILLING
        for partition in partitions:
            self._add(partition)

    def add(self, partition: Partition) -> None:
        """Add a partition of another search; it waits for the next generation if this one began empty."""
        if self._kept:
            self._kept.append(partition)
        else:
            self._add(partition)

    def _add(self, partition: Partition) -> None:
        """Add a partition if the pool has room; else replace the most similar member that is no better."""
        self._idle += 1
        if any(np.array_equal(partition.block, other.block) for other in self._members):
            return
        if not self._members or partition.preference < best_of(self._members).preference:
            self._idle = 0
        if len(self._members) < _SIZE:
            self._members.append(partition)
            return
        worse = [i for i, other in enumerate(self._members) if partition.preference <= other.preference]
        if worse:
            alike = min(worse, key=lambda i: np.count_nonzero(self._members[i].block != partition.block))
            self._members[alike] = partition

    def breed(self, best: Partition) -> Partition:
        """Run a cycle from new cuts while the pool is being filled, later from one or two members; return its result.

        Parameters
        ----------
        best : Partition
            The best that is known.
        """
        if self._idle >= (_STALE_SMALL if self._instance.graph.n <= SMALL_NODES else _STALE):
            self._renew()
        if len(self._members) < (_SIZE if self._budget.part < self._until else _FEWEST_IN_POOL):
            child = cycle(self._instance, self._rng, self._budget, best)
        else:
            first, *others = self._parents()
            child = cycle(self._instance, self._rng, self._budget, first, others)
        self._add(child)
        return child

    def _renew(self) -> None:
        """Start a generation: alternately an empty one, and one of the better halves of the last two generations."""
        half = sorted(self._members, key=lambda partition: partition.preference)[: _SIZE // 2]
        survivors = [*half, *self._kept] if self._kept else []
        self._members, self._kept = [], [] if self._kept else half
        for partition in survivors:
            self._add(partition)
        self._idle, self._until = 0, self._budget.part + _FILLING * (1 - self._budget.part)

    def _parents(self) -> list[Partition]:
        """One or two random members, the better one first; of two, each is the winner of a tournament."""
        drawn = [self._members[i] for i in self._rng.permutation(len(self._members))[:4]]
        if self._rng.random() < _ALONE:
            return drawn[:1]
        return sorted((best_of(drawn[::2]), best_of(drawn[1::2])), key=lambda partition: partition.preference)
