"""What to run on this graph for this long: pieces of equal work, exact slicing, local search."""

from __future__ import annotations

import sys

import numpy as np

from heuristics.banded import cut_order
from heuristics.limits import Limits
from heuristics.local_search import local_search
from heuristics.orders import kahn
from heuristics.slicing import TABLE_NODES, slice_order
from instances import Instance, Partition
from instances.tensors import IntArray

__all__ = ["portfolio"]

#: Moves of local search where neither time nor evaluations are limited.
_MOVES = 10_000_000
#: Of a large graph an order is sliced exactly if that is likely to take no more than a quarter of the time: about
#: this many seconds a node.
_SLICING_SECONDS = 1e-4


def portfolio(instance: Instance, rng: np.random.Generator, limits: Limits | None = None) -> Partition:
    """Best cut of two orders, then local search from there.

    The orders, by index and by depth, are cut into pieces of equal work, which takes milliseconds for large graphs too,
    and sliced exactly where that leaves most of the time. Local search takes what is left.

    Parameters
    ----------
    instance : Instance
    rng : numpy.random.Generator
    limits : Limits, optional
        Checked between the steps and within local search; an evaluation is a move that is tried. Without a limit on
        time or evaluations, 10 million moves.

    Returns
    -------
    Partition
    """
    limits = limits or Limits()
    graph = instance.graph
    orders = [kahn(graph, np.zeros(graph.n)), graph.topological_order]
    best = min((_equal_pieces(instance, order) for order in orders), key=lambda partition: partition.bottleneck)
    if _slicing_is_quick(instance, limits):
        for order in orders:
            if not limits.reached(best.bottleneck):
                best = min(best, slice_order(instance, order), key=lambda partition: partition.bottleneck)
    moves = _MOVES if limits.seconds is None else sys.maxsize
    return local_search(instance, rng, limits, start=best, moves=limits.evaluations or moves)


def _equal_pieces(instance: Instance, order: IntArray) -> Partition:
    """Cut an order where the work before is a multiple of a k-th."""
    work = instance.graph.work[order]
    before = np.cumsum(work) - work
    return cut_order(instance, order, np.searchsorted(before, work.sum() / instance.k * np.arange(instance.k)))


def _slicing_is_quick(instance: Instance, limits: Limits) -> bool:
    n = instance.graph.n
    if n <= TABLE_NODES:
        return True
    with_peaks = instance.has_overflow and instance.platform.activation_buffer is None
    return limits.seconds is not None and not with_peaks and n * _SLICING_SECONDS <= limits.seconds / 4
