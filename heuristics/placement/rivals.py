"""Placers by rules: one device, random, an expert's, list scheduling, Baechi's and partitioners."""

from __future__ import annotations

import heapq
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy

from heuristics.method import Limits
from heuristics.placement.simulator import SimulatorArrays, penalised, penalised_times, workspace
from instances.compiled import compiled
from instances.errors import InputError, extra
from instances.graph.tensors import FloatArray, IntArray
from instances.graph.views import node_layers
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.system.processes import run_program

# Placements for comparison: one device, random ones, and an expert's rule.


#: Placements that are drawn and simulated at once.
_BATCH = 1000


def single(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """All nodes on one device: on which the penalised time is least, which is device 0 where all are equal."""
    rows = np.arange(1 if instance.is_symmetric else instance.devices)[:, None] * np.ones(
        instance.graph.n, dtype=np.int64
    )
    return Placement(instance, rows[penalised_times(instance, rows).argmin()])


def random_placements(instance: PlacementInstance, rng: np.random.Generator, count: int) -> IntArray:
    """(count, n) uniformly random placements."""
    return rng.integers(instance.devices, size=(count, instance.graph.n))


def best_random(
    instance: PlacementInstance, rng: np.random.Generator, limits: Limits | None = None, samples: int = 1000
) -> Placement:
    """The best of some random placements."""
    limits = limits or Limits()
    remaining, best, value = limits.allow(samples), None, np.inf
    while best is None or (remaining > 0 and not limits.reached(value * instance.total_work)):
        rows = random_placements(instance, rng, min(_BATCH, remaining))
        values = penalised_times(instance, rows)
        if best is None or values.min() < value:
            best, value = rows[values.argmin()], values.min()
        remaining -= len(rows)
    return Placement(instance, best)


def expert(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """Expert's rule: layer by layer.

    Where the graph has an attribute ``lane``, a number per node, nodes go to device ``lane`` mod k: recurrent layers,
    or branches of cells (see `instances.placement.networks`). Other graphs are cut into k stretches of layers of equal
    work.
    """
    graph, k = instance.graph, instance.devices
    if "lane" in graph.attributes:
        return Placement(instance, np.asarray(graph.attributes["lane"]) % k)
    order = np.argsort(node_layers(graph), kind="stable")
    before = np.cumsum(instance.work[order]) - instance.work[order] / 2
    device = np.empty(graph.n, dtype=np.int64)
    device[order] = np.minimum(k - 1, before * k // instance.work.sum())
    return Placement(instance, device)


# Placements by graph partitioners, which balance work and cut few bytes, whatever the order of the nodes.


#: Weights are whole numbers: the work of the whole graph in these units.
_RESOLUTION = 10**6
_SCOTCH = ("scotch_gpart", "gpart")


def metis(instance: PlacementInstance, rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """METIS: parts of equal work with few bytes between them.

    Raises
    ------
    InputError
        If the package pymetis is not installed.
    """
    try:
        import pymetis
    except ImportError:
        raise InputError(f"The method metis needs pymetis; install the extra: {extra('place')}") from None
    adjacency, work = _undirected(instance)
    if adjacency.nnz == 0 or instance.devices == 1:
        return Placement(instance, np.arange(instance.graph.n) % instance.devices)
    _, part = pymetis.part_graph(
        instance.devices,
        pymetis.CSRAdjacency(adjacency.indptr.tolist(), adjacency.indices.tolist()),
        vweights=work.tolist(),
        eweights=adjacency.data.tolist(),
        options=pymetis.Options(seed=int(rng.integers(2**31))),
    )
    return Placement(instance, np.array(part))


def scotch(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """Scotch's `gpart`, with the weights of `metis`.

    Raises
    ------
    InputError
        If the program is not on the path, or fails.
    """
    program = next(filter(None, map(shutil.which, _SCOTCH)), None)
    if program is None:
        raise InputError("The method scotch needs the program gpart; install Debian's package scotch.")
    adjacency, work = _undirected(instance)
    with tempfile.TemporaryDirectory() as folder:
        graph, parts = Path(folder, "graph.grf"), Path(folder, "parts.map")
        graph.write_text(_scotch_graph(adjacency, work), encoding="utf-8")
        done = run_program([program, str(instance.devices), str(graph), str(parts)])
        if done.code != 0 or not parts.exists():
            raise InputError(f"scotch: {program} failed: {done.text.strip() or done.code}.")
        _, *lines = parts.read_text(encoding="utf-8").splitlines()
    device = np.zeros(instance.graph.n, dtype=np.int64)
    for line in lines:
        v, part = line.split()
        device[int(v)] = int(part)
    return Placement(instance, device)


def _undirected(instance: PlacementInstance) -> tuple[scipy.sparse.csr_array, IntArray]:
    """Symmetric matrix of transfer times between nodes, and the works, in whole numbers of at least 1 and 0."""
    graph = instance.graph
    (u, v), n = graph.edges.T, graph.n
    time = instance.tensor_time[graph.edge_tensor]
    both = scipy.sparse.coo_array((np.tile(time, 2), (np.append(u, v), np.append(v, u))), shape=(n, n)).tocsr()
    unit = instance.total_work / _RESOLUTION
    both.data = np.maximum(1, _whole(both.data / unit))
    return both, _whole(instance.work / unit)


def _whole(values: FloatArray) -> IntArray:
    """Values rounded to integers, scaled so that their sum fits into 32 bits."""
    return np.round(values * min(1.0, 2**30 / max(1.0, values.sum()))).astype(np.int64)


def _scotch_graph(adjacency: scipy.sparse.csr_array, work: IntArray) -> str:
    """The graph in Scotch's format: loads of vertices and edges, vertices from 0."""
    rows = [f"0\n{adjacency.shape[0]} {adjacency.nnz}\n0 011"]
    for v, load in enumerate(work.tolist()):
        edges = range(adjacency.indptr[v], adjacency.indptr[v + 1])
        arcs = " ".join(f"{adjacency.data[e]} {adjacency.indices[e]}" for e in edges)
        rows.append(f"{max(1, load)} {len(edges)} {arcs}")
    return "\n".join(rows) + "\n"


# HEFT: nodes by their distance from the end, each where it ends first (Topcuoglu, Hariri, Wu, 2002).
#
# Transfers queue on the bus out of each device, as in the simulator. A source without work,
# such as weights, goes where its first reader goes. The original inserts nodes into gaps; here a device takes
# nodes in the order in which they are placed, as its queue does.


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
    rank = instance.work / instance.speeds.mean()
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
        self.work = instance.work.tolist()
        self.device: list[int | None] = [None] * graph.n
        self.arrivals: list[dict[int, float]] = [{} for _ in self.producer]  # of each tensor, by device
        self.device_free, self.bus_free = [0.0] * k, [0.0] * k

    def is_free(self, v: int) -> bool:
        """Whether node v is a source without work, which goes where its first reader goes."""
        return not self._reads(v) and self.work[v] == 0

    def arrival(self, v: int, d: int) -> float:
        """Time at which all inputs of v would be on device d [time unit of the graph]."""
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


# List scheduling by simulation: as HEFT, but what a device would do for a node is simulated, not estimated.
#
# HEFT puts transfers on a bus in the order in which it decides on them. The real order is that in which tensors are
# complete, and where weights are sent at the start the two differ much. Here a node is tried on each device with all
# nodes that are placed already, and the buses and devices serve them as they will.


def greedy(instance: PlacementInstance, _rng: np.random.Generator, limits: Limits | None = None) -> Placement:
    """Place nodes in HEFT's order, each where the nodes placed so far have the least penalised time.

    Among equals the device counts on which the node ends first. A source without work goes where its first reader
    goes. It takes a simulation per node and device; with fewer allowed, the last nodes go to device 0.
    """
    graph, k = instance.graph, instance.devices
    order = rank_order(instance)[: (limits or Limits()).allow(graph.n * k) // k]
    return Placement(instance, _place(SimulatorArrays.of(instance), order, *graph.predecessors))


@compiled
def _place(arrays: SimulatorArrays, order: IntArray, start: IntArray, before: IntArray) -> IntArray:
    space = workspace(arrays)
    device = np.full(len(arrays.work), -1)
    for v in order:
        if arrays.inputs[v] == 0 and arrays.work[v] == 0.0:
            continue
        reads = before[start[v] : start[v + 1]]
        joins = reads[device[reads] < 0]
        best, best_value, best_end = 0, np.inf, np.inf
        for d in range(arrays.devices):
            device[v] = d
            device[joins] = d
            value = penalised(arrays, device, space)
            if value < best_value or (value == best_value and space.end[v] < best_end):
                best, best_value, best_end = d, value, space.end[v]
        device[v] = best
        device[joins] = best
    return np.maximum(device, 0)


# m-TOPO, m-ETF and m-SCT (Jeon et al., Baechi: fast device placement of machine learning graphs, SoCC 2020).
#
# List scheduling in which each device has a memory: a node counts with what it holds and with what it makes, for good.
# Where no device has so much left, a node goes to the one with most. Written from the definitions in the paper; what is
# on the buses is as for `heft`, and a source without work, such as weights, goes where its first reader goes.
#
# - m-TOPO fills one device after the other in topological order, each up to an even share and the largest node.
# - m-ETF places, among all pairs of a ready node and a device, that which starts first.
# - m-SCT also lets a device wait for the favourite child of the node that it has run last. Meanwhile it only takes
#   nodes
#   that need not wait for anything there. A node has at most one favourite child, and is that of at most one; a
#   relaxation says which, by how much communication between them would delay the step.


#: Edges count as of a favourite child where the relaxation has less than this part of their communication.
_FAVOURITE = 0.1


def m_topo(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """m-TOPO: nodes in topological order on one device after the other."""
    sizes, free = _sizes(instance), instance.memories.copy()
    share = float(sizes.sum()) / instance.devices + float(sizes.max())
    free = np.minimum(free, share)
    device, d = np.empty(instance.graph.n, dtype=np.int64), 0
    for v in instance.graph.topological_order.tolist():
        while sizes[v] > free[d] and d + 1 < instance.devices:
            d += 1
        device[v] = d if sizes[v] <= free[d] else free.argmax()
        free[device[v]] -= sizes[v]
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
    work = instance.work / instance.speeds.max() / instance.total_work
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
    matrix = scipy.sparse.vstack((after, last, out, into))
    rows = scipy.optimize.LinearConstraint(matrix, -np.inf, -np.concatenate(limits))
    bounds = scipy.optimize.Bounds(0.0, np.append(ones, np.full(n + 1, np.inf)))
    relaxed = scipy.optimize.milp(goal, constraints=rows, bounds=bounds)  # none is whole
    favourite: dict[int, int] = {}
    favoured: set[int] = set()
    if relaxed.x is not None:
        for i in np.argsort(relaxed.x[:m], kind="stable").tolist():
            u, v = int(parent[i]), int(child[i])
            if relaxed.x[i] < _FAVOURITE and u not in favourite and v not in favoured:
                favourite[u] = v
                favoured.add(v)
    return favourite


def _matrix(rows: int, columns: int, *parts: tuple[IntArray, IntArray, FloatArray]) -> scipy.sparse.csr_array:
    """A sparse matrix from (row, column, value) arrays."""
    row, column, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return scipy.sparse.coo_array((value, (row, column)), shape=(rows, columns)).tocsr()


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
