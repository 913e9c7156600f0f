"""A plan and a bound: how far a plan could be below it, and what the paper guarantees."""

from __future__ import annotations

import numpy as np

from heuristics.planning import PLANNERS
from heuristics.planning.spp import spp_plans
from instances import Result
from instances.deadline import Stopwatch
from instances.lookup import find
from instances.planning import Iteration, TrainingInstance
from mtpp_models.planning.guarantees import iteration_bound, lemma_1, lemma_2, theorem_1

__all__ = ["PlanResult", "certify_plan", "guarantees"]

#: Outcome of a planner.
PlanResult = Result[TrainingInstance, Iteration]


def certify_plan(instance: TrainingInstance, rng: np.random.Generator, planner: str = "improved") -> PlanResult:
    """Plan an iteration and prove how far any plan that `iteration_bound` covers could be below it.

    There is no bound where every server runs a pipeline of its own, which the bound does not cover.

    Raises
    ------
    InputError
        If there is no such planner in `PLANNERS`, or it finds no plan that fits into memory.
    """
    watch = Stopwatch()
    iteration = find(PLANNERS, planner, "planner").run(instance, rng)
    found = watch.passed
    bound = None if iteration.plan is None else iteration_bound(instance, ceiling=iteration.time)
    seconds = watch.seconds(search=found, bound=watch.passed - found)
    return PlanResult(planner, instance, iteration, bound, seconds)


def guarantees(iteration: Iteration) -> list[str]:
    """The paper's guarantees for an iteration of SPP, with their slack, one a line."""
    (schedule,), instance = iteration.schedules, iteration.instance
    least = min(plan.workload for plan in spp_plans(instance) if plan is not None)
    found = [lemma_1(schedule), lemma_2(instance, least)]
    if not instance.full_duplex:  # W is no bound in full duplex
        bound = iteration_bound(instance, allow_idle=False, ceiling=iteration.time)
        found.append(theorem_1(instance, iteration.time, bound.value))
    return [str(guarantee) for guarantee in found]
