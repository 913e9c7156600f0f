"""The solvers by name. `highs` is always there; the others run where their packages are installed."""

from __future__ import annotations

import importlib.metadata
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyomo.environ as pyo

from mtpp_models import highs, pyomo_solvers
from mtpp_models.outcome import Controls, Outcome, SolverNotAvailableError

__all__ = ["SOLVERS", "Solver", "available_solvers", "find_solver"]


@dataclass(frozen=True)
class Solver:
    """A mixed-integer solver.

    Parameters
    ----------
    name : str
        What ``--solver`` takes.
    package : str
        What to install.
    version : callable
        Its version, or None where it cannot run.
    run : callable
        Solves a Pyomo model.
    margin : float
        Relative amount by which its dual bound may be too high; it is subtracted. The tolerances that the
        solver prunes with, on models whose objective is near 1, stay below it.
    """

    name: str
    package: str
    version: Callable[[], str | None]
    run: Callable[[pyo.ConcreteModel, Controls], Outcome]
    margin: float


def find_solver(name: str) -> Solver:
    """The solver called `name`, ready to run.

    Parameters
    ----------
    name : str
        A key of `SOLVERS`, or any name that `pyomo.environ.SolverFactory` knows.

    Returns
    -------
    Solver

    Raises
    ------
    SolverNotAvailableError
        If it is unknown or not installed; the message says what to install.
    """
    solver = SOLVERS.get(name) or _classic(name, f"a Pyomo plugin called {name}", name)
    if solver.version() is None:
        known = ", ".join(available_solvers())
        remedy = f"install {solver.package}" if name in SOLVERS else "check the name"
        raise SolverNotAvailableError(f"Solver {name} is not available: {remedy}, or choose one of {known}.")
    return solver


def available_solvers() -> dict[str, str]:
    """Versions of the solvers that can run here, by name."""
    versions = {name: solver.version() for name, solver in SOLVERS.items()}
    return {name: version for name, version in versions.items() if version is not None}


def _classic(
    name: str, package: str, plugin: str, options: Callable[[Controls], Mapping[str, Any]] | None = None
) -> Solver:
    """A solver behind Pyomo's classic interface, where it goes by `plugin`."""
    run = partial(pyomo_solvers.run_classic, plugin, options)
    return Solver(name, package, partial(_classic_version, plugin), run, _MARGIN if options else _UNKNOWN_MARGIN)


def _classic_version(name: str) -> str | None:
    # Pyomo warns about each executable that it does not find.
    logger = logging.getLogger("pyomo")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        solver = pyo.SolverFactory(name)
        if not solver.available(exception_flag=False):
            return None
        version = solver.version()
    except (AttributeError, OSError):  # a plugin that is no solver of models by itself
        return None
    finally:
        logger.setLevel(level)
    return ".".join(map(str, version)) if version else "unknown"


def _package_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _limit(option: str, controls: Controls, *, whole: bool = False) -> dict[str, float]:
    """The option that carries the time limit, if there is one; Pyomo's own keyword is ignored by some solvers."""
    if controls.time_limit is None:
        return {}
    return {option: max(1, math.ceil(controls.time_limit)) if whole else controls.time_limit}


def _cbc(controls: Controls) -> dict[str, Any]:
    # By default CBC calls a solution optimal that may be 1e-5 from it.
    options = {"ratio": controls.gap, "allow": 0, "increment": 1e-9, "threads": controls.threads}
    return {**options, "randomCbcSeed": controls.seed, "timeMode": "elapsed", **_limit("sec", controls)}


def _glpk(controls: Controls) -> dict[str, Any]:
    return {"mipgap": controls.gap, "seed": controls.seed, **_limit("tmlim", controls, whole=True)}


def _cplex(controls: Controls) -> dict[str, Any]:
    options = {"mip_tolerances_mipgap": controls.gap, "threads": controls.threads, "randomseed": controls.seed}
    return {**options, **_limit("timelimit", controls)}


def _xpress(controls: Controls) -> dict[str, Any]:
    options = {"miprelstop": controls.gap, "threads": controls.threads, "randomseed": controls.seed}
    return {**options, **_limit("timelimit", controls)}


#: Of solvers that run with tolerances and gaps below it, and of those that keep their own.
_MARGIN, _UNKNOWN_MARGIN = 5e-7, 1e-4

_ALL = (
    Solver("highs", "highspy", highs.version, highs.run_highs, _MARGIN),
    Solver("scip", "pyscipopt", partial(_package_version, "pyscipopt"), pyomo_solvers.run_scip, _MARGIN),
    Solver("gurobi", "gurobipy", partial(_package_version, "gurobipy"), pyomo_solvers.run_gurobi, _MARGIN),
    _classic("cbc", "coinor-cbc (Debian) or another build of CBC", "cbc", _cbc),
    _classic("glpk", "glpk-utils (Debian) or another build of GLPK", "glpk", _glpk),
    _classic("cplex", "cplex", "cplex_direct", _cplex),
    _classic("xpress", "xpress", "xpress_direct", _xpress),
)

#: Name to solver.
SOLVERS = {solver.name: solver for solver in _ALL}
