"""Depth of each node in the network."""

from __future__ import annotations

import numpy as np

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import IntArray

__all__ = ["depths", "node_layers"]


def node_layers(graph: ComputationGraph) -> IntArray:
    """Depth of each node in the network, (n,); in training, a gradient has the depth of its forward node.

    That is the attribute ``layer`` if there is one. Else it counts the edges on the longest way to a node or, if that
    is fewer and the attribute ``training`` is set, from the node to the end.
    """
    if "layer" in graph.attributes:
        return np.asarray(graph.attributes["layer"], dtype=np.int64)
    depth = depths(graph.topological_order, *graph.predecessors)
    if graph.attributes.get("training"):
        return np.minimum(depth, depths(graph.topological_order[::-1], *graph.successors))
    return depth


def depths(order: IntArray, start: IntArray, neighbour: IntArray) -> IntArray:
    """Number of edges on the longest path to each node, (n,); `neighbour` holds earlier nodes, in compressed rows."""
    depth = np.zeros(len(order), dtype=np.int64)
    for v in order:
        depth[v] = 1 + depth[neighbour[start[v] : start[v + 1]]].max(initial=-1)
    return depth
