r"""Peak activation memory of executing the nodes of a block in a given order.

At each step a tensor is live that the step reads or writes, that comes from outside the block and has
been read and will be read again, or that was produced in the block and still has a reader there. So in
a block a tensor is live on one closed interval of steps: from its producer, or its first reader if it
comes from outside, to its last reader in the block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.problem import Instance

__all__ = ["block_peaks", "largest_needs", "overflow_bytes"]


def block_peaks(graph: ComputationGraph, block: IntArray, order: IntArray, k: int) -> FloatArray:
    """Peak activation memory of each block.

    Parameters
    ----------
    block : (n,) integers
        Block of each node.
    order : (n,) integers
        A topological order; each block executes its nodes in this order.
    k : int
        Number of blocks.

    Returns
    -------
    (k,) floats
        Bytes; 0 for an empty block.
    """
    peaks: FloatArray = _peaks(graph, graph.tensors.bytes, block, order, k)
    return peaks


def largest_needs(needs: NDArray[Any], block: IntArray, k: int) -> NDArray[Any]:
    """(k,) largest of the (n,) needs in each block, numbers of any type; 0 for an empty block."""
    largest = np.zeros(k, dtype=needs.dtype)
    np.maximum.at(largest, block, needs)
    return largest


def overflow_bytes(instance: Instance, block: IntArray, order: IntArray, memories: FloatArray) -> FloatArray:
    """(k,) bytes by which parameters, states and activations of each block exceed its memory; 0 where it suffices.

    They are summed without rounding: an overflow may be a small difference of large numbers, of which a sum of floats
    would leave nothing.
    """
    graph, k, buffer = instance.graph, instance.k, instance.activation_buffer
    limited = np.isfinite(memories)
    shared = [parameter.bytes for parameter in graph.parameters]
    parts: tuple[Iterable[float], ...] = (
        graph.tensors.bytes,
        graph.param_bytes,
        graph.state_bytes,
        shared,
        memories[limited],
        (buffer or 0.0,),
        instance.needs if instance.by_need else (),
    )
    unit = max(float(x).as_integer_ratio()[1] for part in parts for x in part)
    sizes, params, states, shared_sizes, limits, (kept,), needs = (_whole(part, unit) for part in parts)
    held = np.full(k, 0, dtype=object)
    if buffer is None and instance.by_need:
        held = largest_needs(needs, block, k)
    elif buffer is None:
        held = _peaks(graph, sizes, block, order, k)
    else:
        held[np.unique(block)] = kept
    np.add.at(held, block, params + states)
    for parameter, size in zip(graph.parameters, shared_sizes, strict=True):
        held[np.unique(block[list(parameter.users)])] += size
    excess = np.zeros(k)
    excess[limited] = [max(0, total - memory) / unit for total, memory in zip(held[limited], limits, strict=True)]
    return excess


def _whole(sizes: Iterable[float], unit: int) -> NDArray[Any]:
    """Sizes as whole numbers of bytes over `unit`, a power of two that divides them all."""
    ratios = (float(x).as_integer_ratio() for x in sizes)
    return np.array([top * (unit // bottom) for top, bottom in ratios], dtype=object)


def _peaks(graph: ComputationGraph, sizes: NDArray[Any], block: IntArray, order: IntArray, k: int) -> NDArray[Any]:
    """(k,) peaks of tensors of these sizes, numbers of any type."""
    by_block = order[np.argsort(block[order], kind="stable")]
    step = np.empty(graph.n, dtype=np.int64)
    step[by_block] = np.arange(graph.n)
    # One row per (tensor, node that touches it), sorted by tensor and step: within a tensor the blocks
    # are contiguous, and the first and last step in a block are the ends of its live interval there.
    tensors = graph.tensors
    tensor = np.concatenate((np.arange(len(tensors.producer)), graph.edge_tensor))
    touched = step[np.concatenate((tensors.producer, tensors.consumers))]
    by_tensor = np.lexsort((touched, tensor))
    tensor, touched = tensor[by_tensor], touched[by_tensor]
    home = block[by_block][touched]
    is_first = np.ones(len(tensor), dtype=bool)
    is_first[1:] = (tensor[1:] != tensor[:-1]) | (home[1:] != home[:-1])
    is_last = np.roll(is_first, -1)
    change = np.zeros(graph.n, dtype=sizes.dtype)
    np.add.at(change, touched[is_first], sizes[tensor[is_first]])
    gone = touched[is_last] + 1
    inside = (gone < graph.n) & (block[by_block][np.minimum(gone, graph.n - 1)] == home[is_last])
    np.subtract.at(change, gone[inside], sizes[tensor[is_last][inside]])
    # A sum of its own for each block: the rounding of a huge one must not reach a small one.
    peaks = np.zeros(k, dtype=sizes.dtype)
    occupied, begin = np.unique(block[by_block], return_index=True)
    for b, live in zip(occupied, np.split(change, begin[1:]), strict=True):
        peaks[b] = np.cumsum(live).max()
    return peaks
