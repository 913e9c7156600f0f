r"""The constraint families that the exact and the three-superblock models share.

Blocks b = 1, …, k. :math:`y_{vb} = 1`: node v lies in block b or before; :math:`y_{v0} = 0` and
:math:`y_{vk} = 1`. :math:`c_{tb} = 1`: tensor t crosses into or out of block b. The paper's
:math:`x_{vb} = y_{vb} - y_{v(b-1)}` (11) is substituted away, so branching is on y. With one tensor per
node, t is the paper's u.

.. math::

    \mathrm{block}_b &= \sum_v \mathrm{work}(v)\, x_{vb} + \sum_t \tfrac{\mathrm{bytes}(t)}{B}\, c_{tb}
                        + \mathrm{overflow}_b                                           & (7) \\
    y_{vb} &\le y_{ub}                        & \forall (u, v) \in E, b                   (8) \\
    c_{tb} &\ge x_{vb} + y_{u(b-1)} - 1       & \forall t \text{ from } u \text{ to } v, b \quad (9) \\
    c_{tb} &\ge x_{ub} - y_{vb}               & \forall t \text{ from } u \text{ to } v, b \quad (10) \\
    y_{v(b-1)} &\le y_{vb}                    & \forall v, b                                  \\
    y &\in \{0, 1\}, \quad 0 \le c \le 1      &                                           (12)

With finite memory M and :math:`z_{gb} \ge x_{vb}` for each node v that uses the shared parameter g,

.. math::

    \mathrm{overflow}_b \ge \tfrac1B \Big( \sum_v \mathrm{params}(v)\, x_{vb}
        + \sum_g \mathrm{bytes}(g)\, z_{gb} + \mathrm{buffer} - M \Big), \quad \mathrm{overflow}_b \ge 0.   (2)

Stronger rows. With (8) no reader of a tensor lies before its producer, so if a block holds one of u and v, the tensor
enters or leaves:

.. math::

    c_{tb} &\ge x_{vb} - x_{ub}               & \forall t \text{ from } u \text{ to } v, b \quad (9') \\
    c_{tb} &\ge x_{ub} - x_{vb}               & \forall t \text{ from } u \text{ to } v, b \quad (10')

dominate (9) and (10), since :math:`x_{ub} \le 1 - y_{u(b-1)}` and :math:`x_{vb} \le y_{vb}`. If block b cannot hold
both u and v, and u lies before v,

.. math:: y_{vb} \le y_{u(b-1)},

and a set Q of which it can hold only s nodes gives :math:`\sum_{v \in Q} x_{vb} \le s`.

Reference: MTPP, Section 4.1 and Figure 3; the stronger rows are this project's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression

from mtpp_models.cuts.windows import BlockWindows
from mtpp_models.formulations.formulation import ScaledInstance

__all__ = [
    "Crowd",
    "add_assignment",
    "add_block_costs",
    "add_conflicts",
    "add_dag",
    "add_overflow",
    "add_tensor_cuts",
    "x",
]


class Crowd(NamedTuple):
    """Nodes of which (super)block `block` can hold at most `limit`."""

    block: int
    nodes: tuple[int, ...]
    limit: int


def x(m: pyo.ConcreteModel, v: int, b: int) -> NumericExpression:
    """(11): whether node v lies in block b."""
    return m.y[v, b] - m.y[v, b - 1]


def add_assignment(m: pyo.ConcreteModel, data: ScaledInstance, k: int, windows: BlockWindows | None = None) -> None:
    """Sets, the variables y with their two fixed columns, and their order in b; y outside windows is fixed."""
    m.V = pyo.RangeSet(0, data.n - 1, doc="nodes v")
    m.B = pyo.RangeSet(1, k, doc="blocks b")
    m.inner = pyo.Set(initialize=range(1, k), doc="blocks with a block behind them")
    m.y = pyo.Var(m.V, pyo.RangeSet(0, k), domain=pyo.Binary, doc="(12) v lies in block b or before")
    for v in m.V:
        m.y[v, 0].fix(0)
        m.y[v, k].fix(1)
    if windows is not None:
        for v in m.V:
            for b in range(1, windows.first[v]):
                m.y[v, b].fix(0)
            for b in range(windows.last[v], k):
                m.y[v, b].fix(1)

    @m.Constraint(m.V, range(2, k), doc="monotone ordering")
    def monotone(m: pyo.ConcreteModel, v: int, b: int) -> NumericExpression:
        return _unless_fixed(m.y[v, b - 1], m.y[v, b])


def add_dag(m: pyo.ConcreteModel, data: ScaledInstance) -> None:
    """(8): no edge points backwards."""
    m.E = pyo.Set(initialize=data.arcs, dimen=2, doc="edges (u, v)")

    @m.Constraint(m.E, m.inner, doc="(8) no edge points backwards")
    def dag(m: pyo.ConcreteModel, u: int, v: int, b: int) -> NumericExpression:
        return _unless_fixed(m.y[v, b], m.y[u, b])


def add_tensor_cuts(
    m: pyo.ConcreteModel, data: ScaledInstance, blocks: Sequence[int], *, stronger: bool = False
) -> None:
    """(9), (10): a tensor is cut at the blocks it enters or leaves; void at the ends, where nothing can.

    With `stronger`, which needs (8), these are (9') and (10').
    """
    m.T = pyo.Set(initialize=data.tensors, doc="tensors t that somebody reads")
    m.R = pyo.Set(initialize=data.reads, dimen=3, doc="reads (t, u, v): v reads tensor t of u")
    m.c = pyo.Var(m.T, blocks, bounds=(0, 1), doc="(12) tensor t crosses into or out of block b")

    @m.Constraint(m.R, [b for b in blocks if b > m.B.first()], doc="(9) the tensor of u enters block b")
    def enters(m: pyo.ConcreteModel, t: int, u: int, v: int, b: int) -> NumericExpression:
        if not _can_hold(m, v, b):
            return pyo.Constraint.Skip
        return m.c[t, b] >= x(m, v, b) - (x(m, u, b) if stronger else 1 - m.y[u, b - 1])

    @m.Constraint(m.R, [b for b in blocks if b < m.B.last()], doc="(10) the tensor of u leaves block b")
    def leaves(m: pyo.ConcreteModel, t: int, u: int, v: int, b: int) -> NumericExpression:
        if not _can_hold(m, u, b):
            return pyo.Constraint.Skip
        return m.c[t, b] >= x(m, u, b) - (x(m, v, b) if stronger else m.y[v, b])


def add_conflicts(m: pyo.ConcreteModel, successions: Sequence[tuple[int, int, int]], crowds: Sequence[Crowd]) -> None:
    """Nodes that blocks cannot hold together: triples (u, v, b) with u before v, and crowds."""
    m.S = pyo.Set(initialize=successions, dimen=3, doc="(u, v, b): u lies before v, and not both in block b")

    @m.Constraint(m.S, doc="v lies behind the block of u")
    def behind(m: pyo.ConcreteModel, u: int, v: int, b: int) -> NumericExpression:
        return _unless_fixed(m.y[v, b], m.y[u, b - 1])

    @m.Constraint(range(len(crowds)), doc="a block holds few of a crowd")
    def crowd(m: pyo.ConcreteModel, i: int) -> NumericExpression:
        return sum(x(m, v, crowds[i].block) for v in crowds[i].nodes) <= crowds[i].limit


def add_overflow(
    m: pyo.ConcreteModel, data: ScaledInstance, blocks: Sequence[int], sizes: Sequence[int] | None = None
) -> None:
    """(2): the time to stream what does not fit; nothing is added where the memory is infinite.

    A superblock of several blocks has the memory of all of them, less their buffers as far as they fit.
    """
    if not data.has_overflow:
        return
    m.G = pyo.Set(initialize=range(len(data.shared_time)), doc="shared parameters g")
    m.U = pyo.Set(initialize=data.uses, dimen=2, doc="uses (g, v): node v uses g")
    m.z = pyo.Var(m.G, blocks, bounds=(0, 1), doc="block b holds g")
    spare = {
        b: data.spare_time if size == 1 else size * max(0.0, data.spare_time)
        for b, size in zip(blocks, sizes or [1] * len(blocks), strict=True)
    }
    m.overflow = pyo.Var(blocks, domain=pyo.NonNegativeReals, doc="(2) overflow of block b")

    @m.Constraint(m.U, blocks, doc="a block holds what its nodes use")
    def holds(m: pyo.ConcreteModel, g: int, v: int, b: int) -> NumericExpression:
        return m.z[g, b] >= x(m, v, b)

    @m.Constraint(blocks, doc="(2) linear overflow")
    def streams(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        held = sum(data.param_time[v] * x(m, v, b) for v in m.V)
        return m.overflow[b] >= held + sum(data.shared_time[g] * m.z[g, b] for g in m.G) - spare[b]


def add_block_costs(m: pyo.ConcreteModel, data: ScaledInstance, blocks: Sequence[int]) -> None:
    """(7): work, cut tensors and overflow of each block, the last two as far as the model has them."""

    @m.Expression(blocks, doc="(7) cost of block b")
    def block(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        cost = sum(data.work[v] * x(m, v, b) for v in m.V)
        if m.component("c") is not None:
            cost += sum(data.cut_time[t] * m.c[t, b] for t in m.T)
        if m.component("overflow") is not None and b in m.overflow:
            cost += m.overflow[b]
        return cost


def _can_hold(m: pyo.ConcreteModel, v: int, b: int) -> bool:
    """Whether no window keeps node v from block b."""
    earlier, here = m.y[v, b - 1], m.y[v, b]
    return not (here.fixed and here.value == 0) and not (earlier.fixed and earlier.value == 1)


def _unless_fixed(lower: pyo.Var, upper: pyo.Var) -> NumericExpression:
    """A row lower ≤ upper, unless both are fixed; not all solvers accept a row without variables."""
    return pyo.Constraint.Skip if lower.fixed and upper.fixed else lower <= upper
