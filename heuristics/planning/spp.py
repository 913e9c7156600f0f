"""SPP: PRM along RDO's order, PE for every number of stages (SPP, Algorithm 3)."""

from __future__ import annotations

from collections.abc import Iterable

from heuristics.planning.device_order import recursive_device_order
from heuristics.planning.execution import execute, iteration_time, pe
from heuristics.planning.prm import plans_by_stages
from instances.planning import Iteration, Plan, TrainingInstance

__all__ = ["fastest", "spp", "spp_plans"]


def spp(instance: TrainingInstance) -> Iteration:
    """Plan as the paper does: of the plans of least W with 1, 2, … stages, the one that PE executes fastest.

    Raises
    ------
    InputError
        If no plan fits into memory.
    """
    plan = fastest(instance, spp_plans(instance))
    return Iteration(instance, (execute(plan, pe(plan.n_stages, instance.microbatches)),))


def spp_plans(instance: TrainingInstance) -> list[Plan | None]:
    """Plans that SPP tries: at place S - 1 the one with S stages, None where none fits into memory."""
    return plans_by_stages(instance, recursive_device_order(instance.cluster), pe)


def fastest(instance: TrainingInstance, plans: Iterable[Plan | None]) -> Plan:
    """The first plan with the least makespan under PE.

    Raises
    ------
    InputError
        If there is none.
    """
    found = [plan for plan in plans if plan is not None]
    if not found:
        raise instance.no_plan
    return min(found, key=lambda plan: iteration_time(plan, pe(plan.n_stages, plan.instance.microbatches)))
