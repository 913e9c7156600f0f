"""Bytes of single nodes: what a device has to hold for one of them alone."""

from __future__ import annotations

import numpy as np

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray

__all__ = ["held_alone", "touched_bytes"]


def held_alone(graph: ComputationGraph) -> FloatArray:
    """(n,) parameters and states of each node, shared parameters included [bytes]."""
    held = graph.held_bytes.copy()
    for parameter in graph.parameters:
        held[list(parameter.users)] += parameter.bytes
    return held


def touched_bytes(graph: ComputationGraph) -> FloatArray:
    """(n,) tensors that each node reads or writes, which are live while it runs [bytes]."""
    tensors = graph.tensors
    touched = np.bincount(tensors.producer, tensors.bytes, graph.n)
    touched += np.bincount(tensors.consumers, tensors.bytes[graph.edge_tensor], graph.n)
    return touched.astype(np.float64)
