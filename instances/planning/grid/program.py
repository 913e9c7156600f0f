r"""The least bound on the step of any plan whose groups run one stage each, by a program over stages from the last on.

Every order of unsplit passes that keeps 1F1B's number of microbatches takes at least the larger of two values. With
:math:`τ = f + b` of a stage, one-way transfer c to the next, time A after the last backward pass and values with a
prime of the stages after it,

.. math::
    Z_1 = \max(M τ, τ + 2 M c, N ρ, τ + 2 c + Z_1'), \qquad
    Z_2 = \max(M τ + A, τ + 2 M c + A, N ρ + A, f + c + Z_2'),

2 M c being M c in full duplex. A microbatch stays in a stage until it is back, for :math:`ρ = τ + 2 c + ρ'` or longer,
and the first of s stages holds at most min(M, s) at once, so that :math:`N = ⌈M / s⌉` of them follow one another; ρ' is
the least of any stages after it. States are the stages left s, the first layer l, and devices k of a pipeline; a state
has a front of pairs, at most `_POINTS`: beyond that two neighbours become one with the smaller of both values each.
Transfers and AllReduces run at the rate within a server where groups of the size could lie in one. A stage recomputes
the least that fits. So the least of max(Z_1, Z_2) is a bound for all these plans, wherever they lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.grid.arrays import GridArrays
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.recomputation import Fronts, least_time
from instances.planning.grid.settings import Setting

__all__ = ["Found", "StageCosts", "solve", "stage_costs"]

_POINTS = 6


class StageCosts(NamedTuple):
    """Times of all stages of one setting; infinite where a stage does not fit."""

    tau: FloatArray  # (H, T, L, L + 1): both passes of layers i … j - 1 with h + 1 microbatches held [s]
    floor: FloatArray  # (T, L): both passes of a layer, without what replicas send meanwhile [s]
    floor_forward: FloatArray  # (T, L): forward passes alone [s]
    forward: FloatArray  # (T, L, L + 1) [s]
    after: FloatArray  # (T, L, L + 1) [s]
    transfer: FloatArray  # (T, L): one way after each layer, at the best rate [s]
    rooms: FloatArray  # (T, L, L + 1): bytes for what microbatches keep
    degrees: IntArray  # (T,)


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


def solve(question: GridInstance, arrays: GridArrays, setting: Setting, ceiling: float) -> Found:
    """All fronts of a setting, without what takes `ceiling` seconds or more."""
    L, fixed = question.layers, question.fixed.pp
    K = question.servers.devices // (setting.pipelines * setting.context)
    M = question.global_batch // (setting.pipelines * setting.micro_batch)
    most = min(L, K) if fixed is None else min(fixed, L, K)
    held = min(M, most)
    costs = stage_costs(question, arrays, setting, held)
    K = min(K, most * int(costs.degrees[-1]))
    first, back, count = _solve(costs, M, most, K, L, ceiling, question.full_duplex)
    if fixed is not None:
        count[: fixed - 1] = 0
    there = count > 0
    bound = min(
        (float(first[s, k, p].max()) for s, k in np.argwhere(there) for p in range(count[s, k])), default=np.inf
    )
    return Found(bound, first, back, count, costs.degrees)


def stage_costs(question: GridInstance, arrays: GridArrays, setting: Setting, held: int) -> StageCosts:
    """Times of all stages at the best rates that their sizes allow."""
    servers, sizes, zero = question.servers, question.state_bytes, setting.zero
    T, L = arrays.output.shape
    shards = (setting.pipelines * setting.context, setting.pipelines * setting.context // setting.expert)
    kept = [question.state_bytes.kept(zero, one) for one in shards]
    width = arrays.degrees * setting.context
    near = np.array([servers.rate(inside=bool(w * setting.pipelines <= servers.size)) for w in width])
    beside = np.array([servers.rate(inside=bool(w + width[0] <= servers.size)) for w in width])
    numbers = arrays.parameters[:, :, None, :] - arrays.parameters[:, :, :L, None]  # (2, T, L, L + 1)
    numbers = np.maximum(numbers, 0.0)
    numbers[0, :, 0, L] -= arrays.tied
    gathered, reduced = sizes.weights * (zero == 3), sizes.gradients * (zero >= 2)
    after, fixed, flow = (np.zeros((T, L, L + 1)) for _ in range(3))
    for one, (D, bytes_kept) in enumerate(zip(shards, kept, strict=True)):
        part = (D - 1) / D / near[:, None, None]
        flow += numbers[one] * part
        after += numbers[one] * (sizes.summed(zero) * part + question.update_time / (D if zero else 1))
        fixed += numbers[one] * sum(bytes_kept)
    again = arrays.tied * sizes.gradients / beside
    after[:, 0, :L] += again[:, None]
    after[:, 1:, L] += again[:, None]
    if zero == 3 and max(shards) > 1:
        fixed += 2 * sizes.weights * _largest(arrays.largest) * sum(D > 1 for D in shards)
    forward = arrays.forward[:, None, :] - arrays.forward[:, :L, None]
    backward = arrays.backward[:, None, :] - arrays.backward[:, :L, None]
    rooms = question.memory * (1 + 1e-12) - fixed
    forward_flow, backward_flow = flow * gathered, flow * (gathered + reduced)
    tau, floor = _times(forward, forward_flow, backward, backward_flow, rooms, arrays.caps, arrays.fronts, held)
    return StageCosts(
        tau,
        floor,
        floor_forward=np.diff(arrays.forward, axis=1),
        forward=np.maximum(forward, forward_flow),
        after=after,
        transfer=arrays.output / beside[:, None],
        rooms=rooms,
        degrees=arrays.degrees,
    )


def _largest(sizes: FloatArray) -> FloatArray:
    """(T, L, L + 1) largest layer of layers i … j - 1."""
    T, L = sizes.shape
    found = np.zeros((T, L, L + 1))
    for i in range(L):
        found[:, i, i + 1 :] = np.maximum.accumulate(sizes[:, i:], axis=1)
    return found


@compiled
def _times(
    forward: FloatArray,
    forward_flow: FloatArray,
    backward: FloatArray,
    backward_flow: FloatArray,
    rooms: FloatArray,
    caps: FloatArray,
    fronts: Fronts,
    held: int,
) -> tuple[FloatArray, FloatArray]:
    T, L, _ = forward.shape
    tau, floor = np.full((held, T, L, L + 1), np.inf), np.full((T, L), np.inf)
    for t in range(T):
        for i in range(L):
            for j in range(i + 1, L + 1):
                for h in range(held):
                    again = least_time(fronts, caps, t, i, j, h + 1, rooms[t, i, j])
                    if again == np.inf:
                        break
                    there = max(forward[t, i, j], forward_flow[t, i, j])
                    tau[h, t, i, j] = there + max(backward[t, i, j] + again, backward_flow[t, i, j])
                    if h == 0 and j == i + 1:
                        floor[t, i] = forward[t, i, j] + backward[t, i, j] + again
    return tau, floor


@compiled
def _solve(
    costs: StageCosts, M: int, most: int, K: int, L: int, ceiling: float, full_duplex: bool
) -> tuple[FloatArray, NDArray[np.int32], IntArray]:
    """Fronts of all suffixes; see `Found`."""
    T, P = len(costs.degrees), _POINTS
    held = costs.tau.shape[0]
    least, least_forward, need = _least_before(costs, L)
    ways = 1 if full_duplex else 2
    stay = np.full((2, L + 1, K + 1), np.inf)  # least time until a microbatch is back
    first, count_first = np.zeros((most, K + 1, P, 2)), np.zeros((most, K + 1), dtype=np.int64)
    back: NDArray[np.int32] = np.zeros((most, L, K + 1, P), dtype=np.int32)
    one, two = np.zeros((2, L + 1, K + 1, P)), np.zeros((2, L + 1, K + 1, P))
    counts = np.zeros((2, L + 1, K + 1), dtype=np.int64)
    for s in range(most):
        now, before = s % 2, (s + 1) % 2
        counts[now], stay[now] = 0, np.inf
        rounds = (M + s) // (s + 1)
        h = min(min(M, s + 1), held) - 1
        for i in range(L - s - 1, -1, -1):
            ends_low, ends_high = (L, L) if s == 0 else (i + 1, L - s)
            most_here = K if i == 0 else K - int(np.ceil(M * need[i] / ceiling * (1 - 1e-9)))
            fewest = max(s + 1, int(np.ceil(M * (need[L] - need[i]) / ceiling * (1 - 1e-9))))
            for j in range(ends_low, ends_high + 1):
                fits = False
                for t in range(T):
                    tau = costs.tau[h, t, i, j]
                    if not M * tau + least[i] < ceiling:
                        continue
                    fits = True
                    degree = costs.degrees[t]
                    after, forward = costs.after[t, i, j], costs.forward[t, i, j]
                    c = costs.transfer[t, j - 1] if s > 0 else 0.0
                    channel = tau + ways * M * c if s > 0 else 0.0
                    low_one, low_two = max(M * tau, channel), max(M * tau, channel) + after
                    for k in range(max(fewest, degree + s), most_here + 1):
                        size = 1 if s == 0 else counts[before, j, k - degree]
                        back_after = tau + (2 * c + stay[before, j, k - degree] if s > 0 else 0.0)
                        for p in range(size):
                            z_one = max(low_one, rounds * back_after)
                            z_two = max(low_two, rounds * back_after + after)
                            if s > 0:
                                z_one = max(z_one, tau + 2 * c + one[before, j, k - degree, p])
                                z_two = max(z_two, forward + c + two[before, j, k - degree, p])
                            if z_one + least[i] < ceiling and z_two + least_forward[i] < ceiling:
                                stay[now, i, k] = min(stay[now, i, k], back_after)
                                counts[now, i, k] = _insert(
                                    one[now, i, k],
                                    two[now, i, k],
                                    back[s, i, k],
                                    counts[now, i, k],
                                    z_one,
                                    z_two,
                                    (j * T + t) * P + p,
                                )
                if not fits and s > 0:
                    break
        for k in range(K + 1):
            count_first[s, k] = counts[now, 0, k]
            for p in range(counts[now, 0, k]):
                first[s, k, p, 0], first[s, k, p, 1] = one[now, 0, k, p], two[now, 0, k, p]
    return first, back, count_first


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
