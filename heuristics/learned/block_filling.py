"""Build an order by filling one block after another with the ready node of highest score, compiled by numba.

The score of a ready node is linear in what it would bring to the block that is being filled, so a handful of weights
orders any graph. Columns are dimensionless: times of tensors are in units of the mean time of a tensor, other times in
units of the mean work of a block or of the room in a block.
"""

from __future__ import annotations

import math

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays

__all__ = ["FEATURES", "pack"]

#: What the score of a ready node is made of.
FEATURES = (
    "inputs that the block has",
    "inputs to receive",
    "inputs with no other reader left",
    "inputs that then need not be sent",
    "outputs",
    "work done since the node was ready",
    "share of the room",
    "share of the room by how full the block is",
    "fills the block",
)
#: Of a large graph so many ready nodes are compared.
_COMPARED = 256
#: How closely a node must fill a block to count as filling it: the score falls to 1/e at this share of the room.
_CLOSE = 0.125


@compiled
def pack(noise: FloatArray, weights: FloatArray, room: float, k: int, arrays: KernelArrays) -> IntArray:
    """Order in which blocks are filled with the ready node of highest score that fits, else the next block is begun.

    Parameters
    ----------
    noise : (n,) floats
        Added to the scores.
    weights : (f,) floats
        Of `FEATURES`.
    room : float
        Cost that a block should not exceed, positive, without memory overflow.
    k : int
        Only sets the unit of time; as many blocks are begun as it takes.
    arrays : KernelArrays

    Returns
    -------
    (n,) integers
        A topological order.
    """
    n, tensors = len(noise), len(arrays.tensor_time)
    unit, tensor_unit = _positive(arrays.work.sum() / k), _positive(arrays.tensor_time.sum() / max(1, tensors))
    order, ready = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    missing, unread, since = arrays.indegree.copy(), arrays.readers.copy(), np.zeros(n)
    made, held = np.full(tensors, -1), np.full(tensors, -1)  # the last blocks that made and that had a tensor
    columns = np.empty(len(weights))
    size = block = 0
    done = cost = 0.0
    for v in range(n):
        if missing[v] == 0:
            ready[size] = v
            size += 1
    for position in range(n):
        chosen, highest, added = -1, -math.inf, 0.0
        while chosen < 0:
            for i in range(min(size, _COMPARED)):
                v = ready[i]
                more = _describe(v, block, made, held, unread, tensor_unit, columns, arrays)
                if cost > 0.0 and cost + more > room:
                    continue
                columns[5] = (done - since[v]) / unit
                columns[6] = more / room
                columns[7] = more / room * cost / room
                columns[8] = math.exp(-abs(room - cost - more) / room / _CLOSE)
                score = noise[v]
                for f in range(len(weights)):
                    score += weights[f] * columns[f]
                if chosen < 0 or score > highest:
                    chosen, highest, added = i, score, more
            if chosen < 0:
                block += 1
                cost = 0.0
        v = ready[chosen]
        size -= 1
        ready[chosen] = ready[size]
        order[position] = v
        cost += added
        done += arrays.work[v]
        for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
            unread[arrays.input_tensor[e]] -= 1
            held[arrays.input_tensor[e]] = block
        for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
            made[t] = held[t] = block
        for e in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
            u = arrays.successor[e]
            missing[u] -= 1
            if missing[u] == 0:
                ready[size] = u
                size += 1
                since[u] = done
    return order


@compiled(inline="always")
def _describe(
    v: int,
    block: int,
    made: IntArray,
    held: IntArray,
    unread: IntArray,
    tensor_unit: float,
    columns: FloatArray,
    arrays: KernelArrays,
) -> float:
    """Fill in the columns on tensors; return what `v` adds to the cost of the block."""
    here = new = last = kept = out = 0.0
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        t = arrays.input_tensor[e]
        time = arrays.tensor_time[t]
        if held[t] == block:
            here += time
        else:
            new += time
        if unread[t] == 1:
            last += time
            if made[t] == block:
                kept += time
    for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
        if arrays.readers[t] > 0:
            out += arrays.tensor_time[t]
    columns[0], columns[1], columns[2] = here / tensor_unit, new / tensor_unit, last / tensor_unit
    columns[3], columns[4] = kept / tensor_unit, out / tensor_unit
    return arrays.work[v] + new + out - kept


@compiled(inline="always")
def _positive(unit: float) -> float:
    return unit if unit > 0.0 else 1.0
