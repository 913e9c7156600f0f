r"""Minimum linear arrangement as a proxy (MTPP, Section 5.3, "MLA").

Evolve node priorities towards a topological order with short edges,

.. math:: \min_\pi \sum_{(u, v) \in E} w_{uv} \, |\pi^{-1}(u) - \pi^{-1}(v)|,

and slice that one order. The number of blocks plays no part in the search.
"""

from __future__ import annotations

import numpy as np

from heuristics.limits import Limits
from heuristics.orders.brkga import BRKGAParameters, evolve
from heuristics.orders.kahn import kahn
from heuristics.orders.kernels import edge_lengths
from heuristics.orders.slicing import slice_order
from instances import Instance, Partition
from instances.partitioning.kernel_arrays import KernelArrays

__all__ = ["linear_arrangement"]


def linear_arrangement(
    instance: Instance, rng: np.random.Generator, limits: Limits, *, weighted: bool, parameters: BRKGAParameters
) -> Partition:
    """Slice the topological order of the shortest edges found.

    Parameters
    ----------
    instance : Instance
        The question; the answer slices the order that is found.
    rng : numpy.random.Generator
        Of the genetic search.
    limits : Limits
        Its target is not used: it is a bottleneck, and the search minimises edge lengths.
    weighted : bool
        Whether an edge weighs its tensor's bytes ("mla-weighted") or 1 ("mla").
    parameters : BRKGAParameters
        Sizes of the population and of its parts.
    """
    graph = instance.graph
    weight = graph.tensors.bytes[graph.edge_tensor] if weighted else np.ones(graph.m)
    arrays, edges = KernelArrays.of(instance), graph.edges
    without_target = limits.without_target()
    best = evolve(lambda keys: edge_lengths(keys, edges, weight, arrays), graph.n, rng, without_target, parameters)
    return slice_order(instance, kahn(graph, best))
