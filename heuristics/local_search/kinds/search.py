"""Search for partitions over kinds of devices: cuts for devices that are alike, sliced again and improved by walks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from heuristics.limits import Limits
from heuristics.local_search.cooling import Cooling
from heuristics.local_search.kinds.annealing import KindArrays, anneal_kinds
from heuristics.local_search.kinds.slicing import slice_kinds
from heuristics.local_search.state import start_state
from heuristics.method import Method
from heuristics.orders.kahn import kahn
from heuristics.portfolio import portfolio
from instances import Instance, Partition, Platform
from instances.errors import InputError, NothingFoundError
from instances.graph.tensors import IntArray
from instances.machines import Kind, Machines
from instances.partitioning.kernel_arrays import KernelArrays
from instances.partitioning.kinds.rated_paths import layers_in_a_row
from instances.partitioning.partition import IDLE
from instances.partitioning.reductions import reduce_instance

__all__ = ["has_one_order", "heuristic_of_kinds", "search_kinds"]

_PORTFOLIO = "portfolio"
# Moves of the first walk for each node, by what part each next one is longer, and the most walks without a limit.
_MOVES, _LONGER, _WALKS = 2_000, 1.5, 12
# Moves between two looks at the clock.
_CHUNK = 200_000
# Temperatures of a walk: the eighth power of a block that costs the bottleneck is 1.
_HOT, _COLD = 0.5, 0.002
# Part of the moves that exchange the kinds of two blocks.
_EXCHANGES = 0.02
# Evaluations of the search for devices that are alike, and the part of the time that all of them take.
_EQUAL_MOVES, _EQUAL = 300_000, 0.15
# Part of the time for the slowest rates, where there is a rate for each pair of kinds.
_SLOWEST = 0.4
# Memory that is never too small.
_AMPLE = 2.0**62


def has_one_order(instance: Instance) -> bool:
    """Whether the nodes have a single topological order, so that all blocks are segments of it."""
    order, graph = instance.graph.topological_order, instance.graph
    pairs = set(map(tuple, graph.edges.tolist()))
    return all(pair in pairs for pair in zip(order[:-1].tolist(), order[1:].tolist(), strict=True))


def heuristic_of_kinds(
    asked: Method[Instance, Partition], start: Partition | None = None
) -> Method[Instance, Partition]:
    """The portfolio for kinds of devices, which begins from a partition if there is one.

    Raises
    ------
    InputError
        If another method is asked for.
    """
    if asked.name != _PORTFOLIO:
        raise InputError(f"{asked.name} is for devices that are all alike; use {_PORTFOLIO}.")

    def run(instance: Instance, rng: np.random.Generator, limits: Limits | None = None) -> Partition:
        reduction = reduce_instance(instance)
        begin = None if start is None else reduction.restrict(start)
        return reduction.expand(search_kinds(reduction.instance, rng, limits, begin))

    return Method(asked.name, asked.summary, asked.reference, run)


def search_kinds(
    instance: Instance, rng: np.random.Generator, limits: Limits | None = None, start: Partition | None = None
) -> Partition:
    """Best partition that is found; of a graph with one order the best of all, as far as `slice_kinds` is exact.

    Parameters
    ----------
    limits : Limits, optional
        An evaluation is a move of a walk. Without limits a dozen walks are taken.
    start : Partition, optional
        Where the walks begin, unless slicings are better.

    Raises
    ------
    NothingFoundError
        If none fits.
    """
    limits = limits or Limits()
    found = [] if start is None else [start]
    rated = instance.rates is not None and (instance.has_windows or layers_in_a_row(instance.graph) is None)
    if rated:
        with suppress(NothingFoundError):
            found.append(_at_slowest_rates(instance, rng, limits))
    orders: Iterator[IntArray] = iter((instance.graph.topological_order,))
    if not has_one_order(instance):
        orders = _orders(instance, rng, limits)
    for order in orders:
        with suppress(NothingFoundError):
            found.append(slice_kinds(instance, order, limits.deadline, int(rng.integers(2**31))))
        if found and limits.reached(_best(found).bottleneck):
            break
    if not found:
        raise NothingFoundError(f"{instance.label}: no partition was found that fits.")
    best = _best(found)
    best = best if has_one_order(instance) else _walks(instance, best, rng, limits)
    return _exchanged(best, limits) if rated and not instance.machines.is_fixed else best


def _at_slowest_rates(instance: Instance, rng: np.random.Generator, limits: Limits) -> Partition:
    """An answer that is found with the slowest rate of each kind; the walks behind take the fastest ones."""
    assert instance.rates is not None
    slowest = np.minimum(instance.rates.min(axis=0), instance.rates.min(axis=1)).tolist()
    kinds = [
        Kind(kind.name, kind.count, speed=t + 1.0, memory=kind.memory, bandwidth=rate)
        for t, (kind, rate) in enumerate(zip(instance.machines.kinds, slowest, strict=True))
    ]
    question = replace(instance, machines=Machines(kinds, instance.machines.order))
    evaluations = None if limits.evaluations is None else max(1, limits.evaluations // 2)
    found = search_kinds(question, rng, Limits(limits.deadline.share(_SLOWEST), evaluations))
    return Partition(instance, found.block, found.order, found.kind)


def _exchanged(best: Partition, limits: Limits) -> Partition:
    """The answer with devices exchanged as long as that is better by their rates."""
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
    """Orders that list the blocks of good cuts for devices that are all alike."""
    graph = instance.graph
    yield graph.topological_order
    yield kahn(graph, rng.random(graph.n))
    total, deadline = instance.k, limits.deadline.share(_EQUAL)
    counts = [k for k in dict.fromkeys((2, 3, total, total + 2)) if k <= graph.n]
    for t in range(instance.kinds):
        for k in counts:
            if deadline.passed:
                return
            own = Limits(deadline.share(1 / (len(counts) * instance.kinds)), limits.allow(_EQUAL_MOVES))
            with suppress(NothingFoundError):
                yield _listed(portfolio(instance.of_kind(t).with_k(k), rng, own))


def _listed(partition: Partition) -> IntArray:
    """The nodes in order, block by block."""
    position = np.argsort(partition.order)
    return np.lexsort((position, partition.block))


def _walks(instance: Instance, best: Partition, rng: np.random.Generator, limits: Limits) -> Partition:
    graph, kinds = instance.graph, _kind_arrays(instance)
    free = replace(graph, work=np.zeros(graph.n))
    arrays = KernelArrays.of(Instance(free, Platform(instance.k, 1.0, _AMPLE, 0.0), constraints=instance.constraints))
    unlimited = limits.evaluations is None and limits.deadline.left == math.inf
    left = _WALKS * _MOVES * graph.n if limits.evaluations is None else limits.evaluations
    planned, current = float(_MOVES * graph.n), best
    while not limits.reached(best.bottleneck) and best.bottleneck > 0 and left > 0:
        device = _devices(instance, current)
        moves = int(min(planned, left)) if unlimited or limits.evaluations is not None else int(planned)
        current = _walk(instance, current, device, arrays, kinds, moves, rng, limits)
        if unlimited or limits.evaluations is not None:
            left -= moves
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
    while done < moves and not limits.reached(seen.bottleneck):
        chunk = min(_CHUNK, moves - done)
        cooling, seed = Cooling(moves, _HOT, _COLD).part(done, chunk), int(rng.integers(2**31))
        before = instance.graph.predecessors
        _, found, at = anneal_kinds(state, arrays, kinds, device, before, cooling, exchanges, seed)
        with suppress(NothingFoundError):
            seen = _best([seen, Partition(instance, found, order, at[: instance.k])])
        done += chunk
    return seen


def _best(partitions: Sequence[Partition]) -> Partition:
    return min(partitions, key=lambda partition: partition.preference)


def _devices(instance: Instance, partition: Partition) -> IntArray:
    """(K,) kinds: those of the blocks, any that are left for idle ones, and the free devices behind."""
    spare = list(instance.machines.sequence)
    if instance.machines.is_fixed:
        return np.array(spare)
    for t in partition.kind[partition.kind != IDLE].tolist():
        spare.remove(t)
    own = [spare.pop() if t == IDLE else t for t in partition.kind.tolist()]
    return np.array(own + spare)


def _kind_arrays(instance: Instance) -> KindArrays:
    own = [KernelArrays.of(instance.of_kind(t)) for t in range(instance.kinds)]
    return KindArrays(
        work=np.array(instance.finite_works),
        bandwidth=np.array([arrays.bandwidth for arrays in own]),
        memory=np.array([arrays.memory for arrays in own]),
        overflow_bandwidth=np.array([arrays.overflow_bandwidth for arrays in own]),
        overflow_step=np.array([arrays.overflow_step for arrays in own]),
        buffer=float(instance.platform.activation_buffer or 0.0),
    )
