"""Orders of least peak against all orders."""

from __future__ import annotations

import itertools
import math
import random

import networkx as nx
import numpy as np
import pytest
from extremes import random_case
from hypothesis import given, settings
from strategies import instances, partitions
from subset_oracle import least_peak, numbers

from heuristics import search
from instances import ComputationGraph, Instance, Partition, Platform
from instances.machines import Kind, Machines
from instances.partitioning.memory import block_peaks
from instances.partitioning.peaks import least_peak_order, with_least_peaks


@settings(max_examples=200)
@given(instances(max_nodes=6, huge_ratio=False, overflow=True))
def test_the_order_found_is_of_least_peak(instance: Instance) -> None:
    graph = instance.graph
    order = least_peak_order(graph, graph.topological_order.tolist()).order
    assert order is not None
    paths = nx.DiGraph(graph.edges.tolist())
    paths.add_nodes_from(range(graph.n))
    block = np.zeros(graph.n, dtype=np.int64)
    peaks = [block_peaks(graph, block, np.array(other), 1)[0] for other in nx.all_topological_sorts(paths)]
    assert block_peaks(graph, block, np.array(order), 1)[0] == pytest.approx(min(peaks), rel=1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_an_oracle_of_sets_finds_no_lower_peak(seed: int) -> None:
    """The oracle that bounds are held against, of the same random cases."""
    case = random_case(random.Random(seed))
    readers = [(u, v, size) for u, size, vs in case.tensors for v in vs]
    if not all(1e-6 < size < 1e12 for _, _, size in readers):
        return
    graph = ComputationGraph.from_edges(sorted({(u, v) for u, v, _ in readers}), [1.0] * case.n, [1.0] * case.n)
    order = least_peak_order(graph, list(range(case.n))).order
    assert order is not None
    own = [(u, 1.0, sorted({v for w, v, _ in readers if w == u})) for u in range(case.n)]
    plain = type(case)(case.work, case.params, own, [], 1, 1.0, math.inf, None)
    peak = block_peaks(graph, np.zeros(case.n, dtype=np.int64), np.array(order), 1)[0]
    assert peak == least_peak(numbers(plain, exact=True), 2**case.n - 1)


@given(partitions(max_nodes=7, huge_ratio=False, overflow=True))
def test_no_partition_costs_more_with_least_peaks(partition: Partition) -> None:
    better = with_least_peaks(partition)
    assert (better.block == partition.block).all()
    assert better.bottleneck <= partition.bottleneck


def side_by_side(branches: int, length: int) -> ComputationGraph:
    """Branches whose first tensor is large, between two nodes."""
    rows = [range(1 + length * b, 1 + length * (b + 1)) for b in range(branches)]
    end = 1 + branches * length
    edges = [edge for row in rows for edge in ((0, row[0]), *itertools.pairwise(row), (row[-1], end))]
    sizes = np.ones(end + 1)
    sizes[[row[0] for row in rows]] = 9.0
    return ComputationGraph.from_edges(edges, np.ones(end + 1), sizes)


def test_branches_run_one_behind_the_other() -> None:
    """Side by side the large tensors of all four are live at a time, 36 bytes and that of node 0."""
    instance = Instance(side_by_side(4, 3), Platform(1, 1.0, 16.0, fit=True))
    everything = Partition(instance, np.zeros(instance.graph.n, dtype=np.int64))
    assert everything.peaks[0] > 36.0
    assert everything.bottleneck == math.inf
    assert with_least_peaks(everything).peaks[0] < 16.0
    found = search(instance, "local-search", np.random.default_rng(0))
    assert found.partition is not None
    assert found.partition.fits


def test_blocks_of_many_sets_keep_their_order() -> None:
    """16 branches of 4 nodes have 5^16 sets."""
    instance = Instance(side_by_side(16, 4), Platform(1, 1.0, 0.0))
    everything = Partition(instance, np.zeros(instance.graph.n, dtype=np.int64))
    better = with_least_peaks(everything)
    assert better.bottleneck <= everything.bottleneck


def test_bug_blocks_keep_their_kinds() -> None:
    """In an order with a lower peak the kinds of the blocks were missing, so that a search over kinds ended there."""
    machines = Machines([Kind("small", 1, speed=1.0, memory=16.0, bandwidth=1.0), Kind("slow", 1, speed=0.5)])
    instance = Instance(side_by_side(4, 3), machines)
    everything = Partition(instance, np.zeros(instance.graph.n, dtype=np.int64), kind=[0, -1])
    better = with_least_peaks(everything)
    assert better.bottleneck < everything.bottleneck
    assert better.kind.tolist() == [0, -1]
