r"""Minimum cuts around nodes, computed a second time from their definition.

Arcs are ``v → sink`` of capacity work(v) and, for each tensor t that is read, ``producer → out_t → each reader`` and
``each reader → in_t → producer`` with capacity time(t) at the producer and without limit at the readers. A cut is a
node set S on the side of the source; it costs f(S) without overflow. Blocks are convex: what lies between two of the
given nodes, or between one of them and S, is in S as well.

f(S) is no less with ``params(S) + need - memory`` in place of the overflow, where need is the largest of what one of
the given nodes, or one between them, reads and writes. That is a cut as well: parameters of one node add to its work,
and those of several are one more arc to the sink behind all their users.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import maximum_flow

from mtpp.verification.clock import Clock
from mtpp.verification.partitioning.exact_instance import ExactInstance

__all__ = ["Network", "block_bound"]

IntArray = NDArray[np.int64]

# Capacities are whole numbers below 2^60 in sum; scipy computes flows with 32 bits, so the digits are used up in turns.
_DIGITS, _TURN = 60, 29
# Nodes whose paths are remembered.
_REMEMBERED = 64


class CutBound(NamedTuple):
    """Bound proved by minimum cuts, its possible loss, and the number of cuts."""

    least: Fraction
    lost: Fraction
    cuts: int


class Network:
    """Least costs of blocks that hold given nodes.

    The ceiling is positive, in the time unit of the work; costs above it count as equal. With `loaded` parameters
    and peak count, less the memory.
    """

    def __init__(self, exact: ExactInstance, ceiling: Fraction, clock: Clock, *, loaded: bool = False) -> None:
        self._exact, self._clock, self._loaded = exact, clock, loaded
        if loaded:  # a cut has to reach up to the memory before it counts
            ceiling += (exact.room or 0) * exact.unit if (exact.room or 0) > 0 else 0
        read = [tensor for tensor in exact.tensors if tensor.readers]
        arcs = [(v + 1, 0, work) for v, work in enumerate(exact.work)]
        place = exact.n + 1
        free = []  # arcs without limit
        if loaded:
            arcs += [(v + 1, 0, held) for v, held in enumerate(exact.held)]
            for users, size in exact.shared:
                arcs.append((place, 0, size))
                free += [(v + 1, place) for v in users]
                place += 1
        for producer, readers, time, _ in read:
            arcs += [(producer + 1, place, time), (place + 1, producer + 1, time)]
            free += [arc for v in readers for arc in ((place, v + 1), (v + 1, place + 1))]
            place += 2
        edges = sorted(exact.edges)
        digits = _DIGITS - (len(arcs) + len(free) + 2 * len(edges)).bit_length() - 1
        # A cut below the ceiling has no arc above it, so that the ceiling stands for infinity.
        most = 1 << digits
        scale = most / (ceiling / exact.unit)
        self._nodes, self._unit = place, ceiling / most
        #: By how much a minimum cut may be above what `least_cost` says: each arc is rounded down.
        self.lost = self._unit * len(arcs)
        limits = [min(most, time * scale.numerator // scale.denominator) for _, _, time in arcs] + [most] * len(free)
        ends = [arc[:2] for arc in arcs] + free
        self._tail, self._head = np.array(ends, dtype=np.int64).T
        self._capacity, self._most = np.array(limits, dtype=np.int64), most
        self._edges = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        self._paths: dict[tuple[int, bool], NDArray[np.bool_]] = {}

    def least_cost(self, nodes: Iterable[int]) -> Fraction:
        """Least cost of a convex set that holds the nodes, at least one, in the time unit of the work.

        It is the value of a flow that is checked here, so it is a lower bound whatever the library did; it may be
        negative where parameters and peak count.

        Raises
        ------
        OutOfTimeError
        """
        given = list(nodes)
        before, behind = self._ends(given)
        u, v = self._edges
        up, down = before[v], behind[u]
        tail = np.concatenate((self._tail, u[up] + 1, v[down] + 1))
        head = np.concatenate((self._head, v[up] + 1, u[down] + 1))
        capacity = np.concatenate((self._capacity, np.full(len(tail) - len(self._tail), self._most)))
        home = np.arange(self._nodes)
        home[1 : self._exact.n + 1][before & behind] = source = given[0] + 1
        flow = self._unit * _flow_value(home[tail], home[head], capacity, source, self._nodes, self._clock)
        if not self._loaded:
            return flow
        need = max(self._exact.need[v] for v in np.flatnonzero(before & behind).tolist())
        return flow + (need - (self._exact.room or 0)) * self._exact.unit

    def fits(self, nodes: Iterable[int]) -> bool:
        """Whether the nodes and all between them may be in one block, where the memory is a hard limit."""
        before, behind = self._ends(list(nodes))
        inside, exact = set(np.flatnonzero(before & behind).tolist()), self._exact
        held = sum(exact.held[v] for v in inside) + sum(size for users, size in exact.shared if users & inside)
        return not exact.fit or exact.room is None or held + max(exact.need[v] for v in inside) <= exact.room

    def _ends(self, given: Sequence[int]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(n,) the nodes before one of the given ones, and those behind one; they are both themselves."""
        before = np.logical_or.reduce([self._reached(v, backwards=True) for v in given])
        return before, np.logical_or.reduce([self._reached(v, backwards=False) for v in given])

    def _reached(self, node: int, *, backwards: bool) -> NDArray[np.bool_]:
        """(n,) the nodes with a path from the node, or to it; it is one of them."""
        if (node, backwards) not in self._paths:
            if len(self._paths) >= _REMEMBERED:
                self._paths.clear()
            self._paths[node, backwards] = _reachable(self._exact.before if backwards else self._exact.after, node)
        return self._paths[node, backwards]


