r"""Searches among topological orders: at random, by a genetic algorithm, by linear arrangement.

**Minimum linear arrangement as a proxy (MTPP, Section 5.3, "MLA").**

Evolve node priorities towards a topological order with short edges,

.. math:: \min_\pi \sum_{(u, v) \in E} w_{uv} \, |\pi^{-1}(u) - \pi^{-1}(v)|,

and slice that one order. The number of blocks plays no part in the search.
"""

from __future__ import annotations

import math

import numpy as np

from heuristics.method import Limits
from heuristics.orders.genetic import BRKGAParameters, evolve
from heuristics.orders.orders import decode, edge_lengths, kahn
from heuristics.orders.slicing import slice_order
from instances import Instance, Partition
from instances.partitioning.peaks import KernelArrays

# The population of the paper's brkga-10000.
_PUBLISHED = BRKGAParameters()


def brkga(
    instance: Instance,
    rng: np.random.Generator,
    limits: Limits | None = None,
    parameters: BRKGAParameters = _PUBLISHED,
) -> Partition:
    """Evolve node priorities; the fitness is the bottleneck of the best slicing of their Kahn order.

    Parameters
    ----------
    instance : Instance
        The question; the answer slices one order of its nodes.
    rng : numpy.random.Generator
        Source of randomness of populations, crossovers and mutants.
    limits : Limits, optional
        Checked after every generation.
    parameters : BRKGAParameters, optional
        The default has 100 generations of 100 (brkga-10000 of the paper).
    """
    arrays = KernelArrays.of(instance)
    best = evolve(
        lambda keys: decode(keys, instance.k, arrays),
        instance.graph.n,
        rng,
        limits or Limits(),
        parameters,
    )
    return slice_order(instance, kahn(instance.graph, best))


# Best slicing of Kahn orders of random priorities (MTPP, Section 5.3, "Random").


_BATCH = 100


def random_search(instance: Instance, rng: np.random.Generator, limits: Limits, samples: int) -> Partition:
    """Slice the orders of i.i.d. uniform priorities and keep the best.

    Parameters
    ----------
    instance : Instance
        The question; the answer slices the best order.
    rng : numpy.random.Generator
        Source of the random priorities.
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


def linear_arrangement(
    instance: Instance, rng: np.random.Generator, limits: Limits, *, weighted: bool, parameters: BRKGAParameters
) -> Partition:
    """Search for a topological order with short edges, and slice it.

    Parameters
    ----------
    instance : Instance
        The question; the answer slices the order that is found.
    rng : numpy.random.Generator
        Source of randomness of the genetic search.
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
