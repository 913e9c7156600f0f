"""The policy that comes with the package as a placer: an answer within milliseconds, without training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from heuristics.limits import Limits
from heuristics.placement.placeto.checkpoints import shipped
from heuristics.placement.placeto.environment import Environment, Question, roll_out, start_place, traversal
from heuristics.placement.placeto.rollout import FastScorer
from instances.placement import Placement, PlacementInstance
from instances.tensors import IntArray

__all__ = ["explore", "zero_shot"]

#: Sweeps of an episode, and episodes from each of the two kinds of start.
_SWEEPS, _EACH = 2, 4


def zero_shot(instance: PlacementInstance, rng: np.random.Generator, limits: Limits | None = None) -> Placement:
    """The best placement that eight episodes see, of two sweeps each.

    Four start at random and take the likeliest devices. Four start with all nodes on device 0, so that the answer is no
    worse than that; the first of these takes the likeliest devices, the others draw theirs.

    Parameters
    ----------
    instance : PlacementInstance
    rng : numpy.random.Generator
    limits : Limits, optional
        An evaluation is a simulation; a node takes at most sixteen. Once a limit is reached, the remaining nodes
        stay where they are.

    Returns
    -------
    Placement
    """
    return explore(instance, rng, limits or Limits()).answer()


def explore(instance: PlacementInstance, rng: np.random.Generator, limits: Limits) -> Environment:
    """The episodes of `zero_shot`."""
    question, score = Question(instance), _scorer()
    count = limits.allow(2 * _EACH)
    random = [start_place(question, "random", 1, rng) for _ in range(_EACH)]
    starts = np.concatenate([start_place(question, "single", _EACH, rng), *random])[:count]
    drawn = np.isin(np.arange(count), range(1, _EACH))
    environment = Environment(question, starts, traversal(question, "topological", _SWEEPS, rng))

    def choose(active: Sequence[Environment]) -> list[IntArray]:
        if _over(environment, limits):
            return [environment.place[:, environment.node]]
        return [(rows + drawn[:, None] * rng.gumbel(size=rows.shape)).argmax(axis=1) for rows in score(active)]

    roll_out([environment], choose)
    return environment


@cache
def _scorer() -> FastScorer:
    return shipped().scorer()


def _over(environment: Environment, limits: Limits) -> bool:
    """Whether another step could exceed a limit."""
    most = environment.simulations + len(environment.place)
    best = float(environment.best.min()) * environment.question.instance.total_work
    return limits.allow(most) < most or limits.reached(best)
