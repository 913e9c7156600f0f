"""Costs of the segments of an order, grown node by node, compiled by numba; see `heuristics.orders.slicing`."""

from __future__ import annotations

import math

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays

__all__ = ["add_memory", "add_node", "overflow_time", "segment_costs_kernel", "segment_peaks", "start_rows"]


@compiled
def segment_costs_kernel(order: IntArray, arrays: KernelArrays) -> FloatArray:
    """See `heuristics.orders.slicing.segment_costs`."""
    n = len(order)
    peaks = segment_peaks(order, arrays)
    row, memory, last_read, produced_at, unread, last_use = start_rows(n, arrays)
    costs = np.zeros((n, n))
    for r in range(n):
        add_node(r, order[r], arrays, row, last_read, produced_at, unread)
        add_memory(r, order[r], arrays, memory, last_use)
        cost = used = 0.0
        for l in range(r, -1, -1):  # noqa: E741 - the index letter of the paper
            cost += row[l]
            used += memory[l]
            costs[l, r] = cost + overflow_time(l, r, used, peaks, arrays)
    return costs


@compiled
def start_rows(n: int, arrays: KernelArrays) -> tuple[FloatArray, FloatArray, IntArray, IntArray, IntArray, IntArray]:
    """Allocate what `add_node` and `add_memory` change: two rows of differences, states of tensors and parameters."""
    tensors = len(arrays.tensor_time)
    return (
        np.zeros(n),
        np.zeros(n),
        np.empty(tensors, dtype=np.int64),
        np.empty(tensors, dtype=np.int64),
        arrays.readers.copy(),
        np.full(len(arrays.shared_bytes), -1),
    )


@compiled
def add_node(
    r: int,
    v: int,
    arrays: KernelArrays,
    row: FloatArray,
    last_read: IntArray,
    produced_at: IntArray,
    unread: IntArray,
) -> float:
    """Extend all segments by node `v` at position `r`; return the change of the sum of `row`."""
    row[r] = arrays.work[v]
    change = arrays.work[v]
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        t = arrays.input_tensor[e]
        time = arrays.tensor_time[t]
        row[r] += time
        row[last_read[t]] -= time
        last_read[t] = r
        unread[t] -= 1
        if unread[t] == 0:
            row[produced_at[t]] -= time
            change -= time
    for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
        last_read[t] = produced_at[t] = r
        if unread[t] > 0:
            row[r] += arrays.tensor_time[t]
            change += arrays.tensor_time[t]
    return change


@compiled
def add_memory(r: int, v: int, arrays: KernelArrays, memory: FloatArray, last_use: IntArray) -> float:
    """The same for parameter bytes; a shared parameter counts once in a segment."""
    memory[r] = arrays.held_bytes[v]
    change = arrays.held_bytes[v]
    for e in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
        g = arrays.shared[e]
        memory[r] += arrays.shared_bytes[g]
        if last_use[g] >= 0:
            memory[last_use[g]] -= arrays.shared_bytes[g]
        else:
            change += arrays.shared_bytes[g]
        last_use[g] = r
    return change


@compiled(inline="always")
def overflow_time(l: int, r: int, params: float, peaks: FloatArray, arrays: KernelArrays) -> float:  # noqa: E741
    """Time of what the segment from l to r holds beyond the memory."""
    if arrays.memory == math.inf:
        return 0.0
    peak = peaks[l, r] if arrays.needs_peaks else arrays.activation_buffer
    excess = params + peak - arrays.memory
    return arrays.overflow_step + excess / arrays.overflow_bandwidth if excess > 0.0 else 0.0


@compiled
def segment_peaks(order: IntArray, arrays: KernelArrays) -> FloatArray:
    """Peak activation memory of every segment, (n, n), or nothing where no cost depends on it.

    While r grows at fixed l, a tensor read at r becomes live on the steps since its last touch in the
    segment; a live sum only grows, so the running maximum needs only the steps that change.
    """
    if not arrays.needs_peaks:
        return np.zeros((0, 0))
    n = len(order)
    peaks = np.zeros((n, n))
    live = np.empty(n)
    for l in range(n):  # noqa: E741 - the index letter of the paper
        last = np.full(len(arrays.tensor_bytes), -1)
        peak = 0.0
        for r in range(l, n):
            v = order[r]
            live[r] = 0.0
            for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
                live[r] += arrays.tensor_bytes[t]
                last[t] = r
            for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
                t = arrays.input_tensor[e]
                live[r] += arrays.tensor_bytes[t]
                if last[t] >= 0:
                    for p in range(last[t] + 1, r):
                        live[p] += arrays.tensor_bytes[t]
                        peak = max(peak, live[p])
                last[t] = r
            peak = max(peak, live[r])
            peaks[l, r] = peak
    return peaks
