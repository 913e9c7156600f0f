"""State of a local search: blocks, their costs and peaks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.peaks import KernelArrays

# Peak activation memory of single blocks of a partition that changes, compiled by numba.
#
# Each block is a ring of its nodes in the order that they run in. A peak takes time in proportion to the nodes of the
# block and their degrees; `instances.partitioning.memory` defines it.


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
    """Move node `v` from its ring into the ring of block `b`."""
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


# A partition that changes node by node, with the sums that its costs are made of, compiled by numba.
#
# For each tensor the readers in each block are counted. Then a move changes the cost of two blocks alone, in time
# proportional to the degree of the node: a third block that sends to the node sends to one of the two before and after.


class PartitionState(NamedTuple):
    """A partition with the sums that its costs are made of, and the best one of the walk so far.

    Blocks keep their index while their order changes.

    Parameters
    ----------
    block : (n,) integers
    size : (k,) integers
        Nodes in each block.
    time : (k,) floats
        Cost of each block without overflow.
    resident : (k,) floats
        Parameter bytes of each block.
    peak : (k,) floats
        Activation memory of each block that has nodes [bytes].
    reads : (t, k) integers
        Readers of each tensor in each block.
    uses : (g, k) integers
        Users of each shared parameter in each block.
    members, place, end : (n,), (n,), (k,) integers
        The nodes sorted by block, where each node stands there, and where each block ends.
    rank, at : (k,), (k,) integers
        The place of each block in the order of the blocks, and the block at each place.
    queues : Queues
        The nodes of each block in the order that they run in; empty where peaks do not matter.
    best : (1,) floats
        The smallest bottleneck seen.
    best_block, best_rank : (n,), (k,) integers
        Blocks of the best partition, and their places in the row.
    """

    block: IntArray
    size: IntArray
    time: FloatArray
    resident: FloatArray
    peak: FloatArray
    reads: NDArray[np.int32]
    uses: NDArray[np.int32]
    members: IntArray
    place: IntArray
    end: IntArray
    rank: IntArray
    at: IntArray
    queues: Queues
    best: FloatArray
    best_block: IntArray
    best_rank: IntArray


@compiled
def start_state(block: IntArray, order: IntArray, k: int, arrays: KernelArrays) -> PartitionState:
    """State of a partition given by `block`; each block runs its nodes in `order`."""
    n = len(block)
    time, resident_bytes = np.zeros(k), np.zeros(k)
    reads = np.zeros((len(arrays.tensor_time), k), dtype=np.int32)
    uses = np.zeros((len(arrays.shared_bytes), k), dtype=np.int32)
    size = np.zeros(k, dtype=np.int64)
    for v in range(n):
        b = block[v]
        size[b] += 1
        time[b] += arrays.work[v]
        resident_bytes[b] += arrays.held_bytes[v]
        for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
            reads[arrays.input_tensor[e], b] += 1
        for e in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
            g = arrays.shared[e]
            if uses[g, b] == 0:
                resident_bytes[b] += arrays.shared_bytes[g]
            uses[g, b] += 1
    for t in range(len(reads)):
        home = block[arrays.producer[t]]
        if reads[t, home] < arrays.readers[t]:
            time[home] += arrays.tensor_time[t]
        for b in range(k):
            if b != home and reads[t, b] > 0:
                time[b] += arrays.tensor_time[t]
    members, place = np.argsort(block), np.empty(n, dtype=np.int64)
    for i in range(n):
        place[members[i]] = i
    queues = queues_of(block, order if arrays.needs_peaks else order[:0], k, len(reads))
    peak = np.full(k, arrays.activation_buffer)
    if arrays.needs_peaks:
        for b in range(k):
            peak[b] = peak_of(b, block, reads, queues, arrays)
    state = PartitionState(
        block=block.copy(),
        size=size,
        time=time,
        resident=resident_bytes,
        peak=peak,
        reads=reads,
        uses=uses,
        members=members,
        place=place,
        end=np.cumsum(size),
        rank=np.arange(k),
        at=np.arange(k),
        queues=queues,
        best=np.zeros(1),
        best_block=block.copy(),
        best_rank=np.arange(k),
    )
    for b in range(k):
        state.best[0] = max(state.best[0], cost_of(b, state, arrays))
    return state


@compiled(allocates=False)
def places_for(
    v: int, state: PartitionState, arrays: KernelArrays, before_start: IntArray, before: IntArray
) -> tuple[int, int]:
    """First and last position in the row of blocks that node `v` can move to while all other nodes stay.

    `before_start` and `before` are the predecessors in compressed rows.
    """
    low, high = arrays.first[v], min(arrays.last[v], len(state.time) - 1)
    for e in range(before_start[v], before_start[v + 1]):
        low = max(low, state.rank[state.block[before[e]]])
    for e in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
        high = min(high, state.rank[state.block[arrays.successor[e]]])
    return low, high


@compiled(allocates=False)
def is_missed(v: int, w: int, a: int, b: int, state: PartitionState, arrays: KernelArrays) -> bool:
    """Whether moving `v` from block a to b, and `w` back unless it is `v`, breaks an `at_least` rule of a or b."""
    for i in range(len(arrays.least)):
        change = arrays.counted[i, v] - (arrays.counted[i, w] if w != v else 0)
        if change > 0 and _count(i, a, state, arrays) - change < arrays.least[i]:
            return True
        if change < 0 and _count(i, b, state, arrays) + change < arrays.least[i]:
            return True
    return False


@compiled(allocates=False)
def _count(i: int, b: int, state: PartitionState, arrays: KernelArrays) -> int:
    count = 0
    for j in range(state.end[b] - state.size[b], state.end[b]):
        count += arrays.counted[i, state.members[j]]
    return count


@compiled(allocates=False)
def times_after(v: int, a: int, b: int, state: PartitionState, arrays: KernelArrays) -> tuple[float, float]:
    """Costs without overflow of blocks a and b once v has moved from a to b."""
    time_a = state.time[a] - arrays.work[v]
    time_b = state.time[b] + arrays.work[v]
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        t = arrays.input_tensor[e]
        home = state.block[arrays.producer[t]]
        if home == a:
            if state.reads[t, a] == arrays.readers[t]:  # nobody else: a starts to send
                time_a += arrays.tensor_time[t]
        elif state.reads[t, a] == 1:
            time_a -= arrays.tensor_time[t]
        if home == b:
            if state.reads[t, b] == arrays.readers[t] - 1:  # only v was elsewhere: b stops sending
                time_b -= arrays.tensor_time[t]
        elif state.reads[t, b] == 0:
            time_b += arrays.tensor_time[t]
    for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
        if state.reads[t, a] < arrays.readers[t]:
            time_a -= arrays.tensor_time[t]
        if state.reads[t, b] < arrays.readers[t]:
            time_b += arrays.tensor_time[t]
        if state.reads[t, a] > 0:
            time_a += arrays.tensor_time[t]
        if state.reads[t, b] > 0:
            time_b -= arrays.tensor_time[t]
    return time_a, time_b


@compiled(allocates=False)
def move(v: int, a: int, b: int, times: tuple[float, float], state: PartitionState, arrays: KernelArrays) -> None:
    """Move `v` from block a to block b, but leave `members` to `settle`; `times` are the new costs without overflow."""
    state.block[v] = b
    state.size[a] -= 1
    state.size[b] += 1
    state.time[a], state.time[b] = times
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        t = arrays.input_tensor[e]
        state.reads[t, a] -= 1
        state.reads[t, b] += 1
    if arrays.memory < math.inf:
        state.resident[a] -= arrays.held_bytes[v]
        state.resident[b] += arrays.held_bytes[v]
        for e in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
            g = arrays.shared[e]
            state.uses[g, a] -= 1
            state.uses[g, b] += 1
            if state.uses[g, a] == 0:
                state.resident[a] -= arrays.shared_bytes[g]
            if state.uses[g, b] == 1:
                state.resident[b] += arrays.shared_bytes[g]
    if arrays.needs_peaks:
        requeue(v, b, state.queues)


@compiled(allocates=False)
def settle(v: int, a: int, b: int, state: PartitionState) -> None:
    """Sort `v`, which has moved from a to b, among the members of b; takes time |a − b|."""
    while a < b:
        _stand_at(v, state.end[a] - 1, state)
        state.end[a] -= 1
        a += 1
    while a > b:
        _stand_at(v, state.end[a - 1], state)
        state.end[a - 1] += 1
        a -= 1


@compiled(allocates=False)
def _stand_at(v: int, i: int, state: PartitionState) -> None:
    u, j = state.members[i], state.place[v]
    state.members[j], state.place[u] = u, j
    state.members[i], state.place[v] = v, i


@compiled(allocates=False)
def cost_of(b: int, state: PartitionState, arrays: KernelArrays) -> float:
    """Cost of block b; an empty one has no overflow."""
    if state.size[b] == 0 or arrays.memory == math.inf:
        return state.time[b]
    excess = state.resident[b] + state.peak[b] - arrays.memory
    return state.time[b] + (arrays.overflow_step + excess / arrays.overflow_bandwidth if excess > 0.0 else 0.0)
