r"""Rows for transfers at a rate for each pair of kinds of devices.

With x and o of `mtpp_models.formulations.kinds`, :math:`\kappa_{vt} = 1`: node v is on a device of kind t, and
:math:`\pi_{uvst} = 1`: node u is on kind s and its reader v on kind t. Tensor e takes :math:`\tau_{est}` from kind s to
kind t:

.. math::

    & \kappa_{vt} \ge x_{vb} + o_{bt} - 1, \quad \sum_t \kappa_{vt} = 1                     & \forall v, b, t    \\
    & \sum_t \pi_{uvst} = \kappa_{us}, \quad \sum_s \pi_{uvst} = \kappa_{vt}                & \forall (u, v), s, t \\
    & \mathrm{moved}_{eb} \ge \sum_{st} \tau_{est}\, \pi_{uvst}
        - \max_{st} \tau_{est}\, (1 - |x_{ub} - x_{vb}|)         & \forall e \text{ from } u \text{ to } v, b     \\
    & \mathrm{moved}_{eb} \ge \min_{st} \tau_{est}\, c_{eb}                                & \forall e, b

A block that holds one of u and v receives the tensor, or sends it, once: the slowest of its readers counts. If neither
or both are there the third row is void. :math:`|\cdot|` is two rows, as for a minimum the larger of both counts.
"""

from __future__ import annotations

import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression

from instances.graph.tensors import FloatArray
from mtpp_models.formulations.scaled_kinds import ScaledKinds

__all__ = ["add_pair_transfers"]


def add_pair_transfers(m: pyo.ConcreteModel, data: ScaledKinds, times: FloatArray) -> None:
    """Add ``m.transfers[b]``, the time of all that block b receives and sends.

    Parameters
    ----------
    m : pyomo.environ.ConcreteModel
        With x, c, E, and ``on`` over ``places``.
    times : (e, T, T) floats
        Of each of `data.tensors` from kind to kind, in units.
    """
    row = {tensor: e for e, tensor in enumerate(data.tensors)}
    m.kind = pyo.Var(m.V, m.K, bounds=(0, 1), doc="kappa: node v is on a device of kind t")
    m.pair = pyo.Var(m.E, m.K, m.K, bounds=(0, 1), doc="pi: node u is on kind s, and node v on kind t")
    m.moved = pyo.Var(m.T, m.B, domain=pyo.NonNegativeReals, doc="time of tensor e in block b")

    @m.Constraint(m.V, m.places, doc="a node is on the device of its block")
    def kind_of_block(m: pyo.ConcreteModel, v: int, b: int, t: int) -> NumericExpression:
        return m.kind[v, t] >= m.x[v, b] + m.on[b, t] - 1

    @m.Constraint(m.V, doc="a node is on one kind")
    def one_kind(m: pyo.ConcreteModel, v: int) -> NumericExpression:
        return sum(m.kind[v, t] for t in m.K) == 1

    @m.Constraint(m.E, m.K, doc="kind of the node that sends")
    def sender(m: pyo.ConcreteModel, u: int, v: int, s: int) -> NumericExpression:
        return sum(m.pair[u, v, s, t] for t in m.K) == m.kind[u, s]

    @m.Constraint(m.E, m.K, doc="kind of the node that receives")
    def receiver(m: pyo.ConcreteModel, u: int, v: int, t: int) -> NumericExpression:
        return sum(m.pair[u, v, s, t] for s in m.K) == m.kind[v, t]

    @m.Constraint(m.reads, m.B, [-1, 1], doc="what block b sends or receives takes its time")
    def takes(m: pyo.ConcreteModel, tensor: int, u: int, v: int, b: int, sign: int) -> NumericExpression:
        own = times[row[tensor]]
        passing = sum(own[s, t] * m.pair[u, v, s, t] for s in m.K for t in m.K)
        return m.moved[tensor, b] >= passing - own.max() * (1 - sign * (m.x[u, b] - m.x[v, b]))

    @m.Constraint(m.T, m.B, doc="at the fastest rate at least")
    def takes_least(m: pyo.ConcreteModel, tensor: int, b: int) -> NumericExpression:
        return m.moved[tensor, b] >= times[row[tensor]].min() * m.c[tensor, b]

    @m.Expression(m.B, doc="time of all that block b receives and sends")
    def transfers(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        return sum(m.moved[tensor, b] for tensor in m.T)
