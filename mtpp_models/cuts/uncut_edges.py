r"""Edges that no cheap partition cuts.

If the ends u and v of an edge lie in different blocks, the block of u holds u and not v, and the block of v holds v
and not u. So if

.. math:: \min \{ f(S) : u \in S, v \notin S \} \ge T  \quad\text{or}\quad  \min \{ f(S) : v \in S, u \notin S \} \ge T,

every partition with a bottleneck below T keeps u and v together, and with them whatever lies between. Merging them
leaves a smaller graph with :math:`\mathrm{OPT} \ge \min(T, \mathrm{OPT}_\mathrm{merged})`; a partition of bottleneck T
itself may be lost, so it is kept outside.

A convex set that costs less than T answers the question for all edges that lead into it or out of it, so that few need
a cut of their own.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from instances import Instance
from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from instances.partitioning.reductions import Contraction, merge
from mtpp_models.cuts.block_cuts import BlockCuts

__all__ = ["join"]


def join(instance: Instance, cutoff: float, deadline: Deadline | None = None) -> Contraction:
    """Merge the ends of all edges that partitions with a bottleneck below `cutoff`, T > 0, do not cut.

    Soon after the deadline, what was found by then.
    """
    deadline, cuts = deadline or Deadline(), BlockCuts(instance, cutoff)
    edges = np.unique(instance.graph.edges, axis=0)
    u, v = edges.T
    cheap = cuts.alone() < cutoff
    # Whether a set below the cutoff holds one end and not the other.
    without_v, without_u = cheap[u], cheap[v]
    joined = []
    for e, (a, b) in enumerate(edges.tolist()):
        if deadline.passed:
            break
        for inside, outside, settled in ((a, b, without_v), (b, a, without_u)):
            if settled[e]:
                continue
            cost, nodes = cuts.cut([inside], without=outside)
            if cost >= cutoff:
                joined.append((a, b))
                break
            if cuts.is_convex(nodes):
                without_v |= nodes[u] & ~nodes[v]
                without_u |= nodes[v] & ~nodes[u]
    return merge(instance, _components(instance, np.array(joined, dtype=np.int64).reshape(-1, 2)))


def _components(instance: Instance, joined: IntArray) -> IntArray:
    """(n,) group of each node: joined nodes share one, and so do all nodes on paths between two of a group."""
    n, edges = instance.graph.n, instance.graph.edges
    both_ways = np.concatenate((edges, joined, joined[:, ::-1]))
    links = coo_array((np.ones(len(both_ways)), (both_ways[:, 0], both_ways[:, 1])), shape=(n, n))
    _, labels = connected_components(links, directed=True, connection="strong")
    return np.asarray(labels, dtype=np.int64)
