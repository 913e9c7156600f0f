r"""Energetic bound: least work of nodes in an interval, wherever each of them runs between its head and its tail.

If a step takes T, node v runs between :math:`e_v` and :math:`T - q_v`, and in :math:`[t_1, t_2]` at least for

.. math:: \max(0, \min(w_v, \; t_2 - t_1, \; e_v + w_v - t_1, \; t_2 - T + q_v + w_v)),

the least of running throughout, as early and as late as it can. No step takes T if all this is more than
:math:`k (t_2 - t_1)` for some interval. Nodes run without a pause, and devices are equal. Source: Fernandez and
Bussell, "Bounds on the number of processors and time for multiprocessor optimal schedules", 1973; the interval by
Erschler et al., 1991.
"""

from __future__ import annotations

import numpy as np

from instances import Bound
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from mtpp_models.placement.heads import ROUNDING, Heads

__all__ = ["ENERGETIC", "energetic_bound", "energetic_excess"]

ENERGETIC = "energetic"

# With more nodes each T has millions of intervals.
_MOST_NODES = 160
# Steps of halving what is open.
_HALVINGS = 20


def energetic_bound(heads: Heads, least: Bound, ceiling: float, deadline: Deadline) -> Bound:
    """The largest time that is found to be refuted.

    Parameters
    ----------
    least : Bound
        What is proved; returned where no interval refutes more, where devices differ or nodes are many.
    ceiling : float
        Step time of a placement; no more can be refuted.
    deadline : Deadline
        Halving ends there.
    """
    low, high, best = least.value, ceiling, least
    for _ in range(_HALVINGS):
        if deadline.passed or not low < high * (1 - ROUNDING):
            break
        time = (low + high) / 2
        excess, begin, end = energetic_excess(heads, time)
        if excess > ROUNDING * time:
            low = time
            interval = {"horizon": time, "interval": [begin, end]}
            best = Bound(time * (1 - ROUNDING), ENERGETIC, False, {**heads.witness, **interval})
        else:
            high = time
    return best


def energetic_excess(heads: Heads, time: float) -> tuple[float, float, float]:
    """Largest excess of the nodes' work in an interval over the devices' capacity, and the interval; 0 if none.

    None is sought where devices differ or nodes are many.
    """
    if len(heads.work) > _MOST_NODES or heads.capacity < heads.instance.devices:
        return 0.0, 0.0, 0.0
    return _most_excess(heads.head, heads.tail, heads.work, time, heads.capacity)


@compiled
def _most_excess(
    head: FloatArray, tail: FloatArray, work: FloatArray, time: float, capacity: float
) -> tuple[float, float, float]:
    """Largest excess of the nodes' work in an interval over the devices' capacity, and the interval."""
    begins = np.unique(np.concatenate((head, time - tail - work)))
    ends = np.unique(np.concatenate((time - tail, head + work)))
    best = (0.0, 0.0, 0.0)
    for begin in begins:
        for end in ends:
            length = end - begin
            if begin < 0.0 or length <= 0.0:
                continue
            total = 0.0
            for v in range(len(work)):
                inside = min(work[v], length, head[v] + work[v] - begin, end - time + tail[v] + work[v])
                total += max(0.0, inside)
            if total - capacity * length > best[0]:
                best = (total - capacity * length, begin, end)
    return best
