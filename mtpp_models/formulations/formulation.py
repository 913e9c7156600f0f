"""Formulations: lower bounds on the bottleneck as the least optimum of one or more Pyomo models, the cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from instances import Bound, InputError, Instance, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import IntArray
from instances.partitioning.partition import IDLE
from instances.results import LP_SUFFIX, PROOF_TOLERANCE
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.simple import as_answer, one_block, simple
from mtpp_models.solvers.highs import run_highs
from mtpp_models.solvers.interface import Controls, SolverFaultError, SolverOutcome, Termination
from mtpp_models.solvers.modeling import Labels, NumericExpression, pyo, standard_form
from mtpp_models.solvers.registry import Solver, find_solver

# Linear relaxations of models: their values, points and duals.


# How far from a whole number the value of a variable counts as fractional.
_WHOLE = 1e-6


@dataclass(frozen=True)
class Relaxation:
    """Optimum of the linear relaxation of a model as its file states it.

    If a model has several cases, `value` and `bound` are the least of all cases, and the rest is that of the case of
    least value.

    Parameters
    ----------
    value : float, optional
        Least objective, as the solver states it, in the time unit of the instance; infinite where nothing satisfies the
        rows, None where the solver did not end. Of a strengthened model it is at most the bottleneck of its start.
    bound : float, optional
        What is proved by it: the value less the tolerance of the solver, in the time unit; None where there is no value
        or the model is no bound.
    point : mapping of str to float
        Value of each variable, by its name in the file of the model; times in multiples of the unit of the file. Empty
        without a solution.
    duals : mapping of str to float, optional
        Time by which the value changes for each 1 more on the right-hand side of a row, as the file has it, by the
        row's name; None where the solver states none.
    fractional, rows, columns, nonzeros : int
        0/1 variables that are fractional in the point; the size of the model as the solver gets it, without variables
        that are fixed.
    case : str
        Name of the case.
    cases : tuple of Relaxation
        Relaxations of all cases, in the order of `mtpp_models.cases`.
    """

    value: float | None
    bound: float | None = None
    point: Mapping[str, float] = field(default_factory=dict, repr=False)
    duals: Mapping[str, float] | None = field(default=None, repr=False)
    fractional: int = 0
    rows: int = 0
    columns: int = 0
    nonzeros: int = 0
    case: str = ""
    cases: tuple[Relaxation, ...] = field(default=(), repr=False)


class Size(NamedTuple):
    """Size of a model as a solver gets it."""

    rows: int
    columns: int
    nonzeros: int


def size_of(model: pyo.ConcreteModel) -> Size:
    """The size of a model; all 0 where a row without variables does not hold."""
    compiled = standard_form(model)
    return Size(0, 0, 0) if compiled is None else Size(len(compiled.rows), len(compiled.columns), int(compiled.A.nnz))


def relax(model: pyo.ConcreteModel) -> list[Any]:
    """Make integer variables continuous and request duals; return the variables that are not fixed."""
    whole = [v for v in model.component_data_objects(pyo.Var) if v.is_integer() and not v.fixed]
    pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
    model.dual = pyo.Suffix(direction=pyo.Suffix.IMPORT)
    return whole


def read_relaxation(
    model: pyo.ConcreteModel, whole: Sequence[Any], labels: Labels, outcome: SolverOutcome, unit: float
) -> Relaxation:
    """The relaxation of one case, without its name and bound, from a solved model."""
    size = size_of(model)
    if outcome.termination is not Termination.OPTIMAL or outcome.objective is None:
        return Relaxation(math.inf if outcome.termination is Termination.INFEASIBLE else None, **size._asdict())
    point = {
        labels(v): float(v.value) for v in model.component_data_objects(pyo.Var) if not v.fixed and v.value is not None
    }
    duals = {labels(row): float(value) * unit for row, value in model.dual.items()}
    return Relaxation(
        outcome.objective * unit,
        point=point,
        duals=duals or None,
        fractional=sum(abs((v.value or 0.0) - round(v.value or 0.0)) > _WHOLE for v in whole),
        **size._asdict(),
    )


def of_cases(cases: Sequence[Relaxation], count: int, cutoff: float, *, is_bound: bool) -> Relaxation:
    """The relaxation of a model: the least of its cases.

    Parameters
    ----------
    cases : sequence of Relaxation
        Relaxations of the cases that were begun.
    count : int
        Number of cases of the model; 0 where no partition is better than the cutoff.
    cutoff : float
        Partitions that the model excludes cost at least this [time unit].
    is_bound : bool
        Whether the model bounds every partition.
    """
    if not is_bound:
        cases = [replace(case, bound=None) for case in cases]
    ended = [(case.value, case) for case in cases if case.value is not None]
    if len(ended) < count:
        return Relaxation(None, cases=tuple(cases))
    bounds = [case.bound for case in cases if case.bound is not None]
    value = min([cutoff, *(value for value, _ in ended)])
    _, lowest = min(ended, key=lambda entry: entry[0], default=(value, Relaxation(value)))
    return replace(lowest, value=value, bound=min([cutoff, *bounds]) if is_bound else None, cases=tuple(cases))


# Cases of a formulation: one Pyomo model each, and the bound proved by a solver.


# A row takes about so many seconds to be built and handed over, and twice as long as one of a sample of some rows.
_ROW_SECONDS, _ROW_FACTOR, _SAMPLE = 3e-5, 2.0, 500
# Rows of a model that takes a few gigabytes; with more it is not built.
_MOST_ROWS = 1_500_000
# Of the time that is left: what need not be estimated more closely.
_LITTLE = 0.05
# How far from a whole number the solution of a solver may be.
_INTEGRAL = 1e-4


class CaseResult(NamedTuple):
    """Result of one case, in the time unit of the instance, and its seconds in each phase."""

    bound: float  # proved lower bound; infinite where the case is infeasible
    cost: float  # objective of the solution, which no bound of the case exceeds; infinite without a solution
    # (n,): superblock of each node in the solution, from 0; None without a solution or if it is not integral.
    superblock: IntArray | None
    log: str
    build: float  # seconds
    solve: float  # seconds
    kind: IntArray | None = None  # (b,): kind of the device of each block, -1 for none; None where blocks have no kind
    relaxation: Relaxation = Relaxation(None)  # if it is asked for


@dataclass(frozen=True)
class Case:
    """A case of a formulation: one Pyomo model, and the superblocks of a partition in it."""

    name: str  # unique in its formulation
    build: Callable[[], pyo.ConcreteModel]  # with V, B, B_before_last, and y[v, b]: v is in (super)block b or before
    # (super)block of each node of a partition, counted from 1; None for a bound alone, whose model has no sets and y
    superblock: Callable[[Partition], IntArray] | None = None
    blocks: int = 1  # (super)blocks of the model, on which its size depends

    def model(self, start: Partition | None = None) -> pyo.ConcreteModel:
        """Build the model, with a warm start in ``y``; the solver completes the other variables.

        Raises
        ------
        InputError
            If the result is no Pyomo model that minimises one objective.
        """
        model = self.build()
        _check_model(self.name, model)
        if start is not None and self.superblock is not None:
            for v, home in enumerate(self.superblock(start)):
                for b in model.B_before_last:
                    if not model.y[v, b].fixed:
                        model.y[v, b].set_value(int(home <= b))
        return model

    def solve(self, data: ScaledInstance, solver: Solver, controls: Controls, start: Partition | None) -> CaseResult:
        """Build the model and let the solver work on it for the time that is left.

        Parameters
        ----------
        data : ScaledInstance
            The scaled instance from which the case was built.
        start : Partition, optional
            Warm start.

        Raises
        ------
        SolverFaultError
            If the solver fails or returns no valid answer.
        """
        watch = Stopwatch()
        if not self._can_be_built(data, controls.deadline.left):
            return CaseResult(0.0, math.inf, None, "", watch.passed, 0.0)
        model = self.model(start if controls.relaxation is None else None)
        whole = None if controls.relaxation is None else relax(model)
        built = watch.passed
        if controls.deadline.interrupted.is_set():  # the solver would not hear of it
            return CaseResult(0.0, math.inf, None, "", built, 0.0)
        outcome = solver.solve(model, controls)
        proved, relaxation = _proved(outcome, solver) * data.unit, Relaxation(None)
        if whole is not None:
            linear = read_relaxation(model, whole, Labels(data.instance.graph), outcome, data.unit)
            relaxation = replace(linear, case=self.name, bound=None if linear.value is None else max(0.0, proved))
        return CaseResult(
            bound=proved,
            cost=math.inf if outcome.objective is None else outcome.objective * data.unit,
            superblock=None if outcome.objective is None or self.superblock is None else _read(model, solver),
            log=outcome.log,
            build=built,
            solve=watch.passed - built,
            kind=None if outcome.objective is None or not hasattr(model, "on") else kinds_of_blocks(model),
            relaxation=relaxation,
        )

    def _can_be_built(self, data: ScaledInstance, seconds: float) -> bool:
        """Whether memory and `seconds` probably suffice to build the model and pass it to the solver.

        Building a model cannot be interrupted.
        """
        graph = data.instance.graph
        rows = (graph.n + 2 * len(graph.tensors.consumers)) * self.blocks
        if rows > _MOST_ROWS:
            return False
        return rows * _ROW_SECONDS <= _LITTLE * seconds or rows * _ROW_FACTOR * _row_seconds() <= seconds


def _check_model(name: str, model: Any) -> None:
    """Refuse a case whose result is not a Pyomo model with a single objective to be minimised."""
    if not isinstance(model, pyo.ConcreteModel):
        raise InputError(f"The case {name} builds {type(model).__name__}; return a ConcreteModel.")
    goals = list(model.component_data_objects(pyo.Objective, active=True))
    if [goal.sense for goal in goals] != [pyo.minimize]:
        objectives = "an objective that is maximised" if len(goals) == 1 else f"{len(goals)} active objectives"
        raise InputError(
            f"The model of the case {name} has {objectives}; a bound is the least value of one, minimised."
        )


def _row_seconds() -> float:
    """Time that Pyomo takes for a row on this machine [s], measured now."""
    watch, m = Stopwatch(), pyo.ConcreteModel()
    m.rows = pyo.RangeSet(1, _SAMPLE)
    m.x = pyo.Var(m.rows)
    m.objective = pyo.Objective(expr=m.x[1])

    @m.Constraint(m.rows)
    def row(m: pyo.ConcreteModel, i: int) -> NumericExpression:
        return m.x[i] + m.x[_SAMPLE + 1 - i] >= 1 - m.x[1]

    standard_form(m)
    return watch.passed / _SAMPLE


def block_ranks(partition: Partition) -> IntArray:
    """(n,) block of each node counted from 1, with empty blocks at the end.

    Where constraints or the order of the devices distinguish blocks, empty blocks keep their numbers.
    """
    if partition.instance.constraints or partition.instance.machines.is_fixed:
        return partition.block + 1
    return np.unique(partition.block, return_inverse=True)[1] + 1


def _proved(outcome: SolverOutcome, solver: Solver) -> float:
    """Bound of one case: infinite if it is infeasible, else the solver's dual bound less the margin for tolerances."""
    if outcome.termination is Termination.INFEASIBLE:
        return math.inf
    if outcome.bound is None:
        return 0.0
    return outcome.bound - solver.margin * max(1.0, abs(outcome.bound))


