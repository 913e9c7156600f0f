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

__all__ = ["heft", "rank_order", "upward_rank"]


def heft(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """Place nodes in the order of decreasing upward rank, each on the device on which it ends first."""
    return _Schedule(instance).placement()


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


class _Schedule:
    """When devices and buses are free, and when each tensor is on each device."""

    def __init__(self, instance: PlacementInstance) -> None:
        graph, k = instance.graph, instance.devices
        self.instance = instance
        self.producer, self.inputs = graph.tensors.producer.tolist(), [rows.tolist() for rows in graph.inputs]
        self.outputs = graph.output_start.tolist()
        self.work = graph.work.tolist()
        self.device: list[int | None] = [None] * graph.n
        self.arrival: list[dict[int, float]] = [{} for _ in self.producer]  # of each tensor, by device
        self.device_free, self.bus_free = [0.0] * k, [0.0] * k

    def placement(self) -> Placement:
        for v in rank_order(self.instance).tolist():
            if self._reads(v) or self.work[v] > 0:
                self._place(v, min(range(self.instance.devices), key=lambda d: (self._end(v, d), d)))
        return Placement(self.instance, np.array([d or 0 for d in self.device]))

    def _reads(self, v: int) -> list[int]:
        start, tensor = self.inputs
        return tensor[start[v] : start[v + 1]]

    def _end(self, v: int, d: int) -> float:
        """When v would end on device d."""
        bus_free = list(self.bus_free)
        ready = max((self._receive(t, d, bus_free) for t in self._reads(v)), default=0.0)
        return max(ready, self.device_free[d]) + self.instance.node_time(v, d)

    def _receive(self, t: int, d: int, bus_free: list[float]) -> float:
        """When tensor t is on device d; a transfer that this needs moves `bus_free`."""
        home = self.device[self.producer[t]]
        if home is None:
            return 0.0
        if d in self.arrival[t]:
            return self.arrival[t][d]
        end = max(bus_free[home], self.arrival[t][home]) + self.instance.transfer_time(t, home, (d,))
        bus_free[home] = end + self.instance.transfer_gap
        return end

    def _place(self, v: int, d: int) -> None:
        end = self._end(v, d)
        for t in self._reads(v):
            if self.device[self.producer[t]] is None:
                self._put(self.producer[t], d, 0.0)
            self.arrival[t][d] = self._receive(t, d, self.bus_free)
        self.device_free[d] = end + (self.instance.node_gap if self.work[v] > 0 else 0.0)
        self._put(v, d, end)

    def _put(self, v: int, d: int, end: float) -> None:
        self.device[v] = d
        for t in range(self.outputs[v], self.outputs[v + 1]):
            self.arrival[t][d] = end
