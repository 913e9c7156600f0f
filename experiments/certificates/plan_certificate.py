"""A plan and a bound: how far a plan could be below it, and what the paper guarantees."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from heuristics.planning import PLANNERS
from heuristics.planning.spp import spp_plans
from instances import Bound, FalseCertificateError
from instances.lookup import find
from instances.planning import Iteration, TrainingInstance
from mtpp_models.planning.guarantees import iteration_bound, lemma_1, lemma_2, theorem_1

__all__ = ["PlanCertificate", "certify_plan", "guarantees"]

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class PlanCertificate:
    """A plan with its schedule, and a time that no plan goes below of those that the bound covers.

    Parameters
    ----------
    planner : str
    iteration : Iteration
    bound : Bound, optional
        As `iteration_bound`; None where every server runs a pipeline of its own, which the bound does not cover.

    Raises
    ------
    FalseCertificateError
        If the bound exceeds the time of the iteration.
    """

    planner: str
    iteration: Iteration
    bound: Bound | None

    def __post_init__(self) -> None:
        if self.bound is not None and self.bound.value > self.iteration.time * (1 + _ROUNDING):
            raise FalseCertificateError(
                f"{self.iteration.instance.chain.name}: bound {self.bound.value!r} of {self.bound.method} exceeds the "
                f"time {self.iteration.time!r} of {self.planner}; please report this as a bug."
            )

    @property
    def ratio(self) -> float | None:
        """Time over bound, at least 1 up to rounding; infinite if the bound is 0 and the time is not."""
        if self.bound is None:
            return None
        if self.bound.value > 0:
            return max(1.0, self.iteration.time / self.bound.value)
        return 1.0 if self.iteration.time == 0 else math.inf

    @property
    def gap(self) -> float | None:
        """Ratio minus one."""
        return None if self.ratio is None else self.ratio - 1


def certify_plan(instance: TrainingInstance, rng: np.random.Generator, planner: str = "improved") -> PlanCertificate:
    """Plan an iteration and prove how far any plan that `iteration_bound` covers could be below it.

    Parameters
    ----------
    instance : TrainingInstance
    rng : numpy.random.Generator
    planner : str
        A name of `PLANNERS`.

    Raises
    ------
    InputError
        If the planner is unknown or finds no plan that fits into memory.
    """
    iteration = find(PLANNERS, planner, "planner").run(instance, rng)
    bound = None if iteration.plan is None else iteration_bound(instance, ceiling=iteration.time)
    return PlanCertificate(planner, iteration, bound)


def guarantees(answer: PlanCertificate) -> list[str]:
    """The paper's guarantees for an answer of SPP, with their slack, one a line."""
    (schedule,), instance = answer.iteration.schedules, answer.iteration.instance
    least = min(plan.workload for plan in spp_plans(instance) if plan is not None)
    found = [lemma_1(schedule), lemma_2(instance, least)]
    if not instance.full_duplex:  # W is no bound in full duplex
        bound = iteration_bound(instance, allow_idle=False, ceiling=answer.iteration.time)
        found.append(theorem_1(instance, answer.iteration.time, bound.value))
    return [str(guarantee) for guarantee in found]
