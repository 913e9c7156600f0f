r"""Lower bounds from node prices: the cheapest block that is worth its share.

Give each node any price :math:`\ge 0`. In a partition into k blocks some block is worth at least a k-th of all
prices together, so OPT is at least the cost of the cheapest convex set that is worth that much:

.. math::

    \mathrm{OPT} \ge \min \Big\{ f(S) : S \text{ convex}, \;
    \sum_{v \in S} \mathrm{price}(v) \ge \tfrac1k \sum_v \mathrm{price}(v) \Big\}.

With price = work this is the three-superblock relaxation of the paper, (14). The prices of
`mtpp_models.bounds.priced.price_search` make every block of a good partition equally scarce, and the bound then comes
close to the configuration program.

The proof is destructive: `mtpp_models.bounds.priced.branch_and_bound` shows that no block which costs less than a goal
T is worth its share, and then OPT >= T, or it finds one, which corrects the prices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from instances import Bound, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import FloatArray
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.priced.branch_and_bound import BlockTree
from mtpp_models.bounds.priced.price_search import PriceSearch
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.simple import one_block, simple
from mtpp_models.solvers.interface import Controls, Progress

__all__ = ["PRICED", "PricedSettings", "priced"]

PRICED = "priced"


@dataclass(frozen=True)
class PricedSettings:
    """How `priced` divides its time and chooses its goals."""

    # Rounds of searches for prices, at first and after each block that corrects them, unless time runs out.
    first_rounds: int = 200
    more_rounds: int = 50
    # Of the time that is left: for these rounds, and for one proof.
    first: float = 0.2
    more: float = 0.05
    proof: float = 0.35
    pairs: float = 0.57  # of the time that is left for a proof: for the pairs of nodes that share no block
    rise: float = 0.6  # how far the first goal lies from *simple* to the cost at which the prices are worth k blocks
    nearly: float = 0.998  # of that cost: from there on, the next goal is that cost itself
    retreat: float = 0.4  # how far a goal falls towards the bound after a proof that took too long
    little: float = 0.15  # of all time: too little for another proof after one that took too long
    shortest: float = 0.05  # seconds that are too little for any proof
    proofs: int = 200  # attempts, so that it ends without a clock
    close: float = 1e-6  # relative: what counts as the goal reached
    negligible: float = 1e-3  # where *simple* is 0, goals below this part of the bottleneck are given up


_SETTINGS = PricedSettings()
# How far below the cost of a block the next goal lies.
_ROUNDING = 1e-9


def priced(start: Partition, controls: Controls) -> Result:
    """Look for good prices and prove what they are worth: the better the start, the better the prices.

    The bound's witness holds the prices, unless it is *simple*. Without a time limit, the same seed gives the same
    bound.
    """
    instance, floor = start.instance, simple(start.instance)
    # All nodes together are worth their share as well.
    everything = one_block(instance).bottleneck
    bound = Bound(floor, PRICED, optimal=min(start.bottleneck, everything) <= floor)
    if not bound.optimal:
        bound = _raise_goals(start, floor, bound, controls)
    return Result(PRICED, instance, start, bound)


def _raise_goals(start: Partition, floor: float, bound: Bound, controls: Controls) -> Bound:
    """Choose a goal, try to prove it, and learn from the answer, until the bound cannot rise or time is up."""
    watch, deadline, settings = Stopwatch(), controls.deadline, _SETTINGS
    whole = deadline.left
    search = PriceSearch(start, controls.options.seed)
    search.improve(settings.first_rounds, deadline.share(settings.first))
    least = floor or settings.negligible * start.bottleneck
    goal, proofs = floor + settings.rise * (search.ceiling - floor), 0
    while not (bound.optimal or deadline.passed or deadline.left < settings.shortest or proofs == settings.proofs):
        proofs += 1
        goal = max(bound.value, min(goal, search.ceiling))
        if goal < least:  # without their overflow, blocks cost next to nothing
            return replace(bound, optimal=True)
        prices = search.prices
        value, block = _prove_with(prices, goal, search, deadline.share(settings.proof))
        if value > bound.value:
            closed = value >= start.bottleneck * (1 - PROOF_TOLERANCE)
            bound = Bound(value, PRICED, closed, {"prices": prices.tolist(), "seed": controls.options.seed})
            controls.report(Progress(PRICED, watch.passed, None, value, None))
        if value >= goal * (1 - settings.close):  # the goal is proved
            if goal >= search.ceiling:
                return replace(bound, optimal=True)
            goal += (search.ceiling - goal) * (0.5 if goal < settings.nearly * search.ceiling else 1.0)
        elif block is not None:  # a block stands in the way, and corrects the prices
            cost, is_new = search.cost(block), search.add(block)
            solved = value >= cost * (1 - settings.close)
            if solved and not is_new:  # the search for prices has it in view and can do no better
                return replace(bound, optimal=True)
            search.improve(settings.more_rounds, deadline.share(settings.more))
            # What these prices were worth at most lies above the bound and below the goal.
            goal = (goal + cost) / 2
            goal += 0.0 if solved else (bound.value - goal) * settings.retreat
        elif deadline.left < settings.little * whole:
            break
        else:  # the proof took too long
            goal += (bound.value - goal) * settings.retreat
    return bound


def _prove_with(
    prices: FloatArray,
    goal: float,
    search: PriceSearch,
    deadline: Deadline,
) -> tuple[float, BoolArray | None]:
    """What given prices prove, at most `goal`, and a block that stands in the way of more.

    The prices, (n,), are not negative and not all 0; the goal is positive, at least *simple*. The bound is in the time
    unit of the work, and 0 if there was no time; the block is (n,) the nodes of the cheapest one found that is worth
    its share and costs less than `goal`, or None.
    """
    cheapest = None
    while goal > 0:
        tree = BlockTree(search.instance, prices, goal, deadline.share(_SETTINGS.pairs))
        proved, block = tree.explore(deadline)
        if proved:
            return goal, cheapest
        if block is None:
            break
        cheapest, goal = block, (1 - _ROUNDING) * min(goal, search.cost(block) + tree.overflow(block))
    return 0.0, cheapest
