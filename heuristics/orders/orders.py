"""Topological orders by priorities, and kernels that cut them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from instances import ComputationGraph, InputError
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.peaks import KernelArrays

# Costs of the segments of an order, grown node by node, compiled by numba; see `heuristics.orders.slicing`.


@compiled
def segment_costs_kernel(order: IntArray, arrays: KernelArrays) -> FloatArray:
    """(n, n) cost of every segment, as `heuristics.orders.slicing.segment_costs`."""
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
    """Arrays that `add_node` and `add_memory` update: two rows of differences, states of tensors and of parameters."""
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
    """Extend all segments by the parameter bytes of node `v` at position `r`; return the change of the sum of `memory`.

    A shared parameter counts once in a segment.
    """
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
    """Time to stream the bytes that the segment from l to r needs beyond the memory [time unit]."""
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


# Kernels that decode orders, slice them and measure their edges, compiled by numba.


@compiled
def decode(priorities: FloatArray, k: int, arrays: KernelArrays) -> FloatArray:
    """Bottlenecks of the best slicing of the Kahn order of each row of `priorities` (MTPP, Algorithm 2).

    Parameters
    ----------
    priorities : (p, n) floats

    Returns
    -------
    (p,) floats
    """
    values = np.empty(len(priorities))
    order = np.empty(priorities.shape[1], dtype=np.int64)
    for i in range(len(priorities)):
        kahn_kernel(arrays.successor_start, arrays.successor, arrays.indegree, priorities[i], order)
        if arrays.is_constrained:
            best, _ = slice_within(by_window(order, arrays), k, arrays)
        else:
            best, _ = slice_kernel(order, k, arrays)
        values[i] = best[-1, k]
    return values


@compiled
def by_window(order: IntArray, arrays: KernelArrays) -> IntArray:
    """(n,) the order, sorted by windows of blocks; it stays topological, as windows rise along edges."""
    key = (arrays.first + arrays.last) * (1 + arrays.first.max()) + arrays.first
    return order[np.argsort(key[order], kind="mergesort")]


@compiled
def edge_lengths(keys: FloatArray, edges: IntArray, weight: FloatArray, arrays: KernelArrays) -> FloatArray:
    """Sum of weighted edge lengths in the Kahn order of each row of `keys`."""
    n = keys.shape[1]
    lengths = np.zeros(len(keys))
    order = np.empty(n, dtype=np.int64)
    position = np.empty(n, dtype=np.int64)
    for i in range(len(keys)):
        kahn_kernel(arrays.successor_start, arrays.successor, arrays.indegree, keys[i], order)
        for p in range(n):
            position[order[p]] = p
        for e in range(len(edges)):
            lengths[i] += weight[e] * (position[edges[e, 1]] - position[edges[e, 0]])
    return lengths


@compiled
def slice_kernel(order: IntArray, k: int, arrays: KernelArrays) -> tuple[FloatArray, IntArray]:
    """Return ``best`` and ``cut``, (n + 1, k + 1) each.

    They are the recursion of `heuristics.orders.slicing` and the start of the last segment of its minimiser.
    """
    n = len(order)
    peaks = segment_peaks(order, arrays)
    row, memory, last_read, produced_at, unread, last_use = start_rows(n, arrays)
    best = np.full((n + 1, k + 1), math.inf)
    best[0] = 0.0
    cut = np.zeros((n + 1, k + 1), dtype=np.int64)
    prefix = prefix_memory = 0.0
    for r in range(n):
        prefix += add_node(r, order[r], arrays, row, last_read, produced_at, unread)
        prefix_memory += add_memory(r, order[r], arrays, memory, last_use)
        best[r + 1, 1:] = prefix + overflow_time(0, r, prefix_memory, peaks, arrays)
        cost = used = work = 0.0
        active = k
        for l in range(r, 0, -1):  # noqa: E741 - the index letter of the paper
            cost += row[l]
            used += memory[l]
            work += arrays.work[order[l]]
            while active > 1 and work >= best[r + 1, active]:
                active -= 1
            if active == 1:
                break
            total = cost + overflow_time(l, r, used, peaks, arrays)
            for b in range(2, active + 1):
                value = max(best[l, b - 1], total)
                if value < best[r + 1, b]:
                    best[r + 1, b] = value
                    cut[r + 1, b] = l
    return best, cut


@compiled
def slice_within(order: IntArray, k: int, arrays: KernelArrays) -> tuple[FloatArray, IntArray]:
    """Best slicings under windows and `at_least` rules; segment b is block b, which is empty only if no rule exists.

    Returns
    -------
    tuple
        ``best[r, b]``, (n + 1, k + 1) floats: least bottleneck of the first r nodes in blocks 0 to b - 1, infinite if
        impossible; and ``cut[r, b]``, (n + 1, k + 1) integers, the start of block b - 1 there.
    """
    n, q = len(order), len(arrays.least)
    peaks = segment_peaks(order, arrays)
    row, memory, last_read, produced_at, unread, last_use = start_rows(n, arrays)
    best = np.full((n + 1, k + 1), math.inf)
    cut = np.zeros((n + 1, k + 1), dtype=np.int64)
    may_be_empty = not (arrays.least > 0).any()
    best[0, : k + 1 if may_be_empty else 1] = 0.0
    counts = np.zeros(q, dtype=np.int64)
    for r in range(n):
        add_node(r, order[r], arrays, row, last_read, produced_at, unread)
        add_memory(r, order[r], arrays, memory, last_use)
        cost = used = 0.0
        low, high = 0, k - 1
        counts[:] = 0
        for l in range(r, -1, -1):  # noqa: E741 - the index letter of the paper
            v = order[l]
            cost += row[l]
            used += memory[l]
            low, high = max(low, arrays.first[v]), min(high, arrays.last[v])
            if low > high:
                break
            enough = True
            for i in range(q):
                counts[i] += arrays.counted[i, v]
                enough = enough and counts[i] >= arrays.least[i]
            if not enough:
                continue
            total = cost + overflow_time(l, r, used, peaks, arrays)
            for b in range(low, high + 1):
                value = max(best[l, b], total)
                if value < best[r + 1, b + 1]:
                    best[r + 1, b + 1] = value
                    cut[r + 1, b + 1] = l
        if may_be_empty:
            for b in range(k):
                if best[r + 1, b] < best[r + 1, b + 1]:
                    best[r + 1, b + 1] = best[r + 1, b]
                    cut[r + 1, b + 1] = r + 1
    return best, cut


@compiled
def kahn_kernel(
    start: IntArray, successor: IntArray, indegree: IntArray, priority: FloatArray, order: IntArray
) -> None:
    """Write the order of Kahn's algorithm into `order`."""
    n = len(order)
    missing = indegree.copy()
    heap = np.empty(n, dtype=np.int64)
    size = 0
    for v in range(n):
        if missing[v] == 0:
            size = _push(heap, size, priority, v)
    for position in range(n):
        u = heap[0]
        size = _pop(heap, size, priority)
        order[position] = u
        for e in range(start[u], start[u + 1]):
            v = successor[e]
            missing[v] -= 1
            if missing[v] == 0:
                size = _push(heap, size, priority, v)


