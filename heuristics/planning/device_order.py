"""RDO: an order of the devices by recursive minimum cuts (SPP, Algorithm 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.planning import Cluster

BoolArray = NDArray[np.bool_]

__all__ = ["minimum_cut", "recursive_device_order"]


def recursive_device_order(cluster: Cluster, *, smaller_first: bool = True) -> IntArray:
    """Order the devices, (V,), such that slow links lie between distant places.

    The devices are split along a global minimum cut of their bandwidths, and both sides are ordered alike. The paper
    does not say which side comes first; here it is the one with fewer devices, or the other one if not `smaller_first`,
    on a tie the one with the device of the smallest index. The slower direction of a link counts.
    """
    bandwidth = cluster.symmetric_bandwidth
    order: list[int] = []
    waiting = [np.arange(cluster.n)]
    while waiting:
        devices = waiting.pop()
        if len(devices) == 1:
            order.append(int(devices[0]))
            continue
        side = minimum_cut(bandwidth[np.ix_(devices, devices)])
        sizes = (int(side.sum()), int((~side).sum()))
        first = side if sizes[0] < sizes[1] or (sizes[0] == sizes[1] and side[0]) else ~side
        if not smaller_first and sizes[0] != sizes[1]:
            first = ~first
        waiting += [devices[~first], devices[first]]
    return np.array(order)


def minimum_cut(weight: FloatArray) -> BoolArray:
    """One side of a minimum cut of a graph with symmetric weights, as booleans.

    The first best cut of a phase of Stoer and Wagner (1997), vertices in the order of their indices. If the graph falls
    apart, its smallest component.
    """
    pieces, piece = connected_components(weight != 0, directed=False)
    if pieces > 1:
        sizes = np.bincount(piece)[piece]  # of each one's component; the first of the smallest says which
        return np.asarray(piece == piece[sizes.argmin()])
    return _stoer_wagner(weight.copy())


@compiled
def _stoer_wagner(weight: FloatArray) -> BoolArray:
    n = len(weight)
    group = np.arange(n)  # the vertex that stands for each one
    least, side = np.inf, np.zeros(n, dtype=np.bool_)
    for vertices in range(n, 1, -1):
        towards = np.zeros(n)
        seen = np.zeros(n, dtype=np.bool_)
        before, last = -1, -1
        for _ in range(vertices):
            tightest = -1
            for v in range(n):
                if group[v] == v and not seen[v] and (tightest < 0 or towards[v] > towards[tightest]):
                    tightest = v
            seen[tightest] = True
            before, last = last, tightest
            for v in range(n):
                if v != tightest:
                    towards[v] += weight[tightest, v]
        if towards[last] < least:
            least = towards[last]
            for v in range(n):
                side[v] = group[v] == last
        for v in range(n):
            weight[before, v] += weight[last, v]
            weight[v, before] = weight[before, v]
            if group[v] == last:
                group[v] = before
    return side
