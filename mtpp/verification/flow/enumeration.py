"""Questions of flow in exact numbers, and the check of bounds by enumeration.

**Capacities of devices that work in steps.**

Where a question has steps, m batches take turns, one in each tick, the time between steps. A device with layers and s
slots runs steps of b sequences, at most s / m, each in no more than a tick, and serves b sequences in that time. With
more batches it serves no more, and no path has more devices than batches; so the fewest batches with which a path may
hold all layers give the largest capacities, and more batches than devices or layers are of no use. A tick that is not
the time of a possible step is no better than the longest such time below it.

**Proof, by enumerating branches, that no assignment of layers to devices lets a flow pass.**

Capacities and rates are parts of the flow, rounded up. A branch assigns layers to some devices, and leaves the others
open. It ends where a cut between source and sink has less capacity than the flow; an open device has all arcs that any
of its layers may use. The cut is checked, however it was computed. A branch also ends where the capacity for a layer,
or for all layers together, is less than the flow needs. Devices of a kind with the same links take their layers in one
order alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.flow.problem import SINK, SOURCE, FlowInstance
from mtpp.verification.verdict import Clock


@dataclass(frozen=True)
class ExactFlow:
    """A question of flow in exact numbers."""

    devices: tuple[str, ...]
    layers: int
    kind: list[int]
    counts: list[int]  # devices of each kind
    capacity: list[list[Fraction]]  # of each kind by number of layers
    rates: list[list[float]]
    longest_path: int | None

    @property
    def n(self) -> int:
        """Number of devices."""
        return len(self.devices)


class Turns:
    """Capacities of devices whose batches take turns in steps of equal length."""

    def __init__(self, instance: FlowInstance, numbers: list[int] | None = None) -> None:
        steps = instance.steps
        assert steps is not None
        numbers = list(range(instance.n)) if numbers is None else numbers
        kind, rates = [instance.kind.tolist()[i] for i in numbers], instance.rates.tolist()
        place = [*numbers, instance.n + SOURCE, instance.n + SINK]
        self._in_flight, self._layers, self._devices = steps.in_flight, instance.layers, len(numbers)
        self._sizes, self._slots = steps.sizes.tolist(), steps.slots.tolist()
        self._seconds, self._port = steps.seconds.tolist(), [Fraction(rate) for rate in steps.port.tolist()]
        self._exact = ExactFlow(
            tuple(instance.devices[i] for i in numbers),
            instance.layers,
            kind,
            [kind.count(t) for t in range(len(self._port))],
            [],
            [[rates[u][v] for v in place] for u in place],
            instance.longest_path,
        )

    def numbers(self) -> list[int]:
        """Useful numbers of batches in flight; empty if no path can hold all layers."""
        if self._in_flight is not None:
            numbers = [self._in_flight]
        else:
            numbers = list(range(1, min(self._devices, self._layers) + 1))
        able = [m for m in numbers if min(m, self._devices) * self._room(m) >= self._layers]
        return [m for m in numbers if able and m >= able[0]]

    def ticks(self, in_flight: int) -> set[float]:
        """All possible step times with this number of batches in flight."""
        return {
            second
            for slots, rows in zip(self._slots, self._seconds, strict=True)
            for c, row in enumerate(rows)
            for size, second in zip(self._sizes, row, strict=True)
            if c > 0 and size <= slots[c] // in_flight and second < math.inf
        }

    def of_any_number(self) -> ExactFlow:
        """The question with its largest capacities, those with the fewest batches in flight that paths can serve."""
        numbers = self.numbers()
        capacity = self._capacity(numbers[0] if numbers else max(1, self._devices), 0.0, math.inf)
        limits = [limit for limit in (self._exact.longest_path, self._in_flight) if limit is not None]
        return replace(self._exact, capacity=capacity, longest_path=min(limits, default=None))

    def between(self, in_flight: int, low: float, high: float) -> ExactFlow:
        """The question with the largest capacities at any tick from `low` to `high` [s].

        A device with so few layers that the others on a path cannot hold the rest serves nothing.
        """
        capacity = self._capacity(in_flight, low, high)
        longest = min(self._devices, in_flight, self._exact.longest_path or in_flight)
        fewest = self._layers - (longest - 1) * self._reach(capacity)
        capacity = [[rate if c >= fewest else Fraction(0) for c, rate in enumerate(row)] for row in capacity]
        return replace(self._exact, capacity=capacity, longest_path=longest)

    def served(self, i: int, in_flight: int, tick: float, size: int, c: int) -> Fraction | str:
        """Sequences per second of device i with c layers in steps of `size`; or why it cannot make such steps."""
        t, name = self._exact.kind[i], self._exact.devices[i]
        if size == 0 or c == 0:
            return Fraction(0)
        if size not in self._sizes or size > self._slots[t][c] // in_flight:
            room = f"has room for the caches of {self._slots[t][c]} sequences"
            return f"device {name} {room}, and steps at {size} in each of {in_flight} batches"
        if not self._seconds[t][c][self._sizes.index(size)] <= tick:
            return f"device {name}: a step of {size} sequences takes longer than a tick"
        return min(Fraction(size) / Fraction(tick), self._port[t])

    def _room(self, in_flight: int) -> int:
        """Most layers that fit on a device with the caches of all batches in flight."""
        return max(
            (
                c
                for slots, rows in zip(self._slots, self._seconds, strict=True)
                for c in range(1, self._layers + 1)
                for size, second in zip(self._sizes, rows[c], strict=True)
                if size <= slots[c] // in_flight and second < math.inf
            ),
            default=0,
        )

    def _reach(self, capacity: list[list[Fraction]]) -> int:
        """Largest number of layers with which some device has a positive capacity."""
        return max((c for row in capacity for c, rate in enumerate(row) if rate > 0), default=0)

    def _capacity(self, in_flight: int, low: float, high: float) -> list[list[Fraction]]:
        capacity = []
        for slots, rows, port in zip(self._slots, self._seconds, self._port, strict=True):
            rates = [Fraction(0)]
            for room, row in zip(slots[1:], rows[1:], strict=True):
                served = [
                    Fraction(size) / Fraction(max(second, low))
                    for size, second in zip(self._sizes, row, strict=True)
                    if size <= room // in_flight and second <= high and second < math.inf
                ]
                rates.append(min(port, max(served, default=Fraction(0))))
            capacity.append(rates)
        return capacity


def exact_flow(instance: FlowInstance) -> ExactFlow:
    """The question in exact numbers; capacities that depend on steps are the largest that the steps allow."""
    if instance.steps is not None:
        return Turns(instance).of_any_number()
    capacity = [[Fraction(rate) for rate in row] for row in instance.capacity.tolist()]
    counts, rates = instance.counts.tolist(), instance.rates.tolist()
    kind, longest = instance.kind.tolist(), instance.longest_path
    return ExactFlow(instance.devices, instance.layers, kind, counts, capacity, rates, longest)


#: The flow, in parts; a sum of those of 256 devices and 4096 layers is below 2^63.
FLOW = 2**40

# Entries of arcs that are filled in between two looks at the clock.
_CHUNK = 20_000_000

_Ints = NDArray[np.int64]


class Question(NamedTuple):
    """Capacities and rates as fractions of the flow to exclude, with devices in the order of branching."""

    capacity: _Ints  # (n, L + 1) of each device, by number of layers
    rate: _Ints  # (n + 2, n + 2) of links; source and sink are the last two
    follows: NDArray[np.bool_]  # (n,) whether a device has the kind and the links of the one before it
    longest: int  # devices that a request may pass


def excludes_all(instance: ExactFlow, flow: Fraction, clock: Clock) -> int | None:
    """Number of branches that prove that the flow cannot pass; None if some assignment of layers may let it pass.

    Raises
    ------
    OutOfTimeError
    """
    question = _question(instance, flow, clock)
    n = len(question.capacity)
    if n == 0:
        return 0
    count, begin = np.full(n, -1), np.zeros(n, dtype=np.int64)
    depth, looked_at, chunk = 0, 0, 1 + _CHUNK // (2 * n + 2) ** 2
    while depth >= 0:
        clock.raise_if_late()
        depth, branches = look_at(question, count, begin, depth, chunk)
        looked_at += branches
        if depth == n:
            return None
    return looked_at


def _question(instance: ExactFlow, flow: Fraction, clock: Clock) -> Question:
    """The question on devices that can hold layers, the largest capacities first, interchangeable devices in a row."""
    n, kind, rates = instance.n, instance.kind, np.array(instance.rates)

    def parts(rows: Sequence[Sequence[float | Fraction]]) -> _Ints:
        return np.array([[int(min(FLOW, -(-Fraction(rate) * FLOW // flow))) for rate in row] for row in rows])

    def are_alike(i: int, j: int) -> bool:
        clock.raise_if_late()
        place = list(range(n + 2))
        place[i], place[j] = j, i
        return kind[i] == kind[j] and bool((rates[place][:, place] == rates).all())

    capacity = parts(instance.capacity)[kind]
    carried = (capacity * np.arange(instance.layers + 1)).max(axis=1).tolist()
    order: list[int] = []
    follows: list[bool] = []
    for first in sorted(range(n), key=lambda i: -carried[i]):
        if first not in order and carried[first] > 0:
            alike = [j for j in range(n) if j != first and j not in order and are_alike(first, j)]
            order += [first, *alike]
            follows += [False, *[True] * len(alike)]
    place = [*order, n + SOURCE, n + SINK]
    longest = n if instance.longest_path is None else instance.longest_path
    return Question(capacity[order], parts(instance.rates)[place][:, place].copy(), np.array(follows), longest)


@compiled
def look_at(question: Question, count: _Ints, begin: _Ints, depth: int, branches: int) -> tuple[int, int]:
    """Explore at most `branches` branches from where the last call ended.

    Parameters
    ----------
    count, begin : (n,) integers
        Number of layers and first layer of each device: those assigned before `depth`, and the last ones tried at
        `depth`, -1 layers before the first. They are updated in place.

    Returns
    -------
    tuple
        The depth: -1 after all branches, n where an assignment to all devices may let the flow pass; and the number of
        branches explored.
    """
    n, layers = len(count), question.capacity.shape[1] - 1
    arcs = np.zeros((2 * n + 2, 2 * n + 2), dtype=np.int64)
    done = 0
    while 0 <= depth < n and done < branches:
        if not _next_layers(question.capacity[depth], count, begin, depth, question.longest < n):
            depth -= 1
            continue
        done += 1
        if question.longest < n and _passes_more(question, count, begin, depth + 1):
            continue
        if _lacks_layers(question.capacity, count, begin, depth + 1):
            continue
        _draw_arcs(question, count, begin, depth + 1, layers, arcs)
        if _has_small_cut(arcs):
            continue
        depth += 1
        if depth < n:
            count[depth], begin[depth] = -1, 0
            if question.follows[depth] and count[depth - 1] > 0:
                count[depth], begin[depth] = count[depth - 1], begin[depth - 1] - 1
    return depth, done


@compiled
def _next_layers(capacity: _Ints, count: _Ints, begin: _Ints, i: int, idle: bool) -> bool:
    """Assign the next layers to device i, fewer layers first, none if it may be idle; False after the last.

    A device that holds layers lets no less pass than an idle one, but makes paths longer.
    """
    layers = len(capacity) - 1
    if count[i] > 0 and begin[i] + count[i] < layers:
        begin[i] += 1
        return True
    for c in range(count[i] + 1, layers + 1):
        if capacity[c] > 0 or (idle and c == 0):
            count[i], begin[i] = c, 0
            return True
    return False


@compiled
def _passes_more(question: Question, count: _Ints, begin: _Ints, given: int) -> bool:
    """Whether some path through devices before `given` is longer than a request may pass."""
    n = len(count)
    passed = np.zeros(given, dtype=np.int64)  # devices on the longest way from the source through each
    for _ in range(given):
        for i in range(given):
            if count[i] <= 0:
                continue
            if begin[i] == 0:
                passed[i] = 1 if question.rate[n, i] > 0 else 0
            for j in range(given):
                if count[j] > 0 and passed[j] > 0 and begin[j] + count[j] == begin[i] and question.rate[j, i] > 0:
                    passed[i] = max(passed[i], passed[j] + 1)
    for i in range(given):
        at_end = count[i] > 0 and begin[i] + count[i] == question.capacity.shape[1] - 1
        if at_end and question.rate[i, n + 1] > 0 and passed[i] > question.longest:
            return True
    return False


@compiled
def _lacks_layers(capacity: _Ints, count: _Ints, begin: _Ints, given: int) -> bool:
    """Whether the capacity for a layer, or for all, is below the flow, whatever the devices from `given` on hold."""
    n, layers = capacity.shape[0], capacity.shape[1] - 1
    apart, together = 0, 0
    for i in range(given, n):
        fastest, carried = 0, 0
        for c in range(1, layers + 1):
            fastest = max(fastest, capacity[i, c])
            carried = max(carried, c * capacity[i, c])
        apart, together = apart + fastest, together + carried
    needed = 0
    for layer in range(layers):
        passed = 0
        for i in range(given):
            if begin[i] <= layer < begin[i] + count[i]:
                passed += capacity[i, count[i]]
        if passed + apart < FLOW:
            return True
        needed += max(0, FLOW - passed)
    return together < needed


@compiled
def _draw_arcs(question: Question, count: _Ints, begin: _Ints, given: int, layers: int, arcs: _Ints) -> None:
    """Set the capacities between source 0, sink 1 and both sides of each device; devices from `given` on are open."""
    n = len(count)
    arcs[:] = 0
    for i in range(n):
        into, out = 2 * i + 2, 2 * i + 3
        if i >= given:
            arcs[into, out] = question.capacity[i].max()
            arcs[0, into], arcs[out, 1] = question.rate[n, i], question.rate[i, n + 1]
        elif count[i] > 0:
            arcs[into, out] = question.capacity[i, count[i]]
            if begin[i] == 0:
                arcs[0, into] = question.rate[n, i]
            if begin[i] + count[i] == layers:
                arcs[out, 1] = question.rate[i, n + 1]
        for j in range(n):
            if i >= given and j >= given:
                joined = True
            elif i >= given:
                joined = begin[j] > 0
            elif j >= given:
                joined = begin[i] + count[i] < layers
            else:
                joined = begin[i] + count[i] == begin[j]
            if joined and i != j:
                arcs[out, 2 * j + 2] = question.rate[i, j]


@compiled
def _has_small_cut(arcs: _Ints) -> bool:
    """Whether a cut between source and sink has less capacity than the flow.

    The cut comes from augmenting paths; its capacity is then summed from the arcs.
    """
    size = len(arcs)
    left, came, reached = arcs.copy(), np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    pushed = 0
    while pushed < FLOW:
        came[:] = -1
        came[0], reached[0], last, next_one = 0, 0, 1, 0
        while next_one < last:
            u = reached[next_one]
            next_one += 1
            for v in range(size):
                if came[v] < 0 and left[u, v] > 0:
                    came[v], reached[last] = u, v
                    last += 1
        if came[1] < 0:
            cut = 0
            for u in range(size):
                for v in range(size):
                    if came[u] >= 0 and came[v] < 0:
                        cut += arcs[u, v]
            return cut < FLOW
        least, v = FLOW, 1
        while v != 0:
            least, v = min(least, left[came[v], v]), came[v]
        v = 1
        while v != 0:
            left[came[v], v] -= least
            left[v, came[v]] += least
            v = came[v]
        pushed += least
    return False
