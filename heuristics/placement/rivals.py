"""Placements for comparison: one device, random ones, and an expert's rule."""

from __future__ import annotations

import numpy as np

from heuristics.limits import Limits
from heuristics.placement.simulator import penalised_times
from instances.graph.layers import node_layers
from instances.graph.tensors import IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

__all__ = ["best_random", "expert", "random_placements", "single"]

#: Placements that are drawn and simulated at once.
_BATCH = 1000


def single(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """All nodes on one device: on which the penalised time is least, which is device 0 where all are equal."""
    rows = np.arange(instance.devices if instance.unequal else 1)[:, None] * np.ones(instance.graph.n, dtype=np.int64)
    return Placement(instance, rows[penalised_times(instance, rows).argmin()])


def random_placements(instance: PlacementInstance, rng: np.random.Generator, count: int) -> IntArray:
    """(count, n) uniformly random placements."""
    return rng.integers(instance.devices, size=(count, instance.graph.n))


def best_random(
    instance: PlacementInstance, rng: np.random.Generator, limits: Limits | None = None, samples: int = 1000
) -> Placement:
    """The best of some random placements."""
    limits = limits or Limits()
    left, best, value = limits.allow(samples), None, np.inf
    while best is None or (left > 0 and not limits.reached(value * instance.total_work)):
        rows = random_placements(instance, rng, min(_BATCH, left))
        values = penalised_times(instance, rows)
        if best is None or values.min() < value:
            best, value = rows[values.argmin()], values.min()
        left -= len(rows)
    return Placement(instance, best)


def expert(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """Expert's rule: layer by layer.

    Where the graph has an attribute ``lane``, a number per node, nodes go to device ``lane`` mod k: recurrent layers,
    or branches of cells (see `instances.placement.families`). Other graphs are cut into k stretches of layers of equal
    work.
    """
    graph, k = instance.graph, instance.devices
    if "lane" in graph.attributes:
        return Placement(instance, np.asarray(graph.attributes["lane"]) % k)
    order = np.argsort(node_layers(graph), kind="stable")
    before = np.cumsum(graph.work[order]) - graph.work[order] / 2
    device = np.empty(graph.n, dtype=np.int64)
    device[order] = np.minimum(k - 1, before * k // graph.work.sum())
    return Placement(instance, device)
