r"""Rows that bound the cost of a superblock from above, by the value of (7) for its nodes.

The models bound c and the overflow from below alone: a solution may pay for tensors that do not cross. With (8) no
reader of a tensor lies before its producer u, so what does not cross superblock 2 of three has neither u nor a reader v
in it, or has u and all readers in it:

.. math::

    c_{t2} &\le x_{u2} + \sum_v x_{v2}            & \forall t                                      \\
    c_{t2} &\le y_{u1} + \sum_v (1 - y_{v2})      & \forall t                                      \\
    z_{g2} &\le \sum_v x_{v2}                     & \forall g                                      \\
    \mathrm{overflow}_2 &\le \mathrm{load}_2 - \mathrm{spare} + \max(0, \mathrm{spare}) (1 - o)      \\
    \mathrm{overflow}_2 &\le \mathrm{most} \cdot o, \qquad o \in \{0, 1\}                            &

Beside (9) and (10), the first two make c 1 where a tensor enters or leaves and 0 elsewhere. The load is what the
superblock holds and its peak, spare is the memory less the buffer, and most is the overflow of all nodes together; the
last two rows make the overflow :math:`\max(0, \mathrm{load}_2 - \mathrm{spare})`. Without a buffer the peak may be
anything from the largest need in the superblock to that of all nodes.
"""

from __future__ import annotations

import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression

from mtpp_models.formulations.scaled_instance import ScaledInstance

__all__ = ["ROUNDING", "add_true_cost"]

#: In units: by how much a row may be loosened so that rounding cuts off no partition.
ROUNDING = 1e-7


def add_true_cost(m: pyo.ConcreteModel, data: ScaledInstance) -> None:
    """Bound c and the overflow of superblock 2 of three from above; the model has its (8), tensors and overflow."""
    producer = {t: u for t, u, _ in data.reads}
    readers: dict[int, list[int]] = {t: [] for t in data.tensors}
    for t, _, v in data.reads:
        readers[t].append(v)

    @m.Constraint(m.T, doc="a tensor of no node of superblock 2 does not cross it")
    def elsewhere(m: pyo.ConcreteModel, t: int) -> NumericExpression:
        return m.c[t, 2] <= m.x[producer[t], 2] + sum(m.x[v, 2] for v in readers[t])

    @m.Constraint(m.T, doc="a tensor that superblock 2 makes and alone reads does not cross it")
    def inside(m: pyo.ConcreteModel, t: int) -> NumericExpression:
        return m.c[t, 2] <= m.y[producer[t], 1] + sum(1 - m.y[v, 2] for v in readers[t])

    if data.has_overflow:
        _add_true_overflow(m, data)


def _add_true_overflow(m: pyo.ConcreteModel, data: ScaledInstance) -> None:
    users: dict[int, list[int]] = {g: [] for g in m.G}
    for g, v in data.uses:
        users[g].append(v)

    @m.Constraint(m.G, doc="superblock 2 holds no more than what its nodes use")
    def unused(m: pyo.ConcreteModel, g: int) -> NumericExpression:
        return m.z[g, 2] <= sum(m.x[v, 2] for v in users[g])

    need, spare = max(data.need_time), data.spare_time
    largest_overflow = sum(data.held_time) + sum(data.shared_time) + need - spare
    m.peak[2].setub(need)
    m.over = pyo.Var(domain=pyo.Binary, doc="o: superblock 2 holds more than its memory")
    room = max(0.0, spare)
    m.no_more = pyo.Constraint(
        expr=m.overflow[2] <= m.loaded[2] - spare + room * (1 - m.over) + ROUNDING, doc="what is over"
    )
    m.none = pyo.Constraint(expr=m.overflow[2] <= largest_overflow * m.over + ROUNDING, doc="nothing where all fits")
