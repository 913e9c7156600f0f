"""Certification of a plan in a grid: the search, the best uniform plan, and bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from heuristics.limits import Limits
from heuristics.planning.grid import plan_in_grid
from instances import Result
from instances.deadline import Deadline, Stopwatch
from instances.planning.grid import GridInstance, GridPlan
from instances.system.interrupts import catch_interrupt
from mtpp_models.planning.grid import COVERED, grid_bounds

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
    watch = Stopwatch()
    with catch_interrupt() as interrupted:
        search = plan_in_grid(question, Limits(Deadline.after(time_limit, interrupted)), runtime, tell)
        assert search.best is not None
        searched = watch.passed
        bounds = grid_bounds(search.best, Deadline.after(time_limit, interrupted))
    seconds = watch.seconds(search=searched, bound=watch.passed - searched)
    provenance = {"planner": "grid", "time_limit": time_limit}
    parts = tuple(GridResult("grid", question, search.best, bound, seconds, provenance=provenance) for bound in bounds)
    parts = tuple(replace(part, interrupted=interrupted.is_set()) for part in parts)
    best = max(parts, key=lambda part: part.bound.value if part.bound else 0.0)
    words = "" if best.bound is None else COVERED[best.bound.method]
    return CoveredGrid(replace(best, parts=parts), search.uniform, words)
