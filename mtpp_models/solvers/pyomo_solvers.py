"""Solvers called through Pyomo: SCIP, Gurobi, and the plugins of its `SolverFactory`."""

from __future__ import annotations

import io
import logging
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyomo.environ as pyo
from pyomo.common.tempfiles import TempfileManager
from pyomo.contrib.solver.common.results import TerminationCondition
from pyomo.contrib.solver.solvers.gurobi.gurobi_direct import GurobiDirect
from pyomo.contrib.solver.solvers.scip.scip_direct import ScipDirect
from pyomo.opt import SolverStatus
from pyomo.opt import TerminationCondition as ClassicTermination
from pyomo.opt.solver import SystemCallSolver

from instances.deadline import Deadline
from instances.system.processes import run_program, signal_name
from mtpp_models.solvers.interface import (
    Controls,
    Progress,
    SolverFaultError,
    SolverNotAvailableError,
    SolverOutcome,
    Termination,
)

# Solvers driven through Pyomo's interfaces, the new one (SCIP, Gurobi) and the classic one (all others).


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
    """Pyomo's interface to Gurobi, with a time limit that includes building the model."""


class ScipWithoutGil(_Timed, ScipDirect):
    """SCIP that releases Python's lock while it optimises.

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
            solver_options=controls.with_user_options(options),
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
    if optimal and model.component("dual") is not None:
        with suppress(NotImplementedError):  # of SCIP
            model.dual.update(results.solution_loader.get_duals())
    return SolverOutcome(
        Termination.OPTIMAL if optimal else Termination.STOPPED,
        finite(results.objective_bound),
        results.incumbent_objective,
        results.solver_log or "",
    )


class _ProgressStream(io.TextIOBase):
    """A text stream that parses the lines of a solver's log and reports progress."""

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
    """Whether all integer variables have initial values."""
    integers = [v for v in model.component_data_objects(pyo.Var) if v.is_integer() and not v.fixed]
    return bool(integers) and all(v.value is not None for v in integers)


def finite(value: Any) -> float | None:
    """Bound of a solver; None for values such as 1e20 that mean none. NaN is returned as it is."""
    number = None if value is None else float(value)
    return None if number is not None and abs(number) >= _NO_BOUND else number


def number(text: str) -> float | None:
    """The number in a cell of a log; None if it holds none."""
    try:
        return float(text)
    except ValueError:
        return None


# Solvers behind Pyomo's classic interface, most of which are programs.


# The part of its time after which a program may have stopped because of it.
_MOST = 0.9
_WRITES_LOG_FILE = ("cbc", "glpk")
# A CBC that was stopped states its bound to eight digits where it says this, and else to three after the point.
_CBC_UNKNOWN = re.compile(r"^No match for (\S+)", re.MULTILINE)
_CBC_DIGITS, _CBC_ROUNDING = "(best possible", 1e-3
# Times the limit, plus seconds: when a program is late.
_LATE, _PATIENCE = 1.5, 5.0
_VERSION_FLAGS = {"cbc": "-stop", "glpk": "--version"}


