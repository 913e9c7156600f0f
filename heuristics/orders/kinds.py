"""Best cut of one topological order into blocks on devices of several kinds.

With the devices in any order the program counts how many of each kind are used (`instances.partitioning.kind_paths`).
Where there are too many such numbers, the kinds of the blocks are a sequence, which a descent over exchanges improves;
each sequence is sliced exactly, as is a fixed order. With a rate for each pair of kinds that is so where all tensors
are read in the same segment or in the next one; what is read later is priced as if it came from the segment before.
Where there are too many states, segments begin at some of the nodes only, where the least bytes pass.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from heuristics.orders.orders import segment_costs_kernel
from instances.deadline import Deadline
from instances.errors import InputError, NothingFoundError
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kind_paths import (
    CountedPath,
    RatedSteps,
    best_path,
    best_placed_path,
    best_rated_path,
    best_sequence,
    is_countable,
    is_placeable,
    is_rateable,
    windows_of_steps,
)
from instances.partitioning.partition import IDLE, Partition, check_order
from instances.partitioning.peaks import KernelArrays
from instances.partitioning.problem import Instance

# Numbers in the table of segments.
_MOST_SEGMENTS = 2**27
# Segments with the kinds before, of and behind them that are few enough to look at for each goal.
_MOST_STEPS = 2**23
# With fewer places in an order to cut at, rates for pairs of kinds are left out of account.
_FEWEST_PLACES = 16
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
        return _slice_within(instance, order)
    devices = instance.machines
    if instance.rates is not None:
        path = _rated_path(instance, order, instance.rates)
        if path is not None:
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


def _rated_path(instance: Instance, order: IntArray, rates: FloatArray) -> CountedPath | None:
    """The best path with a rate for each pair of kinds; None if there is none, or there are too many states."""
    n, devices, size = len(order), instance.machines, len(order)
    steps = len(devices.kinds) * (len(devices.kinds) + 1) ** 2
    while size > 1 and not (steps * size**2 <= _MOST_STEPS and is_rateable(devices, size)):
        size -= size // 8 + 1
    if size < min(n, _FEWEST_PLACES):
        return None
    received, sent = _moved(instance, order)
    places = np.arange(n + 1)
    if size < n:  # of places in a row the one that the least bytes pass
        parts = np.array_split(places[1:-1], size - 1)
        places = np.array([0, *(part[sent[0, part - 1].argmin()] for part in parts), n])
    segments = np.ix_(places[:-1], places[1:] - 1)
    costs = np.array([table[segments] for table in costs_of_kinds(instance, order, still=True)])
    path = best_rated_path(RatedSteps(costs, received[segments], sent[segments], rates), devices, instance.k)
    return None if path is None else path._replace(starts=places[path.starts])


def _moved(instance: Instance, order: IntArray) -> tuple[FloatArray, FloatArray]:
    """(n, n) bytes that each segment receives, and those that it sends."""
    tensors, n = instance.graph.tensors, len(order)
    place = np.argsort(order)
    made, tensor = place[tensors.producer], instance.graph.edge_tensor
    tensor, read = np.unique(np.stack((tensor, place[tensors.consumers])), axis=1)
    first = tensor != np.roll(tensor, 1)
    first[:1] = True
    # A segment receives what it reads and what neither it nor what lies between it and the last reader before makes.
    before = np.where(first, made[tensor], np.roll(read, 1))
    received = _sums(before, read, tensors.bytes[tensor], n)
    last = np.roll(first, -1)
    sent = _sums(made[tensor[last]], read[last], tensors.bytes[tensor[last]], n)
    start, end = np.arange(n)[:, None], np.arange(n)[None, :]
    return (
        received[start, end + 1] - received[start, start],
        sent[end + 1, n] - sent[end + 1, end + 1] - sent[start, n] + sent[start, end + 1],
    )


def _sums(row: IntArray, column: IntArray, values: FloatArray, n: int) -> FloatArray:
    """(n + 1, n + 1) sums of the values in rows and columns below each number."""
    table = np.zeros((n + 1, n + 1))
    np.add.at(table, (row + 1, column + 1), values)
    return table.cumsum(axis=0).cumsum(axis=1)


def _slice_within(instance: Instance, order: IntArray) -> Partition:
    """The best partition into segments of the order, each in its window of blocks.

    The order is first sorted by windows, which no edge contradicts. Where devices could be used in too many ways, they
    are used in the order in which they are given. With a rate for each pair of kinds costs are those at the fastest
    rates, on all kinds, and on each alone; the best of these at their rates is the answer.
    """
    rules, k, n, devices = instance.rules, instance.k, instance.graph.n, instance.machines
    devices = devices if is_placeable(devices, n) else replace(devices, order="fixed")
    order = order[np.argsort((rules.first + rules.last)[order], kind="stable")]
    inside = np.argsort(order) < np.arange(n + 1)[:, None]
    costs, windows = costs_of_kinds(instance, order), windows_of_steps(rules, inside, k)
    tables = [costs]
    if instance.rates is not None:
        alone = np.eye(len(costs), dtype=bool)[:, :, None, None]
        tables += [np.where(kind, costs, np.inf) for kind in alone]
    paths = [best_placed_path(table, windows, devices, k) for table in tables]
    cuts = [_cut(instance, order, path.starts, path.kinds, path.places) for path in paths if path is not None]
    if not cuts:
        raise NothingFoundError("No segments of this order fit.")
    return min(cuts, key=lambda cut: cut.preference)


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
