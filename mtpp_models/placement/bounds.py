r"""Lower bounds on the step time of placements: heads and tails, windows, energetic reasoning, and co-location.

**Heads and tails: earliest start of a node and least time after it, on any device and in any order.**

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

**Bound by windows: nodes with large heads and tails share the devices in between.**

The nodes with a head of at least a and a tail of at least b run between a and the end of the step less b. With their
work W, and capacity for k devices,

.. math:: T \ge \max_{a, b} \; a + b + W(a, b) / k.

Where devices rest for g after each of the c nodes with work among them, all but the last of a device do, so that W may
also be :math:`W + g (c - k)`. Unequal devices count as much as their speeds over that of the fastest, and a rest costs
the work of the slowest.

**Energetic bound: least work of nodes in an interval, wherever each of them runs between its head and its tail.**

If a step takes T, node v runs between :math:`e_v` and :math:`T - q_v`, and in :math:`[t_1, t_2]` at least for

.. math:: \max(0, \min(w_v, \; t_2 - t_1, \; e_v + w_v - t_1, \; t_2 - T + q_v + w_v)),

the least of running throughout, as early and as late as it can. No step takes T if all this is more than
:math:`k (t_2 - t_1)` for some interval. Nodes run without a pause, and devices are equal. Source: Fernandez and
Bussell, "Bounds on the number of processors and time for multiprocessor optimal schedules", 1973; the interval by
Erschler et al., 1991.

**Bounds by nodes that must share a device in any step that is short enough.**

Suppose that a step takes T. Nodes u before v with :math:`e_u + w_u + L(u, v) + w_v + q_v > T` (see
`mtpp_models.placement.bounds`) are on one device. So are all that are linked by such pairs. That raises L, where a path
cannot cross between them; so heads and tails, as nodes that share a device run one after the other; and so there are
more such pairs. No step takes T if in the end a node takes longer with its head and tail, if some nodes of one device
do, released at their heads and with the rest of a step behind them (Jackson's bound), if a window or an interval of
`windows` and `energetic` is too full.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import Bound
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray, compressed_rows
from instances.placement.problem import PlacementInstance

HEADS = "heads"

#: With more nodes, P and L take more than a quarter of a gigabyte.
MOST_NODES = 4000

#: Largest relative error of a head, a tail or a bound by rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Heads:
    """Heads (earliest starts) and tails (least times after the end) of nodes, rounded down, in the unit of the work."""

    instance: PlacementInstance
    work: FloatArray  # (n,) time of each node on the fastest device
    head: FloatArray  # (n,) lower bound on the start of each node
    tail: FloatArray  # (n,) lower bound on the time from the end of each node to the end of the step
    capacity: float  # sum of the speeds of all devices over that of the fastest

    @property
    def witness(self) -> dict[str, list[float]]:
        """Heads and tails as lists, for a certificate."""
        return {"heads": self.head.tolist(), "tails": self.tail.tolist()}


def heads_bound(heads: Heads) -> Bound:
    """The bound by heads and tails: the largest sum of head, time and tail of a node."""
    through = heads.head + heads.work + heads.tail
    v = int(through.argmax())
    return Bound(float(through[v]) * (1 - ROUNDING), HEADS, False, {**heads.witness, "nodes": [v]})


def heads_of(instance: PlacementInstance) -> Heads:
    """Heads and tails of all nodes; it takes memory for two numbers per pair of nodes (see `MOST_NODES`).

    Nodes take their time on the fastest device, transfers that over the fastest link, and the capacity is the sum of
    the devices' speeds.
    """
    n, passes = instance.graph.n, Passes.of(instance)
    head, tail, device = np.zeros(n), np.zeros(n), initial_groups(instance)
    for way, earliest in zip((passes.forward, passes.backward), (head, tail), strict=True):
        pass_over(passes, way.with_tables(), earliest, np.zeros(n), device, np.inf)
    head, tail = head * (1 - ROUNDING), tail * (1 - ROUNDING)
    return Heads(instance=instance, work=passes.work, head=head, tail=tail, capacity=passes.capacity)


def initial_groups(instance: PlacementInstance) -> IntArray:
    """(n,) initial device groups, each node in its own; with a single device, all in group 0."""
    return np.arange(instance.graph.n) if instance.devices > 1 else np.zeros(instance.graph.n, dtype=np.int64)


class Way(NamedTuple):
    """The graph in one direction of time: edges as they are, or reversed."""

    order: IntArray  # (n,) nodes in a topological order of that direction
    start: IntArray  # (n + 1,) the direct predecessors of v are ``before[start[v]:start[v + 1]]``
    before: IntArray
    time: FloatArray  # for each predecessor, least transfer time to v from another device
    lost: float  # the device's rest that does not count behind the last node before v
    between: FloatArray = np.zeros((0, 0))  # (n, n) P, by v and u
    apart: FloatArray = np.zeros((0, 0))  # (n, n) L, by v and u

    def with_tables(self) -> Way:
        """A copy with new tables for P and L."""
        n = len(self.order)
        return self._replace(between=np.full((n, n), -np.inf), apart=np.full((n, n), -np.inf))


class Passes(NamedTuple):
    """Data for passes over the nodes in both directions, which raise heads (forward) and tails (backward)."""

    work: FloatArray  # (n,) time of each node on the fastest device
    rest: FloatArray  # (n,) time that a device rests after each node
    capacity: float  # sum of the speeds of all devices over that of the fastest
    forward: Way
    backward: Way

    @classmethod
    def of(cls, instance: PlacementInstance) -> Passes:
        """The data of a question."""
        n, gap, order = instance.graph.n, float(instance.node_gap), instance.graph.topological_order
        edges, time = _edges(instance)
        ways = []
        for (u, v), places, lost in ((edges, order, 0.0), (edges[::-1], order[::-1].copy(), gap)):
            start, by_reader = compressed_rows(v, np.arange(len(v)), n)
            ways.append(Way(places, start, u[by_reader], time[by_reader], lost))
        fastest = instance.speeds.max()
        work = instance.work / fastest
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
    """Raise heads along one direction; merge the groups of nodes that must share a device in steps up to `horizon`.

    `tail` are the heads of the other direction. `device`, (n,), holds the group of each node; all nodes of a group are
    on one device. Groups of two nodes that would take longer than `horizon` on different devices are merged. Returns
    the number of merges, or -1 if no step is that short.
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
    """Least possible start of v over all choices of ancestors on its device, which are those with the largest `latest`.

    The more ancestors share the device, the later it finishes them, and the earlier the results of the others arrive:
    so bisection finds the best number. `ancestors` are sorted by their heads.
    """
    count = len(ancestors)
    falling = np.sort(latest[ancestors])[::-1]
    low, high, best = 0, count, np.inf
    while low <= high:
        size = (low + high) // 2
        limit = falling[size - 1] if size > 0 else np.inf
        next_latest = falling[size] if size < count else 0.0
        through = 0.0
        for u in ancestors:
            if latest[u] >= limit:
                through = max(through, head[u]) + takes[u]
        if size > 0:
            through += correction
        best = min(best, max(through, next_latest))
        if through < next_latest:
            low = size + 1
        else:
            high = size - 1
    return best


