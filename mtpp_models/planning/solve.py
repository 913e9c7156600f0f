"""Solution of the mixed-integer models of plans, and bounds by class of plans."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from instances import Bound, InputError, Result
from instances.deadline import Deadline, Stopwatch
from instances.errors import find
from instances.graph.tensors import IntArray
from instances.planning import Iteration, Plan, Timeline, TrainingInstance
from instances.planning.bounds import fastest_speeds, least_z, speeds_along, z_points
from instances.results import PROOF_TOLERANCE
from instances.system.processes import catch_interrupt
from mtpp_models.planning.bounds import COVERED, iteration_bound, least_z_on_servers
from mtpp_models.planning.models import FORMS, ScaledTraining, StagePrice
from mtpp_models.solvers.interface import Controls, SolveOptions, SolverFaultError, SolverOutcome, Termination
from mtpp_models.solvers.modeling import Labels, pyo
from mtpp_models.solvers.registry import Solver, find_solver

# Solve the replication problem along an order of the devices with any solver, and keep only what is proved.


_ROUNDING = 1e-9
# The ceiling is at most this many units, so that costs within reach are near 1.
_FAR = 20.0
# How far from 0 or 1 a solver may leave a binary variable.
_INTEGRAL = 1e-4


@dataclass(frozen=True, eq=False)
class CostedPlan:
    """A plan with its objective in one of the forms of the model."""

    plan: Plan
    cost: float  # computed anew: W, or Z in the makespan form [s]

    @property
    def instance(self) -> TrainingInstance:
        """The question that the plan answers."""
        return self.plan.instance


@dataclass(frozen=True, kw_only=True)
class BuiltReplication:
    """A model of the replication problem along an order of the devices, to which rows may be added."""

    model: pyo.ConcreteModel  # its variables are those of `mtpp_models.planning.models`
    name: str  # of the form
    instance: TrainingInstance  # the question
    order: tuple[int, ...]  # the devices, as stages take them
    start: Plan  # plans that cost more than its cost times the slack are left out
    unit: float  # time of an objective of 1 [s]

    @cached_property
    def labels(self) -> Labels:
        """The names of variables and rows in files."""
        return Labels()

    def legend(self, names: str) -> list[str]:
        """Comment lines for a model's file; full names of variables are in the file `names`."""
        return [
            f"{self.name} of {self.instance.label}, devices in the order {','.join(map(str, self.order))}",
            f"unit of time: {self.unit!r} s; an objective of 1 is {self.unit!r} s of an iteration",
            f"layers, devices and microbatches are numbered; {names} says of what",
        ]

    def document(self) -> dict[str, Any]:
        """Members of the file with the names of variables and rows."""
        chain = self.instance.chain
        return {
            "instance": self.instance.label,
            "question": self.instance.key,
            "time_unit": "s",
            "layers": list(chain.names),
            "order": list(self.order),
        }


