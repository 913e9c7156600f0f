"""Best slicing of Kahn orders of random priorities (MTPP, Section 5.3, "Random")."""

from __future__ import annotations

import math

import numpy as np

from heuristics.limits import Limits
from heuristics.orders.kahn import kahn
from heuristics.orders.kernels import decode
from heuristics.orders.slicing import slice_order
from instances import Instance, Partition
from instances.partitioning.kernel_arrays import KernelArrays

__all__ = ["random_search"]

_BATCH = 100


def random_search(instance: Instance, rng: np.random.Generator, limits: Limits, samples: int) -> Partition:
    """Slice the orders of i.i.d. uniform priorities and keep the best.

    Parameters
    ----------
    instance : Instance
        The question; the answer slices the best order.
    rng : numpy.random.Generator
        Of the priorities.
    limits : Limits
        Checked after every batch of 100 orders.
    samples : int
        Number of orders.
    """
    arrays = KernelArrays.of(instance)
    samples = limits.allow(samples)
    best, best_priority = math.inf, np.zeros(instance.graph.n)
    for first in range(0, samples, _BATCH):
        priorities = rng.random((min(_BATCH, samples - first), instance.graph.n))
        values = decode(priorities, instance.k, arrays)
        i = int(values.argmin())
        if values[i] < best:
            best, best_priority = float(values[i]), priorities[i]
        if limits.reached(best):
            break
    return slice_order(instance, kahn(instance.graph, best_priority))
