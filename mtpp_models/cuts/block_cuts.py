r"""Minimum cuts around nodes: lower bounds on the cost of a block that holds them.

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

from collections.abc import Iterable
from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np

from instances import Instance
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.no_fit import needs_of, room
from mtpp_models.cuts.max_flow import UNLIMITED, BoolArray, FlowNetwork, augment, reachability, reached_from

__all__ = ["UNIT", "BlockCuts", "Cut"]

# Bytes count as this many cutoffs at most, and do not overflow where more of them fit: differences must be exact.
_MOST = 2.0**12
# Sums of bytes that are not exact may be off by this part.
_ROUNDING = 1e-12
#: The cutoff as a whole number: fine enough for thousands of arcs, coarser than what re-checks certificates.
UNIT = 2**36


class Cut(NamedTuple):
    """Lower bound on the cost of some blocks, and the cheapest node set that the cut found."""

    cost: float  # in the time unit of the work, rounded down; the cutoff if that is smaller
    nodes: BoolArray  # (n,): a set of that cost; empty if it costs the cutoff or more


class BlockCuts:
    """Minimum cuts of one instance.

    Parameters
    ----------
    instance : Instance
    cutoff : float
        Bottleneck of a known partition, positive; costs above it count as it.

    Attributes
    ----------
    work, time : integers
        Of the nodes and tensors, in 2^-36 of the cutoff.
    constant : (n,) integers
        What any block with a node costs beside, in that unit; of several nodes the most counts. 0 without overflow.
    shared : (p,) integers
        Of the parameters that nodes share, 0 without overflow; none where nothing can overflow.
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

        Made at its first use: for large graphs it takes too much memory.
        """
        return reachability(*self.graph.successors, self.graph.topological_order)

    @cached_property
    def reach_back(self) -> BoolArray:
        """(n, n) booleans: whether a path, maybe of no edge, leads from the column to the row."""
        return np.ascontiguousarray(self.reach.T)

    def loaded(self) -> BlockCuts | None:
        """The same with overflow as a linear cost, maybe below 0, in its place; None if no block surely overflows."""
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
        """Cost of the (n,) set by this relaxation, in the time unit of the instance."""
        graph, inside = self.graph, nodes[self.graph.tensors.producer]
        reads = np.bincount(graph.edge_tensor, nodes[graph.tensors.consumers], len(inside))
        readers = np.bincount(graph.edge_tensor, minlength=len(inside))
        cut = np.where(inside, reads < readers, reads > 0)
        used = np.bincount(self._used, nodes[self._user], len(self.shared)) > 0
        whole = self.work[nodes].sum() + self.shared[used].sum() + self.time[cut].sum()
        whole += self.constant[nodes].max(initial=self.constant.min())
        return float(self.scaled(whole))

    def alone(self) -> FloatArray:
        """(n,) cost of each node as a block of its own: at least L."""
        graph = self.graph
        cost = self.work.astype(np.float64)
        read = np.diff(graph.tensors.start) > 0
        np.add.at(cost, graph.tensors.producer[read], self.time[read])
        np.add.at(cost, graph.tensors.consumers, self.time[graph.edge_tensor])
        np.add.at(cost, self._user, self.shared[self._used])
        return self.scaled(cost + self.constant)

    def least_cost(self, nodes: Iterable[int], without: int | None = None) -> float:
        """Lower bound L of the nodes and all between them, at most the cutoff; see `cut`."""
        return self.cut(nodes, without).cost

    def cut(self, nodes: Iterable[int], without: int | None = None) -> Cut:
        """Cut around the nodes, at least one, and all between them; the block must not hold `without`."""
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
        """Whether the (n,) set holds all paths between its nodes."""
        before, behind = self._around(np.flatnonzero(nodes))
        return not (before & behind & ~nodes).any()

    def _around(self, nodes: IntArray) -> tuple[BoolArray, BoolArray]:
        """Nodes before, and nodes behind, any of these, themselves included: two (n,) booleans."""
        return reached_from(*self.graph.predecessors, nodes), reached_from(*self.graph.successors, nodes)

    def whole(self, values: FloatArray) -> IntArray:
        """Round times down to whole numbers; larger ones count as twice the cutoff."""
        return np.floor(self._units(values)).astype(np.int64)

    def lost(self) -> float:
        """A time that no cut falls short of the true minimum by, unless that is above the cutoff."""
        graph = self.graph
        lost = (self._units(graph.work) - self.work).sum() + (self._units(self._tensor_time) - self.time).sum()
        return float(self.scaled(lost))

    def scaled(self, values: FloatArray | IntArray | int) -> FloatArray:
        """Convert whole numbers to times."""
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
        tail, head, there, back = (np.concatenate(parts) for parts in zip(*arcs, strict=True))
        return FlowNetwork.of(tail, head, there, back, len(codes), drain)
