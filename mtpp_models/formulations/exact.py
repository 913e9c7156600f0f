r"""The exact model of max-throughput partitioning (MTPP, Section 4.1, Figure 3).

.. math::

    \min\; & \mathrm{bottleneck}                                            & (5) \\
    & \mathrm{bottleneck} \ge \mathrm{block}_b                & \forall b       (6)

subject to (7) to (12) of `mtpp_models.formulations.constraints`. Theorem 4.1: O(nk) variables, O(mk) constraints,
O((n + m)k) nonzeros. More blocks than nodes never help, so k is at most n here unless constraints tell blocks apart.

The same page, with blocks of other sizes than 1, is the model of `mtpp_models.formulations.superblocks`; over kinds of
devices there are none.

**Rows for transfers at a rate for each pair of kinds of devices.**

With x and o of the model over kinds below, :math:`\kappa_{vt} = 1`: node v is on a device of kind t, and
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

**The model over kinds of devices.**

With y, x and c of `mtpp_models.formulations.constraints`, and :math:`o_{bt} = 1`: block b is on a device of kind t,

.. math::

    \min\; & \mathrm{bottleneck}                                                                          \\
    & \sum_t o_{bt} \le 1, \quad \sum_b o_{bt} \le N_t, \quad x_{vb} \le \sum_{t \text{ runs } v} o_{bt}
                                                                & \forall b, t, v                         \\
    & \mathrm{block}_{bt} = \sum_v w_t(v)\, x_{vb} + \sum_e \tfrac{\mathrm{bytes}(e)}{\beta_t}\, c_{eb}   \\
    & \mathrm{bottleneck} \ge \mathrm{block}_{bt} - \sum_{s \ne t} U_{ts}\, o_{bs}      & \forall b, t    \\
    & \mathrm{bottleneck} \ge \mathrm{block}_{bt} + \tfrac{1}{\beta_t} (\mathrm{load}_b - M_t)
      - U_t\, (1 - o_{bt})                                                              & \forall b, t

subject to (8) to (12). :math:`U_t` is the work of all nodes, every tensor once and what all of that holds beyond
:math:`M_t`: a block moves no tensor twice. The cost of all nodes in one block would be too little, as it moves nothing.
:math:`U_{ts}` is in `ScaledKinds.exceeding`. Where the memory is a hard limit,
:math:`\mathrm{load}_b \le \sum_t M_t\, o_{bt}` stands for the last rows. Blocks without a device are empty, and come
last; in a fixed order block b is on device b or empty, and where nodes have windows any may be empty. At rates for
pairs of kinds the transfers of a block are those of the rows above, whatever t.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instances.graph.tensors import FloatArray
from mtpp_models.cuts.conflicts import BlockWindows, allowed_windows
from mtpp_models.formulations.constraints import (
    FITS,
    add_assignment,
    add_crossings,
    add_dag,
    add_least,
    add_load,
    add_overflow,
    add_tensor_cuts,
)
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


# The model over kinds of devices.


def add_pair_transfers(m: pyo.ConcreteModel, data: ScaledKinds, times: FloatArray) -> None:
    """Add ``m.transfers[b]``, the time of all that block b receives and sends.

    Parameters
    ----------
    m : pyomo.environ.ConcreteModel
        With x, c, E, and ``on`` over ``places``.
    times : (e, T, T) floats
        Transfer time of each of `data.tensors` from kind to kind [unit of `data`].
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
        durations = times[row[tensor]]
        passing = sum(durations[s, t] * m.pair[u, v, s, t] for s in m.K for t in m.K)
        return m.moved[tensor, b] >= passing - durations.max() * (1 - sign * (m.x[u, b] - m.x[v, b]))

    @m.Constraint(m.T, m.B, doc="at the fastest rate at least")
    def takes_least(m: pyo.ConcreteModel, tensor: int, b: int) -> NumericExpression:
        return m.moved[tensor, b] >= times[row[tensor]].min() * m.c[tensor, b]

    @m.Expression(m.B, doc="time of all that block b receives and sends")
    def transfers(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        return sum(m.moved[tensor, b] for tensor in m.T)


def exact_of_kinds(data: ScaledKinds) -> pyo.ConcreteModel:
    """Build the exact model; the objective is the bottleneck in units of `data`."""
    devices, m = data.instance.machines, pyo.ConcreteModel("exact, kinds of devices")
    windows = allowed_windows(data.instance, (1,) * data.k) if data.instance.has_windows else None
    add_assignment(m, data, data.k, windows)  # (11), (12)
    add_dag(m, data)  # (8)
    add_crossings(m, data, m.B, stronger=True)  # (9'), (10')
    m.K = pyo.RangeSet(0, len(devices.kinds) - 1, doc="kinds t of devices")
    places = [(b, t) for b in m.B for t in m.K if not devices.is_fixed or devices.sequence[b - 1] == t]
    m.places = pyo.Set(initialize=places, dimen=2, doc="(b, t): block b may be on kind t")
    m.on = pyo.Var(m.places, domain=pyo.Binary, doc="o: block b is on a device of kind t")
    m.bottleneck = pyo.Var(domain=pyo.NonNegativeReals, doc="cost of the slowest block")

    @m.Expression(m.B, doc="1 where block b is on some device")
    def busy(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        return sum(m.on[b, t] for t in m.K if (b, t) in m.places)

    @m.Constraint(m.V, m.B, doc="nodes lie in blocks that are on a device that can run them")
    def holder(m: pyo.ConcreteModel, v: int, b: int) -> NumericExpression:
        return m.x[v, b] <= sum(m.on[b, t] for t in m.K if (b, t) in m.places and data.instance.able[t, v])

    if data.pair_times is not None:
        add_pair_transfers(m, data, data.pair_times)

    @m.Expression(m.places, doc="cost of block b on kind t, its memory apart")
    def block(m: pyo.ConcreteModel, b: int, t: int) -> NumericExpression:
        work = sum(data.works[t, v] * m.x[v, b] for v in m.V)
        if data.pair_times is not None:
            return work + m.transfers[b]
        return work + sum(data.cut_times[t, e] * m.c[tensor, b] for e, tensor in enumerate(data.tensors))

    exceeding = np.array([[data.exceeding(t, s) for s in m.K] for t in m.K])

    @m.Constraint(m.places, doc="the bottleneck is the slowest block")
    def slowest(m: pyo.ConcreteModel, b: int, t: int) -> NumericExpression:
        others = sum(exceeding[t, s] * m.on[b, s] for s in m.K if s != t and (b, s) in m.places)
        return m.bottleneck >= m.block[b, t] - others

    if not devices.is_fixed:
        _add_counts(m, devices.counts, places_count=data.instance.has_windows)
    if data.instance.platform.fit:
        _add_limits(m, data)
    elif any(data.excess_rates):
        _add_excess(m, data)
    m.objective = pyo.Objective(expr=m.bottleneck, doc="(5)")
    return m


def _add_counts(m: pyo.ConcreteModel, counts: Sequence[int], *, places_count: bool) -> None:
    @m.Constraint(m.B, doc="a block is on one device")
    def one_device(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        return m.busy[b] <= 1

    @m.Constraint(m.K, doc="as many devices as there are")
    def enough(m: pyo.ConcreteModel, t: int) -> NumericExpression:
        return sum(m.on[b, t] for b in m.B) <= counts[t]

    if places_count:  # windows say which are empty
        return

    @m.Constraint(m.B_before_last, doc="empty blocks come last")
    def first_ones(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        return m.busy[b + 1] <= m.busy[b]


def _add_limits(m: pyo.ConcreteModel, data: ScaledKinds) -> None:
    add_load(m, data, m.B)

    @m.Constraint(m.B, doc="a block fits into the memory of its device")
    def fits(m: pyo.ConcreteModel, b: int) -> NumericExpression:
        room = sum(min(data.spares[t], data.whole_load) * m.on[b, t] for t in m.K if (b, t) in m.places)
        return m.loaded[b] <= room + FITS


def _add_excess(m: pyo.ConcreteModel, data: ScaledKinds) -> None:
    add_load(m, data, m.B)

    @m.Constraint(m.places, doc="what does not fit is streamed")
    def streams(m: pyo.ConcreteModel, b: int, t: int) -> NumericExpression:
        rate, spare = data.excess_rates[t], data.spares[t]
        if rate == 0:
            return pyo.Constraint.Skip
        whole = data.works[t].sum() + data.most_moved[t] + max(0.0, data.whole_load - spare) * rate
        return m.bottleneck >= m.block[b, t] + rate * (m.loaded[b] - spare) - whole * (1 - m.on[b, t])
