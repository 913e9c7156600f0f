r"""The bound by minimum cuts around single nodes, over kinds of devices.

Every node lies in some block on a device of some kind, so with :math:`L_t` the L of `mtpp_models.cuts.block_cuts` in
the question of kind t alone,

.. math:: \mathrm{OPT} \ge \max_v \min_t L_t(\{v\}).
"""

from __future__ import annotations

import numpy as np

from instances import Bound, Result
from instances.deadline import Deadline
from instances.partitioning.partition import Partition
from mtpp_models.cuts.block_cuts import BlockCuts

__all__ = ["PINNED", "pinned_kinds"]

PINNED = "pinned"


def pinned_kinds(start: Partition, deadline: Deadline | None = None) -> Result:
    """The largest of the cuts; the witness names the node, as `nodes`. Behind the deadline, the largest so far."""
    instance, deadline = start.instance, deadline or Deadline()
    cutoff = start.bottleneck or 1.0
    cases = []
    for t in range(instance.kinds):
        question = instance.of_kind(t).relaxed()
        cuts = BlockCuts(question, cutoff)
        loaded = cuts.loaded() if question.needs_peaks else None
        cases.append((cuts,) if loaded is None else (cuts, loaded))
    alone = np.min([np.max([case.alone() for case in kind], axis=0) for kind in cases], axis=0)
    value, node, finished = 0.0, 0, True
    for v in np.argsort(-alone).tolist():
        if value >= cutoff or alone[v] <= value:
            break
        if deadline.passed:
            finished = False
            break
        least = np.inf
        for kind in cases:
            least = min(least, max(case.cut([v]).cost for case in kind))
            if least <= value:
                break
        if least > value:
            value, node = least, v
    return Result(PINNED, instance, start, Bound(min(value, cutoff), PINNED, finished, {"nodes": [node]}))
