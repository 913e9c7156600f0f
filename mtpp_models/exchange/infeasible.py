"""Rows that contradict each other in a model with rows of one's own.

The elastic filter of Chinneck and Dravnieks (1991): each row may be broken at a price, and those that are broken become
hard, until nothing is left that satisfies them. Then each of them is left out in turn, for good where the others still
contradict each other. Bounds, fixed values and whole numbers stay. Integer programs are solved to the end each time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from instances import InputError
from instances.deadline import Deadline
from instances.errors import word
from mtpp_models.exchange.files import BuiltModel
from mtpp_models.planning.solve import BuiltReplication
from mtpp_models.solvers.interface import Controls, SolveOptions, Termination
from mtpp_models.solvers.modeling import pyo
from mtpp_models.solvers.registry import Solver, find_solver

# Of a row, in its own units, whose sums are near 1: what is less is rounding.
_BROKEN = 1e-6


class InfeasibleRow(NamedTuple):
    """A row of a set of rows that contradict each other."""

    name: str  # in the file of the model
    words: str  # what the row says, as the model documents it
    text: str  # the row itself, by names of the file


def explain_infeasible(
    built: BuiltModel | BuiltReplication, options: SolveOptions = SolveOptions()
) -> tuple[InfeasibleRow, ...]:
    """Find rows of a model that contradict each other, of which none can be left out.

    Parameters
    ----------
    built : BuiltModel or BuiltReplication
        With rows of your own, perhaps with variables that you fix; it is not changed.
    options : SolveOptions
        The solver, and the time for all of it.

    Returns
    -------
    tuple of InfeasibleRow
        Without any of them the others have a solution. None if the model has one, or if there are only bounds and fixed
        values that contradict each other.

    Raises
    ------
    InputError
        If time does not suffice.
    SolverNotAvailableError, SolverFaultError
        If the solver cannot run here, fails, or states what is not true.

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
    """The description of the rows of a model; empty of a row without one, as rows of one's own are."""
    return str(row.parent_component().doc or "")
