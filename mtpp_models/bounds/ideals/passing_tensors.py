r"""Tensors that pass a node while it runs, a part of the peak of its block; compiled by numba.

Let S be a convex set of nodes and w one of them. In whatever order S runs, what is before w in the graph runs before w,
and what is behind w runs behind it. So a tensor that w does not touch is live while w runs if a node of S behind w
reads it, and a node of S before w produces it, or reads it where it comes from outside. Let P(w, S) be these tensors:

.. math:: \mathrm{peak}(S) \ge \max_{w \in S} \Big( \mathrm{need}(w) + \sum_{t \in P(w, S)} \mathrm{bytes}(t) \Big).

No P(w, S) becomes smaller as S grows, so that S can be built node by node. In training, the end of the forward pass is
passed by all that the layers of its block hand to their gradients.

All this is said of the nodes of a graph; those that are added to S may be groups of them, contracted. Bytes are rounded
down to multiples of a power of two, so that sums are exact, and who leaves a block takes away just what it brought.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import Instance
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays
from mtpp_models.bounds.ideals.branches import Words

__all__ = [
    "Block",
    "Passing",
    "empty_block",
    "join_block",
    "least_peak",
    "leave_block",
    "no_passing",
    "passing_tensors",
]

# Of graphs with more nodes so many are watched, which takes a bit for each of them and each tensor or reader.
_MOST_WATCHED = 4096
# Sums of bytes may be off by this part.
_ROUNDING = 1e-12
# Bits of the sum of all bytes, and the exponent of the least float.
_BITS, _LEAST = 52, -1074


class Passing(NamedTuple):
    """The m tensors that can pass one of q watched nodes, and the e groups of nodes that read them; w = q / 64.

    Sets of watched nodes are rows of words of 64 bits.
    """

    need: FloatArray  # (q,) bytes that each watched node reads and writes
    bytes: FloatArray  # (m,)
    behind: Words  # (m, w) what is behind the producer
    made_start: IntArray  # (n + 1,) where the tensors that each group produces begin; they are sorted by that
    read_start: IntArray  # (n + 1,) where those that it reads begin, also of its own
    read: IntArray  # (e,)
    before_readers: Words  # (e, w) what is before a reader in the group, and does not touch the tensor
    behind_readers: Words  # (e, w) and behind one


class Block(NamedTuple):
    """Tensors that pass the watched nodes of a block."""

    behind: Words  # (m, w) what is behind the producer or a reader of each tensor in the block
    passed: Words  # (m, w) watched nodes that the tensor passes
    bytes: FloatArray  # (q,) of all that pass each
    behind_before: Words  # (e, w) `behind` before the group joined
    brought: Words  # (e, w) what it added to `passed`


def passing_tensors(instance: Instance, group: IntArray) -> Passing:
    """Tensors that can pass a node; none where peaks are not those of orders of its nodes, or all fits at a time.

    Parameters
    ----------
    instance : Instance
    group : (n,) int
        The group that each node is contracted to.
    """
    graph, groups = instance.graph, int(group.max()) + 1
    if not instance.needs_peaks or instance.by_need or instance.need is not None:
        return no_passing(groups)
    if graph.held_total + graph.tensors.bytes.sum() <= (1 - _ROUNDING) * instance.platform.memory:
        return no_passing(groups)
    arrays, order = KernelArrays.of(instance), graph.topological_order
    watched = order[:: -(-graph.n // _MOST_WATCHED)]
    before, behind, touch = _watch(arrays, order, watched)
    passes = _can_pass(arrays, before, behind, touch)
    tensors = np.flatnonzero(passes)
    tensors = tensors[np.argsort(group[arrays.producer[tensors]], kind="stable")]
    rank = np.zeros(len(passes), dtype=np.int64)
    rank[tensors] = np.arange(len(tensors))
    edges = np.flatnonzero(passes[arrays.input_tensor])
    reader, read = np.repeat(np.arange(graph.n), np.diff(arrays.input_start))[edges], rank[arrays.input_tensor[edges]]
    by_group = np.lexsort((read, group[reader]))
    reader, read, home = reader[by_group], read[by_group], group[reader[by_group]]
    is_first = np.ones(len(read), dtype=np.bool_)
    is_first[1:] = (np.diff(read) != 0) | (np.diff(home) != 0)
    first = np.flatnonzero(is_first)
    size = arrays.tensor_bytes[tensors]
    unit = math.ldexp(1.0, max(math.frexp(float(size.sum()))[1] - _BITS, _LEAST))
    return Passing(
        need=instance.needs[watched],
        bytes=np.floor(size / unit) * unit,
        behind=behind[arrays.producer[tensors]],
        made_start=np.searchsorted(group[arrays.producer[tensors]], np.arange(groups + 1)),
        read_start=np.searchsorted(home[first], np.arange(groups + 1)),
        read=read[first],
        before_readers=_unions(before[reader], first) & ~touch[tensors[read[first]]],
        behind_readers=_unions(behind[reader], first),
    )


def no_passing(groups: int) -> Passing:
    """No tensor, so that only needs count."""
    nothing, sets, start = np.zeros(0), np.zeros((0, 0), dtype=np.uint64), np.zeros(groups + 1, dtype=np.int64)
    return Passing(nothing, nothing, sets, start, start, np.zeros(0, dtype=np.int64), sets, sets)


def _unions(sets: Words, first: IntArray) -> Words:
    """The union of the rows of `sets` from each of `first` up to the next one."""
    return np.bitwise_or.reduceat(sets, first) if len(first) > 0 else sets


@compiled
def _watch(arrays: KernelArrays, order: IntArray, watched: IntArray) -> tuple[Words, Words, Words]:
    """Watched nodes before and behind each node, (n, w), and of those that touch each tensor, (t, w)."""
    n, words = len(arrays.work), (len(watched) + 63) // 64
    bits = np.zeros((n, words), np.uint64)
    for i in range(len(watched)):
        bits[watched[i], i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    before, behind = np.zeros((n, words), np.uint64), np.zeros((n, words), np.uint64)
    touch = bits[arrays.producer]
    for v in order:
        for e in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
            before[arrays.successor[e]] |= before[v] | bits[v]
        for f in range(arrays.input_start[v], arrays.input_start[v + 1]):
            touch[arrays.input_tensor[f]] |= bits[v]
    for v in order[::-1]:
        for e in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
            behind[v] |= behind[arrays.successor[e]] | bits[arrays.successor[e]]
    return before, behind, touch


@compiled
def _can_pass(arrays: KernelArrays, before: Words, behind: Words, touch: Words) -> NDArray[np.bool_]:
    """(t,) whether each tensor has bytes, and some watched node between its producer and a reader."""
    result = np.zeros(len(arrays.producer), np.bool_)
    for v in range(len(arrays.work)):
        for f in range(arrays.input_start[v], arrays.input_start[v + 1]):
            t = arrays.input_tensor[f]
            if arrays.tensor_bytes[t] > 0 and (behind[arrays.producer[t]] & before[v] & ~touch[t]).any():
                result[t] = True
    return result


@compiled
def empty_block(passing: Passing) -> Block:
    """No node of a block yet."""
    (tensors, words), reads = passing.behind.shape, len(passing.read)
    return Block(
        np.zeros((tensors, words), np.uint64),
        np.zeros((tensors, words), np.uint64),
        np.zeros(len(passing.need)),
        np.zeros((reads, words), np.uint64),
        np.zeros((reads, words), np.uint64),
    )


@compiled(inline="always")
def join_block(v: int, passing: Passing, block: Block) -> float:
    """Add group v, whose predecessors are in the block or before it; the most live at a node that more passes now."""
    largest = 0.0
    for t in range(passing.made_start[v], passing.made_start[v + 1]):
        for w in range(passing.behind.shape[1]):
            block.behind[t, w] = passing.behind[t, w]
    for f in range(passing.read_start[v], passing.read_start[v + 1]):
        t = passing.read[f]
        for w in range(passing.behind.shape[1]):
            before, passed = block.behind[t, w], block.passed[t, w]
            behind = before | passing.behind_readers[f, w]
            brought = behind & passing.before_readers[f, w] & ~passed
            block.behind_before[f, w], block.brought[f, w] = before, brought
            block.behind[t, w], block.passed[t, w] = behind, passed | brought
            while brought:
                i = (w << 6) + _lowest(brought)
                block.bytes[i] += passing.bytes[t]
                largest = max(largest, block.bytes[i] + passing.need[i])
                brought &= brought - np.uint64(1)
    return largest


@compiled(inline="always")
def leave_block(v: int, passing: Passing, block: Block) -> None:
    """Remove group v, which joined last."""
    for f in range(passing.read_start[v], passing.read_start[v + 1]):
        t = passing.read[f]
        for w in range(passing.behind.shape[1]):
            brought = block.brought[f, w]
            block.behind[t, w] = block.behind_before[f, w]
            block.passed[t, w] &= ~brought
            while brought:
                block.bytes[(w << 6) + _lowest(brought)] -= passing.bytes[t]
                brought &= brought - np.uint64(1)
    for t in range(passing.made_start[v], passing.made_start[v + 1]):
        for w in range(passing.behind.shape[1]):
            block.behind[t, w] = 0


@compiled
def least_peak(nodes: IntArray, need: FloatArray, passing: Passing, block: Block) -> float:
    """The most live at one node of a set, in every order; groups of nodes ascend, `block` is empty, and is so again."""
    largest = 0.0
    for v in nodes:
        largest = max(largest, need[v], join_block(v, passing, block))
    for v in nodes[::-1]:
        leave_block(v, passing, block)
    return largest


@compiled(inline="always")
def _lowest(word: np.uint64) -> int:
    """The place of the lowest bit of a word that is not 0, counted from 0."""
    return math.frexp(float(word & (~word + np.uint64(1))))[1] - 1
