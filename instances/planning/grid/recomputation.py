"""Layers of a setting as arrays, and the least recomputation time with which a stage fits into memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, pairwise, product
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.grid.configurations import Configuration, ConfiguredChain, ConfiguredLayer, Degrees
from instances.planning.grid.problem import GridInstance

# The least time that it takes to fit consecutive layers into memory by recomputing some of them.
#
# Ways to recompute are points (bytes kept, time); points of several layers add up, and only sums that no other sum
# dominates matter, the Pareto front. A cap on the memory in which a layer recomputes leaves out ways with more; each
# cap has fronts of its own. A front of more than `_MOST` points is made smaller by pairs of neighbours that become one
# point with the smaller of both values each: then times are bounds, never too long.


#: Largest sizes of a front and of all fronts, with a least size of each; most runs of layers, and runs at once.
_MOST, _POINTS, _FEWEST = 256, 1 << 24, 8
_RUNS, _RUNS_AT_ONCE = 1 << 21, 2048
#: Limits of the search for modes: splits of layers into ways, points of all kinds, and caps.
_SHARES, _CHOICES, _CAPS = 20_000, 4096, 8
_T = TypeVar("_T")

#: Numbers of layers of each kind that run each way, as a linked list with the last kind first.
_Chosen: TypeAlias = "tuple[_Chosen, tuple[int, ...]] | None"


class Menus(NamedTuple):
    """Ways to run each of L layers with each of T tensor degrees; a missing way takes infinite time."""

    stored: FloatArray  # (T, L, J): bytes kept from the forward to the backward pass
    working: FloatArray  # (T, L, J): bytes held while the layer recomputes
    again: FloatArray  # (T, L, J): time to recompute [s]
    kind: IntArray  # (L,): equal for layers with the same ways
    caps: FloatArray  # (T, W): all values of `working` of each degree, in rising order, the last one repeated


class Fronts(NamedTuple):
    """Pareto fronts of (bytes kept, time to recompute) for all runs of layers i … j - 1; equal runs share a front."""

    run: NDArray[np.int32]  # (L, L + 1): number of the run of layers i … j - 1
    first: IntArray  # (R, 2): the first i and j with this number
    begin: IntArray  # (T, W, R): where the front of a run begins
    size: IntArray  # (T, W, R): its points, 0 if a layer has no way below the cap
    stored: FloatArray  # (N,): bytes of each point, rising within a front
    again: FloatArray  # (N,): time of each point, falling


@compiled
def _sorted_front(stored: FloatArray, again: FloatArray, count: int, limit: int) -> int:
    """Reduce the first `count` points in place to their Pareto front, sorted, of at most `limit`; return its size."""
    order = np.argsort(stored[:count] + 0.0)
    front_stored, front_again, size = np.empty(count), np.empty(count), 0
    for i in order:
        while size > 0 and front_stored[size - 1] == stored[i] and front_again[size - 1] >= again[i]:
            size -= 1
        if size == 0 or again[i] < front_again[size - 1]:
            front_stored[size], front_again[size] = stored[i], again[i]
            size += 1
    while size > limit:
        half = 0
        for i in range(0, size, 2):
            front_stored[half], front_again[half] = front_stored[i], front_again[min(i + 1, size - 1)]
            half += 1
        size = half
    stored[:size], again[:size] = front_stored[:size], front_again[:size]
    return size


def fronts_of(menus: Menus, deadline: Deadline) -> Fronts | None:
    """Fronts of all runs of layers; None if they are too many, or the deadline comes first."""
    T, W = menus.caps.shape
    run, count = _runs(menus.kind)
    if T * W * count > _RUNS:
        return None
    limit = int(np.clip(_POINTS // (T * W * count), _FEWEST, _MOST))
    first = _firsts(run, count)
    begin, size = np.zeros((T, W, count), dtype=np.int64), np.zeros((T, W, count), dtype=np.int64)
    stored, again, used = np.empty(1024), np.empty(1024), 0
    for t, w, low in product(range(T), range(W), range(0, count, _RUNS_AT_ONCE)):
        if deadline.passed:
            return None
        partial = Fronts(run, first, begin, size, stored, again)
        stored, again, used = _fill(menus, partial, t, w, low, min(low + _RUNS_AT_ONCE, count), used, limit)
    return Fronts(run, first, begin, size, stored[:used].copy(), again[:used].copy())


@compiled
def _runs(kind: IntArray) -> tuple[NDArray[np.int32], int]:
    """(L, L + 1) number of the run of layers i … j - 1, equal for runs of the same kinds of layers; and their count.

    Runs with the first or the last layer are not shared, as these layers may share parameters.
    """
    L, count = len(kind), 0
    run: NDArray[np.int32] = np.zeros((L, L + 1), dtype=np.int32)
    for i in range(L):
        for j in range(i + 1, L + 1):
            if i > 1 and j < L and kind[i - 1] == kind[j - 1]:
                run[i, j] = run[i - 1, j - 1]
            else:
                run[i, j] = count
                count += 1
    return run, count


@compiled
def _firsts(run: NDArray[np.int32], count: int) -> IntArray:
    """(R, 2) the first i and j of each run, as in `Fronts.first`."""
    first, number = np.zeros((count, 2), dtype=np.int64), 0
    for i in range(len(run)):
        for j in range(i + 1, len(run) + 1):
            if run[i, j] == number:
                first[number, 0], first[number, 1] = i, j
                number += 1
    return first


@compiled
def _fill(
    menus: Menus, fronts: Fronts, t: int, w: int, low: int, high: int, used: int, limit: int
) -> tuple[FloatArray, FloatArray, int]:
    """Bytes kept and recomputation times of all points so far, with those of runs `low` … `high` - 1; their number."""
    J, all_stored, all_again = menus.stored.shape[2], fronts.stored, fronts.again
    stored, again = np.empty(limit * J), np.empty(limit * J)
    for r in range(low, high):
        i, j = fronts.first[r]
        shorter = fronts.run[i, j - 1]
        count, before = 0, fronts.size[t, w, shorter] if j > i + 1 else 0
        for p in range(max(before, 1 if j == i + 1 else 0)):
            at = fronts.begin[t, w, shorter] + p
            for mode in range(J):
                if menus.again[t, j - 1, mode] < np.inf and menus.working[t, j - 1, mode] <= menus.caps[t, w]:
                    stored[count] = menus.stored[t, j - 1, mode] + (all_stored[at] if before else 0.0)
                    again[count] = menus.again[t, j - 1, mode] + (all_again[at] if before else 0.0)
                    count += 1
        count = _sorted_front(stored, again, count, limit)
        while used + count > len(all_stored):
            all_stored = np.concatenate((all_stored, np.empty(len(all_stored))))
            all_again = np.concatenate((all_again, np.empty(len(all_again))))
        all_stored[used : used + count], all_again[used : used + count] = stored[:count], again[:count]
        fronts.begin[t, w, r], fronts.size[t, w, r] = used, count
        used += count
    return all_stored, all_again, used


@compiled
def least_time(fronts: Fronts, caps: FloatArray, t: int, run: int, in_flight: int, room: float) -> float:
    """Least time to recompute a microbatch [s] such that `in_flight` microbatches of a run fit into `room` bytes.

    It is infinite if they do not fit at all.
    """
    best = np.inf
    for w in range(caps.shape[1]):
        free = (room - caps[t, w]) / in_flight
        low = fronts.begin[t, w, run]
        high = low + fronts.size[t, w, run]
        first = low
        while low < high:  # the last point that fits
            middle = (low + high) // 2
            if fronts.stored[middle] <= free:
                low = middle + 1
            else:
                high = middle
        if low > first:
            best = min(best, fronts.again[low - 1])
    return best


def chosen_modes(layers: Sequence[tuple[Configuration, ...]], in_flight: float, room: float) -> tuple[str, ...] | None:
    """Mode of each layer such that `in_flight` microbatches fit into `room` bytes, with little recomputation.

    The time is optimal for few kinds of layers with few layers each, else nearly so. Of equal layers, the first ones
    recompute. None if nothing fits.
    """
    plain = [ways[0] for ways in layers]
    if in_flight * sum(way.stored_bytes for way in plain) + max(way.working_bytes for way in plain) <= room:
        return tuple(way.recompute for way in plain)
    kinds: dict[tuple[Configuration, ...], list[int]] = {}
    for place, ways in enumerate(layers):
        kinds.setdefault(ways, []).append(place)
    limit = max(_FEWEST, min(_MOST, _CHOICES // len(kinds)))
    best: tuple[float, _Chosen] | None = None
    caps = sorted({way.working_bytes for ways in kinds for way in ways})
    for cap in sorted({caps[0], *caps[:: -(-len(caps) // _CAPS)], caps[-1]}):
        points: list[tuple[float, float, _Chosen]] = [(0.0, 0.0, None)]
        for ways, places in kinds.items():
            sums = product(points, _counts(ways, len(places), cap))
            points = _front(((s + p, x + y, (before, counts)) for (s, x, before), (p, y, counts) in sums), limit)
        for stored, again, chosen in points:
            if in_flight * stored + cap <= room and (best is None or again < best[0]):
                best = again, chosen
    if best is None:
        return None
    modes, chosen = [""] * len(layers), best[1]
    for ways, places in reversed(kinds.items()):
        assert chosen is not None
        chosen, numbers = chosen
        words = [way.recompute for way, count in zip(ways, numbers, strict=True) for _ in range(count)]
        for place, word in zip(places, reversed(words), strict=True):
            modes[place] = word
    return tuple(modes)


@lru_cache(maxsize=4096)
def _counts(ways: tuple[Configuration, ...], layers: int, cap: float) -> list[tuple[float, float, tuple[int, ...]]]:
    """Pareto front of (bytes kept, time to recompute, number of layers in each configuration) for equal layers."""
    plain, allowed = ways[0].backward, [way.working_bytes <= cap for way in ways]
    return _front(
        (
            (
                sum(count * way.stored_bytes for count, way in zip(numbers, ways, strict=True)),
                sum(count * (way.backward - plain) for count, way in zip(numbers, ways, strict=True)),
                numbers,
            )
            for numbers in _shares(len(ways), layers)
            if all(fits or count == 0 for fits, count in zip(allowed, numbers, strict=True))
        ),
        _MOST,
    )


def _shares(ways: int, layers: int) -> Iterator[tuple[int, ...]]:
    """Yield divisions of equal layers among configurations; for very many layers only between two of them."""
    if math.comb(layers + ways - 1, ways - 1) > _SHARES:
        for (i, j), count in product(combinations(range(ways), 2), range(layers + 1)):
            yield tuple(count if way == i else layers - count if way == j else 0 for way in range(ways))
        return
    for bars in combinations(range(layers + ways - 1), ways - 1):
        yield tuple(j - i - 1 for i, j in pairwise((-1, *bars, layers + ways - 1)))


def _front(points: Iterable[tuple[float, float, _T]], limit: int) -> list[tuple[float, float, _T]]:
    """Pareto front of points, by rising bytes; thinned to at most `limit`, the smallest always kept."""
    front: list[tuple[float, float, _T]] = []
    for point in sorted(points, key=lambda point: point[:2]):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front[:: -(-len(front) // limit)] if front else front


# A question as plain arrays for one size of microbatches and one context and expert degree.


#: Largest number of caps on the memory in which a layer recomputes.
_MOST_CAPS = 16


@dataclass(eq=False)
class GridArrays:
    """Costs of L layers with each of T tensor degrees; sums are over the layers before each."""

    degrees: IntArray  # (T,): tensor degrees, in rising order
    forward: FloatArray  # (T, L + 1): sums [s]
    backward: FloatArray  # (T, L + 1): sums, where nothing is recomputed [s]
    parameters: FloatArray  # (2, T, L + 1): sums of dense numbers and of those of experts
    largest: FloatArray  # (T, L): dense numbers of each layer
    output: FloatArray  # (T, L): bytes that a device sends after each layer
    tied: FloatArray  # (T,): numbers that the last layer shares with the first
    menus: Menus
    _fronts: Fronts | None = field(default=None, init=False, repr=False)

    @property
    def caps(self) -> FloatArray:
        """(T, W) sizes of recomputation buffers, rising for each tensor degree, the last one repeated [bytes]."""
        return self.menus.caps

    def fronts(self, deadline: Deadline) -> Fronts | None:
        """`Fronts` for recomputation, cached; None if they are too many, or the deadline comes first."""
        if self._fronts is None:
            self._fronts = fronts_of(self.menus, deadline)
        return self._fronts

    @classmethod
    def of(cls, question: GridInstance, chain: ConfiguredChain, degrees: Sequence[Degrees]) -> GridArrays:
        """Arrays for `degrees`, which share their context and expert degree."""
        kinds = list(chain.kinds.values())
        plain = [[layer.modes(triple)[0] for layer in kinds] for triple in degrees]
        places = {kind: place for place, kind in enumerate(chain.kinds)}
        of = np.array([places[layer.kind] for layer in chain.layers])

        def table(name: str) -> FloatArray:
            values = np.array([[float(getattr(layer, name)) for layer in row] for row in plain])
            return np.ascontiguousarray(values[:, of])

        def sums(name: str) -> FloatArray:
            return np.insert(np.cumsum(table(name), axis=1), 0, 0.0, axis=1)

        return cls(
            degrees=np.array([t for t, _, _ in degrees]),
            forward=sums("forward"),
            backward=sums("backward"),
            parameters=np.stack((sums("parameters"), sums("expert_parameters"))),
            largest=table("parameters"),
            output=table("output_bytes"),
            tied=np.ascontiguousarray(table("tied_parameters")[:, -1]) * (chain.n > 1),
            menus=_menus(question, kinds, of, degrees),
        )


def _menus(question: GridInstance, kinds: list[ConfiguredLayer], of: IntArray, degrees: Sequence[Degrees]) -> Menus:
    """(T, L, …) costs of all configurations of each layer, from one layer of each kind and the kind of each layer."""
    ways = [[question.ways(layer, triple) for layer in kinds] for triple in degrees]
    J = max(len(menu) for row in ways for menu in row)
    shape = (len(degrees), len(kinds), J)
    stored, working, again = np.zeros(shape), np.zeros(shape), np.full(shape, np.inf)
    for t, row in enumerate(ways):
        for layer, menu in enumerate(row):
            for j, way in enumerate(menu):
                stored[t, layer, j], working[t, layer, j] = way.stored_bytes, way.working_bytes
                again[t, layer, j] = way.backward - kinds[layer].modes(degrees[t])[0].backward
    caps = [_some(np.unique(sizes[possible])) for sizes, possible in zip(working, np.isfinite(again), strict=True)]
    for sizes, least in zip(working, caps, strict=True):  # at most as much as it is, so that times remain bounds
        sizes[:] = least[np.maximum(np.searchsorted(least, sizes, side="right") - 1, 0)]
    width = max(map(len, caps))
    alike: dict[tuple[Configuration, ...], int] = {}
    number = np.array([alike.setdefault(layer.configurations, len(alike)) for layer in kinds])
    return Menus(
        np.ascontiguousarray(stored[:, of]),
        np.ascontiguousarray(working[:, of]),
        np.ascontiguousarray(again[:, of]),
        kind=number[of],
        caps=np.array([np.pad(row, (0, width - len(row)), mode="edge") for row in caps]),
    )


def _some(values: FloatArray) -> FloatArray:
    """At most `_MOST_CAPS` of the rising values, evenly spread, with the first and the last."""
    return values[np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST_CAPS)).astype(np.int64))]