def block_bound(exact: ExactInstance, value: Fraction, pins: Iterable[Iterable[int]], clock: Clock) -> CutBound:
    """Least cost of a block that holds one of some sets of nodes, with overflow or where it has to fit.

    Parameters
    ----------
    exact : ExactInstance
    value : Fraction
        Positive; what shall be proved.
    pins : iterable of iterable of int
    clock : Clock

    Raises
    ------
    OutOfTimeError
    """
    networks = [Network(exact, 2 * value, clock)]
    if exact.may_overflow:
        networks.append(Network(exact, 2 * value, clock, loaded=True))
    least, count = 2 * value, 0
    for pin in pins:
        nodes, cost = list(pin), Fraction(0)
        if not networks[0].fits(nodes):
            continue
        for network in networks:
            if cost < value:  # else the other one need not say more
                cost = max(cost, network.least_cost(nodes))
                count += 1
        least = min(least, cost)
    return CutBound(least, max(network.lost for network in networks), count)


def _reachable(neighbours: Sequence[Sequence[int]], node: int) -> NDArray[np.bool_]:
    seen, stack = {node}, [node]
    while stack:
        fresh = set(neighbours[stack.pop()]) - seen
        seen |= fresh
        stack += fresh
    result = np.zeros(len(neighbours), dtype=bool)
    result[list(seen)] = True
    return result


def _flow_value(tail: IntArray, head: IntArray, capacity: IntArray, source: int, count: int, clock: Clock) -> int:
    """Value of a maximum flow to node 0 in whole numbers."""
    tail, head, capacity = (array[tail != head] for array in (tail, head, capacity))
    pairs = (np.concatenate((tail, head)), np.concatenate((head, tail)))  # every arc has its reverse
    matrix: csr_array = coo_array((np.concatenate((capacity, 0 * capacity)), pairs), shape=(count, count)).tocsr()
    matrix.sort_indices()
    residual, arcs = matrix.data.copy(), matrix.nnz
    total, left = 0, int(capacity[head == 0].sum())
    while left > 0:
        clock.raise_if_late()
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