def build_replication(
    instance: TrainingInstance,
    order: Sequence[int] | IntArray | None = None,
    *,
    form: str = "arc-flow",
    start: Plan | None = None,
    slack: float = 1.0,
) -> BuiltReplication:
    """Build the model that cuts a chain and replicates its stages, to add rows and solve it.

    `read_plan` reads its solution, `mtpp_models.write_model` writes it. As with `build`, a bound that a solver proves
    with added rows does not apply to the question.

    Parameters
    ----------
    instance : TrainingInstance
        Chain, cluster and microbatches.
    order : (V,) integers, optional
        Order in which stages take devices; by default that of the cluster.
    form, start, slack
        As for `solve_replication`.

    Raises
    ------
    InputError
        As `solve_replication`, options apart.

    Examples
    --------
    >>> from instances.planning import Cluster, LayerChain
    >>> chain = LayerChain([1, 1], [2, 2], forward_bytes=[8], backward_bytes=[8], param_bytes=[0, 0])
    >>> built = build_replication(TrainingInstance(chain, Cluster.of_servers((2,), 8.0, 8.0), 4))
    >>> _ = pyo.SolverFactory("appsi_highs").solve(built.model)
    >>> read_plan(built).workload
    12.0
    """
    chosen = find(FORMS, form, "form")
    if not isinstance(instance, TrainingInstance):
        raise InputError(f"The model {form} is one of plans; give a TrainingInstance of a chain and a cluster.")
    if not 1 <= slack < math.inf:
        raise InputError(f"The slack is {slack}; it must be 1 or more, and finite.")
    places = list(range(instance.cluster.n)) if order is None else np.asarray(order, dtype=np.int64).tolist()
    speeds = speeds_along(instance.cluster, places, instance.ports)
    if len(places) < instance.cluster.n:
        raise InputError(f"The order names {len(places)} of {instance.cluster.n} devices; name all of them.")
    if start is None:
        points = z_points(instance, speeds, math.inf, np.ones(1))
        if not len(points.first):
            raise instance.no_plan
        cuts, replicas, _ = points.stages(int(points.first[0]))
        start = Plan.along(instance, cuts, replicas, places)
    stages = _stages_along(instance, start, places)
    ceiling = slack * chosen.cost(start)
    unit = max(_work(instance), ceiling / _FAR) or 1.0
    model = chosen.build(ScaledTraining(instance, speeds, unit, ceiling / unit))
    chosen.start(model, stages)
    return BuiltReplication(model=model, name=form, instance=instance, order=tuple(places), start=start, unit=unit)


def read_plan(built: BuiltReplication) -> Plan:
    """Read the plan from the values of the variables; its costs are computed from the definition.

    Raises
    ------
    InputError
        If a 0/1 variable has no value or is neither 0 nor 1, or this is no plan, or one that does not fit into memory.
    """
    for variable in built.model.component_data_objects(pyo.Var):
        value = variable.value
        if variable.is_binary() and (value is None or not min(abs(value), abs(value - 1)) <= _INTEGRAL):
            label = built.labels(variable)
            raise InputError(f"{label} is {value}, neither 0 nor 1; solve the model, with whole numbers, first.")
    stages = FORMS[built.name].stages(built.model)
    ends, replicas = (0, *(stage.e for stage in stages)), (stage.r for stage in stages)
    return Plan.along(built.instance, ends, replicas, built.order)


def solve_replication(
    instance: TrainingInstance,
    order: Sequence[int] | IntArray,
    options: SolveOptions = SolveOptions(),
    *,
    form: str = "arc-flow",
    start: Plan | None = None,
    slack: float = 1.0,
) -> Result[TrainingInstance, CostedPlan]:
    """Cut the chain and replicate its stages at least cost, along an order of all devices.

    Memory counts as in `Plan`, with one microbatch in flight.

    Parameters
    ----------
    order : (V,) integers
        Order in which stages take devices.
    options : SolveOptions
        The time limit includes building the model.
    form : str
        A name of `FORMS`: "arc-flow" and "compact" minimise W, "makespan" minimises Z.
    start : Plan, optional
        Warm start; by default the plan of least Z. To minimise W of a large instance, give one of small W.
    slack : float
        Stages and channels that cost more than this multiple of the start's objective are left out; 1 or more.

    Returns
    -------
    Result
        Always with the best known plan along the order, and a bound for all plans on all devices along it: the solver's
        dual bound less a margin for tolerances, and at least an even share of the work. Its method is the form. Ctrl-C
        returns the best plan and bound so far.

    Raises
    ------
    InputError
        If an option is out of its range, no plan along the order fits into memory, or the start is not along it.
    SolverNotAvailableError
        If the solver cannot run here.
    SolverFaultError
        If the solver fails, or its bound is refuted by the plan of its start or solution.
    """
    watch, deadline = Stopwatch(), Deadline.after(options.time_limit)
    chosen, driver = find(FORMS, form, "form"), find_solver(options.solver).with_options(options)
    with catch_interrupt() as interrupted:
        built = build_replication(instance, order, form=form, start=start, slack=slack)
        built_in = watch.passed
        label = f"{instance.label} {form}"
        controls = Controls(options, replace(deadline, interrupted=interrupted), label=label)
        outcome = SolverOutcome(Termination.STOPPED) if interrupted.is_set() else driver.solve(built.model, controls)
        stopped = interrupted.is_set()
    best = built.start
    if outcome.objective is not None:
        with contextlib.suppress(InputError):  # of a solution that is not feasible
            best = min(best, read_plan(built), key=chosen.cost)
    stated = _proved(outcome, driver) * built.unit
    if stated > chosen.cost(best) * (1 + _ROUNDING):
        symptom = f"states the bound {stated:.6g} of {form}, against a plan of cost {chosen.cost(best):.6g}"
        raise SolverFaultError(driver.name, symptom)
    proved = max(_work(instance) * (1 - _ROUNDING), stated)
    closed = outcome.termination is Termination.OPTIMAL and proved >= chosen.cost(best) * (1 - PROOF_TOLERANCE)
    return Result(
        method=form,
        instance=instance,
        answer=CostedPlan(best, chosen.cost(best)),
        bound=Bound(proved, form, closed),
        seconds=watch.seconds(build=built_in, solve=watch.passed - built_in),
        solver=f"{driver.name} {driver.version()}",
        log=outcome.log,
        interrupted=stopped,
    )


