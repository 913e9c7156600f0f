"""Bytes of nodes: what a device has to hold for one of them alone, and the parameters of several together."""

from __future__ import annotations

import numpy as np

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, IntArray, sums_by

__all__ = ["held_alone", "parameters_by", "touched_bytes"]


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


def parameters_by(graph: ComputationGraph, group: IntArray, count: int) -> FloatArray:
    """(count,) parameters of each group of nodes [bytes]; a shared one counts once in each group that uses it."""
    total = sums_by(group, graph.param_bytes, count)
    for parameter in graph.parameters:
        total[np.unique(group[list(parameter.users)])] += parameter.bytes
    return total
