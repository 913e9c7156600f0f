"""The solvers by name. `highs` is always there; the others run where their packages are installed."""

from __future__ import annotations

import contextlib
import importlib.metadata
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from instances import InputError
from instances.errors import extra, unknown
from instances.results import PROOF_TOLERANCE
from mtpp_models.solvers.highs import run_highs
from mtpp_models.solvers.highs import version as highs_version
from mtpp_models.solvers.interface import (
    Controls,
    SolveOptions,
    SolverFaultError,
    SolverNotAvailableError,
    SolverOptionsError,
    SolverOutcome,
    Termination,
)
from mtpp_models.solvers.modeling import load_pyomo, pyo

# The part of its time after which a solver that has no answer is not at fault.
_MOST = 0.9
# Margins of solvers that run with tolerances and gaps below it, and of those that keep their own.
_MARGIN, _UNKNOWN_MARGIN = 5e-7, 1e-4
# Solvers with an extra of their own.
_EXTRAS = ("scip", "gurobi")


@dataclass(frozen=True)
class Solver:
    """A mixed-integer solver."""

    name: str  # name for ``--solver``
    package: str  # package to install
    version: Callable[[], str | None]  # its version, or None where it cannot run
    run: Callable[[pyo.ConcreteModel, Controls], SolverOutcome]  # solves a Pyomo model
    # Relative amount by which its dual bound may be too high; it is subtracted. The tolerances that the solver prunes
    # with, on models whose objective is near 1, stay below it.
    margin: float

    @property
    def remedy(self) -> str:
        """Advice on how to install the solver: the command of its extra, if it has one."""
        return extra(self.name) if self.name in _EXTRAS else f"install {self.package}"

    def with_options(self, options: SolveOptions) -> Solver:
        """The solver, with a larger margin on its bounds if the user gives options of the solver itself."""
        return replace(self, margin=_UNKNOWN_MARGIN) if options.solver_options else self

    def solve(self, model: pyo.ConcreteModel, controls: Controls) -> SolverOutcome:
        """Run the solver; return its outcome if that is consistent.

        Raises
        ------
        SolverFaultError
            If the solver fails, or its answer contradicts itself.
        SolverOptionsError
            If the solver fails with options of the user.
        InputError
            If its output cannot be written to the log.
        """
        nearly, options = controls.deadline.share(_MOST), controls.options.solver_options
        try:
            outcome = self.run(model, controls)
        except (InputError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, SolverOptionsError) or (not options and isinstance(error, SolverNotAvailableError)):
                raise
            reason = str(error) if isinstance(error, SolverNotAvailableError) else f"{type(error).__name__}: {error}"
            if options:
                raise SolverOptionsError(controls.options, reason) from error
            raise SolverFaultError(self.name, f"failed ({reason})") from error
        controls.keep_log(outcome.log)
        symptom = _symptom(outcome, max(self.margin, PROOF_TOLERANCE), had_time=not nearly.passed)
        if symptom is not None:
            raise SolverFaultError(self.name, symptom)
        return outcome


def _symptom(outcome: SolverOutcome, tolerance: float, *, had_time: bool) -> str | None:
    """Fault in the outcome of a solver, as text; None if there is none. Costs of models are at least 0 and near 1."""
    bound, objective = outcome.bound, outcome.objective
    for label, value in (("bound", bound), ("objective", objective)):
        if value is not None and not math.isfinite(value):
            return f"states the {label} {value}"
    if objective is None:
        if outcome.termination is Termination.OPTIMAL:
            return "says that it is done, but gives no solution"
        nothing = outcome.termination is Termination.STOPPED and bound is None
        return "ended before its time without an answer" if nothing and had_time else None
    if objective < -tolerance:
        return f"states the objective {objective:.6g}, but costs are never negative"
    if bound is not None and bound > objective + tolerance * max(1.0, objective):
        return f"states the bound {bound:.6g} above its own objective {objective:.6g}"
    return None


def find_solver(name: str, others: Iterable[str] = ()) -> Solver:
    """The solver called `name`, ready to run.

    Parameters
    ----------
    name : str
        A key of `SOLVERS`, or the name of a plugin of `pyomo.environ.SolverFactory`. Pyomo itself also takes paths
        and runs them; here they are refused.
    others : iterable of str, optional
        Further names to propose if the name is misspelled.

    Raises
    ------
    InputError
        If there is none of this name.
    SolverNotAvailableError
        If the solver is not installed; the message says what to install.
    """
    if name in SOLVERS:
        return _ready(SOLVERS[name])
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and name in pyo.SolverFactory:
        return _ready(_classic(name, f"what Pyomo needs for {name}", name))
    raise InputError(unknown([*available_solvers(), *others], name, "solver"))


