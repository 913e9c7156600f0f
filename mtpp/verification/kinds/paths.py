"""Whether blocks below a goal lead from nothing to all nodes over kinds of devices, in exact whole numbers.

Ideals are bits of whole numbers. From each of them blocks grow node by node; then, place by place, the numbers of
devices that lead there are a table of truths, which each block shifts by one along the axis of its kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from instances.partitioning.kinds.problem import UnlikeInstance
from mtpp.verification.clock import Clock
from mtpp.verification.partitioning.exact_instance import ExactInstance

__all__ = ["MOST_TRUTHS", "TooManyIdealsError", "blocks_lead_through", "costs_of_block", "some_path_is_below"]

# Ideals, blocks that are looked at, and numbers in all tables of truths.
_MOST_IDEALS, _MOST_BLOCKS, MOST_TRUTHS = 20_000, 10_000_000, 2**29


class TooManyIdealsError(Exception):
    """The program would take too long, or too much memory."""


def some_path_is_below(instance: UnlikeInstance, exact: Sequence[ExactInstance], goal: Fraction, clock: Clock) -> bool:
    """Whether a partition exists all blocks of which cost less than the goal, by the largest need of their nodes.

    Parameters
    ----------
    exact : sequence of ExactInstance
        The question of each kind.

    Raises
    ------
    TooManyIdealsError, OutOfTimeError
    """
    ideals = _list_ideals(exact[0], clock)
    place = {ideal: i for i, ideal in enumerate(ideals)}
    blocks: list[list[list[int]]] = []
    count = 0
    for ideal in ideals[:-1]:
        clock.raise_if_late()
        found = _blocks_from(exact, ideal, [ceil(goal / one.unit) for one in exact])
        blocks.append([[place[end] for end in ends] for ends in found])
        count += sum(map(len, found))
        if count > _MOST_BLOCKS:
            raise TooManyIdealsError("there are too many blocks to look at")
    return blocks_lead_through(instance, blocks, clock)


def blocks_lead_through(instance: UnlikeInstance, blocks: Sequence[Sequence[Sequence[int]]], clock: Clock) -> bool:
    """Whether blocks lead from the first place to the last on the devices, some of which may idle.

    Parameters
    ----------
    blocks : sequence of lists
        For each place but the last and each kind, the later places where a block may end.

    Raises
    ------
    TooManyIdealsError, OutOfTimeError
    """
    if instance.devices.is_fixed:
        return _leads_in_sequence(instance.devices.sequence, blocks)
    return _leads(instance, blocks, clock)


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


def _blocks_from(exact: Sequence[ExactInstance], first: int, goals: Sequence[int]) -> list[list[int]]:
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
                for t, cost in enumerate(costs_of_block(exact, masks, last & ~first, works)):
                    if cost is not None and cost < goals[t]:
                        ends[t].append(last)
            for v in range(one.n):
                larger = last | 1 << v
                if larger == last or before[v] & ~last or larger in following:
                    continue
                grown = [work + own.work[v] for work, own in zip(works, exact, strict=True)]
                if any(work < goal for work, goal in zip(grown, goals, strict=True)):
                    following[larger] = grown
        level = following
    return ends


def costs_of_block(
    exact: Sequence[ExactInstance], masks: Sequence[tuple[int, int]], block: int, works: Sequence[int]
) -> list[int | None]:
    """Cost of a block on each kind in its own unit; None where it has to fit and does not."""
    one = exact[0]
    cut = [t for t, (maker, readers) in enumerate(masks) if (readers & ~block if maker & block else readers & block)]
    limited = any(own.memory is not None for own in exact)
    nodes = [v for v in range(one.n) if block >> v & 1] if limited else []
    found: list[int | None] = []
    for own, work in zip(exact, works, strict=True):
        over = 0
        if own.memory is not None:
            held = sum(own.held[v] for v in nodes) + sum(
                size for users, size in own.shared if any(block >> v & 1 for v in users)
            )
            peak = own.buffer if own.buffer is not None else max(own.need[v] for v in nodes)
            over = max(0, held + peak - own.memory)
        fits = not (own.fit and over)
        found.append(work + over + sum(own.tensors[t].time for t in cut) if fits else None)
    return found


def _leads(instance: UnlikeInstance, blocks: Sequence[Sequence[Sequence[int]]], clock: Clock) -> bool:
    """Whether blocks lead to the last place with at most so many devices of each kind, and k in all."""
    shape = tuple(count + 1 for count in instance.devices.counts)
    last, states = len(blocks), int(np.prod(shape, dtype=np.float64))
    if (last + 1) * states > MOST_TRUTHS:
        raise TooManyIdealsError(f"there are {states} numbers of devices for {last + 1} ideals")
    allowed: NDArray[np.bool_] = np.indices(shape).sum(axis=0) <= instance.k
    reached = [np.zeros(shape, dtype=bool) for _ in range(last + 1)]
    reached[0][(0,) * len(shape)] = True
    for i, ends in enumerate(blocks):
        clock.raise_if_late()
        if not reached[i].any():
            continue
        for t, places in enumerate(ends):
            shifted = np.zeros(shape, dtype=bool)
            there, here = [slice(None)] * len(shape), [slice(None)] * len(shape)
            there[t], here[t] = slice(1, None), slice(None, -1)
            shifted[tuple(there)] = reached[i][tuple(here)]
            shifted &= allowed
            for j in places if shifted.any() else ():
                reached[j] |= shifted
    return bool(reached[last].any())


def _leads_in_sequence(sequence: Sequence[int], blocks: Sequence[Sequence[Sequence[int]]]) -> bool:
    """Whether blocks lead to the last place with the devices in their order, some of which may idle."""
    used = [0] + [len(sequence) + 1] * len(blocks)  # least number of devices that lead to each place
    for i, ends in enumerate(blocks):
        for t, places in enumerate(ends):
            following = next((d + 1 for d in range(used[i], len(sequence)) if sequence[d] == t), len(sequence) + 1)
            for j in places:
                used[j] = min(used[j], following)
    return used[-1] <= len(sequence)
