"""Local search on partitions: annealing in rounds of growing length, with slicing in between."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from heuristics.limits import Limits
from heuristics.local_search.annealing import anneal_partition
from heuristics.local_search.state import start_state
from heuristics.orders.kahn import kahn
from heuristics.orders.kernels import decode
from heuristics.orders.slicing import TABLE_NODES, slice_order
from instances import Instance, Partition
from instances.deadline import CLOCK
from instances.errors import NothingFoundError
from instances.graph.tensors import IntArray
from instances.partitioning.kernel_arrays import KernelArrays

__all__ = ["local_search"]

#: A round of the walk cools down from at most `_HOT` to at most `_COLD`.
_HOT, _COLD = 10.0, 0.02
_FIRST_ROUND = 125_000
#: After a round so many random orders of its blocks are sliced, of large graphs fewer.
_ORDERS, _SLICED_NODES = 30, 10_000
#: Moves between two looks at the limits, and before the first of them.
_CHUNK, _FIRST_CHUNK = 62_500, 2_000
#: The table of readers, an entry for each tensor and block, has up to 2 GiB.
_LARGEST_TABLE = 2**29


def local_search(
    instance: Instance,
    rng: np.random.Generator,
    limits: Limits | None = None,
    *,
    start: Partition | None = None,
    moves: int = 10_000_000,
) -> Partition:
    """Move nodes between blocks, and swap them, under simulated annealing.

    Each round begins hot, so it forgets where it started, and is twice as long as the one before; its best
    partition is sliced anew along orders that list its blocks, which never makes it worse (Theorem 3.4).
    The temperature follows what a node is worth in its block: where blocks have many nodes it is lower.

    Parameters
    ----------
    instance : Instance
    rng : numpy.random.Generator
    limits : Limits, optional
        Checked every few milliseconds; an evaluation is a move that is tried. With a time limit, the last rounds fit
        into what is left of it.
    start : Partition, optional
        By default the slicing of the Kahn order of equal priorities.
    moves : int
        Number of moves tried in all rounds together.

    Returns
    -------
    Partition
        No worse than `start`; `start` itself where n · k is so large that the tables would not fit into 2 GiB.
    """
    limits = limits or Limits()
    n, k = instance.graph.n, instance.k
    best = start or slice_order(instance, kahn(instance.graph, np.zeros(n)))
    if len(instance.graph.tensors.bytes) * k > _LARGEST_TABLE:
        return best
    arrays, before = KernelArrays.of(instance), instance.graph.predecessors
    scale = 16 * k / n  # the sixteenth power of a block grows by this part with an average node
    hot, cold = min(_HOT, scale), _COLD * min(1.0, scale)
    most = max(1, _CHUNK // (1 + n // k)) if arrays.needs_peaks else _CHUNK  # a peak takes as long as its block
    planned, left, speed, chunk = max(_FIRST_ROUND, 10 * n), limits.allow(moves), math.inf, min(most, _FIRST_CHUNK)
    while left > 0 and best.bottleneck > 0 and not limits.reached(best.bottleneck):
        state = start_state(best.block, best.order, k, arrays)
        begin, done, size = CLOCK.now(), 0, _size(planned, 0, left, speed, limits)
        while done < size and not limits.reached(float(state.best[0])):
            chunk = min(chunk, size - done)
            first, last = hot * (cold / hot) ** (done / size), hot * (cold / hot) ** ((done + chunk) / size)
            anneal_partition(state, arrays, *before, chunk, first, last, int(rng.integers(2**31)))
            done, left, chunk = done + chunk, left - chunk, most
            speed = done / max(1e-9, CLOCK.now() - begin)
            size = _size(planned, done, left, speed, limits)
        best = _better(best, state.best_rank[state.best_block], rng)
        planned *= 2
    return best


def _size(planned: int, done: int, left: int, speed: float, limits: Limits) -> int:
    """Moves in the round of which some are done: as planned, or all that time allows if that is not much more."""
    if speed * limits.deadline.left < math.inf:
        left = min(left, max(1, int(speed * limits.deadline.left)))
    return done + left if done + left < 3 * planned else planned


def _better(best: Partition, block: IntArray, rng: np.random.Generator) -> Partition:
    """The best of the partition, the blocks, and the slicings of some orders that list the blocks one by one."""
    instance, n = best.instance, len(block)
    found = [best, Partition(instance, block, best.order)]
    if n <= TABLE_NODES:
        arrays = KernelArrays.of(instance)
        nodes = _SLICED_NODES // 20 if arrays.needs_peaks else _SLICED_NODES  # the peaks of all segments take longer
        priorities = rng.random((max(1, min(_ORDERS, nodes // n)), n)) - block
        values = decode(priorities, instance.k, arrays)
        position = np.argsort(best.order)
        for priority in (-(block * n + position), priorities[values.argmin()]):
            with suppress(NothingFoundError):
                found.append(slice_order(instance, kahn(instance.graph, priority)))
    return min(found, key=lambda partition: partition.preference)