def _ready(solver: Solver) -> Solver:
    if solver.version() is None:
        names = ", ".join(available_solvers())
        raise SolverNotAvailableError(
            f"Solver {solver.name} is not available; choose one of {names}, or: {solver.remedy}"
        )
    return solver


def available_solvers() -> dict[str, str]:
    """Versions of the solvers that can run here, by name."""
    versions = {}
    for name, solver in SOLVERS.items():
        with contextlib.suppress(SolverFaultError):
            version = solver.version()
            if version is not None:
                versions[name] = version
    return versions


def _classic(
    name: str, package: str, plugin: str, options: Callable[[Controls], Mapping[str, Any]] | None = None
) -> Solver:
    """A solver called through Pyomo's `SolverFactory`, where its name is `plugin`."""
    run = partial(_by_pyomo, "run_classic", plugin, options)
    return Solver(name, package, partial(_classic_version, plugin), run, _MARGIN if options else _UNKNOWN_MARGIN)


def _by_pyomo(function: str, *arguments: Any) -> SolverOutcome:
    """Outcome of a function of `mtpp_models.solvers.pyomo_solvers`, which is imported only now."""
    outcome: SolverOutcome = getattr(import_module("mtpp_models.solvers.pyomo_solvers"), function)(*arguments)
    return outcome


def _classic_version(name: str) -> str | None:
    load_pyomo()
    from mtpp_models.solvers.pyomo_solvers import classic_solver, quiet

    try:
        with quiet():  # about each executable that is not found
            solver = classic_solver(name)
            if not solver.available(exception_flag=False):
                return None
            version = solver.version()
    except SolverFaultError:
        raise
    except Exception:  # a plugin that is no solver of models by itself
        return None
    return ".".join(map(str, version)) if version else "unknown"


def _package_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _scip_version() -> str | None:
    """Version of SCIP, which is not that of its Python package."""
    try:
        from pyscipopt import Model
    except ImportError:
        return None
    scip = Model()
    return f"{scip.getMajorVersion()}.{scip.getMinorVersion()}.{scip.getTechVersion()}"


def _limit(option: str, controls: Controls, *, whole: bool = False) -> dict[str, float]:
    """The option that sets the time limit [s]; none without a limit."""
    if controls.time_limit is None:
        return {}
    return {option: max(1, math.ceil(controls.time_limit)) if whole else controls.time_limit}


def _cbc(controls: Controls) -> dict[str, Any]:
    # By default CBC calls a solution optimal that may be 1e-5 from it.
    options = {"ratio": controls.options.gap, "allow": 0, "increment": 1e-9, "threads": controls.options.threads}
    return {**options, "randomCbcSeed": controls.options.seed, "timeMode": "elapsed", **_limit("sec", controls)}


def _glpk(controls: Controls) -> dict[str, Any]:
    return {"mipgap": controls.options.gap, "seed": controls.options.seed, **_limit("tmlim", controls, whole=True)}


def _direct(gap: str, controls: Controls) -> dict[str, Any]:
    """Solver options for libraries called without a file: gap, threads, seed, time; `gap` names the relative gap."""
    options = controls.options
    return {gap: options.gap, "threads": options.threads, "randomseed": options.seed, **_limit("timelimit", controls)}


_ALL = (
    Solver("highs", "highspy", highs_version, run_highs, _MARGIN),
    Solver("scip", "pyscipopt", _scip_version, partial(_by_pyomo, "run_scip"), _MARGIN),
    Solver("gurobi", "gurobipy", partial(_package_version, "gurobipy"), partial(_by_pyomo, "run_gurobi"), _MARGIN),
    _classic("cbc", "coinor-cbc (Debian) or another build of CBC", "cbc", _cbc),
    _classic("glpk", "glpk-utils (Debian) or another build of GLPK", "glpk", _glpk),
    _classic("cplex", "cplex", "cplex_direct", partial(_direct, "mip_tolerances_mipgap")),
    _classic("xpress", "xpress", "xpress_direct", partial(_direct, "miprelstop")),
)

#: Name to solver.
SOLVERS = {solver.name: solver for solver in _ALL}
