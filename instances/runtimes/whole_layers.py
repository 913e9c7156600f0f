"""Graphs in which each layer is a node, so that no plan cuts one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from instances.errors import InputError, said
from instances.graph.graph import ComputationGraph
from instances.graph.merging import merge_graph
from instances.runtimes.layer_stack import LayerStack
from instances.runtimes.runtime import LayerRuntime, Runtime

__all__ = ["whole_layers"]


def whole_layers(graph: ComputationGraph, runtime: Runtime) -> ComputationGraph:
    """The graph with a node for each part that a runtime keeps whole: layers, and what is before and after them.

    Raises
    ------
    InputError
        If it has no layers in a row, or the runtime knows no layers.
    """
    if not isinstance(runtime, LayerRuntime):
        raise InputError(f"{said('runtime', runtime.name)}: it takes the stage of each operator, not layers of a plan.")
    runtime.rules(graph)  # refuses what no cut can express
    stack = LayerStack.of(runtime.seen(graph))
    unit = stack.unit.copy()
    if runtime.front_with_first:
        unit[unit == 0] = 1
    if runtime.back_with_last:
        unit[unit == stack.layers + 1] = stack.layers
    units, group = np.unique(unit, return_inverse=True)
    merged, _ = merge_graph(runtime.seen(graph), group)
    return replace(merged, names=tuple(stack.unit_names[u] for u in units), name=graph.name, source=graph.source)
