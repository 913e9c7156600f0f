"""Placements, in any order or in sequences, their step times and files."""

from __future__ import annotations

import heapq
import operator
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError
from instances.graph.display import Displayed, Rows, figures
from instances.graph.tensors import FloatArray, IntArray, compressed_rows, freeze, sums_by
from instances.graph.views import parameters_by
from instances.placement.problem import OVERFLOW_WEIGHT, PlacementInstance, PlacementMembers
from instances.records import written

# Placements: their timeline, memory and step time, with first come, first served or orders of their own.


# Definition of the time and the memory of a step under a placement, in plain and slow code.
#
# - A node is ready when all tensors that it reads are on its device. A device runs one node at a time, first ready
#   first served, among equals in the topological order of the graph, and rests `node_gap` after a node with work.
# - When a node ends, its tensors are there for the nodes on its device. For each other device that reads a tensor, a
#   transfer joins the queue of the bus out of its device: tensor by tensor, reader by reader. A bus moves one
#   transfer at a time in that order, for bytes over bandwidth, and rests `transfer_gap` after it. A device receives
#   any number of transfers at once.
# - With `broadcast`, one transfer of a tensor serves all devices that read it.
#
# In one instant, all that ends is handled before anything starts, transfers start before nodes, and of the nodes that
# can start the one that has been ready longest, among equals the first in topological order. The step ends with its
# last node.
#
# A tensor takes memory on its producer's device from the start of the producer until the producer, its last reader
# there and its last transfer have ended; on another device from the start of its transfer there until its last reader
# there has ended. What is freed in an instant is there for what is allocated in it.


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
    """Four (s,) arrays of stays of a tensor on a device: device, begin and end [s], and bytes."""
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


# Answer of device placement: a device for every node, its step time and its peak memory.


