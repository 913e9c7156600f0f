"""Orders of passes for groups of devices.

Unsplit: GPipe, 1F1B, PE and all that warm up with d (S - n) + 1 forward passes in stage n. Split, after Qi et al.,
"Zero Bubble Pipeline Parallelism", ICLR 2024: what is ready of the gradients of inputs, forward passes and the
gradients of weights, in this order of priority, with limits on how far forward passes go ahead. Interleaved, after
Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from heuristics.planning.execution import steady, warmed_up
from instances.errors import InputError
from instances.planning import Plan
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

__all__ = [
    "execute_orders",
    "interleaved",
    "portfolio",
    "steady_order",
    "unsplit_orders",
    "zero_bubble",
]

#: Distances of `steady` that are tried; 1 is 1F1B's and 4 PE's.
_DISTANCES = (1, 2, 3, 4)
#: How many microbatches more the gradients of weights may stay behind: 1 is ZB-H1's.
_BEHIND = (1, 2, 4, 8, 16, 10**6)
_NAMES = {1: "1f1b", 4: "pe"}


def interleaved(groups: int, chunks: int, microbatches: int) -> PassLists:
    """Each of the groups runs every groups-th stage, `chunks` in all, as in `one_forward_one_backward`."""
    return decoded(one_forward_one_backward(groups, chunks, microbatches), microbatches)


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
    limits = Orders(NO_LIMITS, np.zeros(S + 1, dtype=np.int64), np.minimum(ahead, ahead_of_weights), ahead_of_weights)
    log = empty_log(S, M)
    run(Flows.of(plan), limits, M, log, np.inf)
    late = "free" if behind >= M else str(behind)
    name = {(1, "1"): "zb-h1", (1, "free"): "zb-free"}.get((distance, late), f"zb-{distance}-{late}")
    return decoded(log.taken.reshape(S, -1), M), name


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
        ends = [[_end(end, *one) for one in order] for order in orders]
        stuck = [(max(row), group) for group, row in enumerate(ends) if min(row) < 0]
        group = min(stuck)[1]
        kind, n, m = orders[group][next(i for i, moment in enumerate(ends[group]) if moment < 0)]
        raise InputError(f"In this order {n}{KINDS[kind]}{m} waits for ever; run what it needs before it.")
    return Timeline(plan, orders, start, end, name)


def _fitting(plan: Plan, name: str, orders: PassLists) -> Iterator[tuple[str, PassLists]]:
    if all(peak.total <= plan.instance.memory for peak in memory_peaks(plan, orders)):
        yield name, orders


def _end(end: Moments, kind: int, n: int, m: int) -> float:
    """End of a pass [s], -1 if it has not run."""
    return float(np.nan_to_num((end.forward, end.backward, end.backward, end.weights)[kind][n, m], nan=-1.0))
