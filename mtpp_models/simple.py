r"""Bounds by formulas, eq. (13) of MTPP and Lemma 4.2, and the partition with all nodes in one block.

With finite memory M and no fixed buffer, some block overflows by what a node holds and needs alone, and all blocks
together by what their memory is too small by. With need(v) the bytes that are live while v runs,

.. math::

    \mathrm{OPT} \ge \max_v \Big(\mathrm{work}(v)
        + \tfrac1B \max(0, \mathrm{params}(v) + \mathrm{need}(v) - M)\Big), \qquad
    \mathrm{OPT} \ge \tfrac1k \Big(\mathrm{work}(V)
        + \tfrac1B \max\big(0, \mathrm{params}(V) + \max_v \mathrm{need}(v) - k M\big)\Big).

Over kinds of devices, for any weights :math:`\lambda_t \ge 0` with :math:`\sum_t N_t \lambda_t = 1`,

.. math:: \mathrm{OPT} \ge \sum_v \min_t \lambda_t\, w_t(v),

since the weighted sum of the bottlenecks of all devices is OPT, and each node lies on a device of some kind, which
takes it that long at least. The best weights are the dual solution of the program that shares nodes among the kinds.
And each node takes at least as long as on its fastest kind.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy

from instances import Bound, InputError, Instance, Partition
from instances.graph.memory import held_alone
from instances.graph.tensors import FloatArray
from instances.partitioning.constraints import NO_CONSTRAINTS
from instances.partitioning.memory import surely_above, total_held

# What a sum of floats may be too large by, relative.
_ROUNDING = 1e-12


def work_bound(instance: Instance) -> float:
    """L = max(max work, total work / k), eq. (13): some block holds the heaviest node, and some block the average.

    That is a lower bound on the bottleneck, in the time unit of the work.
    """
    work = instance.graph.work
    return max(float(work.max()), float(work.sum()) / instance.k)


def simple(instance: Instance) -> float:
    """Lower bound on the bottleneck [time unit]: `work_bound` plus the time to stream bytes that cannot fit.

    With several kinds of devices it is `speed_bound` with the best weights of the kinds.
    """
    if not instance.is_alike:
        return speed_bound(instance, speed_shares(instance))
    if not (instance.has_overflow and instance.needs_peaks):
        return work_bound(instance)
    work, k, needs, platform = instance.graph.work, instance.k, instance.needs, instance.platform
    alone = work + surely_above(instance, held_alone(instance.graph) + needs, platform.memory) / platform.bandwidth
    together = surely_above(instance, total_held(instance) + needs.max(), k * platform.memory) / platform.bandwidth
    return max(float(alone.max()), float(work.sum() + together) / k)


def simple_bound(instance: Instance, *, optimal: bool = True) -> Bound:
    """`simple` as a bound; over kinds of devices its witness holds the weights as `shares`, one a kind."""
    if instance.is_alike:
        return Bound(simple(instance), "simple", optimal)
    shares = speed_shares(instance)
    return Bound(speed_bound(instance, shares), "simple", optimal, {"shares": shares.tolist()})


def one_block(instance: Instance) -> Partition:
    """The partition with all nodes in one block, for the relaxation without constraints and hard memory limits.

    Over kinds of devices the block is on the kind with the least time, by `Instance.finite_works`.
    """
    block = np.zeros(instance.graph.n, dtype=np.int64)
    if instance.is_alike:
        return Partition(instance.relaxed(modelled=False), block)
    soft = replace(instance, fit=False, constraints=NO_CONSTRAINTS, works=instance.finite_works)
    if instance.machines.is_fixed:
        return Partition(soft, block)
    kinds = (np.full(instance.k, t) for t in range(instance.kinds))
    return min((Partition(soft, block, kind=kind) for kind in kinds), key=lambda partition: partition.bottleneck)


def as_answer(instance: Instance, partition: Partition) -> Partition | None:
    """The same blocks as an answer to `instance`; None if it is infeasible there."""
    try:
        answer = partition.under(instance)
    except InputError:
        return None
    return answer if np.isfinite(answer.bottleneck) else None


def speed_shares(instance: Instance) -> FloatArray:
    """(T,) weights of kinds for the bound over kinds; over all devices they sum to 1 up to rounding."""
    counts, works = np.array(instance.machines.counts, dtype=np.float64), instance.finite_works
    kinds, n = works.shape
    unit = works.max()
    even = np.full(kinds, 1 / counts.sum())
    if unit <= 0:
        return even
    # Columns: the weights, then what each node is worth; rows: node v and kind t.
    row = np.arange(kinds * n)
    t, v = row // n, row % n
    data = np.concatenate((-(works / unit).ravel(), np.ones(kinds * n)))
    matrix = scipy.sparse.coo_array(
        (data, (np.tile(row, 2), np.concatenate((t, kinds + v)))), shape=(kinds * n, kinds + n)
    )
    gain = np.concatenate((np.zeros(kinds), -np.ones(n)))
    total = np.concatenate((counts, np.zeros(n)))[None]
    answer = scipy.optimize.linprog(gain, matrix.tocsr(), np.zeros(kinds * n), total, np.ones(1), method="highs")  # type: ignore[call-overload]
    if answer.x is None:
        return even
    shares: FloatArray = np.maximum(answer.x[:kinds], 0.0)
    return shares / float(counts @ shares) if counts @ shares > 0 else even


def speed_bound(instance: Instance, shares: FloatArray) -> float:
    """The lower bound over kinds of devices by given weights, (T,), rounded down [time unit]."""
    least = (shares[:, None] * instance.finite_works).min(axis=0)
    total = float(np.array(instance.machines.counts) @ shares)
    alone = float(instance.work.min(axis=0).max())
    return max(alone, float(least.sum()) / total * (1 - _ROUNDING))
