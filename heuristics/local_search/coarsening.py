"""Pairs of nodes that may become one without a cycle, compiled by numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray

__all__ = ["join_by_degree", "join_by_reach"]

_Words = NDArray[np.uint64]


@compiled
def join_by_reach(
    source: IntArray,
    reader: IntArray,
    order: IntArray,
    size: FloatArray,
    limit: FloatArray,
    kind: IntArray,
    target: int,
) -> IntArray:
    """Join the ends of edges one after another where no path leads from one to the other through a third cluster.

    Parameters
    ----------
    source, reader : (m,) integers
        Distinct edges.
    order : (n,) integers
        A topological order.
    size : (q, n) floats
        What is summed over a cluster.
    limit : (q,) floats
        Up to here a sum may grow.
    kind : (n,) integers
        Only nodes of one kind are joined.
    target : int
        Stop at so many clusters.

    Returns
    -------
    (n,) integers
        A node of the cluster of each node.
    """
    n = len(order)
    after, before = _reach(source, reader, order)
    cluster, total = np.arange(n), size.copy()
    remaining = n
    for e in range(len(source)):
        if remaining <= target:
            break
        a, b = _root(source[e], cluster), _root(reader[e], cluster)
        if a == b or kind[a] != kind[b] or not _is_room(a, b, total, limit) or _meet(after[a], before[b]):
            continue
        _join(a, b, after, before)
        _merge(a, b, cluster, total)
        remaining -= 1
    _name_roots(cluster)
    return cluster


@compiled
def join_by_degree(
    source: IntArray, reader: IntArray, size: FloatArray, limit: FloatArray, kind: IntArray, target: int
) -> IntArray:
    """Join nodes with the only node that they read from, in the order of the edges.

    What a cluster reads comes in at one node, from which an edge path leads to all others of it; so there is no cycle.
    Parameters are those of `join_by_reach`; for nodes that only one node reads, turn the edges round.
    """
    n = size.shape[1]
    degree, cluster, total = np.zeros(n, dtype=np.int64), np.arange(n), size.copy()
    for v in reader:
        degree[v] += 1
    remaining = n
    for e in range(len(source)):
        if remaining <= target:
            break
        if degree[reader[e]] != 1:
            continue
        a, b = _root(source[e], cluster), _root(reader[e], cluster)
        if kind[a] != kind[b] or not _is_room(a, b, total, limit):
            continue
        _merge(a, b, cluster, total)
        remaining -= 1
    _name_roots(cluster)
    return cluster


@compiled
def _reach(source: IntArray, reader: IntArray, order: IntArray) -> tuple[_Words, _Words]:
    """Two (n, w) tables of bits, 64 nodes a word: the nodes behind each node, and those before it."""
    n = len(order)
    words = (n + 63) // 64
    after, before = np.zeros((n, words), dtype=np.uint64), np.zeros((n, words), dtype=np.uint64)
    start = np.zeros(n + 1, dtype=np.int64)
    for u in source:
        start[u + 1] += 1
    start = np.cumsum(start)
    fill, successor = start[:-1].copy(), np.empty(len(source), dtype=np.int64)
    for e in range(len(source)):
        successor[fill[source[e]]] = reader[e]
        fill[source[e]] += 1
    for i in range(n - 1, -1, -1):
        u = order[i]
        for e in range(start[u], start[u + 1]):
            _unite(after[u], after[successor[e]])
            _set(after[u], successor[e])
    for u in order:
        for e in range(start[u], start[u + 1]):
            _unite(before[successor[e]], before[u])
            _set(before[successor[e]], u)
    return after, before


@compiled(allocates=False)
def _join(a: int, b: int, after: _Words, before: _Words) -> None:
    """Merge node `b` into `a` in the tables of reachable nodes; `b` becomes empty."""
    _unite(after[a], after[b])
    _unite(before[a], before[b])
    for rows, others in ((after, before), (before, after)):
        for v in (a, b):
            _clear(rows[a], v)
        for w in range(rows.shape[1]):
            bits = rows[a, w]
            i = 64 * w
            while bits != np.uint64(0):
                if bits & np.uint64(1):
                    _unite(others[i], others[a])
                    _set(others[i], a)
                    _clear(others[i], b)
                bits >>= np.uint64(1)
                i += 1


@compiled(allocates=False)
def _root(v: int, cluster: IntArray) -> int:
    while cluster[v] != v:
        cluster[v] = cluster[cluster[v]]
        v = cluster[v]
    return v


@compiled(allocates=False)
def _merge(a: int, b: int, cluster: IntArray, total: FloatArray) -> None:
    """Put the cluster of `b` into that of `a`."""
    cluster[b] = a
    for i in range(len(total)):
        total[i, a] += total[i, b]


@compiled(allocates=False)
def _name_roots(cluster: IntArray) -> None:
    for v in range(len(cluster)):
        cluster[v] = _root(v, cluster)


@compiled(allocates=False)
def _is_room(a: int, b: int, total: FloatArray, limit: FloatArray) -> bool:
    room = True
    for i in range(len(limit)):
        room = room and total[i, a] + total[i, b] <= limit[i]
    return room


@compiled(allocates=False)
def _meet(first: _Words, second: _Words) -> bool:
    w = 0
    while w < len(first) and not first[w] & second[w]:
        w += 1
    return w < len(first)


@compiled(allocates=False)
def _unite(first: _Words, second: _Words) -> None:
    for w in range(len(first)):
        first[w] |= second[w]


@compiled(allocates=False)
def _set(bits: _Words, v: int) -> None:
    bits[v >> 6] |= np.uint64(1) << np.uint64(v & 63)


@compiled(allocates=False)
def _clear(bits: _Words, v: int) -> None:
    bits[v >> 6] &= ~(np.uint64(1) << np.uint64(v & 63))
