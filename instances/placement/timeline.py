"""Definition of the time and the memory of a step under a placement, in plain and slow code.

- A node is ready when all tensors that it reads are on its device. A device runs one node at a time, first ready
  first served, among equals in the topological order of the graph, and rests `node_gap` after a node with work.
- When a node ends, its tensors are there for the nodes on its device. For each other device that reads a tensor, a
  transfer joins the queue of the bus out of its device: tensor by tensor, reader by reader. A bus moves one
  transfer at a time in that order, for bytes over bandwidth, and rests `transfer_gap` after it. A device receives
  any number of transfers at once.
- With `broadcast`, one transfer of a tensor serves all devices that read it.

In one instant, all that ends is handled before anything starts, transfers start before nodes, and of the nodes that
can start the one that has been ready longest, among equals the first in topological order. The step ends with its
last node.

A tensor takes memory on its producer's device from the start of the producer until the producer, its last reader
there and its last transfer have ended; on another device from the start of its transfer there until its last reader
there has ended. What is freed in an instant is there for what is allocated in it.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from instances.graph.tensors import FloatArray, IntArray
from instances.placement.problem import PlacementInstance

__all__ = ["Timeline", "Transfer", "peak_activations", "run"]

_NODE_ENDS, _TRANSFER_ENDS, _REST_ENDS = range(3)


class Transfer(NamedTuple):
    """A tensor on its way from one device to others, normally one."""

    tensor: int
    source: int
    targets: tuple[int, ...]
    start: float
    end: float


@dataclass(frozen=True, eq=False)
class Timeline:
    """Run times of nodes and transfers, from 0, in the time unit of the work."""

    start: FloatArray  # (n,): of each node
    end: FloatArray  # (n,): of each node
    transfers: tuple[Transfer, ...]  # in the order of their start
    sequence: tuple[int, ...]  # nodes in the order of their start


def run(instance: PlacementInstance, device: IntArray) -> Timeline:
    """Run one step with node v on ``device[v]``."""
    return _Step(instance, device).run()


def peak_activations(instance: PlacementInstance, device: IntArray, timeline: Timeline) -> FloatArray:
    """(k,) largest sum of the tensors on each device at one time [bytes]."""
    place, begin, end, size = _stays(instance, device, timeline)
    lasts = begin < end
    at, time, change = (
        np.concatenate((of_begin[lasts], of_end[lasts]))
        for of_begin, of_end in ((place, place), (begin, end), (size, -size))
    )
    by_time = np.lexsort((change, time))  # what is freed comes before what is allocated in the same instant
    at, change = at[by_time], change[by_time]
    return np.array([np.cumsum(change[at == d]).max(initial=0.0) for d in range(instance.devices)])


def _stays(
    instance: PlacementInstance, device: IntArray, timeline: Timeline
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Device, begin, end and bytes of each stay of a tensor on a device."""
    tensors, k = instance.graph.tensors, instance.devices
    readers, count = tensors.consumers, len(tensors.bytes)
    # Pairs of a tensor and a device that reads it, as ``t * k + d``, and when the last reader there has ended.
    keys, pair = np.unique(
        np.repeat(np.arange(count), np.diff(tensors.start)) * k + device[readers], return_inverse=True
    )
    last_read = np.zeros(len(keys))
    np.maximum.at(last_read, pair, timeline.end[readers])
    home, moves = device[tensors.producer], timeline.transfers
    until = timeline.end[tensors.producer].copy()
    at_home = keys % k == home[keys // k]
    until[keys[at_home] // k] = np.maximum(until[keys[at_home] // k], last_read[at_home])
    np.maximum.at(until, np.array([move.tensor for move in moves], dtype=np.int64), [move.end for move in moves])
    away = [(move.tensor * k + d, move.start) for move in moves for d in move.targets]
    moved, arrival = np.array([key for key, _ in away], dtype=np.int64), np.array([start for _, start in away])
    return (
        np.concatenate((home, moved % k)),
        np.concatenate((timeline.start[tensors.producer], arrival)),
        np.concatenate((until, last_read[np.searchsorted(keys, moved)])),
        np.concatenate((tensors.bytes, tensors.bytes[moved // k])),
    )


class _Step:
    """Simulation of a step: devices, buses and future events."""

    def __init__(self, instance: PlacementInstance, device: IntArray) -> None:
        graph, k = instance.graph, instance.devices
        self.instance, self.device = instance, device.tolist()
        self.order = graph.topological_order.tolist()
        self.rank = np.argsort(graph.topological_order).tolist()
        self.missing = np.diff(graph.inputs[0]).tolist()
        self.start, self.end = np.zeros(graph.n), np.zeros(graph.n)
        self.transfers: list[Transfer] = []
        self.sequence: list[int] = []
        self.waiting: list[list[tuple[float, int]]] = [[] for _ in range(k)]  # heaps of (ready, rank)
        self.queues: list[deque[tuple[int, tuple[int, ...]]]] = [deque() for _ in range(k)]  # (tensor, targets)
        self.device_free, self.bus_free = [0.0] * k, [0.0] * k
        self.events: list[tuple[float, int, int]] = []
        self.now = 0.0

    def run(self) -> Timeline:
        for v in np.flatnonzero(np.array(self.missing) == 0).tolist():
            heapq.heappush(self.waiting[self.device[v]], (0.0, self.rank[v]))
        while True:
            if self._end_one() or self._start_transfer() or self._start_node():
                continue
            if not self.events:
                return Timeline(self.start, self.end, tuple(self.transfers), tuple(self.sequence))
            self.now = self.events[0][0]

    def _end_one(self) -> bool:
        if not self.events or self.events[0][0] > self.now:
            return False
        _, kind, index = heapq.heappop(self.events)
        if kind == _NODE_ENDS:
            self._deliver(index)
        elif kind == _TRANSFER_ENDS:
            transfer = self.transfers[index]
            self._arrive(transfer.tensor, transfer.targets)
        return True

    def _deliver(self, u: int) -> None:
        """Hand the tensors of `u` to its device, and to the bus those that are read elsewhere."""
        first, home = self.instance.graph.output_start, self.device[u]
        for t in range(first[u], first[u + 1]):
            targets = tuple(dict.fromkeys(self.device[v] for v in self._readers(t) if self.device[v] != home))
            if self.instance.broadcast and targets:
                self.queues[home].append((t, targets))
            else:
                self.queues[home].extend((t, (target,)) for target in targets)
            self._arrive(t, (home,))

    def _arrive(self, t: int, places: tuple[int, ...]) -> None:
        for v in self._readers(t):
            if self.device[v] in places:
                self.missing[v] -= 1
                if self.missing[v] == 0:
                    heapq.heappush(self.waiting[self.device[v]], (self.now, self.rank[v]))

    def _start_transfer(self) -> bool:
        for source, queue in enumerate(self.queues):
            if queue and self.bus_free[source] <= self.now:
                t, targets = queue.popleft()
                end = self.now + self.instance.transfer_time(t, source, targets)
                self.bus_free[source] = end + self.instance.transfer_gap
                heapq.heappush(self.events, (end, _TRANSFER_ENDS, len(self.transfers)))
                heapq.heappush(self.events, (self.bus_free[source], _REST_ENDS, source))
                self.transfers.append(Transfer(t, source, targets, start=self.now, end=end))
                return True
        return False

    def _start_node(self) -> bool:
        heads = [(*heap[0], d) for d, heap in enumerate(self.waiting) if heap and self.device_free[d] <= self.now]
        if not heads:
            return False
        _, rank, d = min(heads)
        heapq.heappop(self.waiting[d])
        v = self.order[rank]
        self.sequence.append(v)
        work = self.instance.node_time(v, d)
        self.start[v], self.end[v] = self.now, self.now + work
        self.device_free[d] = self.now + work + (self.instance.node_gap if work > 0 else 0.0)
        heapq.heappush(self.events, (self.now + work, _NODE_ENDS, v))
        heapq.heappush(self.events, (self.device_free[d], _REST_ENDS, d))
        return True

    def _readers(self, t: int) -> list[int]:
        tensors = self.instance.graph.tensors
        return tensors.consumers[tensors.start[t] : tensors.start[t + 1]].tolist()
