"""The ideals of a graph, and the dynamic program over them, compiled by numba.

An ideal is a node set that holds all predecessors of its nodes. Sets are rows of 64-bit words.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from instances.arrays import KernelArrays
from instances.tensors import FloatArray, IntArray

__all__ = ["LIMIT_REACHED", "Lattice", "Words", "cheapest_chains", "enumerate_ideals"]

Words = NDArray[np.uint64]
LIMIT_REACHED = -1


class Lattice(NamedTuple):
    """The c ideals of a graph by size, so that the last one holds all nodes.

    Parameters
    ----------
    ideals : (c, w) words
    work, cut : floats
        Work of each ideal, and time to send what is produced in it and read behind it.
    held, rest : floats
        Parameter bytes of each ideal, and of the nodes behind it.
    start, node, above : integers
        Compressed rows of the covers: the node that is added, and the index of the larger ideal.
    """

    ideals: Words
    work: FloatArray
    cut: FloatArray
    held: FloatArray
    rest: FloatArray
    start: IntArray
    node: IntArray
    above: IntArray


_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW = np.uint64(63)


@njit(cache=True, inline="always")
def _has(words: Words, v: int) -> bool:
    return (words[v >> 6] >> np.uint64(v & 63)) & _ONE == _ONE


@njit(cache=True, inline="always")
def _contains(words: Words, other: Words) -> bool:
    for i in range(len(words)):  # noqa: SIM110 - numba has no all() and any() of generators
        if other[i] & ~words[i]:
            return False
    return True


@njit(cache=True)
def enumerate_ideals(
    arrays: KernelArrays, before: Words, readers: Words, users: Words, salt: Words, limit: int
) -> tuple[int, Lattice]:
    """All ideals by size, with their covers.

    Parameters
    ----------
    arrays : KernelArrays
    before : (n, w) words
        Predecessors of each node.
    readers : (t, w) words
        Consumers of each tensor.
    users : (g, w) words
        Users of each shared parameter.
    salt : (n,) words
        Random words for hashing.
    limit : int
        Largest number of ideals.

    Returns
    -------
    tuple
        Their number, or `LIMIT_REACHED`, and the lattice, which is incomplete then.
    """
    n, w = before.shape
    capacity = 1024
    ideals = np.zeros((capacity, w), dtype=np.uint64)
    ready = np.zeros((capacity, w), dtype=np.uint64)
    hashes = np.zeros(capacity, dtype=np.uint64)
    work, cut, held, rest = np.zeros(capacity), np.zeros(capacity), np.zeros(capacity), np.zeros(capacity)
    slots = np.full(4 * capacity, -1)
    start = np.zeros(capacity + 1, dtype=np.int64)
    node = np.empty(4 * capacity, dtype=np.int64)
    above = np.empty(4 * capacity, dtype=np.int64)
    for v in range(n):
        if arrays.indegree[v] == 0:
            ready[0, v >> 6] |= _ONE << np.uint64(v & 63)
    slots[0] = 0
    rest[0] = arrays.param_bytes.sum() + arrays.shared_bytes.sum()
    count, covers, i = 1, 0, 0
    larger = np.empty(w, dtype=np.uint64)
    while i < count:
        for v in range(n):
            if not _has(ready[i], v):
                continue
            larger[:] = ideals[i]
            larger[v >> 6] |= _ONE << np.uint64(v & 63)
            key = hashes[i] ^ salt[v]
            slot = np.int64(key & np.uint64(len(slots) - 1))
            while slots[slot] >= 0 and not _equal(ideals[slots[slot]], larger):
                slot = (slot + 1) & (len(slots) - 1)
            j = slots[slot]
            if j < 0:
                if count == limit:
                    return LIMIT_REACHED, Lattice(ideals, work, cut, held, rest, start, node, above)
                if count == capacity:
                    capacity *= 2
                    ideals, ready = _grown(ideals, capacity), _grown(ready, capacity)
                    hashes, start = _longer(hashes, capacity), _longer(start, capacity + 1)
                    work, cut = _longer(work, capacity), _longer(cut, capacity)
                    held, rest = _longer(held, capacity), _longer(rest, capacity)
                    slots = np.full(4 * capacity, -1)
                    for other in range(count):
                        slot = np.int64(hashes[other] & np.uint64(len(slots) - 1))
                        while slots[slot] >= 0:
                            slot = (slot + 1) & (len(slots) - 1)
                        slots[slot] = other
                    slot = np.int64(key & np.uint64(len(slots) - 1))
                    while slots[slot] >= 0:
                        slot = (slot + 1) & (len(slots) - 1)
                j = slots[slot] = count
                count += 1
                ideals[j] = larger
                hashes[j] = key
                work[j] = work[i] + arrays.work[v]
                cut[j] = cut[i] + _cut_change(v, larger, arrays, readers)
                held[j] = held[i] + arrays.param_bytes[v]
                rest[j] = rest[i] - arrays.param_bytes[v]
                for e in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
                    g = arrays.shared[e]
                    if not _meets(users[g], ideals[i]):
                        held[j] += arrays.shared_bytes[g]
                    if _contains(larger, users[g]):
                        rest[j] -= arrays.shared_bytes[g]
                ready[j] = ready[i]
                ready[j, v >> 6] ^= _ONE << np.uint64(v & 63)
                for e in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
                    s = arrays.successor[e]
                    if _contains(larger, before[s]):
                        ready[j, s >> 6] |= _ONE << np.uint64(s & 63)
            if covers == len(node):
                node, above = _longer(node, 2 * covers), _longer(above, 2 * covers)
            node[covers] = v
            above[covers] = j
            covers += 1
        i += 1
        start[i] = covers
    return count, Lattice(ideals[:count], work, cut, held, rest, start, node, above)


@njit(cache=True)
def _equal(a: Words, b: Words) -> bool:
    for i in range(len(a)):  # noqa: SIM110 - numba has no all() and any() of generators
        if a[i] != b[i]:
            return False
    return True


@njit(cache=True)
def _grown(rows: Words, capacity: int) -> Words:
    result = np.zeros((capacity, rows.shape[1]), dtype=rows.dtype)
    result[: len(rows)] = rows
    return result


@njit(cache=True)
def _longer(values, capacity):  # type: ignore[no-untyped-def]
    result = np.zeros(capacity, dtype=values.dtype)
    result[: len(values)] = values
    return result


@njit(cache=True)
def _cut_change(v: int, larger: Words, arrays: KernelArrays, readers: Words) -> float:
    change = 0.0
    for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
        if arrays.readers[t] > 0:
            change += arrays.tensor_time[t]
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        t = arrays.input_tensor[e]
        if _contains(larger, readers[t]):
            change -= arrays.tensor_time[t]
    return change


@njit(cache=True)
def cheapest_chains(
    arrays: KernelArrays,
    readers: Words,
    users: Words,
    lattice: Lattice,
    upper: FloatArray,
    steps: int,
) -> tuple[int, FloatArray, IntArray]:
    """Cheapest chains of ideals from the empty one to each ideal, in at most b blocks.

    Parameters
    ----------
    upper : (k + 1,) floats
        For each number of blocks, only bottlenecks below this are of interest; 0 where none is.
    steps : int
        Largest number of pairs (ideal, cover) to look at.

    Returns
    -------
    tuple
        Pairs looked at, or `LIMIT_REACHED`; ``best``, (c, k + 1), the smallest bottleneck of a chain, infinite where
        it is of no interest; and the ideal before the last block of it, (c, k + 1).
    """
    ideals, work, cut, held, rest, start, node, above = lattice
    count, k = len(ideals), len(upper) - 1
    total = work[count - 1]
    words = ideals.shape[1]
    best = np.full((count, k + 1), math.inf)
    before = np.full((count, k + 1), -1)
    largest = upper.max()
    best[0] = 0.0
    for j in range(1, count):
        cost = work[j] + cut[j] + _overflow(held[j], arrays)
        if cost < largest:
            best[j, 1:] = cost
            before[j, 1:] = 0
    stamp = np.full(count, -1)
    received, kept, added = np.empty(count), np.empty(count), np.empty(count)
    queue = np.empty(count, dtype=np.int64)
    block = np.empty(words, dtype=np.uint64)
    looked = 0
    for i in range(1, count - 1):
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
                    if _has(ideals[i], arrays.producer[t]):
                        if not _meets(readers[t], block):
                            got += arrays.tensor_time[t]
                        if _contains(ideals[j], readers[t]):
                            keep -= arrays.tensor_time[t]
                hold = added[inner] + arrays.param_bytes[v]
                for f in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
                    g = arrays.shared[f]
                    if not _meets(users[g], block):
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
        if looked > steps:
            return LIMIT_REACHED, best, before
    return looked, best, before


@njit(cache=True)
def _meets(a: Words, b: Words) -> bool:
    for i in range(len(a)):  # noqa: SIM110 - numba has no all() and any() of generators
        if a[i] & b[i]:
            return True
    return False


@njit(cache=True, inline="always")
def _overflow(held: float, arrays: KernelArrays) -> float:
    """Linear overflow; without a fixed buffer the peak counts as 0, which keeps bounds valid."""
    return max(0.0, held + arrays.activation_buffer - arrays.memory) / arrays.bandwidth
