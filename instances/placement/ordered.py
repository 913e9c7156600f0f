"""Placements with an order: each device runs its nodes, and each bus moves its transfers, in a given sequence.

- A node starts when its predecessor in the sequence of its device has ended and rested, and all tensors that it reads
  are on its device.
- A transfer starts when the node that makes its tensor has ended, and its predecessor in the sequence of the bus has
  ended and rested.
- Nothing overtakes. So times are longest paths in the graph of nodes and transfers, without events or ties.

Works, transfer times, rests and memory are those of `instances.placement.timeline`.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.placement.timeline import Timeline, Transfer

__all__ = ["Move", "OrderedPlacement"]

#: A transfer: a tensor, then the devices that it serves; one, or with `broadcast` all that read the tensor elsewhere.
Move = tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class OrderedPlacement(Placement):
    """One answer: a device for every node, and the sequences in which devices and buses do their work.

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
    >>> graph = ComputationGraph.from_edges([(0, 2), (1, 3)], work=[3, 1, 1, 6], output_bytes=[1, 1, 0, 0])
    >>> instance = PlacementInstance(graph, devices=2, bandwidth=1)
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
        """When each node runs and each transfer moves."""
        return _Sequences(self).timeline()


def _move(numbers: list[int]) -> Move:
    """Targets in ascending order."""
    first, *targets = numbers or (-1,)
    return (first, *sorted(targets))


def _required(placement: Placement) -> list[list[Move]]:
    """Transfers out of each device, tensor by tensor."""
    instance, places = placement.instance, placement.device.tolist()
    tensors, moves = instance.graph.tensors, [list[Move]() for _ in range(instance.devices)]
    for t, u in enumerate(tensors.producer.tolist()):
        readers = tensors.consumers[tensors.start[t] : tensors.start[t + 1]].tolist()
        targets = sorted({places[v] for v in readers} - {places[u]})
        served = [targets] if instance.broadcast and targets else [[target] for target in targets]
        moves[places[u]] += [(t, *group) for group in served]
    return moves


def _check_nodes(placement: OrderedPlacement) -> None:
    orders, names = placement.device_order, placement.instance.graph.names
    if len(orders) != placement.instance.devices:
        raise InputError(f"device_order has {len(orders)} sequences for {placement.instance.devices} devices.")
    for d, sequence in enumerate(orders):
        own = Counter(np.flatnonzero(placement.device == d).tolist())
        for v in Counter(sequence) - own:
            if not 0 <= v < len(names):
                raise InputError(f"device_order[{d}]: there is no node {v}; use 0 to {len(names) - 1}.")
            fault = "is there twice" if v in own else f"is on device {placement.device[v]}"
            raise InputError(f"device_order[{d}]: node {v} ({names[v]}) {fault}.")
        for v in own - Counter(sequence):
            raise InputError(f"device_order[{d}]: node {v} ({names[v]}) of this device is missing.")


def _check_moves(placement: OrderedPlacement) -> None:
    orders = placement.bus_order
    if len(orders) != placement.instance.devices:
        raise InputError(f"bus_order has {len(orders)} sequences for {placement.instance.devices} devices.")
    for d, (sequence, required) in enumerate(zip(orders, _required(placement), strict=True)):
        own = Counter(required)
        for move in Counter(sequence) - own:
            fault = "is there twice" if move in own else "is not a transfer that the devices require"
            raise InputError(f"bus_order[{d}]: {_said(move)} {fault}.")
        for move in own - Counter(sequence):
            raise InputError(f"bus_order[{d}]: {_said(move)} is missing.")


def _said(move: Move) -> str:
    return f"tensor {move[0]} to device {' and '.join(map(str, move[1:])) or '(none)'}"