def _work(instance: TrainingInstance) -> float:
    """Even share of the work of an iteration for each device, a lower bound on W and Z [s]."""
    arrays = instance.arrays
    layers = np.diff(arrays.forward + arrays.backward, axis=1).min(axis=0)  # where few replicas waste least
    return float(instance.microbatches * layers.sum() / instance.cluster.n)


def _stages_along(instance: TrainingInstance, start: Plan, places: list[int]) -> list[StagePrice]:
    """Stages of the start along `places`; an `InputError` if it answers another question or uses another order."""
    if start.instance.key != instance.key:
        raise InputError("The start belongs to another instance; give a plan of this one.")
    ends = np.cumsum([0, *start.replicas]).tolist()
    along = [set(places[i:j]) for i, j in pairwise(ends)]
    if ends[-1] < len(places) or along != [set(stage) for stage in start.devices]:
        raise InputError("The start does not take all devices along the order; give a plan that does.")
    return [
        StagePrice(k, e, i, r)
        for (k, e), i, r in zip(pairwise(start.cuts), ends[:-1], start.replicas.tolist(), strict=True)
    ]


def _proved(outcome: SolverOutcome, solver: Solver) -> float:
    """Dual bound of the solver less the margin for tolerances; 0 if it has none."""
    if outcome.termination is Termination.INFEASIBLE:
        raise SolverFaultError(solver.name, "says that there is no plan, against one that is known")
    return 0.0 if outcome.bound is None else outcome.bound - solver.margin * max(1.0, abs(outcome.bound))


# Lower bounds on the time of an iteration, each named by the plans that it covers.
#
# =========  ====================================================================
# fixed      a device runs one stage, backward passes are in one piece
# split      a device runs one stage, backward passes may be split
# any        all plans, with interleaved stages too
# =========  ====================================================================
#
# Devices, replicas, cuts and schedules are free in all of them. Replicas of a stage do alike at once; servers that run
# pipelines of their own (HetPipe) are not covered.


#: Descriptions of the classes of plans, the narrowest first.
CLASSES = {
    "fixed": "any plan with one stage a device and backward passes in one piece",
    "split": "any plan with one stage a device, backward passes split or not",
    "any": "any plan, interleaved or not",
}


def covered(method: str) -> str:
    """A text that names the plans to which a method's bound applies."""
    return CLASSES.get(method.rpartition("-")[2], COVERED)


#: States of the program that knows servers; more take too long, and it is left out.
_MOST_STATES = 4_500_000
#: States that take seconds.
_LARGE = 1_000_000


