"""Orders of passes for groups of devices, and plans whose groups run several stages in turns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, cycle, islice, permutations, repeat

import numpy as np

from heuristics.planning.execution import steady, warmed_up
from heuristics.planning.grid.search import moves_of
from heuristics.planning.spp import min_max_split
from instances.deadline import Deadline
from instances.devices import Cluster
from instances.errors import InputError
from instances.graph.tensors import IntArray
from instances.planning import Plan, TrainingInstance
from instances.planning.operations import (
    KINDS,
    NO_LIMITS,
    Flows,
    Moments,
    Orders,
    PassLists,
    decoded,
    encoded,
    one_forward_one_backward,
)
from instances.planning.simulator import empty_log, run, timed
from instances.planning.timeline import Timeline, memory_peaks

# Orders of passes for groups of devices.
#
# Unsplit: GPipe, 1F1B, PE and all that warm up with d (S - n) + 1 forward passes in stage n. Split, after Qi et al.,
# "Zero Bubble Pipeline Parallelism", ICLR 2024: what is ready of the gradients of inputs, forward passes and the
# gradients of weights, in this order of priority, with limits on how far forward passes go ahead. Interleaved, after
# Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021.


#: Distances of `steady` that are tried; 1 is 1F1B's and 4 PE's.
_DISTANCES = (1, 2, 3, 4)
#: How many microbatches more the gradients of weights may stay behind: 1 is ZB-H1's.
_BEHIND = (1, 2, 4, 8, 16, 10**6)
_NAMES = {1: "1f1b", 4: "pe"}


def interleaved(groups: int, chunks: int, microbatches: int) -> PassLists:
    """Interleaved order: each group runs `chunks` stages, every groups-th one."""
    return decoded(one_forward_one_backward(groups, chunks, microbatches), microbatches)


def zero_bubble(plan: Plan, distance: int = 1, behind: int = 1) -> tuple[PassLists, str]:
    """Order with backward passes split into input gradients I and weight gradients W, and its name.

    Before a stage's first I there are as many forward passes as in `steady`; W may lag behind them by `behind` more.
    ``(1, 1)`` is ZB-H1; with `behind` of M or more, W may come as late as memory allows.
    """
    S, M = plan.n_stages, plan.instance.microbatches
    ahead = steady(S, M, distance)
    ahead_of_weights = np.minimum(M, ahead + behind)
    if math.isfinite(plan.instance.memory):
        room = plan.instance.memory - plan.instance.parameter_copies * plan.param_bytes
        stored = plan.stored_bytes / plan.replicas
        fits = np.divide(room, stored, out=np.full(S, float(M)), where=room < M * stored)
        ahead_of_weights = np.minimum(ahead_of_weights, np.maximum(fits, 1.0).astype(np.int64))
    limits = Orders(NO_LIMITS, np.zeros(S + 1, dtype=np.int64), np.minimum(ahead, ahead_of_weights), ahead_of_weights)
    log = empty_log(S, M)
    run(Flows.of(plan), limits, M, log, np.inf)
    late = "free" if behind >= M else str(behind)
    name = {(1, "1"): "zb-h1", (1, "free"): "zb-free"}.get((distance, late), f"zb-{distance}-{late}")
    return decoded(log.passes.reshape(S, -1), M), name


def steady_order(plan: Plan, distance: int) -> tuple[PassLists, str]:
    """Order with the warm-up of `steady`, for plans with one stage per group, and its name."""
    S, M = plan.n_stages, plan.instance.microbatches
    return warmed_up(steady(S, M, distance), M), _NAMES.get(distance, f"steady-{distance}")


def unsplit_orders(plan: Plan) -> Iterator[tuple[str, PassLists]]:
    """Yield named orders without split backward passes that fit into memory, for plans with one stage per group."""
    S, M = plan.n_stages, plan.instance.microbatches
    seen = set()
    for name, warmup in [(_NAMES.get(d, f"steady-{d}"), steady(S, M, d)) for d in _DISTANCES] + [("gpipe", [M] * S)]:
        if tuple(warmup) not in seen:
            seen.add(tuple(warmup))
            yield from _fitting(plan, name, warmed_up(warmup, M))


def portfolio(plan: Plan) -> Iterator[tuple[str, PassLists]]:
    """Orders of `unsplit_orders`, then those with split backward passes."""
    yield from unsplit_orders(plan)
    if plan.n_stages > 1 and not any(plan.recompute):
        for distance in (1, 2):
            for behind in _BEHIND:
                orders, name = zero_bubble(plan, distance, behind)
                yield from _fitting(plan, name, orders)


def execute_orders(plan: Plan, orders: PassLists, name: str = "") -> Timeline:
    """Start every operation as early as the orders allow.

    Raises
    ------
    InputError
        If groups wait for each other for ever, or the plan does not fit into memory.
    """
    start, end, makespan = timed(
        Flows.of(plan), encoded(orders, plan.instance.microbatches), plan.instance.microbatches
    )
    if math.isinf(makespan):
        ends = [[_end(end, *task) for task in order] for order in orders]
        stuck = [(max(row), group) for group, row in enumerate(ends) if min(row) < 0]
        group = min(stuck)[1]
        kind, n, m = orders[group][next(i for i, moment in enumerate(ends[group]) if moment < 0)]
        raise InputError(f"In this order {n}{KINDS[kind]}{m} waits for ever; run what it needs before it.")
    return Timeline(plan, orders, start, end, name)


def _fitting(plan: Plan, name: str, orders: PassLists) -> Iterator[tuple[str, PassLists]]:
    """The named order, if each group fits into memory with it; else nothing."""
    if all(peak.total <= plan.instance.memory for peak in memory_peaks(plan, orders)):
        yield name, orders


def _end(end: Moments, kind: int, n: int, m: int) -> float:
    """End of a pass [s]; -1 if it has not run yet."""
    return float(np.nan_to_num((end.forward, end.backward, end.backward, end.weights)[kind][n, m], nan=-1.0))


# Plans whose groups of devices run several stages in turns (Narayanan et al., SC 2021).


#: Most stages of a group, and changes of cuts that are tried.
_CHUNKS, _MOVES = 8, 400


def parts_of(cluster: Cluster) -> list[IntArray]:
    """Devices of all servers, of the half with the largest servers, of a half of those, and so on."""
    largest = np.argsort([-size for size in cluster.servers], kind="stable")
    counts = list(accumulate(repeat(len(largest), len(largest)), lambda count, _: count // 2))
    return [np.flatnonzero(np.isin(cluster.server, largest[:count])) for count in counts if count]


def interleaved_plans(instance: TrainingInstance, orders: Sequence[IntArray]) -> Iterator[tuple[Plan, PassLists]]:
    """Interleaved plans that fit: equal groups along each order, with 2 to 4 stages of similar time.

    The number of groups divides the microbatches and the devices, which are all or those of some servers.
    """
    for part in parts_of(instance.cluster):
        yield from _on_part(instance, len(part), [order[np.isin(order, part)] for order in orders])


def _on_part(instance: TrainingInstance, V: int, orders: Sequence[IntArray]) -> Iterator[tuple[Plan, PassLists]]:
    """Interleaved plans and orders on V devices, for each device order, number of groups and of turns."""
    chain, M = instance.chain, instance.microbatches
    for groups in (count for count in range(2, V + 1) if M % count == 0 and V % count == 0):
        for chunks in range(2, min(_CHUNKS, chain.n // groups) + 1):
            cuts = min_max_split(chain.forward + chain.backward, groups * chunks)
            lists = interleaved(groups, chunks, M)
            for order in orders:
                devices = [tuple(group.tolist()) for group in np.split(order, groups)] * chunks
                yield from ((plan, lists) for plan in _recomputing(instance, cuts, devices, lists))


def better_cuts(best: Timeline, deadline: Deadline) -> Timeline:
    """The best plan found by moving single layers between stages, in the same order of passes."""
    pairs, quiet = list(permutations(range(best.plan.n_stages), 2)), 0
    for pair in islice(cycle(pairs), _MOVES):
        cuts = moves_of(best.plan.cuts, pair)
        if quiet == len(pairs) or deadline.passed:
            break
        quiet += 1
        for plan in (
            [] if cuts is None else _recomputing(best.plan.instance, list(cuts), best.plan.devices, best.orders)
        ):
            timeline = execute_orders(plan, best.orders, best.order_name)
            if timeline.makespan < best.makespan:
                best, quiet = timeline, 0
    return best


def _recomputing(
    instance: TrainingInstance, cuts: list[int], devices: Sequence[tuple[int, ...]], lists: PassLists
) -> Iterator[Plan]:
    """Yield the plan, with recomputation in all stages if it only fits so; nothing if it does not fit."""
    for again in (False, True) if instance.recomputation else (False,):
        try:
            plan = Plan(instance, tuple(cuts), tuple(devices), (again,) * len(devices))
        except InputError:  # links are missing, or a stage alone is too large
            return
        if all(peak.total <= instance.memory for peak in memory_peaks(plan, lists)):
            yield plan
            return
