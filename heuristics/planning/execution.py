"""Execution of a plan: the order in which each stage takes its microbatches, and the times.

Every order here is of one kind: stage n runs ``warmup[n]`` forward passes, then a backward and a forward pass in turns,
each in the order of the microbatches. A stage waits for the next operation of its order; a channel serves first come,
first served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from heuristics.planning.arrays import Starts, Times
from heuristics.planning.kernels import simulate
from instances.errors import InputError
from instances.graph.tensors import IntArray
from instances.planning import Plan, Timeline
from instances.planning.operations import Moments, PassLists, decoded
from instances.planning.simulator import warmed_up_orders

__all__ = [
    "Order",
    "all_forward_first",
    "execute",
    "iteration_time",
    "one_forward_one_backward",
    "pe",
    "steady",
    "warmed_up",
]

#: Warm-up of each stage, from the numbers of stages and microbatches.
Order = Callable[[int, int], IntArray]


def steady(stages: int, microbatches: int, distance: int) -> IntArray:
    """(S,) warm-up of ``distance (S - n) + 1`` forward passes in stage n = 1 … S, and at most all of them."""
    return np.minimum(microbatches, distance * np.arange(stages)[::-1] + 1)


def pe(stages: int, microbatches: int) -> IntArray:
    """(S,) warm-up of Algorithm 1 (PE): its queues put microbatch m into block j in pass m + j - 1.

    So 4 (S - n) passes lie between the forward and the backward pass of a microbatch in stage n.
    """
    return steady(stages, microbatches, 4)


def one_forward_one_backward(stages: int, microbatches: int) -> IntArray:
    """(S,) warm-up of PipeDream's order, 1F1B: the least that keeps every stage busy if transfers take no time."""
    return steady(stages, microbatches, 1)


def all_forward_first(stages: int, microbatches: int) -> IntArray:
    """(S,) warm-up of GPipe's order: all forward passes, then all backward passes."""
    return np.full(stages, microbatches)


def warmed_up(warmup: Sequence[int] | IntArray, microbatches: int) -> PassLists:
    """Each stage runs ``warmup[n]`` forward passes, then a backward and a forward pass in turns."""
    orders = warmed_up_orders(np.array(warmup, dtype=np.int64), microbatches)
    return decoded(orders.passes.reshape(len(warmup), -1), microbatches)


def execute(plan: Plan, warmup: IntArray) -> Timeline:
    """Start every operation as early as the order allows.

    The warm-up, (S,), is the forward passes of each stage before its first backward pass, such as ``pe(S, M)``.

    Raises
    ------
    InputError
        If the warm-up is not possible, or the plan does not fit into memory.
    """
    M = plan.instance.microbatches
    starts = Starts.of(plan.n_stages, M)
    _run(plan, warmup, starts)
    none, trained = np.full(starts.forward.shape, np.nan), starts.backward + plan.backward_time[:, None]
    reduced = np.where(plan.replicas > 1, starts.allreduce, trained.max(axis=1))
    start = Moments(starts.forward, starts.backward, none, starts.send, starts.receive, reduced)
    end = Moments(
        forward=starts.forward + plan.forward_time[:, None],
        backward=trained,
        weights=none,
        send=starts.send + plan.forward_transfer_time[:, None],
        receive=starts.receive + plan.backward_transfer_time[:, None],
        allreduce=reduced + plan.allreduce_time,
    )
    return Timeline(plan, warmed_up(warmup, M), start, end)


def iteration_time(plan: Plan, warmup: IntArray) -> float:
    """Makespan of `execute`, without its checks [s]."""
    return _run(plan, warmup, Starts.of(plan.n_stages, plan.instance.microbatches))


def _run(plan: Plan, warmup: IntArray, starts: Starts) -> float:
    M = plan.instance.microbatches
    if len(warmup) != plan.n_stages or (np.diff(warmup) > 0).any() or not 1 <= warmup[-1] <= warmup[0] <= M:
        raise InputError(
            f"The warm-up is {list(warmup)}; give each of the {plan.n_stages} stages from 1 to {M} forward passes, and "
            "none more than the stage before."
        )
    return simulate(Times.of(plan), np.asarray(warmup, dtype=np.int64), M, plan.instance.full_duplex, starts)
