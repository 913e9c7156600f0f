"""Sums over groups of nodes, such as blocks, devices or layers."""

from __future__ import annotations

import numpy as np

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, IntArray, sums_by


def parameters_by(graph: ComputationGraph, group: IntArray, count: int) -> FloatArray:
    """(count,) parameters of each group of nodes [bytes]; a shared one counts once in each group that uses it."""
    total = sums_by(group, graph.param_bytes, count)
    for parameter in graph.parameters:
        total[np.unique(group[list(parameter.users)])] += parameter.bytes
    return total
