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
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError
from instances.graph.tensors import compressed_rows
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.placement.timeline import Timeline, Transfer

__all__ = ["Move", "OrderedPlacement"]

#: A transfer: a tensor, then the devices that it serves; one, or with `broadcast` all that read the tensor elsewhere.
Move = tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class OrderedPlacement(Placement):
    """Answer of placement with the sequences in which devices run their nodes and buses move their transfers.

    A plain `Placement` serves what is ready first; here what comes next in a sequence is waited for.

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
        """Run times of nodes and transfers."""
        return _Sequences(self).timeline()


def _move(numbers: list[int]) -> Move:
    """Convert a move of a file: a tensor, then its targets in ascending order."""
    first, *targets = numbers or (-1,)
    return (first, *sorted(targets))


def _required(placement: Placement) -> list[list[Move]]:
    """Transfers out of each device, tensor by tensor."""
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
        here = np.flatnonzero(placement.device == d).tolist()
        if sorted(sequence) == here:
            continue
        own = Counter(here)
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
        if len(sequence) == len(required) and set(sequence) == set(required):
            continue
        own = Counter(required)
        for move in Counter(sequence) - own:
            fault = "is there twice" if move in own else "is not a transfer that the devices require"
            raise InputError(f"bus_order[{d}]: {_said(move)} {fault}.")
        for move in own - Counter(sequence):
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
        """Name the first node that waits for ever, and what for."""
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
