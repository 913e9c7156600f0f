r"""The program over stages: settings, times of all stages, and the least bound of plans that run one stage a group.

**The least bound on the step of any plan whose groups run one stage each, by a program over stages from the last on.**

Every order of unsplit passes that keeps 1F1B's number of microbatches takes at least the larger of two values. With
:math:`τ = f + b` of a stage, one-way transfer c to the next, time A after the last backward pass and values with a
prime of the stages after it,

.. math::
    Z_1 = \max(B, τ + 2 M c, τ + 2 c + Z_1'), \qquad Z_2 = \max(B + A, τ + 2 M c + A, f + c + Z_2'),

2 M c being M c in full duplex. B is `least_span`: the first of s stages holds at most k = min(M, s) microbatches, and a
forward pass comes back as a backward one after R = 2 c + ρ' or longer, :math:`ρ = τ + R`, ρ' the least of any stages
after it. States are the stages left s, the first layer l, and devices k of a pipeline; a state has a front of pairs, at
most `_POINTS`: beyond that two neighbours become one with the smaller of both values each. Transfers and AllReduces run
at the rate within a server where groups of the size could lie in one. A stage recomputes the least that fits. So the
least of max(Z_1, Z_2) is a bound for all these plans, wherever they lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.bounds import least_span
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.recomputation import Fronts, GridArrays, least_time

# Degrees that all stages of a plan share, and the least work that each device has with them.


@dataclass(frozen=True)
class Setting:
    """Degrees of a plan that all its stages share."""

    micro_batch: int
    pipelines: int
    context: int
    expert: int
    zero: int


#: Settings of questions that are in use.
_KNOWN: WeakKeyDictionary[GridInstance, list[tuple[Setting, GridArrays]]] = WeakKeyDictionary()


def settings_of(question: GridInstance) -> list[tuple[Setting, GridArrays]]:
    """All settings with their arrays; these are made once for each size of microbatches and degree of a question."""
    if question not in _KNOWN:
        _KNOWN[question] = list(_settings(question))
    return _KNOWN[question]


def _settings(question: GridInstance) -> Iterator[tuple[Setting, GridArrays]]:
    for chain in question.chains:
        for context, expert in sorted({(c, e) for _, c, e in chain.degrees}):
            arrays = GridArrays.of(question, chain, context, expert)
            if arrays is None:
                continue
            for d, zero in product(question.pipelines(chain, context), question.zero):
                if d * context % expert == 0 and (zero == min(question.zero) or d * context > 1):
                    yield Setting(chain.micro_batch, d, context, expert, zero), arrays


def even_work(question: GridInstance, setting: Setting, arrays: GridArrays) -> float:
    """Time of a step if all devices shared all work equally, a bound [s]."""
    M = question.global_batch // (setting.pipelines * setting.micro_batch)
    K = question.servers.devices // (setting.pipelines * setting.context)
    layers = np.diff(arrays.forward + arrays.backward, axis=1)
    return float(M * (arrays.degrees[:, None] * layers).min(axis=0).sum() / K)


# Times of all stages of a setting, as tables in which runs of the same layers have one entry.


#: Steps of a kernel between two looks at the deadline; numbers that a table of times may hold.
STEPS, _TIMES = 4_000_000, 1 << 27
#: Steps to find the least recomputation.
_SEARCH = 16


class StageCosts(NamedTuple):
    """Times of all stages of one setting, R runs of layers; infinite where a stage does not fit."""

    run: NDArray[np.int32]  # (L, L + 1): as `Fronts.run`
    tau: FloatArray  # (H, T, R): both passes with h + 1 microbatches held [s]
    floor: FloatArray  # (T, L): both passes of a layer, without what replicas send meanwhile [s]
    floor_forward: FloatArray  # (T, L): forward passes alone [s]
    forward: FloatArray  # (T, R) [s]
    after: FloatArray  # (T, R) [s]
    transfer: FloatArray  # (T, L): one way after each layer, at the best rate [s]
    rooms: FloatArray  # (T, R): bytes for what microbatches keep
    degrees: IntArray  # (T,)


def stage_costs(
    question: GridInstance, arrays: GridArrays, setting: Setting, held: int, deadline: Deadline
) -> StageCosts | None:
    """Times of all stages at the best rates that their sizes allow.

    None if the deadline comes first, or they take too much memory.
    """
    fronts = arrays.fronts(deadline)
    T, L = arrays.output.shape
    if fronts is None or held * T * len(fronts.first) > _TIMES:
        return None
    servers, sizes, zero = question.servers, question.state_bytes, setting.zero
    shards = (setting.pipelines * setting.context, setting.pipelines * setting.context // setting.expert)
    kept = [question.state_bytes.kept(zero, one) for one in shards]
    width = arrays.degrees * setting.context
    near = np.array([servers.rate(inside=bool(w * setting.pipelines <= servers.size)) for w in width])
    beside = np.array([servers.rate(inside=bool(w + width[0] <= servers.size)) for w in width])
    i, j = fronts.first.T
    numbers = np.maximum(arrays.parameters[:, :, j] - arrays.parameters[:, :, i], 0.0)  # (2, T, R)
    numbers[0, :, fronts.run[0, L]] -= arrays.tied
    gathered, reduced = sizes.weights * (zero == 3), sizes.gradients * (zero >= 2)
    after, fixed, flow = (np.zeros((T, len(i))) for _ in range(3))
    for one, (D, bytes_kept) in enumerate(zip(shards, kept, strict=True)):
        part = (D - 1) / D / near[:, None]
        flow += numbers[one] * part
        after += numbers[one] * (sizes.summed(zero) * part + question.update_time / (D if zero else 1))
        fixed += numbers[one] * sum(bytes_kept)
    after += np.outer(arrays.tied * sizes.gradients / beside, (i == 0) != (j == L))
    gathering = sum(D > 1 for D in shards) * (zero == 3)
    fixed += 2 * sizes.weights * _largest(arrays.largest, fronts.run, fronts.first) * gathering
    forward, backward = (table[:, j] - table[:, i] for table in (arrays.forward, arrays.backward))
    rooms = question.memory * (1 + 1e-12) - fixed
    passes = np.array([forward, flow * gathered, backward, flow * (gathered + reduced)])
    tau, some = np.full((held, T, len(i)), np.inf), max(1, STEPS // (_SEARCH * held * T))
    for low in range(0, len(i), some):
        if deadline.passed:
            return None
        _times(passes, rooms, arrays.caps, fronts, tau, low, min(low + some, len(i)))
    return StageCosts(
        fronts.run,
        tau,
        floor=_floor(passes, rooms, arrays.caps, fronts),
        floor_forward=np.diff(arrays.forward, axis=1),
        forward=np.maximum(passes[0], passes[1]),
        after=after,
        transfer=arrays.output / beside[:, None],
        rooms=rooms,
        degrees=arrays.degrees,
    )


@compiled
def _largest(sizes: FloatArray, run: NDArray[np.int32], first: IntArray) -> FloatArray:
    """(T, R) largest layer of each run."""
    found = np.zeros((len(sizes), len(first)))
    for one in range(len(first)):
        i, j = first[one]
        for t in range(len(sizes)):
            found[t, one] = max(sizes[t, j - 1], found[t, run[i, j - 1]] if j > i + 1 else 0.0)
    return found


@compiled
def _times(
    passes: FloatArray, rooms: FloatArray, caps: FloatArray, fronts: Fronts, tau: FloatArray, low: int, high: int
) -> None:
    """Put in times of some runs; those of passes come with what replicas send during them."""
    forward, forward_flow, backward, backward_flow = passes
    held, T, _ = tau.shape
    for t in range(T):
        for one in range(low, high):
            for h in range(held):
                again = least_time(fronts, caps, t, one, h + 1, rooms[t, one])
                if again == np.inf:
                    break
                there = max(forward[t, one], forward_flow[t, one])
                tau[h, t, one] = there + max(backward[t, one] + again, backward_flow[t, one])


@compiled
def _floor(passes: FloatArray, rooms: FloatArray, caps: FloatArray, fronts: Fronts) -> FloatArray:
    """(T, L) time of both passes of a layer by itself, without what replicas send."""
    T, L = rooms.shape[0], len(fronts.run)
    floor = np.full((T, L), np.inf)
    for t in range(T):
        for i in range(L):
            one = fronts.run[i, i + 1]
            floor[t, i] = passes[0, t, one] + passes[2, t, one] + least_time(fronts, caps, t, one, 1, rooms[t, one])
    return floor


_POINTS = 6
_NUMBERS = 1 << 28  # that a table of all fronts may hold


class _Fronts(NamedTuple):
    """Fronts of the suffixes with a number of stages and with one less, by turns, and what is kept of all."""

    stay: FloatArray  # (2, L + 1, K + 1): least time until a microbatch is back
    one: FloatArray  # (2, L + 1, K + 1, P)
    two: FloatArray  # (2, L + 1, K + 1, P)
    counts: IntArray  # (2, L + 1, K + 1)
    first: FloatArray  # as those of `Found`
    back: NDArray[np.int32]
    found: IntArray


@dataclass(frozen=True)
class Found:
    """Values of a program for one setting."""

    bound: float  # least of max(Z1, Z2) over all plans [s]; infinite if there is none below the ceiling
    first: FloatArray  # (S, K + 1, P, 2): front of each number of stages and devices for all layers
    back: NDArray[np.int32]  # (S, L, K + 1, P): stage that begins a suffix, as end · T · P + t · P + point after it
    count: IntArray  # (S, K + 1)
    degrees: IntArray

    def plans(self) -> Iterator[tuple[float, tuple[int, ...], tuple[int, ...]]]:
        """Value, cuts and tensor degrees of each point of the fronts for all layers, the least values first."""
        T, P = len(self.degrees), _POINTS
        points = [
            (float(self.first[s, k, p].max()), s, k, p)
            for s, k in zip(*np.nonzero(self.count), strict=True)
            for p in range(self.count[s, k])
        ]
        for value, s, k, p in sorted(points):
            cuts, tensor, layer = [0], [], 0
            while s >= 0:
                end, rest = divmod(int(self.back[s, layer, k, p]), T * P)
                t, p = divmod(rest, P)
                cuts.append(end)
                tensor.append(int(self.degrees[t]))
                layer, s, k = end, s - 1, k - tensor[-1]
            yield value, tuple(cuts), tuple(tensor)


def solve(
    question: GridInstance, arrays: GridArrays, setting: Setting, ceiling: float, deadline: Deadline
) -> Found | None:
    """All fronts of a setting, without what takes `ceiling` seconds or more.

    None if the deadline comes first, or the fronts take too much memory.
    """
    L, fixed = question.layers, question.fixed.pp
    K = question.servers.devices // (setting.pipelines * setting.context)
    M = question.global_batch // (setting.pipelines * setting.micro_batch)
    most = min(L, K) if fixed is None else min(fixed, L, K)
    K = min(K, most * int(arrays.degrees[-1]))
    if most * L * (K + 1) * _POINTS > _NUMBERS:
        return None
    costs = stage_costs(question, arrays, setting, min(M, most), deadline)
    if costs is None:
        return None
    fronts, least = _no_fronts(most, K, L), _least_before(costs, L)
    s, i = 0, L - 1
    while s < most:
        if deadline.passed:
            return None
        s, i = _advance(costs, least, fronts, M, ceiling, question.full_duplex, s, i)
    first, count = fronts.first, fronts.found
    if fixed is not None:
        count[: fixed - 1] = 0
    there = count > 0
    bound = min(
        (float(first[s, k, p].max()) for s, k in np.argwhere(there) for p in range(count[s, k])), default=np.inf
    )
    return Found(bound, first, fronts.back, count, costs.degrees)


def _no_fronts(most: int, K: int, L: int) -> _Fronts:
    P = _POINTS
    return _Fronts(
        stay=np.full((2, L + 1, K + 1), np.inf),
        one=np.zeros((2, L + 1, K + 1, P)),
        two=np.zeros((2, L + 1, K + 1, P)),
        counts=np.zeros((2, L + 1, K + 1), dtype=np.int64),
        first=np.zeros((most, K + 1, P, 2)),
        back=np.zeros((most, L, K + 1, P), dtype=np.int32),
        found=np.zeros((most, K + 1), dtype=np.int64),
    )


@compiled
def _advance(
    costs: StageCosts,
    before_layers: tuple[FloatArray, FloatArray, FloatArray],
    fronts: _Fronts,
    M: int,
    ceiling: float,
    full_duplex: bool,
    s: int,
    i: int,
) -> tuple[int, int]:
    """Fill in the fronts of some suffixes, s + 1 stages from layer i on first; return the next ones."""
    most, L, columns, P = fronts.back.shape
    K, T, held = columns - 1, len(costs.degrees), costs.tau.shape[0]
    least, least_forward, need = before_layers
    stay, one, two, counts = fronts.stay, fronts.one, fronts.two, fronts.counts
    ways = 1 if full_duplex else 2
    steps = 0
    while s < most and steps < STEPS:
        now, before = s % 2, (s + 1) % 2
        if i == L - s - 1:
            counts[now], stay[now] = 0, np.inf
        h = min(min(M, s + 1), held) - 1
        ends_low, ends_high = (L, L) if s == 0 else (i + 1, L - s)
        most_here = K if i == 0 else K - int(np.ceil(M * need[i] / ceiling * (1 - 1e-9)))
        fewest = max(s + 1, int(np.ceil(M * (need[L] - need[i]) / ceiling * (1 - 1e-9))))
        for j in range(ends_low, ends_high + 1):
            fits, run = False, costs.run[i, j]
            for t in range(T):
                steps += 1
                tau = costs.tau[h, t, run]
                if not M * tau + least[i] < ceiling:
                    continue
                fits = True
                degree = costs.degrees[t]
                after, forward = costs.after[t, run], costs.forward[t, run]
                c = costs.transfer[t, j - 1] if s > 0 else 0.0
                channel = tau + ways * M * c if s > 0 else 0.0
                for k in range(max(fewest, degree + s), most_here + 1):
                    size = 1 if s == 0 else counts[before, j, k - degree]
                    away = 2 * c + stay[before, j, k - degree] if s > 0 else 0.0
                    low = max(channel, least_span(M, h + 1, forward, tau - forward, away))
                    steps += 1 + size
                    for p in range(size):
                        z_one, z_two = low, low + after
                        if s > 0:
                            z_one = max(z_one, tau + 2 * c + one[before, j, k - degree, p])
                            z_two = max(z_two, forward + c + two[before, j, k - degree, p])
                        if z_one + least[i] < ceiling and z_two + least_forward[i] < ceiling:
                            stay[now, i, k] = min(stay[now, i, k], tau + away)
                            counts[now, i, k] = _insert(
                                one[now, i, k],
                                two[now, i, k],
                                fronts.back[s, i, k],
                                counts[now, i, k],
                                z_one,
                                z_two,
                                (j * T + t) * P + p,
                            )
            if not fits and s > 0:
                break
        i -= 1
        if i < 0:
            fronts.found[s] = counts[now, 0]
            for k in range(columns):
                for p in range(counts[now, 0, k]):
                    fronts.first[s, k, p, 0], fronts.first[s, k, p, 1] = one[now, 0, k, p], two[now, 0, k, p]
            s, i = s + 1, L - s - 2
    return s, i


@compiled
def _least_before(costs: StageCosts, L: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(L + 1,) least time of both passes before each layer, of forward ones, and device seconds of a microbatch."""
    least, least_forward, need = np.zeros(L + 1), np.zeros(L + 1), np.zeros(L + 1)
    for i in range(L):
        a, b, c = np.inf, np.inf, np.inf
        for t in range(len(costs.degrees)):
            time = costs.floor[t, i]
            a, b, c = min(a, time), min(b, costs.floor_forward[t, i]), min(c, costs.degrees[t] * time)
        least[i + 1], least_forward[i + 1], need[i + 1] = least[i] + a, least_forward[i] + b, need[i] + c
    return least, least_forward, need


