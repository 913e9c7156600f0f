"""The bound and the partition that need no work: eq. (13) of MTPP, Lemma 4.2, and all nodes in one block."""

from __future__ import annotations

import numpy as np

from instances import Instance, Partition

__all__ = ["one_block", "simple"]


def simple(instance: Instance) -> float:
    """L = max(max work, total work / k): some block holds the heaviest node, and some block the average.

    That is a lower bound on the bottleneck, in the time unit of the work.
    """
    work = instance.graph.work
    return max(float(work.max()), float(work.sum()) / instance.k)


def one_block(instance: Instance) -> Partition:
    """The partition that cuts nothing."""
    return Partition(instance, np.zeros(instance.graph.n, dtype=np.int64))
