"""Placer that runs a trained policy, by default that of the package, without further training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from heuristics.method import Limits
from heuristics.placement.placeto.checkpoints import Checkpoint, shipped
from heuristics.placement.placeto.environment import (
    Environment,
    PlacementArrays,
    Start,
    roll_out,
    start_place,
    traversal,
)
from heuristics.placement.placeto.pytorch import require_torch
from heuristics.placement.placeto.rollout import Scorer
from instances.graph.tensors import IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

#: Start of each episode, and which of them draw their devices; several starts at random count for more than draws.
_STARTS: tuple[Start, ...] = ("empty", "empty", "single", "single", "random", "random", "random", "random")
_DRAWN = np.array([False, True, False, True, False, False, False, False])
_SWEEPS = 2


def zero_shot(
    instance: PlacementInstance,
    rng: np.random.Generator,
    limits: Limits | None = None,
    checkpoint: Checkpoint | None = None,
) -> Placement:
    """Run a policy for eight episodes of two sweeps each; return the best placement of all their steps.

    Two start with no node placed, two with all on device 0, and one of either two draws its devices. Four start at
    random. All but those two take the likeliest devices. The answer is no worse than one device.

    An evaluation is a simulation; a node takes at most sixteen. Once a limit is reached, the remaining nodes stay where
    they are.

    Raises
    ------
    InputError
        If a checkpoint is damaged or does not fit the question, or PyTorch is missing, which all policies but `fast`
        need.
    """
    scorer = _shipped_scorer() if checkpoint is None else _scorer(checkpoint)
    with np.errstate(all="ignore"):  # whatever the weights are: what a policy says is simulated
        return explore(instance, rng, limits or Limits(), scorer).answer()


def explore(
    instance: PlacementInstance, rng: np.random.Generator, limits: Limits, scorer: Scorer | None = None
) -> Environment:
    """Run the episodes of `zero_shot`."""
    question, score = PlacementArrays(instance), scorer or _shipped_scorer()
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
def _shipped_scorer() -> Scorer:
    return shipped().scorer()


def _scorer(checkpoint: Checkpoint) -> Scorer:
    if checkpoint.policy == "fast":
        return checkpoint.scorer()
    require_torch()
    from heuristics.placement.placeto import policy

    return policy.scorer(policy.restore(checkpoint))


def _over(environment: Environment, limits: Limits) -> bool:
    """Whether another step could exceed a limit."""
    most = environment.simulations + len(environment.place)
    best = float(environment.best.min()) * environment.question.instance.total_work
    return limits.allow(most) < most or limits.reached(best)
