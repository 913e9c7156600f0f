r"""Guess-the-bottleneck: one three-superblock model for each position r of the slowest block (MTPP, Section 4.3).

.. math::

    \min\; & \mathrm{bottleneck} \\
    & \mathrm{bottleneck} = \mathrm{block}_2 \\
    & (r - 1) \cdot \mathrm{bottleneck} \ge \mathrm{block}_1 \\
    & (k - r) \cdot \mathrm{bottleneck} \ge \mathrm{block}_3

subject to (7) to (12) with k = 3 and without (14); superblock 1 is empty for r = 1, and superblock 3 for
r = k. Merging blocks never raises the sum of their costs, because tensors inside vanish and shared ones
merge, so a partition whose slowest block is number r satisfies this. Its overflow counts in superblock 2
alone. The bound is the smallest over r.

With (14) besides, "=" would make the bound false: the slowest block need not have the most work.
"""

from __future__ import annotations

import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression

from mtpp_models.formulations.case import Case
from mtpp_models.formulations.constraints import add_assignment, add_dag, add_overflow, add_tensor_cuts
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.formulations.three_superblock import around

__all__ = ["GUESS_THE_BOTTLENECK", "guess_the_bottleneck"]


def guess_the_bottleneck(data: ScaledInstance, r: int) -> pyo.ConcreteModel:
    """Build the model in which block r, counted from 1, is the slowest."""
    k = data.k
    m = pyo.ConcreteModel(f"guess-the-bottleneck, r = {r}")
    add_assignment(m, data, k=3)
    add_dag(m, data)
    cut = add_tensor_cuts(m, data, m.B)
    m.middle = pyo.Set(initialize=[2], doc="the superblock whose overflow counts")
    overflow = add_overflow(m, data, m.middle)

    @m.Expression(m.B, doc="(7) cost of superblock b")
    def block(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        work = sum(m.work[v] * m.x[v, b] for v in m.V)
        return work + cut[b] + (overflow[b] if b in m.middle else 0.0)

    m.bottleneck = pyo.Var(domain=pyo.NonNegativeReals)
    m.objective = pyo.Objective(expr=m.bottleneck)
    m.slowest = pyo.Constraint(expr=m.bottleneck == m.block[2], doc="block r is the slowest")
    if r > 1:
        m.before = pyo.Constraint(expr=(r - 1) * m.bottleneck >= m.block[1], doc="r - 1 blocks before it")
    if r < k:
        m.behind = pyo.Constraint(expr=(k - r) * m.bottleneck >= m.block[3], doc="k - r blocks behind it")
    for v in m.V:
        if r == 1:
            m.y[v, 1].fix(0)
        if r == k:
            m.y[v, 2].fix(1)
    return m


def _case(data: ScaledInstance, r: int) -> Case:
    return Case(f"r = {r}", lambda: guess_the_bottleneck(data, r), lambda partition: around(partition, r), blocks=3)


GUESS_THE_BOTTLENECK = Formulation(
    "guess-the-bottleneck",
    "one three-superblock model for each position of the slowest block",
    "MTPP, Section 4.3",
    lambda data: tuple(_case(data, r) for r in range(1, data.k + 1)),
)
