r"""Dynamic program over stages: settings, times of all stages, and a lower bound for plans with one stage per group.

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

Of plans in several servers it is larger. Either some neighbours are in two servers, and send at the rate between these:
states also say whether that was so. Or each pipeline lies in one server, and not all of them in the same: then each
ring of D devices has at most D / 2 in a server. A stage in several whole servers is its own pipeline, or the former.
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
from instances.planning.grid.configurations import ConfiguredChain, Degrees
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.recomputation import Fronts, GridArrays, least_time

# Degrees that all stages of a plan share, and the least work that each device has with them.


@dataclass(frozen=True)
class Setting:
    """Choices that all stages of a plan share: size of microbatches, degrees, stage of ZeRO."""

    micro_batch: int
    pipelines: int
    context: int
    expert: int
    zero: int


#: Settings of the questions that are in use.
_CACHE: WeakKeyDictionary[GridInstance, list[tuple[Setting, GridArrays]]] = WeakKeyDictionary()


def settings_of(question: GridInstance) -> list[tuple[Setting, GridArrays]]:
    """All settings (microbatch, degrees, ZeRO stage) of a question, each with its arrays; cached by question."""
    if question not in _CACHE:
        _CACHE[question] = list(_settings(question))
    return _CACHE[question]


def _settings(question: GridInstance) -> Iterator[tuple[Setting, GridArrays]]:
    """Yield all settings of a question with their arrays; higher ZeRO stages only where devices share weights."""
    for chain in question.chains:
        arrays: dict[tuple[Degrees, ...], GridArrays] = {}
        for context, expert in sorted({(c, e) for _, c, e in chain.degrees}):
            for d, zero in product(question.pipelines(chain, context), question.zero):
                degrees = possible_degrees(question, chain, (context, expert), d)
                shared = (max(question.shards(d, triple)) > 1 for triple in degrees)
                if degrees and (zero == min(question.zero) or any(shared)):
                    if degrees not in arrays:
                        arrays[degrees] = GridArrays.of(question, chain, degrees)
                    yield Setting(chain.micro_batch, d, context, expert, zero), arrays[degrees]


def possible_degrees(
    question: GridInstance, chain: ConfiguredChain, shared: tuple[int, int], pipelines: int
) -> tuple[Degrees, ...]:
    """Degrees with the context and expert degree `shared` that have room on servers and that the question allows."""
    servers, wanted = question.servers, question.fixed.tp
    return tuple(
        (t, c, e)
        for t, c, e in chain.degrees
        if (c, e) == shared
        and servers.has_room(t, c)
        and wanted in (None, t)
        and question.shards(pipelines, (t, c, e))[1]
    )


def even_work(question: GridInstance, setting: Setting, arrays: GridArrays) -> float:
    """Lower bound on the time of a step: all devices share all work equally [s]."""
    M = question.global_batch // (setting.pipelines * setting.micro_batch)
    K = question.servers.devices // (setting.pipelines * setting.context)
    layers = np.diff(arrays.forward + arrays.backward, axis=1)
    return float(M * (arrays.degrees[:, None] * layers).min(axis=0).sum() / K)


#: Where plans lie: anywhere, neighbours in two servers, or each pipeline in one server and not all in the same.
ANYWHERE, ACROSS, SPREAD = "anywhere", "across", "spread"


# Times of all stages of a setting, as tables in which runs of the same layers have one entry.


#: Steps of a kernel between two checks of the deadline; numbers that a table of times may hold.
STEPS, _TIMES = 4_000_000, 1 << 27
#: Steps to find the least recomputation.
_SEARCH = 16


class StageCosts(NamedTuple):
    """Times of all stages of one setting, for R distinct runs of layers; infinite where a stage does not fit."""

    run: NDArray[np.int32]  # (L, L + 1): as `Fronts.run`
    tau: FloatArray  # (H, T, R): both passes with h + 1 microbatches held [s]
    floor: FloatArray  # (T, L): both passes of a layer, without what replicas send meanwhile [s]
    floor_forward: FloatArray  # (T, L): forward passes alone [s]
    forward: FloatArray  # (T, R) [s]
    after: FloatArray  # (T, R) [s]
    transfer: FloatArray  # (2, T, L): one way after each layer, at the best rate, and between servers [s]
    rooms: FloatArray  # (T, R): bytes for what microbatches keep
    degrees: IntArray  # (T,)


def stage_costs(
    question: GridInstance,
    arrays: GridArrays,
    setting: Setting,
    in_flight: int,
    deadline: Deadline,
    place: str = ANYWHERE,
) -> StageCosts | None:
    """Times of all stages of a setting, at the best rates for their sizes and their `place` on servers.

    None if the deadline comes first, or the tables take too much memory.
    """
    fronts = arrays.fronts(deadline)
    T, L = arrays.output.shape
    if fronts is None or in_flight * T * len(fronts.first) > _TIMES:
        return None
    servers, sizes, zero, c = question.servers, question.state_bytes, setting.zero, setting.context
    degrees = [(t, c, setting.expert) for t in arrays.degrees.tolist()]
    shards = np.array([question.shards(setting.pipelines, triple) for triple in degrees]).T  # (2, T)
    in_ring = [servers.most_in_ring(t * c, t, setting.pipelines) for t, _, _ in degrees]
    if place == SPREAD:
        in_ring = [ranks or c * (setting.pipelines // 2) for ranks in in_ring]
    rates = np.array([question.ring_rates(*row) for row in zip(in_ring, degrees, strict=True)]).T  # (2, T)
    beside = np.array([bool((t + degrees[0][0]) * c <= servers.size) for t, _, _ in degrees])
    i, j = fronts.first.T
    numbers = np.maximum(arrays.parameters[:, :, j] - arrays.parameters[:, :, i], 0.0)  # (2, T, R)
    numbers[0, :, fronts.run[0, L]] -= arrays.tied
    gathered, reduced = sizes.weights * (zero == 3), sizes.gradients * (zero >= 2)
    after, fixed, flow = (np.zeros((T, len(i))) for _ in range(3))
    for kind in range(2):
        D = shards[kind][:, None]
        part = (D - 1) / D / rates[kind][:, None]
        resident = np.array([sum(sizes.kept(zero, count)) for count in shards[kind].tolist()])[:, None]
        flow += numbers[kind] * part
        after += numbers[kind] * (sizes.summed(zero) * part + question.update_time / (D if zero else 1))
        fixed += numbers[kind] * resident
    copies = _transfers(question, arrays.tied * sizes.gradients, beside)
    after += np.outer(copies, (i == 0) != (j == L))
    gathering = (shards > 1).sum(axis=0)[:, None] * (zero == 3)
    fixed += 2 * sizes.weights * _largest(arrays.largest, fronts.run, fronts.first) * gathering
    plain = np.array([table[:, j] - table[:, i] for table in (arrays.forward, arrays.backward)])
    rooms = question.memory * (1 + 1e-12) - fixed
    sent = flow * gathered, flow * (gathered + reduced)
    passes = np.array([plain[0] + question.exposed * sent[0], sent[0], plain[1] + question.exposed * sent[1], sent[1]])
    tau, batch = np.full((in_flight, T, len(i)), np.inf), max(1, STEPS // (_SEARCH * in_flight * T))
    for low in range(0, len(i), batch):
        if deadline.passed:
            return None
        _times(passes, rooms, arrays.caps, fronts, tau, low, min(low + batch, len(i)))
    return StageCosts(
        fronts.run,
        tau,
        floor=_floor(plain, rooms, arrays.caps, fronts),
        floor_forward=np.diff(arrays.forward, axis=1),
        forward=np.maximum(passes[0], passes[1]),
        after=after,
        transfer=np.array([_transfers(question, arrays.output, near) for near in (beside[:, None], False)]),
        rooms=rooms,
        degrees=arrays.degrees,
    )


def _transfers(question: GridInstance, sizes: FloatArray, inside: NDArray[np.bool_] | bool) -> FloatArray:
    """Times of transfers of these sizes [bytes], inside a server or between servers [s]."""
    servers = question.servers
    far = sizes / servers.rate(inside=False) + servers.latency * (sizes > 0)
    return np.where(inside, sizes / servers.rate(inside=True), far)


@compiled
def _largest(sizes: FloatArray, run: NDArray[np.int32], first: IntArray) -> FloatArray:
    """(T, R) largest of the sizes of the layers of each run."""
    largest = np.zeros((len(sizes), len(first)))
    for r in range(len(first)):
        i, j = first[r]
        for t in range(len(sizes)):
            largest[t, r] = max(sizes[t, j - 1], largest[t, run[i, j - 1]] if j > i + 1 else 0.0)
    return largest


@compiled
def _times(
    passes: FloatArray, rooms: FloatArray, caps: FloatArray, fronts: Fronts, tau: FloatArray, low: int, high: int
) -> None:
    """Fill in `StageCosts.tau` of runs from `low` to before `high`; `passes` are compute and exchange of replicas."""
    forward, forward_flow, backward, backward_flow = passes
    H, T, _ = tau.shape
    for t in range(T):
        for r in range(low, high):
            for h in range(H):
                again = least_time(fronts, caps, t, r, h + 1, rooms[t, r])
                if again == np.inf:
                    break
                forward_time = max(forward[t, r], forward_flow[t, r])
                tau[h, t, r] = forward_time + max(backward[t, r] + again, backward_flow[t, r])


@compiled
def _floor(plain: FloatArray, rooms: FloatArray, caps: FloatArray, fronts: Fronts) -> FloatArray:
    """(T, L) least time of both passes of each layer in a stage of its own, without traffic of replicas [s]."""
    T, L = rooms.shape[0], len(fronts.run)
    floor = np.full((T, L), np.inf)
    for t in range(T):
        for i in range(L):
            r = fronts.run[i, i + 1]
            floor[t, i] = plain[0, t, r] + plain[1, t, r] + least_time(fronts, caps, t, r, 1, rooms[t, r])
    return floor


_POINTS = 6
_NUMBERS = 1 << 28  # that a table of all fronts may hold


class _Fronts(NamedTuple):
    """Fronts of the suffixes of s stages and of s - 1 stages, in rows s % 2 and (s - 1) % 2; and parts of the solution.

    With C = 2 there are fronts of suffixes with all neighbouring stages in one server, and of suffixes with some in
    two; with C = 1 there is no such distinction.
    """

    stay: FloatArray  # (2, C, L + 1, K + 1): least time until a microbatch is back
    front1: FloatArray  # (2, C, L + 1, K + 1, P)
    front2: FloatArray  # (2, C, L + 1, K + 1, P)
    counts: IntArray  # (2, C, L + 1, K + 1)
    first: FloatArray  # (S, K + 1, P, 2): as in `Solution`, for the last of the C kinds of suffixes
    back: NDArray[np.int32]
    sizes: IntArray


@dataclass(frozen=True)
class Solution:
    """Least bound on the step time of the plans of a setting, and Pareto fronts for all numbers of stages."""

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
    question: GridInstance,
    arrays: GridArrays,
    setting: Setting,
    ceiling: float,
    deadline: Deadline,
    place: str = ANYWHERE,
) -> Solution | None:
    """Bound and fronts over the plans of a setting with a bound below `ceiling` [s].

    `Solution.plans` needs `place` to be `ANYWHERE`. None if the deadline comes first, or the fronts take too much
    memory.
    """
    L, fixed = question.layers, question.fixed.pp
    K = question.servers.devices // (setting.pipelines * setting.context)
    if place == SPREAD:  # a pipeline of several stages lies in one server
        K = min(K, max(question.servers.size // setting.context, int(arrays.degrees[-1])))
    M = question.global_batch // (setting.pipelines * setting.micro_batch)
    S = min(L, K) if fixed is None else min(fixed, L, K)
    K = min(K, S * int(arrays.degrees[-1]))
    if S * L * (K + 1) * _POINTS > _NUMBERS:
        return None
    costs = stage_costs(question, arrays, setting, min(M, S), deadline, place)
    if costs is None:
        return None
    fronts, least = _empty_fronts(2 if place == ACROSS else 1, S, K, L), _least_before(costs, L)
    s, i = 0, L - 1
    while s < S:
        if deadline.passed:
            return None
        s, i = _advance(costs, least, fronts, M, ceiling, question.full_duplex, s, i)
    first, count = fronts.first, fronts.sizes
    if fixed is not None:
        count[: fixed - 1] = 0
    nonempty = count > 0
    bound = min(
        (float(first[s, k, p].max()) for s, k in np.argwhere(nonempty) for p in range(count[s, k])), default=np.inf
    )
    return Solution(bound, first, fronts.back, count, costs.degrees)


def _empty_fronts(C: int, S: int, K: int, L: int) -> _Fronts:
    """Room for the fronts of up to S stages, K devices and L layers."""
    P = _POINTS
    return _Fronts(
        stay=np.full((2, C, L + 1, K + 1), np.inf),
        front1=np.zeros((2, C, L + 1, K + 1, P)),
        front2=np.zeros((2, C, L + 1, K + 1, P)),
        counts=np.zeros((2, C, L + 1, K + 1), dtype=np.int64),
        first=np.zeros((S, K + 1, P, 2)),
        back=np.zeros((S, L, K + 1, P), dtype=np.int32),
        sizes=np.zeros((S, K + 1), dtype=np.int64),
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
    """Extend the fronts by one stage, from stage s and first layer i on, for some steps; return the next s and i."""
    S, L, columns, P = fronts.back.shape
    K, T, H = columns - 1, len(costs.degrees), costs.tau.shape[0]
    least, least_forward, need = before_layers
    stay, front1, front2, counts = fronts.stay, fronts.front1, fronts.front2, fronts.counts
    ways = 1 if full_duplex else 2
    steps = 0
    while s < S and steps < STEPS:
        now, before = s % 2, (s + 1) % 2
        if i == L - s - 1:
            counts[now], stay[now] = 0, np.inf
        h = min(min(M, s + 1), H) - 1
        ends_low, ends_high = (L, L) if s == 0 else (i + 1, L - s)
        highest = K if i == 0 else K - int(np.ceil(M * need[i] / ceiling * (1 - 1e-9)))
        lowest = max(s + 1, int(np.ceil(M * (need[L] - need[i]) / ceiling * (1 - 1e-9))))
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
                # neighbours in two servers: none, as behind this stage; somewhere behind it; or here for the first time
                for across in range(1 if len(stay[now]) == 1 or s == 0 else 3):
                    source, target = int(across == 1), int(across > 0)
                    c = costs.transfer[across // 2, t, j - 1] if s > 0 else 0.0
                    channel = tau + ways * M * c if s > 0 else 0.0
                    for k in range(max(lowest, degree + s), highest + 1):
                        size = 1 if s == 0 else counts[before, source, j, k - degree]
                        away = 2 * c + stay[before, source, j, k - degree] if s > 0 else 0.0
                        low = max(channel, least_span(M, h + 1, forward, tau - forward, away))
                        steps += 1 + size
                        for p in range(size):
                            z_one, z_two = low, low + after
                            if s > 0:
                                z_one = max(z_one, tau + 2 * c + front1[before, source, j, k - degree, p])
                                z_two = max(z_two, forward + c + front2[before, source, j, k - degree, p])
                            if z_one + least[i] < ceiling and z_two + least_forward[i] < ceiling:
                                stay[now, target, i, k] = min(stay[now, target, i, k], tau + away)
                                counts[now, target, i, k] = _insert(
                                    front1[now, target, i, k],
                                    front2[now, target, i, k],
                                    fronts.back[s, i, k],
                                    counts[now, target, i, k],
                                    z_one,
                                    z_two,
                                    (j * T + t) * P + p,
                                )
            if not fits and s > 0:
                break
        i -= 1
        if i < 0:
            fronts.sizes[s] = counts[now, -1, 0]
            for k in range(columns):
                for p in range(counts[now, -1, 0, k]):
                    fronts.first[s, k, p, 0] = front1[now, -1, 0, k, p]
                    fronts.first[s, k, p, 1] = front2[now, -1, 0, k, p]
            s, i = s + 1, L - s - 2
    return s, i


@compiled
def _least_before(costs: StageCosts, L: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(L + 1,) sums over the layers before each: least time of both passes, of forward passes, and device seconds."""
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
    front1: FloatArray, front2: FloatArray, back: NDArray[np.int32], count: int, x: float, y: float, code: int
) -> int:
    """Put a point into a front of at most P points, rising in `front1`, falling in `front2`; return their number."""
    at, last = _beaten(front1, front2, count, x, y)
    if at < 0:
        return count
    if last == at and count == len(front1):
        closest, gap = 0, np.inf  # two neighbours, of old points, become one
        for i in range(count - 1):
            lost = (front1[i + 1] - front1[i]) / front1[i + 1] + (front2[i] - front2[i + 1]) / max(front2[i], 1e-300)
            if lost < gap:
                closest, gap = i, lost
        front2[closest] = front2[closest + 1]
        for i in range(closest + 1, count - 1):
            front1[i], front2[i], back[i] = front1[i + 1], front2[i + 1], back[i + 1]
        count -= 1
        at, last = _beaten(front1, front2, count, x, y)
        if at < 0:
            return count
    return _placed(front1, front2, back, count, at, last, x, y, code)


@compiled
def _beaten(front1: FloatArray, front2: FloatArray, count: int, x: float, y: float) -> tuple[int, int]:
    """Range (begin, end) of the points of a front that a new point (x, y) dominates; (-1, -1) if it is dominated."""
    at = 0
    while at < count and front1[at] < x:
        at += 1
    if (at > 0 and front2[at - 1] <= y) or (at < count and front1[at] == x and front2[at] <= y):
        return -1, -1
    last = at
    while last < count and front2[last] >= y:
        last += 1
    return at, last


@compiled
def _placed(
    front1: FloatArray,
    front2: FloatArray,
    back: NDArray[np.int32],
    count: int,
    at: int,
    last: int,
    x: float,
    y: float,
    code: int,
) -> int:
    """Replace the points `at` … `last` - 1 of a front by (x, y, code); return the new number of points."""
    shift = 1 - (last - at)
    if shift > 0:
        for i in range(count, at, -1):
            front1[i], front2[i], back[i] = front1[i - 1], front2[i - 1], back[i - 1]
    elif shift < 0:
        for i in range(last, count):
            front1[i + shift], front2[i + shift], back[i + shift] = front1[i], front2[i], back[i]
    front1[at], front2[at], back[at] = x, y, code
    return count + shift
