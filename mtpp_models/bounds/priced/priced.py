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

import time
from dataclasses import replace

from instances import Bound, Partition, Result
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.priced.branch_and_bound import BlockTree
from mtpp_models.bounds.priced.price_search import PriceSearch
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.simple import one_block, simple
from mtpp_models.solvers.interface import Controls, Progress

__all__ = ["PRICED", "priced"]

PRICED = "priced"

# Rounds of searches for prices, at first and after each block that corrects them, unless time runs out before that.
_FIRST_ROUNDS, _MORE_ROUNDS = 200, 50
# Of the time that is left: for these rounds, and for one proof.
_FIRST, _MORE, _PROOF = 0.2, 0.05, 0.35
# How far the first goal lies from *simple* to the cost at which the prices are worth k blocks, and the last one begins.
_RISE, _NEARLY = 0.6, 0.998
# How far it falls towards the bound after a proof that took too long.
_RETREAT = 0.4
# The part of all time that is too little for another proof after one that took too long.
_LITTLE = 0.15
# How far below the cost of a block the next goal lies.
_ROUNDING = 1e-9
# Attempts, that it may end without a clock.
_PROOFS = 200
# What counts as the goal reached.
_CLOSE = 1e-6
# Where *simple* is 0, goals below this part of the bottleneck are given up.
_NEGLIGIBLE = 1e-3
# Seconds that are not worth another proof.
_SHORTEST = 0.05
# Of the time that is left for a proof: for the pairs of nodes that share no block.
_PAIRS = 0.57


def priced(start: Partition, controls: Controls) -> Result:
    """Look for good prices and prove what they are worth.

    Parameters
    ----------
    start : Partition
        The better, the better the prices.
    controls : Controls
        Without a time limit, the same seed gives the same bound.

    Returns
    -------
    Result
        The bound's witness holds the prices, unless it is *simple*.
    """
    begin = time.monotonic()
    instance = start.instance
    floor = simple(instance)
    # All nodes together are worth their share as well.
    everything = one_block(instance.without_peaks()).bottleneck
    bound = Bound(floor, PRICED, optimal=min(start.bottleneck, everything) <= floor)
    if bound.optimal:
        return Result(PRICED, instance, start, bound)
    deadline = controls.deadline
    whole = deadline.left
    search = PriceSearch(start, controls.options.seed)
    search.improve(_FIRST_ROUNDS, deadline.share(_FIRST))
    least = floor or _NEGLIGIBLE * start.bottleneck
    goal = floor + _RISE * (search.ceiling - floor)
    for _ in range(_PROOFS):
        goal = max(bound.value, min(goal, search.ceiling))
        if deadline.passed or deadline.left < _SHORTEST or bound.optimal:
            break
        if goal < least:  # without their overflow, blocks cost next to nothing
            bound = replace(bound, optimal=True)
            break
        prices = search.prices
        value, block = _prove_with(prices, goal, search, deadline.share(_PROOF))
        if value > bound.value:
            closed = value >= start.bottleneck * (1 - PROOF_TOLERANCE)
            bound = Bound(value, PRICED, closed, {"prices": prices.tolist(), "seed": controls.options.seed})
            controls.report(Progress(PRICED, time.monotonic() - begin, None, value, None))
        if value >= goal * (1 - _CLOSE):
            if goal >= search.ceiling:
                bound = replace(bound, optimal=True)
                break
            goal += (search.ceiling - goal) * (0.5 if goal < _NEARLY * search.ceiling else 1.0)
        elif block is not None:
            cost, is_new = search.cost(block), search.add(block)
            solved = value >= cost * (1 - _CLOSE)
            if solved and not is_new:  # the search for prices has it in view and can do no better
                bound = replace(bound, optimal=True)
                break
            search.improve(_MORE_ROUNDS, deadline.share(_MORE))
            # What these prices were worth at most lies above the bound and below the goal.
            goal = (goal + cost) / 2
            goal += 0.0 if solved else (bound.value - goal) * _RETREAT
        elif deadline.left < _LITTLE * whole:
            break
        else:
            goal += (bound.value - goal) * _RETREAT
    return Result(PRICED, instance, start, bound)


def _prove_with(
    prices: FloatArray,
    goal: float,
    search: PriceSearch,
    deadline: Deadline,
) -> tuple[float, BoolArray | None]:
    """What given prices prove, at most `goal`, and a block that stands in the way of more.

    Parameters
    ----------
    prices : (n,) floats
        Not negative, not all 0.
    goal : float
        Positive, at least *simple*.
    search : PriceSearch
        Knows the instance, and what its blocks cost.
    deadline : Deadline

    Returns
    -------
    tuple
        The bound in the time unit of the work, 0 if there was no time; and (n,) the nodes of the cheapest block found
        that is worth its share and costs less than `goal`, or None.
    """
    cheapest = None
    while goal > 0:
        tree = BlockTree(search.instance, prices, goal, deadline.share(_PAIRS))
        proved, block = tree.explore(deadline)
        if proved:
            return goal, cheapest
        if block is None:
            break
        cheapest, goal = block, (1 - _ROUNDING) * min(goal, search.cost(block) + tree.overflow(block))
    return 0.0, cheapest
