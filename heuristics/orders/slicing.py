r"""Slicing of orders: the best cut of a topological order into blocks, by dynamic programs.

**SliceGraph: cut a topological order into at most k segments at the smallest bottleneck.**

For the order :math:`\pi`, `cost[l, r]` is :math:`f(\{\pi_l, \dots, \pi_r\})` of eq. (3). Then

.. math::

    \mathrm{best}[0, b] = 0, \qquad
    \mathrm{best}[r + 1, b] = \min_{l \le r} \max(\mathrm{best}[l, b - 1], \mathrm{cost}[l, r])

is the optimal bottleneck of the first r + 1 nodes in at most b blocks (MTPP, Algorithm 1 and Lemma 3.3),
and one pass gives every b up to k.

Segment costs (Lemma 3.2) take no two-dimensional structure here. When r grows by one node, the cost of
all segments that end in r changes on intervals of l: a tensor that was last touched at position p and is
read at r is received by the segments that start in (p, r], and the segments that start at or before a
producer stop sending its tensor when its last reader joins them. So a list of differences over l is kept,
whose suffix sums are the costs; a step costs the degree of the new node plus the scan of its row.

Work alone bounds the cost of a segment from below and grows as l falls, so the scan of a row drops each b
as soon as the work of the segment reaches best[r + 1, b]. The rows then have about n / b entries instead
of n, and all k together cost O(n² log k) in place of O(n² k).

A large graph is sliced for one k by bisection over the bottleneck instead: see `heuristics.orders.bisection`.

Under constraints the last segment is block b itself, which may be empty and holds only nodes whose windows have b in
them; the nodes of the order are sorted by window before.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from heuristics.method import Limits
from heuristics.orders.bisection import cut_order, slice_by_bisection
from heuristics.orders.kinds import slice_kinds
from heuristics.orders.orders import by_window, kahn, segment_costs_kernel, slice_kernel, slice_within
from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from instances.errors import NothingFoundError
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.partition import check_order
from instances.partitioning.peaks import KernelArrays
from instances.partitioning.symmetry import merge

#: Up to here the table of all k is the faster way to slice for one k.
TABLE_NODES = 2_000
#: Up to here the peaks of all segments of an order, n² floats, are kept.
_PEAK_NODES = 10_000
#: Approximate time of the peak of a segment.
_PEAK_SECONDS = 1e-7
#: How many constants are tried for the peaks of a larger graph.
_BUFFERS = 3


def segment_costs(instance: Instance, order: ArrayLike) -> FloatArray:
    """Cost of every segment of an order.

    Parameters
    ----------
    instance : Instance
        Its platform gives the bandwidth and the memory of every segment.
    order : (n,) integers
        A topological order.

    Returns
    -------
    (n, n) floats
        ``cost[l, r]``, eq. (3), in the time unit of the work; 0 where r < l.

    References
    ----------
    MTPP, Lemma 3.2.
    """
    return segment_costs_kernel(check_order(instance.graph, order), KernelArrays.of(instance))


def slice_order(instance: Instance, order: ArrayLike, deadline: Deadline | None = None) -> Partition:
    """Best partition of an order into at most k segments.

    Parameters
    ----------
    instance : Instance
        The question, with or without constraints.
    order : (n,) integers
        A topological order.
    deadline : Deadline, optional
        Graphs with more than 2,000 nodes get the best slicing found by then; smaller ones take negligible time.
        Over kinds of devices it ends a search among their sequences, and one with a rate for each pair.

    Returns
    -------
    Partition
        Optimal among all partitions into consecutive segments of `order`, which it carries; except where memory is
        finite, no activation buffer is fixed and the graph has more than 10,000 nodes: then the best of a few
        slicings, each with one constant for the peaks. Where nodes have windows, `order` is sorted by them before.
        Over kinds of devices each segment has one, the best where all states can be enumerated; with a rate for each
        pair of kinds that holds of layers in a row.

    Raises
    ------
    NothingFoundError
        If no slicing obeys the constraints of the instance, or over kinds of devices none fits.

    References
    ----------
    MTPP, Algorithm 1 (SliceGraph) and Lemma 3.3.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 2, 3], output_bytes=[1, 1, 0])
    >>> slice_order(Instance(graph, Platform(k=2, bandwidth=1)), [0, 1, 2]).bottleneck
    4.0
    """
    if not instance.is_alike:
        return slice_kinds(instance, order, deadline)
    order = check_order(instance.graph, order)
    arrays = KernelArrays.of(instance)
    if arrays.is_constrained:
        return _slice_within(instance, order, arrays)
    if _has_table(instance.graph.n, arrays.needs_peaks, deadline or Deadline()):
        _, cut = slice_kernel(order, instance.k, arrays)
        return cut_order(instance, order, _starts(cut, instance.k))
    return (_slice_by_buffers if arrays.needs_peaks else slice_by_bisection)(instance, order, deadline)


def slice_order_for_all_k(instance: Instance, order: ArrayLike) -> list[Partition]:
    """Best partitions of an order into at most 1, 2, …, k segments, from one pass.

    Parameters
    ----------
    instance : Instance
        Its k is the largest number of blocks.
    order : (n,) integers
        A topological order.

    Returns
    -------
    list of Partition
        Entry ``b - 1`` answers the instance with b blocks.
    """
    if instance.constraints:
        return [slice_order(instance.with_k(k), order) for k in range(1, instance.k + 1)]
    order = check_order(instance.graph, order)
    _, cut = slice_kernel(order, instance.k, KernelArrays.of(instance))
    return [cut_order(instance.with_k(k), order, _starts(cut, k)) for k in range(1, instance.k + 1)]


def _slice_within(instance: Instance, order: IntArray, arrays: KernelArrays) -> Partition:
    """The best slicing that obeys the constraints.

    Without `at_least` rules one always exists: each node in the first block of its window.
    """
    order = by_window(order, arrays)
    if len(order) > TABLE_NODES and (chunks := _chunks(order, arrays)).max() + 1 < len(order):
        merged = merge(instance, chunks)
        rank = np.arange(merged.instance.graph.n)
        return merged.expand(_slice_within(merged.instance, rank, KernelArrays.of(merged.instance)))
    best, cut = slice_within(order, instance.k, arrays)
    if best[-1, -1] < math.inf:
        end, block = len(order), np.empty(len(order), dtype=np.int64)
        for b in range(instance.k - 1, -1, -1):
            start = int(cut[end, b + 1])
            block[order[start:end]] = b
            end = start
        return Partition(instance, block, order)
    if not arrays.least.any():
        return Partition(instance, arrays.first, order)
    raise NothingFoundError("No slicing of this order has enough of the counted nodes in every block.")


def _chunks(order: IntArray, arrays: KernelArrays) -> IntArray:
    """(n,) number of the chunk of each node: consecutive nodes with about equal work and the same window."""
    work = np.cumsum(arrays.work[order])
    piece = np.floor(work * (TABLE_NODES / (work[-1] or 1.0)))
    marks = np.column_stack((arrays.first[order], arrays.last[order], piece))
    number = np.cumsum(np.append(False, (np.diff(marks, axis=0) != 0).any(axis=1)))
    chunk = np.empty(len(order), dtype=np.int64)
    chunk[order] = number
    return chunk


def _has_table(n: int, needs_peaks: bool, deadline: Deadline) -> bool:
    """Whether to compute the costs of all segments in one table: for small graphs, or where it is fast enough."""
    return n <= TABLE_NODES or (needs_peaks and n <= _PEAK_NODES and n**2 * _PEAK_SECONDS < deadline.left)


def _slice_by_buffers(instance: Instance, order: IntArray, deadline: Deadline | None) -> Partition:
    """The best of a few slicings, each computed with one fixed activation peak for all blocks.

    The first assumes no activations; each later one assumes the peak of the slowest block of the slicing before.
    """
    best, buffer = None, 0.0
    for _ in range(_BUFFERS):
        linear = replace(instance, activation_buffer=buffer)
        candidate = Partition(instance, slice_by_bisection(linear, order, deadline).block, order)
        best = min(best or candidate, candidate, key=lambda partition: partition.preference)
        buffer = float(candidate.peaks[candidate.block_costs.argmax()])
    assert best is not None
    return best


def _starts(cut: IntArray, k: int) -> IntArray:
    """Starts of the segments of the best slicing into k blocks, from the table of `slice_kernel`."""
    starts = [int(cut[-1, k])]
    while starts[-1] > 0:
        k -= 1
        starts.append(int(cut[starts[-1], k]))
    return np.array(starts[::-1])


# Partitions that are found at once: one block, pieces of equal work, and the slicing of one order.


#: Of a large graph an order is sliced exactly if that is likely to take no more than a quarter of the time: about
#: this many seconds a node.
_SLICING_SECONDS = 1e-4


def at_once(instance: Instance, limits: Limits) -> Partition:
    """The best of quick answers: one block, two orders in equal pieces and, if time allows, their slicings.

    The orders are Kahn's with equal priorities, which is always sliced up to 2,000 nodes, and that by depth.

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
    """Cut an order into k pieces of about equal work."""
    work = instance.graph.work[order]
    before = np.cumsum(work) - work
    return cut_order(instance, order, np.searchsorted(before, work.sum() / instance.k * np.arange(instance.k)))


def _is_quick(instance: Instance, limits: Limits) -> bool:
    n, remaining = instance.graph.n, limits.deadline.left
    return n <= TABLE_NODES or (n * _SLICING_SECONDS <= remaining / 4 < math.inf and not instance.needs_peaks)
