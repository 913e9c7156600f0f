"""Methods that certify flows, placements and plans with degrees, with their shares of the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from heuristics import Limits
from heuristics.flow import search_flow
from heuristics.planning.grid import plan_in_grid
from instances import Result, combine
from instances.deadline import Deadline, Stopwatch
from instances.flow.answer import FlowAnswer
from instances.flow.problem import FlowInstance
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.planning.grid import GridInstance, GridPlan
from instances.system.processes import catch_interrupt
from mtpp.certifying.loop import Loop, Method, ignore
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.flow import bound_flow
from mtpp_models.placement.registry import bound_placement
from mtpp_models.planning.grid import COVERED, grid_bounds
from mtpp_models.solvers.interface import Controls

# Certification of a flow: search and bounds, in turns, until they meet or time is up.


#: Outcome of a search for layers of devices, or of its certification.
FlowResult = Result[FlowInstance, FlowAnswer]

# Part of the time left for the first search, and for bounds behind it.
_SEARCH, _PROVE = 0.2, 0.4
# A gap that bounds by parts of a flow cannot close.
_RESOLUTION = 1e-4
# A search ends this far above a bound, rounding aside.
_JUST_ABOVE = 1e-6


def find_flow(
    instance: FlowInstance, seed: int, time_limit: float | None, start: FlowAnswer | None = None
) -> FlowResult:
    """Search alone; Ctrl-C ends it and keeps the best."""
    with catch_interrupt() as interrupted:
        limits = Limits(Deadline.after(time_limit, interrupted))
        found = search_flow(instance, np.random.default_rng(seed), limits, start)
        return replace(found, clocked=time_limit is not None)


def certify_flow(
    instance: FlowInstance,
    seed: int,
    time_limit: float | None,
    on_progress: Callable[[Progress], None] = ignore,
) -> FlowResult:
    """Search, prove, and search again up to what is proved; its `parts` hold the bounds of all methods."""
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(time_limit, interrupted)
        answers = list[FlowResult]()
        loop = Loop(instance, SolveOptions(seed=seed), deadline, answers, on_progress=on_progress)
        loop.steps(flow_methods(instance, np.random.default_rng(seed)))
        return loop.result()


def flow_methods(instance: FlowInstance, rng: np.random.Generator) -> list[Method[FlowInstance, FlowAnswer]]:
    """A search, bounds, and both once more where that can close the gap."""

    def search(best: FlowResult, controls: Controls) -> FlowResult:
        target = None if best.bound is None else best.bound.value * (1 + _JUST_ABOVE)
        return search_flow(instance, rng, Limits(controls.deadline, target=target), best.answer)

    def search_again(best: FlowResult, controls: Controls) -> FlowResult | None:
        return search(best, controls) if (best.gap or 0.0) > _RESOLUTION else None

    def prove(best: FlowResult, controls: Controls) -> FlowResult:
        def tell(_: str, flow: float) -> None:
            controls.report(Progress("bounds", 0.0, best.cost, 1 / flow if flow else None, None))

        return combine(*bound_flow(instance, best.answer, controls.deadline, tell))

    def prove_again(best: FlowResult, controls: Controls) -> FlowResult | None:
        return prove(best, controls) if best.answer is not best.parts[0].answer else None

    return [
        Method("annealing", search, _SEARCH, timeless=True),
        Method("bounds", prove, _PROVE, timeless=True, exact=True),
        Method("annealing again", search_again, 1 - _PROVE),
        Method("bounds again", prove_again, timeless=True, exact=True),
    ]


# Certification of a plan in a grid: the search, the best uniform plan, and bounds.


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


# Certification of a placement: bounds that need no solver, then exact models, while a gap is left.


#: In order of effort: a name of `PLACEMENT_MODELS`, its part of the time that is left, and how many nodes it is worth
#: that for. With more the exact model is hopeless for MIP solvers; CP-SAT, which nobody has named, takes some hundred.
PLACEMENT_STEPS = (("colocation", 0.5, float("inf")), ("place-exact", 0.5, 24), ("place-cp", 1.0, 500))


def placement_methods(instance: PlacementInstance) -> list[Method[PlacementInstance, Placement]]:
    """The bounds that are worth their time, each from the shortest placement, those that fit first."""

    def method(model: str, share: float) -> Method[PlacementInstance, Placement]:
        def run(
            best: Result[PlacementInstance, Placement], controls: Controls
        ) -> Result[PlacementInstance, Placement] | None:
            return None if best.answer is None else bound_placement(best.answer, model, controls.options)

        return Method(model, run, share, optional=model == "place-cp")

    return [method(model, share) for model, share, most in PLACEMENT_STEPS if instance.graph.n <= most]


def prove_placement(
    known: Result[PlacementInstance, Placement],
    options: SolveOptions,
    on_progress: Callable[[Progress], None],
    on_fault: Callable[[SolverNotAvailableError], None],
) -> Result[PlacementInstance, Placement]:
    """Prove how good a placement is, and perhaps find a better one.

    Parameters
    ----------
    known : Result
        With a placement.
    options : SolveOptions
        The time limit is for all bounds together.
    on_progress : callable
        Receives the model at work with what is known.
    on_fault : callable
        Receives the `SolverNotAvailableError` of each solver that is missing or fails; the others go on without it.

    Returns
    -------
    Result
        The best placement and the best bound; its parts begin with `known`. Ctrl-C ends the work and returns what is
        known.
    """
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        loop = Loop(known.instance, options, deadline, [known], on_progress=on_progress, on_fault=on_fault)
        loop.steps(placement_methods(known.instance))
        return loop.result()
