r"""Second opinions, for certificates: costs and minimum cuts, written again from the equations.

Nothing here is shared with `Partition`, the searches or the models, so that a fault of theirs does not hide here. It
is slow and plain on purpose. Equation numbers are those of `instances.partition`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import maximum_flow

from instances import Instance

__all__ = ["Network", "block_costs", "find_fault", "work_bound"]

IntArray = NDArray[np.int64]


def find_fault(instance: Instance, block: Sequence[int], order: Sequence[int]) -> str | None:
    """What keeps blocks and an order from being a partition; None if they are one."""
    n, edges = instance.graph.n, instance.graph.edges.tolist()
    if len(block) != n:
        return f"there are {len(block)} blocks for {n} nodes"
    for v in range(n):
        if not 0 <= block[v] < instance.k:
            return f"node {v} is in block {block[v]} of {instance.k}"
    for u, v in edges:
        if block[u] > block[v]:
            return f"edge {u} -> {v} points backwards, from block {block[u]} to {block[v]}"
    if sorted(order) != list(range(n)):
        return "the order is not a permutation of the nodes"
    position = {v: step for step, v in enumerate(order)}
    for u, v in edges:
        if position[u] > position[v]:
            return f"edge {u} -> {v} points backwards in the order"
    return None


def block_costs(instance: Instance, block: Sequence[int], order: Sequence[int]) -> list[float]:
    """Cost of each block, eq. (1) to (3), of a partition without fault."""
    graph, platform = instance.graph, instance.platform
    tensors = _tensors(instance)
    costs = []
    for b in range(platform.k):
        inside = [v for v in order if block[v] == b]
        nodes = set(inside)
        received = [size for producer, size, readers in tensors if producer not in nodes and nodes & readers]
        sent = [size for producer, size, readers in tensors if producer in nodes and readers - nodes]
        overflow = 0.0
        if inside and math.isfinite(platform.memory):
            held = [float(graph.param_bytes[v]) for v in inside]
            held += [parameter.bytes for parameter in graph.parameters if nodes & set(parameter.users)]
            peak = platform.activation_buffer
            peak = _peak(tensors, inside) if peak is None else peak
            overflow = max(0.0, math.fsum([*held, peak, -platform.memory]))
        work = math.fsum(float(graph.work[v]) for v in inside)
        costs.append(work + math.fsum([*received, *sent, overflow]) / platform.bandwidth)
    return costs


def _peak(tensors: list[tuple[int, float, set[int]]], inside: list[int]) -> float:
    """Largest sum of live tensors over the steps of a block [bytes]."""
    step = {v: i for i, v in enumerate(inside)}
    live: list[list[float]] = [[] for _ in inside]
    for producer, size, readers in tensors:
        touched = [step[v] for v in (producer, *readers) if v in step]
        if touched:
            for i in range(min(touched), max(touched) + 1):
                live[i].append(size)
    return max(map(math.fsum, live))


def _tensors(instance: Instance) -> list[tuple[int, float, set[int]]]:
    """Producer, bytes and readers of each tensor."""
    tensors = instance.graph.tensors
    start, readers = tensors.start.tolist(), tensors.consumers.tolist()
    rows = zip(tensors.producer.tolist(), tensors.bytes.tolist(), strict=True)
    return [(producer, size, set(readers[start[t] : start[t + 1]])) for t, (producer, size) in enumerate(rows)]


def work_bound(instance: Instance) -> float:
    """The larger of the heaviest node and the work per block, eq. (13)."""
    work = instance.graph.work.tolist()
    return max(*work, math.fsum(work) / instance.k)


# Capacities are whole numbers below 2^60 in sum; scipy computes flows with 32 bits, so the digits are used up in turns.
_DIGITS, _TURN = 60, 29


@dataclass(frozen=True, eq=False)
class Network:
    r"""Least cost of a block that holds given nodes, without overflow, as a minimum cut.

    Arcs are ``v → sink`` of capacity work(v) and, for each tensor t that is read, ``producer → out_t → each reader``
    and ``each reader → in_t → producer`` with capacity bytes(t) / B at the producer and without limit at the readers.
    A cut is a node set S on the side of the source; it costs f(S).
    """

    instance: Instance

    @cached_property
    def _arcs(self) -> tuple[IntArray, IntArray, NDArray[np.float64]]:
        """Tail, head and capacity; the sink is 0 and node v is v + 1."""
        graph, rate = self.instance.graph, self.instance.platform.bandwidth
        arcs = [(v + 1, 0, work) for v, work in enumerate(graph.work.tolist())]
        place = graph.n + 1
        for producer, size, readers in _tensors(self.instance):
            if readers:
                out, into, place = place, place + 1, place + 2
                arcs += [(producer + 1, out, size / rate), (into, producer + 1, size / rate)]
                arcs += [arc for v in readers for arc in ((out, v + 1, math.inf), (v + 1, into, math.inf))]
        tail, head, capacity = zip(*arcs, strict=True)
        return np.array(tail), np.array(head), np.array(capacity)

    @cached_property
    def _reach(self) -> NDArray[np.bool_]:
        """(n, n) whether the row is the column or comes before it."""
        graph = self.instance.graph
        reach = np.eye(graph.n, dtype=bool)
        position = np.argsort(graph.topological_order)
        for u, v in sorted(graph.edges.tolist(), key=lambda edge: -position[edge[0]]):
            reach[u] |= reach[v]
        return reach

    def least_cost(self, nodes: Iterable[int], ceiling: float) -> float:
        """Least cost of a convex set that holds the nodes.

        Parameters
        ----------
        nodes : iterable of int
            At least one.
        ceiling : float
            Costs above this are not told apart.

        Returns
        -------
        float
            In the time unit of the work. It is the value of a flow that is checked here, so it is a lower bound
            whatever the library did.
        """
        if not ceiling > 0:
            return 0.0
        given = list(nodes)
        before: NDArray[np.bool_] = np.asarray(self._reach[:, given].any(axis=1))
        behind: NDArray[np.bool_] = np.asarray(self._reach[given].any(axis=0))
        # Blocks are convex: what lies between two of the nodes, or between one of them and S, is in S as well.
        u, v = self.instance.graph.edges.T
        up, down = before[v], behind[u]
        tail, head, capacity = self._arcs
        tail = np.concatenate((tail, u[up] + 1, v[down] + 1))
        head = np.concatenate((head, v[up] + 1, u[down] + 1))
        capacity = np.concatenate((capacity, np.full(len(tail) - len(capacity), math.inf)))
        count = int(max(tail.max(), head.max())) + 1
        home = np.arange(count)
        home[1 : len(before) + 1][before & behind] = source = given[0] + 1
        # A cut below the ceiling has no arc above it, so the ceiling stands for infinity.
        digits = _DIGITS - math.ceil(math.log2(ceiling)) - math.ceil(math.log2(len(tail)) + 1)
        scale = 2.0 ** min(digits, 1000)
        whole = np.floor(np.minimum(capacity, ceiling) * scale).astype(np.int64)
        return _flow_value(home[tail], home[head], whole, source, count) / scale


def _flow_value(tail: IntArray, head: IntArray, capacity: IntArray, source: int, count: int) -> int:
    """Value of a maximum flow to node 0 in whole numbers."""
    tail, head, capacity = (array[tail != head] for array in (tail, head, capacity))
    pairs = (np.concatenate((tail, head)), np.concatenate((head, tail)))  # every arc has its reverse
    matrix: csr_array = coo_array((np.concatenate((capacity, 0 * capacity)), pairs), shape=(count, count)).tocsr()
    matrix.sort_indices()
    residual, arcs = matrix.data.copy(), matrix.nnz
    total, left = 0, int(capacity[head == 0].sum())
    while left > 0:
        # With all capacities divided, what is lost is less than the divisor on every arc of some cut.
        shift = max(0, left.bit_length() - _TURN)
        part = (np.minimum(residual, left) >> shift).astype(np.int32)
        answer = maximum_flow(csr_array((part, matrix.indices, matrix.indptr), shape=(count, count)), source, 0)
        if not np.array_equal(answer.flow.indices, matrix.indices):
            raise AssertionError("The flow has other arcs than the network.")
        residual -= answer.flow.data.astype(np.int64) << shift
        gained = int(answer.flow_value) << shift
        total += gained
        left = min(left - gained, arcs << shift) if shift else 0
    flow = csr_array((matrix.data - residual, matrix.indices, matrix.indptr), shape=(count, count))
    excess = flow.sum(axis=0)
    excess[[0, source]] = 0
    if (residual < 0).any() or excess.any() or (flow + flow.T).nnz or int(flow[:, [0]].sum()) != total:
        raise AssertionError("The maximum flow is not a flow.")
    return total
