"""Stages of a partition, one record for each, and the tensors that move between them."""

from __future__ import annotations

import numpy as np

from instances.graph.tensors import sorted_unique
from instances.partitioning.partition import Partition
from instances.partitioning.stated import Crossing, StageReport


def stages(partition: Partition) -> tuple[StageReport, ...]:
    """The blocks that hold a node, in order: empty ones hold nothing, cost nothing and are left out."""
    names, bottleneck = partition.instance.graph.names, partition.bottleneck
    by_block = partition.order[np.argsort(partition.block[partition.order], kind="stable")]
    occupied, begin = np.unique(partition.block[by_block], return_index=True)
    terms = {name: times.tolist() for name, times in partition.costs._asdict().items()}
    sizes = {name: getattr(partition, name).tolist() for name in ("param_bytes", "state_bytes")}
    costs, peaks = partition.block_costs.tolist(), partition.peaks.tolist()
    return tuple(
        StageReport(
            stage=b,
            first=names[nodes[0]],
            last=names[nodes[-1]],
            nodes=len(nodes),
            **{name: times[b] for name, times in (terms | sizes).items()},
            cost=costs[b],
            share=1.0 if costs[b] == bottleneck else costs[b] / bottleneck,
            peak_bytes=peaks[b],
        )
        for b, nodes in zip(occupied.tolist(), np.split(by_block, begin[1:]), strict=True)
    )


def crossings(partition: Partition) -> tuple[Crossing, ...]:
    """The tensors that some other block reads than the one that makes them, by producer and output."""
    graph, block, k = partition.instance.graph, partition.block, partition.instance.k
    tensors, time = graph.tensors, partition.tensor_times
    home, reader = block[tensors.producer], block[tensors.consumers]
    crosses = home[graph.edge_tensor] != reader
    crossing, entered = np.divmod(sorted_unique(graph.edge_tensor[crosses] * k + reader[crosses]), k)
    moved, begin = np.unique(crossing, return_index=True)
    return tuple(
        Crossing(
            producer=graph.names[node],
            node=node,
            output=t - int(graph.output_start[node]),
            source=int(home[t]),
            readers=tuple(blocks.tolist()),
            bytes=float(tensors.bytes[t]),
            time=float(time[t]),
        )
        for t, node, blocks in zip(
            moved.tolist(), tensors.producer[moved].tolist(), np.split(entered, begin)[1:], strict=True
        )
    )
