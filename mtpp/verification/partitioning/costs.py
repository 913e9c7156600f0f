"""Costs of a partition, computed a second time from the equations of the paper: eq. (1) to (4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from mtpp.verification.partitioning.exact_instance import ExactInstance

__all__ = ["Terms", "block_terms", "bottleneck", "find_fault", "held"]


def find_fault(exact: ExactInstance, block: Sequence[int], order: Sequence[int]) -> str | None:
    """Find the first reason why blocks and an order are no partition; None if they are one."""
    n = exact.n
    if len(block) != n:
        return f"there are {len(block)} blocks for {n} nodes"
    for v in range(n):
        if not 0 <= block[v] < exact.k:
            return f"node {v} is in block {block[v]} of {exact.k}"
    for u, v in sorted(exact.edges):
        if block[u] > block[v]:
            return f"edge {u} -> {v} points backwards, from block {block[u]} to {block[v]}"
    if sorted(order) != list(range(n)):
        return "the order is not a permutation of the nodes"
    position = {v: step for step, v in enumerate(order)}
    for u, v in sorted(exact.edges):
        if position[u] > position[v]:
            return f"edge {u} -> {v} points backwards in the order"
    return None


class Terms(NamedTuple):
    """The four terms of eq. (3) of a block, in the unit of the instance."""

    receive: int
    work: int
    overflow: int
    send: int


def bottleneck(exact: ExactInstance, block: Sequence[int], order: Sequence[int]) -> Fraction:
    """Cost of the slowest block of a partition without fault, eq. (4), in the time unit of the work.

    Where the memory is a hard limit, it is not looked at.
    """
    return max(sum(terms) for terms in block_terms(exact, block, order).values()) * exact.unit


def block_terms(exact: ExactInstance, block: Sequence[int], order: Sequence[int]) -> dict[int, Terms]:
    """Cost terms of each block that is not empty, eq. (3); the partition has no fault."""
    receive, work, send = ([0] * exact.k for _ in range(3))
    for v, time in enumerate(exact.work):
        work[block[v]] += time
    for producer, readers, time, _ in exact.tensors:
        home = block[producer]
        elsewhere = {block[v] for v in readers} - {home}
        for b in elsewhere:  # received once, however many read it there
            receive[b] += time
        send[home] += time if elsewhere else 0
    over = dict.fromkeys(set(block), 0)
    if exact.memory is not None and not exact.fit:
        params, peaks = held(exact, block, order)
        over = {b: max(0, params[b] + peaks[b] - exact.memory) for b in over}
    return {b: Terms(receive[b], work[b], over[b], send[b]) for b in over}


def held(
    exact: ExactInstance, block: Sequence[int], order: Sequence[int]
) -> tuple[defaultdict[int, int], dict[int, int]]:
    """Parameters and activations of each block that is not empty."""
    params: defaultdict[int, int] = defaultdict(int)
    for v, size in enumerate(exact.held):
        params[block[v]] += size
    for users, size in exact.shared:
        for b in {block[v] for v in users}:
            params[b] += size
    return params, _peaks(exact, block, order) if exact.buffer is None else dict.fromkeys(set(block), exact.buffer)


def _peaks(exact: ExactInstance, block: Sequence[int], order: Sequence[int]) -> dict[int, int]:
    """Largest sum of live tensors over the steps of each block."""
    step: dict[int, int] = {}
    steps: defaultdict[int, int] = defaultdict(int)
    for v in order:
        step[v] = steps[block[v]]
        steps[block[v]] += 1
    change = {b: [0] * (count + 1) for b, count in steps.items()}
    for producer, readers, _, size in exact.tensors:
        touched: defaultdict[int, list[int]] = defaultdict(list)
        for v in (producer, *readers):
            touched[block[v]].append(step[v])
        for b, times in touched.items():  # live from the first step that touches it to the last
            change[b][min(times)] += size
            change[b][max(times) + 1] -= size
    return {b: max(accumulate(row)) for b, row in change.items()}
