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
from heuristics.orders.orders import by_window, kahn, segment_costs_kernel, slice_kernel, slice_within
from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from instances.errors import NothingFoundError
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kind_paths import (
    RatedSteps,
    best_path,
    best_placed_path,
    best_rated_path,
    best_sequence,
    is_countable,
    is_placeable,
    is_rateable,
    layers_in_a_row,
    windows_of_steps,
)
from instances.partitioning.partition import IDLE, check_order
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
        Of graphs with more than 2,000 nodes the best slicing found by then; smaller ones take no time worth counting.

    Returns
    -------
    Partition
        Optimal among all partitions into consecutive segments of `order`, which it carries; except where memory is
        finite, no activation buffer is fixed and the graph has more than 10,000 nodes: then the best of a few
        slicings, each with one constant for the peaks. Where nodes have windows, `order` is sorted by them before.
        Over kinds of devices each segment has one, the best where all states can be looked at.

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

    Without least numbers there is always one: each node in the first block of its window.
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
    """(n,) number of the chunk of each node: pieces of the order with about the same work and one window of blocks."""
    work = np.cumsum(arrays.work[order])
    piece = np.floor(work * (TABLE_NODES / (work[-1] or 1.0)))
    marks = np.column_stack((arrays.first[order], arrays.last[order], piece))
    number = np.cumsum(np.append(False, (np.diff(marks, axis=0) != 0).any(axis=1)))
    chunk = np.empty(len(order), dtype=np.int64)
    chunk[order] = number
    return chunk


def _has_table(n: int, needs_peaks: bool, deadline: Deadline) -> bool:
    """Whether to make the table of all segments, which nothing interrupts: it is small, or fits into the time."""
    return n <= TABLE_NODES or (needs_peaks and n <= _PEAK_NODES and n**2 * _PEAK_SECONDS < deadline.left)


