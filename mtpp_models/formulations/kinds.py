r"""The exact model and its relaxations over kinds of devices.

**Rows for transfers at a rate for each pair of kinds of devices.**

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

**The exact model over kinds of devices, and the block with its share of all speeds.**

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
pairs of kinds the transfers of a block are those of `mtpp_models.formulations.kinds`, whatever t.

The relaxation, one case a kind: for any weights :math:`\lambda` of `mtpp_models.simple` and
:math:`a(v) = \min_t \lambda_t w_t(v)` some block on some kind t has :math:`a(S) \ge \lambda_t\, a(V)`, since over all
devices both sides sum up to a(V) at most and at least. The cheapest block of that kind with so much is a bound, as in
`mtpp_models.formulations.three_superblock`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression

from instances import InputError
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.memory import room
from instances.partitioning.partition import IDLE, Partition
from instances.partitioning.problem import Instance
from mtpp_models.cuts.conflicts import allowed_windows
from mtpp_models.formulations.constraints import FITS, add_assignment, add_crossings, add_dag, add_load
from mtpp_models.formulations.formulation import Case, CaseResult, Formulation, PreparedModel, block_ranks
from mtpp_models.formulations.scaled_instance import OUT_OF_REACH, ScaledInstance
from mtpp_models.formulations.three_superblock import bottleneck
from mtpp_models.simple import one_block_of_kinds, simple_of_kinds, speed_shares
from mtpp_models.solvers.interface import SolverFaultError
from mtpp_models.solvers.registry import Solver

# Coefficients of the models over kinds of devices, in a unit that suits solvers.


# By how much a known bottleneck is widened, so that rounding loses no answer that is better.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class ScaledKinds(ScaledInstance):
    """The coefficients of a question over kinds of devices; what depends on the kind has a row for each."""

    instance: Instance
    most: float = math.inf  # in units: an answer of that cost is known

    @classmethod
    def of(cls, instance: Instance, start: Partition | None) -> ScaledKinds:
        """Scale by the bottleneck of `start`, else by a time that is near the optimum."""
        if start is not None and start.bottleneck > 0:
            return cls(instance, start.bottleneck, 1.0 + _ROUNDING)
        least = one_block_of_kinds(instance).bottleneck / instance.k
        return cls(instance, max(simple_of_kinds(instance), least) or 1.0)

    @property
    def is_free(self) -> bool:
        """Whether all nodes in one block are an answer."""
        return super().is_free and bool(self.instance.able.all())

    @property
    def k(self) -> int:
        """Number of blocks; at most n unless each is on a device of its own, or windows tell them apart."""
        told_apart = self.instance.machines.is_fixed or self.instance.has_windows
        return self.instance.k if told_apart else min(self.instance.k, self.n)

    @cached_property
    def of_kinds(self) -> list[ScaledInstance]:
        """The question of each kind alone, in the same unit."""
        return [ScaledInstance(self.instance.of_kind(t), self.unit) for t in range(self.instance.kinds)]

    @cached_property
    def works(self) -> FloatArray:
        """(T, n) work of each node, 0 where it cannot run; as tensors, what no answer within reach pays is capped."""
        own = np.minimum([alone.work for alone in self.of_kinds], self._cap)
        return np.where(self.instance.able, own, 0.0)

    @cached_property
    def cut_times(self) -> FloatArray:
        """(T, e) bytes / B of each of `tensors`."""
        times = [[alone.cut_time[t] for t in self.tensors] for alone in self.of_kinds]
        return np.minimum(np.reshape(times, (len(times), len(self.tensors))), self._cap)

    @cached_property
    def pair_times(self) -> FloatArray | None:
        """(e, T, T) time of each of `tensors` from a device of one kind to one of another; None without such rates."""
        if self.instance.rates is None:
            return None
        sizes = self.instance.graph.tensors.bytes[self.tensors]
        return np.minimum(sizes[:, None, None] / self.instance.rates / self.unit, self._cap)

    @cached_property
    def most_moved(self) -> FloatArray:
        """(T,) time of all tensors in a block on each kind; a block moves a tensor once."""
        if self.pair_times is None:
            return self.cut_times.sum(axis=1)
        return np.full(self.instance.kinds, self.pair_times.max(axis=(1, 2)).sum())

    @property
    def _cap(self) -> float:
        # k units are no less than the optimum where all nodes in one block are an answer.
        return 2.0 * min(self.most, self.k * (1.0 if self.is_free else OUT_OF_REACH))

    @cached_property
    def excess_rates(self) -> list[float]:
        """Time for each unit of what a block holds beyond `spares`, of each kind; 0 where nothing counts."""
        return [
            self._bytes / rate / self.unit if alone.has_overflow else 0.0
            for rate, alone in zip(self.instance.bandwidths, self.of_kinds, strict=True)
        ]

    @cached_property
    def spares(self) -> list[float]:
        """(M - buffer) of each kind, in the unit of `held_time`; infinite where there is no limit."""
        return [self._byte_time(room(alone.instance)) for alone in self.of_kinds]

    @cached_property
    def whole_load(self) -> float:
        """All that nodes hold, and the largest need."""
        return math.fsum([*self.held_time, *self.shared_time, max(self.need_time)])

    @property
    def leaves_out_overflow(self) -> bool:
        """Whether on some kind a block can overflow, but by times that solvers cannot tell from the work."""
        return any(alone.leaves_out_overflow for alone in self.of_kinds)

    def exceeding(self, t: int, s: int) -> float:
        r"""By how much a block on a device of kind s can cost more on one of kind t than the bottleneck, memory apart.

        All of it takes :math:`U_t`, every work and every tensor, as a block moves a tensor once. Where nothing takes
        more than :math:`\rho` times as long, that is at most :math:`(1 - 1/\rho)\,U_t` and, of answers that are no
        worse than a known one, :math:`\rho - 1` times its bottleneck. With rates for pairs both move as much.
        """
        of_t, of_s = self.works[t], self.works[s]
        if self.pair_times is None:
            of_t, of_s = (np.concatenate((self.works[kind], self.cut_times[kind])) for kind in (t, s))
        longer = of_t > of_s
        if not longer.any():
            return 0.0
        whole, ratio = float(of_t.sum()), math.inf
        if of_s[longer].min() > 0:
            ratio = float((of_t[longer] / of_s[longer]).max()) * (1 + _ROUNDING)
        return min(whole * (1 - 1 / ratio), (ratio - 1) * self.most)

    @cached_property
    def _bytes(self) -> float:
        """Bytes of 1 in what is held: a time on the slowest link, or the largest memory where that is a limit."""
        limits = [kind.memory for kind in self.instance.machines.kinds if math.isfinite(kind.memory)]
        if self.instance.platform.fit:
            return max(limits, default=1.0)
        rates = [
            rate for rate, alone in zip(self.instance.bandwidths, self.of_kinds, strict=True) if alone.has_overflow
        ]
        return min(rates, default=1.0) * self.unit

    def _byte_time(self, size: float) -> float:
        return size / self._bytes


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


@dataclass(frozen=True)
class KindFormulation(Formulation):
    """Formulation over kinds of devices; its cases are made of `ScaledKinds`."""

    cases: Callable[[ScaledKinds], Sequence[Case]]  # type: ignore[assignment]

    def prepare(self, instance: Instance, start: Partition | None, margin: float, deadline: Deadline) -> PreparedModel:
        """Scale the instance and list the cases, which may lose answers that cost more than the start."""
        data = ScaledKinds.of(instance, start)
        cutoff = np.inf if start is None else start.bottleneck
        return PreparedModel(data, self.cases(data), start, np.arange(instance.graph.n), cutoff)

    def _one_block(self, instance: Instance) -> Partition | None:
        whole = one_block_of_kinds(instance)
        with suppress(InputError):  # windows may forbid it
            return _feasible(Partition(instance, whole.block, kind=whole.kind))
        return None

    def _solution(self, instance: Instance, result: CaseResult, group: IntArray, solver: Solver) -> Partition | None:
        if result.superblock is None:
            return None
        assert result.kind is not None
        kind = np.full(instance.k, IDLE)
        kind[: len(result.kind)] = result.kind
        try:
            return _feasible(Partition(instance, result.superblock[group], kind=kind))
        except InputError as error:
            raise SolverFaultError(solver.name, f"gives a solution that is no partition ({error})") from None


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


def _places(partition: Partition) -> IntArray:
    return partition.block + 1 if partition.instance.machines.is_fixed else block_ranks(partition)


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


def _shares(data: ScaledKinds) -> FloatArray:
    """(T, n) a(v) over the least a(S) of a block on each kind; without works all 0."""
    shares = speed_shares(data.instance)
    least = (shares[:, None] * data.instance.finite_works).min(axis=0)
    needed = shares / float(np.array(data.instance.machines.counts) @ shares) * least.sum()
    return least / np.where(needed > 0, needed, np.inf)[:, None]


def _relaxed(name: str, data: ScaledKinds, *, dag: bool, cut_io: bool) -> tuple[Case, ...]:
    weights = _shares(data)

    def middle(partition: Partition) -> IntArray:
        """The block with more than its share is superblock 2."""
        block, kind = partition.block, partition.kind
        held = [weights[t, block == b].sum() if t != IDLE else 0.0 for b, t in enumerate(kind.tolist())]
        return 2 + np.sign(block - int(np.argmax(held)))

    return tuple(
        Case(
            kind.name,
            partial(bottleneck, name, data.of_kinds[t], dag=dag, cut_io=cut_io, weight=weights[t].tolist()),
            middle,
            blocks=3,
        )
        for t, kind in enumerate(data.instance.machines.kinds)
    )


def _formulation(name: str, summary: str, *, dag: bool = True, cut_io: bool = True) -> KindFormulation:
    cases = partial(_relaxed, name, dag=dag, cut_io=cut_io)
    return KindFormulation(name, summary, "this project, mtpp_models/formulations/kinds.py", cases)


def _feasible(partition: Partition) -> Partition | None:
    return partition if partition.bottleneck < np.inf else None


#: All of them, in order of effort.
FORMULATIONS_OF_KINDS = (
    _formulation("bottleneck-no-dag", "bottleneck, where edges may point backwards", dag=False),
    _formulation("bottleneck-no-cut-io", "bottleneck, without communication", cut_io=False),
    _formulation("bottleneck", "cheapest block with its share of all speeds"),
    KindFormulation(
        "exact",
        "the exact mixed-integer program over kinds of devices",
        "this project, mtpp_models/formulations/kinds.py",
        lambda data: (Case("exact", lambda: exact_of_kinds(data), _places, data.k * data.instance.kinds),),
        exact=True,
    ),
)
