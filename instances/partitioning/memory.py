r"""Peak activation memory of executing the nodes of a block in a given order.

At each step a tensor is live that the step reads or writes, that comes from outside the block and has
been read and will be read again, or that was produced in the block and still has a reader there. So in
a block a tensor is live on one closed interval of steps: from its producer, or its first reader if it
comes from outside, to its last reader in the block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.problem import Instance

__all__ = ["WholeBytes", "block_peaks", "largest_needs", "overflow_bytes"]


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


class WholeBytes(NamedTuple):
    """Bytes of a question in whole numbers, multiples of a power of two; so that sums and differences are exact.

    An overflow may be a small difference of large numbers, of which a sum of floats would leave nothing.
    """

    unit: int  # so many to a byte
    tensors: NDArray[Any]  # (t,)
    held: NDArray[Any]  # (n,) parameters and states of each node
    shared: NDArray[Any]  # of each parameter with several users
    buffer: int
    limits: list[int | None]  # as many as memories are given; None where one is infinite
    need: NDArray[Any] | None  # (n,) of merged nodes, as the question states it

    @classmethod
    def of(cls, instance: Instance, memories: FloatArray) -> WholeBytes:
        """Read the bytes of a question beside some memories."""
        graph, need = instance.graph, instance.need
        shared, buffer = [parameter.bytes for parameter in graph.parameters], instance.activation_buffer or 0.0
        limited = np.isfinite(memories)
        parts: tuple[Iterable[float], ...] = (
            graph.tensors.bytes,
            graph.param_bytes,
            graph.state_bytes,
            shared,
            memories[limited],
            (buffer,),
            () if need is None else need,
        )
        unit = max(float(x).as_integer_ratio()[1] for part in parts for x in part)
        tensors, params, states, sizes, finite, (kept,), needs = (_whole(part, unit) for part in parts)
        rest = iter(finite)
        limits = [next(rest) if is_finite else None for is_finite in limited]
        return cls(unit, tensors, params + states, sizes, kept, limits, None if need is None else needs)

    def needs(self, graph: ComputationGraph) -> NDArray[Any]:
        """(n,) what is live while each node runs."""
        if self.need is not None:
            return self.need
        touched = np.full(graph.n, 0, dtype=object)
        np.add.at(touched, graph.tensors.producer, self.tensors)
        np.add.at(touched, graph.tensors.consumers, self.tensors[graph.edge_tensor])
        return touched


def overflow_bytes(instance: Instance, block: IntArray, order: IntArray, memories: FloatArray) -> FloatArray:
    """(k,) bytes by which parameters, states and activations of each block exceed its memory; 0 where it suffices."""
    graph, k = instance.graph, instance.k
    whole = WholeBytes.of(instance, memories)
    held = np.full(k, 0, dtype=object)
    if instance.activation_buffer is not None:
        held[np.unique(block)] = whole.buffer
    elif instance.by_need:
        held = largest_needs(whole.needs(graph), block, k)
    else:
        held = _peaks(graph, whole.tensors, block, order, k)
    np.add.at(held, block, whole.held)
    for parameter, size in zip(graph.parameters, whole.shared, strict=True):
        held[np.unique(block[list(parameter.users)])] += size
    return np.array(
        [
            0.0 if limit is None else max(0, total - limit) / whole.unit
            for total, limit in zip(held, whole.limits, strict=True)
        ]
    )


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