def _read(model: pyo.ConcreteModel, solver: Solver) -> IntArray | None:
    """(n,) the superblock of each node, from 0, by the values of y; None if these are not integral."""
    # A variable that no constraint mentions comes back without a value; either would do.
    y = np.array([[model.y[v, b].value or 0.0 for b in model.B] for v in model.V])
    if not np.isfinite(y).all():
        raise SolverFaultError(solver.name, "gives a solution with values that are no numbers")
    if not np.abs(y - np.round(y)).max() <= _INTEGRAL:
        return None
    return len(model.B) - np.round(y).sum(axis=1).astype(np.int64)


def kinds_of_blocks(model: pyo.ConcreteModel) -> IntArray | None:
    """(b,) kind of the device of each block, -1 for none; None where the solution is not integral."""
    kinds = np.full(len(model.B), IDLE)
    for (b, t), variable in model.on.items():
        value = variable.value or 0.0
        if not min(abs(value), abs(value - 1.0)) <= _INTEGRAL:
            return None
        if value > 0.5:
            kinds[b - 1] = t
    return kinds


# Diagnosis of a bound above the cost of a known partition: the solver or the model is wrong.


# Relative; and seconds for each case.
_TOLERANCE, _PATIENCE = 1e-6, 20.0


class ExcludedPartitionError(InputError):
    """A formulation claims to be a bound but excludes a feasible partition, which `excludes` describes."""

    def __init__(self, excludes: str) -> None:
        self.excludes = excludes
        super().__init__(f"{excludes}, so that its optimum is no lower bound; give its Formulation is_bound=False.")


