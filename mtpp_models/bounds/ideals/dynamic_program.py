"""The dynamic program over ideals, compiled by numba."""

from __future__ import annotations

import math

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays
from mtpp_models.bounds.ideals.lattice import Lattice, Words, contains, has, meets

__all__ = ["extend_chains", "first_blocks"]


@compiled
def first_blocks(arrays: KernelArrays, lattice: Lattice, upper: FloatArray) -> tuple[FloatArray, IntArray]:
    """Chains of one block.

    For each number of blocks, only bottlenecks below `upper`, (k + 1,), are of interest; it is 0 where none is.
    Returned are ``best``, (c, k + 1), the smallest bottleneck of a chain in at most b blocks from the empty ideal,
    infinite where it is of no interest; and the ideal before its last block, (c, k + 1).
    """
    count, k = len(lattice.ideals), len(upper) - 1
    best = np.full((count, k + 1), math.inf)
    before = np.full((count, k + 1), -1)
    best[0] = 0.0
    for j in range(1, count):
        cost = lattice.work[j] + lattice.cut[j] + _overflow(lattice.held[j], arrays)
        if cost < upper.max():
            best[j, 1:] = cost
            before[j, 1:] = 0
    return best, before


@compiled
def extend_chains(
    arrays: KernelArrays,
    readers: Words,
    users: Words,
    lattice: Lattice,
    upper: FloatArray,
    first: int,
    steps: int,
    best: FloatArray,
    before: IntArray,
) -> int:
    """Add a block behind the ideals from `first` on, in `best` and `before`, until `steps` covers were looked at.

    The answer is the ideal to go on with; past the last but one, all is done.
    """
    ideals, work, cut, _, rest, start, node, above = lattice
    count, k = len(ideals), len(upper) - 1
    total = work[count - 1]
    words = ideals.shape[1]
    stamp = np.full(count, -1)
    received, kept, added = np.empty(count), np.empty(count), np.empty(count)
    queue = np.empty(count, dtype=np.int64)
    block = np.empty(words, dtype=np.uint64)
    looked = 0
    for i in range(first, count - 1):
        if looked > steps:
            return i
        # The last block reads what is cut behind i and sends nothing.
        remaining = total - work[i]
        closing = remaining + cut[i] + _overflow(rest[i], arrays)
        for b in range(2, k + 1):
            value = max(best[i, b - 1], closing)
            if value < best[count - 1, b]:
                best[count - 1, b] = value
                before[count - 1, b] = i
        # A block between needs one more behind it, and the blocks left must have room for the work left.
        limit = 0.0
        for b in range(3, k + 1):
            fewest = 1
            while fewest < b - 1 and best[i, fewest] >= upper[b]:
                fewest += 1
            if best[i, fewest] < upper[b] and remaining < (b - fewest) * upper[b]:
                limit = max(limit, upper[b])
        if limit == 0.0:
            continue
        stamp[i], received[i], kept[i], added[i] = i, 0.0, cut[i], 0.0
        queue[0], size, head = i, 1, 0
        while head < size:
            inner = queue[head]
            head += 1
            for word in range(words):
                block[word] = ideals[inner, word] & ~ideals[i, word]
            for e in range(start[inner], start[inner + 1]):
                j = above[e]
                looked += 1
                if stamp[j] == i or j == count - 1:
                    continue
                stamp[j] = i
                v = node[e]
                got, keep = received[inner], kept[inner]
                for f in range(arrays.input_start[v], arrays.input_start[v + 1]):
                    t = arrays.input_tensor[f]
                    if has(ideals[i], arrays.producer[t]):
                        if not meets(readers[t], block):
                            got += arrays.tensor_time[t]
                        if contains(ideals[j], readers[t]):
                            keep -= arrays.tensor_time[t]
                hold = added[inner] + arrays.held_bytes[v]
                for f in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
                    g = arrays.shared[f]
                    if not meets(users[g], block):
                        hold += arrays.shared_bytes[g]
                own = work[j] - work[i] + got + _overflow(hold, arrays)
                if own >= limit:
                    continue
                received[j], kept[j], added[j] = got, keep, hold
                queue[size] = j
                size += 1
                cost = own + max(0.0, cut[j] - keep)
                if cost >= limit:
                    continue
                for b in range(2, k + 1):
                    if best[j, b] <= cost:
                        break
                    value = max(best[i, b - 1], cost)
                    if value < best[j, b]:
                        best[j, b] = value
                        before[j, b] = i
    return count - 1


@compiled(inline="always")
def _overflow(held: float, arrays: KernelArrays) -> float:
    """Linear overflow; without a fixed buffer the peak counts as 0, which keeps bounds valid."""
    return max(0.0, held + arrays.activation_buffer - arrays.memory) / arrays.bandwidth
