"""Costs and paths of blocks with a rate for each pair of kinds of devices, in exact numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from instances.partitioning.kinds.file import StatedKinds
from instances.partitioning.problem import Instance
from mtpp.verification.clock import Clock
from mtpp.verification.kinds.paths import MOST_TRUTHS, TooManyIdealsError, costs_of_block
from mtpp.verification.partitioning.costs import block_terms
from mtpp.verification.partitioning.exact_instance import ExactInstance

__all__ = ["is_a_row", "row_leads_below", "slowest_block", "stages_lead_below", "times_between"]

_Truths = NDArray[np.bool_]


def slowest_block(instance: Instance, exact: Sequence[ExactInstance], stated: StatedKinds) -> Fraction:
    """Cost of the slowest block; what several others read is sent once, at the least of their rates."""
    names = [kind.name for kind in instance.machines.kinds]
    kind = [None if name is None else names.index(name) for name in stated.kind]
    costs = [Fraction(0)] * instance.k
    for t, one in enumerate(exact):
        for b, terms in block_terms(one, stated.block, stated.order).items():
            if kind[b] == t:
                costs[b] = (terms.work + terms.overflow) * one.unit
    for tensor, size in zip(exact[0].tensors, instance.graph.tensors.bytes.tolist(), strict=True):
        home = stated.block[tensor.producer]
        times = {b: _time(instance, size, kind[home], kind[b]) for b in {stated.block[v] for v in tensor.readers}}
        times.pop(home, None)
        for b, time in times.items():
            costs[b] += time
        costs[home] += max(times.values(), default=Fraction(0))
    return max(costs)


def is_a_row(exact: ExactInstance) -> bool:
    """Whether each node is read by the next one alone."""
    return exact.edges == frozenset(zip(exact.order, exact.order[1:], strict=False))


def row_leads_below(
    instance: Instance, exact: Sequence[ExactInstance], barred: Sequence[int], goal: Fraction, clock: Clock
) -> bool:
    """Whether layers in a row have a partition all blocks of which cost less than the goal; errors as below."""
    order = exact[0].order
    passing = [Fraction(0)] * (exact[0].n + 1)
    for tensor, size in zip(exact[0].tensors, instance.graph.tensors.bytes.tolist(), strict=True):
        if tensor.readers:
            passing[order.index(tensor.producer) + 1] += Fraction(size)
    times = times_between(instance, passing)
    return stages_lead_below(instance, times, lambda i: _costs_from(exact, barred, order, i), goal, clock)


def times_between(instance: Instance, passing: Sequence[Fraction]) -> list[list[list[Fraction]]]:
    """Time of the bytes that pass each place, from each kind to each kind."""
    kinds = range(instance.kinds)
    return [[[_time(instance, size, p, q) for q in kinds] for p in kinds] for size in passing]


def stages_lead_below(
    instance: Instance,
    times: Sequence[Sequence[Sequence[Fraction]]],
    costs_from: Callable[[int], Sequence[Sequence[Fraction | None]]],
    goal: Fraction | None,
    clock: Clock,
) -> bool:
    """Whether blocks of layers in a row lead from the first place to the last, all of which cost less than the goal.

    For each place, kind of the block before and kind of the next one there is a table of truths: the numbers of devices
    that lead there.

    Parameters
    ----------
    times : as of `times_between`
    costs_from : callable
        For each kind the costs, without transfers, of the blocks that begin at a place, the shortest first; None where
        there may be none.
    goal : Fraction, optional
        None: whatever they cost.

    Raises
    ------
    TooManyIdealsError, OutOfTimeError
    """
    kinds, last = range(instance.kinds), len(times) - 1
    none, shift = _states(instance)
    if (last + 1) * len(kinds) * (len(kinds) + 1) * none.size > MOST_TRUTHS:
        raise TooManyIdealsError(f"there are {none.size} numbers of devices for {last} layers and pairs of kinds")
    begin = none.copy()
    begin.flat[0] = True
    reached: list[dict[tuple[int | None, int], _Truths]] = [{} for _ in range(last)]
    reached[0] = {(None, q): begin for q in kinds}
    for i, tables in enumerate(reached):
        clock.raise_if_late()
        own = costs_from(i)
        for (p, q), table in tables.items():
            there = shift(table, q)
            if not there.any():
                continue
            into = Fraction(0) if p is None else times[i][p][q]
            for j, cost in enumerate(own[q], i + 1):
                if cost is None or (goal is not None and cost + into >= goal):
                    continue
                if j == last:
                    return True
                for r in kinds:
                    if goal is None or cost + into + times[j][q][r] < goal:
                        reached[j][q, r] = reached[j].get((q, r), none) | there
        tables.clear()
    return False


def _costs_from(
    exact: Sequence[ExactInstance], barred: Sequence[int], order: Sequence[int], i: int
) -> list[list[Fraction | None]]:
    """For each kind, the costs without transfers of the blocks that begin at a place; None where one does not fit."""
    rows: list[list[Fraction | None]] = [[] for _ in exact]
    block, works = 0, [0] * len(exact)
    for v in order[i:]:
        block |= 1 << v
        works = [work + one.work[v] for work, one in zip(works, exact, strict=True)]
        for row, one, cost in zip(rows, exact, costs_of_block(exact, barred, [], block, works), strict=True):
            row.append(None if cost is None else cost * one.unit)
    return rows


def _states(instance: Instance) -> tuple[_Truths, Callable[[_Truths, int], _Truths]]:
    """An empty table of truths, and what a table becomes with a device of some kind."""
    devices = instance.machines
    if devices.is_fixed:
        return np.zeros(devices.total + 1, dtype=bool), lambda table, t: _next_in_sequence(table, devices.sequence, t)
    shape = tuple(count + 1 for count in devices.counts)
    allowed: _Truths = np.indices(shape).sum(axis=0) <= instance.k

    def shift(table: _Truths, t: int) -> _Truths:
        moved = np.roll(table, 1, axis=t)
        moved[(slice(None),) * t + (0,)] = False
        return moved & allowed

    return np.zeros(shape, dtype=bool), shift


def _next_in_sequence(table: _Truths, sequence: Sequence[int], t: int) -> _Truths:
    """Numbers of devices that are passed with the next one of a kind."""
    following = np.zeros_like(table)
    for d in np.flatnonzero(table).tolist():
        if t in sequence[d:]:
            following[sequence.index(t, d) + 1] = True
    return following


def _time(instance: Instance, size: float | Fraction, s: int | None, t: int | None) -> Fraction:
    assert instance.rates is not None
    assert s is not None
    assert t is not None
    rate = float(instance.rates[s, t])
    return Fraction(0) if rate == np.inf else Fraction(size) / Fraction(rate)
