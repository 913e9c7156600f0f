"""List scheduling by simulation: as HEFT, but what a device would do for a node is simulated, not estimated.

HEFT puts transfers on a bus in the order in which it decides on them. The real order is that in which tensors are
complete, and where weights are sent at the start the two differ much. Here a node is tried on each device with all
nodes that are placed already, and the buses and devices serve them as they will.
"""

from __future__ import annotations

import numpy as np

from heuristics.limits import Limits
from heuristics.placement.heft import rank_order
from heuristics.placement.simulator import SimulatorArrays, penalised, workspace
from instances.compiled import compiled
from instances.graph.tensors import IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

__all__ = ["greedy"]


def greedy(instance: PlacementInstance, _rng: np.random.Generator, limits: Limits | None = None) -> Placement:
    """Place nodes in HEFT's order, each where the nodes placed so far have the least penalised time.

    Among equals the device counts on which the node ends first. A source without work goes where its first reader
    goes. It takes a simulation per node and device; with fewer allowed, the last nodes go to device 0.
    """
    graph, k = instance.graph, instance.devices
    order = rank_order(instance)[: (limits or Limits()).allow(graph.n * k) // k]
    return Placement(instance, _place(SimulatorArrays.of(instance), order, *graph.predecessors))


@compiled
def _place(arrays: SimulatorArrays, order: IntArray, start: IntArray, before: IntArray) -> IntArray:
    space = workspace(arrays)
    device = np.full(len(arrays.work), -1)
    for v in order:
        if arrays.inputs[v] == 0 and arrays.work[v] == 0.0:
            continue
        reads = before[start[v] : start[v + 1]]
        joins = reads[device[reads] < 0]
        best, best_value, best_end = 0, np.inf, np.inf
        for d in range(arrays.devices):
            device[v] = d
            device[joins] = d
            value = penalised(arrays, device, space)
            if value < best_value or (value == best_value and space.end[v] < best_end):
                best, best_value, best_end = d, value, space.end[v]
        device[v] = best
        device[joins] = best
    return np.maximum(device, 0)
