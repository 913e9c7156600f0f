"""Local search on partitions: annealing in rounds of growing length, with slicing in between."""

from __future__ import annotations

import numpy as np

from heuristics.limits import Limits
from heuristics.local_search.walks import Budget, Walker, best_of
from heuristics.orders.kahn import kahn
from heuristics.orders.slicing import slice_order
from instances import Instance, Partition

__all__ = ["local_search"]

_FIRST_ROUND = 125_000


def local_search(
    instance: Instance, rng: np.random.Generator, limits: Limits | None = None, *, start: Partition | None = None
) -> Partition:
    """Move nodes between blocks, and swap them, under simulated annealing.

    Each round begins hot, so that it hardly depends on its start, and is twice as long as the one before; its best
    partition is sliced again along orders that list its blocks, which never makes it worse (Theorem 3.4).
    The temperature follows what a node is worth in its block: where blocks have many nodes it is lower.

    Parameters
    ----------
    instance : Instance
        The question.
    rng : numpy.random.Generator
        Of moves and acceptance.
    limits : Limits, optional
        Checked every few milliseconds; an evaluation is a move that is tried. Without limits 10 million are tried, or
        200 000 a node where that is less. With a time limit, the last rounds fit into what is left of it.
    start : Partition, optional
        By default the slicing of the Kahn order of equal priorities.

    Returns
    -------
    Partition
        No worse than `start`; `start` itself where n · k is so large that the tables would not fit into 2 GiB.
    """
    limits = limits or Limits()
    n = instance.graph.n
    best = start or slice_order(instance, kahn(instance.graph, np.zeros(n)), limits.deadline)
    if not Walker.can_walk(instance):
        return best
    budget = Budget(limits, instance.graph.n)
    walker, planned = Walker(instance, rng, budget), max(_FIRST_ROUND, 10 * n)
    while not budget.spent(best.bottleneck):
        best = best_of((best, walker.slice(walker.walk(best, planned, stretch=3))))
        planned *= 2
    return best
