"""Solvers behind Pyomo's classic interface, most of which are programs."""

from __future__ import annotations

import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyomo.environ as pyo
from pyomo.common.tempfiles import TempfileManager
from pyomo.opt import SolverStatus
from pyomo.opt import TerminationCondition as ClassicTermination
from pyomo.opt.solver import SystemCallSolver

from instances.system.programs import run_program, signal_name
from mtpp_models.solvers.interface import (
    Controls,
    SolverFaultError,
    SolverNotAvailableError,
    SolverOutcome,
    Termination,
)
from mtpp_models.solvers.pyomo_solvers import ONE_AT_A_TIME, finite, has_start, number

__all__ = ["classic_solver", "quiet", "run_classic"]

# The part of its time after which a program may have stopped because of it.
_MOST = 0.9
_WRITES_LOG_FILE = ("cbc", "glpk")
# A CBC that was stopped states its bound to eight digits where it says this, and else to three after the point.
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
        If it fails, or does not end in time.
    """
    solver = classic_solver(name, controls)
    keywords: dict[str, Any] = {}
    if option_names is not None:
        solver.options.update(option_names(controls))
    elif controls.time_limit is not None:
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
    """Silence Pyomo's warnings; errors are raised."""
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
