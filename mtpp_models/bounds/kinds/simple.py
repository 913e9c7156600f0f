r"""The bound by the speed of all devices together, and by single nodes.

For any weights :math:`\lambda_t \ge 0` with :math:`\sum_t N_t \lambda_t = 1`,

.. math:: \mathrm{OPT} \ge \sum_v \min_t \lambda_t\, w_t(v),

since the weighted sum of the bottlenecks of all devices is OPT, and each node lies on a device of some kind, which
takes it that long at least. The best weights are the dual solution of the program that shares nodes among the kinds.
And each node takes at least as long as on its fastest kind.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from instances import Bound, Result
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from instances.partitioning.kinds.partition import UnlikePartition
from instances.partitioning.kinds.problem import UnlikeInstance

__all__ = ["SIMPLE", "simple_by_kinds", "simple_of_kinds", "speed_bound", "speed_shares"]

SIMPLE = "simple"
# What a sum of floats may be too large by, relative.
_ROUNDING = 1e-12


def simple_by_kinds(start: UnlikePartition, deadline: Deadline | None = None) -> Result:
    """The bound; its witness holds the weights as `shares`, one a kind."""
    instance = start.instance
    shares = speed_shares(instance)
    value = min(speed_bound(instance, shares), start.bottleneck)
    return Result(SIMPLE, instance, start, Bound(value, SIMPLE, witness={"shares": shares.tolist()}))


def speed_shares(instance: UnlikeInstance) -> FloatArray:
    """(T,) weights of the kinds, whose sum over all devices is 1 but for rounding."""
    counts, works = np.array(instance.devices.counts, dtype=np.float64), instance.works
    kinds, n = works.shape
    unit = works.max()
    even = np.full(kinds, 1 / counts.sum())
    if unit <= 0:
        return even
    # Columns: the weights, then what each node is worth; rows: node v and kind t.
    row = np.arange(kinds * n)
    t, v = row // n, row % n
    data = np.concatenate((-(works / unit).ravel(), np.ones(kinds * n)))
    matrix = coo_array((data, (np.tile(row, 2), np.concatenate((t, kinds + v)))), shape=(kinds * n, kinds + n))
    gain = np.concatenate((np.zeros(kinds), -np.ones(n)))
    total = np.concatenate((counts, np.zeros(n)))[None]
    answer = linprog(gain, matrix.tocsr(), np.zeros(kinds * n), total, np.ones(1), method="highs")  # type: ignore[call-overload]
    if answer.x is None:
        return even
    shares: FloatArray = np.maximum(answer.x[:kinds], 0.0)
    return shares / float(counts @ shares) if counts @ shares > 0 else even


def simple_of_kinds(instance: UnlikeInstance) -> float:
    """The best of these bounds, in the time unit of the work."""
    return speed_bound(instance, speed_shares(instance))


def speed_bound(instance: UnlikeInstance, shares: FloatArray) -> float:
    """The bound by any weights, rounded down."""
    least = (shares[:, None] * instance.works).min(axis=0)
    total = float(np.array(instance.devices.counts) @ shares)
    alone = float(instance.works.min(axis=0).max())
    return max(alone, float(least.sum()) / total * (1 - _ROUNDING))
