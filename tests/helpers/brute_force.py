"""The optimum of a tiny instance by trying every partition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from instances import ComputationGraph, Instance, Partition
from instances.partitioning.constraints import Constraints


def best_partition(instance: Instance) -> Partition:
    """Cheapest of all assignments whose edges point forwards, each with the default order."""
    return min(allowed_partitions(instance), key=lambda partition: partition.bottleneck)


def optimum(instance: Instance) -> float:
    """The least bottleneck; infinite where the constraints or the memory leave nothing."""
    return min((partition.bottleneck for partition in allowed_partitions(instance)), default=math.inf)


def allowed_partitions(instance: Instance) -> Iterator[Partition]:
    """All that obey the constraints word by word, each with the default order."""
    edges = instance.graph.edges.tolist()
    for block in itertools.product(range(instance.k), repeat=instance.graph.n):
        if all(block[u] <= block[v] for u, v in edges) and obeys(
            instance.graph, instance.constraints, block, instance.k
        ):
            yield Partition(instance, block)


def obeys(graph: ComputationGraph, constraints: Constraints, block: tuple[int, ...], k: int) -> bool:
    """The constraints word by word."""
    edges = graph.edges.tolist()
    ends = [[v, *(reader for u, reader in edges if u == v)] for v in constraints.uncut]
    return (
        all(len({block[v] for v in group}) == 1 for group in (*constraints.together, *ends) if group)
        and all(first <= block[v] <= last for v, first, last in constraints.windows)
        and all(sum(block[v] == b for v in nodes) >= count for count, nodes in constraints.at_least for b in range(k))
    )


def modelled_optimum(instance: Instance) -> float:
    """What models may prove: of a peak they know the largest need of a node."""
    return best_partition(instance.modelled()).bottleneck
