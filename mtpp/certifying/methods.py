"""Methods that certify flows, placements and plans, with their shares of the time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from heuristics import Limits
from heuristics.flow.search import search_flow
from heuristics.placement.annealing import Tell
from heuristics.planning import PLANNERS
from heuristics.planning.grid import plan_in_grid
from heuristics.planning.orders import execute_orders, portfolio
from heuristics.planning.rivals import equal_replicas, improved_on_servers
from heuristics.planning.shared_cards import Effort
from heuristics.planning.spp import recursive_device_order, spp_plans
from instances import Bound, InputError, Result, combine
from instances.deadline import Deadline, Stopwatch
from instances.errors import find, said, word
from instances.flow.answer import FlowAnswer
from instances.flow.problem import FlowInstance
from instances.graph.tensors import IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.planning import Iteration, Plan, TrainingInstance
from instances.planning.grid import GridInstance, GridPlan
from instances.results import A, Q
from instances.serving.answer import Deployment
from instances.serving.problem import DeploymentInstance
from instances.system.processes import catch_interrupt
from mtpp.certifying.loop import Loop, Method, ignore
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.exchange.files import write_built
from mtpp_models.flow.bounds import bound_flow, bound_ticks
from mtpp_models.flow.deployments import deployed
from mtpp_models.flow.enumeration import enumerate_flows
from mtpp_models.placement.cp import CP, CP_SOLVER
from mtpp_models.placement.exact import EXACT
from mtpp_models.placement.registry import bound_placement
from mtpp_models.planning.bounds import iteration_bound, lemma_1, lemma_2, theorem_1
from mtpp_models.planning.grid import grid_bounds
from mtpp_models.planning.solve import bounds_of_plan, build_replication, solve_replication
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
        The best answer and the best bound; its parts are the results of all methods.
    """
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        loop: Loop[Q, A] = Loop(question, options, deadline, [], on_progress=on_progress, on_fault=on_fault)
        loop.steps(methods)
        loop.turns([method for method in methods if method.again])
        return loop.result()


def _telling(controls: Controls, bound: float | None = None) -> Tell:
    """A listener for the phases of a search, which reports the best cost so far."""

    def tell(phase: str, cost: float) -> None:
        controls.report(Progress(phase, 0.0, cost if math.isfinite(cost) else None, bound, None))

    return tell


def _bounds_behind(search: Method[Q, A], prove: Callable[[A, Deadline], Sequence[Bound]]) -> list[Method[Q, A]]:
    """A search for plans, followed by the bounds that hold for plans like the best one."""

    def run(best: Result[Q, A], controls: Controls) -> Result[Q, A] | None:
        watch, plan = Stopwatch(), best.answer
        bounds = [] if plan is None else prove(plan, controls.deadline)
        seconds = watch.seconds(bound=watch.passed)
        results = [Result(bound.method, best.instance, plan, bound, seconds) for bound in bounds]
        return combine(*results) if results else None

    return [search, Method("bounds", run, timeless=True, exact=True)]


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


def flow_methods(seed: int, *, search_only: bool = False) -> list[Method[FlowInstance, FlowAnswer]]:
    """Methods for flows: exhaustive ones for few devices, else a search and bounds, as often as there is time."""
    rng = np.random.default_rng(seed)

    def enumerate_all(best: FlowResult, controls: Controls, limit: int) -> FlowResult | None:
        enumerate_or_bound = enumerate_flows if best.instance.steps is None else bound_ticks
        return enumerate_or_bound(best.instance, limit, best.answer, controls.deadline)

    def search(best: FlowResult, controls: Controls) -> FlowResult | None:
        if best.gap is not None and best.gap <= _RESOLUTION:
            return None
        target = None if best.bound is None else best.bound.value * (1 + _JUST_ABOVE)
        return search_flow(best.instance, rng, Limits(controls.deadline, target=target), best.answer)

    bounded: list[FlowAnswer | None] = []  # the answers that have bounds, or none

    def prove(best: FlowResult, controls: Controls) -> FlowResult | None:
        if bounded and best.answer is bounded[-1]:
            return None
        bounded.append(best.answer)

        def tell(_: str, flow: float) -> None:
            controls.report(Progress("bounds", 0.0, best.cost, 1 / flow if flow else None, None))

        return combine(*bound_flow(best.instance, best.answer, controls.deadline, tell))

    annealing = Method("annealing", search, _SEARCH, timeless=True, exact=True, again=not search_only)
    if search_only:
        return [annealing]
    return [
        Method("enumeration", partial(enumerate_all, limit=_FEW), _SEARCH, counted=True),
        annealing,
        Method("enumeration", partial(enumerate_all, limit=_MANY), _SEARCH, counted=True),
        Method("bounds", prove, _PROVE, timeless=True, exact=True, again=True),
    ]


