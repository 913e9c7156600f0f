"""Paths of blocks over kinds of devices where some nodes have windows; compiled by numba.

Blocks lie in places 0 to k - 1 in their order, and between them places may be empty. A block may be in the places from
the latest first to the earliest last one of its nodes. Whoever has passed fewer places has no fewer left, so that for
the devices that are used, as in `counted_paths`, and each position the least number of places that are passed says all.
In a fixed order place d is device d, and no devices are counted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.machines import Machines
from instances.partitioning.constraints import BlockRules
from instances.partitioning.kinds.rated_paths import counted_states

__all__ = ["PlacedPath", "StepWindows", "best_placed_path", "is_placeable", "windows_of_steps"]

# Operations for one goal that are few enough.
_MOST_WORK = 2**29


class StepWindows(NamedTuple):
    """First and last place that a step may be in, as costs are indexed."""

    first: IntArray  # (m, m)
    last: IntArray  # (m, m)


class PlacedPath(NamedTuple):
    """Path of least bottleneck."""

    bottleneck: float
    starts: IntArray  # (b,): position from which each step leads
    kinds: IntArray  # (b,): kind of device of each step
    places: IntArray  # (b,): place of each step, increasing


def windows_of_steps(rules: BlockRules, inside: NDArray[np.bool_], k: int) -> StepWindows:
    """Windows of the blocks of all steps.

    Parameters
    ----------
    rules : BlockRules
    inside : (m + 1, n) truths
        Nodes that are passed at each position.
    k : int
        Number of places.
    """
    m = len(inside) - 1
    first, last = np.zeros((m, m), dtype=np.int64), np.full((m, m), k - 1)
    for windows, table, limits in (
        (rules.first, first, np.unique(rules.first)),
        (rules.last, last, np.unique(rules.last)[::-1]),
    ):
        for limit in limits.tolist():
            held = inside[:, windows >= limit if table is first else windows <= limit].sum(axis=1)
            table[held[:-1, None] < held[None, 1:]] = limit
    return StepWindows(first, last)


def is_placeable(devices: Machines, positions: int) -> bool:
    """Whether all states can be looked at."""
    states = 1 if devices.is_fixed else math.prod(count + 1 for count in devices.counts)
    return states * len(devices.kinds) * positions**2 <= _MOST_WORK


def best_placed_path(costs: FloatArray, windows: StepWindows, devices: Machines, k: int) -> PlacedPath | None:
    """Path of least bottleneck from position 0 to position m; None if there is none.

    Parameters
    ----------
    costs : (T, m, m) floats
        As of `best_path`.
    windows : StepWindows
    devices : Devices
        In a fixed order the first k of them.
    k : int
        Number of places.
    """
    kinds, m, _ = costs.shape
    after = np.zeros((1, kinds), dtype=np.int64) if devices.is_fixed else counted_states(devices.counts, k)
    following = np.tile(np.arange(k + 1), (kinds, 1))
    if devices.is_fixed:
        for d in range(k - 1, -1, -1):
            others = np.arange(kinds) != devices.sequence[d]
            following[others, d] = following[others, d + 1]
    upper = costs[:, *np.triu_indices(m)]
    goals = np.unique(upper[np.isfinite(upper)])
    passed = np.zeros((len(after), m + 1), dtype=np.int64)
    low, high = 0, len(goals) - 1
    places = _Places(costs, *windows, after, following)
    if high < 0 or _pass(places, goals[high], passed) < 0:
        return None
    while low < high:
        middle = (low + high) // 2
        if _pass(places, goals[middle], passed) >= 0:
            high = middle
        else:
            low = middle + 1
    state = _pass(places, goals[high], passed)
    path = _trace(places, goals[high], passed, state)
    return PlacedPath(float(goals[high]), *path[:, ::-1].copy())


class _Places(NamedTuple):
    """Costs of steps, and the places that they may be in."""

    costs: FloatArray  # (T, m, m)
    first: IntArray  # (m, m) as of `StepWindows`
    last: IntArray
    after: IntArray  # (states, T) state behind a block on a kind; -1 if none is left
    following: IntArray  # (T, k + 1) earliest place of a kind from each place on


@compiled(inline="always")
def _place(following: IntArray, t: int, passed: int, first: int, last: int) -> int:
    """Earliest place of a block on kind t behind those that are passed, in its window; -1 if there is none."""
    place = following[t, max(passed, first)]
    return place if place <= last else -1


@compiled
def _pass(places: _Places, goal: float, passed: IntArray) -> int:
    """Fill the least numbers of places that are passed; a state that reaches the last position, or -1."""
    costs, first, last, after, following = places
    kinds, m, _ = costs.shape
    k = following.shape[1] - 1
    passed[:] = k + 1
    passed[0, 0] = 0
    for state in range(len(after)):
        for i in range(m):
            if passed[state, i] >= k:
                continue
            for t in range(kinds):
                behind = after[state, t]
                if behind < 0:
                    continue
                for j in range(i, m):
                    if costs[t, i, j] <= goal:
                        place = _place(following, t, passed[state, i], first[i, j], last[i, j])
                        if place >= 0:
                            passed[behind, j + 1] = min(passed[behind, j + 1], place + 1)
        if passed[state, m] <= k:
            return state
    return -1


@compiled
def _trace(places: _Places, goal: float, passed: IntArray, state: int) -> IntArray:
    """(3, b) starts, kinds and places of the steps, from the last to the first, of a path that ends in a state."""
    costs, first, last, after, following = places
    kinds, m, _ = costs.shape
    steps, count, end = np.zeros((3, m), dtype=np.int64), 0, m
    while end > 0:
        found = False
        for before in range(state + 1):
            for t in range(kinds):
                if found or after[before, t] != state:
                    continue
                for i in range(end):
                    if passed[before, i] < following.shape[1] - 1 and costs[t, i, end - 1] <= goal:
                        place = _place(following, t, passed[before, i], first[i, end - 1], last[i, end - 1])
                        if place >= 0 and place + 1 == passed[state, end]:
                            steps[0, count], steps[1, count], steps[2, count] = i, t, place
                            count, end, state, found = count + 1, i, before, True
                            break
            if found:
                break
        if not found:
            break
    return steps[:, :count]