WINDOWS = "windows"


def window_bound(heads: Heads) -> Bound:
    """The bound by windows: the largest over all heads a and tails b."""
    instance = heads.instance
    slowest = float(instance.speeds.min() / instance.speeds.max())
    rest = np.where(heads.work > 0, float(instance.node_gap) * slowest, 0.0)
    lost = heads.capacity * float(instance.node_gap)
    windows = [
        _best_window(heads.head, heads.tail, takes, less, heads.capacity)
        for takes, less in ((heads.work, 0.0), (heads.work + rest, lost))[: 2 if lost else 1]
    ]
    value, a, b = max(windows)
    return Bound(value * (1 - ROUNDING), WINDOWS, False, {**heads.witness, "window": [a, b]})


@compiled
def _best_window(
    head: FloatArray, tail: FloatArray, takes: FloatArray, lost: float, capacity: float
) -> tuple[float, float, float]:
    """The largest bound of a window [time unit], with its head a and its tail b."""
    n = len(head)
    late, long = np.argsort(-head), np.argsort(-tail)
    place = np.empty(n, dtype=np.int64)
    place[long] = np.arange(n)
    among, first = np.zeros(n), n  # what the nodes so far take, by falling tails
    best = (0.0, 0.0, 0.0)
    for v in late:
        among[place[v]] = takes[v]
        first = min(first, place[v])  # no window is empty
        total = 0.0
        for i in range(first, n):
            total += among[i]
            value = head[v] + tail[long[i]] + (total - lost) / capacity
            if value > best[0]:
                best = (value, head[v], tail[long[i]])
    return best


