"""Solutions of other programs as partitions: costs are computed here, bounds are only stated."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pyomo.environ as pyo

from instances import InputError, Partition
from instances.errors import InputWarning
from mtpp_models.exchange.building import BuiltModel, read_partition
from mtpp_models.exchange.names import ONE, columns
from mtpp_models.exchange.solution_files import SolutionFile, read_solution_file

__all__ = ["Solution", "read_solution", "stated_time"]

# By how much values in files may miss bounds and rows, whose sums are near 1; files have as few as six digits.
_TOLERANCE = 1e-4
# Characters of a name in a message.
_SHOWN = 40
# The relative gap that solvers leave by default when they call a solution optimal.
_USUAL_GAP = 1e-4
# By how much the objective of an optimum may be above what its partition costs.
_SLACK = 1e-3


class Solution(NamedTuple):
    """Content of a solution file of another program, in the time unit of the instance."""

    partition: Partition
    solver: str  # whose format the file has
    stated: float | None  # a bound, as the file states it and nobody has proved


def read_solution(built: BuiltModel, path: str | Path) -> Solution:
    """Read the solution of a written model; the values are left in the variables of the built one.

    Read are the files of HiGHS, CBC, GLPK, SCIP and Gurobi, and lists of a name and a value a line. A list may give the
    variables ``y`` alone. Variables that are missing are 0. Of all others the rows of the model have to hold, so that
    a file that is cut short or of another model is noticed.

    Parameters
    ----------
    built : BuiltModel
        Of the same question, model and start as the written one.
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
    """The time that a bound on the objective of a model states; at most the cutoff of a strengthened one."""
    return min(value * built.unit, built.cutoff)


def _put(built: BuiltModel, names: dict[str, Any], file: SolutionFile) -> None:
    """Set the variables of the model, given by their names, to the values in the file; those left out are 0."""
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
    """Refuse an optimum above the cost of its partition; for other solutions, warn."""
    if file.objective is None or file.objective * built.unit <= partition.bottleneck * (1 + _SLACK):
        return
    said = f"it says {file.objective * built.unit:.6g}, and its partition costs {partition.bottleneck:.6g}"
    if file.optimal:
        file.fail(f"{said}; the file is not of {_called(built)}, but perhaps of another bandwidth or memory.")
    warnings.warn(f"{file.path}: {said}; is it of another bandwidth or memory?", InputWarning, stacklevel=3)


def _stated(built: BuiltModel, file: SolutionFile) -> float | None:
    """The bound [time unit] that a file states, or that follows from its optimality; None if there is none."""
    value = file.bound
    if value is None and file.optimal and file.objective is not None:
        value = file.objective * (1 - _USUAL_GAP)
    return None if value is None else stated_time(built, value)


def _called(built: BuiltModel) -> str:
    return f"the model {built.name} of {built.instance.label}"
