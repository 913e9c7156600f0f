"""Orders of passes for groups of devices.

Unsplit: GPipe, 1F1B, PE and all that warm up with d (S - n) + 1 forward passes in stage n. Split, after Qi et al.,
"Zero Bubble Pipeline Parallelism", ICLR 2024: what is ready of the gradients of inputs, forward passes and the
gradients of weights, in this order of priority, with limits on how far forward passes go ahead. Interleaved, after
Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from heuristics.planning.arrays import Log, Orders
from heuristics.planning.execution import steady
from heuristics.planning.shared_cards_simulator import run
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.planning import Plan, Schedule
from instances.planning.operation_arrays import BACKWARD, FORWARD, KINDS, Flows
from instances.planning.plan_files import operations_document
from instances.planning.simulation import Pass
from instances.planning.timeline import Moments, Timeline, memory_peaks

__all__ = [
    "PassLists",
    "encoded",
    "execute_orders",
    "interleaved",
    "lists_of",
    "portfolio",
    "steady_order",
    "unsplit_orders",
    "warmed_up",
    "zero_bubble",
]

PassLists = tuple[tuple[Pass, ...], ...]

_NONE = np.zeros(0, dtype=np.int64)
#: Distances of `steady` that are tried; 1 is 1F1B's and 4 PE's.
_DISTANCES = (1, 2, 3, 4)
#: How many microbatches more the gradients of weights may stay behind: 1 is ZB-H1's.
_BEHIND = (1, 2, 4, 8, 16, 10**6)
_NAMES = {1: "1f1b", 4: "pe"}


def warmed_up(warmup: Sequence[int] | IntArray, microbatches: int) -> PassLists:
    """Each stage runs ``warmup[n]`` forward passes, then a backward and a forward pass in turns."""
    orders = []
    for n, ahead in enumerate(np.asarray(warmup).tolist()):
        passes = [(FORWARD, n, m) for m in range(ahead)]
        for m in range(microbatches):
            passes.append((BACKWARD, n, m))
            if ahead + m < microbatches:
                passes.append((FORWARD, n, ahead + m))
        orders.append(tuple(passes))
    return tuple(orders)


def interleaved(groups: int, chunks: int, microbatches: int) -> PassLists:
    """Each of the groups runs every groups-th stage, `chunks` in all.

    Raises
    ------
    InputError
        If the microbatches do not come in rounds of as many as there are groups.
    """
    if microbatches % groups:
        raise InputError(f"{microbatches} microbatches do not divide into rounds of {groups}; give a multiple.")
    total, orders = microbatches * chunks, []
    for g in range(groups):

        def at(k: int, kind: int, g: int = g) -> Pass:
            chunk, m = k % (groups * chunks) // groups, k // (groups * chunks) * groups + k % groups
            return kind, (chunk if kind == FORWARD else chunks - 1 - chunk) * groups + g, m

        ahead = min(total, 2 * (groups - g - 1) + (chunks - 1) * groups)
        passes = [at(k, FORWARD) for k in range(ahead)]
        for k in range(total):
            passes += [at(ahead + k, FORWARD)] if ahead + k < total else []
            passes.append(at(k, BACKWARD))
        orders.append(tuple(passes))
    return tuple(orders)


def zero_bubble(plan: Plan, distance: int = 1, behind: int = 1) -> tuple[PassLists, str]:
    """Split backward passes: F is ahead of I as in `steady`, and ahead of W by `behind` more, within memory.

    ``(1, 1)`` is ZB-H1; with M or more, W may come as late as memory allows. The name comes with the order.
    """
    S, M = plan.n_stages, plan.instance.microbatches
    ahead = steady(S, M, distance)
    ahead_of_weights = np.minimum(M, ahead + behind)
    if math.isfinite(plan.instance.memory):
        room = plan.instance.memory - plan.instance.parameter_copies * plan.param_bytes
        kept = plan.stored_bytes / plan.replicas
        fits = np.divide(room, kept, out=np.full(S, float(M)), where=room < M * kept)
        ahead_of_weights = np.minimum(ahead_of_weights, np.maximum(fits, 1.0).astype(np.int64))
    limits = Orders(_NONE, np.zeros(S + 1, dtype=np.int64), np.minimum(ahead, ahead_of_weights), ahead_of_weights)
    log = Log.of(S, M)
    run(Flows.of(plan), limits, M, log, np.inf)
    lists = log.taken.reshape(S, -1).tolist()
    late = "free" if behind >= M else str(behind)
    name = {(1, "1"): "zb-h1", (1, "free"): "zb-free"}.get((distance, late), f"zb-{distance}-{late}")
    return tuple(tuple((one % 4, one // 4 // M, one // 4 % M) for one in passes) for passes in lists), name


def steady_order(plan: Plan, distance: int) -> tuple[PassLists, str]:
    """Order with the warm-up of `steady`, and its name; for one stage a group."""
    S, M = plan.n_stages, plan.instance.microbatches
    return warmed_up(steady(S, M, distance), M), _NAMES.get(distance, f"steady-{distance}")


def unsplit_orders(plan: Plan) -> Iterator[tuple[str, PassLists]]:
    """Orders with backward passes in one piece that fit into memory, by name, for a plan with one stage a group."""
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


def lists_of(schedule: Schedule) -> PassLists:
    """Order of the passes of each stage of a schedule."""
    lists = []
    for n, letters in enumerate(operations_document(schedule)["stages"]):
        counts = {FORWARD: count(), BACKWARD: count()}
        kinds = [FORWARD if letter == "f" else BACKWARD for letter in letters]
        lists.append(tuple((kind, n, next(counts[kind])) for kind in kinds))
    return tuple(lists)


def execute_orders(plan: Plan, orders: PassLists, name: str = "") -> Timeline:
    """Start every operation as early as the orders allow.

    Raises
    ------
    InputError
        If groups wait for each other for ever, or the plan does not fit into memory.
    """
    S, M = plan.n_stages, plan.instance.microbatches
    log = Log.of(S, M)
    if math.isinf(run(Flows.of(plan), encoded(orders, M), M, log, np.inf)):
        ends = [[_end(log, *one) for one in order] for order in orders]
        stuck = [(max(row), group) for group, row in enumerate(ends) if min(row) < 0]
        group = min(stuck)[1]
        kind, n, m = orders[group][next(i for i, end in enumerate(ends[group]) if end < 0)]
        raise InputError(f"In this order {n}{KINDS[kind]}{m} waits for ever; run what it needs before it.")
    start = _moments(log.start, log.transfer_start, log.allreduce_start)
    end = _moments(log.end, log.transfer_end, log.allreduce_end)
    return Timeline(plan, orders, start, end, name)


def encoded(orders: PassLists, microbatches: int) -> Orders:
    """Orders as the simulator takes them."""
    passes = [(n * microbatches + m) * 4 + kind for order in orders for kind, n, m in order]
    begin = np.cumsum([0, *map(len, orders)])
    return Orders(np.array(passes, dtype=np.int64), begin, _NONE, _NONE)


def _fitting(plan: Plan, name: str, orders: PassLists) -> Iterator[tuple[str, PassLists]]:
    if all(peak.total <= plan.instance.memory for peak in memory_peaks(plan, orders)):
        yield name, orders


def _end(log: Log, kind: int, n: int, m: int) -> float:
    return float(log.end[0 if kind == FORWARD else 2 if kind == 3 else 1, n, m])


def _moments(passes: FloatArray, transfers: FloatArray, allreduce: FloatArray) -> Moments:
    S = passes.shape[1]
    weights = np.where(passes[2] < 0, np.nan, passes[2])
    return Moments(passes[0], passes[1], weights, transfers[: S - 1], transfers[S - 1 :], allreduce)
