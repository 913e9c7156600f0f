"""What the blocks of a partition do, one record for each, and the tensors that move between them."""

from __future__ import annotations

import numpy as np

from instances.partitioning.partition import Partition
from instances.partitioning.stage_records import Crossing, Stage

__all__ = ["crossings", "stages"]


def stages(partition: Partition) -> tuple[Stage, ...]:
    """The blocks that hold a node, in order.

    Parameters
    ----------
    partition : Partition

    Returns
    -------
    tuple of Stage
        Empty blocks hold nothing, cost nothing and are left out.
    """
    names, bottleneck = partition.instance.graph.names, partition.bottleneck
    by_block = partition.order[np.argsort(partition.block[partition.order], kind="stable")]
    occupied, begin = np.unique(partition.block[by_block], return_index=True)
    found = []
    for b, nodes in zip(occupied.tolist(), np.split(by_block, begin[1:]), strict=True):
        cost = float(partition.block_costs[b])
        found.append(
            Stage(
                stage=b,
                first=names[nodes[0]],
                last=names[nodes[-1]],
                nodes=len(nodes),
                **{name: float(times[b]) for name, times in partition.costs._asdict().items()},
                cost=cost,
                share=1.0 if cost == bottleneck else cost / bottleneck,
                param_bytes=float(partition.param_bytes[b]),
                state_bytes=float(partition.state_bytes[b]),
                peak_bytes=float(partition.peaks[b]),
            )
        )
    return tuple(found)


def crossings(partition: Partition) -> tuple[Crossing, ...]:
    """The tensors that some other block reads than the one that makes them, by producer and output.

    Parameters
    ----------
    partition : Partition

    Returns
    -------
    tuple of Crossing
    """
    graph, block = partition.instance.graph, partition.block
    tensors, time = graph.tensors, partition.instance.tensor_time
    home = block[tensors.producer]
    crosses = home[graph.edge_tensor] != block[tensors.consumers]
    found = []
    for t in np.unique(graph.edge_tensor[crosses]).tolist():
        node, source = int(tensors.producer[t]), int(home[t])
        reading = np.unique(block[tensors.consumers[tensors.start[t] : tensors.start[t + 1]]]).tolist()
        found.append(
            Crossing(
                producer=graph.names[node],
                node=node,
                output=t - int(graph.output_start[node]),
                source=source,
                readers=tuple(b for b in reading if b != source),
                bytes=float(tensors.bytes[t]),
                time=float(time[t]),
            )
        )
    return tuple(found)
