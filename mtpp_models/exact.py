r"""The exact model of max-throughput partitioning (MTPP, Section 4.1, Figure 3).

.. math::

    \min\; & \mathrm{bottleneck}                                            & (5) \\
    & \mathrm{bottleneck} \ge \mathrm{block}_b                & \forall b       (6)

subject to (7) to (12) of `mtpp_models.constraints`. Theorem 4.1: O(nk) variables, O(mk) constraints,
O((n + m)k) nonzeros. More blocks than nodes never help, so k is at most n here.
"""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression

from instances import Partition
from instances.tensors import IntArray
from mtpp_models.constraints import add_assignment, add_block_costs, add_dag, add_overflow, add_tensor_cuts
from mtpp_models.formulation import Case, Formulation, ScaledInstance

__all__ = ["EXACT", "exact"]


def exact(data: ScaledInstance) -> pyo.ConcreteModel:
    """Build the exact model.

    Parameters
    ----------
    data : ScaledInstance

    Returns
    -------
    pyomo.environ.ConcreteModel
        Its objective is the bottleneck in multiples of the unit of `data`.
    """
    m = pyo.ConcreteModel("exact")
    add_assignment(m, data, min(data.instance.k, data.n))
    add_dag(m, data)
    add_tensor_cuts(m, data, list(m.B))
    add_overflow(m, data, list(m.B))
    add_block_costs(m, data, list(m.B))
    m.bottleneck = pyo.Var(domain=pyo.NonNegativeReals)
    m.objective = pyo.Objective(expr=m.bottleneck, doc="(5)")

    @m.Constraint(m.B, doc="(6) the bottleneck is the slowest block")
    def slowest(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        return m.bottleneck >= m.block[b]

    return m


def _block_ranks(partition: Partition) -> IntArray:
    """Blocks counted from 1, empty ones closed up, since the model has at most one block per node."""
    return np.unique(partition.block, return_inverse=True)[1] + 1


EXACT = Formulation(
    "exact",
    "the exact mixed-integer program",
    "MTPP, Section 4.1, eq. (5)-(12)",
    lambda data: (Case("exact", lambda: exact(data), _block_ranks),),
    exact=True,
)
