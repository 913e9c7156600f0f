"""The best step time of all devices and orders, by enumeration: slow, plain, and without code of the project."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from instances import ComputationGraph
from instances.machines import Kind, Machines
from instances.placement.problem import PlacementInstance


def table(speeds: Sequence[float], memories: Sequence[float], rates: Sequence[Sequence[float]]) -> Machines:
    """Devices that differ, one by one; what a row says of its own device is not looked at."""
    kinds = [Kind(f"device {d}", 1, s, memory=m) for d, (s, m) in enumerate(zip(speeds, memories, strict=True))]
    return Machines(
        kinds, "fixed", [[math.inf if d == e else x for e, x in enumerate(row)] for d, row in enumerate(rates)]
    )


#: A node, as (device, node), or a transfer, as (source, tensor, targets).
Operation = tuple[int, int] | tuple[int, int, tuple[int, ...]]


@dataclass(frozen=True)
class Best:
    """A best answer."""

    time: float
    device: tuple[int, ...]
    operations: tuple[Operation, ...]  # in the order of their starts


def best_ordered(instance: PlacementInstance) -> Best:
    """The best of all devices of the nodes and all sequences of devices and buses."""
    best = Best(math.inf, (), ())
    for device in _all_devices(instance):
        time, operations = _Search(instance, device, best.time).run()
        if time < best.time:
            best = Best(time, device, tuple(operations))
    return best


def _all_devices(instance: PlacementInstance) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(instance.devices), repeat=instance.graph.n)


class _Search:
    """All orders in which operations can start, for one device of each node; starts never fall."""

    def __init__(self, instance: PlacementInstance, device: Sequence[int], limit: float) -> None:
        graph = instance.graph
        self.instance, self.best, self.schedule = instance, limit, list[Operation]()
        self.needs: dict[Operation, list[Operation]] = {(d, v): [] for v, d in enumerate(device)}
        for t, u in enumerate(graph.tensors.producer.tolist()):
            readers = graph.tensors.consumers[graph.tensors.start[t] : graph.tensors.start[t + 1]].tolist()
            away = sorted({device[v] for v in readers if device[v] != device[u]})
            groups = [tuple(away)] if instance.broadcast and away else [(target,) for target in away]
            for group in groups:
                self.needs[device[u], t, group] = [(device[u], u)]
            for v in readers:
                carrier = next(((device[u], t, group) for group in groups if device[v] in group), (device[u], u))
                self.needs[device[v], v].append(carrier)

    def run(self) -> tuple[float, list[Operation]]:
        self._next({}, {}, 0.0, 0.0, [])
        return self.best, self.schedule

    def _next(
        self,
        ends: dict[Operation, float],
        free: dict[tuple[str, int], float],
        last: float,
        done: float,
        so_far: list[Operation],
    ) -> None:
        if done >= self.best:
            return
        if len(so_far) == len(self.needs):
            self.best, self.schedule = done, so_far
            return
        for operation, needs in self.needs.items():
            if operation in ends or any(need not in ends for need in needs):
                continue
            is_node = len(operation) == 2
            machine = ("device" if is_node else "bus", operation[0])
            start = max([free.get(machine, 0.0), *(ends[need] for need in needs)])
            if start < last:
                continue
            end, rest = self._takes(operation, start)
            self._next(
                {**ends, operation: end},
                {**free, machine: rest},
                start,
                max(done, end) if is_node else done,
                [*so_far, operation],
            )

    def _takes(self, operation: Operation, start: float) -> tuple[float, float]:
        instance, kinds = self.instance, self.instance.machines.kinds
        kind = [t for t, kind in enumerate(kinds) for _ in range(kind.count)]
        t, v = kind[operation[0]], operation[1]
        if len(operation) == 2:
            works = instance.graph.work / (kinds[t].speed or 1.0) if instance.works is None else instance.works[t]
            end = start + float(works[v])
            return end, end + (instance.node_gap if works[v] > 0 else 0.0)
        table, rate = instance.machines.rates, math.inf
        for other in (kind[target] for target in operation[2]):
            limits = [kinds[s].bandwidth or math.inf for s in (t, other)]
            rate = min([rate, *limits, *([] if table is None else [table[t][other]])])
        end = start + float(instance.graph.tensors.bytes[v]) / rate
        return end, end + instance.transfer_gap


def random_question(rng: np.random.Generator, most_nodes: int = 5) -> PlacementInstance:
    """A tiny question: ties, zeros, several outputs, gaps, broadcast, unequal devices."""
    n, k = int(rng.integers(1, most_nodes + 1)), int(rng.integers(1, 4))
    k = min(k, 2) if n > 4 else k
    zeros = rng.choice([0.0, 0.4])

    def numbers(count: int, most: int) -> list[float]:
        values = rng.integers(0, most, count) if rng.random() < 0.6 else np.round(most * rng.random(count), 6)
        return np.where(rng.random(count) < zeros, 0, values).astype(float).tolist()

    outputs = [numbers(int(rng.choice([1, 1, 2])), int(rng.choice([2, 4, 12]))) for _ in range(n)]
    place = rng.permutation(n).tolist()
    density = rng.choice([0.2, 0.5, 0.8])
    edges = [
        (place[i], place[j], o)
        for j in range(n)
        for i in range(j)
        for o in range(len(outputs[place[i]]))
        if rng.random() < density
    ]
    work = numbers(n, 8)
    work[int(rng.integers(n))] += 1.0
    question = PlacementInstance(
        ComputationGraph.from_edges(edges, work, outputs), Machines.alike(k, float(rng.choice([0.5, 1, 3])))
    )
    gaps = [float(rng.choice([0.0, 0.0, 0.5, 2.0])) for _ in range(2)]
    machines = question.machines
    if rng.random() < 0.3:
        speeds, rates = rng.choice([0.5, 0.9, 1.0, 2.0], k), rng.choice([0.5, 1.0, 3.0, math.inf], (k, k))
        machines = table(speeds.tolist(), [math.inf] * k, rates.tolist())
    broadcast = bool(rng.random() < 0.3)
    return replace(question, node_gap=gaps[0], transfer_gap=gaps[1], broadcast=broadcast, machines=machines)
