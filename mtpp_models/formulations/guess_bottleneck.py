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

(9) and (10) bound c from below alone, so that "=" is met by any bottleneck from :math:`\mathrm{block}_2` up to the cost
with every tensor cut: a light superblock 2 may pay for what does not cross. The *tight* variant adds rows by which
superblock 2 pays exactly f, and

.. math:: \mathrm{bottleneck} \ge L. & (13)

It is a bound for every partition :math:`P_1, \ldots, P_k`, whatever set function f these rows describe, as long as f is
never above the cost of a block and f without overflow never grows by merging. Let r be the block of largest
:math:`f(P_r)`, with finite memory not always the slowest. With y as r says, :math:`\mathrm{bottleneck} = f(P_r)` meets
"=", the blocks before r cost at most :math:`(r - 1) f(P_r)` together and their superblock no more, and so behind r. As
f is at least the work, :math:`f(P_r) \ge L`. The objective is :math:`f(P_r)`, and f is never above the true cost. So
capped tensors, an overflow that is left out and needs in place of peaks keep the bound valid; rows that hold only
for f are enough. Nothing else may be combined with it: (14) speaks of another block, and cuts, windows, conflicts and
joins below a known bottleneck speak of partitions in which each block costs less than that.

**Rows that bound the cost of a superblock from above, by the value of (7) for its nodes.**

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

from functools import partial

import numpy as np

from instances import Partition
from instances.graph.tensors import IntArray
from mtpp_models.formulations.constraints import add_assignment, add_dag, add_overflow, add_tensor_cuts
from mtpp_models.formulations.formulation import Case, Formulation, block_ranks
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.simple import work_bound
from mtpp_models.solvers.modeling import NumericExpression, pyo

#: In units: by how much a row may be loosened so that rounding cuts off no partition.
_ROUNDING = 1e-7


def _add_true_cost(m: pyo.ConcreteModel, data: ScaledInstance) -> None:
    """Rows that bound crossings and overflow of the middle superblock from above, so that these are exact."""
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
        expr=m.overflow[2] <= m.loaded[2] - spare + room * (1 - m.over) + _ROUNDING, doc="what is over"
    )
    m.none = pyo.Constraint(expr=m.overflow[2] <= largest_overflow * m.over + _ROUNDING, doc="nothing where all fits")


def guess_the_bottleneck(data: ScaledInstance, r: int, *, tight: bool = False) -> pyo.ConcreteModel:
    """Build the model in which block r, counted from 1, is the slowest.

    Parameters
    ----------
    data : ScaledInstance
        The instance in multiples of its unit.
    r : int
        The slowest block, from 1 to k.
    tight : bool
        Whether superblock 2 pays no more than its cost, and the bottleneck is at least L of (13).
    """
    k = data.k
    m = pyo.ConcreteModel(f"guess-the-bottleneck{'-tight' if tight else ''}, r = {r}")
    add_assignment(m, data, k=3)
    add_dag(m, data)
    cut = add_tensor_cuts(m, data, m.B, stronger=tight)
    m.middle = pyo.Set(initialize=[2], doc="the superblock whose overflow counts")
    overflow = add_overflow(m, data, m.middle)

    @m.Expression(m.B, doc="(7) cost of superblock b")
    def block(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        work = sum(m.work[v] * m.x[v, b] for v in m.V)
        return work + cut[b] + (overflow[b] if b in m.middle else 0.0)

    m.bottleneck = pyo.Var(domain=pyo.NonNegativeReals)
    m.objective = pyo.Objective(expr=m.bottleneck)
    m.slowest = pyo.Constraint(expr=m.bottleneck == m.block[2], doc="block r is the slowest")
    # Where the bottleneck cannot give way, rounding must not cut off blocks that all cost the same.
    upper = m.bottleneck + (_ROUNDING if tight else 0.0)
    if tight:
        _add_true_cost(m, data)
        m.average = pyo.Constraint(expr=upper >= work_bound(data.instance) / data.unit, doc="(13)")
    if r > 1:
        m.before = pyo.Constraint(expr=(r - 1) * upper >= m.block[1], doc="r - 1 blocks before it")
    if r < k:
        m.behind = pyo.Constraint(expr=(k - r) * upper >= m.block[3], doc="k - r blocks behind it")
    for v in m.V:
        if r == 1:
            m.y[v, 1].fix(0)
        if r == k:
            m.y[v, 2].fix(1)
    return m


def _around(partition: Partition, middle: int) -> IntArray:
    """(n,) superblock 1, 2 or 3 of each node if the non-empty block with number `middle`, from 1, is superblock 2."""
    return 2 + np.sign(block_ranks(partition) - middle)


def _formulation(name: str, summary: str, reference: str, *, tight: bool = False) -> Formulation:
    def case(data: ScaledInstance, r: int) -> Case:
        build, superblock = partial(guess_the_bottleneck, data, r, tight=tight), partial(_around, middle=r)
        return Case(f"r = {r}", build, superblock, blocks=3)

    def cases(data: ScaledInstance) -> tuple[Case, ...]:
        return tuple(case(data, r) for r in range(1, data.k + 1))

    rows = "n + 6 m + 2 t + 4" if tight else "n + 6 m + 3"
    return Formulation(name, summary, reference, cases, variables="2 n + 3 t + 1", rows=rows)


GUESS_THE_BOTTLENECK = _formulation(
    "guess-the-bottleneck", "one three-superblock model for each position of the slowest block", "MTPP, Section 4.3"
)
GUESS_THE_BOTTLENECK_TIGHT = _formulation(
    "guess-the-bottleneck-tight",
    "guess-the-bottleneck, where the slowest block pays no more than its cost",
    "this project, mtpp_models/formulations/guess_bottleneck.py",
    tight=True,
)
