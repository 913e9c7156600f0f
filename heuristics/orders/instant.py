"""Partitions that are found at once: one block, pieces of equal work, and the slicing of one order."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from heuristics.limits import Limits
from heuristics.orders.bisection import cut_order
from heuristics.orders.kahn import kahn
from heuristics.orders.slicing import TABLE_NODES, slice_order
from instances import InputError, Instance, Partition
from instances.graph.tensors import IntArray

__all__ = ["at_once", "equal_pieces"]

#: Of a large graph an order is sliced exactly if that is likely to take no more than a quarter of the time: about
#: this many seconds a node.
_SLICING_SECONDS = 1e-4


def at_once(instance: Instance, limits: Limits) -> Partition:
    """The best of one block, two orders in equal pieces, and, unless that takes too long, their slicings.

    The orders are the Kahn order of equal priorities, which is always sliced up to 2,000 nodes, and the one by depth.

    Raises
    ------
    NothingFoundError
        If the constraints of the instance allow none of them.
    """
    graph = instance.graph
    orders = [kahn(graph, np.zeros(graph.n)), graph.topological_order]
    partitions = []
    for order in orders:
        with suppress(InputError):  # it breaks a constraint
            partitions.append(Partition(instance, np.zeros(graph.n), order))
        with suppress(InputError):
            partitions.append(equal_pieces(instance, order))
    if instance.constraints or graph.n <= TABLE_NODES:
        partitions.append(slice_order(instance, orders.pop(0)))
    for order in orders if _is_quick(instance, limits) else ():
        if not limits.reached(min(partition.bottleneck for partition in partitions)):
            partitions.append(slice_order(instance, order, limits.deadline))
    return min(partitions, key=lambda partition: partition.preference)


def equal_pieces(instance: Instance, order: IntArray) -> Partition:
    """Cut an order where the work before is a multiple of a k-th."""
    work = instance.graph.work[order]
    before = np.cumsum(work) - work
    return cut_order(instance, order, np.searchsorted(before, work.sum() / instance.k * np.arange(instance.k)))


def _is_quick(instance: Instance, limits: Limits) -> bool:
    n, remaining = instance.graph.n, limits.deadline.left
    return n <= TABLE_NODES or (n * _SLICING_SECONDS <= remaining / 4 < math.inf and not instance.needs_peaks)
