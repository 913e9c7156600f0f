r"""The exact model of max-throughput partitioning (MTPP, Section 4.1, Figure 3).

.. math::

    \min\; & \mathrm{bottleneck}                                            & (5) \\
    & \mathrm{bottleneck} \ge \mathrm{block}_b                & \forall b       (6)

subject to (7) to (12) of `mtpp_models.formulations.constraints`. Theorem 4.1: O(nk) variables, O(mk) constraints,
O((n + m)k) nonzeros. More blocks than nodes never help, so k is at most n here unless constraints tell blocks apart.

The same page, with blocks of other sizes than 1, is the model of `mtpp_models.formulations.superblocks`. Over kinds of
devices it is that of `mtpp_models.formulations.kinds`, without superblocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from mtpp_models.cuts.conflicts import BlockWindows, allowed_windows
from mtpp_models.formulations.constraints import add_assignment, add_dag, add_least, add_overflow, add_tensor_cuts
from mtpp_models.formulations.kinds import exact_of_kinds
from mtpp_models.formulations.scaled_instance import ScaledInstance, ScaledKinds
from mtpp_models.solvers.modeling import NumericExpression, pyo


def exact(
    data: ScaledInstance,
    sizes: Sequence[int] | None = None,
    *,
    windows: BlockWindows | None = None,
    stronger: bool = False,
) -> pyo.ConcreteModel:
    """Build the exact model, or the model of superblocks; the objective is the bottleneck in units of `data`.

    Parameters
    ----------
    data : ScaledInstance
        The instance in multiples of its unit.
    sizes : sequence of int, optional
        Number of blocks in each superblock; by default each block stands alone.
    windows : BlockWindows, optional
        Where nodes may lie; by default wherever the constraints of the instance allow it.
    stronger : bool
        Whether (9') and (10') stand for (9) and (10).
    """
    if isinstance(data, ScaledKinds):
        return exact_of_kinds(data)
    sizes = sizes or (1,) * data.k
    m = pyo.ConcreteModel("exact")
    add_assignment(m, data, len(sizes), windows or allowed_windows(data.instance, sizes))  # (11), (12)
    add_dag(m, data)  # (8)
    cut = add_tensor_cuts(m, data, m.B, stronger=stronger)  # (9), (10)
    overflow = add_overflow(m, data, m.B, sizes)  # (2)
    m.size = pyo.Param(m.B, initialize=dict(enumerate(sizes, 1)), doc="blocks in superblock b")

    @m.Expression(m.B, doc="(7) cost of block b")
    def block(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        return sum(m.work[v] * m.x[v, b] for v in m.V) + cut[b] + overflow[b]

    m.bottleneck = pyo.Var(domain=pyo.NonNegativeReals, doc="cost of the slowest block")

    @m.Constraint(m.B, doc="(6) the bottleneck is the slowest block")
    def slowest(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        return m.size[b] * m.bottleneck >= m.block[b]

    if data.instance.constraints:
        add_least(m, data, sizes)
    m.objective = pyo.Objective(expr=m.bottleneck, doc="(5)")
    return m
