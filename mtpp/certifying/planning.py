"""Certification of a plan: its bounds, the gap, and the paper's guarantees."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

import numpy as np

from heuristics.method import Limits
from heuristics.planning import PLANNERS
from heuristics.planning.orders import execute_orders, portfolio
from heuristics.planning.rivals import equal_replicas, improved_on_servers
from heuristics.planning.shared_cards import Effort
from heuristics.planning.spp import recursive_device_order, spp_plans
from instances import InputError, Result
from instances.deadline import Deadline, Stopwatch
from instances.errors import said, word
from instances.graph.tensors import IntArray
from instances.planning import Iteration, Plan, TrainingInstance
from instances.registry import find
from mtpp.certifying.loop import leaving_out
from mtpp_models import SolveOptions
from mtpp_models.exchange.files import write_built
from mtpp_models.planning.bounds import COVERED, iteration_bound, lemma_1, lemma_2, theorem_1
from mtpp_models.planning.solve import (
    CLASSES,
    bounds_by_coverage,
    build_replication,
    class_of,
    solve_replication,
    work_bound,
)

#: Outcome of a planner.
PlanResult = Result[TrainingInstance, Iteration]

#: Planners that are models: the plan along one order of the devices, solved to its optimum; and which form each is.
MILPS = {"milp": "makespan", "milp-load": "arc-flow", "milp-compact": "compact"}

# How far above the time of a plan its bounds may end, to save time.
_CEILING = 2.0
# Stages that cost more than this times the start are no part of a model.
_SLACK = 1.0


@dataclass(frozen=True)
class PlanSearch:
    """Settings of the search for a plan."""

    planner: str = "improved"  # a name of `PLANNERS` or of `MILPS`
    effort: int = 2  # of `improved` on shared network cards, 0 to 3
    orders: str = "auto"  # which orders of passes it may choose there
    time_limit: float | None = None  # seconds for the search
    tell: Callable[[str, float], None] | None = None  # told each phase and the best time by then
    interrupted: Event = field(default_factory=Event)  # ends search and proof, with the best by then
    legal: Callable[[Plan], bool] | None = None  # whether a plan may be the answer; None if any may


@dataclass(frozen=True)
class CoveredPlan:
    """A plan with the bounds of all classes of plans; the result has the one of its own class."""

    result: PlanResult
    words: str  # which plans the bound of the result covers
    bounds: dict[str, float]  # by class, the narrowest first [s]
    wider: tuple[PlanResult, ...] = ()  # the result once more with each bound of a wider class


def certify_plan(
    instance: TrainingInstance, rng: np.random.Generator, planner: str = "improved", search: PlanSearch | None = None
) -> PlanResult:
    """Plan an iteration and prove how far any plan of its class could be below it.

    There is no bound where every server runs a pipeline of its own, which no bound covers.

    Raises
    ------
    InputError
        If there is no such planner in `PLANNERS`, or it finds no plan that fits into memory.
    """
    return covered_plan(instance, rng, search or PlanSearch(planner)).result


def covered_plan(instance: TrainingInstance, rng: np.random.Generator, search: PlanSearch) -> CoveredPlan:
    """Plan as `certify_plan`, and prove the bounds of all classes.

    Raises
    ------
    InputError
        As `certify_plan`, and if options are given that the planner does not take.
    """
    watch = Stopwatch()
    iteration = _found(instance, rng, search) if search.legal is None else _legal(instance, rng, search)
    result = PlanResult(search.planner, instance, iteration, None, watch.seconds(search=watch.passed))
    return recovered(result, hurried=search.time_limit is not None, stopped=search.interrupted.is_set())


def recovered(result: PlanResult, *, hurried: bool = False, stopped: bool = False) -> CoveredPlan:
    """The result of a search with the bounds of all classes; `hurried` and `stopped` as of `bounds_by_coverage`."""
    notes = list[str]()
    with leaving_out("bounds", notes.append):
        return _covered(result, hurried=hurried, stopped=stopped)
    return CoveredPlan(replace(result, notes=tuple(notes)), "", {})


def _covered(result: PlanResult, *, hurried: bool, stopped: bool) -> CoveredPlan:
    watch, instance, iteration = Stopwatch(), result.instance, result.answer
    assert iteration is not None
    if iteration.plan is None:
        return CoveredPlan(result, "", {})
    (schedule,) = iteration.schedules
    if instance.network is None:
        bound = work_bound(instance) if stopped else iteration_bound(instance, ceiling=iteration.time)
        seconds = {**result.seconds, "bound": watch.passed}
        return CoveredPlan(replace(result, bound=bound, seconds=seconds), COVERED, {"fixed": bound.value})
    narrowest, classes = class_of(schedule), list(CLASSES)
    ceiling = iteration.time * (1 if narrowest == "fixed" or hurried else _CEILING)
    bounds = bounds_by_coverage(instance, ceiling, hurried=hurried, stopped=stopped)
    seconds = {**result.seconds, "bound": watch.passed}
    return CoveredPlan(
        result=replace(result, bound=bounds[narrowest], seconds=seconds),
        words=CLASSES[narrowest],
        bounds={name: bound.value for name, bound in bounds.items()},
        wider=tuple(
            replace(result, bound=bounds[name])
            for name in classes[classes.index(narrowest) + 1 :]
            if bounds[name].method != bounds[narrowest].method
        ),
    )


def _found(instance: TrainingInstance, rng: np.random.Generator, search: PlanSearch) -> Iteration:
    if search.planner in MILPS:
        return _solved(instance, search)
    planner = find(PLANNERS, search.planner, "planner")
    effort, limits = (
        Effort(search.effort, search.orders, search.tell),
        Limits(Deadline.after(search.time_limit, search.interrupted)),
    )
    if search.planner == "improved" and instance.network is not None:
        return improved_on_servers(instance, rng, limits, effort)
    if effort.orders != "auto" or effort.level != Effort().level:
        raise InputError(
            f"The planner {search.planner} has its own order and effort; choose {said('planner', 'improved')} "
            f"with {said('network', 'shared')}, or leave {word('orders')} and {word('effort')} out."
        )
    return planner.run(instance, rng, limits)


def _legal(instance: TrainingInstance, rng: np.random.Generator, search: PlanSearch) -> Iteration:
    """The plan of the search if it is legal, or the best with equal replicas, whichever takes less time."""
    assert search.legal is not None
    iterations = []
    with suppress(InputError):
        one = _found(instance, rng, search)
        iterations += [one] if one.plan is not None and search.legal(one.plan) else []
    if instance.network is not None:
        with suppress(InputError):
            limits = Limits(Deadline.after(search.time_limit))
            iterations.append(equal_replicas(instance, search.legal, search.orders, limits))
    if not iterations:
        why = "no plan was found that the runtime can express; give another number of devices, or leave its name out."
        raise InputError(f"{instance.label}: {why}")
    return min(iterations, key=lambda iteration: iteration.time)


def _solved(instance: TrainingInstance, search: PlanSearch) -> Iteration:
    """The plan of a model along RDO's order, in the order of passes that ends first."""
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
    """The order of the devices in a model."""
    if instance.network is None:
        raise InputError(f"The planner {planner} plans for {said('network', 'shared')}; choose that.")
    return recursive_device_order(instance.cluster)


def guarantees(iteration: Iteration) -> list[str]:
    """The paper's guarantees for an iteration of SPP, with their slack, one a line."""
    (schedule,), instance = iteration.schedules, iteration.instance
    least = min(plan.workload for plan in spp_plans(instance) if plan is not None)
    results = [lemma_1(schedule), lemma_2(instance, least)]
    if not instance.full_duplex:  # W is no bound in full duplex
        bound = iteration_bound(instance, allow_idle=False, ceiling=iteration.time)
        results.append(theorem_1(instance, iteration.time, bound.value))
    return [str(guarantee) for guarantee in results]
