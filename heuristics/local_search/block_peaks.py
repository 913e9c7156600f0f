"""Peak activation memory of single blocks of a partition that changes, compiled by numba.

Each block is a ring of its nodes in the order that they run in. A peak takes time in proportion to the nodes of the
block and their degrees; `instances.partitioning.memory` defines it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import IntArray
from instances.partitioning.kernel_arrays import KernelArrays

__all__ = ["Queues", "peak_of", "queues_of", "requeue"]


class Queues(NamedTuple):
    """The nodes of each block in the order that they run in, as rings; the ring of block b begins at n + b."""

    position: IntArray  # (n,): of each node in the order; empty where there are no rings
    following: IntArray  # (n + k,)
    previous: IntArray  # (n + k,)
    unread: IntArray  # (t,): scratch: readers to come of each tensor, or -1


@compiled
def queues_of(block: IntArray, order: IntArray, k: int, tensors: int) -> Queues:
    """Rings of all blocks; none if `order` is empty."""
    n = len(order)
    position = np.empty(n, dtype=np.int64)
    following, previous = np.empty(n + k, dtype=np.int64), np.empty(n + k, dtype=np.int64)
    for b in range(k):
        following[n + b] = previous[n + b] = n + b
    for i in range(n):
        v = order[i]
        position[v] = i
        start = n + block[v]
        last = previous[start]
        following[last], previous[v], following[v], previous[start] = v, last, start, v
    return Queues(position, following, previous, np.full(tensors if n > 0 else 0, -1))


@compiled(allocates=False)
def requeue(v: int, b: int, queues: Queues) -> None:
    """Take node `v` from its ring into that of block `b`."""
    n = len(queues.position)
    before, after = queues.previous[v], queues.following[v]
    queues.following[before], queues.previous[after] = after, before
    before = queues.previous[n + b]
    while before < n and queues.position[before] > queues.position[v]:
        before = queues.previous[before]
    after = queues.following[before]
    queues.following[before], queues.previous[v], queues.following[v], queues.previous[after] = v, before, after, v


@compiled(allocates=False)
def peak_of(b: int, block: IntArray, reads: NDArray[np.int32], queues: Queues, arrays: KernelArrays) -> float:
    """Peak of block `b` [bytes]; ``reads[t, b]`` are the readers of tensor t in it."""
    n, unread = len(queues.position), queues.unread
    live = peak = 0.0
    v = queues.following[n + b]
    while v < n:
        for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
            live += arrays.tensor_bytes[t]
            unread[t] = reads[t, b]
        for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
            t = arrays.input_tensor[e]
            if unread[t] < 0:  # comes from outside
                live += arrays.tensor_bytes[t]
                unread[t] = reads[t, b]
        peak = max(peak, live)
        for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
            if unread[t] == 0:
                live -= arrays.tensor_bytes[t]
                unread[t] = -1
        for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
            t = arrays.input_tensor[e]
            unread[t] -= 1
            if unread[t] == 0:
                live -= arrays.tensor_bytes[t]
                unread[t] = -1
        v = queues.following[v]
    return peak
