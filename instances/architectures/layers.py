"""Merging of operators into layers: one node for all operators of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from instances.architectures.builder import Operator
from instances.graph.graph import ComputationGraph
from instances.graph.merging import merge_graph

__all__ = ["merge_layers"]


def merge_layers(graph: ComputationGraph, operators: Sequence[Operator]) -> ComputationGraph:
    """Merge the nodes of each layer; work and parameters of a layer are the sums of its operators'.

    The operators are the record that the graph was made from. The new nodes are called by their layers; tensors inside
    a layer are gone.

    Raises
    ------
    InputError
        If two layers read from each other.
    """
    layer = {operator.name: operator.layer for operator in operators}
    layers = list(dict.fromkeys(layer[name] for name in graph.names))
    number = {name: i for i, name in enumerate(layers)}
    group = np.array([number[layer[name]] for name in graph.names], dtype=np.int64)
    merged, _ = merge_graph(graph, group)
    return replace(merged, names=tuple(layers), attributes=graph.attributes)
