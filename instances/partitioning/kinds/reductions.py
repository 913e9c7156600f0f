"""Lossless reductions of questions over kinds of devices: those of `instances.partitioning.reductions`.

They hold where the node that moves has no work on any kind: what it saves and what may overflow, where it goes, take
the same bandwidth, that of the device of that block; and where nothing can overflow on the smallest memory, nothing can
on any. With a rate for each pair of kinds they do not: what a node reads may pass faster than what it makes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from instances.devices.platform import Platform
from instances.graph.tensors import IntArray, sums_by
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints
from instances.partitioning.kinds.partition import UnlikePartition
from instances.partitioning.kinds.problem import UnlikeInstance
from instances.partitioning.problem import Instance
from instances.partitioning.reductions import contract_groups, expanded_order, reduce_instance

__all__ = ["KindContraction", "reduce_kinds"]


@dataclass(frozen=True, eq=False)
class KindContraction:
    """A smaller question, and how its answers read in the original one; as `Contraction`."""

    original: UnlikeInstance
    instance: UnlikeInstance
    group: IntArray  # (n,): node of `instance` that holds each node of `original`
    anchor: IntArray  # (n',): node of `original` that the others of its group were moved to

    def expand(self, partition: UnlikePartition) -> UnlikePartition:
        """The same partition of the original graph; it costs no more."""
        if self.instance is self.original:
            return partition
        order = expanded_order(self.original.graph, partition.order, self.group)
        return UnlikePartition(self.original, partition.block[self.group], partition.kind, order)

    def restrict(self, partition: UnlikePartition) -> UnlikePartition:
        """The partition of the smaller graph in which each group takes the block of its anchor."""
        if self.instance is self.original:
            return partition
        kind = partition.kind
        return UnlikePartition(self.instance, partition.block[self.anchor], kind)


def reduce_kinds(instance: UnlikeInstance) -> KindContraction:
    """Merge what has to be together, and, unless there are peaks of nodes or rates of pairs, what may as well be."""
    graph, platform = instance.graph, instance.platform
    least = min(kind.memory for kind in instance.devices.kinds)
    alike = Platform(instance.k, 1.0, least, platform.activation_buffer, platform.fit and np.isfinite(least))
    # A sum of works may lose a small one, but is 0 only where all are.
    summed = replace(graph, work=instance.finite_works.sum(axis=0))
    reduce = contract_groups if instance.needs_peaks or instance.rates is not None else reduce_instance
    found = reduce(Instance(summed, alike, constraints=instance.constraints, need=instance.need))
    if found.instance is found.original:
        return KindContraction(instance, instance, found.group, found.anchor)
    smaller = found.instance.graph
    works = np.array([sums_by(found.group, row, smaller.n) for row in instance.works])
    need = found.instance.need if instance.needs_peaks else None
    rules = Constraints(windows=found.instance.constraints.windows) if instance.has_windows else NO_CONSTRAINTS
    merged = replace(instance, graph=smaller, works=works, constraints=rules, need=need)
    return KindContraction(instance, merged, found.group, found.anchor)
