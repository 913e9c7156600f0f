"""Models as files: building, writing, reading solutions, and infeasible sets of rows."""

from __future__ import annotations

import math
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from instances.errors import InputWarning, word
from instances.graph.tensors import IntArray
from instances.json_files import check_writable, write_json
from instances.partitioning.partition import IDLE
from instances.partitioning.symmetry import contract_groups
from instances.planning import Plan, TrainingInstance
from mtpp_models.exchange.solution_files import SolutionFile, read_solution_file
from mtpp_models.formulations.formulation import Case, Formulation, kinds_of_blocks
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.planning.models import FORMS
from mtpp_models.planning.solve import BuiltReplication, build_replication
from mtpp_models.registry import Model, find_model
from mtpp_models.solvers.interface import Controls, SolveOptions, Termination
from mtpp_models.solvers.modeling import Labels, pyo
from mtpp_models.solvers.registry import Solver, find_solver

# Models for use in Python: built for a question, for rows of one's own and any solver of Pyomo, and read back.


# How far from 0 or 1 a solver may leave a binary variable.
_INTEGRAL = 1e-4


@dataclass(frozen=True, kw_only=True)
class BuiltModel:
    """A Pyomo model of a question, to which rows may be added."""

    # y[v, b] = 1: node v lies in block b or before; x[v, b] = 1: it lies in block b. Blocks count from 1.
    model: pyo.ConcreteModel
    name: str  # of the formulation
    case: str  # of its cases; the bound of the formulation is the least of all
    instance: Instance  # the question
    data: ScaledInstance  # coefficients of the model; its unit is the time that 1 stands for
    node: IntArray  # (n,): the node of the model that holds each node of the graph
    cutoff: float  # in time: the model may lose partitions that are no faster; infinite if it keeps all
    exact: bool  # whether a solution is a partition

    @property
    def unit(self) -> float:
        """Time of an objective of 1, in the time unit of the instance."""
        return self.data.unit

    @cached_property
    def labels(self) -> Labels:
        """The names of variables and rows in files."""
        return Labels(self.data.instance.graph)

    def legend(self, names: str) -> list[str]:
        """Comment lines for a model's file; full names of variables are in the file `names`."""
        instance, unit = self.instance, self.instance.time_unit
        kinds = [kind.name for kind in instance.machines.kinds]
        on = (
            []
            if instance.is_alike
            else [f"on.B.T = 1: block B is on a device of kind T of {', '.join(kinds)}, from 0 on"]
        )
        return [
            f"{self.name}, case {self.case}, of {instance.label}, graph {instance.graph.content_hash[:16]}",
            f"unit of time: {self.unit!r} {unit}; an objective of 1 is a bottleneck of {self.unit!r} {unit}",
            f"y.NODE.B = 1: NODE is in block B or before, blocks from 1 on; the full names are in {names}",
            *on,
        ]

    def document(self) -> dict[str, Any]:
        """Members of the file that holds the full names of variables and rows."""
        labels, graph, instance = self.labels, self.data.instance.graph, self.instance
        tensors = {labels.tensors[t]: graph.names[graph.tensors.producer[t]] for t in self.data.tensors}
        return {
            "instance": instance.label,
            "case": self.case,
            "graph_hash": instance.graph.content_hash,
            "time_unit": instance.time_unit,
            "nodes": dict(zip(labels.nodes, graph.names, strict=True)),
            "tensors": tensors,
        }


def cases(instance: Instance, model: str | Model, *, start: Partition | None = None) -> list[str]:
    """Names of the cases of a model, in the order of their numbers from 1 on.

    Parameters
    ----------
    instance : Instance
    model : str or Formulation
    start : Partition, optional
        Needed by a strengthened model.

    Raises
    ------
    InputError
        As `build`.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[3.0, 1.0, 2.0])
    >>> cases(Instance(graph, Platform(2, 1.0)), "guess-the-bottleneck")
    ['r = 1', 'r = 2']
    """
    return list(builders(instance, model, start))


