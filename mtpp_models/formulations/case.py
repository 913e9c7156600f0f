"""Cases of a formulation: one Pyomo model each, and the bound proved by a solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

from instances import Partition
from instances.deadline import Stopwatch
from instances.graph.tensors import IntArray
from instances.results import PROOF_TOLERANCE
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.solvers.interface import Controls, SolverFaultError, SolverOutcome, Termination
from mtpp_models.solvers.registry import Solver

__all__ = ["Case", "CaseResult", "block_ranks"]

# A row takes about so many seconds to be built and handed over, and twice as long as one of a sample of some rows.
_ROW_SECONDS, _ROW_FACTOR, _SAMPLE = 3e-5, 2.0, 500
# Rows of a model that takes a few gigabytes; with more it is not built.
_MOST_ROWS = 1_500_000
# Of the time that is left: what need not be estimated more closely.
_LITTLE = 0.05
# How far from a whole number the solution of a solver may be.
_INTEGRAL = 1e-4


class CaseResult(NamedTuple):
    """Result of one case, in the time unit of the instance, and its seconds in each phase."""

    bound: float  # proved; infinite where the case is infeasible
    optimum: float  # objective of the solution, where the solver ran to its end; infinite where it did not
    # (n,): where the solution puts each node, counted from 0; None where there is none or it is not integral.
    superblock: IntArray | None
    log: str
    build: float  # seconds
    solve: float  # seconds
    kind: IntArray | None = None  # (b,): kind of the device of each block, -1 for none; None where blocks have no kind


@dataclass(frozen=True)
class Case:
    """One Pyomo model."""

    name: str  # unique in its formulation
    build: Callable[[], pyo.ConcreteModel]  # with V, B, B_before_last, and y[v, b]: v is in (super)block b or before
    superblock: Callable[[Partition], IntArray]  # (super)block of each node of a partition, counted from 1
    blocks: int = 1  # (super)blocks of the model, on which its size depends

    def model(self, start: Partition | None = None, *, relaxation: bool = False) -> pyo.ConcreteModel:
        """Build the model, with a warm start in ``y``; the solver completes the other variables.

        The relaxation has no integer variables and no start.
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
        start : Partition, optional
            Warm start.

        Raises
        ------
        SolverFaultError
            If the solver fails or gives what is no answer.
        """
        watch = Stopwatch()
        if not self._can_be_built(data, controls.deadline.left):
            return CaseResult(0.0, math.inf, None, "", watch.passed, 0.0)
        model = self.model(start, relaxation=controls.relaxation)
        built = watch.passed
        if controls.deadline.interrupted.is_set():  # the solver would not hear of it
            return CaseResult(0.0, math.inf, None, "", built, 0.0)
        outcome = solver.solve(model, controls)
        return CaseResult(
            bound=_proved(outcome, solver) * data.unit,
            optimum=_optimum(outcome) * data.unit,
            superblock=None if outcome.objective is None else _read(model, solver),
            log=outcome.log,
            build=built,
            solve=watch.passed - built,
            kind=None if outcome.objective is None or not hasattr(model, "on") else _read_kinds(model),
        )

    def _can_be_built(self, data: ScaledInstance, seconds: float) -> bool:
        """Whether memory, and so many seconds, may be enough to build the model and to hand it over.

        Nothing interrupts that.
        """
        graph = data.instance.graph
        rows = (graph.n + 2 * len(graph.tensors.consumers)) * self.blocks
        if rows > _MOST_ROWS:
            return False
        return rows * _ROW_SECONDS <= _LITTLE * seconds or rows * _ROW_FACTOR * _row_seconds() <= seconds


def _row_seconds() -> float:
    """Measure the seconds that Pyomo takes for one row on this machine, under its present load."""
    watch, m = Stopwatch(), pyo.ConcreteModel()
    m.rows = pyo.RangeSet(1, _SAMPLE)
    m.x = pyo.Var(m.rows)
    m.objective = pyo.Objective(expr=m.x[1])

    @m.Constraint(m.rows)
    def row(m: pyo.ConcreteModel, i: int) -> NumericExpression:
        return m.x[i] + m.x[_SAMPLE + 1 - i] >= 1 - m.x[1]

    LinearStandardFormCompiler().write(m, mixed_form=True)
    return watch.passed / _SAMPLE


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


def _optimum(outcome: SolverOutcome) -> float:
    """Objective of the optimum; infinite if there is none or a gap is left."""
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


def _read_kinds(model: pyo.ConcreteModel) -> IntArray | None:
    """The kind of the device of each block; None where the solution is not integral."""
    kinds = np.full(len(model.B), -1)
    for (b, t), variable in model.on.items():
        value = variable.value or 0.0
        if not min(abs(value), abs(value - 1.0)) <= _INTEGRAL:
            return None
        if value > 0.5:
            kinds[b - 1] = t
    return kinds
