"""Diagnosis of a bound above the cost of a known partition: the solver or the model is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence

from instances import InputError, Partition
from instances.deadline import Deadline
from mtpp_models.formulations.case import Case
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.solvers.highs import run_highs
from mtpp_models.solvers.interface import Controls, SolverFaultError, Termination

__all__ = ["ExcludedPartitionError", "contradiction"]

# Relative; and seconds for each case.
_TOLERANCE, _PATIENCE = 1e-6, 20.0


class ExcludedPartitionError(InputError):
    """Fault of a model that counts as a bound but excludes a partition, which `excludes` describes."""

    def __init__(self, excludes: str) -> None:
        self.excludes = excludes
        super().__init__(f"{excludes}, so that its optimum is no lower bound; give its Formulation is_bound=False.")


def contradiction(
    name: str, cases: Sequence[Case], data: ScaledInstance, solver: str, proved: float, partition: Partition
) -> Exception:
    """A `SolverFaultError` or, where the model does not admit the partition, an `ExcludedPartitionError` to raise.

    The cases of the model `name` are made of `data`; they are empty if the model is known to admit the partition. What
    the solver proved is infinite if it found no solution, and above the bottleneck of the partition.
    """
    cost = f"a partition of bottleneck {partition.bottleneck:.6g}"
    if cases and all(_excludes(case, data, partition) for case in cases):
        return ExcludedPartitionError(f"The model {name} excludes {cost}")
    claim = "says that there is no solution" if math.isinf(proved) else f"states the bound {proved:.6g}"
    return SolverFaultError(solver, f"{claim} of {name}, against {cost}")


def _excludes(case: Case, data: ScaledInstance, partition: Partition) -> bool:
    """Whether a case is found to exclude the partition, or to give it a higher cost; False also if time is up."""
    model = case.model()
    for v, home in enumerate(case.superblock(partition)):
        for b in model.B_before_last:
            variable, value = model.y[v, b], int(home <= b)
            if variable.fixed and variable.value != value:
                return True
            variable.fix(value)
    outcome = run_highs(model, Controls(deadline=Deadline.after(_PATIENCE)))
    if outcome.termination is Termination.INFEASIBLE:
        return True
    return outcome.bound is not None and outcome.bound * data.unit > partition.bottleneck * (1 + _TOLERANCE)
