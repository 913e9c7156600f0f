r"""Peak activation memory of executing the nodes of a block in a given order.

At each step a tensor is live that the step reads or writes, that comes from outside the block and has
been read and will be read again, or that was produced in the block and still has a reader there. So in
a block a tensor is live on one closed interval of steps: from its producer, or its first reader if it
comes from outside, to its last reader in the block (SPEC-MTPP sections 1 and 6).
"""

from __future__ import annotations

import numpy as np

from instances.graph import ComputationGraph
from instances.tensors import FloatArray, IntArray

__all__ = ["block_peaks"]


def block_peaks(graph: ComputationGraph, block: IntArray, order: IntArray, k: int) -> FloatArray:
    """Peak activation memory of each block.

    Parameters
    ----------
    graph : ComputationGraph
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
    change = np.zeros(graph.n)
    np.add.at(change, touched[is_first], tensors.bytes[tensor[is_first]])
    gone = touched[is_last] + 1
    inside = (gone < graph.n) & (block[by_block][np.minimum(gone, graph.n - 1)] == home[is_last])
    np.subtract.at(change, gone[inside], tensors.bytes[tensor[is_last][inside]])
    # A sum of its own for each block: the rounding of a huge one must not reach a small one.
    peaks = np.zeros(k)
    occupied, begin = np.unique(block[by_block], return_index=True)
    for b, live in zip(occupied, np.split(change, begin[1:]), strict=True):
        peaks[b] = np.cumsum(live).max()
    return peaks
