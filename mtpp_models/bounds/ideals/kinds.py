"""The optimum over kinds of devices by a program over the ideals of the graph.

The first blocks of a partition hold an ideal. A path from the empty ideal to all nodes, each step of which is a block
on a device of some kind, is a partition; `instances.partitioning.kind_paths` finds that of least bottleneck.
Of a graph with one topological order the ideals are its beginnings.

Costs grow node by node: a step from I to J continues one from I to J without a last node of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from instances import Bound, InputError, Result
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kind_paths import (
    CountedPath,
    PlacedPath,
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
from instances.partitioning.memory import BYTE_ROUNDING, Loads
from instances.partitioning.partition import IDLE, Partition
from instances.partitioning.peaks import KernelArrays
from instances.partitioning.problem import Instance
from instances.results import PROOF_TOLERANCE
from mtpp_models.simple import simple_bound

IDEALS = "ideals"
# Numbers in the table of steps, a kind.
_MOST_STEPS = 2**24
_Ideals = tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]  # as of `list_ideals`
# What sums of floats may be wrong by, relative to all that is summed.
_ROUNDING = 1e-13


def ideals_of_kinds(start: Partition, deadline: Deadline) -> Result:
    """The optimum with its partition for a graph with few ideals; else the bound *simple*.

    The result is only a lower bound where no activation buffer is fixed, as a block's peak then counts as the largest
    need of its nodes, and with rates for pairs of kinds unless the layers are in a row and have no windows.
    """
    instance = start.instance
    listed = list_ideals(instance, int((_MOST_STEPS / instance.kinds) ** 0.5), deadline)
    if listed is None or not _is_small(instance, len(listed[0]) - 1):
        return Result(IDEALS, instance, start, simple_bound(instance))
    best, value = start, 0.0
    for path in _paths(instance, listed):
        if path is None or path.bottleneck == math.inf:
            return Result(IDEALS, instance, impossible="does not fit: no cut into blocks fits on these devices")
        value = max(value, path.bottleneck)
        if isinstance(path, PlacedPath) or not instance.has_windows:
            best = min(best, _partition(instance, listed[0], path), key=lambda partition: partition.preference)
        if deadline.passed or value >= best.bottleneck * (1 - PROOF_TOLERANCE):
            break
    return Result(IDEALS, instance, best, Bound(min(value, best.bottleneck), IDEALS))


def _partition(instance: Instance, inside: NDArray[np.bool_], path: CountedPath | PlacedPath) -> Partition:
    block, kind = np.zeros(instance.graph.n, dtype=np.int64), np.full(instance.k, IDLE)
    places = path.places if isinstance(path, PlacedPath) else np.arange(len(path.kinds))
    for b, position in zip(places.tolist(), path.starts.tolist(), strict=True):
        block[~inside[position]] = b
    kind[places] = path.kinds
    return Partition(instance, block, kind=kind)


def _is_small(instance: Instance, positions: int) -> bool:
    if instance.has_windows:
        return is_placeable(instance.machines, positions)
    return instance.machines.is_fixed or is_countable(instance.machines.counts, positions)


def _paths(instance: Instance, listed: _Ideals) -> Iterator[CountedPath | PlacedPath | None]:
    """Yield optimal paths of blocks, one for each relaxation; the bottleneck of each is a lower bound.

    With windows, transfers are at the fastest rates. With rates for pairs of kinds, windows are dropped: one relaxation
    has the rates between consecutive blocks, which is exact for layers in a row; the other the fastest rates from any
    kind before a block and to any kind behind it.
    """
    devices = instance.machines
    if instance.has_windows:
        windows = windows_of_steps(instance.rules, listed[0], instance.k)
        yield best_placed_path(_steps(instance, *listed), windows, devices, instance.k)
        if instance.rates is None:
            return
    if instance.rates is not None and is_rateable(devices, len(listed[0]) - 1):
        yield best_rated_path(_paired_steps(instance, instance.rates, listed), devices, instance.k)
    costs, table = _rated_steps(instance, listed)
    if devices.is_fixed:
        sequence = np.array(devices.sequence)
        bottleneck, starts = best_sequence(costs, table[np.arange(len(sequence)) % len(table), sequence])
        yield CountedPath(bottleneck, starts, sequence)
    else:
        yield best_path(costs, devices.counts, instance.k, table=table)


def sufficient_counts(
    instance: Instance, choices: Iterable[tuple[int, ...]], ceiling: float, deadline: Deadline
) -> Iterator[tuple[int, ...]]:
    """Yield the `choices`, numbers of devices of each kind, that may reach a bottleneck of at most `ceiling`.

    Raises
    ------
    InputError
        If the graph has too many ideals.
    """
    listed = list_ideals(instance, int((_MOST_STEPS / instance.kinds) ** 0.5), deadline)
    if listed is None and deadline.passed:
        return
    if listed is None:
        raise InputError(
            f"{instance.name}: prices are compared for layers in a row and graphs with few ideals; give such a graph, "
            "or devices without prices."
        )
    costs = _steps(instance, *listed)
    for counts in choices:
        if deadline.passed:
            return
        if best_path(costs, counts, sum(counts), ceiling) is not None:
            yield counts


def list_ideals(instance: Instance, limit: int, deadline: Deadline) -> _Ideals | None:
    """All ideals by size, with the nodes that can be the last of each, and the ideals without these nodes.

    Returns
    -------
    tuple, or None if there are more than `limit`, or no time
        (c, n) booleans, the nodes of each ideal; (c, p) its possible last nodes; (c, p) the index of the ideal without
        that node. Both tables are padded with -1.
    """
    graph = instance.graph
    before = [0] * graph.n
    for u, v in graph.edges.tolist():
        before[v] |= 1 << u
    level, ideals, place = [0], [0], {0: 0}
    pairs: list[list[tuple[int, int]]] = [[]]
    while level:
        following: dict[int, None] = {}
        for ideal in level:
            if deadline.passed:
                return None
            for v in range(graph.n):
                if not ideal >> v & 1 and before[v] & ~ideal == 0:
                    larger = ideal | 1 << v
                    if larger not in place:
                        if len(ideals) >= limit:
                            return None
                        place[larger] = len(ideals)
                        ideals.append(larger)
                        pairs.append([])
                        following[larger] = None
                    pairs[place[larger]].append((v, place[ideal]))
        level = list(following)
    inside = np.array([[ideal >> v & 1 for v in range(graph.n)] for ideal in ideals], dtype=np.bool_)
    width = max(map(len, pairs))
    node, parent = (np.full((len(ideals), width), -1) for _ in range(2))
    for i, row in enumerate(pairs):
        for p, (v, smaller) in enumerate(row):
            node[i, p], parent[i, p] = v, smaller
    return inside, node, parent


def _paired_steps(instance: Instance, rates: FloatArray, listed: _Ideals) -> RatedSteps:
    """Costs of blocks between two ideals, where transfers depend on the kinds of the blocks before and behind.

    If the ideal before a block has a single possible last node, that node is in the block before; if a single node can
    follow the ideal after it, that node is in the block behind. Tensors made by this last node or read by this next
    node move at the rate of the pair of kinds, all other tensors at the fastest rate.
    """
    (inside, node, parent), tensors = listed, instance.graph.tensors
    is_node, last = node >= 0, np.where(np.count_nonzero(node >= 0, axis=1) == 1, node[:, 0], -1)
    first = np.full(len(inside), -1)
    first[parent[is_node]] = node[is_node]
    first[np.bincount(parent[is_node], minlength=len(inside)) != 1] = -1
    still, all_received, all_sent = _steps(instance, *listed, still=True), *_moved(instance, *listed)
    received, sent = np.zeros_like(all_received), np.zeros_like(all_sent)
    for maker, size, *ends in zip(tensors.producer, tensors.bytes, tensors.start[:-1], tensors.start[1:], strict=True):
        readers = tensors.consumers[slice(*ends)]
        behind, before = np.flatnonzero(last[:-1] == maker), np.flatnonzero(np.isin(first, readers) & inside[:, maker])
        received[behind] += size * (inside[1:, readers] > inside[behind][:, None, readers]).any(axis=2)
        sent[:, before - 1] += size * ~inside[:-1, maker, None]
    received, sent = received * (1 - 2 * _ROUNDING), sent * (1 - 2 * _ROUNDING)
    fastest = rates if len(rates) == 1 else np.where(np.diag(np.array(instance.machines.counts) < 2), 0.0, rates)
    others = np.maximum(0.0, all_received - received)[None] / fastest.max(axis=0)[:, None, None]
    others += np.maximum(0.0, all_sent - sent)[None] / fastest.max(axis=1)[:, None, None]
    return RatedSteps(still + (1 - _ROUNDING) * others, received, sent, rates)


def _rated_steps(instance: Instance, listed: _Ideals) -> tuple[FloatArray, IntArray]:
    """(c, m, m) costs of blocks between two ideals, and (states, T) index of the costs to use, for `best_path`.

    Without rates for pairs, or where there are too many costs or states, each kind has its fastest rate.
    """
    by_state = _rates_by_state(instance)
    if by_state is None or len(by_state[0]) * len(listed[0]) ** 2 > _MOST_STEPS:
        return _steps(instance, *listed), np.arange(instance.kinds)[None]
    still, received, sent = _steps(instance, *listed, still=True), *_moved(instance, *listed)
    costs = []
    for kind, before, behind in by_state[0].tolist():
        # A device behind no others receives nothing, and the last one sends nothing.
        parts = [received / (before or math.inf), sent / (behind or math.inf)]
        costs.append(still[int(kind)] + (1 - _ROUNDING) * sum(parts))
    return np.array(costs), by_state[1]


def _rates_by_state(instance: Instance) -> tuple[FloatArray, IntArray] | None:
    """(c, 3) rows of a kind and the fastest rates at which it receives and sends; (states, T) row of each kind.

    A state is the number of devices of each kind that are used so far; in a fixed order of the devices, the number of
    the device. A block receives from kinds that are used before it, and sends to kinds of which devices are left. None
    without rates, or if there are too many states.
    """
    kinds, rates, devices = instance.kinds, instance.rates, instance.machines
    sizes = [devices.total, kinds] if devices.is_fixed else [count + 1 for count in devices.counts]
    if rates is None or math.prod(sizes) * kinds**2 > _MOST_STEPS:
        return None
    each, available = np.eye(kinds, dtype=np.int64), np.array(devices.counts)
    if devices.is_fixed:
        taken = each[list(devices.sequence)]
        used = taken.cumsum(axis=0) - taken
        steps = taken.astype(bool)
    else:
        used = np.indices(sizes[::-1]).reshape(kinds, -1)[::-1].T
        steps = used < available
    before = np.where(used[:, :, None] > 0, rates, 0.0).max(axis=1)
    behind = np.where(available - used[:, None] - each > 0, rates, 0.0).max(axis=2)
    fastest = np.stack([np.broadcast_to(np.arange(kinds), used.shape), before, behind], axis=2)[steps]
    distinct, which = np.unique(fastest, axis=0, return_inverse=True)
    table = np.zeros(used.shape, dtype=np.int64)
    table[steps] = which
    return distinct, table


def _moved(
    instance: Instance, inside: NDArray[np.bool_], node: IntArray, parent: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(m, m) least bytes that the block between two ideals receives, and that it sends; 0 if there is no block."""
    graph, arrays = instance.graph, KernelArrays.of(instance.of_kind(0))
    arrays = arrays._replace(work=np.zeros(graph.n), memory=math.inf)
    sizes, nothing = np.where(arrays.readers > 0, arrays.tensor_bytes, 0.0), np.zeros(len(arrays.readers))
    tables = graph.tensors.start, graph.tensors.consumers, inside, node, parent, np.zeros(graph.n), 0.0
    moved = _step_kernel(arrays, sizes, nothing, *tables), _step_kernel(arrays, nothing, sizes, *tables)
    least = np.maximum(0.0, np.where(np.isfinite(moved), moved, 0.0) - 2 * _ROUNDING * float(sizes.sum()))
    return least[0], least[1]


