"""Methods that certify flows, placements and plans with degrees, with their shares of the time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from heuristics import Limits
from heuristics.flow.search import search_flow
from heuristics.placement.annealing import Tell
from heuristics.planning.grid import plan_in_grid
from instances import Result, combine
from instances.deadline import Deadline, Stopwatch
from instances.flow.answer import FlowAnswer
from instances.flow.problem import FlowInstance
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.planning.grid import GridInstance, GridPlan
from instances.results import A, Q
from instances.system.processes import catch_interrupt
from mtpp.certifying.loop import Loop, Method, ignore
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.flow.bounds import bound_flow
from mtpp_models.flow.enumeration import enumerate_flows
from mtpp_models.flow.ticks import bound_ticks
from mtpp_models.placement.cp import CP, CP_SOLVER
from mtpp_models.placement.exact import EXACT
from mtpp_models.placement.registry import bound_placement
from mtpp_models.planning.grid import grid_bounds
from mtpp_models.solvers.interface import Controls

# Answers to one question by methods in turn, the same for all problems whose methods are a search and bounds on it.


def answered(
    question: Q,
    methods: Sequence[Method[Q, A]],
    options: SolveOptions,
    on_progress: Callable[[Progress], None] = ignore,
    on_fault: Callable[[SolverNotAvailableError], None] = ignore,
) -> Result[Q, A]:
    """Run methods in turn under one time limit; Ctrl-C ends the work and keeps what is known.

    Parameters
    ----------
    options : SolveOptions
        The time limit is for all methods together.
    on_progress : callable
        Receives the method at work with the best cost and bound so far.
    on_fault : callable
        Receives the `SolverNotAvailableError` of each solver that is missing or fails; the others go on without it.

    Returns
    -------
    Result
        The best answer and the best bound; its parts are those of all methods.
    """
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        loop: Loop[Q, A] = Loop(question, options, deadline, [], on_progress=on_progress, on_fault=on_fault)
        loop.steps(methods)
        return loop.result()


def _telling(controls: Controls, bound: float | None = None) -> Tell:
    """A listener for the phases of a search, with the best cost by then; infinite while there is none."""

    def tell(phase: str, cost: float) -> None:
        controls.report(Progress(phase, 0.0, cost if math.isfinite(cost) else None, bound, None))

    return tell


# Certification of a flow: search and bounds, in turns, until they meet or time is up.


#: Outcome of a search for layers of devices, or of its certification.
FlowResult = Result[FlowInstance, FlowAnswer]

# Part of the time left for the first search, and for bounds behind it.
_SEARCH, _PROVE = 0.2, 0.4
# Branches over the layers of devices: before anything else, and with the answer of a search.
_FEW, _MANY = 500_000, 5_000_000
# A gap that bounds by parts of a flow cannot close.
_RESOLUTION = 1e-4
# A search ends this far above a bound, rounding aside.
_JUST_ABOVE = 1e-6


def flow_methods(
    instance: FlowInstance, seed: int, *, search_only: bool = False
) -> list[Method[FlowInstance, FlowAnswer]]:
    """A search alone; or all layers of few devices, a search, bounds, and both again where that can close the gap."""
    rng = np.random.default_rng(seed)

    enumerate_all = enumerate_flows if instance.steps is None else bound_ticks

    def enumerate_few(best: FlowResult, controls: Controls) -> FlowResult | None:
        return enumerate_all(instance, _FEW, best.answer, controls.deadline)

    def enumerate_many(best: FlowResult, controls: Controls) -> FlowResult | None:
        return enumerate_all(instance, _MANY, best.answer, controls.deadline)

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

    if search_only:
        return [Method("annealing", search, timeless=True, exact=True)]
    return [
        Method("enumeration", enumerate_few, _SEARCH, counted=True),
        Method("annealing", search, _SEARCH, timeless=True, exact=True),
        Method("enumeration", enumerate_many, _SEARCH, counted=True),
        Method("bounds", prove, _PROVE, timeless=True, exact=True),
        Method("annealing again", search_again, 1 - _PROVE),
        Method("bounds again", prove_again, timeless=True, exact=True),
    ]


# Certification of a plan in a grid: the search, the best uniform plan, and bounds.


#: Outcome of a search in a grid.
GridResult = Result[GridInstance, GridPlan]


#: Names of the best uniform plan, and of plans of other degrees, among the parts of a result.
UNIFORM, OTHER = "uniform", "other degrees"


def certify_grid(
    question: GridInstance,
    time_limit: float | None = None,
    runtime: str | None = None,
    on_progress: Callable[[Progress], None] = ignore,
    top: int = 0,
) -> GridResult:
    """Plan, such that `runtime` can run it if there is one, and prove how much faster any plan could be.

    Parameters
    ----------
    time_limit : float, optional
        For the search, and as much again for the bounds [s].
    top : int
        Plans of other degrees beside the best, at most.

    Returns
    -------
    Result
        Its parts hold the bounds, the best uniform plan if one fits, and the best ones of other degrees.

    Raises
    ------
    InputError
        If nothing fits.
    """
    provenance = {"planner": "grid", "time_limit": time_limit}

    def search(_: GridResult, controls: Controls) -> GridResult:
        watch = Stopwatch()
        plans = plan_in_grid(question, Limits(controls.deadline), runtime, _telling(controls))
        seconds = watch.seconds(search=watch.passed)
        best = GridResult("grid", question, plans.best, seconds=seconds, provenance=provenance)
        others = [GridResult(OTHER, question, plan) for plan in plans.of_other_degrees(top)]
        return combine(
            best, *([] if plans.uniform is None else [GridResult(UNIFORM, question, plans.uniform)]), *others
        )

    def prove(best: GridResult, controls: Controls) -> GridResult:
        assert best.answer is not None
        watch = Stopwatch()
        bounds = grid_bounds(best.answer, controls.deadline)
        seconds = watch.seconds(bound=watch.passed)
        return combine(*(GridResult(bound.method, question, best.answer, bound, seconds) for bound in bounds))

    methods = [
        Method("search", search, 0.5, timeless=True, exact=True),
        Method("bounds", prove, timeless=True, exact=True),
    ]
    options = SolveOptions(time_limit=None if time_limit is None else 2 * time_limit)
    return replace(answered(question, methods, options, on_progress), method="grid", provenance=provenance)


def uniform_plan(result: GridResult) -> GridPlan | None:
    """The best plan of equal stages and degrees that the search has met; None if none fits."""
    return next((part.answer for part in result.parts if part.method == UNIFORM), None)


def plans_of_other_degrees(result: GridResult) -> list[GridPlan]:
    """The best plans of other degrees than the answer, the fastest first."""
    return [part.answer for part in result.parts if part.method == OTHER and part.answer is not None]


# Certification of a placement: a search, bounds that need no solver, then exact models, while a gap is left.


#: A search for a placement within limits, which tells each phase and the best time by then.
Placer = Callable[[Limits, Tell], Result[PlacementInstance, Placement]]
#: In order of effort: a name of `PLACEMENT_MODELS`, its part of the time that is left, and how many nodes it is worth
#: that for. With more the exact model is hopeless for MIP solvers; CP-SAT, which nobody has named, takes some hundred.
PLACEMENT_STEPS = (("colocation", 0.5, float("inf")), (EXACT, 0.5, 24), (CP, 1.0, 500))


def placement_methods(
    instance: PlacementInstance, search: Placer, *, search_only: bool = False
) -> list[Method[PlacementInstance, Placement]]:
    """A search for half of the time, and the bounds that are worth their time, each from the best.

    Parameters
    ----------
    search : callable
        From limits and a listener, as `search_placement`.
    search_only : bool
        Whether the search has all of the time, and bounds none.
    """

    def find(_: Result[PlacementInstance, Placement], controls: Controls) -> Result[PlacementInstance, Placement]:
        return search(Limits(controls.deadline), _telling(controls, instance.lower_bound))

    def bound(model: str, share: float) -> Method[PlacementInstance, Placement]:
        def run(
            best: Result[PlacementInstance, Placement], controls: Controls
        ) -> Result[PlacementInstance, Placement] | None:
            options = controls.options
            if best.answer is None or (model == EXACT and options.solver == CP_SOLVER):
                return None
            if options.solver != CP_SOLVER and model == CP:
                options = replace(options, solver_options={})  # they are of the solver that is named
            return bound_placement(best.answer, model, options)

        return Method(model, run, share, optional=model == CP)

    first = Method("search", find, 1.0 if search_only else 0.5, timeless=True, exact=True)
    bounds = [bound(model, share) for model, share, largest in PLACEMENT_STEPS if instance.graph.n <= largest]
    return [first, *([] if search_only else bounds)]
