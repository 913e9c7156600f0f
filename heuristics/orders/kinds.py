"""Best cut of one topological order into blocks on devices of several kinds.

With the devices in any order, the states of a dynamic program count the used devices of each kind
(`instances.partitioning.kind_paths`). Where there are too many states, the kinds of the blocks are a sequence, which is
improved by random exchanges; each sequence is sliced exactly, as is a fixed order of the devices. With a rate for each
pair of kinds, slicing is exact where all tensors are read in the same segment or in the next one; a tensor that is read
later is priced as if it came from the segment before its reader. Where there are too many states then, segments begin
only at positions of the order that few bytes cross.
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
    layers_in_a_row,
    windows_of_steps,
)
from instances.partitioning.partition import IDLE, Partition, check_order
from instances.partitioning.peaks import KernelArrays
from instances.partitioning.problem import Instance

# Numbers in the table of segments.
_MOST_SEGMENTS = 2**27
# Segments with the kinds before, of and behind them that are few enough to look at for each goal, and operations.
_MOST_STEPS, _MOST_WORK = 2**23, 2**28
# With fewer places to cut at for each device, rates for pairs of kinds are left out of account.
_PLACES_OF_DEVICE = 4
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
        A topological order; where nodes have windows, it is sorted by them first.
    deadline : Deadline, optional
        Time limit of the local search, used if there are too many states, and of the program with rates for pairs.
    seed : int
        Seed of that local search.

    Returns
    -------
    Partition
        Optimal among all partitions into segments of `order`, in a fixed order or where all states can be enumerated.
        With a rate for each pair of kinds that is so of layers in a row alone; else it is the best of several.

    Raises
    ------
    NothingFoundError
        If no segments fit.
    """
    order = check_order(instance.graph, order)
    if instance.has_windows:
        return _slice_within(instance, order)
    cuts, whole, deadline = [], False, deadline or Deadline()
    if instance.rates is not None:
        path, whole = _rated_path(instance, order, instance.rates, deadline)
        if path is not None:
            cuts.append(_cut(instance, order, path.starts, path.kinds))
        if cuts and whole and layers_in_a_row(instance.graph) is not None and not deadline.passed:
            return cuts[0]
    costs, devices = costs_of_kinds(instance, order), instance.machines
    paths = [_path(instance, costs, deadline, seed)]
    if instance.rates is not None and not whole and not devices.is_fixed:
        # What costs at the fastest rates leave out does not count on one kind alone.
        sequences = (np.full(min(count, instance.k), t) for t, count in enumerate(devices.counts))
        paths += [(*best_sequence(costs, sequence), sequence) for sequence in sequences]
    cuts += [_cut(instance, order, starts, kinds) for bottleneck, starts, kinds in paths if bottleneck < math.inf]
    return _best(cuts)


def _path(instance: Instance, costs: FloatArray, deadline: Deadline, seed: int) -> tuple[float, IntArray, IntArray]:
    """Bottleneck, segment starts and kinds of the best path; an infinite bottleneck if there is none."""
    devices = instance.machines
    if not devices.is_fixed and is_countable(devices.counts, instance.graph.n):
        path = best_path(costs, devices.counts, instance.k)
        return (math.inf, *(np.empty(0, dtype=np.int64),) * 2) if path is None else path
    if devices.is_fixed:
        return *best_sequence(costs, np.array(devices.sequence)), np.array(devices.sequence)
    return _descend(instance, costs, deadline, seed)


def _best(cuts: list[Partition]) -> Partition:
    if not cuts:
        raise NothingFoundError("No segments of this order fit.")
    return min(cuts, key=lambda cut: cut.preference)


def _rated_path(
    instance: Instance, order: IntArray, rates: FloatArray, deadline: Deadline
) -> tuple[CountedPath | None, bool]:
    """The best path with rates for pairs of kinds, and whether segments could begin at every node.

    The path is None if there are too many states, or nothing fits.
    """
    n, devices, size = len(order), instance.machines, len(order)
    costs = costs_of_kinds(instance, order, still=True)
    if layers_in_a_row(instance.graph) is None or not is_rateable(devices, n):
        steps = len(devices.kinds) ** 3
        while size > 1 and not (steps * size**2 <= _MOST_STEPS and is_rateable(devices, size, _MOST_WORK)):
            size -= size // 8 + 1
    if size < min(n, _PLACES_OF_DEVICE * instance.k):
        return None, False
    places, received, sent = _moved(instance, order, size)
    costs = np.array([table[np.ix_(places[:-1], places[1:] - 1)] for table in costs])
    path = best_rated_path(RatedSteps(costs, received, sent, rates), devices, instance.k, deadline=deadline)
    return None if path is None else path._replace(starts=places[path.starts]), size == n


