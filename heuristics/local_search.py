"""Local search on partitions: annealing in rounds of growing length, with slicing in between."""

from __future__ import annotations

import numpy as np

from heuristics.annealing import anneal, start_state
from heuristics.limits import Limits
from heuristics.orders import kahn
from heuristics.slicing import slice_order
from instances import Instance, Partition
from instances.arrays import KernelArrays

__all__ = ["local_search"]

_HOT, _COLD = 1.0, 0.01
_FIRST_ROUND = 250_000


def local_search(
    instance: Instance,
    rng: np.random.Generator,
    limits: Limits | None = None,
    *,
    start: Partition | None = None,
    moves: int = 10_000_000,
) -> Partition:
    """Move single nodes between blocks under simulated annealing.

    Each round begins hot, so it forgets where it started, and is twice as long as the one before; its best
    partition is sliced anew along the order that lists its blocks, which never makes it worse (Theorem 3.4).

    Parameters
    ----------
    instance : Instance
    rng : numpy.random.Generator
    limits : Limits, optional
        Checked after every round; an evaluation is a move that is tried.
    start : Partition, optional
        By default the slicing of the Kahn order of equal priorities.
    moves : int
        Number of moves tried in all rounds together.

    Returns
    -------
    Partition
        No worse than `start`.
    """
    limits = limits or Limits()
    arrays, before = KernelArrays.of(instance), instance.graph.predecessors
    best = start or slice_order(instance, kahn(instance.graph, np.zeros(instance.graph.n)))
    left, size = limits.allow(moves), _FIRST_ROUND
    while left > 0 and best.bottleneck > 0 and not limits.reached(best.bottleneck):
        size = left if left < 3 * size else size
        state = start_state(best.block, instance.k, arrays)
        _, block = anneal(state, instance.k, arrays, *before, size, _HOT, _COLD, int(rng.integers(2**31)))
        found = Partition(instance, block)
        sliced = slice_order(instance, kahn(instance.graph, -block.astype(np.float64)))
        best = min(best, found, sliced, key=lambda partition: partition.bottleneck)
        left -= size
        size *= 2
    return best
