r"""The exact model over kinds of devices, and the block with its share of all speeds.

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
pairs of kinds the transfers of a block are those of `mtpp_models.formulations.pair_transfers`, whatever t.

The relaxation, one case a kind: for any weights :math:`\lambda` of `mtpp_models.simple` and
:math:`a(v) = \min_t \lambda_t w_t(v)` some block on some kind t has :math:`a(S) \ge \lambda_t\, a(V)`, since over all
devices both sides sum up to a(V) at most and at least. The cheapest block of that kind with so much is a bound, as in
`mtpp_models.formulations.three_superblock`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression

from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.partition import IDLE
from mtpp_models.cuts.windows import allowed_windows
from mtpp_models.formulations.case import Case, CaseResult, block_ranks
from mtpp_models.formulations.constraints import FITS, add_assignment, add_crossings, add_dag, add_load
from mtpp_models.formulations.formulation import Formulation, PreparedModel
from mtpp_models.formulations.pair_transfers import add_pair_transfers
from mtpp_models.formulations.scaled_kinds import ScaledKinds
from mtpp_models.formulations.three_superblock import bottleneck
from mtpp_models.simple import one_block_of_kinds, speed_shares
from mtpp_models.solvers.interface import SolverFaultError
from mtpp_models.solvers.registry import Solver

__all__ = ["FORMULATIONS_OF_KINDS", "KindFormulation", "exact_of_kinds"]


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
