"""What one case of a model proves once a solver has worked on it."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
import pyomo.environ as pyo

from instances import Partition
from instances.graph.tensors import IntArray
from instances.results import PROOF_TOLERANCE
from mtpp_models.formulations.formulation import Case, ScaledInstance
from mtpp_models.solvers.interface import Controls, Outcome, SolverFaultError, Termination
from mtpp_models.solvers.registry import Solver

__all__ = ["Answer", "solve_case"]

_INTEGRAL = 1e-4


class Answer(NamedTuple):
    """What one case proves, in the time unit of the instance, and its seconds in each phase.

    Parameters
    ----------
    bound : float
        Proved; infinite where the case is infeasible.
    found : float
        No more can be proved: what the solver found when it ran to its end; infinite where it did not.
    superblock : (n,) array, optional
        Where the solution puts each node, counted from 0; None where there is none or it is not integral.
    log : str
    build, solve : float
        Seconds.
    """

    bound: float
    found: float
    superblock: IntArray | None
    log: str
    build: float
    solve: float


def solve_case(
    case: Case, data: ScaledInstance, solver: Solver, controls: Controls, start: Partition | None, relaxation: bool
) -> Answer:
    """Build the model of a case and let the solver work on it for the time that is left.

    Parameters
    ----------
    case : Case
    data : ScaledInstance
    solver : Solver
    controls : Controls
    start : Partition, optional
        Warm start.
    relaxation : bool
        Solve the linear relaxation instead.

    Returns
    -------
    Answer

    Raises
    ------
    SolverFaultError
        If the solver fails or gives what is no answer.
    """
    begin = time.monotonic()
    model = case.model(start, relaxation=relaxation)
    built = time.monotonic()
    if controls.deadline.interrupted.is_set():  # the solver would not hear of it
        return Answer(0.0, math.inf, None, "", built - begin, 0.0)
    outcome = solver.solve(model, controls)
    return Answer(
        bound=_proved(outcome, solver) * data.unit,
        found=_found(outcome) * data.unit,
        superblock=None if outcome.objective is None else _read(model, solver),
        log=outcome.log,
        build=built - begin,
        solve=time.monotonic() - built,
    )


def _proved(outcome: Outcome, solver: Solver) -> float:
    """Bound of one case: infinite if it is infeasible, else what the solver states, less its margin."""
    if outcome.termination is Termination.INFEASIBLE:
        return math.inf
    if outcome.bound is None:
        return 0.0
    return outcome.bound - solver.margin * max(1.0, abs(outcome.bound))


def _found(outcome: Outcome) -> float:
    """Objective of the optimum; infinite where there is none or a gap is left, as the solver may have been told."""
    if outcome.termination is not Termination.OPTIMAL or outcome.objective is None or outcome.bound is None:
        return math.inf
    closed = outcome.objective - outcome.bound <= PROOF_TOLERANCE * max(1.0, abs(outcome.objective))
    return outcome.objective if closed else math.inf


def _read(model: pyo.ConcreteModel, solver: Solver) -> IntArray | None:
    """The superblock of each node that y encodes."""
    # A variable that no constraint mentions comes back without a value; either would do.
    y = np.array([[model.y[v, b].value or 0.0 for b in model.B] for v in model.V])
    if not np.isfinite(y).all():
        raise SolverFaultError(solver.name, "gives a solution with values that are no numbers")
    if not np.abs(y - np.round(y)).max() <= _INTEGRAL:
        return None
    return len(model.B) - np.round(y).sum(axis=1).astype(np.int64)
