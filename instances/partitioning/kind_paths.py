"""Consecutive blocks on kinds of devices: paths of least bottleneck, compiled by numba."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, IntArray
from instances.machines import Machines
from instances.partitioning.constraints import BlockRules

# Paths of blocks over kinds of devices, compiled by numba.
#
# A path leads over places 0 to m; each step, a block, leads to a later place and takes a device of some kind. A state
# is the number of used devices of each kind, as one number in mixed radix; for each state the places that steps within
# a goal can reach are bits. Costs need not grow with blocks, and may depend on the state from which a step leads.
# Places are positions in an order (searches) or ideals of the graph (bounds).


_WORD = 64
# Operations for one goal, and words of bits, that are few enough.
_MOST_WORK, _MOST_WORDS = 2**31, 2**26


class CountedPath(NamedTuple):
    """Path of least bottleneck: consecutive blocks, and the kinds of their devices."""

    bottleneck: float
    starts: IntArray  # (b,): place from which each step leads
    kinds: IntArray  # (b,): kind of device of each step


def is_countable(counts: tuple[int, ...], places: int) -> bool:
    """Whether `best_path` can enumerate all numbers of used devices within its limits of memory and work."""
    states, words = math.prod(count + 1 for count in counts), places // _WORD + 1
    return states * words <= _MOST_WORDS and states * words * places * len(counts) <= _MOST_WORK


def best_path(
    costs: FloatArray,
    counts: tuple[int, ...],
    limit: int,
    ceiling: float = math.inf,
    table: IntArray | None = None,
) -> CountedPath | None:
    """Path of least bottleneck from place 0 to place m; None if there is none of at most `ceiling`.

    Parameters
    ----------
    costs : (c, m, m) floats
        ``costs[table[s, t], i, j - 1]`` is the cost of a block from place i to place j on kind t in state s, ignored
        for j <= i. State s numbers the used devices of each kind, in mixed radix.
    counts : T integers
        Devices of each kind.
    limit : int
        Devices that may be used in all.
    ceiling : float
    table : (states, T) integers, optional
        Row of `costs` for each state and kind; one row where states do not matter. By default kind t has ``costs[t]``.
    """
    table = np.arange(len(counts))[None] if table is None else table
    size = costs.shape[1]
    upper = costs[:, *np.triu_indices(size)]
    goals = np.unique(upper[np.isfinite(upper) & (upper <= ceiling)])
    reach = np.zeros((math.prod(count + 1 for count in counts), size // _WORD + 1), dtype=np.uint64)
    numbers, low, high = np.array(counts), 0, len(goals) - 1
    if high < 0 or _reach(costs, table, numbers, limit, goals[high], reach) < 0:
        return None
    while low < high:
        middle = (low + high) // 2
        if _reach(costs, table, numbers, limit, goals[middle], reach) >= 0:
            high = middle
        else:
            low = middle + 1
    state = _reach(costs, table, numbers, limit, goals[high], reach)
    starts, kinds = _trace(costs, table, numbers, goals[high], reach, state)
    return CountedPath(float(goals[high]), starts[::-1].copy(), kinds[::-1].copy())


@compiled
def _reach(
    costs: FloatArray, table: IntArray, counts: IntArray, limit: int, goal: float, reach: NDArray[np.uint64]
) -> int:
    """Fill `reach` with places that blocks within the goal lead to; return the first state at the last place, or -1."""
    (tables, m, _), kinds = costs.shape, len(counts)
    words = reach.shape[1]
    masks = np.zeros((tables, m, words), dtype=np.uint64)
    for c in range(tables):
        for i in range(m):
            for j in range(i, m):
                if costs[c, i, j] <= goal:
                    masks[c, i, (j + 1) // _WORD] |= np.uint64(1) << np.uint64((j + 1) % _WORD)
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
        if used > limit:
            continue
        stride = 1
        for t in range(kinds):
            if digits[t] > 0:
                before = state - stride
                c = table[before % len(table), t]
                for w in range(words):
                    bits = reach[before, w]
                    i = w * _WORD
                    while bits:
                        if bits & np.uint64(1) and i < m:
                            for x in range(w, words):
                                reach[state, x] |= masks[c, i, x]
                        bits >>= np.uint64(1)
                        i += 1
            stride *= counts[t] + 1
        if reach[state, last_word] & last_bit:
            return state
    return -1


@compiled
def _trace(
    costs: FloatArray, table: IntArray, counts: IntArray, goal: float, reach: NDArray[np.uint64], state: int
) -> tuple[IntArray, IntArray]:
    """First places and kinds of the steps of a path that ends in a state, from the last step to the first."""
    (_, m, _), kinds = costs.shape, len(counts)
    starts, chosen = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    count, end = 0, m
    while end > 0:
        stride, stepped = 1, False
        for t in range(kinds):
            if not stepped and (state // stride) % (counts[t] + 1) > 0:
                before = state - stride
                c = table[before % len(table), t]
                for i in range(end):
                    bit = (reach[before, i // _WORD] >> np.uint64(i % _WORD)) & np.uint64(1)
                    if bit and costs[c, i, end - 1] <= goal:
                        starts[count], chosen[count] = i, t
                        count, end, state, stepped = count + 1, i, before, True
                        break
            stride *= counts[t] + 1
        if not stepped:
            break
    return starts[:count], chosen[:count]


@compiled
def best_sequence(costs: FloatArray, sequence: IntArray) -> tuple[float, IntArray]:
    """Least bottleneck with block d on kind ``sequence[d]``, and the first node of each block; blocks may be empty."""
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


# Paths of blocks over kinds of devices with a rate for each pair of kinds; compiled by numba.
#
# A block receives at the rate from the kind of the block before it, and sends at the rate to the kind of the block
# after it, as layers in a row do: each layer is read by the next alone. A state has the number of used devices of each
# kind, as above, the kind of the last block, and the kind announced for the next; for each state the places that blocks
# within a goal can reach are bits. In a fixed order the number of passed devices replaces the numbers of used ones.


# Operations for one goal, and words of bits, that are few enough.
_MOST_RATED_WORK, _MOST_RATED_WORDS = 2**33, 2**26
# Above this relative gap goals bisect it; below, the next goal is just less than the cost of the last path.
_NEAR = 1e-3


class RatedSteps(NamedTuple):
    """Costs of the blocks of nodes i to j at [i, j], ignored for j < i; nothing is received or sent at the ends."""

    costs: FloatArray  # (T, m, m): on kind t, without transfers
    received: FloatArray  # (m, m) bytes
    sent: FloatArray  # (m, m) bytes
    rates: FloatArray  # (T, T)

    @classmethod
    def of_row(cls, costs: FloatArray, sizes: FloatArray, rates: FloatArray) -> RatedSteps:
        """Costs for layers in a row; `sizes` are the (m + 1,) bytes between layers i - 1 and i."""
        square = (len(sizes) - 1,) * 2
        received = np.ascontiguousarray(np.broadcast_to(sizes[:-1, None], square))
        return cls(costs, received, np.ascontiguousarray(np.broadcast_to(sizes[1:], square)), rates)


def layers_in_a_row(graph: ComputationGraph) -> FloatArray | None:
    """(n + 1,) bytes between consecutive nodes in topological order, 0 at the ends; None if the graph is no chain."""
    place = np.argsort(graph.topological_order)
    if len({*map(tuple, place[graph.edges].tolist())} ^ {(i, i + 1) for i in range(graph.n - 1)}):
        return None
    sizes, tensors = np.zeros(graph.n + 1), graph.tensors
    read = np.diff(tensors.start) > 0
    np.add.at(sizes, place[tensors.producer[read]] + 1, tensors.bytes[read])
    return sizes


def is_rateable(devices: Machines, places: int, limit: int = _MOST_RATED_WORK) -> bool:
    """Whether `best_rated_path` has few enough states for its tables, and for `limit` operations for each goal."""
    kinds, words = len(devices.kinds), places // _WORD + 1
    states = devices.total + 1 if devices.is_fixed else math.prod(count + 1 for count in devices.counts)
    cells = states * kinds**2 * words
    return cells <= _MOST_RATED_WORDS and cells * places * kinds <= limit


def best_rated_path(
    steps: RatedSteps,
    devices: Machines,
    limit: int,
    ceiling: float = math.inf,
    deadline: Deadline | None = None,
) -> CountedPath | None:
    """Path of least bottleneck from place 0 to place m; None if there is none of at most `ceiling`.

    Parameters
    ----------
    steps : RatedSteps
    devices : Devices
        In a fixed order the path has a step for each, which is empty where a device idles.
    limit : int
        Devices that may be used in all.
    ceiling : float
    deadline : Deadline, optional
        Once it has passed, the best path so far is the answer.
    """
    kinds, m, _ = steps.costs.shape
    following = _in_sequence(devices) if devices.is_fixed else counted_states(devices.counts, limit)
    reach = np.zeros((len(following), kinds + 1, kinds, m // _WORD + 1), dtype=np.uint64)
    low, goal, best = 0.0, min(ceiling, sys.float_info.max), None
    while True:
        path = _path(steps, following, goal, reach)
        if path is not None:
            best = path
        elif best is not None:
            low = goal
        late = deadline is not None and deadline.passed
        if best is None or late or math.nextafter(best.bottleneck, 0.0) <= low:
            return best if best is None or not devices.is_fixed else _in_places(best, devices, m)
        near = best.bottleneck - low <= _NEAR * best.bottleneck
        goal = math.nextafter(best.bottleneck, 0.0) if near else (low + best.bottleneck) / 2


def rated_path_within(steps: RatedSteps, devices: Machines, limit: int, goal: float) -> CountedPath | None:
    """A path with a bottleneck of at most `goal`, in the form of `best_rated_path`; None if there is none."""
    kinds, m, _ = steps.costs.shape
    following = _in_sequence(devices) if devices.is_fixed else counted_states(devices.counts, limit)
    reach = np.zeros((len(following), kinds + 1, kinds, m // _WORD + 1), dtype=np.uint64)
    path = _path(steps, following, min(goal, sys.float_info.max), reach)
    return path if path is None or not devices.is_fixed else _in_places(path, devices, m)


def counted_states(counts: tuple[int, ...], limit: int) -> IntArray:
    """(states, T) state after one more device of each kind is used; -1 where `counts` or `limit` forbid it."""
    sizes = [count + 1 for count in counts]
    digits = np.indices(sizes[::-1]).reshape(len(sizes), -1)[::-1].T
    strides = np.cumprod([1, *sizes[:-1]])
    able = (digits < np.array(counts)) & (digits.sum(axis=1) < limit)[:, None]
    return np.ascontiguousarray(np.where(able, np.arange(len(digits))[:, None] + strides, -1))


def _in_sequence(devices: Machines) -> IntArray:
    """(devices + 1, kinds) number of devices passed once the next device of a kind is used; -1 if none is left.

    In row d, the first d devices of the fixed order are passed before.
    """
    following = np.full((devices.total + 1, len(devices.kinds)), -1)
    for d in range(devices.total - 1, -1, -1):
        following[d] = following[d + 1]
        following[d, devices.sequence[d]] = d + 1
    return following


def _in_places(path: CountedPath, devices: Machines, m: int) -> CountedPath:
    """The path with a block for each device of a fixed order; idle devices have blocks without nodes."""
    starts, d = np.full(devices.total, m), 0
    for start, kind in zip(path.starts.tolist(), path.kinds.tolist(), strict=True):
        d = devices.sequence.index(kind, d) + 1
        starts[d - 1] = start
    starts = np.minimum.accumulate(starts[::-1])[::-1].copy()
    return CountedPath(path.bottleneck, starts, np.array(devices.sequence))


def _path(steps: RatedSteps, following: IntArray, goal: float, reach: NDArray[np.uint64]) -> CountedPath | None:
    masks = _masks(*steps, goal)
    state, before, kind, start = _reach_rated(masks, following, steps.costs.shape[1], reach)
    if state < 0:
        return None
    starts, kinds = _trace_rated(masks, following, reach, state, before, kind, start)
    starts, kinds = starts[::-1].copy(), kinds[::-1].copy()
    return CountedPath(_bottleneck(*steps, starts, kinds), starts, kinds)


@compiled
def _bottleneck(
    costs: FloatArray,
    received: FloatArray,
    sent: FloatArray,
    rates: FloatArray,
    starts: IntArray,
    kinds: IntArray,
) -> float:
    bottleneck = 0.0
    for b in range(len(starts)):
        i, t = starts[b], kinds[b]
        j = len(received) if b == len(starts) - 1 else starts[b + 1]
        into = 0.0 if i == 0 else received[i, j - 1] / rates[kinds[b - 1], t]
        out = 0.0 if j == len(received) else sent[i, j - 1] / rates[t, kinds[b + 1]]
        bottleneck = max(bottleneck, costs[t, i, j - 1] + into + out)
    return bottleneck


@compiled
def _masks(
    costs: FloatArray, received: FloatArray, sent: FloatArray, rates: FloatArray, goal: float
) -> NDArray[np.uint64]:
    """Places, as bits, where a block from place i on kind q may end within the goal, at [p, q, r, i].

    p and r are the kinds of the blocks before and behind it; T, the number of kinds, stands for no block.
    """
    kinds, m, _ = costs.shape
    masks = np.zeros((kinds + 1, kinds, kinds + 1, m, m // _WORD + 1), dtype=np.uint64)
    for p in range(kinds + 1):
        for q in range(kinds):
            for r in range(kinds + 1):
                for i in range(m):
                    if (p == kinds) != (i == 0):
                        continue
                    first, end = (m, m + 1) if r == kinds else (i + 1, m)
                    for j in range(first, end):
                        into = 0.0 if i == 0 else received[i, j - 1] / rates[p, q]
                        out = 0.0 if j == m else sent[i, j - 1] / rates[q, r]
                        if costs[q, i, j - 1] + into + out <= goal:
                            masks[p, q, r, i, j // _WORD] |= np.uint64(1) << np.uint64(j % _WORD)
    return masks


@compiled
def _reach_rated(
    masks: NDArray[np.uint64], following: IntArray, m: int, reach: NDArray[np.uint64]
) -> tuple[int, int, int, int]:
    """Fill `reach` at [state, kind of the block before, kind of the next block]; return the last block of a path.

    The last block is given by the state before it, the kind of the block before, its kind, and its first place; all are
    -1 if there is no path.
    """
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
def _trace_rated(
    masks: NDArray[np.uint64],
    following: IntArray,
    reach: NDArray[np.uint64],
    state: int,
    before: int,
    kind: int,
    start: int,
) -> tuple[IntArray, IntArray]:
    """First places and kinds of the blocks of a path, the last block first, given that block."""
    kinds, m = masks.shape[1], masks.shape[3]
    starts, chosen = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    starts[0], chosen[0] = start, kind
    count = 1
    while before < kinds:
        stepped = False
        for earlier in range(state):
            if stepped or following[earlier, before] != state:
                continue
            for p in range(kinds + 1):
                for i in range(start):
                    reached = (reach[earlier, p, before, i // _WORD] >> np.uint64(i % _WORD)) & np.uint64(1)
                    ends = (masks[p, before, kind, i, start // _WORD] >> np.uint64(start % _WORD)) & np.uint64(1)
                    if reached and ends and not stepped:
                        stepped = True
                        starts[count], chosen[count] = i, before
                        state, kind, before, start = earlier, before, p, i
                        count += 1
                        break
                if stepped:
                    break
        if not stepped:
            break
    return starts[:count], chosen[:count]


# Paths of blocks over kinds of devices where some nodes have windows; compiled by numba.
#
# Blocks lie in device slots 0 to k - 1 in their order, and slots between them may be empty. The window of a block goes
# from the latest first slot of its nodes to the earliest last one. A path that has passed fewer slots has no fewer
# left, so that for each state (numbers of used devices, as above) and position the least number of passed slots is
# enough. In a fixed order slot d is device d, and no devices are counted.


# Operations for one goal that are few enough.
_MOST_WINDOWED_WORK = 2**29


class StepWindows(NamedTuple):
    """(m, m) first and last of the k device slots in which a block of the positions i to j may run, at [i, j]."""

    first: IntArray  # (m, m)
    last: IntArray  # (m, m)


class PlacedPath(NamedTuple):
    """Path of least bottleneck whose blocks run in device slots."""

    bottleneck: float
    starts: IntArray  # (b,): position from which each step leads
    kinds: IntArray  # (b,): kind of device of each step
    places: IntArray  # (b,): slot of each step, increasing


def windows_of_steps(rules: BlockRules, inside: NDArray[np.bool_], k: int) -> StepWindows:
    """First and last device slot allowed for each block of consecutive nodes of an order with m positions.

    Parameters
    ----------
    rules : BlockRules
    inside : (m + 1, n) truths
        Whether each node lies before each position.
    k : int
        Number of device slots.
    """
    m = len(inside) - 1
    first, last = np.zeros((m, m), dtype=np.int64), np.full((m, m), k - 1)
    for windows, table, limits in (
        (rules.first, first, np.unique(rules.first)),
        (rules.last, last, np.unique(rules.last)[::-1]),
    ):
        for limit in limits.tolist():
            counts = inside[:, windows >= limit if table is first else windows <= limit].sum(axis=1)
            table[counts[:-1, None] < counts[None, 1:]] = limit
    return StepWindows(first, last)


def is_placeable(devices: Machines, positions: int) -> bool:
    """Whether `best_placed_path` can enumerate all states within its limit of work."""
    states = 1 if devices.is_fixed else math.prod(count + 1 for count in devices.counts)
    return states * len(devices.kinds) * positions**2 <= _MOST_WINDOWED_WORK


def best_placed_path(costs: FloatArray, windows: StepWindows, devices: Machines, k: int) -> PlacedPath | None:
    """Path of least bottleneck from position 0 to position m; None if there is none.

    Parameters
    ----------
    costs : (T, m, m) floats
        ``costs[t, i, j - 1]`` is the cost of a block from position i to j on kind t.
    windows : StepWindows
    devices : Devices
        In a fixed order the first k of them.
    k : int
        Number of device slots.
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
    path = _trace_windowed(places, goals[high], passed, state)
    return PlacedPath(float(goals[high]), *path[:, ::-1].copy())


