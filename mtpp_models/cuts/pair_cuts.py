r"""Lower bounds on the cost of a block that holds two given nodes, for all pairs of nodes; compiled by numba.

L({u, v}) is the minimum cut of `mtpp_models.cuts.block_cuts` around u, v and all between them. Most pairs need no cut
of their own: a convex set S with f(S) ≤ T satisfies the arcs of every pair inside, so that L ≤ T for all of them at
once. Such sets are segments of topological orders, and the source sides of the cuts themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from instances import ComputationGraph
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from mtpp_models.cuts.block_cuts import UNIT, BlockCuts
from mtpp_models.cuts.max_flow import BoolArray, FlowNetwork, augment

__all__ = ["PairCuts", "row_blocks"]

# Cuts between looks at the clock, and multiplications in a product of matrices.
_CUTS, _PRODUCTS = 200, 10**9


class PairCuts:
    """Minimum cuts around all pairs of nodes.

    Parameters
    ----------
    cuts : BlockCuts
    most : int
        Pairs that cost at most this, as a whole number of `cuts`, are of no interest.
    deadline : Deadline, optional
        Soon after it, what is not found out stays open.

    Attributes
    ----------
    open : (n, n) booleans
        Pairs of which nothing is known yet; callers clear those that they do not need.
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
        """Bound L of each pair, (n, n), if it is above `most`, else 0; `UNIT` stands for the cutoff and all above."""
        constant = self._cuts.constant
        if not constant.any():
            return self._flow
        cost = np.minimum(self._flow + np.maximum(constant[:, None], constant), UNIT)
        return np.where((self._flow > 0) & (cost > 0), cost, 0)

    def resolve(self, u: int, deadline: Deadline) -> bool:
        """Compute all open pairs of node u; return whether time sufficed."""
        cuts, v = self._cuts, 0
        while v < cuts.graph.n and self.open[u, v:].any():
            if deadline.passed:
                return False
            v = _resolve(
                cuts.network, cuts.reach, cuts.reach_back, u, v, _CUTS, self._most, self._limit, self.open, self._flow
            )
        return True


def row_blocks(n: int, deadline: Deadline) -> Iterator[slice]:
    """Yield the rows of a product of (n, n) matrices in blocks, the first and those that there is time for."""
    height = 1 + _PRODUCTS // max(1, n) ** 2
    for first in range(0, n, height):
        if first > 0 and deadline.passed:
            return
        yield slice(first, first + height)


class Segments(NamedTuple):
    """Arrays for costs of segments, in whole numbers; compressed rows are pairs (start, values)."""

    work: IntArray  # of nodes
    time: IntArray  # of tensors
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
        """Flatten `graph`."""
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
    """Clear the pairs within segments of a random topological order that cost at most `threshold`; their number.

    The order comes from the random numbers `keys`, (n,); with `newest` it takes mostly the node that became ready last,
    so that paths stay together. The open pairs, (n, n), are symmetric.
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
    """Cut around the open pairs of u with `first` and later nodes; the node to go on with, n at the end.

    At most `budget` cuts are made. Open pairs and costs, both (n, n) and symmetric, are updated: pairs that were cut or
    that lie in a set that costs at most `threshold` are cleared, and costs above `threshold` are noted, those above
    `limit` as `limit`.
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
    """Clear all pairs of a set if it is convex."""
    before, behind = np.zeros(len(reach), dtype=np.bool_), np.zeros(len(reach), dtype=np.bool_)
    for v in nodes:
        before |= reach_back[v]
        behind |= reach[v]
    if (before & behind).sum() == len(nodes):
        for u in nodes:
            for v in nodes:
                open_pairs[u, v] = False
