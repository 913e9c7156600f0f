"""Memory of single nodes: the bytes that a device must hold to run one of them alone."""

from __future__ import annotations

import numpy as np

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray

__all__ = ["held_alone", "touched_bytes"]


def held_alone(graph: ComputationGraph) -> FloatArray:
    """Parameters and states of each node, (n,), shared parameters included [bytes]."""
    resident_bytes = graph.held_bytes.copy()
    for parameter in graph.parameters:
        resident_bytes[list(parameter.users)] += parameter.bytes
    return resident_bytes


def touched_bytes(graph: ComputationGraph) -> FloatArray:
    """Tensors that each node reads or writes, (n,), which are live while it runs [bytes]."""
    tensors = graph.tensors
    touched = np.bincount(tensors.producer, tensors.bytes, graph.n)
    touched += np.bincount(tensors.consumers, tensors.bytes[graph.edge_tensor], graph.n)
    return touched.astype(np.float64)
