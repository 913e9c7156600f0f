"""Pairs of nodes: no cheap partition puts a conflict into one block, and no clique proves more than the optimum."""

from __future__ import annotations

import itertools
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from brute_force import best_partition
from certificates import least_cost
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import graphs, heavy_overflows, instances, partitions

from heuristics import HEURISTICS, Limits, kahn, slice_order
from instances import ComputationGraph, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.json_files import read_json, write_json
from instances.partitioning.symmetry import reduce_instance
from instances.random_graphs import GRAPH_MODELS, TOYS, regal_style
from mtpp.problems.checking import certificate_document, verify
from mtpp_models import solve
from mtpp_models.bounds.cuts import pigeonhole, pinned
from mtpp_models.cuts.conflicts import conflicts, core, find_clique
from mtpp_models.cuts.cuts import UNIT, BlockCuts, PairCuts
from mtpp_models.simple import simple


def pair_costs(instance: Instance) -> dict[tuple[int, int], float]:
    """L of all pairs, by the slow program that checks certificates."""
    ceiling = 2 * float(instance.graph.work.sum() + instance.tensor_time.sum())
    return {pair: least_cost(instance, pair, ceiling) for pair in itertools.combinations(range(instance.graph.n), 2)}


def all_partitions(instance: Instance) -> list[Partition]:
    edges = instance.graph.edges.tolist()
    blocks = itertools.product(range(instance.k), repeat=instance.graph.n)
    return [Partition(instance, block) for block in blocks if all(block[u] <= block[v] for u, v in edges)]


def layers(n: int, bytes_: float) -> ComputationGraph:
    """A chain with shortcuts over ten nodes, of random work."""
    edges = [(v - 1, v) for v in range(1, n)] + [(v - 10, v) for v in range(10, n, 10)]
    return ComputationGraph.from_edges(edges, np.random.default_rng(0).gamma(1, 1, n), [bytes_] * n)


@settings(max_examples=150)
@given(instances(max_nodes=5, max_k=3), st.floats(0.3, 1.5))
def test_conflicts_are_apart_in_every_cheap_partition(instance: Instance, share: float) -> None:
    """Numbers of any size, with and without overflow, at a ceiling around the optimum and above."""
    known = all_partitions(instance)
    ceiling = share * max(partition.bottleneck for partition in known) or 1.0
    pairs = conflicts(instance, ceiling)
    for partition in known:
        if partition.bottleneck < ceiling * (1 - 1e-12):
            assert (partition.block[pairs[:, 0]] != partition.block[pairs[:, 1]]).all()


@settings(max_examples=200)
@given(instances(max_nodes=7, huge_ratio=False), st.floats(0.05, 1.2))
def test_conflicts_are_all_pairs_that_cost_the_ceiling(instance: Instance, share: float) -> None:
    """What is cleared without a cut costs less; only pairs just at the ceiling may be missed. Overflow is left out."""
    instance = Instance(instance.graph, Platform(instance.k, instance.platform.bandwidth))
    costs = pair_costs(instance)
    ceiling = share * max(costs.values(), default=0.0) or 1.0
    found = {tuple(pair) for pair in conflicts(instance, ceiling).tolist()}
    assert {pair for pair, cost in costs.items() if cost >= ceiling * (1 + 1e-7)} <= found
    assert found <= {pair for pair, cost in costs.items() if cost >= ceiling * (1 - 1e-7)}


@settings(max_examples=100)
@given(instances(max_nodes=7, huge_ratio=False), st.integers(0, UNIT - 1), st.floats(0.3, 1.5))
def test_costs_of_pairs_are_those_of_single_cuts(instance: Instance, most: int, share: float) -> None:
    """However the ceiling and what is of interest lie."""
    ceiling = share * max(pair_costs(instance).values(), default=0.0) or 1.0
    cuts = BlockCuts(instance, ceiling)
    pairs = PairCuts(cuts, most)
    for u in range(instance.graph.n):
        assert pairs.resolve(u, Deadline())
    assert not pairs.open.any()
    assert (pairs.cost == pairs.cost.T).all()
    for u, v in itertools.combinations(range(instance.graph.n), 2):
        cost = cuts.least_cost([u, v])
        assert cuts.scaled(pairs.cost[u, v]) == (cost if cost > cuts.scaled(most) else 0.0)


@pytest.mark.parametrize("family", GRAPH_MODELS)
def test_conflicts_of_larger_graphs(family: str) -> None:
    """Against cuts one by one, where segments clear many pairs and flows start from others."""
    instance = Instance(regal_style(family, 40, seed=0), Platform(8, bandwidth=1))
    ceiling = slice_order(instance, kahn(instance.graph, np.zeros(40))).bottleneck
    cuts = BlockCuts(instance, ceiling)
    expected = [pair for pair in itertools.combinations(range(40), 2) if cuts.least_cost(pair) == ceiling]
    assert [tuple(pair) for pair in conflicts(instance, ceiling).tolist()] == expected


def test_no_time_finds_conflicts_that_need_no_cut() -> None:
    """A chain of work 1 and no bytes; six nodes have work 6."""
    graph = ComputationGraph.from_edges([(v, v + 1) for v in range(9)], [1] * 10, [0] * 10)
    pairs = conflicts(Instance(graph, Platform(2, bandwidth=1)), 5.5, Deadline.after(0))
    assert pairs.tolist() == [[u, v] for u in range(10) for v in range(u + 5, 10)]