@compiled(inline="always")
def _before(priority: FloatArray, u: int, v: int) -> bool:
    return priority[u] > priority[v] or (priority[u] == priority[v] and u < v)


@compiled
def _push(heap: IntArray, size: int, priority: FloatArray, v: int) -> int:
    i = size
    while i > 0:
        parent = (i - 1) // 2
        if not _before(priority, v, heap[parent]):
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = v
    return size + 1


@compiled
def _pop(heap: IntArray, size: int, priority: FloatArray) -> int:
    size -= 1
    v = heap[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and _before(priority, heap[child + 1], heap[child]):
            child += 1
        if not _before(priority, heap[child], v):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = v
    return size


# Topological orders from node priorities (MTPP, Algorithm 3).


def kahn(graph: ComputationGraph, priority: ArrayLike) -> IntArray:
    """Kahn's algorithm: always run the ready node of highest priority.

    Parameters
    ----------
    graph : ComputationGraph
        Its edges say which nodes are ready.
    priority : (n,) floats
        Ties go to the smallest index.

    Returns
    -------
    (n,) integers
        A topological order.

    Raises
    ------
    InputError
        If there is not one finite priority per node.

    References
    ----------
    MTPP, Algorithm 3 (KahnWithNodePriorities); O(m + n log n).

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 2)], work=[1, 1, 1])
    >>> kahn(graph, [0, 1, 2]).tolist()
    [1, 0, 2]
    """
    values = np.asarray(priority, dtype=np.float64)
    if values.shape != (graph.n,) or not np.isfinite(values).all():
        raise InputError(f"Give one finite priority for each of the {graph.n} nodes.")
    order = np.empty(graph.n, dtype=np.int64)
    indegree = np.bincount(graph.edges[:, 1], minlength=graph.n)
    kahn_kernel(*graph.successors, indegree, values, order)
    return order
