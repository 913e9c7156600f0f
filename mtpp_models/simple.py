"""The bound that needs no solver (MTPP, Lemma 4.2, eq. 13)."""

from __future__ import annotations

from instances import Instance

__all__ = ["simple"]


def simple(instance: Instance) -> float:
    """L = max(max work, total work / k): some block holds the heaviest node, and some block the average.

    Parameters
    ----------
    instance : Instance

    Returns
    -------
    float
        A lower bound on the bottleneck, in the time unit of the work.
    """
    work = instance.graph.work
    return max(float(work.max()), float(work.sum()) / instance.k)
