"""Searches under constraints and hard memory: what they give obeys and fits; slicing is the best along its order."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from brute_force import obeys, optimum
from hypothesis import given, settings
from strategies import questions

from heuristics import HEURISTICS, Limits, slice_order
from heuristics.orders.orders import by_window
from heuristics.search import search
from instances import ComputationGraph, Instance, Partition, Platform
from instances.errors import NothingFoundError
from instances.partitioning.peaks import KernelArrays
from instances.partitioning.symmetry import contract_groups, reduce_instance

FEW = Limits(evaluations=200)


@pytest.mark.parametrize("name", HEURISTICS)
@settings(max_examples=60)
@given(instance=questions())
def test_what_a_search_finds_obeys_and_fits(name: str, instance: Instance) -> None:
    found = search(instance, name, np.random.default_rng(0), FEW).partition
    if found is None:
        # Least numbers, groups whose peaks are those of merged nodes, and memory may be too much for a search.
        assert instance.constraints.at_least or instance.platform.fit
        return
    assert found.instance.key == instance.key
    assert obeys(instance.graph, instance.constraints, tuple(found.block.tolist()), instance.k)
    assert found.bottleneck >= optimum_of(instance) * (1 - 1e-9)
    assert found.fits or not instance.platform.fit


def optimum_of(instance: Instance) -> float:
    """The optimum; with peaks, which depend on the order, a lower bound of it."""
    return optimum(instance.modelled())


@settings(max_examples=200)
@given(questions())
def test_slicing_is_the_best_along_its_order(instance: Instance) -> None:
    """Against every assignment of blocks that does not fall along the order that is sorted by window."""
    instance = contract_groups(instance).instance
    arrays = KernelArrays.of(instance)
    n = instance.graph.n
    order = by_window(instance.graph.topological_order, arrays) if arrays.is_constrained else np.arange(n)
    order = order if arrays.is_constrained else instance.graph.topological_order
    best = math.inf
    for blocks in combinations_with_replacement(range(instance.k), n):
        block = np.empty(n, dtype=np.int64)
        block[order] = blocks
        if obeys(instance.graph, instance.constraints, tuple(block.tolist()), instance.k):
            best = min(best, Partition(instance, block, order).bottleneck)
    try:
        found = slice_order(instance, instance.graph.topological_order)
    except NothingFoundError:
        assert best == math.inf
        return
    if found.bottleneck < math.inf or best < math.inf:
        if best == math.inf:  # then each node is in its first block, which no order has to list
            assert arrays.is_constrained
        else:
            assert found.bottleneck == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_a_large_graph_is_sliced_in_chunks() -> None:
    """Fixed stages and one layer a stage at least, at a size where there is no table."""
    n, k = 6000, 4
    graph = ComputationGraph.from_edges([(v, v + 1) for v in range(n - 1)], np.ones(n), np.ones(n))
    instance = Instance(graph, Platform(k, 1.0), windows={100: 1, 5000: 2}, at_least=[(10, range(n))])
    partition = slice_order(instance, np.arange(n))
    assert partition.block[100] == 1
    assert partition.block[5000] == 2
    assert partition.bottleneck <= 2960  # 100 nodes in block 0, then 2 · 2950


@pytest.mark.parametrize("fit", [False, True])
def test_memory_that_has_to_suffice_is_kept(fit: bool) -> None:
    """The best cut by time does not fit; with room for two of the heavy nodes there is one that does."""
    graph = ComputationGraph.from_edges(
        [(v, v + 1) for v in range(5)], [1, 1, 1, 9, 1, 1], param_bytes=[4, 4, 4, 0, 0, 0]
    )
    instance = Instance(graph, Platform(2, 1e9, memory=8.0, activation_buffer=0.0, fit=fit))
    found = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=2000)).partition
    assert found is not None
    assert found.fits == fit
    assert found.bottleneck == pytest.approx(12.0 if fit else 11.0, abs=0.01)


def test_what_fits_nowhere_is_not_found() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [1, 1], param_bytes=[9, 1])
    instance = Instance(graph, Platform(2, 1.0, memory=8.0, activation_buffer=0.0, fit=True))
    assert search(instance, "portfolio", np.random.default_rng(0), FEW).partition is None
    assert reduce_instance(instance).instance.graph.n == 2
