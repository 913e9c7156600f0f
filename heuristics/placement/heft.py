"""HEFT: nodes by their distance from the end, each where it ends first (Topcuoglu, Hariri, Wu, 2002).

Transfers queue on the bus out of each device, as in the simulator. A source without work,
such as weights, goes where its first reader goes. The original inserts nodes into gaps; here a device takes
nodes in the order in which they are placed, as its queue does.
"""

from __future__ import annotations

import numpy as np

from heuristics.limits import Limits
from instances.graph.tensors import FloatArray, IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

__all__ = ["ListSchedule", "heft", "rank_order", "upward_rank"]


def heft(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """Place nodes in the order of decreasing upward rank, each on the device on which it ends first."""
    schedule = ListSchedule(instance)
    for v in rank_order(instance).tolist():
        if not schedule.is_free(v):
            schedule.place(v, min(range(instance.devices), key=lambda d: (schedule.span(v, d)[1], d)))
    return schedule.placement()


def upward_rank(instance: PlacementInstance) -> FloatArray:
    """(n,) work and transfers on the longest way from each node to the end.

    A transfer counts with the probability that two nodes on random devices are apart.
    """
    graph = instance.graph
    start, successor = graph.successors
    move = instance.tensor_time[graph.edge_tensor] * (1 - 1 / instance.devices)
    rank = graph.work / instance.speeds.mean()
    for u in graph.topological_order[::-1]:
        edges = slice(start[u], start[u + 1])
        rank[u] += (move[edges] + rank[successor[edges]]).max(initial=0.0)
    return rank


def rank_order(instance: PlacementInstance) -> IntArray:
    """(n,) the nodes by decreasing upward rank, among equals in topological order."""
    topological = instance.graph.topological_order
    return topological[np.argsort(-upward_rank(instance)[topological], kind="stable")]


class ListSchedule:
    """Partial schedule: when devices and buses are free, and when each tensor is on each device."""

    def __init__(self, instance: PlacementInstance) -> None:
        graph, k = instance.graph, instance.devices
        self.instance = instance
        self.producer, self.inputs = graph.tensors.producer.tolist(), [rows.tolist() for rows in graph.inputs]
        self.outputs = graph.output_start.tolist()
        self.work = graph.work.tolist()
        self.device: list[int | None] = [None] * graph.n
        self.arrivals: list[dict[int, float]] = [{} for _ in self.producer]  # of each tensor, by device
        self.device_free, self.bus_free = [0.0] * k, [0.0] * k

    def is_free(self, v: int) -> bool:
        """Whether node v is a source without work, which goes where its first reader goes."""
        return not self._reads(v) and self.work[v] == 0

    def arrival(self, v: int, d: int) -> float:
        """Time at which all inputs of v would be on device d."""
        bus_free = list(self.bus_free)
        return max((self._receive(t, d, bus_free) for t in self._reads(v)), default=0.0)

    def span(self, v: int, d: int) -> tuple[float, float]:
        """Start and end of v if device d ran it."""
        start = max(self.arrival(v, d), self.device_free[d])
        return start, start + self.instance.node_time(v, d)

    def place(self, v: int, d: int) -> None:
        """Let v run on device d after all that was placed there."""
        _, end = self.span(v, d)
        for t in self._reads(v):
            if self.device[self.producer[t]] is None:
                self._put(self.producer[t], d, 0.0)
            self.arrivals[t][d] = self._receive(t, d, self.bus_free)
        self.device_free[d] = end + (self.instance.node_gap if self.work[v] > 0 else 0.0)
        self._put(v, d, end)

    def placement(self) -> Placement:
        """All that was placed; the rest is on device 0."""
        return Placement(self.instance, np.array([d or 0 for d in self.device]))

    def _reads(self, v: int) -> list[int]:
        start, tensor = self.inputs
        return tensor[start[v] : start[v + 1]]

    def _receive(self, t: int, d: int, bus_free: list[float]) -> float:
        """Arrival of tensor t on device d; a transfer that this needs advances `bus_free`."""
        home = self.device[self.producer[t]]
        if home is None:
            return 0.0
        if d in self.arrivals[t]:
            return self.arrivals[t][d]
        end = max(bus_free[home], self.arrivals[t][home]) + self.instance.transfer_time(t, home, (d,))
        bus_free[home] = end + self.instance.transfer_gap
        return end

    def _put(self, v: int, d: int, end: float) -> None:
        self.device[v] = d
        for t in range(self.outputs[v], self.outputs[v + 1]):
            self.arrivals[t][d] = end
