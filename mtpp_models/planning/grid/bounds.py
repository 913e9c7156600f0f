"""Bounds on training plans in a grid, named by the plans that they cover.

*z-grid* is the least value of `instances.planning.grid.program` over all degrees: it holds for plans whose devices
run one stage each, in any order of unsplit passes with 1F1B's number of microbatches on their way; *turns-grid*, of
`mtpp_models.planning.grid.turns`, for several in turns. *work-grid* is an even share of the least work.
"""

from __future__ import annotations

from instances.deadline import Deadline
from instances.planning.grid.plan import GridPlan
from instances.planning.grid.program import solve
from instances.planning.grid.settings import even_work, settings_of
from instances.results import Bound
from mtpp_models.planning.grid.turns import turns_bound

__all__ = ["COVERED", "grid_bounds"]

#: Bounds and the plans that they cover, in words; the narrowest first.
COVERED = {
    "z-grid": "any cuts, degrees and recomputation, one stage a device",
    "turns-grid": "any cuts, degrees and recomputation, stages in turns in Megatron-LM's order",
    "work-grid": "any plan in the grid, stages in turns as well",
}


def grid_bounds(plan: GridPlan, deadline: Deadline) -> tuple[Bound, ...]:
    """Bounds on all plans of the question that hold for this one, the narrowest first.

    Settings that the deadline leaves out count with their even share of work.
    """
    question, narrow = plan.instance, plan.time
    settings = [(even_work(question, *one), *one) for one in settings_of(question)]
    work = Bound(min([plan.time, *(least for least, _, _ in settings)]), "work-grid")
    if plan.turns > 1:
        turns = None if deadline.passed else turns_bound(plan)
        return (work,) if turns is None else (Bound(max(turns, work.value), "turns-grid"), work)
    for least, setting, arrays in sorted(settings, key=lambda one: one[0]):
        if least >= narrow:
            break
        narrow = min(narrow, least if deadline.passed else solve(question, arrays, setting, plan.time).bound)
    return Bound(narrow, "z-grid", optimal=not deadline.passed), work