def build(
    instance: Instance, model: str | Model = "exact", *, case: int | str | None = None, start: Partition | None = None
) -> BuiltModel:
    """Build a model, to add rows to it and solve it with any solver of Pyomo.

    A row of your own restricts the question. A bound that a solver then proves applies to the restricted question only,
    not to `instance`; so nothing here makes a `Bound` of it. A partition that satisfies the row is still one of
    `instance`, with its cost by the definition. For a bound of the question itself use `solve` or `certify`, without
    the row.

    Parameters
    ----------
    instance : Instance
        The question.
    model : str or Formulation
        A model whose solutions are partitions, if they are to be read back.
    case : int or str, optional
        Number, from 1 on, or name of a case, as `cases` lists them; needed for a model with several cases.
    start : Partition, optional
        Its bottleneck is the unit of the coefficients, as in `solve`; needed by a strengthened model, which loses
        partitions that are no faster. Nodes that have to share a block are one node in the model.

    Raises
    ------
    InputError
        If the model is unknown, needs no solver, has several cases and none is named, or lacks its start.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[3.0, 1.0, 2.0])
    >>> built = build(Instance(graph, Platform(2, 1.0)))
    >>> built.model.own = pyo.Constraint(expr=built.model.x[1, 2] == 1)
    >>> _ = pyo.SolverFactory("appsi_highs").solve(built.model)
    >>> read_partition(built).block.tolist()
    [0, 1, 1]
    """
    builds = builders(instance, model, start)
    names = list(builds)
    chosen = 1 if case is None and len(names) == 1 else case
    if isinstance(chosen, int) and not isinstance(chosen, bool) and 1 <= chosen <= len(names):
        chosen = names[chosen - 1]
    if not isinstance(chosen, str) or chosen not in builds:
        listed = f"1 to {len(names)}: {', '.join(names)}" if len(names) > 1 else f"1: {names[0]}"
        raise InputError(f"The model has the cases {listed}; name one by case=, not {case!r}.")
    return builds[chosen]()


def builders(
    instance: Instance, model: str | Model, start: Partition | None = None
) -> dict[str, Callable[[], BuiltModel]]:
    """Functions that build the cases of a model, by case name; the model's bound is the least of all cases.

    Raises
    ------
    InputError
        As `build`, several cases apart.
    """
    formulation = find_model(model)
    if not isinstance(instance, Instance):
        raise InputError(f"The model {formulation.name} is one of partitions; give an Instance of a graph.")
    if not isinstance(formulation, Formulation):
        raise InputError(f"The model {formulation.name} needs no solver; there is nothing to write.")
    contraction = contract_groups(instance)
    question, warm_start = contraction.instance.modelled(), None if start is None else contraction.restrict(start)
    warm_start = None if warm_start is None else warm_start.under(question)
    prepared = formulation.prepare(question, warm_start, 0.0, Deadline())
    if not prepared.cases:
        raise InputError(f"The start is optimal, so that of {formulation.name} nothing is left to write.")

    def built(case: Case) -> BuiltModel:
        return BuiltModel(
            model=case.model(),
            name=formulation.name,
            case=case.name,
            instance=instance,
            data=prepared.data,
            node=prepared.group[contraction.group],
            cutoff=prepared.cutoff,
            exact=formulation.exact,
        )

    return {case.name: partial(built, case) for case in prepared.cases}