def run_classic(
    name: str,
    option_names: Callable[[Controls], Mapping[str, Any]] | None,
    model: pyo.ConcreteModel,
    controls: Controls,
) -> SolverOutcome:
    """Solve with an interface of `pyomo.environ.SolverFactory`.

    Parameters
    ----------
    name : str
        Name in Pyomo.
    option_names : callable, optional
        Solver options for the controls. Without it only the time limit is passed on, as Pyomo's keyword.
    model : pyomo.environ.ConcreteModel
        The model, which receives the solution.
    controls : Controls
        Options, time and where progress is reported.

    Raises
    ------
    SolverFaultError
        If the solver fails, or does not end in time.
    """
    solver = classic_solver(name, controls)
    keywords: dict[str, Any] = {}
    if option_names is not None:
        solver.options.update(controls.with_user_options(option_names(controls)))
    else:
        solver.options.update(controls.options.solver_options)
        if controls.time_limit is not None:
            keywords["timelimit"] = controls.time_limit
    if solver.warm_start_capable() and has_start(model):
        keywords["warmstart"] = True
    with tempfile.TemporaryDirectory() as folder:
        log_file = Path(folder, "log")
        if name in _WRITES_LOG_FILE:
            keywords["logfile"] = str(log_file)
        nearly = controls.deadline.share(_MOST)
        try:
            with ONE_AT_A_TIME, quiet(), _files_in(folder):
                results = solver.solve(model, load_solutions=False, **keywords)
        except (MemoryError, SolverNotAvailableError):
            raise
        except Exception as error:
            if nearly.passed:  # it was stopped and left no result
                return SolverOutcome(Termination.STOPPED, log=str(error))
            raise SolverFaultError(name, f"failed ({_first_line(error)})") from error
        log = log_file.read_text(encoding="utf-8", errors="replace") if log_file.exists() else ""
    if controls.options.solver_options and (unknown := _CBC_UNKNOWN.search(log)):
        raise SolverFaultError(name, f"does not know {unknown[1]}")
    condition = results.solver.termination_condition
    if condition == ClassicTermination.infeasible and not nearly.passed:  # CBC guesses when it has to stop
        return SolverOutcome(Termination.INFEASIBLE, log=log)
    optimal = condition == ClassicTermination.optimal
    has_solution = len(results.solution) > 0
    if has_solution:
        results.solver.status = SolverStatus.ok  # else Pyomo warns about solutions at the time limit
        model.solutions.load_from(results)
    bound = finite(results.problem.lower_bound)
    if bound is None and name == "glpk":
        bound = _last_glpk_bound(log)
    if bound is not None and name == "cbc" and not optimal and _CBC_DIGITS not in log:
        bound -= _CBC_ROUNDING
    value = pyo.value(model.objective, exception=False) if has_solution else None
    objective = None if value is None else float(value)
    return SolverOutcome(Termination.OPTIMAL if optimal else Termination.STOPPED, bound, objective, log)


def classic_solver(name: str, controls: Controls | None = None) -> Any:
    """Interface of `pyomo.environ.SolverFactory` whose program, with all its children, ends in time.

    Its ``version`` and ``solve`` raise a `SolverFaultError` where the program hangs or dies.
    """
    solver, controls = pyo.SolverFactory(name), controls or Controls()
    if not isinstance(solver, SystemCallSolver):
        return solver
    original = solver._execute_command

    def execute(command: Any) -> list[Any]:
        if "script" in command:  # of interfaces that talk to their program
            return list(original(command))
        limit = controls.time_limit
        patience = None if limit is None else limit * _LATE + _PATIENCE
        nearly, begin = controls.deadline.share(_MOST), time.monotonic()
        run = run_program(command.cmd, patience, controls.deadline.interrupted, environment=command.env)
        solver._last_solve_time = time.monotonic() - begin
        if run.code != 0 and not controls.deadline.interrupted.is_set():
            if run.stopped:
                raise SolverFaultError(name, f"did not end within its {limit:.3g} s and was stopped")
            if not nearly.passed:  # CBC may crash where it has to stop at once
                died = run.code < 0
                end = f"died of {signal_name(-run.code)}" if died else f"ended with exit code {run.code}"
                raise SolverFaultError(name, end)
        return [run.code, run.text]

    solver._execute_command = execute
    if name in _VERSION_FLAGS:
        solver._get_version = lambda *_: _program_version(name, solver.executable())
    return solver


def _program_version(name: str, executable: str) -> tuple[int, ...] | None:
    run = run_program([executable, _VERSION_FLAGS[name]], _PATIENCE)
    if run.stopped:
        raise SolverFaultError(name, f"does not say its version within {_PATIENCE:g} s")
    match = re.search(r"\d+(?:\.\d+)+", run.text)
    return (*map(int, match[0].split(".")), 0, 0)[:4] if match else None


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Pyomo's warnings; errors are still raised."""
    logger = logging.getLogger("pyomo")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _files_in(folder: str) -> Iterator[None]:
    """Let Pyomo keep its files in a folder that is removed, also after a failure."""
    before, TempfileManager.tempdir = TempfileManager.tempdir, folder
    try:
        with TempfileManager.new_context():
            yield
    finally:
        TempfileManager.tempdir = before


def _last_glpk_bound(log: str) -> float | None:
    """The last bound in GLPK's log, the only place with it, as in ``mip = 2.1e+00 >= 1.7e+00  19.0%``; None without."""
    bounds = re.findall(r">=\s+(\S+)", log)
    return finite(number(bounds[-1])) if bounds else None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
