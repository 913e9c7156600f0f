"""The policy that comes with the package as a placer: an answer within milliseconds, without training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from heuristics.limits import Limits
from heuristics.placement.placeto.checkpoints import shipped
from heuristics.placement.placeto.environment import (
    Environment,
    PlacementArrays,
    Start,
    roll_out,
    start_place,
    traversal,
)
from heuristics.placement.placeto.rollout import FastScorer
from instances.graph.tensors import IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

__all__ = ["explore", "zero_shot"]

#: Start of each episode, and which of them draw their devices; several starts at random count for more than draws.
_STARTS: tuple[Start, ...] = ("empty", "empty", "single", "single", "random", "random", "random", "random")
_DRAWN = np.array([False, True, False, True, False, False, False, False])
_SWEEPS = 2


def zero_shot(instance: PlacementInstance, rng: np.random.Generator, limits: Limits | None = None) -> Placement:
    """The best placement that eight episodes see, of two sweeps each.

    Two start with no node placed, two with all on device 0, and one of either two draws its devices. Four start at
    random. All but those two take the likeliest devices. The answer is no worse than one device.

    An evaluation is a simulation; a node takes at most sixteen. Once a limit is reached, the remaining nodes stay where
    they are.
    """
    return explore(instance, rng, limits or Limits()).answer()


def explore(instance: PlacementInstance, rng: np.random.Generator, limits: Limits) -> Environment:
    """The episodes of `zero_shot`."""
    question, score = PlacementArrays(instance), _scorer()
    count = limits.allow(len(_STARTS))
    starts = np.concatenate([start_place(question, start, 1, rng) for start in _STARTS[:count]])
    drawn = _DRAWN[:count, None]
    environment = Environment(question, starts, traversal(question, "topological", _SWEEPS, rng))

    def choose(active: Sequence[Environment]) -> list[IntArray]:
        if _over(environment, limits):
            return [environment.place[:, environment.node]]
        return [(rows + drawn * rng.gumbel(size=rows.shape)).argmax(axis=1) for rows in score(active)]

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