def read_partition(built: BuiltModel) -> Partition:
    """Read the partition from the values of the variables; its cost is computed from the definition.

    Raises
    ------
    InputError
        If the model is one of superblocks, a variable has no value or is neither 0 nor 1, the values give no partition,
        or one that exceeds a hard limit of memory; the message names the variable, the edge or the block.
    """
    if not built.exact:
        raise InputError(f"A solution of {built.name} is no partition, as its blocks are merged; take the model exact.")
    m, labels = built.model, built.labels
    free = [variable for variable in m.y.values() if not variable.fixed]
    if free and all(variable.value is None for variable in free):
        raise InputError("The variables y have no values; solve the model first.")
    y = np.array([[_binary(m.y[v, b], labels) for b in m.B_or_0] for v in m.V])
    for v, b in np.argwhere(np.diff(y, axis=1) < 0)[:1].tolist():
        early, late = labels(m.y[v, b]), labels(m.y[v, b + 1])
        raise InputError(f"{early} is 1 and {late} is 0; a node that lies in a block or before stays there.")
    kind = None
    if hasattr(m, "on"):
        kind = kinds_of_blocks(m)
        if kind is None:
            raise InputError("The variables on are neither 0 nor 1: this is no solution of whole numbers.")
        kind = np.append(kind, np.full(built.instance.k - len(kind), IDLE))
    partition = Partition(built.instance, (len(m.B) - y[:, 1:].sum(axis=1))[built.node], kind=kind)
    if not partition.bottleneck < np.inf:
        block = int(partition.excess.argmax())
        raise InputError(f"Block {block} needs {partition.excess[block]:g} bytes more than there are, and has to fit.")
    return partition


def _binary(variable: pyo.Var, labels: Labels) -> int:
    value = variable.value or 0.0  # one that no row mentions has none; either would do
    if not min(abs(value), abs(value - 1)) <= _INTEGRAL:
        raise InputError(f"{labels(variable)} is {value:g}, neither 0 nor 1: this is no solution of whole numbers.")
    return round(value)


# Models as files, for other solvers and for reading.


#: Pyomo's name of a variable of value 1 that stands for constants.
ONE = "ONE_VAR_CONSTANT"

_NAMES_FORMAT = "mtpp-names/1"
_COMMENTS = {".lp": "\\ ", ".mps": "* "}
# Characters of a line of comment; some solvers read no longer ones.
_LONGEST = 200


def write_model(
    instance: Instance | TrainingInstance,
    model: str | Formulation,
    path: str | Path,
    start: Partition | Plan | None = None,
) -> list[Path]:
    """Write the cases of a model as LP or MPS files, each with a file of names (`names_file`).

    Variables and rows have the names of nodes, shortened; the file of names has them in full. Both files say which time
    an objective of 1 stands for.

    Parameters
    ----------
    instance : Instance or TrainingInstance
    model : str or Formulation
        For a question of training, a form of `build_replication`: "arc-flow", "compact" or "makespan".
    path : path
        Ends in ``.lp`` or ``.mps``; with several cases their numbers are put before the suffix.
    start : Partition or Plan, optional
        Its bottleneck is the unit of the coefficients, as in `solve`; needed by a strengthened model, which is then
        written for the instance with its joins. Nodes that have to share a block are one node in the model.

    Returns
    -------
    list of Path
        The files of the models.

    Raises
    ------
    InputError
        If the suffix is another one, the model has no case, or a strengthened one has no start.
    """
    path = Path(path)
    if path.suffix not in _COMMENTS:
        raise InputError(f"{path}: a model is written as .lp or .mps; choose one of these suffixes.")
    builds: Sequence[Callable[[], BuiltModel | BuiltReplication]]
    if model in FORMS:
        builds = [partial(build_replication, instance, form=model, start=start)]  # type: ignore[arg-type]
    else:
        builds = list(builders(instance, model, start).values())  # type: ignore[arg-type]
    files = [path]
    if len(builds) > 1:
        files = [path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(1, len(builds) + 1)]
    for file in files:
        check_writable(file)
        check_writable(names_file(file))
    for build, file in zip(builds, files, strict=True):
        write_built(build(), file)
    return files


def write_built(built: BuiltModel | BuiltReplication, file: Path) -> None:
    """Write a model, with added rows if any, to a file (.lp or .mps), and its names beside it."""
    _write(built, file)
    parts = built.model.component_objects((pyo.Var, pyo.Constraint))
    components = {part.local_name: part.doc for part in parts}
    head = {"format": _NAMES_FORMAT, "model": built.name, "unit": built.unit, "components": components}
    write_json(names_file(file), head | built.document())


