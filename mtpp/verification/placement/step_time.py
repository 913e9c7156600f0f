"""Time and memory of a step under a placement, a second time from the definition (Addanki et al., NeurIPS 2019).

A node is ready when all tensors that it reads are on its device. A device runs one node at a time, first ready first
served, and rests `node_gap` after a node with work. When a node ends, its tensors are on its device, and each other
device that reads one gets it over the bus out of there, tensor by tensor and reader by reader, one transfer at a time
for bytes over the rate, with a rest of `transfer_gap` after it. With `broadcast` one transfer serves all devices.

A tensor takes memory where it is made until its producer, its last reader there and its last transfer have ended, and
elsewhere from the start of its transfer until its last reader there has ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from instances.errors import InputError
from instances.placement.problem import PlacementInstance
from mtpp.verification.clock import Clock

__all__ = ["Run", "Step", "held_bytes", "peaks"]

#: Size of the numbers that a check computes with.
_MOST_BITS = 2**14


class Run(NamedTuple):
    """Times of a step: when nodes are ready, start and end, and when each tensor is on each device."""

    ready: list[float]
    start: list[float]
    end: list[float]
    stays: list[tuple[int, int, float, float]]


@dataclass(frozen=True)
class Step:
    """A question of placement as plain lists, in whole multiples of a unit, or rounded as floats are."""

    unit: Fraction  # in the time unit of the work
    node_time: Callable[[int, int], float]  # of a node on a device
    move_time: Callable[[int, int, int], float]  # of a tensor from a device to another one
    outputs: list[list[int]]  # tensors of each node
    readers: list[list[int]]  # of each tensor
    node_gap: float
    transfer_gap: float
    broadcast: bool

    @classmethod
    def exact(cls, instance: PlacementInstance) -> Step:
        """Whole numbers: floats are whole numbers over powers of two, so that the largest of these divides them all.

        Raises
        ------
        InputError
            If speeds and rates have no common denominator of a reasonable size.
        """
        graph, gaps = instance.graph, (float(instance.node_gap), float(instance.transfer_gap))
        work, sizes = graph.work.tolist(), graph.tensors.bytes.tolist()
        scale = max(x.as_integer_ratio()[1] for x in (*work, *sizes, *gaps))
        speeds, rates = _speeds_and_rates(instance)
        # Work over speed and bytes over rate, times these numbers, are whole.
        common, shared = _multiple(speeds), _multiple(x for row in rates for x in row if math.isfinite(x))

        def whole(x: float) -> int:
            top, bottom = x.as_integer_ratio()
            return top * (scale // bottom)

        works, bytes_moved = [whole(x) for x in work], [whole(x) for x in sizes]
        slow = [int(common / Fraction(x)) * shared for x in speeds]
        far = [[0 if math.isinf(x) else int(shared / Fraction(x)) * common for x in row] for row in rates]
        return cls._of(
            instance,
            Fraction(1, scale * common * shared),
            lambda v, d: works[v] * slow[d],
            lambda t, d, e: bytes_moved[t] * far[d % len(far)][e % len(far)],
            (whole(gaps[0]) * common * shared, whole(gaps[1]) * common * shared),
        )

    @classmethod
    def rounded(cls, instance: PlacementInstance) -> Step:
        """Times in floats, as placements are computed with them."""
        work, sizes = instance.graph.work.tolist(), instance.graph.tensors.bytes.tolist()
        speeds, rates = _speeds_and_rates(instance)
        return cls._of(
            instance,
            Fraction(1),
            lambda v, d: work[v] / speeds[d],
            lambda t, d, e: sizes[t] / rates[d % len(rates)][e % len(rates)],
            (float(instance.node_gap), float(instance.transfer_gap)),
        )

    @classmethod
    def _of(
        cls,
        instance: PlacementInstance,
        unit: Fraction,
        node_time: Callable[[int, int], float],
        move_time: Callable[[int, int, int], float],
        gaps: tuple[float, float],
    ) -> Step:
        tensors = instance.graph.tensors
        first, consumers = tensors.start.tolist(), tensors.consumers.tolist()
        outputs: list[list[int]] = [[] for _ in range(instance.graph.n)]
        for t, u in enumerate(tensors.producer.tolist()):
            outputs[u].append(t)
        return cls(
            unit=unit,
            node_time=node_time,
            move_time=move_time,
            outputs=outputs,
            readers=[consumers[first[t] : first[t + 1]] for t in range(len(first) - 1)],
            node_gap=gaps[0],
            transfer_gap=gaps[1],
            broadcast=instance.broadcast,
        )

    def run(self, device: Sequence[int], sequence: Sequence[int], clock: Clock) -> Run | None:
        """Start every node and every transfer as early as the order of the nodes allows.

        The answer is None if devices wait for each other for ever. The sequence holds all nodes; those of one device
        run in this order.

        Raises
        ------
        OutOfTimeError
        """
        n = len(self.outputs)
        missing = [0] * n
        for readers in self.readers:
            for v in readers:
                missing[v] += 1
        queues: dict[int, list[int]] = {d: [] for d in device}
        for v in reversed(sequence):
            queues[device[v]].append(v)
        ready: list[float] = [0] * n  # whole numbers stay whole
        start, end = ready.copy(), ready.copy()
        device_free: dict[int, float] = dict.fromkeys(queues, 0)
        bus_free: dict[int, float] = dict.fromkeys(queues, 0)
        moves: list[list[tuple[int, float, float]]] = [[] for _ in self.readers]
        waiting, left = list(queues), n
        while waiting:
            d = waiting.pop()
            clock.raise_if_late()
            while queues[d] and missing[queues[d][-1]] == 0:
                u = queues[d].pop()
                left -= 1
                start[u] = max(ready[u], device_free[d])
                end[u] = start[u] + self.node_time(u, d)
                device_free[d] = end[u] + (self.node_gap if self.node_time(u, d) > 0 else 0)
                for t in self.outputs[u]:
                    bus_free[d] = self._send(t, d, device, max(bus_free[d], end[u]), moves[t])
                    arrival = {target: there for target, _, there in moves[t]} | {d: end[u]}
                    for v in self.readers[t]:
                        ready[v] = max(ready[v], arrival[device[v]])
                        missing[v] -= 1
                        if missing[v] == 0 and device[v] != d:
                            waiting.append(device[v])
        return None if left else Run(ready, start, end, self.stays(device, start, end, moves))

    def _send(
        self, t: int, home: int, device: Sequence[int], free: float, moves: list[tuple[int, float, float]]
    ) -> float:
        """Move a tensor to all devices that read it elsewhere; return when the bus is free again."""
        targets = list(dict.fromkeys(device[v] for v in self.readers[t] if device[v] != home))
        for group in [targets] if self.broadcast and targets else [[target] for target in targets]:
            there = free + max(self.move_time(t, home, target) for target in group)
            moves += [(target, free, there) for target in group]
            free = there + self.transfer_gap
        return free

    def stays(
        self,
        device: Sequence[int],
        start: Sequence[float],
        end: Sequence[float],
        moves: Sequence[Sequence[tuple[int, float, float]]],
    ) -> list[tuple[int, int, float, float]]:
        """Intervals in which tensors are on devices; moves of a tensor are (target, start, end)."""
        stays = []
        for u, tensors in enumerate(self.outputs):
            for t in tensors:
                last = {device[u]: end[u]}
                for v in self.readers[t]:
                    last[device[v]] = max(last.get(device[v], 0), end[v])
                home = max([last[device[u]], *(there for _, _, there in moves[t])])
                stays.append((t, device[u], start[u], home))
                stays += [(t, target, begin, last[target]) for target, begin, _ in moves[t]]
        return stays


def _speeds_and_rates(instance: PlacementInstance) -> tuple[Sequence[float], Sequence[Sequence[float]]]:
    """Speed of each device, and rate of each pair; a single row if all rates are equal."""
    if instance.unequal is None:
        return [1.0] * instance.devices, [[float(instance.bandwidth)]]
    return instance.unequal.speeds, instance.unequal.rates


def _multiple(numbers: Iterable[float]) -> int:
    """The least number that is a whole multiple of all of them, and whole; an `InputError` if it is huge."""
    multiple = 1
    for top in {x.as_integer_ratio()[0] for x in numbers}:
        multiple = math.lcm(multiple, top)
        if multiple.bit_length() > _MOST_BITS:
            raise InputError("There are too many different speeds or rates of devices to check exactly; round them.")
    return multiple


def peaks(instance: PlacementInstance, run: Run) -> list[Fraction]:
    """Largest sum of the tensors on each device at one time [bytes]; frees precede allocations of one instant."""
    sizes = [Fraction(size) for size in instance.graph.tensors.bytes.tolist()]
    changes: list[list[tuple[float, Fraction]]] = [[] for _ in range(instance.devices)]
    for t, place, begin, end in run.stays:
        if begin < end:
            changes[place] += [(begin, sizes[t]), (end, -sizes[t])]
    return [max(accumulate((size for _, size in sorted(of_one)), initial=Fraction(0))) for of_one in changes]


def held_bytes(instance: PlacementInstance, device: Sequence[int]) -> list[Fraction]:
    """Parameters and states on each device [bytes]; a shared parameter counts once on each device that uses it."""
    total, graph = [Fraction(0)] * instance.devices, instance.graph
    for d, *sizes in zip(device, graph.param_bytes.tolist(), graph.state_bytes.tolist(), strict=True):
        total[d] += sum(map(Fraction, sizes))
    for parameter in instance.graph.parameters:
        for d in {device[v] for v in parameter.users}:
            total[d] += Fraction(float(parameter.bytes))
    return total
