"""m-TOPO, m-ETF and m-SCT (Jeon et al., Baechi: fast device placement of machine learning graphs, SoCC 2020).

List scheduling in which each device has a memory: a node counts with what it holds and with what it makes, for good.
Where no device has so much left, a node goes to the one with most. Written from the definitions in the paper; what is
on the buses is as for `heft`, and a source without work, such as weights, goes where its first reader goes.

- m-TOPO fills one device after the other in topological order, each up to an even share and the largest node.
- m-ETF places, among all pairs of a ready node and a device, that which starts first.
- m-SCT also lets a device wait for the favourite child of the node that it has run last. Meanwhile it only takes nodes
  that need not wait for anything there. A node has at most one favourite child, and is that of at most one; a
  relaxation says which, by how much communication between them would delay the step.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, vstack

from heuristics.limits import Limits
from heuristics.placement.heft import ListSchedule
from instances.graph.tensors import FloatArray, IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

__all__ = ["favourite_children", "m_etf", "m_sct", "m_topo"]

#: Edges count as of a favourite child where the relaxation has less than this part of their communication.
_FAVOURITE = 0.1


def m_topo(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """m-TOPO: nodes in topological order on one device after the other."""
    sizes, left = _sizes(instance), instance.memories.copy()
    share = float(sizes.sum()) / instance.devices + float(sizes.max())
    left = np.minimum(left, share)
    device, d = np.empty(instance.graph.n, dtype=np.int64), 0
    for v in instance.graph.topological_order.tolist():
        while sizes[v] > left[d] and d + 1 < instance.devices:
            d += 1
        device[v] = d if sizes[v] <= left[d] else left.argmax()
        left[device[v]] -= sizes[v]
    return Placement(instance, device)


def m_etf(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """m-ETF: always the node and the device with the earliest start."""
    return _EarliestStart(instance, {}).placement()


def m_sct(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """m-SCT: as m-ETF, but favourite children follow their parents on the same device."""
    return _EarliestStart(instance, favourite_children(instance)).placement()


def favourite_children(instance: PlacementInstance) -> dict[int, int]:
    """The favourite child of each node that has one, by the relaxation of Hanen and Munier (1995).

    Each edge has a variable, from 0 if the child is the favourite one to 1. The step is as short as possible if
    communication along an edge takes this part of its time, and of the edges out of each node, and into each, all but
    one have 1.
    """
    graph, n = instance.graph, instance.graph.n
    edges, first = np.unique(graph.edges, axis=0, return_inverse=True)
    (parent, child), m = edges.T, len(edges)
    if m == 0:
        return {}
    work = graph.work / instance.speeds.max() / instance.total_work
    time = np.bincount(first.ravel(), instance.tensor_time[graph.edge_tensor], m) / instance.total_work
    e, ones = np.arange(m), np.ones(m)
    # Columns: an edge each, the start of each node, and the end of the step. Rows: each child starts after its parent
    # and what it is sent; each node ends before the step; all edges out of a node, and into it, but one have 1.
    after = _matrix(m, m + n + 1, (e, e, time), (e, m + parent, ones), (e, m + child, -ones))
    nodes = np.arange(n)
    last = _matrix(n, m + n + 1, (nodes, m + nodes, np.ones(n)), (nodes, np.full(n, m + n), -np.ones(n)))
    out, into = _matrix(n, m + n + 1, (parent, e, -ones)), _matrix(n, m + n + 1, (child, e, -ones))
    limits = [work[parent], work, *(np.bincount(ends, minlength=n) - 1.0 for ends in (parent, child))]
    goal = np.zeros(m + n + 1)
    goal[-1] = 1.0
    rows = LinearConstraint(vstack((after, last, out, into)), -np.inf, -np.concatenate(limits))
    found = milp(goal, constraints=rows, bounds=Bounds(0.0, np.append(ones, np.full(n + 1, np.inf))))  # none is whole
    favourite: dict[int, int] = {}
    taken: set[int] = set()
    if found.x is not None:
        for i in np.argsort(found.x[:m], kind="stable").tolist():
            u, v = int(parent[i]), int(child[i])
            if found.x[i] < _FAVOURITE and u not in favourite and v not in taken:
                favourite[u] = v
                taken.add(v)
    return favourite


def _matrix(rows: int, columns: int, *parts: tuple[IntArray, IntArray, FloatArray]) -> csr_array:
    """A sparse matrix from (row, column, value) arrays."""
    row, column, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return coo_array((value, (row, column)), shape=(rows, columns)).tocsr()


def _sizes(instance: PlacementInstance) -> FloatArray:
    """(n,) bytes that each node holds and makes."""
    graph = instance.graph
    return graph.held_bytes + np.bincount(graph.tensors.producer, graph.tensors.bytes, graph.n)


class _EarliestStart:
    """Pairs of ready nodes and devices in a heap by when the node could start there.

    Devices and buses only get busier, so that a start that is still right when it leaves the heap is the earliest.
    """

    def __init__(self, instance: PlacementInstance, favourite: Mapping[int, int]) -> None:
        graph = instance.graph
        self.instance, self.favourite = instance, favourite
        self.schedule, self.sizes, self.left = ListSchedule(instance), _sizes(instance), instance.memories.copy()
        self.rank = np.argsort(graph.topological_order).tolist()
        self.missing = [0] * graph.n
        self.heap: list[tuple[float, int, int, int]] = []
        self.aside: list[tuple[float, int, int, int]] = []  # pairs whose devices wait for a favourite child
        self.awaited: list[int | None] = [None] * instance.devices
        self.placed = [False] * graph.n

    def placement(self) -> Placement:
        """Place all nodes."""
        graph, schedule = self.instance.graph, self.schedule
        start, successor = graph.successors
        children = [set(successor[start[v] : start[v + 1]].tolist()) for v in range(graph.n)]
        for row in children:
            for v in row:
                self.missing[v] += 1
        done = [v for v in graph.topological_order.tolist() if schedule.is_free(v)]
        for v in graph.topological_order.tolist():
            if self.missing[v] == 0 and not schedule.is_free(v):
                self._push(v)
        while done or self.heap or self.aside:
            for v in done:
                for child in children[v]:
                    self.missing[child] -= 1
                    if self.missing[child] == 0:
                        self._push(child)
            done = self._place_one()
        return schedule.placement()

    def _push(self, v: int) -> None:
        roomy = [d for d in range(self.instance.devices) if self.sizes[v] <= self.left[d]]
        for d in roomy or [int(self.left.argmax())]:
            heapq.heappush(self.heap, (self.schedule.span(v, d)[0], self.rank[v], v, d))

    def _place_one(self) -> list[int]:
        """Try to place the node of the first pair; return it in a list, which is empty if it was not placed."""
        if not self.heap:  # whoever waits for a favourite child waits no longer
            self.heap, self.aside, self.awaited = self.aside, [], [None] * self.instance.devices
            heapq.heapify(self.heap)
        if not self.heap:
            return []
        start, rank, v, d = heapq.heappop(self.heap)
        if self.placed[v]:
            return []
        if self.sizes[v] > self.left[d] and any(self.sizes[v] <= self.left):
            if not any(pair[2] == v for pair in (*self.heap, *self.aside)):
                self._push(v)
            return []
        arrival, free = self.schedule.arrival(v, d), self.schedule.device_free[d]
        if max(arrival, free) > start:
            heapq.heappush(self.heap, (max(arrival, free), rank, v, d))
            return []
        if self.awaited[d] not in (None, v) and arrival > free:
            self.aside.append((start, rank, v, d))
            return []
        self.schedule.place(v, d)
        self.placed[v] = True
        self.left[d] -= self.sizes[v]
        free_again = [e for e, awaited in enumerate(self.awaited) if awaited == v or e == d]
        for e in free_again:
            self.awaited[e] = None
        child = self.favourite.get(v)
        if child is not None and not self.placed[child]:
            self.awaited[d] = child
        for pair in (pair for pair in self.aside if pair[3] in free_again):
            heapq.heappush(self.heap, pair)
        self.aside = [pair for pair in self.aside if pair[3] not in free_again]
        return [v]
