"""Topological orders from node priorities (MTPP, Algorithm 3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from heuristics.orders.kernels import kahn_kernel
from instances import ComputationGraph, InputError
from instances.graph.tensors import IntArray

__all__ = ["kahn"]


def kahn(graph: ComputationGraph, priority: ArrayLike) -> IntArray:
    """Kahn's algorithm: always run the ready node of highest priority.

    Parameters
    ----------
    graph : ComputationGraph
        Its edges say which nodes are ready.
    priority : (n,) floats
        Ties go to the smallest index.

    Returns
    -------
    (n,) integers
        A topological order.

    Raises
    ------
    InputError
        If there is not one finite priority per node.

    References
    ----------
    MTPP, Algorithm 3 (KahnWithNodePriorities); O(m + n log n).

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 2)], work=[1, 1, 1])
    >>> kahn(graph, [0, 1, 2]).tolist()
    [1, 0, 2]
    """
    values = np.asarray(priority, dtype=np.float64)
    if values.shape != (graph.n,) or not np.isfinite(values).all():
        raise InputError(f"Give one finite priority for each of the {graph.n} nodes.")
    order = np.empty(graph.n, dtype=np.int64)
    indegree = np.bincount(graph.edges[:, 1], minlength=graph.n)
    kahn_kernel(*graph.successors, indegree, values, order)
    return order
