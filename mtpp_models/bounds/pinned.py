r"""The bound by minimum cuts around single nodes.

Every node lies in some block, so with L of `mtpp_models.cuts.block_cuts`,

.. math:: \mathrm{OPT} \ge \max_v L(\{v\}),

for L without overflow and, where memory is finite and no buffer is fixed, for L with its linear bound.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from instances import Bound, Partition, Result
from instances.deadline import Deadline
from instances.results import PROOF_TOLERANCE
from mtpp_models.cuts.block_cuts import BlockCuts
from mtpp_models.simple import one_block

__all__ = ["PINNED", "pinned"]

PINNED = "pinned"


def pinned(start: Partition, deadline: Deadline | None = None, nodes: Iterable[int] | None = None) -> Result:
    """The largest of the minimum cuts around single nodes, by default around all; the bound's witness names the node.

    Cuts stop at the bottleneck of the start; once the deadline has passed, the largest cut so far is the bound. Where
    the cheapest set around v is convex, it lies within reach of each of its other nodes w, so that L({w}) is no larger
    and needs no cut.
    """
    deadline = deadline or Deadline()
    value, node, finished = 0.0, 0, True
    cutoff = start.bottleneck or 1.0
    cuts = BlockCuts(start.instance, cutoff)
    loaded = cuts.loaded() if start.instance.needs_peaks else None
    cases = (cuts,) if loaded is None else (cuts, loaded)
    upper = np.max([case.alone() for case in cases], axis=0)
    asked = np.arange(len(upper)) if nodes is None else np.array(list(nodes))
    for v in asked[np.argsort(-upper[asked])].tolist():
        if value >= cutoff:
            break
        if upper[v] <= value:
            continue  # some block that holds v costs no more than what is proved
        if deadline.passed:
            finished = False
            break
        cut = max((case.cut([v]) for case in cases), key=lambda cut: cut.cost)
        if cut.cost > value:
            value, node = cut.cost, v
        if cuts.is_convex(cut.nodes):
            cost = cut.cost if loaded is None else max(case.cost(cut.nodes) for case in cases)
            upper[cut.nodes] = np.minimum(upper[cut.nodes], cost)
    # All nodes together cut nothing, so no minimum cut is above what they cost.
    most_possible = min(value + cuts.lost(), one_block(start.instance).bottleneck, start.bottleneck)
    closed = finished and value >= most_possible * (1 - PROOF_TOLERANCE)
    return Result(PINNED, start.instance, start, Bound(value, PINNED, closed, {"nodes": [node]}))
