"""Best cut of one topological order into blocks on devices of several kinds.

With the devices in any order the program counts how many of each kind are used (`instances.partitioning.kind_paths`).
Where there are too many such numbers, the kinds of the blocks are a sequence, which a descent over exchanges improves;
each sequence is sliced exactly, as is a fixed order. With a rate for each pair of kinds that is so for layers in a row;
else costs are those at the fastest rates.
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


def _slice_within(instance: Instance, order: IntArray) -> Partition:
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
