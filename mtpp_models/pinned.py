r"""Bounds by minimum cuts: what the block of a node must cost.

Every node lies in some block, so with :math:`L(A) = \min \{ f(S) : A \subseteq S \subseteq V \}`, overflow dropped,

.. math:: \mathrm{OPT} \ge \max_v L(\{v\})  \qquad \text{(pinned)}

:math:`f` without overflow is submodular, and L is a minimum cut: arcs ``v → sink`` of capacity work(v), and for
each tensor t of u two nodes, ``u → out_t`` and ``in_t → u`` of capacity bytes(t) / B, with infinite arcs
``out_t → each reader → in_t``. Pinned nodes are tied to the source. Blocks are convex: every node between two
pinned ones is pinned too, and for an edge a → b behind which a pinned node lies, a ∈ S implies b ∈ S; likewise
b ∈ S implies a ∈ S where a pinned node lies before a.

Capacities are whole numbers, scaled by the bottleneck of a known partition and rounded down, so that the cut in
integers is a lower bound; nothing above that bottleneck is of interest, and a single arc lets no more through.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from instances import Bound, ComputationGraph, Instance, Partition, Result
from instances.interrupts import catch_interrupt
from instances.tensors import FloatArray, IntArray

__all__ = ["PINNED", "BlockCuts", "pinned"]

BoolArray = NDArray[np.bool_]

PINNED = "pinned"

# Whole-number capacities: the known bottleneck becomes 2^29, and flows stay below 2^31.
_UNIT, _INFINITE = 2**29, 2**30


class BlockCuts:
    """Minimum cuts of one instance.

    Parameters
    ----------
    instance : Instance
    ceiling : float
        Bottleneck of a known partition, positive; costs above it count as it.
    """

    def __init__(self, instance: Instance, ceiling: float) -> None:
        graph = instance.graph
        self._graph, self._ceiling = graph, ceiling
        self.reach = _reachability(graph)
        n, read = graph.n, np.flatnonzero(np.diff(graph.tensors.start))
        count = len(read)
        self._source, self._sink, self._gate = n + 2 * count, n + 2 * count + 1, n + 2 * count + 2
        producer = graph.tensors.producer[read]
        out, inn = n + np.arange(count), n + count + np.arange(count)
        index = np.full(len(graph.tensors.producer), -1)
        index[read] = np.arange(count)
        tensor, reader = index[graph.edge_tensor], graph.tensors.consumers
        time_, work = self._whole(instance.tensor_time[read]), self._whole(graph.work)
        arcs = [
            (np.arange(n), np.full(n, self._sink), work),
            (producer, out, time_),
            (inn, producer, time_),
            (out[tensor], reader, np.full(graph.m, _INFINITE)),
            (reader, inn[tensor], np.full(graph.m, _INFINITE)),
            (np.array([self._gate]), np.array([self._source]), np.array([_UNIT])),
        ]
        self._tail, self._head, self._capacity = (np.concatenate(parts) for parts in zip(*arcs, strict=True))

    def alone(self) -> FloatArray:
        """(n,) cost of each node as a block of its own: at least L."""
        graph = self._graph
        time_ = self._capacity[graph.n : graph.n + self._count]  # of the arcs u -> out_t
        cost = self._capacity[: graph.n].astype(np.float64)
        np.add.at(cost, self._tail[graph.n : graph.n + self._count], time_)
        tensor = self._tail[self._reads] - graph.n
        np.add.at(cost, self._head[self._reads], time_[tensor])
        return cost / _UNIT * self._ceiling

    @property
    def _count(self) -> int:
        return (self._source - self._graph.n) // 2

    @property
    def _reads(self) -> slice:
        first = self._graph.n + 2 * self._count
        return slice(first, first + self._graph.m)

    def least_cost(self, nodes: Iterable[int], without: int | None = None) -> float:
        """L of the nodes and all between them, or the ceiling if that is smaller.

        Parameters
        ----------
        nodes : iterable of int
            At least one.
        without : int, optional
            A node that the block must not hold.

        Returns
        -------
        float
            In the time unit of the work, rounded down.
        """
        given = np.array(list(nodes))
        reach = self.reach
        behind: BoolArray = np.asarray(reach[given].any(axis=0))
        before: BoolArray = np.asarray(reach[:, given].any(axis=1))
        pins = np.union1d(given, np.flatnonzero(behind & before))
        u, v = self._graph.edges[:, 0], self._graph.edges[:, 1]
        towards, away = before[v] | np.isin(v, pins), behind[u] | np.isin(u, pins)
        barred = np.array([] if without is None else [without], dtype=np.int64)
        tail = np.concatenate((self._tail, u[towards], v[away], np.full(len(pins), self._source), barred))
        head = np.concatenate((self._head, v[towards], u[away], pins, np.full(len(barred), self._sink)))
        capacity = np.concatenate((self._capacity, np.full(len(tail) - len(self._tail), _INFINITE)))
        matrix = csr_array((capacity, (tail, head)), shape=(self._gate + 1, self._gate + 1))
        matrix.data = np.minimum(matrix.data, _INFINITE).astype(np.int32)
        flow = maximum_flow(matrix, self._gate, self._sink).flow_value
        return float(flow) / _UNIT * self._ceiling

    def _whole(self, values: FloatArray) -> IntArray:
        return np.floor(np.minimum(values / self._ceiling, 1.0) * _UNIT).astype(np.int64)


def pinned(start: Partition, time_limit: float | None = None) -> Result:
    """The largest of the minimum cuts around single nodes.

    Parameters
    ----------
    start : Partition
        A known partition; cuts stop at its bottleneck.
    time_limit : float, optional
        Seconds; after them, or at Ctrl-C, the largest cut so far is the bound.

    Returns
    -------
    Result
        Its bound's witness names the node.
    """
    begin = time.monotonic()
    value, node, finished = 0.0, 0, True
    with catch_interrupt() as interrupted:
        cuts = BlockCuts(start.instance, start.bottleneck or 1.0)
        alone = cuts.alone()
        for v in np.argsort(-alone).tolist():
            if alone[v] <= value:
                break  # a block of v alone costs no more than what is proved
            if interrupted.is_set() or (time_limit is not None and time.monotonic() - begin > time_limit):
                finished = False
                break
            least = cuts.least_cost([v])
            if least > value:
                value, node = least, v
    bound = Bound(value, PINNED, finished, {"nodes": [node]})
    seconds = {"solve": time.monotonic() - begin}
    return Result(PINNED, start.instance, start, bound, seconds, interrupted=interrupted.is_set())


def _reachability(graph: ComputationGraph) -> BoolArray:
    """(n, n) booleans: whether a path leads from the row to the column."""
    reach = np.zeros((graph.n, graph.n), dtype=bool)
    start, after = graph.successors
    for v in graph.topological_order[::-1]:
        row = after[start[v] : start[v + 1]]
        reach[v] = reach[row].any(axis=0)
        reach[v, row] = True
    return reach
