r"""Lower bounds on the bottleneck by minimum cuts around nodes.

**The bound by minimum cuts around single nodes.**

Every node lies in some block, so with L of `mtpp_models.cuts.cuts`,

.. math:: \mathrm{OPT} \ge \max_v L(\{v\}),

for L without overflow and, where memory is finite and no buffer is fixed, for L with its linear bound.

Over kinds of devices every node lies in some block on a device of some kind, so with :math:`L_t` the L of the question
of kind t alone,

.. math:: \mathrm{OPT} \ge \max_v \min_t L_t(\{v\}).

**Pigeonhole bound: two of k + 1 nodes share a block.**

So for any set C of k + 1 nodes, with L as in `mtpp_models.cuts.conflicts`,

.. math:: \mathrm{OPT} \ge \min_{u, v \in C} L(\{u, v\}).

The best C is a clique of k + 1 nodes in the graph of all pairs with L ≥ T, for the largest T. A greedy method searches
for cliques, so a better C may exist. The bound is useful only above *simple* and *pinned*; nodes with too few pairs
above these are dropped before the cuts of their other pairs are computed.

The bound of an instance to which the reductions of `instances.partitioning.symmetry` were applied holds for the
anchors in the original graph: each step takes away one node without work, at the beginning or the end of all its paths.
A set S without that node costs no more there than S did, and all that keeps blocks convex remains as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import numpy as np

from instances import Bound, Partition, Result
from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from instances.results import PROOF_TOLERANCE
from mtpp_models.cuts.conflicts import core, find_clique
from mtpp_models.cuts.cuts import UNIT, BlockCuts, PairCuts
from mtpp_models.simple import one_block, simple, simple_bound

PINNED = "pinned"


def pinned(start: Partition, deadline: Deadline | None = None, nodes: Iterable[int] | None = None) -> Result:
    """The largest bound by minimum cuts around single nodes; its witness names the node.

    Bounds are capped at the bottleneck of the start; once the deadline has passed, the largest so far is returned.
    Where the cheapest set around a node is convex, it also bounds the cuts around its other nodes, so each of these
    needs no cut. If `nodes` are given, only cuts around these count.
    """
    deadline = deadline or Deadline()
    if not start.instance.is_alike:
        return _pinned_over_kinds(start, deadline)
    value, node, finished = 0.0, 0, True
    cutoff = start.bottleneck or 1.0
    cuts = BlockCuts(start.instance.modelled(), cutoff)
    loaded = cuts.loaded() if start.instance.needs_peaks else None
    cases = (cuts,) if loaded is None else (cuts, loaded)
    upper = np.max([case.alone() for case in cases], axis=0)
    centres = np.arange(len(upper)) if nodes is None else np.array(list(nodes))
    for v in centres[np.argsort(-upper[centres])].tolist():
        if value >= cutoff:
            break
        if upper[v] <= value:
            continue  # some block that holds v costs no more than what is proved
        if deadline.passed:
            finished = False
            break
        cut = max((case.cut([v]) for case in cases), key=lambda cut: cut.cost)
        if cut.cost > value:
            value, node = cut.cost, v
        if cuts.is_convex(cut.nodes):
            cost = cut.cost if loaded is None else max(case.cost(cut.nodes) for case in cases)
            upper[cut.nodes] = np.minimum(upper[cut.nodes], cost)
    # All nodes together cut nothing, so no minimum cut is above what they cost.
    most_possible = min(value + cuts.lost(), one_block(start.instance).bottleneck, start.bottleneck)
    closed = finished and value >= most_possible * (1 - PROOF_TOLERANCE)
    return Result(PINNED, start.instance, start, Bound(value, PINNED, closed, {"nodes": [node]}))


def _pinned_over_kinds(start: Partition, deadline: Deadline) -> Result:
    """Bound over kinds of devices: a node's block costs at least the cheapest cut around it on any kind.

    The result is the best cut of the nodes tried in time; its witness names the node.
    """
    instance, cutoff = start.instance, start.bottleneck
    value, node, finished = 0.0, 0, True
    if cutoff <= 0:
        return Result(PINNED, instance, start, simple_bound(instance))
    cases = []
    for t in range(instance.kinds):
        question = instance.of_kind(t).relaxed()
        cuts = BlockCuts(question, cutoff)
        loaded = cuts.loaded() if question.needs_peaks else None
        cases.append((cuts,) if loaded is None else (cuts, loaded))
    alone = np.min([np.max([case.alone() for case in kind], axis=0) for kind in cases], axis=0)
    for v in np.argsort(-alone).tolist():
        if value >= cutoff or alone[v] <= value:
            break
        if deadline.passed:
            finished = False
            break
        least = np.inf
        for kind in cases:
            least = min(least, max(case.cut([v]).cost for case in kind))
            if least <= value:
                break
        if least > value:
            value, node = least, v
    return Result(PINNED, instance, start, Bound(min(value, cutoff), PINNED, finished, {"nodes": [node]}))


PIGEONHOLE = "pigeonhole"

# Nodes whose pairs are cut between two looks for nodes without enough partners.
_ROWS = 16


def pigeonhole(start: Partition, deadline: Deadline | None = None) -> Result:
    """Bound by k + 1 nodes, two of which share a block, if all their pairs are costly; else a simpler bound.

    The bound's witness names the nodes. If they prove no more than *simple* or *pinned*, the result of these is
    returned. Costs are capped at the bottleneck of the start; once the deadline has passed, only the pairs computed so
    far count.
    """
    deadline = deadline or Deadline()
    instance, size = start.instance, start.instance.k + 1
    best = pinned(start, deadline).bound
    assert best is not None
    if best.value <= (floor := simple(instance)):
        best = Bound(floor, "simple", best.optimal)
    if instance.graph.n >= size and start.bottleneck > best.value * (1 + PROOF_TOLERANCE):
        cuts = BlockCuts(instance.modelled(), start.bottleneck)
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
    """(n, n) bounds of node pairs [2^-36 of the cutoff], 0 unless above `threshold`; and whether all were computed."""
    pairs = PairCuts(cuts, threshold, deadline)
    for i, u in enumerate(np.argsort(-cuts.alone(), kind="stable").tolist()):
        if i % _ROWS == 0:
            hopeless = ~core(pairs.open | (pairs.cost > 0), size - 1)
            pairs.open[hopeless] = pairs.open[:, hopeless] = False
        if not pairs.resolve(u, deadline):
            return pairs.cost, False
    return pairs.cost, True


def _costliest_clique(cost: IntArray, size: int, deadline: Deadline) -> IntArray | None:
    """A set of `size` nodes whose cheapest pair costs as much as possible; None if the search finds no set.

    Bisection over the costs, with a heuristic search for cliques, so a better set may exist.
    """
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
