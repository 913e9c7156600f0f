"""Whether blocks below a goal lead from nothing to all nodes over kinds of devices, in exact whole numbers.

Ideals are bits of whole numbers. From each of them blocks grow node by node; then, ideal by ideal, there is a table for
the numbers of devices that lead there, which each block shifts by one along the axis of its kind. It holds how many of
the k places of the pipeline are passed at the least: nodes may have windows of these, and places may be empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from instances.partitioning.problem import Instance
from mtpp.verification.clock import Clock
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.ideals import UndecidedError

__all__ = ["MOST_TRUTHS", "TooManyIdealsError", "blocks_lead_through", "costs_of_block", "some_path_is_below"]

# Ideals, blocks that are looked at, and numbers in all tables of truths.
_MOST_IDEALS, _MOST_BLOCKS, MOST_TRUTHS = 20_000, 10_000_000, 2**29
_Window = Callable[[int, int], tuple[int, int]]


class TooManyIdealsError(UndecidedError):
    """The program would take too long, or too much memory."""


def some_path_is_below(
    instance: Instance,
    exact: Sequence[ExactInstance],
    barred: Sequence[int],
    goal: Fraction | None,
    clock: Clock,
    windows: Sequence[tuple[int, int, int]] = (),
) -> bool:
    """Whether a partition exists all blocks of which cost less than the goal, by the largest need of their nodes.

    Parameters
    ----------
    exact : sequence of ExactInstance
        The question of each kind.
    barred : sequence of int
        Of each kind the nodes of `exact` that it cannot run, as bits.
    goal : Fraction, optional
        None: whatever they cost.
    windows : sequence of (node, first, last)
        Places that nodes of `exact` may be in.

    Raises
    ------
    TooManyIdealsError, OutOfTimeError
    """
    ideals = _list_ideals(exact[0], clock)
    place = {ideal: i for i, ideal in enumerate(ideals)}
    blocks: list[list[list[int]]] = []
    count = 0
    goals = [None if goal is None else ceil(goal / one.unit) for one in exact]
    for ideal in ideals[:-1]:
        clock.raise_if_late()
        found = _blocks_from(exact, barred, ideal, goals)
        blocks.append([[place[end] for end in ends] for ends in found])
        count += sum(map(len, found))
        if count > _MOST_BLOCKS:
            raise TooManyIdealsError("there are too many blocks to look at")
    nodes_by_first, nodes_by_last = dict[int, int](), dict[int, int]()
    for v, first, last in windows:
        nodes_by_first[first] = nodes_by_first.get(first, 0) | 1 << v
        nodes_by_last[last] = nodes_by_last.get(last, 0) | 1 << v

    def window(i: int, j: int) -> tuple[int, int]:
        block = ideals[j] & ~ideals[i]
        first = max((first for first, nodes in nodes_by_first.items() if block & nodes), default=0)
        return first, min((last for last, nodes in nodes_by_last.items() if block & nodes), default=instance.k - 1)

    return blocks_lead_through(instance, blocks, clock, window if windows else None)


def blocks_lead_through(
    instance: Instance,
    blocks: Sequence[Sequence[Sequence[int]]],
    clock: Clock,
    window: _Window | None = None,
) -> bool:
    """Whether blocks lead from the first place to the last on the devices, some of which may idle.

    Parameters
    ----------
    blocks : sequence of lists
        For each place but the last and each kind, the later places where a block may end.
    window : callable, optional
        First and last of the k places of the pipeline that a block from one place to another may be in.

    Raises
    ------
    TooManyIdealsError, OutOfTimeError
    """
    window = window or (lambda i, j: (0, instance.k - 1))
    if instance.machines.is_fixed:
        return _leads_in_sequence(instance.machines.sequence, blocks, window)
    return _leads(instance, blocks, clock, window)


def _list_ideals(exact: ExactInstance, clock: Clock) -> list[int]:
    """All ideals, the smaller first."""
    before = [sum(1 << u for u in nodes) for nodes in map(set, exact.before)]
    level, found = {0}, [0]
    while level:
        clock.raise_if_late()
        level = {
            ideal | 1 << v for ideal in level for v in range(exact.n) if not ideal >> v & 1 and before[v] & ~ideal == 0
        }
        found += sorted(level)
        if len(found) > _MOST_IDEALS:
            raise TooManyIdealsError(f"there are more than {_MOST_IDEALS} ideals")
    return found


def _blocks_from(
    exact: Sequence[ExactInstance], barred: Sequence[int], first: int, goals: Sequence[int | None]
) -> list[list[int]]:
    """For each kind, where the blocks that begin behind an ideal end and cost less than the goal of that kind."""
    one = exact[0]
    before = [sum(1 << u for u in set(nodes)) for nodes in one.before]
    masks = [(1 << tensor.producer, sum(1 << v for v in tensor.readers)) for tensor in one.tensors]
    ends: list[list[int]] = [[] for _ in exact]
    level = {first: [0] * len(exact)}  # work of each kind
    while level:
        following: dict[int, list[int]] = {}
        for last, works in level.items():
            if last != first:
                for t, cost in enumerate(costs_of_block(exact, barred, masks, last & ~first, works)):
                    if cost is not None and ((goal := goals[t]) is None or cost < goal):
                        ends[t].append(last)
            for v in range(one.n):
                larger = last | 1 << v
                if larger == last or before[v] & ~last or larger in following:
                    continue
                grown = [work + own.work[v] for work, own in zip(works, exact, strict=True)]
                if any(goal is None or work < goal for work, goal in zip(grown, goals, strict=True)):
                    following[larger] = grown
        level = following
    return ends


def costs_of_block(
    exact: Sequence[ExactInstance],
    barred: Sequence[int],
    masks: Sequence[tuple[int, int]],
    block: int,
    works: Sequence[int],
) -> list[int | None]:
    """Cost of a block on each kind in its own unit; None where it has to fit and does not, or cannot run."""
    one = exact[0]
    cut = [t for t, (maker, readers) in enumerate(masks) if (readers & ~block if maker & block else readers & block)]
    limited = any(own.memory is not None for own in exact)
    nodes = [v for v in range(one.n) if block >> v & 1] if limited else []
    found: list[int | None] = []
    for own, unable, work in zip(exact, barred, works, strict=True):
        over = 0
        if own.memory is not None:
            held = sum(own.held[v] for v in nodes) + sum(
                size for users, size in own.shared if any(block >> v & 1 for v in users)
            )
            peak = own.buffer if own.buffer is not None else max(own.need[v] for v in nodes)
            over = max(0, held + peak - own.memory)
        fits = not (own.fit and over) and not block & unable
        found.append(work + over + sum(own.tensors[t].time for t in cut) if fits else None)
    return found


def _leads(instance: Instance, blocks: Sequence[Sequence[Sequence[int]]], clock: Clock, window: _Window) -> bool:
    """Whether blocks lead to the last place with at most so many devices of each kind, and k in all."""
    shape = tuple(count + 1 for count in instance.machines.counts)
    last, states, k = len(blocks), int(np.prod(shape, dtype=np.float64)), instance.k
    if (last + 1) * states > MOST_TRUTHS:
        raise TooManyIdealsError(f"there are {states} numbers of devices for {last + 1} ideals")
    own = np.min_scalar_type(k + 2)
    passed = [np.full(shape, k + 1, dtype=own) for _ in range(last + 1)]
    passed[0].flat[0] = 0
    for i, ends in enumerate(blocks):
        clock.raise_if_late()
        if passed[i].min() >= k:
            continue
        for t, places in enumerate(ends):
            before = np.full(shape, k + 1, dtype=own)
            there, here = [slice(None)] * len(shape), [slice(None)] * len(shape)
            there[t], here[t] = slice(1, None), slice(None, -1)
            before[tuple(there)] = passed[i][tuple(here)]
            behind: dict[tuple[int, int], NDArray[np.unsignedinteger]] = {}
            for j in places if before.min() < k else ():
                first, final = window(i, j)
                if (first, final) not in behind:
                    moved = np.maximum(before, own.type(first)) + own.type(1)
                    behind[first, final] = np.where(moved <= final + 1, moved, own.type(k + 1))
                np.minimum(passed[j], behind[first, final], out=passed[j])
    return bool(passed[last].min() <= k)


def _leads_in_sequence(sequence: Sequence[int], blocks: Sequence[Sequence[Sequence[int]]], window: _Window) -> bool:
    """Whether blocks lead to the last place with the devices in their order, some of which may idle."""
    size = len(sequence)
    used = [0] + [size] * (len(blocks) - 1) + [size + 1]  # least number of devices that lead to each place
    for i, ends in enumerate(blocks):
        for t, places in enumerate(ends):
            following = [size]  # for each device the next one of the kind
            for d in range(size - 1, -1, -1):
                following.append(d if sequence[d] == t else following[-1])
            for j in places:
                first, final = window(i, j)
                device = following[size - max(used[i], first)]
                if device <= final:
                    used[j] = min(used[j], device + 1)
    return used[-1] <= size