def names_file(path: Path) -> Path:
    """Path of the file of names of a model: ``model.names.json`` for ``model.lp``."""
    return path.with_suffix(".names.json")


def _write(built: BuiltModel | BuiltReplication, file: Path) -> None:
    labels, mark = built.labels, _COMMENTS[file.suffix]
    options: dict[str, Any] = {"labeler": labels}
    if file.suffix == ".mps":  # columns in the order of the LP file, as some solvers number them
        order = pyo.ComponentMap((variable, i) for i, variable in enumerate(columns(built.model, labels)))
        for variable in built.model.component_data_objects(pyo.Var):
            order.setdefault(variable, len(order))
        options |= {"column_order": order, "skip_objective_sense": True}  # GLPK knows no section OBJSENSE
    with TemporaryDirectory() as folder:
        draft = Path(folder, f"model{file.suffix}")
        built.model.write(str(draft), io_options=options)
        with (
            draft.open(encoding="utf-8") as source,
            file.open("w", encoding="utf-8") as target,
        ):  # through a symbolic link, too
            for line in built.legend(names_file(file).name):
                target.write(f"{mark}{_plain(line)}\n")
            shutil.copyfileobj(source, target)


def columns(model: pyo.ConcreteModel, labels: Labels) -> list[Any]:
    """Variables of a model in the order in which its file mentions them."""
    from pyomo.repn.plugins.lp_writer import LPWriter

    written = LPWriter().write(model, _Nowhere(), labeler=labels)
    return [part for part in written.symbol_map.bySymbol.values() if getattr(part, "ctype", None) is pyo.Var]


class _Nowhere:
    """Stream that discards everything."""

    def write(self, text: str) -> int:
        return len(text)


def _plain(line: str) -> str:
    """Reduce a line to characters that every solver accepts in a comment."""
    return "".join(c if c.isascii() and c.isprintable() and c != "\\" else "?" for c in line)[:_LONGEST]


# Solutions of other programs as partitions: costs are computed here, bounds are only stated.


# By how much values in files may miss bounds and rows, whose sums are near 1; files have as few as six digits.
_TOLERANCE = 1e-4
# Characters of a name in a message.
_SHOWN = 40
# The relative gap that solvers leave by default when they call a solution optimal.
_USUAL_GAP = 1e-4
# By how much the objective of an optimum may be above what its partition costs.
_SLACK = 1e-3


class Solution(NamedTuple):
    """Content of another program's solution file, in the time unit of the instance."""

    partition: Partition
    solver: str  # whose format the file has
    stated: float | None  # a bound, as the file states it and nobody has proved


def read_solution(built: BuiltModel, path: str | Path) -> Solution:
    """Read the solution of a written model; the values are set in the variables of the built model.

    It reads files of HiGHS, CBC, GLPK, SCIP and Gurobi, and lists with a name and a value in each line. A list may have
    the variables ``y`` alone. Missing variables are 0. Values in other files must satisfy the model, so that a file
    that is cut short or of another model is noticed.

    Parameters
    ----------
    built : BuiltModel
        Model built from the same question, model and start as the written one.
    path : path

    Raises
    ------
    InputError
        If the file is refused, names what the model does not have, has values out of their bounds or fractions for 0 or
        1, breaks a row, or is no partition.
    """
    if not built.exact:
        read_partition(built)  # says why not
    names = {built.labels(variable): variable for variable in built.model.component_data_objects(pyo.Var)}
    file = read_solution_file(path, len(names) + 1)
    _put(built, names, file)
    try:
        partition = read_partition(built)
    except InputError as error:
        file.fail(str(error))
    # A file with y alone is meant so; what is said of more has to be right.
    if any(not name.startswith("y.") for name in file.values):
        _check_rows(built, file)
    _check_objective(built, file, partition)
    return Solution(partition, file.solver, _stated(built, file))