@compiled
def _insert(
    one: FloatArray, two: FloatArray, back: NDArray[np.int32], count: int, x: float, y: float, code: int
) -> int:
    """Put a point into a front of at most P points, rising in `one`, falling in `two`; return their number."""
    at, last = _beaten(one, two, count, x, y)
    if at < 0:
        return count
    if last == at and count == len(one):
        closest, gap = 0, np.inf  # two neighbours, of old points, become one
        for i in range(count - 1):
            lost = (one[i + 1] - one[i]) / one[i + 1] + (two[i] - two[i + 1]) / max(two[i], 1e-300)
            if lost < gap:
                closest, gap = i, lost
        two[closest] = two[closest + 1]
        for i in range(closest + 1, count - 1):
            one[i], two[i], back[i] = one[i + 1], two[i + 1], back[i + 1]
        count -= 1
        at, last = _beaten(one, two, count, x, y)
        if at < 0:
            return count
    return _placed(one, two, back, count, at, last, x, y, code)


@compiled
def _beaten(one: FloatArray, two: FloatArray, count: int, x: float, y: float) -> tuple[int, int]:
    """Begin and end of the points of a front that a new one beats; both -1 if it is beaten itself."""
    at = 0
    while at < count and one[at] < x:
        at += 1
    if (at > 0 and two[at - 1] <= y) or (at < count and one[at] == x and two[at] <= y):
        return -1, -1
    last = at
    while last < count and two[last] >= y:
        last += 1
    return at, last


@compiled
def _placed(
    one: FloatArray,
    two: FloatArray,
    back: NDArray[np.int32],
    count: int,
    at: int,
    last: int,
    x: float,
    y: float,
    code: int,
) -> int:
    """Put a point at a place, instead of those up to `last` that it beats."""
    shift = 1 - (last - at)
    if shift > 0:
        for i in range(count, at, -1):
            one[i], two[i], back[i] = one[i - 1], two[i - 1], back[i - 1]
    elif shift < 0:
        for i in range(last, count):
            one[i + shift], two[i + shift], back[i + shift] = one[i], two[i], back[i]
    one[at], two[at], back[at] = x, y, code
    return count + shift