def contradiction(
    name: str, cases: Sequence[Case], data: ScaledInstance, solver: str, proved: float, partition: Partition
) -> Exception:
    """The exception for a solver's bound that a partition refutes; it blames the model if that excludes the partition.

    Parameters
    ----------
    name : str
        Name of the model.
    cases : sequence of Case
        Cases of the model; empty if the model is known to admit the partition.
    data : ScaledInstance
        The scaled instance from which the cases were built.
    solver : str
    proved : float
        Bound of the solver, above the bottleneck of the partition; infinite if it claims that there is no solution.
    partition : Partition
    """
    cost = f"a partition of bottleneck {partition.bottleneck:.6g}"
    if cases and all(_excludes(case, data, partition) for case in cases):
        return ExcludedPartitionError(f"The model {name} excludes {cost}")
    claim = "says that there is no solution" if math.isinf(proved) else f"states the bound {proved:.6g}"
    return SolverFaultError(solver, f"{claim} of {name}, against {cost}")


def _excludes(case: Case, data: ScaledInstance, partition: Partition) -> bool:
    """Whether a case excludes the partition or gives it a higher cost; False also if time is up."""
    model = case.model()
    for v, home in enumerate(() if case.superblock is None else case.superblock(partition)):
        for b in model.B_before_last:
            variable, value = model.y[v, b], int(home <= b)
            if variable.fixed and variable.value != value:
                return True
            variable.fix(value)
    outcome = run_highs(model, Controls(deadline=Deadline.after(_PATIENCE)))
    if outcome.termination is Termination.INFEASIBLE:
        return True
    return outcome.bound is not None and outcome.bound * data.unit > partition.bottleneck * (1 + _TOLERANCE)


