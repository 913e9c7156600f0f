r"""Families of constraints that models share.

**The constraint families that the exact and the three-superblock models share.**

Blocks b = 1, …, k. :math:`y_{vb} = 1`: node v lies in block b or before; :math:`y_{v0} = 0` and
:math:`y_{vk} = 1`. :math:`c_{tb} = 1`: tensor t crosses into or out of block b. The paper's x is an expression, (11),
so that branching is on y. With one tensor per node, t is the paper's u.

.. math::

    \mathrm{block}_b &= \sum_v \mathrm{work}(v)\, x_{vb} + \sum_t \tfrac{\mathrm{bytes}(t)}{B}\, c_{tb}
                        + \mathrm{overflow}_b                                           & (7) \\
    y_{vb} &\le y_{ub}                        & \forall (u, v) \in E, b                   (8) \\
    c_{tb} &\ge x_{vb} + y_{u(b-1)} - 1       & \forall t \text{ from } u \text{ to } v, b \quad (9) \\
    c_{tb} &\ge x_{ub} - y_{vb}               & \forall t \text{ from } u \text{ to } v, b \quad (10) \\
    x_{vb} &= y_{vb} - y_{v(b-1)}             & \forall v, b                             (11) \\
    y_{v(b-1)} &\le y_{vb}                    & \forall v, b                                  \\
    y &\in \{0, 1\}, \quad 0 \le c \le 1      &                                           (12)

With finite memory M and :math:`z_{gb} \ge x_{vb}` for each node v that uses the shared parameter g,

.. math::

    \mathrm{overflow}_b \ge \tfrac1B \Big( \sum_v \mathrm{params}(v)\, x_{vb}
        + \sum_g \mathrm{bytes}(g)\, z_{gb} + \mathrm{peak}_b - M \Big), \quad \mathrm{overflow}_b \ge 0.   (2)

The peak is the fixed buffer, or else :math:`\mathrm{peak}_b \ge \mathrm{need}(v)\, x_{vb}`, what v reads and writes.
Where the memory is a hard limit, overflow is 0.

Side constraints on blocks are rows as well: y is fixed outside windows, and of least numbers there are
:math:`\sum_v \mathrm{counted}(v)\, x_{vb} \ge \mathrm{least}`. Only the exact model and that of superblocks have them;
all others are relaxations of it.

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

import numpy as np

from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from mtpp_models.cuts.conflicts import BlockWindows
from mtpp_models.cuts.cuts import row_blocks
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.solvers.modeling import NumericExpression, pyo

# Clique rows: few strong rows from pairs of nodes that cannot share a block.


class CliqueRow(NamedTuple):
    """Nodes of which (super)block `block` can hold at most `limit`."""

    block: int
    nodes: tuple[int, ...]
    limit: int


def successions(apart: BoolArray, reach: BoolArray, deadline: Deadline) -> IntArray:
    """(c, 2) pairs (u, v), u before v, that cannot share a block, without pairs that others imply.

    If u is before a, a before v, and a and v cannot share a block, neither can u and v; the rows of (a, v) and of the
    edges from u to a are together as strong as that of (u, v). `apart`, (n, n) and symmetric, says which nodes cannot
    share a block; `reach`, (n, n), whether a path, maybe of no edge, leads from the row to the column. Soon after the
    deadline, the pairs so far are returned.
    """
    ordered = apart & reach
    strictly = (reach & ~np.eye(len(reach), dtype=bool)).astype(np.float32)
    pairs = ordered.astype(np.float32)
    immediate = np.zeros_like(ordered)
    for rows in row_blocks(len(reach), deadline):
        immediate[rows] = ordered[rows] & (strictly[rows] @ pairs == 0) & (pairs[rows] @ strictly == 0)
    return np.argwhere(immediate)


def cliques(apart: BoolArray, wanted: BoolArray, deadline: Deadline) -> list[tuple[int, ...]]:
    """Cliques of nodes that pairwise cannot share a block, which cover the wanted pairs, by a greedy search.

    `apart` and `wanted`, (n, n), are symmetric; wanted pairs cannot share a block. Each clique lists two or more nodes,
    sorted. Soon after the deadline, the cliques so far are returned.
    """
    chosen: list[tuple[int, ...]] = []
    uncovered = wanted.copy()
    while uncovered.any() and len(chosen) < len(apart) and not deadline.passed:
        clique = [int(uncovered.sum(axis=1).argmax())]
        gain, fits = uncovered[clique[0]].astype(np.int64), apart[clique[0]].copy()
        degree = apart.sum(axis=1) / len(apart)
        while fits.any():
            v = int(np.where(fits, gain + degree, -1.0).argmax())
            clique.append(v)
            gain += uncovered[v]
            fits &= apart[v]
        uncovered[np.ix_(clique, clique)] = False
        chosen.append(tuple(sorted(clique)))
    return chosen


#: What fits exactly must not be cut off by rounding, as a part of the memory.
FITS = 1e-7


def add_assignment(m: pyo.ConcreteModel, data: ScaledInstance, k: int, windows: BlockWindows | None = None) -> None:
    """Add nodes, blocks, y (12) and x (11); fix the two end columns of y and everything outside the windows."""
    m.V = pyo.RangeSet(0, data.n - 1, doc="nodes v")
    m.B = pyo.RangeSet(1, k, doc="blocks b")
    m.B_or_0 = pyo.RangeSet(0, k, doc="blocks b, and 0 before them")
    m.B_before_last = pyo.Set(initialize=range(1, k), doc="blocks with a block behind them")
    m.B_between = pyo.Set(initialize=range(2, k), doc="blocks with a block before and behind them")
    m.work = pyo.Param(m.V, initialize=dict(enumerate(data.work)), doc="work(v)")
    m.y = pyo.Var(m.V, m.B_or_0, domain=pyo.Binary, doc="(12) v lies in block b or before")
    for v in m.V:
        m.y[v, 0].fix(0)
        m.y[v, k].fix(1)
    if windows is not None:
        for v in m.V:
            for b in range(1, windows.first[v]):
                m.y[v, b].fix(0)
            for b in range(windows.last[v], k):
                m.y[v, b].fix(1)

    @m.Expression(m.V, m.B, doc="(11) v lies in block b")
    def x(m: pyo.ConcreteModel, v: int, b: int) -> NumericExpression:
        return m.y[v, b] - m.y[v, b - 1]

    @m.Constraint(m.V, m.B_between, doc="monotone ordering")
    def monotone(m: pyo.ConcreteModel, v: int, b: int) -> NumericExpression:
        return _unless_fixed(m.y[v, b - 1], m.y[v, b])


def add_dag(m: pyo.ConcreteModel, data: ScaledInstance) -> None:
    """(8): no edge points backwards."""
    m.E = pyo.Set(initialize=data.arcs, dimen=2, doc="edges (u, v)")

    @m.Constraint(m.E, m.B_before_last, doc="(8) no edge points backwards")
    def dag(m: pyo.ConcreteModel, u: int, v: int, b: int) -> NumericExpression:
        return _unless_fixed(m.y[v, b], m.y[u, b])


def add_tensor_cuts(
    m: pyo.ConcreteModel, data: ScaledInstance, blocks: pyo.Set, *, stronger: bool = False
) -> pyo.Expression:
    """Add (9) and (10): a tensor is cut at the blocks it enters or leaves; no rows where it can do neither.

    With `stronger`, which needs (8), these are (9') and (10').

    Returns
    -------
    pyomo.environ.Expression
        Time of the tensors that each of the blocks receives and sends.
    """
    add_crossings(m, data, blocks, stronger=stronger)
    m.cut_time = pyo.Param(m.T, initialize=data.cut_time, doc="bytes(t) / B")

    @m.Expression(blocks, doc="time of the tensors that block b receives and sends")
    def cut(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        return sum(m.cut_time[t] * m.c[t, b] for t in m.T)

    return m.cut


def add_crossings(m: pyo.ConcreteModel, data: ScaledInstance, blocks: pyo.Set, *, stronger: bool = False) -> None:
    """Add the rows of `add_tensor_cuts` alone, without the times of tensors."""
    m.T = pyo.Set(initialize=data.tensors, doc="tensors t that somebody reads")
    m.reads = pyo.Set(initialize=data.reads, dimen=3, doc="(t, u, v): v reads tensor t of u")
    m.B_entered = pyo.Set(initialize=[b for b in blocks if b > m.B.first()], doc="blocks that tensors can enter")
    m.B_left = pyo.Set(initialize=[b for b in blocks if b < m.B.last()], doc="blocks that tensors can leave")
    m.c = pyo.Var(m.T, blocks, bounds=(0, 1), doc="(12) tensor t crosses into or out of block b")

    @m.Constraint(m.reads, m.B_entered, doc="(9) the tensor of u enters block b")
    def enters(m: pyo.ConcreteModel, t: int, u: int, v: int, b: int) -> NumericExpression:
        if not _can_hold(m, v, b):
            return pyo.Constraint.Skip
        return m.c[t, b] >= m.x[v, b] - (m.x[u, b] if stronger else 1 - m.y[u, b - 1])

    @m.Constraint(m.reads, m.B_left, doc="(10) the tensor of u leaves block b")
    def leaves(m: pyo.ConcreteModel, t: int, u: int, v: int, b: int) -> NumericExpression:
        if not _can_hold(m, u, b):
            return pyo.Constraint.Skip
        return m.c[t, b] >= m.x[u, b] - (m.x[v, b] if stronger else m.y[v, b])


def add_conflicts(
    m: pyo.ConcreteModel, successions: Sequence[tuple[int, int, int]], cliques: Sequence[CliqueRow]
) -> None:
    """Add rows for nodes that cannot share a block: triples (u, v, b) of u before v and block b, and cliques."""
    m.S = pyo.Set(initialize=successions, dimen=3, doc="(u, v, b): u lies before v, and not both in block b")
    m.Q = pyo.Set(initialize=range(len(cliques)), doc="cliques")

    @m.Constraint(m.S, doc="v lies behind the block of u")
    def behind(m: pyo.ConcreteModel, u: int, v: int, b: int) -> NumericExpression:
        return _unless_fixed(m.y[v, b], m.y[u, b - 1])

    @m.Constraint(m.Q, doc="a block holds few of a clique")
    def clique(m: pyo.ConcreteModel, i: int) -> NumericExpression:
        return sum(m.x[v, cliques[i].block] for v in cliques[i].nodes) <= cliques[i].limit


def add_least(m: pyo.ConcreteModel, data: ScaledInstance, sizes: Sequence[int]) -> None:
    """Add the rows of the `at_least` rules: each block holds at least the required number of nodes of a rule's set.

    A superblock of s blocks holds s times as many; `sizes` gives s for each.
    """
    rules = data.instance.rules
    rows = [i for i, least in enumerate(rules.least) if least > 0]
    m.L = pyo.Set(initialize=rows, doc="least numbers")

    @m.Constraint(m.L, m.B, doc="a block holds enough of some nodes")
    def enough(m: pyo.ConcreteModel, i: int, b: int) -> NumericExpression:
        count, least = rules.counted[i].tolist(), int(rules.least[i]) * sizes[b - 1]
        nodes = [v for v in m.V if count[v] and _can_hold(m, v, b)]
        if all(m.y[v, b].fixed and m.y[v, b - 1].fixed for v in nodes):  # no row without variables
            return pyo.Constraint.Skip if sum(count[v] for v in nodes) >= least else m.bottleneck <= -1.0
        return sum(count[v] * m.x[v, b] for v in nodes) >= least


def add_overflow(
    m: pyo.ConcreteModel, data: ScaledInstance, blocks: pyo.Set, sizes: Sequence[int] | None = None
) -> pyo.Var | dict[int, float]:
    """Add (2), the time to stream the bytes that do not fit; nothing is added where the memory is infinite.

    A superblock of several blocks has the memory of all of them, less one activation buffer each. Of the needs of its
    nodes, the largest counts once.

    Returns
    -------
    pyomo.environ.Var or dict
        Streaming time of each block; 0 where the memory is infinite or a hard limit.
    """
    fit = data.instance.platform.fit
    if not (data.has_overflow or fit):
        return dict.fromkeys(blocks, 0.0)
    add_load(m, data, blocks)
    spare = {
        b: data.spare_time if size == 1 else size * max(0.0, data.spare_time)
        for b, size in zip(blocks, sizes or [1] * len(blocks), strict=True)
    }
    m.spare_time = pyo.Param(blocks, initialize=spare, doc="(M - buffer) / B")
    m.overflow = pyo.Var(blocks, domain=pyo.NonNegativeReals, doc="(2) overflow of block b")

    @m.Constraint(blocks, doc="(2) linear overflow")
    def streams(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        return m.overflow[b] >= m.loaded[b] - m.spare_time[b]

    if fit:
        for b in blocks:
            m.overflow[b].setub(FITS)
        return dict.fromkeys(blocks, 0.0)
    return m.overflow


def add_load(m: pyo.ConcreteModel, data: ScaledInstance, blocks: pyo.Set) -> None:
    """Add ``m.loaded[b]``, a lower bound on the bytes that block b holds: parameters, states and peak activations.

    Bytes are divided by the bandwidth, in units of time; where memory is a hard limit, by the memory.
    """
    m.G = pyo.Set(initialize=range(len(data.shared_time)), doc="shared parameters g")
    m.uses = pyo.Set(initialize=data.uses, dimen=2, doc="(g, v): node v uses g")
    m.held_time = pyo.Param(m.V, initialize=dict(enumerate(data.held_time)), doc="held(v) / B")
    m.shared_time = pyo.Param(m.G, initialize=dict(enumerate(data.shared_time)), doc="bytes(g) / B")
    m.z = pyo.Var(m.G, blocks, bounds=(0, 1), doc="block b holds g")
    m.V_needing = pyo.Set(initialize=[v for v, need in enumerate(data.need_time) if need > 0], doc="nodes with a need")
    m.peak = pyo.Var(blocks, domain=pyo.NonNegativeReals, doc="least peak of block b, over B")

    @m.Constraint(m.uses, blocks, doc="a block holds what its nodes use")
    def holds(m: pyo.ConcreteModel, g: int, v: int, b: int) -> NumericExpression:
        return m.z[g, b] >= m.x[v, b]

    @m.Constraint(m.V_needing, blocks, doc="the peak is at least what a node reads and writes")
    def needs(m: pyo.ConcreteModel, v: int, b: int) -> NumericExpression:
        return m.peak[b] >= data.need_time[v] * m.x[v, b]

    @m.Expression(blocks, doc="held by block b, and its least peak")
    def loaded(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        resident = sum(m.held_time[v] * m.x[v, b] for v in m.V) + sum(m.shared_time[g] * m.z[g, b] for g in m.G)
        return resident + (m.peak[b] if len(m.V_needing) else 0.0)


def _can_hold(m: pyo.ConcreteModel, v: int, b: int) -> bool:
    """Whether windows allow node v in block b."""
    earlier, now = m.y[v, b - 1], m.y[v, b]
    return not (now.fixed and now.value == 0) and not (earlier.fixed and earlier.value == 1)


def _unless_fixed(lower: pyo.Var, upper: pyo.Var) -> NumericExpression:
    """The row lower ≤ upper; `Skip` if both are constants, as some solvers refuse rows without variables."""
    return pyo.Constraint.Skip if lower.fixed and upper.fixed else lower <= upper
