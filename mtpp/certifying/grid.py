"""Certification of a plan in a grid: the search, the best uniform plan, and bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from heuristics.limits import Limits
from heuristics.planning.grid import plan_in_grid
from instances import Result, combine
from instances.deadline import Deadline, Stopwatch
from instances.planning.grid import GridInstance, GridPlan
from instances.system.interrupts import catch_interrupt
from mtpp.certifying.loop import Loop, Method
from mtpp_models import SolveOptions
from mtpp_models.planning.grid import COVERED, grid_bounds
from mtpp_models.solvers.interface import Controls

__all__ = ["CoveredGrid", "GridResult", "covered_grid"]

#: Outcome of a search in a grid.
GridResult = Result[GridInstance, GridPlan]


@dataclass(frozen=True)
class CoveredGrid:
    """A plan with its bounds, beside the best uniform plan."""

    result: GridResult
    uniform: GridPlan | None  # None if no uniform plan fits
    words: str  # which plans the bound of the result covers


def covered_grid(
    question: GridInstance,
    time_limit: float | None = None,
    runtime: str | None = None,
    tell: Callable[[str, float], None] | None = None,
) -> CoveredGrid:
    """Plan, such that `runtime` can run it if there is one, and prove how much faster any plan could be.

    Raises
    ------
    InputError
        If nothing fits.
    """
    with catch_interrupt() as interrupted:
        watch = Stopwatch()
        search = plan_in_grid(question, Limits(Deadline.after(time_limit, interrupted)), runtime, tell)
        plan = search.best
        assert plan is not None
        provenance = {"planner": "grid", "time_limit": time_limit}
        seconds, limited = watch.seconds(search=watch.passed), time_limit is not None
        found = GridResult("grid", question, plan, seconds=seconds, provenance=provenance, clocked=limited)

        def prove(_: GridResult, controls: Controls) -> GridResult:
            watch = Stopwatch()
            bounds = grid_bounds(plan, controls.deadline)
            seconds = watch.seconds(bound=watch.passed)
            return combine(*(GridResult(bound.method, question, plan, bound, seconds) for bound in bounds))

        loop = Loop(question, SolveOptions(), Deadline.after(time_limit, interrupted), [found])
        loop.steps([Method("bounds", prove, timeless=True)])
    result = replace(loop.result(), method="grid", provenance=provenance)
    return CoveredGrid(result, search.uniform, "" if result.bound is None else COVERED[result.bound.method])