@settings(max_examples=200)
@given(partitions(max_nodes=6))
def test_no_partition_is_better_than_the_bound(start: Partition) -> None:
    assert_bound_holds(start)


@settings(max_examples=60)
@given(heavy_overflows())
def test_the_bound_holds_beside_a_huge_overflow(instance: Instance) -> None:
    assert_bound_holds(Partition(instance, [0] * instance.graph.n))


def assert_bound_holds(start: Partition) -> None:
    """That of pinned too: numbers of any size, with and without overflow, from any start."""
    bound, floor = pigeonhole(start).bound, pinned(start).bound
    assert bound is not None
    assert floor is not None
    optimum = best_partition(start.instance).bottleneck
    assert max(floor.value, simple(start.instance)) <= bound.value <= optimum * (1 + 1e-9)


@settings(max_examples=150)
@given(instances(max_nodes=6, max_k=3, huge_ratio=False, overflow=False))
def test_the_bound_is_that_of_the_best_clique(instance: Instance) -> None:
    """On few nodes the greedy search misses nothing."""
    start = Partition(instance, [0] * instance.graph.n)
    costs = pair_costs(instance)
    floor = pinned(start).bound
    assert floor is not None
    values = [floor.value, simple(instance)]
    for clique in itertools.combinations(range(instance.graph.n), instance.k + 1):
        values.append(min(min(costs[pair] for pair in itertools.combinations(clique, 2)), start.bottleneck))
    result = pigeonhole(start)
    assert result.bound is not None
    assert result.bound.value == pytest.approx(max(values), rel=2e-6, abs=1e-7)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(instances(max_nodes=8, max_k=3), st.booleans())
def test_certificates_of_reduced_instances_are_accepted(
    tmp_path: Path, instance: Instance, starts_from_best: bool
) -> None:
    """The nodes are those of the original graph, in which the pairs cost no less."""
    start = None
    if starts_from_best:
        start = HEURISTICS["local-search"].run(instance, np.random.default_rng(0), Limits(evaluations=100))
    result = solve(instance, "pigeonhole", start=start)
    write_json(tmp_path / "c.json", certificate_document([result]))
    assert [check.fault for check in verify(read_json(tmp_path / "c.json")).checks] == [""]


@settings(max_examples=200)
@given(graphs(max_nodes=8, huge_ratio=False), st.sampled_from([1.0, 0.25, 1e3]))
def test_pairs_of_anchors_cost_no_less_in_the_original_graph(graph: ComputationGraph, bandwidth: float) -> None:
    reduction = reduce_instance(Instance(graph, Platform(2, bandwidth)))
    original = pair_costs(reduction.original)
    for pair, cost in pair_costs(reduction.instance).items():
        u, v = sorted(reduction.anchor[list(pair)].tolist())
        assert original[u, v] >= cost * (1 - 1e-9)


def test_a_clique_proves_the_optimum_of_a_network() -> None:
    """Wherever a chain of layers is cut, two tensors are paid."""
    instance = Instance(layers(60, 4.0), Platform(5, bandwidth=1))
    start = HEURISTICS["local-search"].run(instance, np.random.default_rng(0), Limits(evaluations=2000))
    result = pigeonhole(start)
    assert result.bound is not None
    assert result.bound.method == "pigeonhole"
    assert len(result.bound.witness["nodes"]) == 6
    alone = pinned(start).bound
    assert alone is not None
    assert result.bound.value > 1.1 * max(alone.value, simple(instance))


def test_fewer_nodes_than_blocks_leave_simple_or_pinned() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [2, 3], [1, 0])
    result = pigeonhole(Partition(Instance(graph, Platform(4, bandwidth=1)), [0, 0]))
    assert result.bound is not None
    assert (result.method, result.bound.method, result.bound.witness) == ("pinned", "pinned", {"nodes": [1]})
    assert result.bound.value == pytest.approx(4.0)


@pytest.mark.parametrize("toy", TOYS)
def test_toys_are_not_overstated(toy: str) -> None:
    instance, optimum = TOYS[toy]()
    bound = pigeonhole(HEURISTICS["kahn"].run(instance, np.random.default_rng(0))).bound
    assert bound is not None
    assert bound.value <= optimum * (1 + 1e-9)


@st.composite
def undirected(draw: st.DrawFn) -> np.ndarray:
    """Adjacency of a graph of up to 9 nodes, symmetric and without loops."""
    n = draw(st.integers(1, 9))
    pairs = list(itertools.combinations(range(n), 2))
    adjacent = np.zeros((n, n), dtype=bool)
    for u, v in draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []:
        adjacent[u, v] = adjacent[v, u] = True
    return adjacent


@given(undirected(), st.integers(1, 6))
def test_a_clique_is_one(adjacent: np.ndarray, size: int) -> None:
    """And none is found where there is none."""
    largest = max(map(len, nx.find_cliques(nx.from_numpy_array(adjacent))))
    clique = find_clique(adjacent, size)
    if clique is None:
        assert largest < size or size > 2
    else:
        assert len(set(clique.tolist())) == size <= largest
        assert all(adjacent[u, v] for u, v in itertools.combinations(clique.tolist(), 2))


@given(undirected(), st.integers(0, 5))
def test_the_core_is_that_of_networkx(adjacent: np.ndarray, degree: int) -> None:
    expected = set(nx.k_core(nx.from_numpy_array(adjacent), degree))
    assert set(np.flatnonzero(core(adjacent, degree)).tolist()) == expected
