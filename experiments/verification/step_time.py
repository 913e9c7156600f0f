"""Time and memory of a step under a placement, written again from the definition (Addanki et al., NeurIPS 2019).

A node is ready when all tensors that it reads are on its device. A device runs one node at a time, first ready first
served, and rests `node_gap` after a node with work. When a node ends, its tensors are on its device, and each other
device that reads one gets it over the bus out of there, tensor by tensor and reader by reader, one transfer at a time
for bytes over bandwidth, with a rest of `transfer_gap` after it. With `broadcast` one transfer serves all devices.

A tensor takes memory where it is made until its producer, its last reader there and its last transfer have ended, and
elsewhere from the start of its transfer until its last reader there has ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from experiments.verification.clock import Clock
from instances.placement.problem import PlacementInstance

__all__ = ["Run", "Step", "param_bytes", "peaks"]


class Run(NamedTuple):
    """When nodes are ready, start and end, and which tensor is on which device from when to when."""

    ready: list[float]
    start: list[float]
    end: list[float]
    stays: list[tuple[int, int, float, float]]


@dataclass(frozen=True)
class Step:
    """A question of placement as plain lists, in whole multiples of a unit, or rounded as floats are."""

    unit: Fraction  # in the time unit of the work
    work: list[float]  # of each node
    outputs: list[list[int]]  # tensors of each node
    time: list[float]  # of each tensor
    readers: list[list[int]]  # of each tensor
    node_gap: float
    transfer_gap: float
    broadcast: bool

    @classmethod
    def exact(cls, instance: PlacementInstance) -> Step:
        """Whole numbers: floats are whole numbers over powers of two, so that the largest of these divides them all."""
        rounded = cls.rounded(instance)
        sizes, gaps = instance.graph.tensors.bytes.tolist(), (rounded.node_gap, rounded.transfer_gap)
        scale = max(x.as_integer_ratio()[1] for x in (*rounded.work, *sizes, *gaps))
        rate, per = (1, 0) if math.isinf(instance.bandwidth) else instance.bandwidth.as_integer_ratio()

        def whole(x: float) -> int:
            top, bottom = x.as_integer_ratio()
            return top * (scale // bottom)

        return cls(
            unit=Fraction(1, scale * rate),
            work=[whole(x) * rate for x in rounded.work],
            outputs=rounded.outputs,
            time=[whole(x) * per for x in sizes],
            readers=rounded.readers,
            node_gap=whole(gaps[0]) * rate,
            transfer_gap=whole(gaps[1]) * rate,
            broadcast=instance.broadcast,
        )

    @classmethod
    def rounded(cls, instance: PlacementInstance) -> Step:
        """Floats, as whoever makes a placement computes with them."""
        graph, tensors = instance.graph, instance.graph.tensors
        first, consumers = tensors.start.tolist(), tensors.consumers.tolist()
        outputs: list[list[int]] = [[] for _ in range(graph.n)]
        for t, u in enumerate(tensors.producer.tolist()):
            outputs[u].append(t)
        return cls(
            unit=Fraction(1),
            work=graph.work.tolist(),
            outputs=outputs,
            time=[size / instance.bandwidth for size in tensors.bytes.tolist()],
            readers=[consumers[first[t] : first[t + 1]] for t in range(len(first) - 1)],
            node_gap=float(instance.node_gap),
            transfer_gap=float(instance.transfer_gap),
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
        n = len(self.work)
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
                end[u] = start[u] + self.work[u]
                device_free[d] = end[u] + (self.node_gap if self.work[u] > 0 else 0)
                for t in self.outputs[u]:
                    bus_free[d] = self._send(t, d, device, max(bus_free[d], end[u]), moves[t])
                    arrival = {target: there for target, _, there in moves[t]} | {d: end[u]}
                    for v in self.readers[t]:
                        ready[v] = max(ready[v], arrival[device[v]])
                        missing[v] -= 1
                        if missing[v] == 0 and device[v] != d:
                            waiting.append(device[v])
        return None if left else Run(ready, start, end, self._stays(device, start, end, moves))

    def _send(
        self, t: int, home: int, device: Sequence[int], free: float, moves: list[tuple[int, float, float]]
    ) -> float:
        """Move a tensor to all devices that read it elsewhere; return when the bus is free again."""
        targets = list(dict.fromkeys(device[v] for v in self.readers[t] if device[v] != home))
        for group in [targets] if self.broadcast and targets else [[target] for target in targets]:
            there = free + self.time[t]
            moves += [(target, free, there) for target in group]
            free = there + self.transfer_gap
        return free

    def _stays(
        self,
        device: Sequence[int],
        start: Sequence[float],
        end: Sequence[float],
        moves: Sequence[Sequence[tuple[int, float, float]]],
    ) -> list[tuple[int, int, float, float]]:
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


def peaks(instance: PlacementInstance, run: Run) -> list[Fraction]:
    """Largest sum of the tensors on each device at one time [bytes]; what is freed makes room for what is allocated."""
    sizes = [Fraction(size) for size in instance.graph.tensors.bytes.tolist()]
    changes: list[list[tuple[float, Fraction]]] = [[] for _ in range(instance.devices)]
    for t, place, begin, end in run.stays:
        if begin < end:
            changes[place] += [(begin, sizes[t]), (end, -sizes[t])]
    return [max(accumulate((size for _, size in sorted(of_one)), initial=Fraction(0))) for of_one in changes]


def param_bytes(instance: PlacementInstance, device: Sequence[int]) -> list[Fraction]:
    """Parameters on each device [bytes]; a shared one counts once on each device that uses it."""
    total = [Fraction(0)] * instance.devices
    for d, size in zip(device, instance.graph.param_bytes.tolist(), strict=True):
        total[d] += Fraction(size)
    for parameter in instance.graph.parameters:
        for d in {device[v] for v in parameter.users}:
            total[d] += Fraction(float(parameter.bytes))
    return total
