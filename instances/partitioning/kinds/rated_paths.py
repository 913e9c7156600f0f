"""Paths of blocks over kinds of devices with a rate for each pair of kinds, of layers in a row; compiled by numba.

Each layer is read by the next one alone, so that a block moves what passes its two ends, at the rates from the kind of
the block before and to that of the block behind. A state is how many devices are used, as in `counted_paths`, the kind
of the last block, and the one that is announced for the next; for each the places that blocks below a goal can reach
are bits. In a fixed order a state is the number of devices that are passed.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, IntArray
from instances.machines import Machines
from instances.partitioning.kinds.counted_paths import CountedPath

__all__ = ["RatedSteps", "best_rated_path", "counted_states", "is_rateable", "layers_in_a_row", "rated_path_within"]

_WORD = 64
# Operations for one goal, and words of bits, that are few enough.
_MOST_WORK, _MOST_WORDS = 2**33, 2**26
# Up to this difference, relative, goals are halved; then the cost of each path that is found is the next one.
_NEAR = 1e-3


class RatedSteps(NamedTuple):
    """Costs of blocks of layers in a row."""

    costs: FloatArray  # (T, m, m): of layers i to j on kind t, without transfers; not looked at for j < i
    sizes: FloatArray  # (m + 1,): bytes between layers i - 1 and i; nothing passes the ends
    rates: FloatArray  # (T, T)


def layers_in_a_row(graph: ComputationGraph) -> FloatArray | None:
    """(n + 1,) bytes that pass between consecutive nodes, 0 at the ends; None if others than the next read a node.

    Nodes are in the topological order.
    """
    place = np.argsort(graph.topological_order)
    if len({*map(tuple, place[graph.edges].tolist())} ^ {(i, i + 1) for i in range(graph.n - 1)}):
        return None
    sizes, tensors = np.zeros(graph.n + 1), graph.tensors
    read = np.diff(tensors.start) > 0
    np.add.at(sizes, place[tensors.producer[read]] + 1, tensors.bytes[read])
    return sizes


def is_rateable(devices: Machines, places: int) -> bool:
    """Whether all states can be looked at."""
    kinds, words = len(devices.kinds), places // _WORD + 1
    states = devices.total + 1 if devices.is_fixed else math.prod(count + 1 for count in devices.counts)
    cells = states * kinds**2 * words
    return cells <= _MOST_WORDS and cells * places * kinds <= _MOST_WORK


def best_rated_path(steps: RatedSteps, devices: Machines, most: int, ceiling: float = math.inf) -> CountedPath | None:
    """Path of least bottleneck from place 0 to place m; None if there is none of at most `ceiling`.

    Parameters
    ----------
    steps : RatedSteps
    devices : Devices
        In a fixed order the path has a step for each, which is empty where a device idles.
    most : int
        Devices that may be used in all.
    ceiling : float
    """
    kinds, m, _ = steps.costs.shape
    following = _in_sequence(devices) if devices.is_fixed else counted_states(devices.counts, most)
    reach = np.zeros((len(following), kinds + 1, kinds, m // _WORD + 1), dtype=np.uint64)
    low, goal, best = 0.0, min(ceiling, sys.float_info.max), None
    while True:
        found = _path(steps, following, goal, reach)
        if found is not None:
            best = found
        elif best is not None:
            low = goal
        if best is None or math.nextafter(best.bottleneck, 0.0) <= low:
            return best if best is None or not devices.is_fixed else _in_places(best, devices, m)
        near = best.bottleneck - low <= _NEAR * best.bottleneck
        goal = math.nextafter(best.bottleneck, 0.0) if near else (low + best.bottleneck) / 2


def rated_path_within(steps: RatedSteps, devices: Machines, most: int, goal: float) -> CountedPath | None:
    """Any path with a bottleneck of at most `goal`, as `best_rated_path` returns the best; None if there is none."""
    kinds, m, _ = steps.costs.shape
    following = _in_sequence(devices) if devices.is_fixed else counted_states(devices.counts, most)
    reach = np.zeros((len(following), kinds + 1, kinds, m // _WORD + 1), dtype=np.uint64)
    found = _path(steps, following, min(goal, sys.float_info.max), reach)
    return found if found is None or not devices.is_fixed else _in_places(found, devices, m)


def counted_states(counts: tuple[int, ...], most: int) -> IntArray:
    """(states, T) state behind a device of each kind; -1 if there is none."""
    sizes = [count + 1 for count in counts]
    digits = np.indices(sizes[::-1]).reshape(len(sizes), -1)[::-1].T
    strides = np.cumprod([1, *sizes[:-1]])
    able = (digits < np.array(counts)) & (digits.sum(axis=1) < most)[:, None]
    return np.ascontiguousarray(np.where(able, np.arange(len(digits))[:, None] + strides, -1))


def _in_sequence(devices: Machines) -> IntArray:
    """(devices + 1, kinds) state behind the next device of each kind; -1 if there is none."""
    following = np.full((devices.total + 1, len(devices.kinds)), -1)
    for d in range(devices.total - 1, -1, -1):
        following[d] = following[d + 1]
        following[d, devices.sequence[d]] = d + 1
    return following


def _in_places(path: CountedPath, devices: Machines, m: int) -> CountedPath:
    """The path with a step for each device of a fixed order; one that idles begins where the next one does."""
    starts, d = np.full(devices.total, m), 0
    for start, kind in zip(path.starts.tolist(), path.kinds.tolist(), strict=True):
        d = devices.sequence.index(kind, d) + 1
        starts[d - 1] = start
    starts = np.minimum.accumulate(starts[::-1])[::-1].copy()
    return CountedPath(path.bottleneck, starts, np.array(devices.sequence))


def _path(steps: RatedSteps, following: IntArray, goal: float, reach: NDArray[np.uint64]) -> CountedPath | None:
    masks = _masks(*steps, goal)
    state, before, kind, start = _reach(masks, following, steps.costs.shape[1], reach)
    if state < 0:
        return None
    starts, kinds = _trace(masks, following, reach, state, before, kind, start)
    starts, kinds = starts[::-1].copy(), kinds[::-1].copy()
    return CountedPath(_bottleneck(*steps, starts, kinds), starts, kinds)


@compiled
def _moved(sizes: FloatArray, rates: FloatArray, place: int, s: int, t: int) -> float:
    """Time for what passes a place, from kind s to kind t; nothing passes the ends."""
    return sizes[place] / rates[s, t] if 0 < place < len(sizes) - 1 else 0.0


@compiled
def _bottleneck(costs: FloatArray, sizes: FloatArray, rates: FloatArray, starts: IntArray, kinds: IntArray) -> float:
    most = 0.0
    for b in range(len(starts)):
        last, t = b == len(starts) - 1, kinds[b]
        end = len(sizes) - 1 if last else starts[b + 1]
        into = _moved(sizes, rates, starts[b], kinds[b - 1], t)
        most = max(
            most, costs[t, starts[b], end - 1] + into + _moved(sizes, rates, end, t, t if last else kinds[b + 1])
        )
    return most


@compiled
def _masks(costs: FloatArray, sizes: FloatArray, rates: FloatArray, goal: float) -> NDArray[np.uint64]:
    """[p, q, r, i]: where blocks end that begin at i on kind q, between kinds p and r; T stands for none."""
    kinds, m, _ = costs.shape
    masks = np.zeros((kinds + 1, kinds, kinds + 1, m, m // _WORD + 1), dtype=np.uint64)
    for p in range(kinds + 1):
        for q in range(kinds):
            for r in range(kinds + 1):
                for i in range(m):
                    if (p == kinds) != (i == 0):
                        continue
                    into = 0.0 if i == 0 else sizes[i] / rates[p, q]
                    first, end = (m, m + 1) if r == kinds else (i + 1, m)
                    for j in range(first, end):
                        out = 0.0 if j == m else sizes[j] / rates[q, r]
                        if costs[q, i, j - 1] + into + out <= goal:
                            masks[p, q, r, i, j // _WORD] |= np.uint64(1) << np.uint64(j % _WORD)
    return masks


@compiled
def _reach(
    masks: NDArray[np.uint64], following: IntArray, m: int, reach: NDArray[np.uint64]
) -> tuple[int, int, int, int]:
    """Fill the places of each state, kind before and kind announced; those of the last block, or -1."""
    kinds, words = masks.shape[1], masks.shape[4]
    last_word, last_bit = m // _WORD, np.uint64(1) << np.uint64(m % _WORD)
    reach[:] = 0
    reach[0, kinds, :, 0] = 1
    for state in range(len(following)):
        for q in range(kinds):
            behind = following[state, q]
            if behind < 0:
                continue
            for p in range(kinds + 1):
                for w in range(words):
                    bits = reach[state, p, q, w]
                    i = w * _WORD
                    while bits:
                        if bits & np.uint64(1):
                            if masks[p, q, kinds, i, last_word] & last_bit:
                                return state, p, q, i
                            for r in range(kinds):
                                if following[behind, r] >= 0:
                                    for x in range(w, words):
                                        reach[behind, q, r, x] |= masks[p, q, r, i, x]
                        bits >>= np.uint64(1)
                        i += 1
    return -1, -1, -1, -1


@compiled
def _trace(
    masks: NDArray[np.uint64],
    following: IntArray,
    reach: NDArray[np.uint64],
    state: int,
    before: int,
    kind: int,
    start: int,
) -> tuple[IntArray, IntArray]:
    """Places and kinds of the blocks, from the last to the first, of a path that ends in a state."""
    kinds, m = masks.shape[1], masks.shape[3]
    starts, chosen = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    starts[0], chosen[0] = start, kind
    count = 1
    while before < kinds:
        found = False
        for earlier in range(state):
            if found or following[earlier, before] != state:
                continue
            for p in range(kinds + 1):
                for i in range(start):
                    there = (reach[earlier, p, before, i // _WORD] >> np.uint64(i % _WORD)) & np.uint64(1)
                    ends = (masks[p, before, kind, i, start // _WORD] >> np.uint64(start % _WORD)) & np.uint64(1)
                    if there and ends and not found:
                        found = True
                        starts[count], chosen[count] = i, before
                        state, kind, before, start = earlier, before, p, i
                        count += 1
                        break
                if found:
                    break
        if not found:
            break
    return starts[:count], chosen[:count]
