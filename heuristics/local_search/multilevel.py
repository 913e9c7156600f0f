r"""Multilevel search: cut a coarse copy of the graph, then refine the cut while the graph is uncoarsened.

Edges that are expensive to cut are contracted one after another, unless that closes a cycle or makes a node that is too
heavy for a block. The question that is left after a few levels has some dozens of nodes, and annealing solves it in
milliseconds. Back in the finer questions a short walk at low temperature is enough. A move on a coarse level takes a
whole part of the graph to another block, which single moves do not reach: every step of the way would cost more.

Each cycle draws how heavy a joined node may be, and noise for the ratings of the edges, so no two are the same.

References
----------
Herrmann, Özkaya, Uçar, Kaya, Çatalyürek: Multilevel algorithms for acyclic partitioning of directed acyclic graphs.
SIAM Journal on Scientific Computing 41 (2019), whose scheme it is, with reachability in place of levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from heuristics.limits import Limits
from heuristics.local_search.coarsening import join_by_degree, join_by_reach
from heuristics.local_search.walks import Budget, Walker, best_of
from heuristics.orders.instant import at_once
from heuristics.orders.kahn import kahn
from heuristics.orders.slicing import slice_order
from instances import Instance, Partition
from instances.errors import InputError, NothingFoundError
from instances.graph.tensors import FloatArray, IntArray, sums_by
from instances.partitioning.reductions import Contraction, merge

__all__ = ["clusters", "cycle", "multilevel"]

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


def multilevel(
    instance: Instance, rng: np.random.Generator, limits: Limits | None = None, *, start: Partition | None = None
) -> Partition:
    """Cycles of coarsening and refining, each from a new coarse cut.

    Parameters
    ----------
    instance : Instance
        The question.
    rng : numpy.random.Generator
        Of ratings, cuts and walks.
    limits : Limits, optional
        Checked every few milliseconds; an evaluation is a move that is tried. Without limits 10 million are tried, or
        200 000 a node where that is less.
    start : Partition, optional
        By default the best of one block, equal pieces and the slicing of the Kahn order of equal priorities.

    Returns
    -------
    Partition
        No worse than `start`.
    """
    limits = limits or Limits()
    budget, best = Budget(limits, instance.graph.n), start or at_once(instance, limits)
    if not Walker.can_walk(instance):
        return best
    while not budget.spent(best.bottleneck):
        best = best_of((best, cycle(instance, rng, budget, best)))
    return best


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
        Of ratings, cuts and walks.
    budget : Budget
        Of moves, shared with other cycles.
    best : Partition
        Where the coarsest question has no slicing that obeys, the cycle begins from it.
    others : sequence of Partition, optional
        If given, only nodes are joined that share a block in `best` and in each of these, and half of the cycles begin
        from `best`, the others from new cuts of what is joined. In two fifths of them all but the last walk is done
        with other work and tensors.
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
    walker, partition = Walker(instance, rng, budget), Partition(instance, partition.block, partition.order)
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
    """Levels from fine to coarse; nodes with other windows, or other numbers in `apart`, are not joined."""
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
    """Join the ends of edges, expensive ones first.

    Parameters
    ----------
    instance : Instance
        The question whose nodes are joined.
    rng : numpy.random.Generator
        Of the noise on the ratings.
    limit : (2,) floats
        Work and held bytes of a cluster.
    weighted : bool
        Whether edges between light nodes come first.
    kind : (n,) integers
        Only nodes of one kind are joined.
    target : int
        Stop at so many clusters.
    reach_nodes : int
        Above, only the degrees of nodes are looked at.

    Returns
    -------
    (n,) integers
        A node of the cluster that each node is in.
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
    """Best of a few walks on the coarsest question that can be sliced; and the levels above it."""
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
    """The best of a walk on the coarsest instance, from what `best` becomes there: all levels keep its blocks."""
    for level in levels:
        best = level.restrict(best)
    if not levels:
        return best
    walker = Walker(best.instance, rng, budget)
    return walker.slice(walker.walk(best, _COARSEST_MOVES * best.instance.graph.n * best.instance.k, heat=_KEPT_HEAT))
