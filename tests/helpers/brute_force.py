"""The optimum of a tiny instance by trying every partition."""

from __future__ import annotations

import itertools

from instances import Instance, Partition


def best_partition(instance: Instance) -> Partition:
    """Cheapest of all assignments whose edges point forwards, each with the default order."""
    edges = instance.graph.edges.tolist()
    blocks = itertools.product(range(instance.k), repeat=instance.graph.n)
    feasible = (block for block in blocks if all(block[u] <= block[v] for u, v in edges))
    return min((Partition(instance, block) for block in feasible), key=lambda partition: partition.bottleneck)


def optimum_without_peaks(instance: Instance) -> float:
    """What the models of superblocks may prove: they leave the peaks out."""
    return best_partition(instance.without_peaks()).bottleneck
