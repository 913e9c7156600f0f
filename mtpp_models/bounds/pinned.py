r"""The bound by minimum cuts around single nodes.

Every node lies in some block, so with L of `mtpp_models.cuts.block_cuts`,

.. math:: \mathrm{OPT} \ge \max_v L(\{v\}).
"""

from __future__ import annotations

import time

import numpy as np

from instances import Bound, Partition, Result
from instances.interrupts import catch_interrupt
from instances.results import PROOF_TOLERANCE
from mtpp_models.cuts.block_cuts import BlockCuts

__all__ = ["PINNED", "pinned"]

PINNED = "pinned"


def pinned(start: Partition, time_limit: float | None = None) -> Result:
    """The largest of the minimum cuts around single nodes.

    Parameters
    ----------
    start : Partition
        A known partition; cuts stop at its bottleneck.
    time_limit : float, optional
        Seconds; after them, or at Ctrl-C, the largest cut so far is the bound.

    Returns
    -------
    Result
        Its bound's witness names the node.

    Notes
    -----
    Where the cheapest set around v is convex, it lies within reach of each of its other nodes w, so that
    L({w}) is no larger and needs no cut.
    """
    begin = time.monotonic()
    value, node, finished = 0.0, 0, True
    with catch_interrupt() as interrupted:
        ceiling = start.bottleneck or 1.0
        cuts = BlockCuts(start.instance, ceiling)
        most = cuts.alone()
        for v in np.argsort(-most).tolist():
            if value >= ceiling:
                break
            if most[v] <= value:
                continue  # some block that holds v costs no more than what is proved
            if interrupted.is_set() or (time_limit is not None and time.monotonic() - begin > time_limit):
                finished = False
                break
            cut = cuts.cut([v])
            if cut.cost > value:
                value, node = cut.cost, v
            if cuts.is_convex(cut.nodes):
                most[cut.nodes] = np.minimum(most[cut.nodes], cut.cost)
    # All nodes together cost their work, so no minimum cut is above that.
    most_possible = min(value + cuts.lost(), float(start.instance.graph.work.sum()), start.bottleneck)
    closed = finished and value >= most_possible * (1 - PROOF_TOLERANCE)
    bound = Bound(value, PINNED, closed, {"nodes": [node]})
    seconds = {"solve": time.monotonic() - begin}
    return Result(PINNED, start.instance, start, bound, seconds, interrupted=interrupted.is_set())