ENERGETIC = "energetic"

# With more nodes each T has millions of intervals.
_ENERGETIC_NODES = 160
# Steps of halving what is open.
_ENERGETIC_HALVINGS = 20


def energetic_bound(heads: Heads, least: Bound, ceiling: float, deadline: Deadline) -> Bound:
    """The energetic bound: the largest step time that bisection refutes by an interval.

    Parameters
    ----------
    least : Bound
        A bound proved before; returned where no interval refutes more, where devices differ or nodes are many.
    ceiling : float
        Step time of a placement; larger times cannot be refuted.
    deadline : Deadline
        When bisection ends.
    """
    low, high, best = least.value, ceiling, least
    for _ in range(_ENERGETIC_HALVINGS):
        if deadline.passed or not low < high * (1 - ROUNDING):
            break
        time = (low + high) / 2
        excess, begin, end = energetic_excess(heads, time)
        if excess > ROUNDING * time:
            low = time
            interval = {"horizon": time, "interval": [begin, end]}
            best = Bound(time * (1 - ROUNDING), ENERGETIC, False, {**heads.witness, **interval})
        else:
            high = time
    return best


def energetic_excess(heads: Heads, time: float) -> tuple[float, float, float]:
    """Largest excess of the nodes' work in an interval over the devices' capacity, begin and end; 0 if there is none.

    Always 0 where devices differ or nodes are many. `time` is the step time assumed.
    """
    if len(heads.work) > _ENERGETIC_NODES or heads.capacity < heads.instance.devices:
        return 0.0, 0.0, 0.0
    return _most_excess(heads.head, heads.tail, heads.work, time, heads.capacity)


@compiled
def _most_excess(
    head: FloatArray, tail: FloatArray, work: FloatArray, time: float, capacity: float
) -> tuple[float, float, float]:
    """Largest excess of the nodes' work in an interval over the devices' capacity, with its begin and end."""
    begins = np.unique(np.concatenate((head, time - tail - work)))
    ends = np.unique(np.concatenate((time - tail, head + work)))
    best = (0.0, 0.0, 0.0)
    for begin in begins:
        for end in ends:
            length = end - begin
            if begin < 0.0 or length <= 0.0:
                continue
            total = 0.0
            for v in range(len(work)):
                inside = min(work[v], length, head[v] + work[v] - begin, end - time + tail[v] + work[v])
                total += max(0.0, inside)
            if total - capacity * length > best[0]:
                best = (total - capacity * length, begin, end)
    return best


COLOCATION = "colocation"

# With more nodes each pass takes long, and finds little.
_COLOCATION_NODES = 300
# Steps of halving what is open.
_COLOCATION_HALVINGS = 12
# Passes in each direction for one time; each may raise heads a little.
_MOST_PASSES = 30


