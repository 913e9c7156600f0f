"""Search for partitions over kinds of devices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from heuristics.local_search.annealing import Cooling, factor_of
from heuristics.local_search.schedule import search_by_gain
from heuristics.local_search.state import PartitionState, move, places_for, start_state, times_after
from heuristics.method import Limits
from heuristics.orders.kinds import slice_kinds
from heuristics.orders.orders import kahn
from heuristics.orders.slicing import at_once
from instances import Platform
from instances.compiled import compiled
from instances.errors import NothingFoundError
from instances.graph.tensors import FloatArray, IntArray, sums_by
from instances.partitioning.kind_paths import layers_in_a_row
from instances.partitioning.partition import IDLE, Partition
from instances.partitioning.peaks import KernelArrays
from instances.partitioning.problem import Instance

# Simulated annealing on partitions over kinds of devices, compiled by numba.
#
# The blocks and the bytes that they move, receive and hold change as in `heuristics.local_search.state`, in a question
# whose nodes have no work and whose bandwidth is 1. Beside, each block has a work for every kind, so that it may change
# its kind in no time. The sum of the eighth powers of the block costs over the best bottleneck is what becomes small.


#: Part of the moves that go to the first or the last block that a node may be in.
_TO_NEIGHBOURS = 0.6


class KindArrays(NamedTuple):
    """Work, bandwidth and memory of each kind; bytes beyond the memory are streamed at `overflow_bandwidth`."""

    work: FloatArray  # (T, n)
    bandwidth: FloatArray  # (T,)
    memory: FloatArray  # (T,)
    overflow_bandwidth: FloatArray  # (T,)
    overflow_step: FloatArray  # (T,)
    buffer: float  # bytes of a block with nodes


@compiled
def anneal_kinds(
    state: PartitionState,
    arrays: KernelArrays,
    kinds: KindArrays,
    kind: IntArray,
    speeds: FloatArray,
    rows: tuple[IntArray, IntArray],
    cooling: Cooling,
    exchanges: float,
    seed: int,
) -> tuple[float, IntArray, IntArray]:
    """Run simulated annealing over blocks and their kinds; return the best bottleneck, its blocks and their kinds.

    Parameters
    ----------
    state : PartitionState
        State in which times are bytes moved, without work; updated in place.
    kind : (K,) integers
        Kind of each device: block b is on device b, and devices beyond k are free. Updated in place.
    speeds : (T, k) floats
        Bytes that each block moves in a unit of time, by its kind.
    rows : tuple
        Predecessors of the nodes.
    exchanges : float
        Part of the moves that exchange the kinds of two blocks.
    """
    np.random.seed(seed)
    before_start, before = rows
    n, k, size = len(state.block), len(state.time), len(kind)
    work = np.zeros((len(kinds.work), k))
    for v in range(n):
        work[:, state.block[v]] += kinds.work[:, v]
    cost = np.zeros(k)
    for b in range(k):
        t = kind[b]
        cost[b] = _cost(work[t, b], state.time[b] / speeds[t, b], state.resident[b], state.size[b], t, kinds)
    best, best_block, best_kind = cost.max(), state.block.copy(), kind.copy()
    if best <= 0.0:
        return best, best_block, best_kind
    temperature, factor = cooling.hot, factor_of(cooling)
    for _ in range(cooling.moves):
        temperature *= factor
        limit = -temperature * math.log(1.0 - np.random.random())
        if np.random.random() < exchanges:
            a, b = np.random.randint(k), np.random.randint(size)
            if kind[a] == kind[b]:
                continue
            s, t = kind[a], kind[b]
            new_a = _cost(work[t, a], state.time[a] / speeds[t, a], state.resident[a], state.size[a], t, kinds)
            new_b, old_b = 0.0, 0.0
            if b < k:
                new_b = _cost(work[s, b], state.time[b] / speeds[s, b], state.resident[b], state.size[b], s, kinds)
                old_b = cost[b]
            if _power(new_a / best) + _power(new_b / best) > _power(cost[a] / best) + _power(old_b / best) + limit:
                continue
            kind[a], kind[b] = kind[b], kind[a]
            cost[a] = new_a
            if b < k:
                cost[b] = new_b
        else:
            v = np.random.randint(n)
            a = state.block[v]
            low, high = places_for(v, state, arrays, before_start, before)
            if low == high:
                continue
            if np.random.random() < _TO_NEIGHBOURS:
                b = low if np.random.random() < 0.5 else high
                if b == a:
                    b = low + high - a
            else:
                b = low + np.random.randint(high - low)
                b += b >= a
            times = times_after(v, a, b, state, arrays)
            # Held bytes change by moving; what a cost leaves out of them here is corrected behind.
            s, t = kind[a], kind[b]
            work_a, work_b = work[s, a] - kinds.work[s, v], work[t, b] + kinds.work[t, v]
            old = _power(cost[a] / best) + _power(cost[b] / best)
            least = _power((work_a + times[0] / speeds[s, a]) / best)
            least += _power((work_b + times[1] / speeds[t, b]) / best)
            if least > old + limit:
                continue
            time_a, time_b, resident_a, resident_b = state.time[a], state.time[b], state.resident[a], state.resident[b]
            move(v, a, b, times, state, arrays)
            new_a = _cost(work_a, state.time[a] / speeds[s, a], state.resident[a], state.size[a], s, kinds)
            new_b = _cost(work_b, state.time[b] / speeds[t, b], state.resident[b], state.size[b], t, kinds)
            if _power(new_a / best) + _power(new_b / best) > old + limit:
                move(v, b, a, (time_b, time_a), state, arrays)
                state.resident[a], state.resident[b] = resident_a, resident_b
                continue
            cost[a], cost[b] = new_a, new_b
            for u in range(len(work)):
                work[u, a] -= kinds.work[u, v]
                work[u, b] += kinds.work[u, v]
        highest = cost.max()
        if highest < best:
            best = highest
            best_block[:] = state.block
            best_kind[:] = kind
            if best <= 0.0:  # what other costs are divided by
                break
    return best, best_block, best_kind


@compiled(inline="always")
def _cost(work: float, moving: float, resident: float, size: int, t: int, kinds: KindArrays) -> float:
    """Cost of a block on kind t, with a constant buffer for activations; an empty block costs nothing."""
    if size == 0:
        return 0.0
    excess = resident + kinds.buffer - kinds.memory[t]
    over = kinds.overflow_step[t] + excess / kinds.overflow_bandwidth[t] if excess > 0.0 else 0.0
    return max(0.0, work) + max(0.0, moving) + over


@compiled(inline="always")
def _power(x: float) -> float:
    x *= x
    x *= x
    return x * x


# Search for partitions over kinds of devices: cuts for devices that are alike, sliced again and improved by walks.


# Moves of the first walk for each node, by what part each next one is longer, and the most walks without a limit.
_MOVES, _LONGER, _WALKS = 2_000, 1.5, 12
# Moves between two looks at the clock, and at the speeds of transfers where there is a rate for each pair of kinds.
_CHUNK, _RATED_CHUNK = 200_000, 50_000
# Temperatures of a walk: the eighth power of a block that costs the bottleneck is 1.
_HOT, _COLD = 0.5, 0.002
# Part of the moves that exchange the kinds of two blocks.
_EXCHANGES = 0.02
# Evaluations of the search for devices that are alike, and the part of the time that all of them take.
_EQUAL_MOVES, _EQUAL = 300_000, 0.15
# Memory that is never too small.
_AMPLE = 2.0**62


def has_one_order(instance: Instance) -> bool:
    """Whether the nodes have a single topological order, so that all blocks are segments of it."""
    order, graph = instance.graph.topological_order, instance.graph
    pairs = set(map(tuple, graph.edges.tolist()))
    return all(pair in pairs for pair in zip(order[:-1].tolist(), order[1:].tolist(), strict=True))


def search_kinds(
    instance: Instance, rng: np.random.Generator, limits: Limits, starts: Sequence[Partition] = ()
) -> Partition:
    """Search for the best partition over kinds of devices.

    It is optimal where the graph has a single topological order and `slice_kinds` is exact.

    Parameters
    ----------
    limits : Limits
        An evaluation is a move of a walk. Without limits a dozen walks are taken.
    starts : sequence of Partition
        Partitions from which walks may begin, unless slicings are better.

    Raises
    ------
    NothingFoundError
        If none fits.
    """
    candidates = list(starts)
    rated = instance.rates is not None and (instance.has_windows or layers_in_a_row(instance.graph) is None)
    orders: Iterator[IntArray] = iter((instance.graph.topological_order,))
    if not has_one_order(instance):
        orders = _orders(instance, rng, limits)
    for order in orders:
        with suppress(NothingFoundError):
            candidates.append(slice_kinds(instance, order, limits.deadline, int(rng.integers(2**31))))
        if candidates and limits.reached(_best(candidates).bottleneck):
            break
    if not candidates:
        raise NothingFoundError(f"{instance.label}: no partition was found that fits.")
    best = _best(candidates)
    best = best if has_one_order(instance) and not rated else _walks(instance, best, rng, limits)
    return _exchanged(best, limits) if rated and not instance.machines.is_fixed else best


def _exchanged(best: Partition, limits: Limits) -> Partition:
    """Local optimum of exchanging pairs of devices of different kinds, whose rates differ."""
    instance, again = best.instance, True
    while again:
        again, device = False, _devices(instance, best)
        for a in range(instance.k):
            for b in range(a + 1, len(device)):
                if device[a] == device[b] or limits.reached(best.bottleneck):
                    continue
                other = device.copy()
                other[[a, b]] = other[[b, a]]
                changed = Partition(instance, best.block, best.order, other[: instance.k])
                if changed.preference < best.preference:
                    best, device, again = changed, other, True
    return best


def _orders(instance: Instance, rng: np.random.Generator, limits: Limits) -> Iterator[IntArray]:
    """Two topological orders, then orders that list the blocks of good partitions for devices of a single kind."""
    graph = instance.graph
    yield graph.topological_order
    yield kahn(graph, rng.random(graph.n))
    total, deadline = instance.k, limits.deadline.share(_EQUAL)
    counts = [k for k in dict.fromkeys((2, 3, total, total + 2)) if k <= graph.n]
    for t in range(instance.kinds):
        for k in counts:
            if deadline.passed:
                return
            share = Limits(deadline.share(1 / (len(counts) * instance.kinds)), limits.allow(_EQUAL_MOVES))
            with suppress(NothingFoundError):
                alone = instance.of_kind(t).with_k(k)
                begin = at_once(alone, share)
                yield _listed(search_by_gain(alone, rng, share, begin, [begin]))


def _listed(partition: Partition) -> IntArray:
    """(n,) nodes sorted by block, within a block by the order of the partition."""
    position = np.argsort(partition.order)
    return np.lexsort((position, partition.block))


def _walks(instance: Instance, best: Partition, rng: np.random.Generator, limits: Limits) -> Partition:
    graph, kinds = instance.graph, _kind_arrays(instance)
    free = replace(graph, work=np.zeros(graph.n))
    arrays = KernelArrays.of(Instance(free, Platform(instance.k, 1.0, _AMPLE, 0.0), constraints=instance.constraints))
    unlimited = limits.evaluations is None and limits.deadline.left == math.inf
    remaining = _WALKS * _MOVES * graph.n if limits.evaluations is None else limits.evaluations
    planned, current = float(_MOVES * graph.n), best
    while not limits.reached(best.bottleneck) and best.bottleneck > 0 and remaining > 0:
        device = _devices(instance, current)
        moves = int(min(planned, remaining)) if unlimited or limits.evaluations is not None else int(planned)
        current = _walk(instance, current, device, arrays, kinds, moves, rng, limits)
        if unlimited or limits.evaluations is not None:
            remaining -= moves
        with suppress(NothingFoundError):
            current = _best([current, slice_kinds(instance, _listed(current), limits.deadline)])
        best = _best([best, current])
        planned *= _LONGER
        if rng.random() < 0.5:
            current = best
    return best


def _walk(
    instance: Instance,
    start: Partition,
    device: IntArray,
    arrays: KernelArrays,
    kinds: KindArrays,
    moves: int,
    rng: np.random.Generator,
    limits: Limits,
) -> Partition:
    """The best partition of one walk that cools down."""
    block, order = start.block.copy(), start.order.copy()
    exchanges = 0.0 if instance.machines.is_fixed else _EXCHANGES
    state, done, seen = start_state(block, order, instance.k, arrays), 0, start
    speeds = np.repeat(kinds.bandwidth[:, None], instance.k, axis=1)
    while done < moves and not limits.reached(seen.bottleneck):
        chunk = min(_CHUNK if instance.rates is None else _RATED_CHUNK, moves - done)
        cooling, seed = Cooling(moves, _HOT, _COLD).part(done, chunk), int(rng.integers(2**31))
        before = instance.graph.predecessors
        if instance.rates is not None:
            with suppress(NothingFoundError):
                current = Partition(instance, state.block.copy(), order, device[: instance.k])
                speeds = _speeds(current, instance.rates, state.time, kinds.bandwidth)
        _, best_block, best_kind = anneal_kinds(state, arrays, kinds, device, speeds, before, cooling, exchanges, seed)
        with suppress(NothingFoundError):
            seen = _best([seen, Partition(instance, best_block, order, best_kind[: instance.k])])
        done += chunk
    return seen


def _speeds(partition: Partition, rates: FloatArray, moved: FloatArray, bandwidth: FloatArray) -> FloatArray:
    """(T, k) bytes per unit of time that each block would move on each kind, if all other blocks kept their kinds.

    Parameters
    ----------
    rates : (T, T) floats
    moved : (k,) floats
        Bytes that each block moves.
    bandwidth : (T,) floats
        Speeds for blocks that move nothing.
    """
    tensors, kind, k = partition.instance.graph.tensors, partition.kind, partition.instance.k
    home, (tensor, entered) = partition.block[tensors.producer], partition.transfers
    size, speeds = tensors.bytes[tensor], np.repeat(bandwidth[:, None], k, axis=1)
    for t, row in enumerate(speeds):
        sent = np.zeros(len(home))
        np.maximum.at(sent, tensor, size / rates[t, kind[entered]])
        time = sums_by(entered, size / rates[kind[home[tensor]], t], k) + sums_by(home, sent, k)
        np.divide(moved, time, out=row, where=(time > 0) & (moved > 0))
    return speeds


def _best(partitions: Sequence[Partition]) -> Partition:
    return min(partitions, key=lambda partition: partition.preference)


def _devices(instance: Instance, partition: Partition) -> IntArray:
    """(K,) kind of each device: first of the k blocks (any unused kind for an empty one), then of the free devices."""
    spare = list(instance.machines.sequence)
    if instance.machines.is_fixed:
        return np.array(spare)
    for t in partition.kind[partition.kind != IDLE].tolist():
        spare.remove(t)
    kinds = [spare.pop() if t == IDLE else t for t in partition.kind.tolist()]
    return np.array(kinds + spare)


def _kind_arrays(instance: Instance) -> KindArrays:
    arrays_of_kinds = [KernelArrays.of(instance.of_kind(t)) for t in range(instance.kinds)]
    return KindArrays(
        work=np.array(instance.finite_works),
        bandwidth=np.array([arrays.bandwidth for arrays in arrays_of_kinds]),
        memory=np.array([arrays.memory for arrays in arrays_of_kinds]),
        overflow_bandwidth=np.array([arrays.overflow_bandwidth for arrays in arrays_of_kinds]),
        overflow_step=np.array([arrays.overflow_step for arrays in arrays_of_kinds]),
        buffer=float(instance.platform.activation_buffer or 0.0),
    )