def stated_time(built: BuiltModel, value: float) -> float:
    """A bound on the objective as a time [time unit]; for a strengthened model at most its cutoff."""
    return min(value * built.unit, built.cutoff)


def _put(built: BuiltModel, names: dict[str, Any], file: SolutionFile) -> None:
    """Set the variables of the model to the values in the file, by name; variables without a value become 0."""
    if file.by_number or file.complete:
        labels = [built.labels(variable) for variable in columns(built.model, built.labels)]
        if file.by_number:
            if len(file.by_number) != len(labels):
                file.fail(f"it has {len(file.by_number)} variables, and {_called(built)} {len(labels)}.")
            file.values.update(zip(labels, file.by_number, strict=True))
        for name in (name for name in labels if name not in file.values):
            file.fail(f"{name} is missing; the file is cut short, or not of {_called(built)}.")
    file.values.pop(ONE, None)
    for name in (name for name in file.values if name not in names):
        file.fail(f"there is no variable {name[:_SHOWN]!r} in {_called(built)}; name its own model, k and start.")
    for name, value in file.values.items():
        _check_value(names[name], name, value, file)
    for name, variable in names.items():
        if not variable.fixed:
            variable.set_value(file.values.get(name, 0.0), skip_validation=True)


def _check_value(variable: Any, name: str, value: float, file: SolutionFile) -> None:
    lower, upper = (variable.value,) * 2 if variable.fixed else variable.bounds
    lower, upper = (-math.inf if lower is None else lower), (math.inf if upper is None else upper)
    if not lower - _TOLERANCE <= value <= upper + _TOLERANCE:
        rule = f"lies between {lower:g} and {upper:g}" if lower < upper else f"has to be {lower:g}"
        file.fail(f"{name} is {value:g}; it {rule}.")


def _check_rows(built: BuiltModel, file: SolutionFile) -> None:
    for row in built.model.component_data_objects(pyo.Constraint, active=True):
        if min(row.lslack(), row.uslack()) < -_TOLERANCE:
            file.fail(f"the row {built.labels(row)} does not hold; the file is cut short, or not of {_called(built)}.")


def _check_objective(built: BuiltModel, file: SolutionFile, partition: Partition) -> None:
    """Check the objective that a file states against the cost of its partition.

    An objective above the cost is an `InputError` if it is stated to be optimal, else a warning.
    """
    if file.objective is None or file.objective * built.unit <= partition.bottleneck * (1 + _SLACK):
        return
    claim = f"it says {file.objective * built.unit:.6g}, and its partition costs {partition.bottleneck:.6g}"
    if file.optimal:
        file.fail(f"{claim}; the file is not of {_called(built)}, but perhaps of another bandwidth or memory.")
    warnings.warn(f"{file.path}: {claim}; is it of another bandwidth or memory?", InputWarning, stacklevel=3)


def _stated(built: BuiltModel, file: SolutionFile) -> float | None:
    """The lower bound that a file states, or that follows from stated optimality [time unit]; None without either."""
    value = file.bound
    if value is None and file.optimal and file.objective is not None:
        value = file.objective * (1 - _USUAL_GAP)
    return None if value is None else stated_time(built, value)


def _called(built: BuiltModel) -> str:
    return f"the model {built.name} of {built.instance.label}"


# Rows that contradict each other in a model with rows of one's own.
#
# The elastic filter of Chinneck and Dravnieks (1991): each row may be broken at a price, and those that are broken
# become hard, until nothing is left that satisfies them. Then each of them is left out in turn, for good where the
# others still contradict each other. Bounds, fixed values and whole numbers stay. Integer programs are solved to the
# end each time.


# Of a row, in its own units, whose sums are near 1: what is less is rounding.
_BROKEN = 1e-6


class InfeasibleRow(NamedTuple):
    """A row of an irreducible infeasible set of rows."""

    name: str  # in the file of the model
    words: str  # what the row says, as the model documents it
    text: str  # the row itself, by names of the file


