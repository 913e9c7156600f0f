"""Coarsening makes no cycle, and multilevel search escapes where moves of single nodes do not."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from brute_force import obeys, optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs, instances, questions

from heuristics import HEURISTICS, Limits
from heuristics.local_search.annealing import Budget
from heuristics.local_search.multilevel import _vary, clusters, cycle, join_by_degree, join_by_reach
from heuristics.local_search.searches import multilevel
from heuristics.orders.orders import kahn
from heuristics.orders.slicing import equal_pieces, slice_order
from heuristics.search import search
from instances import ComputationGraph, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.graph.views import merge_graph
from instances.random_graphs import TOYS, layered, regal_style

NO_TIME = Limits(Deadline.after(0))


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[ComputationGraph, np.ndarray, np.ndarray]:
    """A graph, and its distinct edges in any order."""
    graph = draw(graphs(max_nodes=9))
    edges = draw(st.permutations(sorted({(int(u), int(v)) for u, v in graph.edges})))
    return (graph, *np.array(edges, dtype=np.int64).reshape(-1, 2).T.copy())  # of the types that are compiled


def joined(cluster: np.ndarray) -> tuple[np.ndarray, int]:
    group = np.unique(cluster, return_inverse=True)[1].astype(np.int64)
    return group, int(group.max()) + 1


@settings(max_examples=300)
@given(edge_lists(), st.integers(1, 9), st.integers(1, 2), st.floats(1.0, 5.0))
def test_what_is_joined_is_connected_has_room_and_makes_no_cycle(
    case: tuple[ComputationGraph, np.ndarray, np.ndarray], target: int, kinds: int, most: float
) -> None:
    graph, source, reader = case
    n, size = graph.n, np.ones((1, graph.n))
    kind, limit = np.arange(n) % kinds, np.array([most])
    found = [
        join_by_reach(source, reader, graph.topological_order.copy(), size, limit, kind, target),
        join_by_degree(source, reader, size, limit, kind, target),
        join_by_degree(reader, source, size, limit, kind, target),
    ]
    for cluster in found:
        group, count = joined(cluster)
        assert count >= min(n, target)
        assert np.bincount(group).max() <= most
        assert all(kind[v] == kind[cluster[v]] for v in range(n))
        merge_graph(graph, group)  # refuses cycles
        pairs = nx.Graph([(int(u), int(v)) for u, v in zip(source, reader, strict=True) if group[u] == group[v]])
        pairs.add_nodes_from(range(n))
        assert nx.number_connected_components(pairs) == count


@settings(max_examples=100)
@given(edge_lists())
def test_with_room_for_all_what_is_connected_becomes_one_node(
    case: tuple[ComputationGraph, np.ndarray, np.ndarray],
) -> None:
    """Some edge of a graph without cycles is the only path between its ends, so each level is smaller."""
    graph, source, reader = case
    components = nx.number_connected_components(nx.Graph(graph.to_networkx()))
    while graph.n > components:
        size, kind, order = np.ones((1, graph.n)), np.zeros(graph.n, dtype=np.int64), graph.topological_order.copy()
        group, count = joined(join_by_reach(source, reader, order, size, np.array([np.inf]), kind, 1))
        assert count < graph.n
        graph, _ = merge_graph(graph, group)
        source, reader = np.unique(graph.edges, axis=0).T


def trivial(instance: Instance) -> list[Partition]:
    """One block, equal pieces, and a slicing, as far as they obey."""
    found = [slice_order(instance, kahn(instance.graph, np.zeros(instance.graph.n)))]
    if not instance.constraints:
        found += [equal_pieces(instance, instance.graph.topological_order), Partition(instance, [0] * instance.graph.n)]
    return found


@pytest.mark.parametrize("name", ["multilevel", "portfolio"])
@pytest.mark.parametrize("memory", [np.inf, 40.0])
@pytest.mark.parametrize("n", [1, 2, 20, 300])
def test_never_worse_than_what_takes_no_time(name: str, n: int, memory: float) -> None:
    graph = layered(max(8, n), 3 * n, seed=n) if n > 2 else ComputationGraph.from_edges([], np.ones(n))
    for k in (1, 2, n):
        instance = Instance(graph, Platform(k, 0.1, memory))
        stopped = threading.Event()
        stopped.set()
        for limits in (NO_TIME, Limits(evaluations=1), Limits(Deadline(interrupted=stopped))):
            found = HEURISTICS[name].run(instance, np.random.default_rng(0), limits)
            assert found.bottleneck <= min(other.bottleneck for other in trivial(instance)) * (1 + 1e-12)


@settings(max_examples=60)
@given(questions(), st.integers(0, 9), st.sampled_from([1, 300, 3000]))
def test_same_seed_and_evaluations_same_answer(instance: Instance, seed: int, moves: int) -> None:
    one, other = (
        search(instance, "multilevel", np.random.default_rng(seed), Limits(evaluations=moves)).partition
        for _ in range(2)
    )
    if one is None or other is None:  # nothing was found that obeys and fits
        assert one is other
        return
    assert one.block.tolist() == other.block.tolist()
    assert obeys(instance.graph, instance.constraints, tuple(one.block.tolist()), instance.k)


@settings(max_examples=60)
@given(instances(max_nodes=7, max_k=4), st.integers(0, 99), st.data())
def test_no_partition_costs_less_where_work_and_transfers_are_varied(
    instance: Instance, seed: int, data: st.DataObject
) -> None:
    varied = _vary(instance, np.random.default_rng(seed))
    parts = data.draw(st.lists(st.integers(0, instance.k - 1), min_size=instance.graph.n, max_size=instance.graph.n))
    block = np.empty(instance.graph.n, dtype=np.int64)
    block[instance.graph.topological_order] = sorted(parts)
    cost, other = Partition(instance, block).bottleneck, Partition(varied, block).bottleneck
    assert cost * (1 - 1e-9) <= other
    if not instance.has_overflow:
        assert other <= 2 * cost * (1 + 1e-9)


def test_what_would_be_too_large_is_not_varied() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [8e307, 1.0], [1.0, 0.0])
    instance = Instance(graph, Platform(2, 1.0))
    assert _vary(instance, np.random.default_rng(0)) is instance


@settings(max_examples=60)
@given(instances(max_nodes=7, max_k=4, huge_ratio=False), st.integers(0, 99))
def test_varied_cycles_cost_what_the_instance_says_and_repeat(instance: Instance, seed: int) -> None:
    if instance.needs_peaks:  # which depend on the order; the brute force runs nodes by index
        return
    start, least = Partition(instance, np.zeros(instance.graph.n)), optimum(instance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[cycle.__module__], "_VARIED", 1.0)
        one, other = (
            cycle(instance, np.random.default_rng(seed), Budget(Limits(evaluations=5000), 7), start, [start])
            for _ in range(2)
        )
    assert one.instance is instance
    assert one.block.tolist() == other.block.tolist()
    assert one.bottleneck == pytest.approx(Partition(instance, one.block, one.order).bottleneck)
    assert one.bottleneck >= least * (1 - 1e-9)


@pytest.mark.parametrize("toy", TOYS)
def test_toys_are_solved(toy: str) -> None:
    instance, optimum = TOYS[toy]()
    assert multilevel(instance, np.random.default_rng(0), Limits(evaluations=20_000)).bottleneck == pytest.approx(
        optimum
    )


def chains_of_heavy_edges(chains: int = 8, length: int = 12) -> Instance:
    """Chains whose edges cost more than a block; moves out of one block cost far more than they save."""
    edges, sizes = [], []
    for c in range(chains):
        edges += [(c * length + i, c * length + i + 1) for i in range(length - 1)]
        sizes += [100.0] * (length - 1) + [0.0]
    return Instance(ComputationGraph.from_edges(edges, np.ones(chains * length), sizes), Platform(4, 1.0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("power", [-990, 980])
def test_times_in_any_unit_join_the_same_nodes(power: int) -> None:
    """Products of work overflowed, and were 0, where times are far from 1."""
    instance = Instance(layered(40, 100, seed=2), Platform(4, bandwidth=1.0))
    unit = 2.0**power
    scaled = replace(instance, graph=replace(instance.graph, work=instance.graph.work * unit))
    kind, most = np.zeros(40, dtype=np.int64), np.array([np.inf, np.inf])
    joined = [clusters(each, np.random.default_rng(3), most, True, kind, 10) for each in (instance, scaled)]
    assert len(np.unique(joined[0])) == 10
    assert joined[0].tolist() == joined[1].tolist()


def test_parts_of_the_graph_move_as_one() -> None:
    instance = chains_of_heavy_edges()
    start = Partition(instance, np.zeros(instance.graph.n))
    assert multilevel(instance, np.random.default_rng(0), Limits(evaluations=1_000_000), start=start).bottleneck == 24.0


def test_fixed_stages_memory_and_least_numbers_are_kept() -> None:
    graph = layered(120, 300, seed=1)
    free = Instance(graph, Platform(4, 1.0, memory=graph.held_total / 3, activation_buffer=0.0, fit=True))
    order = graph.topological_order
    windows: dict[int | str, int | tuple[int, int]] = {int(order[0]): 0, int(order[40]): (0, 1), int(order[-1]): 3}
    instance = Instance(
        graph,
        free.platform,
        windows=windows,
        together=[[int(order[50]), int(order[51])]],
        at_least=[(5, range(120))],
    )
    found = HEURISTICS["multilevel"].run(instance, np.random.default_rng(0), Limits(evaluations=200_000))
    assert found.fits
    assert obeys(graph, instance.constraints, tuple(found.block.tolist()), 4)


def test_a_large_graph_is_coarsened_by_degree() -> None:
    graph = layered(6_000, 9_000, seed=0)
    instance = Instance(graph, Platform(8, 1.0))
    found = multilevel(instance, np.random.default_rng(0), Limits(evaluations=600_000))
    assert found.bottleneck < min(other.bottleneck for other in trivial(instance))


def test_peaks_count() -> None:
    instance = Instance(regal_style("erdos-renyi", 50, seed=0), Platform(4, 1.0, memory=400.0))
    found = multilevel(instance, np.random.default_rng(0), Limits(evaluations=100_000))
    assert found.bottleneck < min(other.bottleneck for other in trivial(instance))
