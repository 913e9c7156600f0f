"""Paths of blocks over kinds of devices, compiled by numba.

A path leads over places 0 to m, each step to a later place and with a device of some kind. A state is how many devices
of each kind are used, one number in mixed radix; for each the places that steps below a goal can reach are bits. Costs
need not grow with steps. Places are positions in an order (searches) or ideals of the graph (bounds).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray

__all__ = ["CountedPath", "best_path", "best_sequence", "is_countable"]

_WORD = 64
# Operations for one goal, and words of bits, that are few enough.
_MOST_WORK, _MOST_WORDS = 2**31, 2**26


class CountedPath(NamedTuple):
    """Path of least bottleneck."""

    bottleneck: float
    starts: IntArray  # (b,): place from which each step leads
    kinds: IntArray  # (b,): kind of device of each step


def is_countable(counts: tuple[int, ...], places: int) -> bool:
    """Whether all states can be looked at."""
    states, words = math.prod(count + 1 for count in counts), places // _WORD + 1
    return states * words <= _MOST_WORDS and states * words * places * len(counts) <= _MOST_WORK


def best_path(costs: FloatArray, counts: tuple[int, ...], most: int, ceiling: float = math.inf) -> CountedPath | None:
    """Path of least bottleneck from place 0 to place m; None if there is none of at most `ceiling`.

    Parameters
    ----------
    costs : (T, m, m) floats
        ``costs[t, i, j - 1]`` is that of a step from place i to place j on kind t; not looked at for j <= i.
    counts : T integers
        Devices of each kind.
    most : int
        Devices that may be used in all.
    ceiling : float
    """
    size = costs.shape[1]
    upper = costs[:, *np.triu_indices(size)]
    goals = np.unique(upper[np.isfinite(upper) & (upper <= ceiling)])
    reach = np.zeros((math.prod(count + 1 for count in counts), size // _WORD + 1), dtype=np.uint64)
    numbers, low, high = np.array(counts), 0, len(goals) - 1
    if high < 0 or _reach(costs, numbers, most, goals[high], reach) < 0:
        return None
    while low < high:
        middle = (low + high) // 2
        if _reach(costs, numbers, most, goals[middle], reach) >= 0:
            high = middle
        else:
            low = middle + 1
    state = _reach(costs, numbers, most, goals[high], reach)
    starts, kinds = _trace(costs, numbers, goals[high], reach, state)
    return CountedPath(float(goals[high]), starts[::-1].copy(), kinds[::-1].copy())


@compiled
def _reach(costs: FloatArray, counts: IntArray, most: int, goal: float, reach: NDArray[np.uint64]) -> int:
    """Fill the places of each state, up to the first state that reaches the last place, which is returned, or -1."""
    kinds, m, _ = costs.shape
    words = reach.shape[1]
    masks = np.zeros((kinds, m, words), dtype=np.uint64)
    for t in range(kinds):
        for i in range(m):
            for j in range(i, m):
                if costs[t, i, j] <= goal:
                    masks[t, i, (j + 1) // _WORD] |= np.uint64(1) << np.uint64((j + 1) % _WORD)
    digits = np.zeros(kinds, dtype=np.int64)
    used = 0
    last_word, last_bit = m // _WORD, np.uint64(1) << np.uint64(m % _WORD)
    reach[0, :] = 0
    reach[0, 0] = 1
    for state in range(1, len(reach)):
        reach[state, :] = 0
        t = 0
        while digits[t] == counts[t]:
            used -= digits[t]
            digits[t] = 0
            t += 1
        digits[t] += 1
        used += 1
        if used > most:
            continue
        stride = 1
        for t in range(kinds):
            if digits[t] > 0:
                before = state - stride
                for w in range(words):
                    bits = reach[before, w]
                    i = w * _WORD
                    while bits:
                        if bits & np.uint64(1) and i < m:
                            for x in range(w, words):
                                reach[state, x] |= masks[t, i, x]
                        bits >>= np.uint64(1)
                        i += 1
            stride *= counts[t] + 1
        if reach[state, last_word] & last_bit:
            return state
    return -1


@compiled
def _trace(
    costs: FloatArray, counts: IntArray, goal: float, reach: NDArray[np.uint64], state: int
) -> tuple[IntArray, IntArray]:
    """Places and kinds of the steps, from the last to the first, of a path that ends in a state."""
    kinds, m, _ = costs.shape
    starts, chosen = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    count, end = 0, m
    while end > 0:
        stride, found = 1, False
        for t in range(kinds):
            if not found and (state // stride) % (counts[t] + 1) > 0:
                before = state - stride
                for i in range(end):
                    bit = (reach[before, i // _WORD] >> np.uint64(i % _WORD)) & np.uint64(1)
                    if bit and costs[t, i, end - 1] <= goal:
                        starts[count], chosen[count] = i, t
                        count, end, state, found = count + 1, i, before, True
                        break
            stride *= counts[t] + 1
        if not found:
            break
    return starts[:count], chosen[:count]


@compiled
def best_sequence(costs: FloatArray, sequence: IntArray) -> tuple[float, IntArray]:
    """Least bottleneck with step d on a device of kind ``sequence[d]``, and where it begins; steps may be empty."""
    n, size = costs.shape[1], len(sequence)
    best = np.full(n + 1, np.inf)
    best[0] = 0.0
    begin = np.zeros((size, n + 1), dtype=np.int64)
    for d in range(size):
        t = sequence[d]
        for j in range(n, -1, -1):
            value, start = best[j], j
            for i in range(j - 1, -1, -1):
                if best[i] < value:
                    cost = max(best[i], costs[t, i, j - 1])
                    if cost < value:
                        value, start = cost, i
            best[j], begin[d, j] = value, start
    starts = np.zeros(size, dtype=np.int64)
    end = n
    for d in range(size - 1, -1, -1):
        starts[d] = begin[d, end]
        end = starts[d]
    return float(best[n]), starts