def bounds_by_coverage(
    instance: TrainingInstance, ceiling: float = math.inf, *, hurried: bool = False, stopped: bool = False
) -> dict[str, Bound]:
    """Bounds on iteration times on shared network cards, by class of plans.

    Parameters
    ----------
    instance : TrainingInstance
        With a network.
    ceiling : float
        Upper limit of the bounds; the time of a known plan saves work [s].
    hurried : bool
        Whether a large question gets a single dynamic program that ignores servers, for split backward passes; its
        bound applies to unsplit ones as well.
    stopped : bool
        Whether no dynamic program runs, so that an even share of the work is the bound of every class.

    Raises
    ------
    InputError
        If no plan fits into memory.
    """
    work = work_bound(instance)
    if stopped:
        return {"fixed": work, "split": work, "any": work}
    if hurried and _states(instance) > _LARGE:
        both = Bound(max(_without_servers(instance, ceiling, split=True), work.value), "z-split")
        if math.isinf(both.value):
            raise instance.no_plan
        return {"fixed": both, "split": both, "any": work}
    fixed = _least(instance, ceiling, split=False)
    if math.isinf(fixed):
        raise instance.no_plan
    split = min(_least(instance, min(ceiling, fixed), split=True), fixed)
    return {
        "fixed": Bound(max(fixed, work.value), "z-fixed"),
        "split": Bound(max(split, work.value), "z-split"),
        "any": work,
    }


#: How far above the time of a plan its bounds may end, to save time.
_CEILING = 2.0


def bounds_of_plan(iteration: Iteration, *, hurried: bool = False, stopped: bool = False) -> list[Bound]:
    """The lower bounds that apply to this plan, that of the narrowest class of plans first.

    Empty where several pipelines run side by side; `hurried` and `stopped` are as for `bounds_by_coverage`.
    """
    instance = iteration.instance
    if iteration.plan is None:
        return []
    if instance.network is None:
        return [work_bound(instance) if stopped else iteration_bound(instance, ceiling=iteration.time)]
    narrowest, classes = class_of(iteration.schedules[0]), list(CLASSES)
    ceiling = iteration.time * (1 if narrowest == "fixed" or hurried else _CEILING)
    bounds = bounds_by_coverage(instance, ceiling, hurried=hurried, stopped=stopped)
    holding = [bounds[name] for name in classes[classes.index(narrowest) :]]
    return list({bound.method: bound for bound in holding}.values())


def class_of(timeline: Timeline) -> str:
    """The narrowest class of plans that contains a timeline."""
    if timeline.interleaved:
        return "any"
    return "split" if timeline.split else "fixed"


def port_bound(plan: Plan) -> float:
    """Time that the busiest port is loaded in an iteration of this plan, whatever its order [s]."""
    M, S = plan.instance.microbatches, plan.n_stages
    loads = M * plan.loads[: 2 * S - 2].sum(axis=0) + plan.loads[2 * S - 2 :].sum(axis=0)
    return float(loads.max(initial=0.0))


def _least(instance: TrainingInstance, ceiling: float, *, split: bool) -> float:
    if _states(instance) > _MOST_STATES:
        return _without_servers(instance, ceiling, split=split)
    return min(least_z_on_servers(instance, ceiling, split=split), _at_once(instance))


def _without_servers(instance: TrainingInstance, ceiling: float, *, split: bool) -> float:
    value = least_z(instance, fastest_speeds(instance.cluster), ceiling, allow_idle=True, split=split)
    return min(value, _at_once(instance))


def _states(instance: TrainingInstance) -> int:
    """Estimate of the number of states of the dynamic program with servers."""
    return int(instance.chain.n * instance.cluster.n**2 * (2 * max(instance.cluster.servers) + 2))


def _at_once(instance: TrainingInstance) -> float:
    """Lower bound on the time of the plan with one stage and one microbatch [s]; infinite if it is impossible.

    Other bounds do not cover it, as it rounds samples to devices once and not in each microbatch.
    """
    if instance.samples is None:
        return math.inf
    try:
        return Plan(instance, (0, instance.chain.n), (tuple(range(instance.cluster.n)),)).makespan_bound
    except InputError:
        return math.inf


def work_bound(instance: TrainingInstance) -> Bound:
    """Even share of all work for each device, a lower bound on the time of any plan [s]."""
    rows = np.diff(instance.arrays.forward + instance.arrays.backward, axis=1).min(axis=0)
    if instance.samples is not None:
        rows = instance.chain.forward + instance.chain.backward
    return Bound(float(instance.microbatches * rows.sum() / instance.cluster.n), "work-any")
