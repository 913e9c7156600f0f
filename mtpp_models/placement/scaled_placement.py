"""Data of models of placements with an order, in multiples of a known step time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from instances.placement.placement import Move, OrderedPlacement
from instances.placement.problem import PlacementInstance
from mtpp_models.placement.bounds import Heads, Shared

# Rounding error of a step of time 1.
_ROUNDING = 1e-7
# Digits of a time that a solver means.
_DIGITS = 6


class Transfer(NamedTuple):
    """A possible transfer of a tensor to a device or, with `broadcast`, to the devices of all its readers."""

    tensor: int
    targets: tuple[int, ...]  # devices to which it may go
    readers: tuple[int, ...]  # nodes that may read it there


@dataclass(frozen=True, eq=False)
class ScaledPlacement:
    """Data for models of placements with an order; times are multiples of `unit`, the step time of `start`."""

    start: OrderedPlacement
    shared: Shared  # properties of all placements no worse than the start

    @property
    def heads(self) -> Heads:
        """Heads and tails in placements no worse than the start."""
        return self.shared.heads

    @property
    def instance(self) -> PlacementInstance:
        """The question."""
        return self.start.instance

    @property
    def unit(self) -> float:
        """Step time of the start, in the time unit of the work."""
        return self.start.step_time

    @property
    def nodes(self) -> range:
        """The nodes."""
        return range(self.instance.graph.n)

    @property
    def devices(self) -> range:
        """The devices; equal devices beyond the number of nodes are left out, as they stay idle."""
        k = self.instance.devices
        return range(min(k, self.instance.graph.n) if self.instance.is_symmetric else k)

    @cached_property
    def readers(self) -> list[list[int]]:
        """Readers of each tensor."""
        tensors = self.instance.graph.tensors
        return (
            [part.tolist() for part in np.split(tensors.consumers, tensors.start[1:-1])] if len(tensors.bytes) else []
        )

    @cached_property
    def producer(self) -> list[int]:
        """Producer of each tensor."""
        return self.instance.graph.tensors.producer.tolist()

    @cached_property
    def transfers(self) -> list[Transfer]:
        """All possible transfers, by target: one for each device or, with `broadcast`, one to any devices."""
        if len(self.devices) == 1:
            return []
        groups = [tuple(self.devices)] if self.instance.broadcast else [(d,) for d in self.devices]
        device = self.shared.device
        read = [t for t, of in enumerate(self.readers) if any(device[v] != device[self.producer[t]] for v in of)]
        return [Transfer(t, group, tuple(self.readers[t])) for t in read for group in groups]

    @cached_property
    def deliveries(self) -> list[Transfer]:
        """All possible transfers, by reader: one for each or, with `broadcast`, one for all readers of a tensor.

        Readers that must share a device need only one transfer, and readers on the producer's device none.
        """
        transfers, devices = list[Transfer](), tuple(self.devices)
        for t, readers in enumerate(self.readers):
            first = {self.anchor[v]: v for v in sorted(readers, key=self.through)}
            first.pop(self.anchor[self.producer[t]], None)
            groups = [tuple(first.values())] if self.instance.broadcast else [(v,) for v in first.values()]
            transfers += [Transfer(t, devices, group) for group in groups if group]
        return transfers

    def through(self, v: int) -> float:
        """Least time from the start of node v to the end of the step [unit]."""
        return self.least(v) + self.tail(v)

    @cached_property
    def anchor(self) -> list[int]:
        """For each node, the first of the nodes that must share a device with it."""
        first = dict(zip(self.shared.device[::-1].tolist(), reversed(self.nodes), strict=True))
        return [first[d] for d in self.shared.device.tolist()]

    @cached_property
    def anchors(self) -> list[int]:
        """One node of each set of nodes that must share a device, in the order of `rank`."""
        return list(dict.fromkeys(self.anchor[v] for v in self.rank))

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """Pairs of a node and one that reads from it."""
        return sorted(set(map(tuple, self.instance.graph.edges.tolist())))

    @cached_property
    def is_before(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """(n, n) whether a path leads from one node to another."""
        n = len(self.nodes)
        reached = np.zeros((n, n), dtype=np.bool_)
        start, after = self.instance.graph.successors
        for u in self.instance.graph.topological_order[::-1].tolist():
            for v in after[start[u] : start[u + 1]].tolist():
                reached[u] |= reached[v]
                reached[u, v] = True
        return reached

    @cached_property
    def loose_pairs(self) -> list[tuple[int, int]]:
        """Pairs of nodes that may run in either order."""
        return [(u, v) for u, v in combinations(self.nodes, 2) if not self.is_before[u, v] and not self.is_before[v, u]]

    @cached_property
    def windows(self) -> list[tuple[float, float]]:
        """Pairs (a, b) of a head and a tail: for each head a the b with the largest window bound [unit]."""
        best: dict[float, tuple[float, float]] = {}
        head, tail, least = (x / self.unit for x in (self.heads.head, self.heads.tail, self.heads.work))
        for a in np.unique(head).tolist():
            for b in np.unique(tail[head >= a]).tolist():
                value = a + b + float(least[(head >= a) & (tail >= b)].sum()) / self.heads.capacity
                best[a] = max(best.get(a, (0.0, 0.0)), (value, b))
        return [(a, b) for a, (_, b) in best.items()]

    @cached_property
    def together(self) -> list[tuple[int, int]]:
        """Pairs of nodes that must share a device: for each such set of nodes, its first node and each other one."""
        _, first = np.unique(self.shared.device, return_index=True)
        anchor = {int(self.shared.device[u]): int(u) for u in first}
        pairs = ((anchor[int(d)], v) for v, d in enumerate(self.shared.device))
        return [(u, v) for u, v in pairs if u != v]

    @cached_property
    def detours(self) -> list[tuple[int, int, float, float]]:
        """(u, v, P, L) of nodes u before v: least time between them [unit], and the same if their devices differ."""
        between, apart = (table / self.unit for table in self.shared.passes.forward[-2:])
        pairs = np.argwhere((between > -np.inf) & (apart > between) & (apart < np.inf)).tolist()
        return [(u, v, float(between[v, u]), min(float(apart[v, u]), 2.0)) for v, u in pairs]

    @cached_property
    def rank(self) -> list[int]:
        """Nodes by falling total work of the nodes that must share their device.

        Equal devices can be numbered such that the node at index i of this list is on one of the first i + 1.
        """
        total = np.bincount(self.shared.device, self.heads.work, len(self.nodes))[self.shared.device]
        return np.lexsort((np.arange(len(total)), self.shared.device, -total)).tolist()

    @cached_property
    def start_device(self) -> list[int]:
        """Device of each node in `start`; equal devices are renumbered in the order in which `rank` meets them."""
        place, names = self.start.device.tolist(), dict[int, int]()
        if not self.instance.is_symmetric:
            return place
        for v in self.rank:
            names.setdefault(place[v], len(names))
        return [names[d] for d in place]

    def slack_on_device(self, u: int, v: int) -> float:
        """Slack below a step time of 1 if u runs before v on one device [unit]; negative if that takes longer."""
        return 1 + _ROUNDING - self.head(u) - self.least(u) - self.rest(u) - self.least(v) - self.tail(v)

    def slack_on_bus(self, b: Transfer, c: Transfer) -> float:
        """Slack below a step time of 1 if transfer b precedes c on one bus [unit]; negative if that takes longer."""
        moving = min(self._times(b)) + self.bus_rest + min(self._times(c))
        return self.last_start(c) + _ROUNDING - self.first_end(b) - moving

    def is_settled(self, b: Transfer, c: Transfer) -> bool:
        """Whether the order of two transfers is fixed: one always ends before the other's tensor is complete."""
        return self.bus_rest == 0 and (self._arrives_before(b, c) or self._arrives_before(c, b))

    def _arrives_before(self, b: Transfer, c: Transfer) -> bool:
        """Whether each reader of transfer b is the producer of the tensor of transfer c, or comes before it."""
        u = self.producer[c.tensor]
        return all(v == u or self.is_before[v, u] for v in b.readers)

    def quickest(self, transfer: Transfer) -> float:
        """Least time of a transfer [unit]."""
        return min(self._times(transfer))

    def longest(self, transfer: Transfer) -> float:
        """Most time of a transfer [unit]."""
        return max(self._times(transfer))

    def _times(self, transfer: Transfer) -> list[float]:
        return [self.time(transfer.tensor, h, d) for h in self.devices for d in transfer.targets if d != h]

    def work(self, v: int, d: int) -> float:
        """Time of node v on device d [unit]."""
        return self.instance.node_time(v, d) / self.unit

    def rest(self, v: int) -> float:
        """Pause of a device after node v [unit]."""
        return float(self.instance.node_gap) / self.unit if self.instance.work[v] > 0 else 0.0

    @property
    def bus_rest(self) -> float:
        """Pause of a bus after a transfer [unit]."""
        return float(self.instance.transfer_gap) / self.unit

    def time(self, t: int, h: int, d: int) -> float:
        """Time of a transfer of tensor t out of device h to device d [unit]."""
        return self.instance.transfer_time(t, h, (d,)) / self.unit

    def head(self, v: int) -> float:
        """Earliest start of node v [unit]."""
        return float(self.heads.head[v]) / self.unit

    def tail(self, v: int) -> float:
        """Tail of node v: least time from its end to the end of the step [unit]."""
        return float(self.heads.tail[v]) / self.unit

    def least(self, v: int) -> float:
        """Time of node v on the fastest device [unit]."""
        return float(self.heads.work[v]) / self.unit

    def first_end(self, transfer: Transfer) -> float:
        """Earliest start of a transfer."""
        u = self.producer[transfer.tensor]
        return self.head(u) + self.least(u)

    def last_start(self, transfer: Transfer) -> float:
        """Latest end of a transfer that any reader needs."""
        return 1 - min(self.through(v) for v in transfer.readers)

    def placement(
        self, device: Mapping[int, int], starts: Mapping[int, float], sent: Mapping[Transfer, float]
    ) -> OrderedPlacement:
        """The placement with sequences by these start times, which may be rounded or tied.

        Of all nodes and transfers whose inputs are complete, the one with the earliest start comes next; among equal
        starts the shorter one.
        """
        places, producer = [device[v] for v in self.nodes], self.producer
        when = {v: (round(starts[v], _DIGITS), self.work(v, places[v])) for v in self.nodes}
        moves: dict[tuple[int, Move], tuple[float, float]] = {}
        carrier: dict[tuple[int, int], tuple[int, Move]] = {}
        for transfer, time in sent.items():
            t, home = transfer.tensor, places[producer[transfer.tensor]]
            served = sorted({places[v] for v in transfer.readers} & set(transfer.targets) - {home})
            move = (home, (t, *served))
            if served and move not in moves:
                takes = self.instance.transfer_time(t, home, served) / self.unit
                moves[move] = round(time, _DIGITS), takes
                carrier |= {(t, d): move for d in served}
        needs: dict[object, list[object]] = {v: [] for v in self.nodes}
        needs |= {move: [producer[move[1][0]]] for move in moves}
        for t, readers in enumerate(self.readers):
            for v in readers:
                needs[v].append(carrier.get((t, places[v]), producer[t]))
        times: dict[object, tuple[float, float]] = dict(moves.items())
        order = _by_time(needs, times | dict(when.items()))
        rows = [[v for v in order if isinstance(v, int) and places[v] == d] for d in range(self.instance.devices)]
        buses = [[move[1] for move in order if isinstance(move, tuple) and move[0] == d] for d in range(len(rows))]
        return OrderedPlacement(self.instance, places, rows, buses)


def _by_time(needs: Mapping[object, list[object]], time: Mapping[object, tuple[float, float]]) -> list[object]:
    """An order that respects `needs`, in which of all items that are ready the one with the least time comes next."""
    missing, order = {what: set(of) for what, of in needs.items()}, list[object]()
    while missing:
        ready: Iterable[object] = (what for what, of in missing.items() if not of)
        chosen = min(ready, key=lambda what: time[what])
        del missing[chosen]
        for of in missing.values():
            of.discard(chosen)
        order.append(chosen)
    return order
