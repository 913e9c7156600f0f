"""The bound of an even share of all work, which holds for every plan."""

from __future__ import annotations

from fractions import Fraction

from instances.planning.problem import TrainingInstance

__all__ = ["least_work"]


def least_work(instance: TrainingInstance) -> Fraction:
    """Work of a device if all have the same, at the least share of each layer that any number of replicas allows."""
    chain, V, total = instance.chain, instance.cluster.n, Fraction(0)
    for layer, times in enumerate(zip(chain.forward.tolist(), chain.backward.tolist(), strict=True)):
        share = Fraction(1)
        if instance.replica_share is not None:
            table = instance.replica_share.tolist()
            row = table[layer] if isinstance(table[0], list) else table
            share = min(Fraction(part) * (r + 1) for r, part in enumerate(row))
        total += share * sum(map(Fraction, times))
    return instance.microbatches * total / V