def explain_infeasible(
    built: BuiltModel | BuiltReplication, options: SolveOptions = SolveOptions()
) -> tuple[InfeasibleRow, ...]:
    """An irreducible infeasible set of rows: together they have no solution, without any one of them they have.

    Parameters
    ----------
    built : BuiltModel or BuiltReplication
        With rows of your own, perhaps with variables that you fix; it is not changed.
    options : SolveOptions
        The solver, and the time for all of it.

    Returns
    -------
    tuple of InfeasibleRow
        Empty if the model has a solution, or if bounds and fixed values alone contradict each other.

    Raises
    ------
    InputError
        If the time does not suffice.
    SolverNotAvailableError, SolverFaultError
        If the solver cannot run here, fails, or returns a wrong bound or solution.

    Examples
    --------
    >>> from instances import ComputationGraph, Instance, Platform
    >>> from mtpp_models import build
    >>> built = build(Instance(ComputationGraph.from_edges([(0, 1)], work=[3.0, 1.0]), Platform(2, 1.0)))
    >>> built.model.late = pyo.Constraint(expr=built.model.x[0, 2] == 1)
    >>> built.model.early = pyo.Constraint(expr=built.model.x[1, 1] == 1)
    >>> [row.name for row in explain_infeasible(built)]
    ['dag.0.1.1', 'late', 'early']
    """
    from pyomo.common.modeling import unique_component_name
    from pyomo.core.expr import expression_to_string

    solver, deadline = find_solver(options.solver), Deadline.after(options.time_limit)
    model = built.model.clone()
    rows = list(model.component_data_objects(pyo.Constraint, active=True))
    texts = [expression_to_string(row.expr, labeler=built.labels) for row in rows]
    elastic = pyo.Block()
    model.add_component(unique_component_name(model, "elastic"), elastic)
    elastic.excess = pyo.Var(range(len(rows)), domain=pyo.NonNegativeReals)
    elastic.lack = pyo.Var(range(len(rows)), domain=pyo.NonNegativeReals)
    for i, row in enumerate(rows):
        row.set_value((row.lower, row.body - elastic.excess[i] + elastic.lack[i], row.upper))
    elastic.free = pyo.Var(bounds=(0, 1))  # so that a variable is left where all others are fixed
    model.objective.set_value(elastic.free + sum(elastic.excess.values()) + sum(elastic.lack.values()))
    hard: list[int] = []
    while _has_solution(model, solver, options, deadline):
        broken = [i for i in range(len(rows)) if max(_value(elastic.excess[i]), _value(elastic.lack[i])) > _BROKEN]
        if not broken:
            return ()
        for i in broken:
            elastic.excess[i].fix(0)
            elastic.lack[i].fix(0)
        hard += broken
    for i, row in enumerate(rows):
        elastic.excess[i].fix(0)
        elastic.lack[i].fix(0)
        if i not in hard:
            row.deactivate()
    # Rows of one's own stay longest, as they are what can be changed.
    for i in sorted(hard, key=lambda i: (_words(rows[i]) == "", i)):
        rows[i].deactivate()
        if _has_solution(model, solver, options, deadline):
            rows[i].activate()
    return tuple(
        InfeasibleRow(built.labels(row), _words(row) or "a row of your own", text)
        for row, text in zip(rows, texts, strict=True)
        if row.active
    )


def _has_solution(model: pyo.ConcreteModel, solver: Solver, options: SolveOptions, deadline: Deadline) -> bool:
    outcome = solver.solve(model, Controls(options, deadline))
    if outcome.termination is Termination.STOPPED and outcome.objective is None:
        raise InputError(f"No contradiction was found within the {word('time_limit')}; give more.")
    return outcome.termination is not Termination.INFEASIBLE


def _value(variable: Any) -> float:
    return float(variable.value or 0.0)


def _words(row: Any) -> str:
    """The description of a row; empty for rows without one, such as added rows."""
    return str(row.parent_component().doc or "")
