r"""Bound by windows: nodes with large heads and tails share the devices in between.

The nodes with a head of at least a and a tail of at least b run between a and the end of the step less b. With their
work W, and capacity for k devices,

.. math:: T \ge \max_{a, b} \; a + b + W(a, b) / k.

Where devices rest for g after each of the c nodes with work among them, all but the last of a device do, so that W may
also be :math:`W + g (c - k)`. Unequal devices count as much as their speeds over that of the fastest, and a rest costs
the work of the slowest.
"""

from __future__ import annotations

import numpy as np

from instances import Bound
from instances.compiled import compiled
from instances.graph.tensors import FloatArray
from mtpp_models.placement.heads import ROUNDING, Heads

__all__ = ["WINDOWS", "window_bound"]

WINDOWS = "windows"


def window_bound(heads: Heads) -> Bound:
    """The best window over all heads and tails."""
    instance = heads.instance
    slowest = float(instance.speeds.min() / instance.speeds.max())
    rest = np.where(heads.work > 0, float(instance.node_gap) * slowest, 0.0)
    lost = heads.capacity * float(instance.node_gap)
    found = [
        _best_window(heads.head, heads.tail, takes, less, heads.capacity)
        for takes, less in ((heads.work, 0.0), (heads.work + rest, lost))[: 2 if lost else 1]
    ]
    value, a, b = max(found)
    return Bound(value * (1 - ROUNDING), WINDOWS, False, {**heads.witness, "window": [a, b]})


@compiled
def _best_window(
    head: FloatArray, tail: FloatArray, takes: FloatArray, lost: float, capacity: float
) -> tuple[float, float, float]:
    """The bound of the best window, its a and its b."""
    n = len(head)
    late, long = np.argsort(-head), np.argsort(-tail)
    place = np.empty(n, dtype=np.int64)
    place[long] = np.arange(n)
    among, first = np.zeros(n), n  # what the nodes so far take, by falling tails
    best = (0.0, 0.0, 0.0)
    for v in late:
        among[place[v]] = takes[v]
        first = min(first, place[v])  # no window is empty
        total = 0.0
        for i in range(first, n):
            total += among[i]
            value = head[v] + tail[long[i]] + (total - lost) / capacity
            if value > best[0]:
                best = (value, head[v], tail[long[i]])
    return best