class _Sequences:
    """The graph of nodes and transfers; operation i is node i, and after the nodes come the transfers."""

    def __init__(self, placement: OrderedPlacement) -> None:
        instance, places = placement.instance, placement.device.tolist()
        graph, n = instance.graph, instance.graph.n
        self.placement, self.instance, self.places = placement, instance, places
        self.moves = [(d, move) for d, sequence in enumerate(placement.bus_order) for move in sequence]
        carrier = {(t, target): n + i for i, (_, (t, *targets)) in enumerate(self.moves) for target in targets}
        producer, (first, read) = graph.tensors.producer.tolist(), graph.inputs
        # Operations that each operation waits for, and the one before it on its device or bus.
        self.awaits = [
            [carrier.get((t, places[v]), producer[t]) for t in read[first[v] : first[v + 1]].tolist()] for v in range(n)
        ]
        self.awaits += [[producer[t]] for _, (t, *_) in self.moves]
        self.before: list[int | None] = [None] * len(self.awaits)
        index = {key: n + i for i, key in enumerate(self.moves)}
        rows = [[index[d, move] for move in sequence] for d, sequence in enumerate(placement.bus_order)]
        for row in (*placement.device_order, *rows):
            for earlier, later in pairwise(row):
                self.before[later] = earlier

    def timeline(self) -> Timeline:
        n = self.instance.graph.n
        start, end = np.zeros(len(self.awaits)), np.zeros(len(self.awaits))
        free = np.zeros(len(self.awaits))  # when each operation has ended and its device or bus has rested
        order = self._order()
        for i in order:
            start[i] = max((end[j] for j in self.awaits[i]), default=0.0)
            before = self.before[i]
            if before is not None:
                start[i] = max(start[i], free[before])
            end[i], free[i] = self._ends(i, float(start[i]))
        ranked = sorted(order, key=lambda i: start[i])  # stable: what starts at one time stays in a possible order
        transfers = tuple(
            Transfer(move[0], d, move[1:], start=float(start[i]), end=float(end[i]))
            for i, (d, move) in ((i, self.moves[i - n]) for i in ranked if i >= n)
        )
        return Timeline(start[:n], end[:n], transfers, tuple(i for i in ranked if i < n))

    def _ends(self, i: int, start: float) -> tuple[float, float]:
        """When an operation ends, and when its device or bus can do the next one."""
        instance = self.instance
        if i >= instance.graph.n:
            d, (t, *targets) = self.moves[i - instance.graph.n]
            end = start + instance.transfer_time(t, d, targets)
            return end, end + instance.transfer_gap
        work = instance.node_time(i, self.places[i])
        return start + work, start + work + (instance.node_gap if work > 0 else 0.0)

    def _order(self) -> list[int]:
        """A topological order of the operations; an `InputError` if there is none."""
        needs = [
            [*waits, *([] if before is None else [before])]
            for waits, before in zip(self.awaits, self.before, strict=True)
        ]
        missing, after = [len(row) for row in needs], [list[int]() for _ in needs]
        for i, row in enumerate(needs):
            for j in row:
                after[j].append(i)
        order = [i for i, count in enumerate(missing) if count == 0]
        for j in order:  # grows
            for i in after[j]:
                missing[i] -= 1
                if missing[i] == 0:
                    order.append(i)
        if len(order) < len(needs):
            self._refuse(set(order))
        return order

    def _refuse(self, done: set[int]) -> None:
        """Name the first node that waits for ever, and what for."""
        names, producer = self.instance.graph.names, self.instance.graph.tensors.producer
        for d, sequence in enumerate(self.placement.device_order):
            for v in (v for v in sequence if v not in done):
                first, read = self.instance.graph.inputs
                tensors = read[first[v] : first[v + 1]].tolist()
                t = next(t for t, i in zip(tensors, self.awaits[v], strict=True) if i not in done)
                u = int(producer[t])
                raise InputError(
                    f"deadlock: node {v} ({names[v]}), next on device {d}, waits for ever for tensor {t} of node {u} "
                    f"({names[u]}) on device {self.places[u]}; the sequences cross, change one of them."
                )
