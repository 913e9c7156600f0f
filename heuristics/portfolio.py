"""Searches one after another, as graph and time allow: equal pieces, exact slicing, genetic search, local search."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np

from heuristics.limits import Limits
from heuristics.local_search.local_search import local_search
from heuristics.orders.bisection import cut_order
from heuristics.orders.brkga import brkga
from heuristics.orders.kahn import kahn
from heuristics.orders.slicing import TABLE_NODES, slice_order
from instances import Instance, Partition
from instances.graph.tensors import IntArray

__all__ = ["portfolio"]

#: Moves of local search where neither time nor evaluations are limited.
_MOVES = 10_000_000
#: Of a large graph an order is sliced exactly if that is likely to take no more than a quarter of the time: about
#: this many seconds a node.
_SLICING_SECONDS = 1e-4
#: Genetic search has up to a quarter of the time, if that is likely to be enough for so many orders. An order takes
#: about so many seconds for each pair of nodes, and a move so many.
_FEWEST_ORDERS, _ORDER_SECONDS, _MOVE_SECONDS = 1000, 5e-9, 1e-7


def portfolio(instance: Instance, rng: np.random.Generator, limits: Limits | None = None) -> Partition:
    """Best cut of two orders, then genetic search over orders, then local search.

    The two orders, by index and by depth, are cut into pieces of equal work, which takes milliseconds for large graphs
    too, and sliced exactly where that leaves most of the time. Where graph and time allow a thousand orders and more,
    genetic search has a quarter of the time: on grids of layers in many blocks it finds what no move leads to.
    Local search takes what is left.

    Parameters
    ----------
    instance : Instance
    rng : numpy.random.Generator
    limits : Limits, optional
        Checked between the steps and within the searches; an evaluation is a move that is tried, and an order of the
        genetic search counts as moves that take as long. Without a limit on time or evaluations, 10 million moves.
    """
    limits = limits or Limits()
    graph = instance.graph
    orders = [kahn(graph, np.zeros(graph.n)), graph.topological_order]
    if instance.constraints:
        best = slice_order(instance, orders[0])
    else:
        best = min((_equal_pieces(instance, order) for order in orders), key=lambda partition: partition.preference)
    if _slicing_is_quick(instance, limits):
        for order in orders:
            if not limits.reached(best.bottleneck):
                best = min(best, slice_order(instance, order), key=lambda partition: partition.preference)
    moves = limits.evaluations or (_MOVES if limits.deadline.left == math.inf else sys.maxsize)
    if count := _affordable_orders(instance, limits, moves):
        quarter = replace(limits, deadline=limits.deadline.share(0.25), evaluations=count)
        best = min(best, brkga(instance, rng, quarter), key=lambda partition: partition.preference)
        moves -= moves // 4
    return local_search(instance, rng, limits, start=best, moves=moves)


def _equal_pieces(instance: Instance, order: IntArray) -> Partition:
    """Cut an order where the work before is a multiple of a k-th."""
    work = instance.graph.work[order]
    before = np.cumsum(work) - work
    return cut_order(instance, order, np.searchsorted(before, work.sum() / instance.k * np.arange(instance.k)))


def _slicing_is_quick(instance: Instance, limits: Limits) -> bool:
    n, left = instance.graph.n, limits.deadline.left
    return n <= TABLE_NODES or (n * _SLICING_SECONDS <= left / 4 < math.inf and not _has_peaks(instance))


def _affordable_orders(instance: Instance, limits: Limits, moves: int) -> int:
    """How many orders genetic search slices in a quarter of the time; 0 where they are too few."""
    n = instance.graph.n
    if n > TABLE_NODES or instance.k == 1 or _has_peaks(instance):
        return 0
    orders = int(min(limits.deadline.left, moves * _MOVE_SECONDS) / 4 / (_ORDER_SECONDS * n**2))
    return orders if orders >= _FEWEST_ORDERS else 0


def _has_peaks(instance: Instance) -> bool:
    """Whether costs depend on the peak memory of an order, which makes slicing slow."""
    return instance.needs_peaks
