r"""Minimum cuts around blocks and pairs of nodes.

**Minimum cuts around nodes: lower bounds on the cost of a block that holds them.**

:math:`L(A) = \min \{ f(S) : A \subseteq S \subseteq V \}`, overflow dropped. f without overflow is submodular, and L is
a minimum cut: arcs ``v → sink`` of capacity work(v), and for each tensor t of u two nodes, ``u → out_t`` and ``in_t →
u`` of capacity bytes(t) / B, with infinite arcs ``out_t → each reader → in_t``; with a single reader, these are one arc
each way. Pinned nodes are tied to the source. Blocks are convex: every node between two pinned ones is pinned too, and
for an edge a → b behind which a pinned node lies, a ∈ S implies b ∈ S; likewise b ∈ S implies a ∈ S where a pinned node
lies before a.

Overflow is at least what parameters and the largest need of a pinned node exceed the memory by. With that in its place
f is submodular as well: parameters of single nodes add to their drains, shared ones are drains of nodes of their own,
behind infinite arcs from all their users, and the rest is a constant.

Capacities are whole numbers, scaled by the bottleneck of a known partition and rounded down, so that the cut in
integers is a lower bound; nothing above that bottleneck is of interest, and a single arc lets no more through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np

from instances import ComputationGraph, Instance
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.memory import needs_of, room
from mtpp_models.cuts.max_flow import UNLIMITED, BoolArray, FlowNetwork, augment, reachability, reached_from

# Bytes count as this many cutoffs at most, and do not overflow where more of them fit: differences must be exact.
_MOST = 2.0**12
# Sums of bytes that are not exact may be off by this part.
_ROUNDING = 1e-12
#: The cutoff as a whole number: fine enough for thousands of arcs, coarser than what re-checks certificates.
UNIT = 2**36


class Cut(NamedTuple):
    """A minimum cut around nodes: lower bound on the cost of blocks that hold them, and the source side."""

    cost: float  # value of the cut, in the time unit of the work, rounded down; at most the cutoff
    nodes: BoolArray  # (n,): the nodes on the source side, a set of that cost; empty if it costs the cutoff or more


class BlockCuts:
    """Minimum cuts of one instance.

    Parameters
    ----------
    instance : Instance
    cutoff : float
        Bottleneck of a known partition, positive; higher costs are rounded down to it.

    Attributes
    ----------
    work, time : integers
        Times of the nodes and of the tensors, in 2^-36 of the cutoff.
    constant : (n,) integers
        Further cost of any block with each node, in that unit; of several nodes the largest counts. 0 without overflow.
    shared : (p,) integers
        Streaming times of the shared parameters, 0 without overflow; p = 0 where nothing can overflow.
    network : FlowNetwork
    """

    def __init__(self, instance: Instance, cutoff: float) -> None:
        graph = self.graph = instance.graph
        self._instance, self._cutoff, self._tensor_time = instance, cutoff, instance.tensor_time
        self.time, self.work = self.whole(self._tensor_time), self.whole(graph.work)
        self.constant = np.zeros(graph.n, dtype=np.int64)
        parameters = [p for p in graph.parameters if p.users] if instance.has_overflow else []
        self._shared_bytes = np.array([p.bytes for p in parameters], dtype=np.float64)
        uses = [(user, p) for p, parameter in enumerate(parameters) for user in sorted(set(parameter.users))]
        self._user, self._used = np.array(uses, dtype=np.int64).reshape(-1, 2).T
        self.shared = np.zeros(len(parameters), dtype=np.int64)
        self.network = self._build()

    @cached_property
    def reach(self) -> BoolArray:
        """(n, n) booleans: whether a path, maybe of no edge, leads from the row to the column.

        Computed at first use only, as it takes too much memory for large graphs.
        """
        return reachability(*self.graph.successors, self.graph.topological_order)

    @cached_property
    def reach_back(self) -> BoolArray:
        """(n, n) booleans: whether a path, maybe of no edge, leads from the column to the row."""
        return np.ascontiguousarray(self.reach.T)

    def loaded(self) -> BlockCuts | None:
        """The same cuts with a linear lower bound on the overflow added; None if no block surely overflows.

        The bound may be negative.
        """
        instance, graph = self._instance, self.graph
        if not instance.has_overflow:
            return None
        with np.errstate(over="ignore"):
            unit = instance.platform.bandwidth * self._cutoff
            needs = needs_of(instance) * (1.0 if instance.has_exact_bytes else 1.0 - _ROUNDING)
            spare = (room(instance) - needs) / unit
            stream, shared = graph.held_bytes / unit, self._shared_bytes / unit
            # Only what can overflow, by amounts that are exact, has costs of its own.
            if not (spare.min() <= _MOST and stream.sum() + shared.sum() > spare.min()):
                return None
        cuts = copy(self)
        heavy = np.minimum(graph.work / self._cutoff + stream, _MOST)
        cuts.work = np.floor(heavy * UNIT).astype(np.int64)
        cuts.shared = np.floor(np.minimum(shared, _MOST) * UNIT).astype(np.int64)
        # What no flow makes up for is as good as what is further below.
        least = -(float(cuts.work.sum() + cuts.shared.sum()) / UNIT + 2.0)
        cuts.constant = np.floor(np.clip(-spare, least, _MOST) * UNIT).astype(np.int64)
        drain = self.network.drain.copy()
        drain[: graph.n], drain[len(drain) - len(shared) :] = cuts.work, cuts.shared
        cuts.network = self.network._replace(drain=drain)
        return cuts

    def cost(self, nodes: BoolArray) -> float:
        """Cost in this relaxation of the block with the nodes of an (n,) mask [time unit of the instance]."""
        graph, inside = self.graph, nodes[self.graph.tensors.producer]
        reads = np.bincount(graph.edge_tensor, nodes[graph.tensors.consumers], len(inside))
        readers = np.bincount(graph.edge_tensor, minlength=len(inside))
        cut = np.where(inside, reads < readers, reads > 0)
        used = np.bincount(self._used, nodes[self._user], len(self.shared)) > 0
        whole = self.work[nodes].sum() + self.shared[used].sum() + self.time[cut].sum()
        whole += self.constant[nodes].max(initial=self.constant.min())
        return float(self.scaled(whole))

    def alone(self) -> FloatArray:
        """(n,) cost in this relaxation of each node as the only one of its block [time unit]; at least its bound L."""
        graph = self.graph
        cost = self.work.astype(np.float64)
        read = np.diff(graph.tensors.start) > 0
        np.add.at(cost, graph.tensors.producer[read], self.time[read])
        np.add.at(cost, graph.tensors.consumers, self.time[graph.edge_tensor])
        np.add.at(cost, self._user, self.shared[self._used])
        return self.scaled(cost + self.constant)

    def least_cost(self, nodes: Iterable[int], without: int | None = None) -> float:
        """Lower bound L on the cost of a block with these nodes [time unit], at most the cutoff; see `cut`."""
        return self.cut(nodes, without).cost

    def cut(self, nodes: Iterable[int], without: int | None = None) -> Cut:
        """Minimum cut around one or more nodes and all nodes on paths between them; node `without` stays outside."""
        before, behind = self._around(np.array(list(nodes), dtype=np.int64))
        network, sources = self.network, np.flatnonzero(before & behind)
        residual, drain = network.capacity.copy(), network.drain.copy()
        if without is not None:
            drain[without] = UNLIMITED
        reached = np.zeros(len(drain), dtype=bool)
        constant = int(self.constant[sources].max())
        flow = augment(network, residual, drain, sources, before, behind, UNIT - constant, reached) + constant
        return Cut(float(self.scaled(min(max(0, flow), UNIT))), reached[: self.graph.n])

    def is_convex(self, nodes: BoolArray) -> bool:
        """Whether the set given by an (n,) mask holds all paths between its nodes."""
        before, behind = self._around(np.flatnonzero(nodes))
        return not (before & behind & ~nodes).any()

    def _around(self, nodes: IntArray) -> tuple[BoolArray, BoolArray]:
        """Two (n,) masks: all nodes before some of these, and all behind some of these; both contain the nodes."""
        return reached_from(*self.graph.predecessors, nodes), reached_from(*self.graph.successors, nodes)

    def whole(self, values: FloatArray) -> IntArray:
        """Times in whole multiples of 2^-36 of the cutoff, rounded down; at most twice the cutoff."""
        return np.floor(self._units(values)).astype(np.int64)

    def lost(self) -> float:
        """Upper bound on the rounding error [time unit]: the amount by which a true minimum may exceed its cut."""
        graph = self.graph
        lost = (self._units(graph.work) - self.work).sum() + (self._units(self._tensor_time) - self.time).sum()
        return float(self.scaled(lost))

    def scaled(self, values: FloatArray | IntArray | int) -> FloatArray:
        """Times [time unit] from whole multiples of 2^-36 of the cutoff."""
        return np.asarray(values) / UNIT * self._cutoff

    def _units(self, values: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # what is out of all proportion counts as twice the cutoff too
            return np.minimum(values / self._cutoff, 2.0) * UNIT

    def _build(self) -> FlowNetwork:
        graph, tensors = self.graph, self.graph.tensors
        n, readers, tensor = graph.n, np.diff(tensors.start), graph.edge_tensor
        single = readers[tensor] == 1
        codes, edge = np.unique(graph.edges @ np.array([n, 1]), return_inverse=True)
        u, v = np.divmod(codes, n)
        direct = np.zeros(len(codes), dtype=np.int64)
        np.add.at(direct, edge[single], self.time[tensor[single]])
        shared = np.flatnonzero(readers > 1)
        out, into = n + np.arange(len(shared)), n + len(shared) + np.arange(len(shared))
        index = np.zeros(len(readers), dtype=np.int64)
        index[shared] = np.arange(len(shared))
        reader, which = tensors.consumers[~single], index[tensor[~single]]
        free, nothing = np.full(len(reader), UNLIMITED), np.zeros(len(shared), dtype=np.int64)
        unlimited = np.full(len(self._user), UNLIMITED)
        arcs = [
            (u, v, direct, direct),
            (tensors.producer[shared], out, self.time[shared], nothing),
            (into, tensors.producer[shared], self.time[shared], nothing),
            (out[which], reader, free, 0 * free),
            (reader, into[which], free, 0 * free),
            (self._user, n + 2 * len(shared) + self._used, unlimited, 0 * unlimited),
        ]
        drain = np.concatenate((self.work, nothing, nothing, self.shared))
        tail, head, forward, backward = (np.concatenate(parts) for parts in zip(*arcs, strict=True))
        return FlowNetwork.of(tail, head, forward, backward, len(codes), drain)


# Lower bounds on the cost of a block that holds two given nodes, for all pairs of nodes; compiled by numba.
#
# L({u, v}) is the minimum cut of `mtpp_models.cuts.cuts` around u, v and all between them. Most pairs need no cut
# of their own: a convex set S with f(S) ≤ T satisfies the arcs of every pair inside, so that L ≤ T for all of them at
# once. Such sets are segments of topological orders, and the source sides of the cuts themselves.


# Cuts between looks at the clock, and multiplications in a product of matrices.
_CUTS, _PRODUCTS = 200, 10**9


class PairCuts:
    """Minimum cuts around all pairs of nodes.

    Parameters
    ----------
    cuts : BlockCuts
    threshold : int
        Pairs that cost at most this need no value [2^-36 of the cutoff of `cuts`].
    deadline : Deadline, optional
        Soon after it, the constructor returns; the remaining pairs stay open.

    Attributes
    ----------
    open : (n, n) booleans
        Pairs without a result yet; callers may clear those that they do not need.
    """

    def __init__(self, cuts: BlockCuts, threshold: int, deadline: Deadline | None = None) -> None:
        # The constant of a pair is added in the end; until then flows count.
        self._cuts, self._most, self._limit = (
            cuts,
            threshold - int(cuts.constant.max()),
            UNIT - int(cuts.constant.min()),
        )
        n, deadline = cuts.graph.n, deadline or Deadline()
        # The work of u, v and what lies between them; sums of whole numbers below 2^53 are exact.
        reach, heavy = cuts.reach.astype(np.float64), np.zeros((n, n), dtype=bool)
        for rows in row_blocks(n, deadline):
            heavy[rows] = (reach[rows] * cuts.work) @ reach >= self._limit
        heavy = (heavy | heavy.T) & ~np.eye(n, dtype=bool)
        self._flow = np.where(heavy, self._limit, 0)
        self.open = ~heavy & ~np.eye(n, dtype=bool)
        segments, rng = Segments.of(cuts.graph, cuts.work, cuts.time), np.random.default_rng(0)
        cleared = n
        while cleared > n // 8 and not deadline.passed:  # beyond that, cuts are faster
            keys = rng.integers(0, 2**40, (2, n))
            cleared = sum(_clear_segments(segments, keys[i], i == 0, self._most, self.open) for i in range(2))

    @property
    def cost(self) -> IntArray:
        """(n, n) bound L of each pair [2^-36 of the cutoff], at most the cutoff; 0 if it is not above the threshold."""
        constant = self._cuts.constant
        if not constant.any():
            return self._flow
        cost = np.minimum(self._flow + np.maximum(constant[:, None], constant), UNIT)
        return np.where((self._flow > 0) & (cost > 0), cost, 0)

    def resolve(self, u: int, deadline: Deadline) -> bool:
        """Compute the cuts of all open pairs with node u; return whether time sufficed."""
        cuts, v = self._cuts, 0
        while v < cuts.graph.n and self.open[u, v:].any():
            if deadline.passed:
                return False
            v = _resolve(
                cuts.network, cuts.reach, cuts.reach_back, u, v, _CUTS, self._most, self._limit, self.open, self._flow
            )
        return True


def row_blocks(n: int, deadline: Deadline) -> Iterator[slice]:
    """Yield slices that divide the rows of an (n, n) matrix, for products in parts; after the deadline no more."""
    height = 1 + _PRODUCTS // max(1, n) ** 2
    for first in range(0, n, height):
        if first > 0 and deadline.passed:
            return
        yield slice(first, first + height)


class Segments(NamedTuple):
    """Arrays to compute costs of segments of topological orders; compressed rows are pairs (start, values)."""

    work: IntArray  # of nodes [2^-36 of the cutoff]
    time: IntArray  # of tensors [2^-36 of the cutoff]
    readers: IntArray
    producer: IntArray
    output_start: IntArray
    input_start: IntArray
    input_tensor: IntArray
    successor_start: IntArray
    successor: IntArray
    indegree: IntArray

    @classmethod
    def of(cls, graph: ComputationGraph, work: IntArray, time: IntArray) -> Segments:
        """The arrays of a graph."""
        return cls(
            work,
            time,
            np.diff(graph.tensors.start),
            graph.tensors.producer,
            graph.output_start,
            *graph.inputs,
            *graph.successors,
            np.bincount(graph.edges[:, 1], minlength=graph.n),
        )


@compiled
def _clear_segments(arrays: Segments, keys: IntArray, newest: bool, threshold: int, open_pairs: BoolArray) -> int:
    """Clear the open pairs within segments of a random topological order that cost at most `threshold`.

    Returns the number of pairs cleared. The random numbers `keys`, (n,), determine the order; with `newest` it mostly
    takes the node that became ready last, so that paths stay together. `open_pairs`, (n, n), is symmetric.
    """
    n = len(keys)
    order, ready, size = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), 0
    missing = arrays.indegree.copy()
    for i in range(n):
        v = (i + keys[0]) % n
        if missing[v] == 0:
            ready[size] = v
            size += 1
    for i in range(n):
        pick = keys[i] % size
        if newest:
            pick = max(pick, size - 1 - (keys[i] >> 8) % 2)
        v = ready[pick]
        size -= 1
        ready[pick] = ready[size]
        order[i] = v
        for a in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
            w = arrays.successor[a]
            missing[w] -= 1
            if missing[w] == 0:
                ready[size] = w
                size += 1
    position = np.empty(n, dtype=np.int64)
    for i in range(n):
        position[order[i]] = i
    unread = np.zeros(len(arrays.time), dtype=np.int64)
    seen = np.full(len(arrays.time), -1, dtype=np.int64)
    cleared, furthest, done = 0, 0, 0
    for first in range(n):
        cost = work = np.int64(0)
        for last in range(first, n):
            v = order[last]
            work += arrays.work[v]
            if work > threshold:
                break
            cost += arrays.work[v]
            for f in range(arrays.input_start[v], arrays.input_start[v + 1]):
                t = arrays.input_tensor[f]
                if position[arrays.producer[t]] >= first:
                    unread[t] -= 1
                    if unread[t] == 0:
                        cost -= arrays.time[t]
                elif seen[t] != first:
                    seen[t] = first
                    cost += arrays.time[t]
            for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
                unread[t] = arrays.readers[t]
                if unread[t] > 0:
                    cost += arrays.time[t]
            if cost <= threshold and last > furthest:
                furthest = last
        for i in range(first, furthest + 1):
            # Pairs up to `done` were cleared with an earlier segment.
            for j in range(max(i, done) + 1, furthest + 1):
                u, v = order[i], order[j]
                if open_pairs[u, v]:
                    open_pairs[u, v] = open_pairs[v, u] = False
                    cleared += 1
        done = max(done, furthest)
    return cleared


@compiled
def _resolve(
    network: FlowNetwork,
    reach: BoolArray,
    reach_back: BoolArray,
    u: int,
    first: int,
    budget: int,
    threshold: int,
    limit: int,
    open_pairs: BoolArray,
    cost: IntArray,
) -> int:
    """Compute minimum cuts around the open pairs of u with node `first` and later ones, at most `budget` cuts.

    Returns the node to continue with, n at the end. Open pairs and costs, both (n, n) and symmetric, are updated: pairs
    that were cut or that lie in a set that costs at most `threshold` are cleared, and costs above `threshold` are
    recorded, at most `limit`.
    """
    n, size = len(reach), len(network.drain)
    reached = np.empty(size, dtype=np.bool_)
    start_residual, start_drain = network.capacity.copy(), network.drain.copy()
    start = augment(network, start_residual, start_drain, np.array([u]), reach_back[u], reach[u], limit, reached)
    residual, drain = np.empty_like(start_residual), np.empty_like(start_drain)
    for v in range(first, n):
        if not open_pairs[u, v] or u == v:
            continue
        if budget == 0:
            return v
        budget -= 1
        open_pairs[u, v] = open_pairs[v, u] = False
        before, behind = reach_back[u] | reach_back[v], reach[u] | reach[v]
        sources = np.flatnonzero(before & behind)
        # A flow around u is one around both, since capacities only grow.
        residual[:], drain[:] = start_residual, start_drain
        flow = start + augment(network, residual, drain, sources, before, behind, limit - start, reached)
        if flow > threshold:
            cost[u, v] = cost[v, u] = flow
        else:
            _clear(np.flatnonzero(reached[:n]), reach, reach_back, open_pairs)
    return n


@compiled
def _clear(nodes: IntArray, reach: BoolArray, reach_back: BoolArray, open_pairs: BoolArray) -> None:
    """Clear the open pairs within a set of nodes if the set is convex."""
    before, behind = np.zeros(len(reach), dtype=np.bool_), np.zeros(len(reach), dtype=np.bool_)
    for v in nodes:
        before |= reach_back[v]
        behind |= reach[v]
    if (before & behind).sum() == len(nodes):
        for u in nodes:
            for v in nodes:
                open_pairs[u, v] = False
