"""The step time of `instances.placement.timeline`, compiled by numba: 10 microseconds for a hundred nodes.

No queue of events is needed. Nodes are taken from a heap by (time when ready, topological position), and all
consequences of a node are computed at once. A node becomes ready no earlier than the ends of those that it reads from,
and comes later in the topological order; so nodes leave the heap in the order in which they become ready, each device
serves them first come, first served, and each bus gets its transfers in the order of the ends of nodes on its device.

In other kernels: make `arrays = SimulatorArrays.of(instance)` and `space = workspace(arrays)` once, then call
``simulate(arrays, device, space)``, which leaves ``space.start`` and ``space.end`` of the nodes behind, or
``penalised(arrays, device, space)``, which also looks at the memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from heuristics.placement.arrays import SimulatorArrays, Workspace, workspace
from heuristics.placement.peak_memory import peak_memory
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.placement.problem import PlacementInstance

__all__ = [
    "SimulatorArrays",
    "Workspace",
    "peak_memory",
    "penalised",
    "penalised_times",
    "simulate",
    "step_times",
    "workspace",
]


@compiled
def simulate(arrays: SimulatorArrays, device: IntArray, space: Workspace) -> float:
    """Step time with node v on ``device[v]``; fills `start`, `end`, `sent` and `arrived` of `space`.

    Nodes on device -1 are left out; so must be those that read from them.
    """
    space.missing[:] = arrays.inputs
    space.ready[:] = 0.0
    space.device_free[:] = 0.0
    space.bus_free[:] = 0.0
    space.holds[:] = -1
    size = 0
    for v in range(len(arrays.work)):
        if arrays.inputs[v] == 0 and device[v] >= 0:
            size = _push(space, size, 0.0, arrays.rank[v])
    step = 0.0
    while size > 0:
        u = arrays.order[space.heap_rank[0]]
        size = _pop(space, size)
        home = device[u]
        start = _later(space.ready[u], space.device_free[home])
        work = arrays.node_time[u, arrays.speed[home]]
        end = start + work
        space.start[u], space.end[u] = start, end
        space.device_free[home] = end + arrays.node_gap if work > 0.0 else end
        step = _later(step, end)
        for t in range(arrays.output_start[u], arrays.output_start[u + 1]):
            for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
                v = arrays.reader[e]
                there = device[v]
                if there < 0:
                    continue
                at = end if there == home else _transfer(arrays, device, space, t, home, there, end)
                space.ready[v] = _later(space.ready[v], at)
                space.missing[v] -= 1
                if space.missing[v] == 0:
                    size = _push(space, size, space.ready[v], arrays.rank[v])
    return step


@compiled(inline="always")
def _later(x: float, y: float) -> float:
    """Larger number; faster than `max`, which also checks for NaN (a third of a simulation's time)."""
    return x if x > y else y


@compiled(inline="always")
def _transfer(
    arrays: SimulatorArrays, device: IntArray, space: Workspace, t: int, home: int, there: int, end: float
) -> float:
    """Arrival of tensor `t`, complete at `end`; the first reader on a device causes the transfer."""
    if space.holds[there] == t:
        return space.arrived[t, there]
    begin = _later(space.bus_free[home], end)
    at = begin + (
        slowest_move(arrays, device, t, home) if arrays.broadcast else arrays.move_time[t, arrays.rate[home, there]]
    )
    space.bus_free[home] = at + arrays.transfer_gap
    if arrays.broadcast:
        space.holds[:] = t
        space.sent[t, :] = begin
        space.arrived[t, :] = at
    else:
        space.holds[there] = t
        space.sent[t, there] = begin
        space.arrived[t, there] = at
    return at


@compiled
def slowest_move(arrays: SimulatorArrays, device: IntArray, t: int, home: int) -> float:
    """Longest transfer of tensor `t` to any device that reads it; nodes on device -1 are left out."""
    longest = 0.0
    for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
        there = device[arrays.reader[e]]
        if there >= 0 and there != home:
            longest = _later(longest, arrays.move_time[t, arrays.rate[home, there]])
    return longest


@compiled(inline="always")
def _push(space: Workspace, size: int, time: float, rank: int) -> int:
    """Put a node into the heap of (ready, topological position); returns the new size."""
    times, ranks, i = space.heap_time, space.heap_rank, size
    while i > 0:
        above = (i - 1) >> 1
        if times[above] < time or (times[above] == time and ranks[above] < rank):
            break
        times[i], ranks[i] = times[above], ranks[above]
        i = above
    times[i], ranks[i] = time, rank
    return size + 1


@compiled(inline="always")
def _pop(space: Workspace, size: int) -> int:
    """Remove the first node of the heap; returns the new size."""
    times, ranks, size = space.heap_time, space.heap_rank, size - 1
    time, rank, i = times[size], ranks[size], 0
    while True:
        below = 2 * i + 1
        if below >= size:
            break
        right = below + 1
        if right < size and (
            times[right] < times[below] or (times[right] == times[below] and ranks[right] < ranks[below])
        ):
            below = right
        if time < times[below] or (time == times[below] and rank < ranks[below]):
            break
        times[i], ranks[i] = times[below], ranks[below]
        i = below
    times[i], ranks[i] = time, rank
    return size


@compiled
def penalised(arrays: SimulatorArrays, device: IntArray, space: Workspace) -> float:
    """Penalised time of a placement, as `Placement.penalised_time`."""
    value = simulate(arrays, device, space) / arrays.total_work
    if arrays.limited:
        peak_memory(arrays, device, space)
        for d in range(arrays.devices):
            value += arrays.overflow_weight * max(0.0, space.peak[d] / arrays.memory[d] - 1.0)
    return value


def step_times(instance: PlacementInstance, devices: ArrayLike) -> FloatArray:
    """(...) step times in the time unit of the work of one or many placements, (..., n) devices that are not checked.

    They are the same numbers as `Placement.step_time`, which checks.
    """
    rows = np.atleast_2d(np.asarray(devices, dtype=np.int64))
    return _step_times(SimulatorArrays.of(instance), rows.reshape(-1, rows.shape[-1])).reshape(np.shape(devices)[:-1])


def penalised_times(instance: PlacementInstance, devices: ArrayLike) -> FloatArray:
    """Penalised times of one or many placements; as `step_times`."""
    rows = np.atleast_2d(np.asarray(devices, dtype=np.int64))
    values = _penalised_times(SimulatorArrays.of(instance), rows.reshape(-1, rows.shape[-1]))
    return values.reshape(np.shape(devices)[:-1])


@compiled
def _step_times(arrays: SimulatorArrays, placements: IntArray) -> FloatArray:
    space = workspace(arrays)
    return np.array([simulate(arrays, placements[i], space) for i in range(len(placements))])


@compiled
def _penalised_times(arrays: SimulatorArrays, placements: IntArray) -> FloatArray:
    space = workspace(arrays)
    return np.array([penalised(arrays, placements[i], space) for i in range(len(placements))])