def _slice_by_buffers(instance: Instance, order: IntArray, deadline: Deadline | None) -> Partition:
    """The best of a few slicings that each assume one peak of activations for all blocks.

    The first assumes none, and each other one the peak of the slowest block of the slicing before.
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


# Best cut of one topological order into blocks on devices of several kinds.
#
# With the devices in any order the program counts how many of each kind are used
# (`instances.partitioning.kind_paths`). Where there are too many such numbers, the kinds of the blocks are a
# sequence, which a descent over exchanges improves; each sequence is sliced exactly, as is a fixed order. With a rate
# for each pair of kinds that is so for layers in a row; else costs are those at the fastest rates.


# Numbers in the table of segments.
_MOST_SEGMENTS = 2**27
# Exchanges that a descent tries for each device.
_EXCHANGES_OF_KINDS = 40


def costs_of_kinds(instance: Instance, order: IntArray, *, still: bool = False) -> FloatArray:
    """Cost of each segment of an order on a device of each kind, (T, n, n).

    It is infinite where the segment has to fit and does not, or cannot run there. If `still`, transfers are left out.

    Raises
    ------
    InputError
        If the table would take too much memory.
    """
    n = instance.graph.n
    if instance.kinds * n**2 > _MOST_SEGMENTS:
        raise InputError(
            f"{instance.name}: {n} nodes are too many for {instance.kinds} kinds of devices; take layers as nodes, or "
            "fewer kinds."
        )
    tables = []
    for t in range(instance.kinds):
        arrays = KernelArrays.of(instance.of_kind(t))
        if still:
            arrays = arrays._replace(tensor_time=np.zeros_like(arrays.tensor_time))
        costs = segment_costs_kernel(order, arrays)
        if arrays.overflow_step > 0:
            costs[costs >= arrays.overflow_step] = np.inf
        barred = np.append(0, np.cumsum(~instance.able[t, order]))
        costs[barred[:-1, None] < barred[1:]] = np.inf
        tables.append(costs)
    return np.array(tables)


def slice_kinds(instance: Instance, order: ArrayLike, deadline: Deadline | None = None, seed: int = 0) -> Partition:
    """Best partition of an order into consecutive segments.

    Parameters
    ----------
    order : (n,) integers
        A topological order; where nodes have windows, it is sorted by them before.
    deadline : Deadline, optional
        Of the descent, where there are too many states.
    seed : int
        Of that descent.

    Returns
    -------
    Partition
        Optimal among all partitions into segments of `order`, in a fixed order or where all states can be looked at.

    Raises
    ------
    NothingFoundError
        If no segments fit.
    """
    order = check_order(instance.graph, order)
    if instance.has_windows:
        return _slice_over_kinds(instance, order)
    sizes, devices = None if instance.rates is None else layers_in_a_row(instance.graph), instance.machines
    if instance.rates is not None and sizes is not None and is_rateable(devices, instance.graph.n):
        steps = RatedSteps(costs_of_kinds(instance, order, still=True), sizes, instance.rates)
        path = best_rated_path(steps, devices, instance.k)
        if path is None:
            raise NothingFoundError("No segments of this order fit.")
        return _cut(instance, order, path.starts, path.kinds)
    costs = costs_of_kinds(instance, order)
    if not devices.is_fixed and is_countable(devices.counts, instance.graph.n):
        path = best_path(costs, devices.counts, instance.k)
        if path is None:
            raise NothingFoundError("No segments of this order fit.")
        return _cut(instance, order, path.starts, path.kinds)
    sequence = np.array(devices.sequence)
    best, starts = best_sequence(costs, sequence)
    if not devices.is_fixed:
        best, starts, sequence = _descend(instance, costs, deadline or Deadline(), seed)
    if best == math.inf:
        raise NothingFoundError("No segments of this order fit.")
    return _cut(instance, order, starts, sequence)


def _slice_over_kinds(instance: Instance, order: IntArray) -> Partition:
    """The best partition into segments of the order, each in its window of blocks.

    The order is first sorted by windows, which no edge contradicts. Where devices could be used in too many ways, they
    are used in the order in which they are given.
    """
    rules, k, n, devices = instance.rules, instance.k, instance.graph.n, instance.machines
    devices = devices if is_placeable(devices, n) else replace(devices, order="fixed")
    order = order[np.argsort((rules.first + rules.last)[order], kind="stable")]
    inside = np.argsort(order) < np.arange(n + 1)[:, None]
    path = best_placed_path(costs_of_kinds(instance, order), windows_of_steps(rules, inside, k), devices, k)
    if path is None:
        raise NothingFoundError("No segments of this order fit.")
    return _cut(instance, order, path.starts, path.kinds, path.places)


def _descend(instance: Instance, costs: FloatArray, deadline: Deadline, seed: int) -> tuple[float, IntArray, IntArray]:
    """Bottleneck, starts and kinds of the best slicing for a sequence of devices, which random exchanges improve.

    It begins with the fastest first; an exchange stays if it is no worse, also with devices beyond the first k.
    """
    rng, k = np.random.default_rng(seed), instance.k
    sequence = np.array(instance.machines.sequence)
    sequence = sequence[np.argsort(instance.finite_works.sum(axis=1)[sequence], kind="stable")]
    best, starts = best_sequence(costs, sequence[:k])
    for _ in range(_EXCHANGES_OF_KINDS * len(sequence)):
        if deadline.passed:
            break
        a, b = rng.integers(k), rng.integers(len(sequence))
        if sequence[a] == sequence[b]:
            continue
        other = sequence.copy()
        other[[a, b]] = other[[b, a]]
        value, begins = best_sequence(costs, other[:k])
        if value <= best:
            best, starts, sequence = value, begins, other
    return best, starts, sequence[:k]


def _cut(
    instance: Instance, order: IntArray, starts: IntArray, kinds: IntArray, places: IntArray | None = None
) -> Partition:
    places = np.arange(len(kinds)) if places is None else places
    block = np.empty(len(order), dtype=np.int64)
    block[order] = places[np.searchsorted(starts, np.arange(len(order)), side="right") - 1]
    padded = np.full(instance.k, IDLE)
    padded[places] = kinds
    return Partition(instance, block, order, padded)