@dataclass(frozen=True, eq=False)
class Shared:
    """Properties that all placements with a step of at most `horizon` share."""

    horizon: float
    heads: Heads  # heads and tails in such placements
    device: IntArray  # (n,) group of each node; all nodes of a group are on one device
    apart: NDArray[np.bool_]  # (n, n) whether two nodes must be on different devices
    passes: Passes  # with tables for P and L
    refuted: bool  # whether there is no such placement
    interval: list[float] | None  # begin and end of an interval with too much work, if that refutes them

    def copied(self) -> Shared:
        """A copy with copies of all arrays that may change."""
        ways = [
            way._replace(between=way.between.copy(), apart=way.apart.copy())
            for way in (self.passes.forward, self.passes.backward)
        ]
        return replace(
            self,
            heads=replace(self.heads, head=self.heads.head.copy(), tail=self.heads.tail.copy()),
            device=self.device.copy(),
            apart=self.apart.copy(),
            passes=self.passes._replace(forward=ways[0], backward=ways[1]),
        )


def colocation_bound(heads: Heads, least: Bound, ceiling: float, deadline: Deadline) -> Bound:
    """The bound by co-location: the largest step time that bisection refutes; parameters as for `energetic_bound`."""
    low, high, best = least.value, ceiling, least
    if len(heads.work) > _COLOCATION_NODES:
        return best
    for _ in range(_COLOCATION_HALVINGS):
        if deadline.passed or not low < high * (1 - ROUNDING):
            break
        time = (low + high) / 2
        shared = share_devices(heads, time, deadline)
        if shared.refuted:
            low = time
            interval = {} if shared.interval is None else {"interval": shared.interval}
            best = Bound(time * (1 - ROUNDING), COLOCATION, False, {**heads.witness, "horizon": time, **interval})
        else:
            high = time
    return best


def share_devices(heads: Heads, horizon: float, deadline: Deadline) -> Shared:
    """Nodes that share a device in all placements with a step of at most `horizon`, as far as time allows."""
    n, passes = heads.instance.graph.n, Passes.of(heads.instance)
    sharing = Shared(
        horizon=horizon,
        heads=heads,
        device=initial_groups(heads.instance),
        apart=np.zeros((n, n), dtype=np.bool_),
        passes=passes._replace(forward=passes.forward.with_tables(), backward=passes.backward.with_tables()),
        refuted=False,
        interval=None,
    )
    return share_more(sharing, deadline)


def share_more(sharing: Shared, deadline: Deadline) -> Shared:
    """Copy of `sharing` after passes in both directions: more shared devices and larger heads, or `refuted`."""
    limit, sharing = sharing.horizon * (1 + ROUNDING), sharing.copied()
    heads, device, passes = sharing.heads, sharing.device, sharing.passes
    head, tail = heads.head, heads.tail
    for _ in range(_MOST_PASSES):
        before = head.sum() + tail.sum()
        joined = pass_over(passes, passes.forward, head, tail, device, limit)
        again = joined if joined < 0 else pass_over(passes, passes.backward, tail, head, device, limit)
        if again < 0 or _is_too_full(sharing.heads, device, limit):
            return replace(sharing, refuted=True)
        excess, *interval = energetic_excess(sharing.heads, limit)
        if excess > ROUNDING * limit:
            return replace(sharing, refuted=True, interval=interval)
        if deadline.passed or (joined + again == 0 and head.sum() + tail.sum() == before):
            break
    return sharing


def _is_too_full(heads: Heads, device: IntArray, limit: float) -> bool:
    """Whether the nodes of one device, or those of a window, take longer than the limit."""
    gap = float(heads.instance.node_gap)
    rest = np.where(heads.work > 0, gap, 0.0)
    longest = _longest(heads.head, heads.tail, heads.work + rest, device) - gap
    return longest > limit or window_bound(heads).value > limit


@compiled
def _longest(head: FloatArray, tail: FloatArray, takes: FloatArray, device: IntArray) -> float:
    """Largest sum, over sets of nodes on one device, of their times, least head and least tail (Jackson's bound)."""
    late, best = np.argsort(-head), 0.0
    for v in range(len(head)):
        total = 0.0
        for u in late:
            if device[u] == device[v] and tail[u] >= tail[v]:
                total += takes[u]
                best = max(best, head[u] + total + tail[v])
    return best
