"""Who is wrong where a bound exceeds what a partition costs: the solver that states it, or the model."""

from __future__ import annotations

import math

from instances import FalseCertificateError, InputError, Partition
from instances.deadline import Deadline
from mtpp_models.formulations.formulation import Case, Formulation, ScaledInstance
from mtpp_models.formulations.strengthened import Question
from mtpp_models.registry import MODELS
from mtpp_models.solvers.highs import run_highs
from mtpp_models.solvers.interface import Controls, SolverFaultError, Termination
from mtpp_models.solvers.registry import Solver

__all__ = ["contradiction"]

# Relative; and seconds for each case.
_TOLERANCE, _PATIENCE = 1e-6, 20.0


def contradiction(
    model: Formulation, question: Question, solver: Solver, proved: float, partition: Partition
) -> Exception:
    """What to raise, after looking whether the model admits the partition.

    Parameters
    ----------
    model : Formulation
    question : Question
    solver : Solver
    proved : float
        What the solver proved, infinite if it found no solution; above the bottleneck of `partition`.
    partition : Partition

    Returns
    -------
    SolverFaultError, FalseCertificateError or InputError
        The last one if a model of the user is no relaxation.
    """
    cost = f"a partition of bottleneck {partition.bottleneck:.6g}"
    claim = "says that there is no solution" if math.isinf(proved) else f"states the bound {proved:.6g}"
    # What a strengthened model loses costs no less than the ceiling, so that the model is not to blame.
    if model.strengthening is not None or _admits(question, partition):
        return SolverFaultError(solver.name, f"{claim} of {model.name}, against {cost}")
    excludes = f"The model {model.name} excludes {cost}"
    if any(model.cases is known.cases for known in MODELS.values() if isinstance(known, Formulation)):
        return FalseCertificateError(f"{excludes}; please report this as a bug.")
    return InputError(f"{excludes}, so that its optimum is no lower bound; give its Formulation is_bound=False.")


def _admits(question: Question, partition: Partition) -> bool:
    """Whether some case has the partition as a solution that costs no more; also if that is not found out."""
    return not all(_excludes(case, question.data, partition) for case in question.cases)


def _excludes(case: Case, data: ScaledInstance, partition: Partition) -> bool:
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
