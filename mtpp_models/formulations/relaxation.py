"""Linear relaxations of models: their values, points and duals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mtpp_models.solvers.interface import SolverOutcome, Termination
from mtpp_models.solvers.labels import Labels
from mtpp_models.solvers.modeling import pyo, standard_form

# How far from a whole number the value of a variable counts as fractional.
_WHOLE = 1e-6


@dataclass(frozen=True)
class Relaxation:
    """Optimum of the linear relaxation of a model, as its file has it: 0/1 variables lie between 0 and 1.

    Of a model of several cases `value` and `bound` are the least of all cases, and the rest is that of the case of
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
        All of them, in the order of `mtpp_models.cases`.
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
    """Let the integer variables of a model be real numbers and ask for duals; the variables, but for fixed ones."""
    whole = [v for v in model.component_data_objects(pyo.Var) if v.is_integer() and not v.fixed]
    pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
    model.dual = pyo.Suffix(direction=pyo.Suffix.IMPORT)
    return whole


def read_relaxation(
    model: pyo.ConcreteModel, whole: Sequence[Any], labels: Labels, outcome: SolverOutcome, unit: float
) -> Relaxation:
    """The relaxation of one case, without its name and bound, from what a solver left in the model."""
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
    """The relaxation of a model: that of its least case, with the value and bound of all.

    Parameters
    ----------
    cases : sequence of Relaxation
        Those that were begun.
    count : int
        Cases of the model; none where nothing is better than the cutoff.
    cutoff : float
        What the model loses costs no less [time unit].
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
