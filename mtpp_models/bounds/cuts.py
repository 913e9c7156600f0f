r"""Bounds by minimum cuts around nodes, and how bounds are called.

**The bound by minimum cuts around single nodes.**

Every node lies in some block, so with L of `mtpp_models.cuts.cuts`,

.. math:: \mathrm{OPT} \ge \max_v L(\{v\}),

for L without overflow and, where memory is finite and no buffer is fixed, for L with its linear bound.

Over kinds of devices every node lies in some block on a device of some kind, so with :math:`L_t` the L of the question
of kind t alone,

.. math:: \mathrm{OPT} \ge \max_v \min_t L_t(\{v\}).

Where memory is tight, what lies before a node and what lies behind it may prove more (`mtpp_models.bounds.sides`); both
are proved again from the node alone, and so are one bound.

**Pigeonhole bound: two of k + 1 nodes share a block.**

So for any set C of k + 1 nodes, with L as in `mtpp_models.cuts.conflicts`,

.. math:: \mathrm{OPT} \ge \min_{u, v \in C} L(\{u, v\}).

The best C is a clique of k + 1 nodes in the graph of all pairs with L ≥ T, for the largest T. Cliques are looked for
by a greedy method, so a better C may exist. The bound is of interest only above *simple* and *pinned*; nodes that have
too few partners above these are given up before their pairs are cut.

The bound of an instance to which the reductions of `instances.partitioning.symmetry` were applied holds for the
anchors in the original graph: each step takes away one node without work, at the beginning or the end of all its paths.
A set S without that node costs no more there than S did, and all that keeps blocks convex remains as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np

from instances import Bound, InputError, Instance, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import IntArray
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.sides import best_side
from mtpp_models.cuts.conflicts import core, find_clique
from mtpp_models.cuts.cuts import UNIT, BlockCuts, PairCuts
from mtpp_models.simple import as_answer, one_block, simple, simple_bound
from mtpp_models.solvers.interface import Controls

# A bound that needs no solver, as the registry holds it.


@dataclass(frozen=True)
class Algorithm:
    """Lower bound that is computed by a procedure of its own; name, summary and reference are shown to users."""

    name: str
    summary: str
    reference: str
    run: Callable[[Partition, Controls], Result]  # of a partition of the instance, the better the faster
    most_nodes: int | None = None  # of larger graphs, which would take too much memory, it says what *simple* says
    exact: bool = False  # whether the bound is the optimum when it runs to its end
    in_order: bool = False  # whether it counts all that is live as an order runs a block, not only the largest need
    kinds: Literal["one", "any"] = "one"  # of devices that it answers for
    is_bound: ClassVar[bool] = True

    def is_too_large(self, instance: Instance) -> bool:
        """Whether the graph has so many nodes that the method only returns the bound *simple*."""
        return self.most_nodes is not None and instance.graph.n > self.most_nodes

    def prove(self, instance: Instance, start: Partition | None, controls: Controls) -> Result:
        """Run; without a start, the partition counts only if the algorithm has found it.

        Where constraints are left out, an exact one is at its end only if it has found an answer of that cost.
        """
        watch, question = Stopwatch(), self._question(instance)
        if start is not None:
            begin = start.under(question)
        elif self.exact:  # the first blocks that windows allow
            begin = Partition(question, question.rules.first, kind=question.machines.sequence[: question.k])
        else:
            begin = one_block(instance)
        if self.is_too_large(instance):
            result = Result(self.name, begin.instance, begin, simple_bound(instance, optimal=False))
        else:
            result = self.run(begin, controls)
        if not isinstance(result, Result):
            raise InputError(f"{self.name} returned {type(result).__name__}, not a Result with its Bound.")
        answer = result.partition if start is not None or self.exact else None
        answer = None if answer is None else as_answer(instance, answer)
        if start is not None and (answer is None or start.bottleneck <= answer.bottleneck):
            answer = start
        bound = result.bound
        if bound is not None and self.exact and question is not instance:
            reached = answer is not None and bound.value >= answer.bottleneck * (1 - PROOF_TOLERANCE)
            bound = replace(bound, optimal=bound.optimal and reached)
        spent = watch.seconds(solve=watch.passed)
        return replace(result, instance=instance, answer=answer, bound=bound, seconds=spent)

    def _question(self, instance: Instance) -> Instance:
        """The question that is answered, whose partitions are all those of `instance` and more.

        Constraints are left out, and by those that are not exact a hard limit of the memory. Over kinds of devices the
        exact ones know windows, and the others relax the questions of single kinds.
        """
        if instance.is_alike:
            return instance.without_constraints() if self.exact else instance.relaxed(modelled=not self.in_order)
        return instance if self.exact else instance.without_constraints()


PINNED = "pinned"

# Part of the time for the sides of nodes, at most.
_FOR_SIDES = 0.5


def pinned(start: Partition, deadline: Deadline | None = None, nodes: Iterable[int] | None = None) -> Result:
    """The largest of the minimum cuts around single nodes, or of the bounds by their sides; its witness names the node.

    All stop at the bottleneck of the start; once the deadline has passed, the largest so far is the bound. Where the
    cheapest set around v is convex, it lies within reach of each of its other nodes w, so that L({w}) is no larger and
    needs no cut. Of given nodes the largest cut is the bound.
    """
    deadline = deadline or Deadline()
    value, node, finished = 0.0, 0, True
    if nodes is None:
        value, node, finished = best_side(start.instance, start.bottleneck, deadline.share(_FOR_SIDES))
    if not start.instance.is_alike:
        return _pinned_over_kinds(start, value, node, finished, deadline)
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


def _pinned_over_kinds(start: Partition, value: float, node: int, finished: bool, deadline: Deadline) -> Result:
    """Bound over kinds of devices: a node's block costs at least the cheapest cut around it on any kind.

    The largest over all nodes, or over those tried when time was up, but at least `value`, which `node` proves already;
    `finished` says whether `value` is all that its own bound can give. The witness names the node.
    """
    instance, cutoff = start.instance, start.bottleneck
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
    """Nodes of which any two cost as much as possible in a block; None if there is no clique of this size.

    Bisection over the costs: the search for a clique is a heuristic, so a better one may exist.
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