def _steps(
    instance: Instance, inside: NDArray[np.bool_], node: IntArray, parent: IntArray, *, still: bool = False
) -> FloatArray:
    """(T, m, m) cost on each kind of the block between two ideals, for `best_path`; infinite if there is no block.

    At [t, i, j] it is the block from ideal i to ideal j + 1. If `still`, transfers are left out.
    """
    costs_of_kinds = []
    for t in range(instance.kinds):
        question = instance.of_kind(t)
        arrays, by_need = KernelArrays.of(question), question.needs_peaks
        time = np.zeros_like(arrays.tensor_time) if still else arrays.tensor_time
        needs = question.needs if by_need else np.zeros(question.graph.n)
        tensors, slack = question.graph.tensors, 0.0 if question.has_exact_bytes else BYTE_ROUNDING
        tables = time, time, tensors.start, tensors.consumers, inside, node, parent, needs
        costs = _step_kernel(arrays, *tables, slack)
        if arrays.overflow_step > 0:
            if slack:
                doubtful = (costs < arrays.overflow_step) & (
                    _step_kernel(arrays, *tables, -slack) >= arrays.overflow_step
                )
                costs[_too_large(question, inside, doubtful)] = np.inf
            costs[costs >= arrays.overflow_step] = np.inf
        able = instance.able[t]
        barred = (inside & ~able).sum(axis=1)
        costs[barred[:-1, None] < barred[1:]] = np.inf
        unsure = _ROUNDING * float(question.graph.work[able].sum() + 2 * time.sum())
        costs_of_kinds.append(np.maximum(0.0, costs * (1 - _ROUNDING) - unsure))
    return np.array(costs_of_kinds)


