"""Models whose y is fixed to a partition."""

from __future__ import annotations

from mtpp_models.solvers.highs import run_highs
from mtpp_models.solvers.interface import Controls, Termination
from mtpp_models.solvers.modeling import pyo


def fixed_objective(model: pyo.ConcreteModel) -> float | None:
    """Optimum with y fixed to its start, or None if there is none."""
    for variable in model.y.values():
        variable.fix()
    outcome = run_highs(model, Controls())
    if outcome.termination is Termination.INFEASIBLE:
        return None
    assert outcome.termination is Termination.OPTIMAL
    return float(pyo.value(model.objective))