@dataclass(frozen=True, eq=False, repr=False)
class Placement(Displayed):
    """Answer of placement: a device for every node; all costs are computed from `timeline`.

    Raises
    ------
    InputError
        If there is not one device per node, or a device does not exist.

    Examples
    --------
    >>> from instances import ComputationGraph
    >>> from instances.machines import Machines
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[6, 6, 0])
    >>> Placement(PlacementInstance(graph, Machines.alike(2, 3.0)), [0, 1, 0]).step_time
    13.0
    """

    instance: PlacementInstance
    device: IntArray  # (n,): device of each node, 0 to `devices` - 1; devices may be idle

    def __init__(self, instance: PlacementInstance, device: ArrayLike) -> None:
        try:
            places = np.array([operator.index(d) for d in np.asarray(device).tolist()], dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            raise InputError("The devices of a placement must be a plain list of whole numbers.") from None
        n, k = instance.graph.n, instance.devices
        if len(places) != n:
            raise InputError(f"There are {n} nodes but {len(places)} devices in the placement; give one per node.")
        for v in np.flatnonzero((places < 0) | (places >= k))[:1]:
            raise InputError(f"Node {v} ({instance.graph.names[v]}) is on device {places[v]}; use 0 to {k - 1}.")
        freeze(places)
        object.__setattr__(self, "instance", instance)
        object.__setattr__(self, "device", places)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        freeze(self.device)  # pickling forgets it

    @cached_property
    def timeline(self) -> Timeline:
        """Start and end of each node and transfer, in the time unit of the graph."""
        return run(self.instance, self.device)

    @property
    def step_time(self) -> float:
        """Time from the start of the first node to the end of the last one [time unit of the graph]."""
        return float(self.timeline.end.max())

    @property
    def cost(self) -> float:
        """The step time [time unit of the graph]."""
        return self.step_time

    @property
    def preference(self) -> tuple[bool, float]:
        """The smaller the better: whether it does not fit, then the step time."""
        return not self.fits, self.step_time

    @property
    def relative_time(self) -> float:
        """Step time over the time of all nodes on one device without gaps."""
        return self.step_time / self.instance.total_work

    @cached_property
    def param_bytes(self) -> FloatArray:
        """(k,) parameters on each device [bytes]; a shared one counts once on each device that uses it."""
        return parameters_by(self.instance.graph, self.device, self.instance.devices)

    @cached_property
    def state_bytes(self) -> FloatArray:
        """(k,) what the nodes on each device keep from step to step [bytes]."""
        return sums_by(self.device, self.instance.graph.state_bytes, self.instance.devices)

    @cached_property
    def peak_memory(self) -> FloatArray:
        """(k,) largest memory in use on each device, parameters and states included [bytes]."""
        return self.param_bytes + self.state_bytes + peak_activations(self.instance, self.device, self.timeline)

    @property
    def fits(self) -> bool:
        """Whether no device needs more than its memory."""
        return bool((self.peak_memory <= self.instance.memories).all())

    @property
    def penalised_time(self) -> float:
        """Objective of searches: relative time + `OVERFLOW_WEIGHT` · Σ_d max(0, peak_d / memory_d − 1)."""
        if np.isinf(self.instance.memories).all():
            return self.relative_time
        overflow = np.maximum(0.0, self.peak_memory / self.instance.memories - 1)
        return self.relative_time + OVERFLOW_WEIGHT * float(overflow.sum())

    def _title(self) -> str:
        return self.instance.graph.name

    def _facts(self) -> dict[str, str]:
        return {
            "devices": str(self.instance.devices),
            "step time": figures(self.step_time, self.instance.graph.time_unit),
            "relative time": figures(self.relative_time),
            "fits": "yes" if self.fits else "no",
        }

    def _rows(self) -> Rows:
        k, unit = self.instance.devices, self.instance.graph.time_unit
        nodes = np.bincount(self.device, minlength=k).tolist()
        work = np.bincount(self.device, self.instance.work, k)
        columns = np.column_stack((work, self.peak_memory)).tolist()
        rows = [[str(d), str(nodes[d]), *map(figures, row)] for d, row in enumerate(columns)]
        return ["device", "nodes", f"work [{unit}]", "peak memory [bytes]"], rows


# Placements with an order: each device runs its nodes, and each bus moves its transfers, in a given sequence.
#
# - A node starts when its predecessor in the sequence of its device has ended and rested, and all tensors that it reads
#   are on its device.
# - A transfer starts when the node that makes its tensor has ended, and its predecessor in the sequence of the bus has
#   ended and rested.
# - Nothing overtakes. So times are longest paths in the graph of nodes and transfers, without events or ties.
#
# Works, transfer times, rests and memory are as in the definition of plain placements above.


#: A transfer: a tensor, then the devices that it serves; one, or with `broadcast` all that read the tensor elsewhere.
Move = tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class OrderedPlacement(Placement):
    """Answer of placement with the sequences in which devices run their nodes and buses move their transfers.

    In a plain `Placement`, devices and buses take first what is ready first; here they wait for the next item of their
    sequence.

    Parameters
    ----------
    instance : PlacementInstance
    device : (n,) integers
        Device of each node.
    device_order : k sequences of integers
        The nodes of each device.
    bus_order : k sequences of moves
        Out of each device, the transfers that the devices of the nodes require, each as ``(tensor, target)``. With
        `broadcast` it is ``(tensor, target, target, …)`` with all devices that read the tensor elsewhere.

    Raises
    ------
    InputError
        If `device` is refused by `Placement`, a sequence lacks a node or transfer or has one that does not belong
        there, or sequences cross so that devices wait for each other for ever.

    Examples
    --------
    >>> from instances import ComputationGraph
    >>> from instances.machines import Machines
    >>> graph = ComputationGraph.from_edges([(0, 2), (1, 3)], work=[3, 1, 1, 6], output_bytes=[1, 1, 0, 0])
    >>> instance = PlacementInstance(graph, Machines.alike(2, 1.0))
    >>> Placement(instance, [0, 0, 1, 1]).step_time
    11.0
    >>> OrderedPlacement(instance, [0, 0, 1, 1], [[1, 0], [3, 2]], [[(1, 1), (0, 1)], []]).step_time
    9.0
    """

    device_order: tuple[tuple[int, ...], ...]
    bus_order: tuple[tuple[Move, ...], ...]

    def __init__(
        self,
        instance: PlacementInstance,
        device: ArrayLike,
        device_order: Sequence[Iterable[int]],
        bus_order: Sequence[Iterable[Iterable[int]]],
    ) -> None:
        super().__init__(instance, device)
        try:
            nodes = tuple(tuple(operator.index(v) for v in sequence) for sequence in device_order)
            moves = tuple(tuple(_move([operator.index(x) for x in move]) for move in bus) for bus in bus_order)
        except TypeError:
            raise InputError("The sequences of a placement must be lists of whole numbers, one per device.") from None
        object.__setattr__(self, "device_order", nodes)
        object.__setattr__(self, "bus_order", moves)
        _check_nodes(self)
        _check_moves(self)
        _ = self.timeline  # refuses sequences that cross

    @classmethod
    def of(cls, placement: Placement) -> OrderedPlacement:
        """The order in which a placement runs, as sequences: with the same times and peaks."""
        places, timeline = placement.device.tolist(), placement.timeline
        nodes: list[list[int]] = [[] for _ in range(placement.instance.devices)]
        moves: list[list[Move]] = [[] for _ in nodes]
        for v in timeline.sequence:
            nodes[places[v]].append(v)
        for transfer in timeline.transfers:
            moves[transfer.source].append((transfer.tensor, *transfer.targets))
        return cls(placement.instance, placement.device, nodes, moves)

    @cached_property
    def timeline(self) -> Timeline:
        """Start and end of each node and transfer, in the time unit of the graph."""
        return _Sequences(self).timeline()


def _move(numbers: list[int]) -> Move:
    """Convert a move of a file: a tensor, then its targets in ascending order."""
    first, *targets = numbers or (-1,)
    return (first, *sorted(targets))


def _required(placement: Placement) -> list[list[Move]]:
    """For each device, the transfers out of it that readers need, by tensor; one per tensor if buses broadcast."""
    k, tensors, device = placement.instance.devices, placement.instance.graph.tensors, placement.device
    tensor, target = np.repeat(np.arange(len(tensors.bytes)), np.diff(tensors.start)), device[tensors.consumers]
    home = device[tensors.producer]
    away = target != home[tensor]
    pairs = np.stack(np.divmod(np.unique(tensor[away] * k + target[away]), k), axis=1).tolist()
    sources, moves = home.tolist(), [list[Move]() for _ in range(k)]
    if placement.instance.broadcast:
        groups = ((t, [d for _, d in of]) for t, of in groupby(pairs, operator.itemgetter(0)))
    else:
        groups = ((t, [d]) for t, d in pairs)
    for t, targets in groups:
        moves[sources[t]].append((t, *targets))
    return moves


def _check_nodes(placement: OrderedPlacement) -> None:
    orders, names = placement.device_order, placement.instance.graph.names
    if len(orders) != placement.instance.devices:
        raise InputError(f"device_order has {len(orders)} sequences for {placement.instance.devices} devices.")
    for d, sequence in enumerate(orders):
        nodes = np.flatnonzero(placement.device == d).tolist()
        if sorted(sequence) == nodes:
            continue
        required = Counter(nodes)
        for v in Counter(sequence) - required:
            if not 0 <= v < len(names):
                raise InputError(f"device_order[{d}]: there is no node {v}; use 0 to {len(names) - 1}.")
            fault = "is there twice" if v in required else f"is on device {placement.device[v]}"
            raise InputError(f"device_order[{d}]: node {v} ({names[v]}) {fault}.")
        for v in required - Counter(sequence):
            raise InputError(f"device_order[{d}]: node {v} ({names[v]}) of this device is missing.")


def _check_moves(placement: OrderedPlacement) -> None:
    orders = placement.bus_order
    if len(orders) != placement.instance.devices:
        raise InputError(f"bus_order has {len(orders)} sequences for {placement.instance.devices} devices.")
    for d, (sequence, required) in enumerate(zip(orders, _required(placement), strict=True)):
        if len(sequence) == len(required) and set(sequence) == set(required):
            continue
        required_counts = Counter(required)
        for move in Counter(sequence) - required_counts:
            fault = "is there twice" if move in required_counts else "is not a transfer that the devices require"
            raise InputError(f"bus_order[{d}]: {_said(move)} {fault}.")
        for move in required_counts - Counter(sequence):
            raise InputError(f"bus_order[{d}]: {_said(move)} is missing.")


def _said(move: Move) -> str:
    return f"tensor {move[0]} to device {' and '.join(map(str, move[1:])) or '(none)'}"


class _Sequences:
    """Precedence graph of operations: operation i is node i; after the nodes come the transfers, bus by bus."""

    def __init__(self, placement: OrderedPlacement) -> None:
        instance, k, n = placement.instance, placement.instance.devices, placement.instance.graph.n
        self.placement, self.instance, self.places = placement, instance, placement.device.tolist()
        self.moves = [move for sequence in placement.bus_order for move in sequence]
        self.source = np.repeat(np.arange(k), [len(sequence) for sequence in placement.bus_order]).tolist()
        carrier = {t * k + target: n + i for i, (t, *targets) in enumerate(self.moves) for target in targets}
        producer, (first, read) = instance.graph.tensors.producer.tolist(), instance.graph.inputs
        wanted = (read * k + np.repeat(placement.device, np.diff(first))).tolist()
        # Operation i waits for ``awaits[first[i] : first[i + 1]]``, and for the one before it on its device or bus.
        self.awaits = [carrier.get(key, producer[key // k]) for key in wanted] + [producer[t] for t, *_ in self.moves]
        self.first = first.tolist() + list(range(len(wanted) + 1, len(self.awaits) + 1))
        self.before = [-1] * (n + len(self.moves))
        for row in placement.device_order:
            for earlier, later in pairwise(row):
                self.before[later] = earlier
        for i, (earlier, later) in enumerate(pairwise(self.source), n):
            if earlier == later:
                self.before[i + 1] = i

    def timeline(self) -> Timeline:
        n, first = self.instance.graph.n, self.first
        start, end = ([0.0] * len(self.before) for _ in range(2))
        free = start.copy()  # when each operation has ended and its device or bus has rested
        order = self._order()
        for i in order:
            begin = 0.0 if self.before[i] < 0 else free[self.before[i]]
            for j in self.awaits[first[i] : first[i + 1]]:
                begin = max(begin, end[j])
            start[i] = begin
            end[i], free[i] = self._ends(i, begin)
        ranked = sorted(order, key=start.__getitem__)  # stable: what starts at one time stays in a possible order
        transfers = tuple(
            Transfer(self.moves[i - n][0], self.source[i - n], self.moves[i - n][1:], start[i], end[i])
            for i in ranked
            if i >= n
        )
        return Timeline(np.array(start[:n]), np.array(end[:n]), transfers, tuple(i for i in ranked if i < n))

    def _ends(self, i: int, start: float) -> tuple[float, float]:
        """End of an operation, and the earliest start of the next one on its device or bus."""
        instance, n = self.instance, self.instance.graph.n
        if i >= n:
            t, *targets = self.moves[i - n]
            end = start + instance.transfer_time(t, self.source[i - n], targets)
            return end, end + instance.transfer_gap
        work = instance.node_time(i, self.places[i])
        return start + work, start + work + (instance.node_gap if work > 0 else 0.0)

    def _order(self) -> list[int]:
        """A topological order of the operations; an `InputError` if there is none."""
        size, before = len(self.before), np.array(self.before)
        earlier = np.concatenate((np.array(self.awaits, dtype=np.int64), before[before >= 0]))
        later = np.concatenate((np.repeat(np.arange(size), np.diff(self.first)), np.flatnonzero(before >= 0)))
        missing, by_later = np.bincount(later, minlength=size).tolist(), np.argsort(later, kind="stable")
        rows, after = (part.tolist() for part in compressed_rows(earlier[by_later], later[by_later], size))
        order = [i for i, count in enumerate(missing) if count == 0]
        for j in order:  # grows
            for i in after[rows[j] : rows[j + 1]]:
                missing[i] -= 1
                if missing[i] == 0:
                    order.append(i)
        if len(order) < size:
            self._refuse(set(order))
        return order

    def _refuse(self, done: set[int]) -> None:
        """Raise an `InputError` that names the first node that waits for ever, and the tensor it waits for."""
        names, producer = self.instance.graph.names, self.instance.graph.tensors.producer
        for d, sequence in enumerate(self.placement.device_order):
            for v in (v for v in sequence if v not in done):
                first, read = self.instance.graph.inputs
                awaited = slice(first[v], first[v + 1])
                t = next(t for t, i in zip(read[awaited], self.awaits[awaited], strict=True) if i not in done)
                u = int(producer[t])
                raise InputError(
                    f"deadlock: node {v} ({names[v]}), next on device {d}, waits for ever for tensor {t} of node {u} "
                    f"({names[u]}) on device {self.places[u]}; the sequences cross, change one of them."
                )


# Placements as JSON.


def placement_document(placement: Placement) -> dict[str, Any]:
    """The placement as the member `answer` of its file; one without an order serves first come, first served."""
    instance = placement.instance
    nodes: list[list[str]] = [[] for _ in range(instance.devices)]
    for name, d in zip(instance.graph.names, placement.device.tolist(), strict=True):
        nodes[d].append(name)
    ordered = placement if isinstance(placement, OrderedPlacement) else None
    members = PlacementMembers(
        device=tuple(placement.device.tolist()),
        sequence=tuple(placement.timeline.sequence),
        peak_memory=tuple(placement.peak_memory.tolist()),
        nodes=tuple(map(tuple, nodes)),
        device_order=None if ordered is None else ordered.device_order,
        bus_order=None if ordered is None else ordered.bus_order,
    )
    return written(members)
