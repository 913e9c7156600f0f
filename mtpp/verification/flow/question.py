"""Questions of flow in exact numbers, and the capacities of devices that work in steps.

Where a question has steps, m batches take turns, one in each tick, the time between steps. A device with layers and s
slots runs steps of b sequences, at most s / m, each in no more than a tick, and serves b sequences in that time. With
more batches it serves no more, and no path has more devices than batches; so the fewest batches with which a path may
hold all layers give the largest capacities, and more batches than devices or layers are of no use. A tick that is not
the time of a possible step is no better than the longest such time below it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from instances.flow.problem import SINK, SOURCE, FlowInstance


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
