"""Step times and peaks of memory of many placements, compiled by numba."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray, compressed_rows
from instances.placement.problem import OVERFLOW_WEIGHT, PlacementInstance

# Placement instances as plain arrays, and room to simulate them, for `simulator`.


class SimulatorArrays(NamedTuple):
    """A placement instance as plain arrays."""

    work: FloatArray  # (n,): on the fastest device
    node_time: FloatArray  # (n, T): on a device of each kind
    kind: IntArray  # (k,): which column of `node_time` a device has
    output_start: IntArray  # (n + 1,): tensors of node u: ``output_start[u]:output_start[u + 1]``
    reader_start: IntArray  # (t + 1,): readers of tensor t: ``reader[reader_start[t]:reader_start[t + 1]]``
    reader: IntArray  # (m,)
    inputs: IntArray  # (n,): number of tensors that each node reads
    order: IntArray  # (n,): a topological order
    rank: IntArray  # (n,): its inverse
    tensor_time: FloatArray  # (t,): between the best connected devices
    move_time: FloatArray  # (t, r): at each rate
    rate: NDArray[np.int16]  # (k, k): which column of `move_time` a pair of devices has
    tensor_bytes: FloatArray  # (t,)
    held_bytes: FloatArray  # (n,): own parameters and state of each node
    shared_bytes: FloatArray  # of parameters with several users
    shared_start: IntArray  # their users in compressed rows
    shared_user: IntArray
    devices: int
    node_gap: float
    transfer_gap: float
    broadcast: bool
    memory: FloatArray  # (k,)
    limited: bool  # whether some memory is finite
    overflow_weight: float
    total_work: float

    @classmethod
    def of(cls, instance: PlacementInstance) -> SimulatorArrays:
        """Flatten `instance`."""
        graph, k = instance.graph, instance.devices
        uses = [(p, user) for p, parameter in enumerate(graph.parameters) for user in parameter.users]
        parameter, user = np.array(uses, dtype=np.int64).reshape(-1, 2).T
        shared_start, shared_user = compressed_rows(parameter, user, len(graph.parameters))
        rates, rate = np.unique(instance.rates, return_inverse=True)
        return cls(
            work=instance.work / instance.speeds.max(),
            node_time=np.ascontiguousarray(instance.times.T),
            kind=instance.kind,
            output_start=graph.output_start,
            reader_start=graph.tensors.start,
            reader=graph.tensors.consumers,
            inputs=np.diff(graph.inputs[0]),
            order=graph.topological_order.copy(),  # a partition lets that of the graph be read-only, another type
            rank=np.argsort(graph.topological_order),
            tensor_time=instance.tensor_time,
            move_time=graph.tensors.bytes[:, None] / rates,
            rate=rate.reshape(instance.rates.shape).astype(np.int16)[np.ix_(instance.kind, instance.kind)],
            tensor_bytes=graph.tensors.bytes,
            held_bytes=graph.held_bytes,
            shared_bytes=np.array([parameter.bytes for parameter in graph.parameters], dtype=np.float64),
            shared_start=shared_start,
            shared_user=shared_user,
            devices=k,
            node_gap=float(instance.node_gap),
            transfer_gap=float(instance.transfer_gap),
            broadcast=bool(instance.broadcast),
            memory=instance.memories,
            limited=bool(np.isfinite(instance.memories).any()),
            overflow_weight=OVERFLOW_WEIGHT,
            total_work=instance.total_work,
        )


class Workspace(NamedTuple):
    """Arrays that a simulation writes."""

    start: FloatArray  # (n,): when each node starts
    end: FloatArray  # (n,): when each node ends
    # (t, k): when the transfer of a tensor to a device starts and ends; meaningful where the tensor is read there.
    sent: FloatArray
    arrived: FloatArray
    peak: FloatArray  # (k,): peak memory of each device, if `peak_memory` was called
    # The rest is scratch.
    ready: FloatArray
    missing: IntArray
    heap_time: FloatArray
    heap_rank: IntArray
    device_free: FloatArray
    bus_free: FloatArray
    holds: IntArray


@compiled
def workspace(arrays: SimulatorArrays) -> Workspace:
    """Room for the simulations of one instance."""
    n, t, k = len(arrays.work), len(arrays.tensor_time), arrays.devices
    return Workspace(
        start=np.zeros(n),
        end=np.zeros(n),
        sent=np.zeros((t, k)),
        arrived=np.zeros((t, k)),
        peak=np.zeros(k),
        ready=np.zeros(n),
        missing=np.zeros(n, dtype=np.int64),
        heap_time=np.zeros(n),
        heap_rank=np.zeros(n, dtype=np.int64),
        device_free=np.zeros(k),
        bus_free=np.zeros(k),
        holds=np.zeros(k, dtype=np.int64),
    )


# The peak memory of `instances.placement.placement`, compiled by numba.


@compiled
def peak_memory(arrays: SimulatorArrays, device: IntArray, space: Workspace) -> None:
    """Fill `peak` of `space` after a simulation; nodes on device -1 are left out."""
    t_count, k = len(arrays.tensor_time), arrays.devices
    room = t_count + len(arrays.reader)
    begin, finish, amount = np.empty(room), np.empty(room), np.empty(room)
    place = np.empty(room, dtype=np.int64)
    last_read = np.empty(k)
    count = 0
    for u in range(len(arrays.work)):
        home = device[u]
        if home < 0:
            continue
        for t in range(arrays.output_start[u], arrays.output_start[u + 1]):
            last_read[:] = -1.0
            until = space.end[u]
            for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
                v = arrays.reader[e]
                if device[v] < 0:
                    continue
                last_read[device[v]] = max(last_read[device[v]], space.end[v])
                until = max(until, space.end[v] if device[v] == home else space.arrived[t, device[v]])
            for d in range(k):
                if d != home and last_read[d] < 0.0:
                    continue
                begin[count] = space.start[u] if d == home else space.sent[t, d]
                finish[count] = until if d == home else last_read[d]
                amount[count], place[count] = arrays.tensor_bytes[t], d
                count += finish[count] > begin[count]
    resident = _resident_bytes(arrays, device)
    space.peak[:] = resident
    freed, by_finish = 0, np.argsort(finish[:count])
    for i in np.argsort(begin[:count]):
        while finish[by_finish[freed]] <= begin[i]:
            resident[place[by_finish[freed]]] -= amount[by_finish[freed]]
            freed += 1
        resident[place[i]] += amount[i]
        space.peak[place[i]] = max(space.peak[place[i]], resident[place[i]])


@compiled
def _resident_bytes(arrays: SimulatorArrays, device: IntArray) -> FloatArray:
    """Parameters, shared ones once, and states on each device."""
    resident = np.zeros(arrays.devices)
    for v in range(len(device)):
        if device[v] >= 0:
            resident[device[v]] += arrays.held_bytes[v]
    seen = np.full(arrays.devices, -1)
    for p in range(len(arrays.shared_bytes)):
        for e in range(arrays.shared_start[p], arrays.shared_start[p + 1]):
            d = device[arrays.shared_user[e]]
            if d >= 0 and seen[d] != p:
                seen[d] = p
                resident[d] += arrays.shared_bytes[p]
    return resident


# The step time of `instances.placement.placement`, compiled by numba: 10 microseconds for a hundred nodes.
#
# No queue of events is needed. Nodes are taken from a heap by (time when ready, topological position), and all
# consequences of a node are computed at once. A node becomes ready no earlier than the ends of those that it reads
# from, and comes later in the topological order; so nodes leave the heap in the order in which they become ready, each
# device serves them first come, first served, and each bus gets its transfers in the order of the ends of nodes on its
# device.
#
# In other kernels: make `arrays = SimulatorArrays.of(instance)` and `space = workspace(arrays)` once, then call
# ``simulate(arrays, device, space)``, which leaves ``space.start`` and ``space.end`` of the nodes behind, or
# ``penalised(arrays, device, space)``, which also looks at the memory.


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
        work = arrays.node_time[u, arrays.kind[home]]
        end = start + work
        space.start[u], space.end[u] = start, end
        space.device_free[home] = end + arrays.node_gap if work > 0.0 else end
        step = _later(step, end)
        for t in range(arrays.output_start[u], arrays.output_start[u + 1]):
            for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
                v = arrays.reader[e]
                target = device[v]
                if target < 0:
                    continue
                at = end if target == home else _transfer(arrays, device, space, t, home, target, end)
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
    arrays: SimulatorArrays, device: IntArray, space: Workspace, t: int, home: int, target: int, end: float
) -> float:
    """Arrival of tensor `t`, complete at `end`; the first reader on a device causes the transfer."""
    if space.holds[target] == t:
        return space.arrived[t, target]
    begin = _later(space.bus_free[home], end)
    at = begin + (
        slowest_move(arrays, device, t, home) if arrays.broadcast else arrays.move_time[t, arrays.rate[home, target]]
    )
    space.bus_free[home] = at + arrays.transfer_gap
    if arrays.broadcast:
        space.holds[:] = t
        space.sent[t, :] = begin
        space.arrived[t, :] = at
    else:
        space.holds[target] = t
        space.sent[t, target] = begin
        space.arrived[t, target] = at
    return at


@compiled
def slowest_move(arrays: SimulatorArrays, device: IntArray, t: int, home: int) -> float:
    """Longest transfer of tensor `t` to any device that reads it; nodes on device -1 are left out."""
    longest = 0.0
    for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
        target = device[arrays.reader[e]]
        if target >= 0 and target != home:
            longest = _later(longest, arrays.move_time[t, arrays.rate[home, target]])
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
    """Penalised time of a placement, relative to its total work, as `Placement.penalised_time`."""
    value = simulate(arrays, device, space) / arrays.total_work
    if arrays.limited:
        peak_memory(arrays, device, space)
        for d in range(arrays.devices):
            value += arrays.overflow_weight * max(0.0, space.peak[d] / arrays.memory[d] - 1.0)
    return value


def step_times(instance: PlacementInstance, devices: ArrayLike) -> FloatArray:
    """(...) step times of one or many placements [time unit of the graph], from (..., n) devices that are not checked.

    They are the same numbers as `Placement.step_time`, which checks.
    """
    rows = np.atleast_2d(np.array(devices, dtype=np.int64))
    return _step_times(SimulatorArrays.of(instance), rows.reshape(-1, rows.shape[-1])).reshape(np.shape(devices)[:-1])


def penalised_times(instance: PlacementInstance, devices: ArrayLike) -> FloatArray:
    """Penalised times of one or many placements; as `step_times`."""
    rows = np.atleast_2d(np.array(devices, dtype=np.int64))
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
