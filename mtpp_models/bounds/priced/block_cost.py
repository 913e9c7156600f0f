r"""Cost of a block, as searches for prices count it.

As in trees of prices, overflow is what it takes at least: a block S streams what its nodes hold and share, and the
largest of their needs, beyond the memory M:

.. math:: \mathrm{overflow}(S) \ge \tfrac1B \max\Big(0, \mathrm{held}(S) + \max_{v \in S} \mathrm{need}(v) - M\Big).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances import Instance
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays
from instances.partitioning.no_fit import needs_of, room
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["LeastOverflow", "block_cost"]

# Overflow of more bottlenecks than this counts as so many.
_MOST = 2.0**12


class LeastOverflow(NamedTuple):
    """Overflow of a block: the times of its nodes and of what they share, and their largest excess, at least 0."""

    stream: FloatArray  # (n,) time to stream what each node holds alone
    excess: FloatArray  # (n,) time to stream what each needs beyond the memory, mostly negative; -inf without overflow
    shared: FloatArray  # (p,) time to stream each parameter that nodes share
    start: IntArray  # (n + 1,): node v uses the parameters ``used[start[v]:start[v + 1]]``
    used: IntArray

    @classmethod
    def of(cls, instance: Instance, bottleneck: float) -> LeastOverflow:
        """Overflow by an instance, of a known bottleneck."""
        n, cap = instance.graph.n, _MOST * bottleneck
        if not instance.has_overflow:
            nothing = np.zeros(0, dtype=np.int64)
            return cls(np.zeros(n), np.full(n, -np.inf), np.zeros(0), np.zeros(n + 1, dtype=np.int64), nothing)
        arrays, rate = KernelArrays.of(instance), instance.platform.bandwidth
        with np.errstate(over="ignore"):
            stream, shared = instance.graph.held_bytes / rate, arrays.shared_bytes / rate
            excess = (needs_of(instance) - room(instance)) / rate
        stream, excess, shared = (np.minimum(time, cap) for time in (stream, excess, shared))
        return cls(stream, excess, shared, arrays.shared_start, arrays.shared)

    def time(self, inside: BoolArray) -> float:
        """Overflow of an (n,) set of nodes."""
        used = np.zeros(len(self.shared), dtype=bool)
        used[self.used[np.repeat(inside, np.diff(self.start))]] = True
        resident_time = self.stream[inside].sum() + self.shared[used].sum()
        return max(0.0, float(resident_time + self.excess[inside].max(initial=-np.inf)))


def block_cost(instance: Instance, overflow: LeastOverflow, inside: BoolArray) -> float:
    """Cost of an (n,) set of nodes, with its least overflow."""
    graph = instance.graph
    tensor, producer = graph.edge_tensor, graph.tensors.producer
    reads = np.bincount(tensor, inside[graph.tensors.consumers], len(producer))
    readers = np.bincount(tensor, minlength=len(producer))
    cut = np.where(inside[producer], reads < readers, reads > 0)
    return float(graph.work[inside].sum() + instance.tensor_time[cut].sum()) + overflow.time(inside)