# Certification of a plan with degrees of parallelism: the search, the best uniform plan, and bounds.


#: Outcome of a search with degrees of parallelism.
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
    """Plan a global batch, as `runtime` can run it if that is given, and prove how much faster any plan could be.

    Parameters
    ----------
    time_limit : float, optional
        For the search, and as much again for the bounds [s].
    top : int
        Largest number of plans with other degrees beside the best one.

    Returns
    -------
    Result
        Its parts hold the bounds, the best uniform plan if one fits, and the best plans with other degrees.

    Raises
    ------
    InputError
        If nothing fits.
    """
    provenance = {"planner": "grid", "time_limit": time_limit}
    options = SolveOptions(time_limit=time_limit).doubled()
    result = answered(question, _grid_methods(runtime, top, provenance), options, on_progress)
    return replace(result, method="grid", provenance=provenance)


def _grid_methods(runtime: str | None, top: int, provenance: Mapping[str, Any]) -> list[Method[GridInstance, GridPlan]]:
    """A search for half of the time, then bounds."""

    def search(start: GridResult, controls: Controls) -> GridResult:
        question, watch = start.instance, Stopwatch()
        plans = plan_in_grid(question, Limits(controls.deadline), runtime, _telling(controls), top)
        seconds = watch.seconds(search=watch.passed)
        best = GridResult("grid", question, plans.best, seconds=seconds, provenance=provenance)
        uniform = [] if plans.uniform is None else [GridResult(UNIFORM, question, plans.uniform)]
        others = [GridResult(OTHER, question, plan) for plan in plans.of_other_degrees()]
        return combine(best, *uniform, *others)

    return _bounds_behind(Method("search", search, 0.5, timeless=True, exact=True), grid_bounds)


def uniform_plan(result: GridResult) -> GridPlan | None:
    """The best plan of the search with equal stages and equal degrees; None if none fits."""
    return next((part.answer for part in result.parts if part.method == UNIFORM), None)


def plans_of_other_degrees(result: GridResult) -> list[GridPlan]:
    """The best plans with other degrees than the answer, the fastest first."""
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
    """A search for half of the time, then bounds in order of effort.

    Parameters
    ----------
    search : callable
        Function of limits and a listener that returns a result, such as `search_placement`.
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


# Certification of a plan: its bounds, the gap, and the paper's guarantees.


#: Outcome of a planner.
PlanResult = Result[TrainingInstance, Iteration]

#: Planners that are models: the plan along one order of the devices, solved to its optimum; and which form each is.
MILPS = {"milp": "makespan", "milp-load": "arc-flow", "milp-compact": "compact"}

# Stages that cost more than this times the start are no part of a model.
_SLACK = 1.0


@dataclass(frozen=True)
class PlanSearch:
    """Settings of a search for plans."""

    planner: str = "improved"  # a name of `PLANNERS` or of `MILPS`
    effort: int = 2  # of `improved` on shared network cards, 0 to 3
    orders: str = "auto"  # which orders of passes it may choose there
    time_limit: float | None = None  # seconds for the search
    legal: Callable[[Plan], bool] | None = None  # whether a plan may be the answer; None if any may
    reorder: Callable[[Iteration], Iteration] | None = None  # the plan that is found in another order of passes


def certify_plan(
    instance: TrainingInstance,
    rng: np.random.Generator,
    planner: str = "improved",
    search: PlanSearch | None = None,
    on_progress: Callable[[Progress], None] = ignore,
) -> PlanResult:
    """Plan an iteration and prove how far below it any plan of its class, or of a wider class, could be.

    Where every server runs a separate pipeline there is no bound, as no method covers such plans.

    Raises
    ------
    InputError
        If there is no such planner in `PLANNERS`, it finds no plan that fits into memory, or options are given that it
        does not take.
    """
    settings = search or PlanSearch(planner)

    def find(_: PlanResult, controls: Controls) -> PlanResult:
        watch = Stopwatch()
        plan = _search if settings.legal is None else _legal
        iteration = plan(instance, rng, settings, controls)
        if settings.reorder is not None:
            iteration = settings.reorder(iteration)
        return PlanResult(settings.planner, instance, iteration, seconds=watch.seconds(search=watch.passed))

    def prove(iteration: Iteration, deadline: Deadline) -> list[Bound]:
        stopped = deadline.interrupted.is_set()
        return bounds_of_plan(iteration, hurried=settings.time_limit is not None, stopped=stopped)

    methods = _bounds_behind(Method("search", find, timeless=True, exact=True), prove)
    options = SolveOptions(time_limit=settings.time_limit)
    return replace(answered(instance, methods, options, on_progress), method=settings.planner)


def _search(instance: TrainingInstance, rng: np.random.Generator, search: PlanSearch, controls: Controls) -> Iteration:
    if search.planner in MILPS:
        return _solved(instance, search)
    planner = find(PLANNERS, search.planner, "planner")
    effort, limits = Effort(search.effort, search.orders, _telling(controls)), Limits(controls.deadline)
    if search.planner == "improved" and instance.network is not None:
        return improved_on_servers(instance, rng, limits, effort)
    if effort.orders != "auto" or effort.level != Effort().level:
        raise InputError(
            f"The planner {search.planner} has its own order and effort; choose {said('planner', 'improved')} "
            f"with {said('network', 'shared')}, or leave {word('orders')} and {word('effort')} out."
        )
    return planner.run(instance, rng, limits)


def _legal(instance: TrainingInstance, rng: np.random.Generator, search: PlanSearch, controls: Controls) -> Iteration:
    """The plan of the search if the runtime can run it, else the best with equal replicas."""
    assert search.legal is not None
    iterations = []
    with suppress(InputError):
        iteration = _search(instance, rng, search, controls)
        iterations += [iteration] if iteration.plan is not None and search.legal(iteration.plan) else []
    if instance.network is not None:
        with suppress(InputError):
            limits = Limits(Deadline.after(search.time_limit))
            iterations.append(equal_replicas(instance, search.legal, search.orders, limits))
    if not iterations:
        why = "no plan was found that the runtime can express; give another number of devices, or leave its name out."
        raise InputError(f"{instance.label}: {why}")
    return min(iterations, key=lambda iteration: iteration.time)


def _solved(instance: TrainingInstance, search: PlanSearch) -> Iteration:
    """The plan of a model along RDO's order, with the fastest order of passes."""
    options = SolveOptions(time_limit=search.time_limit)
    order = _order_of_model(instance, search.planner)
    answer = solve_replication(instance, order, options, form=MILPS[search.planner], slack=_SLACK).answer
    assert answer is not None
    timelines = [execute_orders(answer.plan, orders, name) for name, orders in portfolio(answer.plan)]
    if not timelines:
        raise InputError(
            f"The plan of the model does not fit into memory in any order; use {said('planner', 'improved')}."
        )
    return Iteration(instance, (min(timelines, key=lambda timeline: timeline.makespan),))


