r"""Cost of a block, as searches for prices count it.

As in trees of prices, overflow is what it takes at least: a block S streams what its nodes hold and the
largest of their needs beyond the memory M, parameters that nodes share left out:

.. math:: \mathrm{overflow}(S) \ge \tfrac1B \max\Big(0, \sum_{v \in S} \mathrm{held}(v)
    + \max_{v \in S} \mathrm{need}(v) - M\Big).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances import Instance
from instances.graph.tensors import FloatArray
from instances.partitioning.no_fit import needs_of, room
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["LeastOverflow", "block_cost"]

# Overflow of more bottlenecks than this counts as so many.
_MOST = 2.0**12


class LeastOverflow(NamedTuple):
    """Overflow of a block: the times of its nodes together and the largest excess among them, at least 0."""

    stream: FloatArray  # (n,) time to stream what each node holds
    excess: FloatArray  # (n,) time to stream what each needs beyond the memory, mostly negative; -inf without overflow

    @classmethod
    def of(cls, instance: Instance, bottleneck: float) -> LeastOverflow:
        """Overflow by an instance, of a known bottleneck."""
        n, most = instance.graph.n, _MOST * bottleneck
        if not instance.has_overflow:
            return cls(np.zeros(n), np.full(n, -np.inf))
        with np.errstate(over="ignore"):
            stream = instance.graph.held_bytes / instance.platform.bandwidth
            excess = (needs_of(instance) - room(instance)) / instance.platform.bandwidth
        return cls(np.minimum(stream, most), np.minimum(excess, most))

    def time(self, inside: BoolArray) -> float:
        """Overflow of an (n,) set of nodes."""
        return max(0.0, float(self.stream[inside].sum() + self.excess[inside].max(initial=-np.inf)))


def block_cost(instance: Instance, overflow: LeastOverflow, inside: BoolArray) -> float:
    """Cost of an (n,) set of nodes, with its least overflow."""
    graph = instance.graph
    tensor, producer = graph.edge_tensor, graph.tensors.producer
    reads = np.bincount(tensor, inside[graph.tensors.consumers], len(producer))
    readers = np.bincount(tensor, minlength=len(producer))
    cut = np.where(inside[producer], reads < readers, reads > 0)
    return float(graph.work[inside].sum() + instance.tensor_time[cut].sum()) + overflow.time(inside)
