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

    Settings whose program the deadline leaves out or breaks off count with their even share of work.
    """
    question, narrow = plan.instance, plan.time
    settings = [(even_work(question, *one), *one) for one in settings_of(question)]
    work = Bound(min([plan.time, *(least for least, _, _ in settings)]), "work-grid")
    if plan.turns > 1:
        turns = None if deadline.passed else turns_bound(plan, deadline)
        return (work,) if turns is None else (Bound(max(turns, work.value), "turns-grid"), work)
    complete = True
    for least, setting, arrays in sorted(settings, key=lambda one: one[0]):
        if least >= narrow:
            break
        found = None if deadline.passed else solve(question, arrays, setting, plan.time, deadline)
        complete &= found is not None
        narrow = min(narrow, least if found is None else found.bound)
    return Bound(narrow, "z-grid", optimal=complete), work