def write_planner(instance: TrainingInstance, planner: str, path: Path) -> None:
    """Write the model of a planner of `MILPS`, along RDO's order, as .lp or .mps with its names.

    Raises
    ------
    InputError
        If the planner is no model, or no plan along the order fits into memory.
    """
    form, order = find(MILPS, planner, "model of plans"), _order_of_model(instance, planner)
    write_built(build_replication(instance, order, form=form, slack=_SLACK), path)


def _order_of_model(instance: TrainingInstance, planner: str) -> IntArray:
    """The order of the devices in a planner's model."""
    if instance.network is None:
        raise InputError(f"The planner {planner} plans for {said('network', 'shared')}; choose that.")
    return recursive_device_order(instance.cluster)


def guarantees(iteration: Iteration) -> list[str]:
    """Lines with the paper's guarantees for an iteration of SPP, and their slack."""
    (schedule,), instance = iteration.schedules, iteration.instance
    least = min(plan.workload for plan in spp_plans(instance) if plan is not None)
    results = [lemma_1(schedule), lemma_2(instance, least)]
    if not instance.full_duplex:  # W is no bound in full duplex
        bound = iteration_bound(instance, allow_idle=False, ceiling=iteration.time)
        results.append(theorem_1(instance, iteration.time, bound.value))
    return [str(guarantee) for guarantee in results]


# Deployments of decoders on servers.


#: Outcome of a search for a deployment, with its proof.
DeploymentResult = Result[DeploymentInstance, Deployment]


def _deploy(best: DeploymentResult, controls: Controls) -> DeploymentResult:
    """A result with the best deployment and its bounds, or with the reason why there is none."""
    question, watch = best.instance, Stopwatch()

    def tell(devices: str, rate: float) -> None:
        controls.report(Progress(f"chains on {devices}", 0.0, None, None, None))

    answer, bounds, reason = deployed(question, controls.deadline, tell)
    seconds = watch.seconds(solve=watch.passed)
    if answer is None:
        return Result("chains", question, seconds=seconds, impossible=reason)
    results = [Result(bound.method, question, answer, bound, seconds) for bound in bounds]
    return combine(*results) if results else Result("chains", question, answer, None, seconds)


#: The search proves its deployment itself.
DEPLOYMENT_METHODS = [Method[DeploymentInstance, Deployment]("chains", _deploy, timeless=True, once=True)]