# Formulations: one or more Pyomo cases, and the way in which their bounds combine.


# Of the time limit, at most; and relative.
_FOR_CONFLICTS, _ROUNDING = 0.2, 1e-9


class PreparedModel(NamedTuple):
    """Cases for a solver, with the data needed to map their answers back."""

    data: ScaledInstance
    cases: Sequence[Case]  # empty where the cutoff is proved to be optimal
    start: Partition | None  # for the instance of `data`
    group: IntArray  # (n,): for each node of the original instance, the node of the instance of `data` that holds it
    cutoff: float = np.inf  # the bound of the model is at most this; infinite if it excludes no partition


@dataclass(frozen=True)
class Formulation:
    """A lower bound on the bottleneck: the smallest optimum of its cases.

    If a constraint excludes some partition, the optimum bounds only the others: set ``is_bound=False``. Constraints
    that name nodes need `solve` with ``reduce=False``.

    Parameters
    ----------
    name, summary, reference : str
        Name, description in one line, publication.
    cases : callable
        Gives the cases of a scaled instance.
    exact : bool
        Whether there is one case, whose solutions are partitions and its objective the bottleneck.
    is_bound : bool
        Whether every partition satisfies the constraints of a case, at no more than its bottleneck. If not, `solve`
        returns no bound, and a partition only if the solver found it.
    kinds : {"one", "any"}
        Whether there are cases for one kind of devices only, or also for several, then built from `ScaledKinds`.
    variables, rows : str
        Largest numbers of variables and rows of a case, as formulas: n nodes, m edges, t tensors that are read, k
        blocks, on devices that are alike, without a limit on memory.
    """

    name: str
    summary: str
    reference: str
    cases: Callable[[ScaledInstance], Sequence[Case]]
    exact: bool = False
    is_bound: bool = True
    kinds: Literal["one", "any"] = "one"
    variables: str = ""
    rows: str = ""

    def prepare(self, instance: Instance, start: Partition | None, margin: float, deadline: Deadline) -> PreparedModel:
        """Scale the instance and list the cases.

        Parameters
        ----------
        margin : float
            Relative tolerance of the solver.
        deadline : Deadline
            When to stop computing cuts, windows and conflicts for a strengthened model, roughly.

        Raises
        ------
        InputError
            If a strengthened model has no start.
        """
        data = ScaledInstance.near(instance, start)
        made: Any = self.cases(data)
        cases = list(made) if isinstance(made, Iterable) else [made]
        if not cases or not all(isinstance(case, Case) for case in cases):
            raise InputError(f"The cases of {self.name} are {made!r}; return a list of Case, one or more.")
        return PreparedModel(data, cases, start, np.arange(instance.graph.n), data.cutoff)

    def prove(self, instance: Instance, start: Partition | None, controls: Controls) -> Result:
        """Solve the cases in turn and combine their bounds.

        Parameters
        ----------
        start : Partition, optional
            Warm start, and the unit of the coefficients.
        controls : Controls
            The cases share the time.

        Returns
        -------
        Result
            Without a bound if the model is none.

        Raises
        ------
        InputError
            If the solver is unknown, or a strengthened model has no start.
        SolverNotAvailableError
            If the solver cannot run here.
        SolverFaultError
            If the solver fails, does not end in time, or returns a wrong bound or solution.
        ExcludedPartitionError
            If the model excludes a known partition although it claims to be a bound.
        """
        watch, solver = Stopwatch(), find_solver(controls.options.solver).with_options(controls.options)
        name = self.name if controls.relaxation is None else f"{self.name}{LP_SUFFIX}"
        whole = as_answer(instance, one_block(instance))
        if whole is not None and whole.bottleneck == 0 and self.is_bound and controls.relaxation is None:
            return Result(name, instance, whole, Bound(0.0, name))
        prepared = self.prepare(instance, start, solver.margin, controls.deadline.share(_FOR_CONFLICTS))
        prepared_in = watch.passed
        # Below a cutoff there is nothing, where searches have done their work.
        controls = replace(controls, improves=prepared.cutoff == np.inf, label=f"{instance.label} {name}")
        results = _solve_in_turn(prepared, solver, controls)
        options = controls.options.identity
        if controls.relaxation is not None:
            linear = of_cases(
                [result.relaxation for result in results], len(prepared.cases), prepared.cutoff, is_bound=self.is_bound
            )
            controls.relaxation(linear)
            options["relaxation"] = linear.value
        solutions, optimal = _solutions(instance, prepared, results, solver) if self.exact else ([], True)
        partitions = [*([start] if start is not None and self.is_bound else []), *solutions]
        bound, notes = None, tuple[str, ...]()
        if self.is_bound:
            floor = simple(instance)
            proved, at_most, closed = _combined(prepared, results, floor, solver.margin)
            if not closed and at_most < np.inf:
                options["at_most"] = max(floor, at_most)
            answers = [*partitions, *([] if whole is None else [whole])]
            least = min(answers, key=lambda partition: partition.bottleneck, default=None)
            if least is None and proved == np.inf:
                reason = f"no partition obeys and fits, says {solver.name} of {self.name}"
                return Result(name, instance, solver=f"{solver.name} {solver.version()}", impossible=reason)
            if least is not None and proved > least.bottleneck * (1 + _ROUNDING):
                blameless = prepared.cutoff < np.inf  # what a strengthened model loses costs no less than the cutoff
                cases = () if blameless else prepared.cases
                raise contradiction(self.name, cases, prepared.data, solver.name, proved, least)
            bound = Bound(max(floor, proved), name, closed and optimal, options)
            if controls.relaxation is not None and floor > proved:
                notes += (f"The bound is that of simple, which is more than the linear relaxation of {self.name}",)
        return Result(
            method=name,
            instance=instance,
            answer=min(partitions, key=lambda partition: partition.bottleneck, default=None),
            bound=bound,
            seconds=watch.seconds(
                build=prepared_in + sum(result.build for result in results),
                solve=sum(result.solve for result in results),
            ),
            solver=f"{solver.name} {solver.version()}",
            log="\n".join(result.log for result in results),
            notes=notes,
        )


