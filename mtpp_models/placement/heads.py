r"""Heads and tails: earliest start of a node and least time after it, on any device and in any order.

For nodes u before v let :math:`P(u, v)` be the most work on a path between them, and :math:`L(u, v)` what passes at
least from the end of u to the start of v if they are on different devices. Node p, the last before v on a path, is on
the device of v, and so not on that of u, or it is not, and sends v what v reads, one tensor after the other:

.. math::

    L(u, v) = \max_p \min(L(u, p) + w_p, \; P(u, p) + w_p + c(p, v)), \quad L(u, v) \ge c(u, v).

Let :math:`K(u) = e_u + w_u + L(u, v)`: v starts no earlier if u is on another device. If :math:`S` are the nodes
before v on its device, then v starts no earlier than :math:`C(S)`, when one machine is through with them, released at
their heads, and no earlier than the largest K of the others. With K in falling order, the best S is a prefix:

.. math::

    e_v = \max\Big(\max_p (e_p + w_p), \; \min_i \max(C(u_1, …, u_i), K(u_{i+1}))\Big).

Moreover, all nodes before v that start at a or later take the devices together at least their work, so that
:math:`e_v \ge a + W / k`. Tails are the same on reversed edges. The bound is :math:`\max_v (e_v + w_v + q_v)`.

A device rests after a node with work before it runs the next one. In :math:`C(S)` the rests count: before v each node
of S has one. After v the last one of S need not, but v has one if it has work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from instances import Bound
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray, compressed_rows
from instances.placement.problem import PlacementInstance

__all__ = [
    "HEADS",
    "MOST_NODES",
    "ROUNDING",
    "Heads",
    "Passes",
    "Way",
    "heads_bound",
    "heads_of",
    "own_devices",
    "pass_over",
]

HEADS = "heads"

#: With more nodes, P and L take more than a quarter of a gigabyte.
MOST_NODES = 4000

#: Largest relative error of a head, a tail or a bound by rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Heads:
    """Earliest starts of nodes and least times after them, rounded down, in the time unit of the work."""

    instance: PlacementInstance
    work: FloatArray  # (n,) least time of each node
    head: FloatArray  # (n,) no node starts earlier
    tail: FloatArray  # (n,) no step ends earlier after the end of a node
    capacity: float  # work of all devices at a time, in devices as fast as the fastest

    @property
    def witness(self) -> dict[str, list[float]]:
        """Heads and tails as lists, for a certificate."""
        return {"heads": self.head.tolist(), "tails": self.tail.tolist()}


def heads_bound(heads: Heads) -> Bound:
    """The longest time that a node takes together with what is before and after it."""
    through = heads.head + heads.work + heads.tail
    v = int(through.argmax())
    return Bound(float(through[v]) * (1 - ROUNDING), HEADS, False, {**heads.witness, "nodes": [v]})


def heads_of(instance: PlacementInstance) -> Heads:
    """Heads and tails of all nodes; memory is two numbers for each pair of nodes (see `MOST_NODES`).

    Works count at the fastest device, transfers over the fastest link, and all devices as much as their speeds.
    """
    n, passes = instance.graph.n, Passes.of(instance)
    head, tail, device = np.zeros(n), np.zeros(n), own_devices(instance)
    for way, found in zip((passes.forward, passes.backward), (head, tail), strict=True):
        pass_over(passes, way.with_tables(), found, np.zeros(n), device, np.inf)
    head, tail = head * (1 - ROUNDING), tail * (1 - ROUNDING)
    return Heads(instance=instance, work=passes.work, head=head, tail=tail, capacity=passes.capacity)


def own_devices(instance: PlacementInstance) -> IntArray:
    """(n,) a number for each node, which need not share a device with another one; where there is one device, 0."""
    return np.arange(instance.graph.n) if instance.devices > 1 else np.zeros(instance.graph.n, dtype=np.int64)


class Way(NamedTuple):
    """A direction of time: edges as they are, or reversed."""

    order: IntArray  # (n,) nodes in their order
    start: IntArray  # (n + 1,) the nodes before v are ``before[start[v]:start[v + 1]]``
    before: IntArray
    time: FloatArray  # so much later v has what it reads from each of them, if on another device
    lost: float  # the rest that the last node before v on its device need not take
    between: FloatArray = np.zeros((0, 0))  # (n, n) P, by v and u
    apart: FloatArray = np.zeros((0, 0))  # (n, n) L, by v and u

    def with_tables(self) -> Way:
        """Add tables for P and L."""
        n = len(self.order)
        return self._replace(between=np.full((n, n), -np.inf), apart=np.full((n, n), -np.inf))


class Passes(NamedTuple):
    """Data for passes over the nodes, in both directions."""

    work: FloatArray  # (n,) least time of each node
    rest: FloatArray  # (n,) how long a device rests after it
    capacity: float
    forward: Way
    backward: Way

    @classmethod
    def of(cls, instance: PlacementInstance) -> Passes:
        """Passes of a question."""
        n, gap, order = instance.graph.n, float(instance.node_gap), instance.graph.topological_order
        edges, time = _edges(instance)
        ways = []
        for (u, v), places, lost in ((edges, order, 0.0), (edges[::-1], order[::-1].copy(), gap)):
            start, by_reader = compressed_rows(v, np.arange(len(v)), n)
            ways.append(Way(places, start, u[by_reader], time[by_reader], lost))
        fastest = instance.speeds.max()
        work = instance.graph.work / fastest
        return cls(work, np.where(work > 0, gap, 0.0), float(instance.speeds.sum() / fastest), *ways)


def _edges(instance: PlacementInstance) -> tuple[IntArray, FloatArray]:
    """(2, m) pairs of nodes, and (m,) the time from the end of the first to the second on another device.

    A bus moves the tensors of a pair one after the other and rests between them.
    """
    graph = instance.graph
    pairs, first = np.unique(graph.edges, axis=0, return_inverse=True)
    time = instance.tensor_time[graph.edge_tensor] + instance.transfer_gap
    total: FloatArray = np.bincount(first.ravel(), time, len(pairs)).astype(np.float64)
    return pairs.T, total - instance.transfer_gap


@compiled
def pass_over(passes: Passes, way: Way, head: FloatArray, tail: FloatArray, device: IntArray, horizon: float) -> int:
    """Raise heads along one direction, where nodes with equal `device` are on one device, and a step takes `horizon`.

    `tail` is what heads are in the other direction. Nodes that would take longer than the horizon on two devices get
    equal numbers. Returns how many did, or -1 if no step is that short.
    """
    work, rest, between, apart = passes.work, passes.rest, way.between, way.apart
    latest, joined = np.empty(len(work)), 0
    for i in range(len(work)):
        v = way.order[i]
        earlier = way.order[:i]
        for a in range(way.start[v], way.start[v + 1]):
            p, sends = way.before[a], way.time[a]
            head[v] = max(head[v], head[p] + work[p])
            if device[p] == device[v]:
                sends = np.inf
            for u in earlier:
                ended = between[p, u] + work[p]
                between[v, u] = max(between[v, u], ended)
                if ended >= 0.0:
                    apart[v, u] = max(apart[v, u], min(apart[p, u] + work[p], ended + sends))
        ancestors = earlier[between[v, earlier] >= 0.0]
        ancestors = ancestors[np.argsort(head[ancestors])]
        total = 0.0
        for u in ancestors[::-1]:
            total += work[u]
            head[v] = max(head[v], head[u] + total / passes.capacity)
            if device[u] == device[v]:
                apart[v, u] = np.inf
            latest[u] = head[u] + work[u] + apart[v, u]
        correction = rest[v] - way.lost if way.lost > 0.0 else 0.0
        head[v] = max(head[v], _split(ancestors, head, work + rest, latest, correction))
        between[v, v], apart[v, v] = -work[v], np.inf
        through = work[v] + tail[v]
        if head[v] + through > horizon:
            return -1
        for u in ancestors:
            if latest[u] + through > horizon and device[u] != device[v]:
                device[device == device[u]] = device[v]
                joined += 1
    return joined


@compiled
def _split(ancestors: IntArray, head: FloatArray, takes: FloatArray, latest: FloatArray, correction: float) -> float:
    """The least that v has to wait for, over all prefixes of its ancestors by falling `latest` on its device.

    The larger the prefix, the later is one machine through with it, and the less is left: so the best is found by
    halving. `ancestors` are sorted by their heads.
    """
    count = len(ancestors)
    falling = np.sort(latest[ancestors])[::-1]
    low, high, best = 0, count, np.inf
    while low <= high:
        size = (low + high) // 2
        limit = falling[size - 1] if size > 0 else np.inf
        left = falling[size] if size < count else 0.0
        through = 0.0
        for u in ancestors:
            if latest[u] >= limit:
                through = max(through, head[u]) + takes[u]
        if size > 0:
            through += correction
        best = min(best, max(through, left))
        if through < left:
            low = size + 1
        else:
            high = size - 1
    return best
