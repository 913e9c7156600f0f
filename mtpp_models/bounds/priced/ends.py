r"""Two more nodes, one before all others and one behind, which tell the first and the last block from those between.

They have no work, hold nothing, and their tensors, one to all sources and one from each sink, take no time. So the
blocks of a partition cost the same with the one in the first block that is not empty, and the other in the last such
block; no block becomes one that is not empty. Of convex sets, those with the first node are ideals, and those with the
last are closed behind. Prices of `mtpp_models.bounds.priced.priced` in this longer graph prove a bound for the
original one; with both prices 0 the same as without the two.

The reductions take away nodes without work alone, so the proof holds in the original graph too, as `pigeonhole` says.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from instances import ComputationGraph, Instance, Partition
from instances.graph.tensors import Tensors

__all__ = ["partition_with_ends", "with_ends"]


def with_ends(instance: Instance) -> Instance:
    """The question with the two more nodes, the last ones, and no more blocks than it had nodes."""
    graph, n = instance.graph, instance.graph.n
    sources, sinks = (np.flatnonzero(np.diff(rows[0]) == 0) for rows in (graph.predecessors, graph.successors))
    tensors = graph.tensors
    readers = [tensors.consumers[begin:end] for begin, end in pairwise(tensors.start)]
    readers += [*(np.array([n + 1]) for _ in sinks), sources]
    producer = np.concatenate((tensors.producer, sinks, [n]))
    order = np.argsort(producer, kind="stable")
    longer = ComputationGraph(
        work=np.append(graph.work, [0.0, 0.0]),
        param_bytes=np.append(graph.param_bytes, [0.0, 0.0]),
        tensors=Tensors(
            producer=producer[order],
            bytes=np.append(tensors.bytes, np.zeros(len(sinks) + 1))[order],
            start=np.cumsum([0, *(len(readers[t]) for t in order)]),
            consumers=np.concatenate([readers[t] for t in order]),
        ),
        parameters=graph.parameters,
        time_unit=graph.time_unit,
        state_bytes=np.append(graph.state_bytes, [0.0, 0.0]),
    )
    need = None if instance.need is None else np.append(instance.need, [0.0, 0.0])
    return replace(instance.with_k(min(instance.k, n)), graph=longer, need=need)


def partition_with_ends(start: Partition) -> Partition:
    """The same blocks, but for empty ones, of the longer question; they cost the same."""
    _, block = np.unique(start.block, return_inverse=True)
    return Partition(with_ends(start.instance), np.append(block, [0, block.max()]))
