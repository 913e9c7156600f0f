"""Solvers driven through Pyomo's interfaces, the new one (SCIP, Gurobi) and the classic one (all others)."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pyomo.environ as pyo
from pyomo.contrib.solver.common.results import TerminationCondition
from pyomo.contrib.solver.solvers.gurobi.gurobi_direct import GurobiDirect
from pyomo.contrib.solver.solvers.scip.scip_direct import ScipDirect

from instances.deadline import Deadline
from mtpp_models.solvers.interface import Controls, Progress, SolverNotAvailableError, SolverOutcome, Termination

__all__ = [
    "ONE_AT_A_TIME",
    "ScipWithoutGil",
    "finite",
    "has_start",
    "number",
    "parse_gurobi_line",
    "parse_scip_line",
    "run_gurobi",
    "run_scip",
]

# Columns of the table in SCIP's log.
_SCIP_CELLS = 17
# Solvers that have no bound state one at least as large.
_NO_BOUND = 1e20
# Pyomo reads logs by redirecting the descriptors of the process, so threads would read each other's.
ONE_AT_A_TIME = threading.Lock()

ProgressLine = tuple[float, float | None, float | None, int | None]


def run_scip(model: pyo.ConcreteModel, controls: Controls) -> SolverOutcome:
    """Solve with SCIP (PySCIPOpt)."""
    options = {
        "randomization/randomseedshift": controls.options.seed,
        "numerics/feastol": controls.tolerance,
        "lp/threads": controls.options.threads,
    }
    return _run_new(ScipWithoutGil(), model, controls, options, parse_scip_line)


def run_gurobi(model: pyo.ConcreteModel, controls: Controls) -> SolverOutcome:
    """Solve with Gurobi (gurobipy)."""
    options = {
        "Seed": controls.options.seed,
        "FeasibilityTol": controls.tolerance,
        "IntFeasTol": controls.tolerance,
        "Threads": controls.options.threads,
    }
    import gurobipy

    try:
        return _run_new(TimedGurobi(), model, controls, options, parse_gurobi_line)
    except gurobipy.GurobiError as error:  # such as a model that the free licence is too small for
        raise SolverNotAvailableError(f"Gurobi cannot solve this model: {error}. Choose another solver.") from error


class _Timed:
    """Mix-in for interfaces of Pyomo whose time limit includes building the solver's model."""

    def _create_solver_model(self, model: Any, config: Any) -> Any:
        controls = Controls(deadline=Deadline.after(config.time_limit))
        created = super()._create_solver_model(model, config)  # type: ignore[misc]
        config.time_limit = controls.time_limit
        return created


class TimedGurobi(_Timed, GurobiDirect):
    """Gurobi, as Pyomo drives it."""


class ScipWithoutGil(_Timed, ScipDirect):
    """SCIP that lets Python run while it optimises.

    Pyomo captures the log through a pipe that a Python thread reads. With the lock held by the solver the
    pipe fills at 64 KiB and both wait for ever.
    """

    def _create_solver_model(self, model: Any, config: Any) -> tuple[Any, Any, bool]:
        scip, loader, has_objective = super()._create_solver_model(model, config)
        return _NoGil(scip), loader, has_objective


class _NoGil:
    def __init__(self, scip: Any) -> None:
        self._scip = scip

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scip, name)

    def optimize(self) -> None:
        self._scip.optimizeNogil()


def _run_new(
    solver: Any,
    model: pyo.ConcreteModel,
    controls: Controls,
    options: Mapping[str, Any],
    parse: Callable[[str], ProgressLine | None],
) -> SolverOutcome:
    with ONE_AT_A_TIME:
        results = solver.solve(
            model,
            load_solutions=False,
            raise_exception_on_nonoptimal_result=False,
            time_limit=controls.time_limit,
            rel_gap=controls.options.gap,
            abs_gap=0.0,
            warmstart_discrete_vars=has_start(model),
            solver_options=dict(options),
            tee=[_ProgressStream(controls, parse)],
        )
    condition = results.termination_condition
    if condition == TerminationCondition.interrupted:
        controls.deadline.interrupted.set()
    if condition in (TerminationCondition.provenInfeasible, TerminationCondition.infeasibleOrUnbounded):
        return SolverOutcome(Termination.INFEASIBLE, log=results.solver_log or "")
    if results.incumbent_objective is not None:
        results.solution_loader.load_vars()
    optimal = condition == TerminationCondition.convergenceCriteriaSatisfied
    return SolverOutcome(
        Termination.OPTIMAL if optimal else Termination.STOPPED,
        finite(results.objective_bound),
        results.incumbent_objective,
        results.solver_log or "",
    )


class _ProgressStream(io.TextIOBase):
    """A text stream that reports each line of a log that it understands."""

    def __init__(self, controls: Controls, parse: Callable[[str], ProgressLine | None]) -> None:
        self._controls, self._parse, self._tail = controls, parse, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._tail = (self._tail + text).split("\n")
        for line in lines:
            if (progress := self._parse(line)) is not None:
                self._controls.report(Progress("", *progress))
        return len(text)


def parse_scip_line(line: str) -> ProgressLine | None:
    """Seconds, incumbent, bound and nodes of one row of SCIP's table, or None.

    Examples
    --------
    >>> parse_scip_line(" 1.2s| 7 | 8 | 91 | 2.3 | 9M | 6 | 60 | 20 | 20 | 0 | 0 | 0 | 6 | 9.4e+02 | 1.9e+03 | 9%| unk")
    (1.2, 1900.0, 940.0, 7)
    """
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) < _SCIP_CELLS or (seconds := re.search(r"([\d.]+)s?$", cells[0])) is None or not cells[1].isdigit():
        return None
    return float(seconds[1]), number(cells[15]), number(cells[14]), int(cells[1])


def parse_gurobi_line(line: str) -> ProgressLine | None:
    """Seconds, incumbent, bound and nodes of one row of Gurobi's table, or None.

    Examples
    --------
    >>> parse_gurobi_line("H   12    10                    1963.0  941.5  52.0%  45.1    3s")
    (3.0, 1963.0, 941.5, 12)
    """
    row = re.match(r"^[H*\s]\s*(\d+)\s+\d+\s.*?(\S+)\s+(\S+)\s+(?:[\d.]+%|-)\s+\S+\s+(\d+)s\s*$", line)
    return row and (float(row[4]), number(row[2]), number(row[3]), int(row[1]))


def has_start(model: pyo.ConcreteModel) -> bool:
    """Whether all integer variables have values to start from."""
    integers = [v for v in model.component_data_objects(pyo.Var) if v.is_integer() and not v.fixed]
    return bool(integers) and all(v.value is not None for v in integers)


def finite(value: Any) -> float | None:
    """Bound of a solver; None if its value, such as 1e20, means that it has none. NaN is returned."""
    number = None if value is None else float(value)
    return None if number is not None and abs(number) >= _NO_BOUND else number


def number(text: str) -> float | None:
    """The number that a cell of a log holds, if it holds one."""
    try:
        return float(text)
    except ValueError:
        return None