def _solutions(
    instance: Instance, prepared: PreparedModel, results: Sequence[CaseResult], solver: Solver
) -> tuple[list[Partition], bool]:
    """Feasible partitions from the solutions of an exact model, and whether its optimum is that of the question.

    A solution is none if it fits only by the solver's tolerances, or is cheap only because times are capped.
    """
    partitions, optimal = [], True
    for result in results:
        if result.superblock is None:
            continue
        solution = _solution(instance, result, prepared.group, solver)
        partitions += [] if solution is None else [solution]
        tolerated = result.cost * (1 + PROOF_TOLERANCE) + solver.margin * prepared.data.unit
        optimal &= solution is not None and solution.bottleneck <= tolerated
    return partitions, optimal


def _solution(instance: Instance, result: CaseResult, group: IntArray, solver: Solver) -> Partition | None:
    """Partition of a solution, with its cost by the definition; None if it is infeasible."""
    assert result.superblock is not None
    kind = None if result.kind is None else np.append(result.kind, np.full(instance.k - len(result.kind), IDLE))
    try:
        return as_answer(instance, Partition(instance, result.superblock[group], kind=kind))
    except InputError as error:
        raise SolverFaultError(solver.name, f"gives a solution that is no partition ({error})") from None


def _solve_in_turn(prepared: PreparedModel, solver: Solver, controls: Controls) -> list[CaseResult]:
    """Solve the cases in turn, as far as there is time; a case that ends early leaves its time to the later ones."""
    data, cases, deadline = prepared.data, prepared.cases, controls.deadline
    results: list[CaseResult] = []
    for number, case in enumerate(cases):
        if deadline.passed:
            break
        case_controls = replace(
            controls.of_case(case.name, data.unit), deadline=deadline.share(1 / (len(cases) - number))
        )
        results.append(case.solve(data, solver, case_controls, prepared.start))
    return results


def _combined(
    prepared: PreparedModel, results: Sequence[CaseResult], floor: float, margin: float
) -> tuple[float, float, bool]:
    """The least bound over all cases, a bound on what more time could prove, and whether the result is final."""
    finished = len(results) == len(prepared.cases)
    # A case that was not started has proved nothing beyond *simple*.
    proved = min((prepared.cutoff, *(result.bound for result in results))) if finished else floor
    at_most = min((prepared.cutoff, *(result.cost for result in results)))
    # What the solver found may be this much more: far below the unit it says nothing.
    surely = at_most + margin * prepared.data.unit
    reached = proved >= at_most * (1 - PROOF_TOLERANCE) or floor >= surely
    return proved, surely, finished and reached and not prepared.data.leaves_out_overflow
