"""The peak memory of `instances.placement.timeline`, compiled by numba."""

from __future__ import annotations

import numpy as np

from heuristics.placement.arrays import SimulatorArrays, Workspace
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray

__all__ = ["peak_memory"]


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
    held = _held(arrays, device)
    space.peak[:] = held
    freed, by_finish = 0, np.argsort(finish[:count])
    for i in np.argsort(begin[:count]):
        while finish[by_finish[freed]] <= begin[i]:
            held[place[by_finish[freed]]] -= amount[by_finish[freed]]
            freed += 1
        held[place[i]] += amount[i]
        space.peak[place[i]] = max(space.peak[place[i]], held[place[i]])


@compiled
def _held(arrays: SimulatorArrays, device: IntArray) -> FloatArray:
    """Parameters, shared ones once, and states on each device."""
    held = np.zeros(arrays.devices)
    for v in range(len(device)):
        if device[v] >= 0:
            held[device[v]] += arrays.held_bytes[v]
    seen = np.full(arrays.devices, -1)
    for p in range(len(arrays.shared_bytes)):
        for e in range(arrays.shared_start[p], arrays.shared_start[p + 1]):
            d = device[arrays.shared_user[e]]
            if d >= 0 and seen[d] != p:
                seen[d] = p
                held[d] += arrays.shared_bytes[p]
    return held
