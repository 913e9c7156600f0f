r"""Bound and partition that need no search: eq. (13) of MTPP, Lemma 4.2, and all nodes in one block.

With finite memory M and no fixed buffer, some block overflows by what a node holds and needs alone, and all blocks
together by what their memory is too small by. With need(v) the bytes that are live while v runs,

.. math::

    \mathrm{OPT} \ge \max_v \Big(\mathrm{work}(v)
        + \tfrac1B \max(0, \mathrm{params}(v) + \mathrm{need}(v) - M)\Big), \qquad
    \mathrm{OPT} \ge \tfrac1k \Big(\mathrm{work}(V)
        + \tfrac1B \max\big(0, \mathrm{params}(V) + \max_v \mathrm{need}(v) - k M\big)\Big).
"""

from __future__ import annotations

import numpy as np

from instances import InputError, Instance, Partition
from instances.graph.memory import held_alone
from instances.partitioning.no_fit import surely_above, total_held

__all__ = ["as_answer", "one_block", "simple", "work_bound"]


def work_bound(instance: Instance) -> float:
    """L = max(max work, total work / k), eq. (13): some block holds the heaviest node, and some block the average.

    That is a lower bound on the bottleneck, in the time unit of the work.
    """
    work = instance.graph.work
    return max(float(work.max()), float(work.sum()) / instance.k)


def simple(instance: Instance) -> float:
    """`work_bound`, with the time for what cannot fit unless a buffer is fixed.

    That is a lower bound on the bottleneck, in the time unit of the work, too.
    """
    if not (instance.has_overflow and instance.needs_peaks):
        return work_bound(instance)
    work, k, needs, platform = instance.graph.work, instance.k, instance.needs, instance.platform
    alone = work + surely_above(instance, held_alone(instance.graph) + needs, platform.memory) / platform.bandwidth
    together = surely_above(instance, total_held(instance) + needs.max(), k * platform.memory) / platform.bandwidth
    return max(float(alone.max()), float(work.sum() + together) / k)


def one_block(instance: Instance) -> Partition:
    """The partition that cuts nothing, of the instance's relaxation, since constraints or memory may not allow it."""
    return Partition(instance.relaxed(), np.zeros(instance.graph.n, dtype=np.int64))


def as_answer(instance: Instance, partition: Partition) -> Partition | None:
    """The same blocks as an answer to `instance`; None if they break a rule or do not fit."""
    try:
        answer = partition if partition.instance is instance else Partition(instance, partition.block, partition.order)
    except InputError:
        return None
    return answer if np.isfinite(answer.bottleneck) else None