class _Places(NamedTuple):
    """Costs of blocks, and the device slots in which they may run."""

    costs: FloatArray  # (T, m, m)
    first: IntArray  # (m, m) as in `StepWindows`
    last: IntArray
    after: IntArray  # (states, T) state behind a block on a kind; -1 if none is left
    following: IntArray  # (T, k + 1) earliest slot of a kind from each slot on


@compiled(inline="always")
def _place(following: IntArray, t: int, passed: int, first: int, last: int) -> int:
    """Earliest free slot from `first` to `last` on a device of kind t, after `passed` slots; -1 if there is none."""
    place = following[t, max(passed, first)]
    return place if place <= last else -1


@compiled
def _pass(places: _Places, goal: float, passed: IntArray) -> int:
    """Fill `passed` with the fewest device slots by state and position; return a state at the last position, or -1."""
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
def _trace_windowed(places: _Places, goal: float, passed: IntArray, state: int) -> IntArray:
    """(3, b) starts, kinds and device slots of a path's blocks, given its last state; the last block comes first."""
    costs, first, last, after, following = places
    kinds, m, _ = costs.shape
    steps, count, end = np.zeros((3, m), dtype=np.int64), 0, m
    while end > 0:
        stepped = False
        for before in range(state + 1):
            for t in range(kinds):
                if stepped or after[before, t] != state:
                    continue
                for i in range(end):
                    if passed[before, i] < following.shape[1] - 1 and costs[t, i, end - 1] <= goal:
                        place = _place(following, t, passed[before, i], first[i, end - 1], last[i, end - 1])
                        if place >= 0 and place + 1 == passed[state, end]:
                            steps[0, count], steps[1, count], steps[2, count] = i, t, place
                            count, end, state, stepped = count + 1, i, before, True
                            break
            if stepped:
                break
        if not stepped:
            break
    return steps[:, :count]
