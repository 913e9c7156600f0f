"""Answer of flow: layers for each device, and the most requests that pass them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from instances.compiled import compiled
from instances.errors import InputError
from instances.flow.problem import FlowInstance
from instances.graph.display import Displayed, Rows, figures
from instances.graph.tensors import FloatArray, IntArray, freeze


@dataclass(frozen=True, eq=False, repr=False)
class FlowAnswer(Displayed):
    """Answer of flow: an interval of layers for each device.

    Parameters
    ----------
    instance : FlowInstance
    interval : (n, 2) integers
        First layer and the one behind the last of each device; equal where it holds none.

    Raises
    ------
    InputError
        If an interval is out of range, or requests pass too many devices.
    """

    instance: FlowInstance
    interval: IntArray

    cost_name: ClassVar[str] = "time a request"

    def __init__(self, instance: FlowInstance, interval: ArrayLike) -> None:
        table = np.array(interval)
        if table.shape != (instance.n, 2) or table.dtype.kind not in "iu":
            raise InputError(f"There are intervals for {table.shape}; give two whole numbers for {instance.n} devices.")
        table = table.astype(np.int64)
        for i, (begin, end) in enumerate(table.tolist()):
            if not 0 <= begin <= end <= instance.layers:
                place = f"device {instance.devices[i]} holds layers {begin} to {end}"
                raise InputError(f"{place}; they run from 0 to {instance.layers}.")
        path = longest_path(instance.layers, table, np.asarray(instance.rates))
        if path > instance.longest:
            raise InputError(
                f"Requests pass {path} devices one after the other, and at most {instance.longest} may be."
            )
        freeze(table)
        object.__setattr__(self, "instance", instance)
        object.__setattr__(self, "interval", table)

    @cached_property
    def in_flight(self) -> int | None:
        """Batches in flight, as few as devices on a path, if they may be any number; None without steps."""
        steps = self.instance.steps
        if steps is None or steps.in_flight is not None:
            return None if steps is None else steps.in_flight
        return max(1, longest_path(self.instance.layers, self.interval, np.asarray(self.instance.rates)))

    @cached_property
    def tick(self) -> float | None:
        """Seconds between the steps of all devices, such that most passes; 0 if none does, None without steps."""
        steps, m, instance = self.instance.steps, self.in_flight, self.instance
        if steps is None or m is None:
            return None
        kind, counts, layer = instance.kind, self._counts, np.arange(instance.layers)
        seconds, room = steps.seconds[kind, counts], (steps.slots // m)[kind, counts]
        ends_in_time = (steps.sizes <= room[:, None]) & (seconds < math.inf) & (counts > 0)[:, None]
        ticks = np.unique(seconds[ends_in_time]).tolist()
        capacities = [steps.capacity(m, tick, tick)[kind, counts] for tick in ticks]
        holds = (self.interval[:, :1] <= layer) & (layer < self.interval[:, 1:])
        most = [float((capacity @ holds).min()) for capacity in capacities]  # no layer lets more pass
        best, flow = 0.0, 0.0
        for x in sorted(range(len(ticks)), key=lambda x: -most[x]):
            if most[x] <= flow:
                break
            passing = push_most(network_of(instance.layers, self.interval, capacities[x], np.asarray(instance.rates)))
            if passing > flow:
                best, flow = ticks[x], passing
        return best

    @cached_property
    def batch(self) -> IntArray | None:
        """(n,) sequences of a step of each device; None without steps."""
        steps, m, tick = self.instance.steps, self.in_flight, self.tick
        if steps is None or m is None or tick is None:
            return None
        sizes: IntArray = steps.batch(m, tick)[self.instance.kind, self._counts]
        return sizes

    @property
    def _counts(self) -> IntArray:
        """(n,) layers of each device."""
        counts: IntArray = self.interval[:, 1] - self.interval[:, 0]
        return counts

    @cached_property
    def network(self) -> FloatArray:
        """(2n + 2, 2n + 2) capacities as `network_of` has them [requests/s]."""
        capacities: FloatArray = network_of(
            self.instance.layers, self.interval, self.capacity, np.asarray(self.instance.rates)
        )
        return capacities

    @cached_property
    def flow(self) -> float:
        """Most requests per second from the source to the sink."""
        return push_most(self.network.copy())

    @cached_property
    def passing(self) -> FloatArray:
        """(2n + 2, 2n + 2) what passes each arc of the network, in one way to reach the flow [requests/s]."""
        residual = self.network.copy()
        push_most(residual)
        return np.maximum(0.0, self.network - residual)

    def document(self) -> dict[str, list[int]]:
        """Layers of each device by its name, as files have them."""
        return dict(zip(self.instance.devices, self.interval.tolist(), strict=True))

    @cached_property
    def capacity(self) -> FloatArray:
        """(n,) requests per second of each device with its layers."""
        table, steps = self.instance.capacity, self.instance.steps
        if steps is not None and self.in_flight is not None and self.tick is not None:
            table = steps.capacity(self.in_flight, self.tick, self.tick)
        capacities: FloatArray = table[self.instance.kind, self._counts]
        return capacities

    @property
    def cost(self) -> float:
        """Seconds for each request, 1 / flow."""
        return 1 / self.flow if self.flow > 0 else math.inf

    def _title(self) -> str:
        return self.instance.name

    @property
    def measures(self) -> dict[str, str]:
        """The flow, and the batches that wait for it, in words."""
        measures = {"flow": figures(self.flow, "requests/s")}
        if self.batch is not None and self.tick is not None:
            sizes = sorted(set(self.batch[self._counts > 0].tolist()))
            of = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else "".join(map(str, sizes))
            measures["in flight"] = f"{self.in_flight} batches of {of or 'no'} sequences, a step each"
            measures["in flight"] += f" {figures(self.tick, 's')}"
        return measures

    def _facts(self) -> dict[str, str]:
        return self.measures

    def _rows(self) -> Rows:
        order = np.lexsort((self.interval[:, 1], self.interval[:, 0]))
        rows = [
            [
                self.instance.devices[i],
                f"{begin}–{end - 1}" if end > begin else "–",
                *([] if self.batch is None else [str(self.batch[i])]),
                figures(self.capacity[i]),
            ]
            for i in order.tolist()
            for begin, end in [self.interval[i].tolist()]
        ]
        return ["device", "layers", *([] if self.batch is None else ["sequences"]), "requests/s"], rows


@compiled
def network_of(layers: int, interval: IntArray, capacity: FloatArray, rates: FloatArray) -> FloatArray:
    """(N, N) capacities between source, 0, sink, 1, and the way in and the way out of each device."""
    n = len(interval)
    source, sink = n, n + 1  # in `rates`
    arcs = np.zeros((2 * n + 2, 2 * n + 2))
    for i in range(n):
        if interval[i, 1] <= interval[i, 0]:
            continue
        arcs[2 + i, 2 + n + i] = capacity[i]
        if interval[i, 0] == 0:
            arcs[0, 2 + i] = rates[source, i]
        if interval[i, 1] == layers:
            arcs[2 + n + i, 1] = rates[i, sink]
        for j in range(n):
            if j != i and interval[j, 0] == interval[i, 1] and interval[j, 1] > interval[j, 0]:
                arcs[2 + n + i, 2 + j] = rates[i, j]
    return arcs


@compiled
def longest_path(layers: int, interval: IntArray, rates: FloatArray) -> int:
    """Devices on the longest way along links from the source to the sink; 0 if none leads there."""
    n, longest = len(interval), 0
    source, sink = len(rates) - 2, len(rates) - 1
    devices = np.zeros(n, dtype=np.int64)  # on the longest way to each, with itself
    for i in np.argsort(interval[:, 0]):
        begin, end = interval[i, 0], interval[i, 1]
        if begin == end:
            continue
        if begin == 0 and rates[source, i] > 0.0:
            devices[i] = 1
        for j in range(n):
            if interval[j, 1] == begin and devices[j] > 0 and rates[j, i] > 0.0:
                devices[i] = max(devices[i], devices[j] + 1)
        if end == layers and rates[i, sink] > 0.0:
            longest = max(longest, devices[i])
    return longest


@compiled
def push_most(residual: FloatArray) -> float:
    """Most flow from node 0 to node 1 by shortest paths (Edmonds and Karp, 1972); `residual` is used up."""
    size = len(residual)
    leaving, entering = 0.0, 0.0  # at the most
    for v in range(size):
        leaving += min(residual[0, v], residual[v].sum())
        entering += min(residual[v, 1], residual[:, v].sum())
    smallest = 1e-12 * min(leaving, entering)
    total = 0.0
    parent, queue = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    while True:
        parent[:] = -1
        parent[0] = 0
        queue[0] = 0
        first, last = 0, 1
        while first < last and parent[1] < 0:
            u = queue[first]
            first += 1
            for v in range(size):
                if parent[v] < 0 and residual[u, v] > smallest:
                    parent[v] = u
                    queue[last] = v
                    last += 1
        if parent[1] < 0:
            return total
        least, v = np.inf, 1
        while v != 0:
            least = min(least, residual[parent[v], v])
            v = parent[v]
        v = 1
        while v != 0:
            residual[parent[v], v] -= least
            residual[v, parent[v]] += least
            v = parent[v]
        total += least
