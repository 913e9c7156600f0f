"""One Pyomo model of a formulation, and what it proves once a solver has worked on it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyomo.environ as pyo

from instances import Partition
from instances.graph.tensors import IntArray
from instances.results import PROOF_TOLERANCE
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.solvers.interface import Controls, SolverFaultError, SolverOutcome, Termination
from mtpp_models.solvers.registry import Solver

__all__ = ["Case", "CaseResult", "block_ranks"]

# How far from a whole number the solution of a solver may be.
_INTEGRAL = 1e-4


class CaseResult(NamedTuple):
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


@dataclass(frozen=True)
class Case:
    """One Pyomo model.

    Parameters
    ----------
    name : str
        Unique in its formulation.
    build : callable
        Makes the model. Its variable ``y[v, b]`` says that node v lies in (super)block b or before.
    superblock : callable
        Maps a partition to the (super)block of each node, counted from 1.
    """

    name: str
    build: Callable[[], pyo.ConcreteModel]
    superblock: Callable[[Partition], IntArray]

    def model(self, start: Partition | None = None, *, relaxation: bool = False) -> pyo.ConcreteModel:
        """Build the model, with a warm start in ``y``; the solver completes the other variables.

        Parameters
        ----------
        start : Partition, optional
        relaxation : bool
            Whether to relax the integer variables; then there is no start.

        Returns
        -------
        pyomo.environ.ConcreteModel
        """
        model = self.build()
        if relaxation:
            pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
        elif start is not None:
            for v, home in enumerate(self.superblock(start)):
                for b in model.B_before_last:
                    if not model.y[v, b].fixed:
                        model.y[v, b].set_value(int(home <= b))
        return model

    def solve(self, data: ScaledInstance, solver: Solver, controls: Controls, start: Partition | None) -> CaseResult:
        """Build the model and let the solver work on it for the time that is left.

        Parameters
        ----------
        data : ScaledInstance
            What the case is made of.
        solver : Solver
        controls : Controls
        start : Partition, optional
            Warm start.

        Returns
        -------
        CaseResult

        Raises
        ------
        SolverFaultError
            If the solver fails or gives what is no answer.
        """
        begin = time.monotonic()
        model = self.model(start, relaxation=controls.relaxation)
        built = time.monotonic()
        if controls.deadline.interrupted.is_set():  # the solver would not hear of it
            return CaseResult(0.0, math.inf, None, "", built - begin, 0.0)
        outcome = solver.solve(model, controls)
        return CaseResult(
            bound=_proved(outcome, solver) * data.unit,
            found=_found(outcome) * data.unit,
            superblock=None if outcome.objective is None else _read(model, solver),
            log=outcome.log,
            build=built - begin,
            solve=time.monotonic() - built,
        )


def block_ranks(partition: Partition) -> IntArray:
    """(n,) block of each node counted from 1, with the empty blocks at the end, so that none is above n.

    Where constraints tell blocks apart, they stay where they are.
    """
    if partition.instance.constraints:
        return partition.block + 1
    return np.unique(partition.block, return_inverse=True)[1] + 1


def _proved(outcome: SolverOutcome, solver: Solver) -> float:
    """Bound of one case: infinite if it is infeasible, else what the solver states, less its margin."""
    if outcome.termination is Termination.INFEASIBLE:
        return math.inf
    if outcome.bound is None:
        return 0.0
    return outcome.bound - solver.margin * max(1.0, abs(outcome.bound))


def _found(outcome: SolverOutcome) -> float:
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
