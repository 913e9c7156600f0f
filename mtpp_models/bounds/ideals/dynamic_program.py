"""The dynamic program over ideals, compiled by numba."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays
from mtpp_models.bounds.ideals.lattice import Lattice, Words, contains, has, meets

__all__ = ["Needs", "extend_chains", "first_blocks", "largest_needs"]


# Sums of bytes may be off by this part.
_ROUNDING = 1e-12


class Needs(NamedTuple):
    """Least peaks: (n,) of each node, (c,) of each ideal, and of the nodes behind it."""

    node: FloatArray
    ideal: FloatArray
    rest: FloatArray


@compiled
def largest_needs(need: FloatArray, lattice: Lattice) -> tuple[FloatArray, FloatArray]:
    """(c,) largest of the (n,) needs in each ideal, and behind it."""
    start, node, above = lattice.start, lattice.node, lattice.above
    count = len(lattice.ideals)
    ideal, rest = np.zeros(count), np.zeros(count)
    for i in range(count):
        for e in range(start[i], start[i + 1]):
            ideal[above[e]] = max(ideal[i], need[node[e]])
    for i in range(count - 2, -1, -1):
        rest[i] = max(rest[above[start[i]]], need[node[start[i]]])
    return ideal, rest


@compiled
def first_blocks(
    arrays: KernelArrays, needs: Needs, fit: bool, lattice: Lattice, upper: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Chains of one block.

    `needs` are those of blocks and ideals; with `fit`, what surely overflows is no block. For each number of blocks,
    only bottlenecks below `upper`, (k + 1,), are of interest; it is 0 where none is. Returned are ``best``, (c, k + 1),
    the smallest bottleneck of a chain in at most b blocks from the empty ideal, infinite where it is of no interest;
    and the ideal before its last block, (c, k + 1).
    """
    count, k = len(lattice.ideals), len(upper) - 1
    best = np.full((count, k + 1), math.inf)
    before = np.full((count, k + 1), -1)
    best[0] = 0.0
    for j in range(1, count):
        cost = lattice.work[j] + lattice.cut[j] + _overflow(lattice.held[j] + needs.ideal[j], arrays, fit)
        if cost < upper.max():
            best[j, 1:] = cost
            before[j, 1:] = 0
    return best, before


@compiled
def extend_chains(
    arrays: KernelArrays,
    needs: Needs,
    fit: bool,
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
    received, kept, added, tallest = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    queue = np.empty(count, dtype=np.int64)
    block = np.empty(words, dtype=np.uint64)
    looked = 0
    for i in range(first, count - 1):
        if looked > steps:
            return i
        # The last block reads what is cut behind i and sends nothing.
        remaining = total - work[i]
        closing = remaining + cut[i] + _overflow(rest[i] + needs.rest[i], arrays, fit)
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
        stamp[i], received[i], kept[i], added[i], tallest[i] = i, 0.0, cut[i], 0.0, 0.0
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
                tall = max(tallest[inner], needs.node[v])
                own = work[j] - work[i] + got + _overflow(hold + tall, arrays, fit)
                if own >= limit:
                    continue
                received[j], kept[j], added[j], tallest[j] = got, keep, hold, tall
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
def _overflow(held: float, arrays: KernelArrays, fit: bool) -> float:
    """Linear overflow of parameters and least peak; infinite where it has to fit and does not, beyond rounding."""
    over = max(0.0, held + arrays.activation_buffer - arrays.memory)
    if fit:
        return math.inf if over > _ROUNDING * held else 0.0
    return over / arrays.bandwidth