def _too_large(question: Instance, inside: NDArray[np.bool_], doubtful: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(m, m) whether each of the doubtful blocks between two ideals exceeds the memory, by exact sums of bytes."""
    loads, large = Loads.of(question), np.zeros_like(doubtful)
    room = loads.rooms[0]
    for i, j in np.argwhere(doubtful).tolist():
        large[i, j] = room is not None and sum(loads.load(inside[j + 1] & ~inside[i])) > room
    return large


@compiled
def _step_kernel(
    arrays: KernelArrays,
    received_time: FloatArray,
    sent_time: FloatArray,
    reader_start: IntArray,
    reader: IntArray,
    inside: NDArray[np.bool_],
    node: IntArray,
    parent: IntArray,
    needs: FloatArray,
    slack: float,
) -> FloatArray:
    places = len(inside)
    costs = np.full((places - 1, places - 1), np.inf)
    time, resident, need = np.zeros(places), np.zeros(places), np.zeros(places)
    is_step = np.zeros(places, dtype=np.bool_)
    for i in range(places - 1):
        is_step[:] = False
        is_step[i], time[i], resident[i], need[i] = True, 0.0, 0.0, 0.0
        for j in range(i + 1, places):
            for p in range(node.shape[1]):
                v, smaller = node[j, p], parent[j, p]
                if v < 0:
                    break
                if smaller < i or inside[i, v] or not is_step[smaller]:
                    continue
                total, new_resident = time[smaller] + arrays.work[v], resident[smaller] + arrays.held_bytes[v]
                for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
                    t = arrays.input_tensor[e]
                    home, fresh, is_read_later = arrays.producer[t], True, False
                    for r in range(reader_start[t], reader_start[t + 1]):
                        u = reader[r]
                        if u != v and inside[j, u] and not inside[i, u]:
                            fresh = False
                        is_read_later |= not inside[j, u]
                    if inside[i, home]:
                        if fresh:
                            total += received_time[t]
                    elif not is_read_later:
                        total -= sent_time[t]
                for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
                    total += sent_time[t]
                for e in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
                    g, fresh = arrays.shared[e], True
                    for u in range(len(needs)):
                        if u != v and inside[j, u] and not inside[i, u]:
                            for x in range(arrays.shared_start[u], arrays.shared_start[u + 1]):
                                fresh &= arrays.shared[x] != g
                    if fresh:
                        new_resident += arrays.shared_bytes[g]
                is_step[j], time[j], resident[j] = True, total, new_resident
                need[j] = max(need[smaller], needs[v])
                peak = max(need[j], arrays.activation_buffer)
                excess = new_resident + peak - arrays.memory - slack * (new_resident + peak + arrays.memory)
                over = arrays.overflow_step + excess / arrays.overflow_bandwidth if excess > 0.0 else 0.0
                costs[i, j - 1] = total + over
                break
    return costs