def _moved(instance: Instance, order: IntArray, size: int) -> tuple[IntArray, FloatArray, FloatArray]:
    """Positions that cut an order evenly where few bytes cross, and bytes that segments between them move.

    Parameters
    ----------
    size : int
        Number of pieces into which the positions cut the order.

    Returns
    -------
    tuple
        (size + 1,) positions, from 0 to n; and, for each segment from the begin of one piece to the end of another,
        (size, size) bytes that it receives from nodes before it, and bytes that it sends to nodes after it.
    """
    tensors, n, place = instance.graph.tensors, len(order), np.argsort(order)
    # Places that read a tensor, each once; of a tensor they are in a row, in their order.
    tensor, read = np.unique(np.stack((instance.graph.edge_tensor, place[tensors.consumers])), axis=1)
    made, passed, first = place[tensors.producer[tensor]], tensors.bytes[tensor], tensor != np.roll(tensor, 1)
    first[:1] = True
    last = np.roll(first, -1)
    places = np.arange(n + 1)
    if size < n:
        begun, ended = (np.bincount(at[last] + 1, passed[last], n + 1) for at in (made, read))
        passing = (begun - ended).cumsum()
        inner = [part[passing[part].argmin()] for part in np.array_split(places[1:-1], size - 1)]
        places = np.array([0, *inner, n])
    # A segment receives a tensor if its first reader in it is behind its last one before it, or behind what makes it.
    received = _sums(places, np.where(first, made, np.roll(read, 1)), read, passed)
    sent = _sums(places, made[last], read[last], passed[last])
    begin, end = np.arange(size)[:, None], np.arange(1, size + 1)[None, :]
    return (
        places,
        received[begin, end] - received[begin, begin],
        sent[end, size] - sent[end, end] - sent[begin, size] + sent[begin, end],
    )


def _sums(places: IntArray, made: IntArray, read: IntArray, values: FloatArray) -> FloatArray:
    """(p, p) table: at [a, b] the sum of `values` of the tensors made before place a and read before place b."""
    table = np.zeros((len(places), len(places)))
    np.add.at(table, (np.searchsorted(places, made, "right"), np.searchsorted(places, read, "right")), values)
    return table.cumsum(axis=0).cumsum(axis=1)


def _slice_within(instance: Instance, order: IntArray) -> Partition:
    """The best partition into segments of the order, each node in its window of blocks.

    The order is first sorted by windows, which no edge contradicts. If device sequences are too many to enumerate,
    devices are used in the given order. With rates for pairs of kinds, costs are those at the fastest rates. They are
    exact if only one kind is used, so each kind is also tried alone.
    """
    rules, k, n, devices = instance.rules, instance.k, instance.graph.n, instance.machines
    devices = devices if is_placeable(devices, n) else replace(devices, order="fixed")
    order = order[np.argsort((rules.first + rules.last)[order], kind="stable")]
    inside = np.argsort(order) < np.arange(n + 1)[:, None]
    costs, windows = costs_of_kinds(instance, order), windows_of_steps(rules, inside, k)
    tables = [costs]
    if instance.rates is not None:
        tables += [np.where(kind, costs, np.inf) for kind in np.eye(len(costs), dtype=bool)[:, :, None, None]]
    paths = [best_placed_path(table, windows, devices, k) for table in tables]
    return _best([_cut(instance, order, path.starts, path.kinds, path.places) for path in paths if path is not None])


def _descend(instance: Instance, costs: FloatArray, deadline: Deadline, seed: int) -> tuple[float, IntArray, IntArray]:
    """Bottleneck, starts and kinds of the best slicing for a device sequence improved by random exchanges.

    The first sequence is sorted by speed, fastest first. An exchange, also with a device beyond the first k, stays if
    it is no worse.
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
