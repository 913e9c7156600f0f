r"""Pigeonhole bound: two of k + 1 nodes share a block.

So for any set C of k + 1 nodes, with L as in `mtpp_models.cuts.conflicts`,

.. math:: \mathrm{OPT} \ge \min_{u, v \in C} L(\{u, v\}).

The best C is a clique of k + 1 nodes in the graph of all pairs with L ≥ T, for the largest T. Cliques are looked for
by a greedy method, so a better C may exist. The bound is of interest only above *simple* and *pinned*; nodes that have
too few partners above these are given up before their pairs are cut.

The bound of an instance to which the reductions of `instances.partitioning.reductions` were applied holds for the
anchors in the original graph: each step takes away one node without work, at the beginning or the end of all its paths.
A set S without that node costs no more there than S did, and all that keeps blocks convex remains as it was.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from instances import Bound, Partition, Result
from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.pinned import pinned
from mtpp_models.cuts.block_cuts import UNIT, BlockCuts
from mtpp_models.cuts.cliques import core, find_clique
from mtpp_models.cuts.pair_cuts import PairCuts
from mtpp_models.simple import simple

__all__ = ["PIGEONHOLE", "pigeonhole"]

PIGEONHOLE = "pigeonhole"

# Nodes whose pairs are cut between two looks for nodes without enough partners.
_ROWS = 16


def pigeonhole(start: Partition, deadline: Deadline | None = None) -> Result:
    """The best of *simple*, *pinned* and what k + 1 nodes prove that cost a lot in pairs.

    The bound's witness names the nodes. If they prove no more than *simple* or *pinned*, it is the result of that. Cuts
    stop at the bottleneck of the start; once the deadline has passed, only the pairs so far count.
    """
    deadline = deadline or Deadline()
    instance, size = start.instance, start.instance.k + 1
    best = pinned(start, deadline).bound
    assert best is not None
    if best.value <= (floor := simple(instance)):
        best = Bound(floor, "simple", best.optimal)
    if instance.graph.n >= size and start.bottleneck > best.value * (1 + PROOF_TOLERANCE):
        cuts = BlockCuts(instance, start.bottleneck)
        threshold = int(best.value / start.bottleneck * UNIT)
        cost, finished = _costly_pairs(cuts, size, threshold, deadline)
        if instance.needs_peaks and (loaded := cuts.loaded()) is not None:
            more, also = _costly_pairs(loaded, size, threshold, deadline)
            cost, finished = np.maximum(cost, more), finished and also
        nodes, value = _costliest_clique(cost, size, deadline), 0.0
        if nodes is not None:
            value = min(float(cuts.scaled(cost[u, v])) for u, v in combinations(nodes.tolist(), 2))
        if nodes is not None and value > best.value:  # rounding may leave it below
            closed = finished and value >= min(value + cuts.lost(), start.bottleneck) * (1 - PROOF_TOLERANCE)
            best = Bound(value, PIGEONHOLE, closed, {"nodes": sorted(nodes.tolist())})
        else:
            best = replace(best, optimal=best.optimal and finished)
    return Result(best.method, instance, start, best)


def _costly_pairs(cuts: BlockCuts, size: int, threshold: int, deadline: Deadline) -> tuple[IntArray, bool]:
    """(n, n) L of the pairs that cost more than `threshold` and may belong to a clique; and whether these are all."""
    pairs = PairCuts(cuts, threshold, deadline)
    for i, u in enumerate(np.argsort(-cuts.alone(), kind="stable").tolist()):
        if i % _ROWS == 0:
            hopeless = ~core(pairs.open | (pairs.cost > 0), size - 1)
            pairs.open[hopeless] = pairs.open[:, hopeless] = False
        if not pairs.resolve(u, deadline):
            return pairs.cost, False
    return pairs.cost, True


def _costliest_clique(cost: IntArray, size: int, deadline: Deadline) -> IntArray | None:
    """Nodes of which each two cost a lot, as much as bisection over the costs finds; None if it finds none."""
    best, costs = None, np.unique(cost[cost > 0])
    low, high = 0, len(costs)  # bisection: found at all below `low`, at none from `high` on
    while low < high and not (deadline.passed and best is not None):
        middle = low if best is None else (low + high) // 2
        nodes = find_clique(cost >= costs[middle], size)
        if nodes is None:
            high = middle
        else:
            best, low = nodes, middle + 1
    return best
