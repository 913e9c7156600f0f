"""Minimum cuts around pinned nodes against all sets of nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import networkx as nx
import numpy as np
import pytest
from certificates import least_cost
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs, instances, partitions

from heuristics import HEURISTICS, kahn, slice_order
from instances import ComputationGraph, Instance, Partition, Platform, SharedParameter
from instances.deadline import Deadline
from instances.partitioning.memory import needs_of, room
from instances.partitioning.symmetry import merge
from instances.random_graphs import GRAPH_MODELS, TOYS, regal_style
from mtpp_models.bounds.cuts import pinned
from mtpp_models.cuts.conflicts import join
from mtpp_models.cuts.cuts import UNIT, BlockCuts
from mtpp_models.simple import simple


def cost(instance: Instance, nodes: set[int]) -> float:
    """Equation (3) without overflow."""
    tensors = instance.graph.tensors
    total = float(sum(instance.graph.work[v] for v in nodes))
    for t, u in enumerate(tensors.producer.tolist()):
        readers = set(tensors.consumers[tensors.start[t] : tensors.start[t + 1]].tolist())
        if (readers - nodes) if u in nodes else (readers & nodes):
            total += float(instance.tensor_time[t])
    return total


def paths(graph: ComputationGraph) -> np.ndarray:
    """(n, n) whether a path, maybe of no edge, leads from the row to the column."""
    reach = np.eye(graph.n, dtype=bool)
    for u, v in itertools.product(graph.topological_order[::-1].tolist(), range(graph.n)):
        if [u, v] in graph.edges.tolist():
            reach[u] |= reach[v]
    return reach


def sets_around(graph: ComputationGraph, nodes: list[int]) -> Iterator[set[int]]:
    """The sets that hold the nodes, and all on a path from any member to a pinned node or back."""
    reach = paths(graph)
    pinned_nodes = [v for v in range(graph.n) if reach[nodes, v].any() and reach[v, nodes].any()]
    for members in itertools.product([False, True], repeat=graph.n):
        chosen = np.array(members)
        if not chosen[pinned_nodes].all():
            continue
        between = (reach[chosen].any(axis=0) & reach[:, pinned_nodes].any(axis=1)) | (
            reach[:, chosen].any(axis=1) & reach[pinned_nodes].any(axis=0)
        )
        if chosen[between].all():
            yield set(np.flatnonzero(chosen).tolist())


def everything(instance: Instance) -> float:
    """More than any set costs."""
    graph, platform = instance.graph, instance.platform
    held = graph.held_total + (platform.activation_buffer or 0.0) + float(instance.needs.max())
    over = held / platform.bandwidth if instance.has_overflow else 0.0
    return 2 * float(graph.work.sum() + instance.tensor_time.sum() + over) or 1.0


def rounding(instance: Instance, ceiling: float) -> float:
    """Each capacity is rounded down."""
    return (instance.graph.n + len(instance.tensor_time)) * ceiling / UNIT


@settings(max_examples=150)
@given(instances(max_nodes=6, huge_ratio=False), st.floats(0.01, 4.0), st.data())
def test_a_cut_costs_the_cheapest_set_or_the_ceiling(instance: Instance, share: float, data: st.DataObject) -> None:
    """One to three nodes; the ceiling is now below and now above the cost."""
    n = instance.graph.n
    nodes = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3, unique=True))
    least = min(cost(instance, chosen) for chosen in sets_around(instance.graph, nodes))
    ceiling = share * least or 1.0
    value = BlockCuts(instance, ceiling).least_cost(nodes)
    expected = min(least, ceiling)
    assert expected - rounding(instance, ceiling) <= value <= expected * (1 + 1e-12)


@settings(max_examples=300)
@given(instances(max_nodes=8, huge_ratio=False), st.floats(0.01, 2.0), st.data())
def test_cuts_agree_with_those_that_check_certificates(instance: Instance, share: float, data: st.DataObject) -> None:
    """Where memory costs nothing; else the check, which counts shared parameters too, proves no less."""
    nodes = data.draw(st.lists(st.integers(0, instance.graph.n - 1), min_size=1, max_size=3, unique=True))
    least = least_cost(instance, nodes, everything(instance))
    ceiling = share * least or 1.0
    least = least_cost(instance, nodes, 2 * ceiling)  # the check rounds down by a part of what it looks at
    plain = BlockCuts(instance, ceiling)
    value = max(cuts.least_cost(nodes) for cuts in (plain, plain.loaded()) if cuts is not None)
    assert value <= min(least, ceiling) * (1 + 1e-9)
    if not instance.has_overflow:
        assert value >= min(least, ceiling) - rounding(instance, ceiling)


@pytest.mark.parametrize("family", GRAPH_MODELS)
def test_cuts_of_larger_graphs_agree_too(family: str) -> None:
    instance = Instance(regal_style(family, 60, seed=1), Platform(2, bandwidth=1))
    ceiling = simple(instance)
    cuts = BlockCuts(instance, ceiling)
    for nodes in [[v] for v in range(0, 60, 3)] + [[v, v + 1] for v in range(0, 59, 6)]:
        expected = min(least_cost(instance, nodes, 2 * ceiling), ceiling)
        assert expected - rounding(instance, ceiling) <= cuts.least_cost(nodes) <= expected * (1 + 1e-9)


@settings(max_examples=150)
@given(instances(max_nodes=7, huge_ratio=False), st.floats(0.3, 3.0), st.data())
def test_the_set_of_a_cut_costs_what_the_cut_does(instance: Instance, share: float, data: st.DataObject) -> None:
    """It holds the nodes and not the one that it must not hold, or is empty where the ceiling is reached."""
    n = instance.graph.n
    nodes = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=2, unique=True))
    without = data.draw(st.none() | st.integers(0, n - 1))
    ceiling = share * cost(instance, set(nodes)) or 1.0
    value, members = BlockCuts(instance, ceiling).cut(nodes, without)
    chosen = set(np.flatnonzero(members).tolist())
    if value == ceiling:
        assert not chosen
    else:
        assert set(nodes) <= chosen
        assert without not in chosen
        assert cost(instance, chosen) == pytest.approx(value, abs=rounding(instance, ceiling))


@settings(max_examples=150)
@given(instances(max_nodes=6, huge_ratio=False), st.floats(0.2, 1.2))
def test_joins_are_the_edges_that_no_cheap_set_cuts(instance: Instance, share: float) -> None:
    """Cut by cut, without the sets that answer for several edges; overflow only makes more partitions expensive."""
    graph = instance.graph
    ceiling = share * float(graph.work.sum() + instance.tensor_time.sum()) or 1.0
    cuts = BlockCuts(instance, ceiling)
    joined = [
        (u, v)
        for u, v in graph.edges.tolist()
        if max(cuts.least_cost([u], without=v), cuts.least_cost([v], without=u)) >= ceiling
    ]
    links = nx.DiGraph([*graph.edges.tolist(), *((v, u) for u, v in joined)])
    links.add_nodes_from(range(graph.n))
    groups = {frozenset(nodes) for nodes in nx.strongly_connected_components(links)}
    group = join(instance, ceiling).group
    assert {frozenset(np.flatnonzero(group == g).tolist()) for g in np.unique(group)} == groups
    late = join(instance, ceiling, Deadline.after(0)).group
    assert len(np.unique(late)) == len(np.unique(merge(instance, np.arange(graph.n)).group))


@settings(max_examples=60)
@given(instances(max_nodes=6))
def test_a_node_alone_costs_at_least_its_cut(instance: Instance) -> None:
    total = cost(instance, set(range(instance.graph.n))) + 2 * float(instance.tensor_time.sum()) or 1.0
    cuts = BlockCuts(instance, total)
    for v, alone in enumerate(cuts.alone()):
        assert alone >= cuts.least_cost([v])
        assert alone == pytest.approx(cost(instance, {v}), abs=rounding(instance, total))


def bound_of(start: Partition) -> float:
    result = pinned(start)
    assert result.bound is not None
    assert result.partition is start
    return result.bound.value


@settings(max_examples=60)
@given(partitions(max_nodes=6, huge_ratio=False))
def test_the_bound_is_the_largest_cut_whatever_the_start(start: Partition) -> None:
    instance = start.instance
    nodes = range(instance.graph.n)
    plain = BlockCuts(instance, start.bottleneck or 1.0)
    cases = [cuts for cuts in (plain, plain.loaded() if instance.needs_peaks else None) if cuts is not None]
    largest = max(least_of_all(instance, v, len(cases)) for v in nodes)
    lost = 2 * rounding(instance, start.bottleneck) + (instance.graph.n + 2) / UNIT * start.bottleneck
    assert bound_of(start) == pytest.approx(min(largest, start.bottleneck or 1.0), abs=lost)
    result = pinned(start)
    assert result.bound is not None
    if start.bottleneck > 0:
        assert max(cuts.least_cost(result.bound.witness["nodes"]) for cuts in cases) == result.bound.value


def least_of_all(instance: Instance, v: int, cases: int) -> float:
    """The least cost of a set around v without overflow, or in a second case with its linear bound if that is more."""
    sets = list(sets_around(instance.graph, [v]))
    least = min(cost(instance, chosen) for chosen in sets)
    if cases == 1:
        return least
    beside = float(needs_of(instance)[v]) - room(instance)
    held = instance.graph.held_bytes
    return max(
        least,
        min(cost(instance, s) + (float(held[list(s)].sum()) + beside) / instance.platform.bandwidth for s in sets),
    )


@pytest.mark.parametrize("toy", TOYS)
def test_toys_are_not_overstated(toy: str) -> None:
    instance, optimum = TOYS[toy]()
    assert bound_of(HEURISTICS["kahn"].run(instance, np.random.default_rng(0))) <= optimum * (1 + 1e-9)


def test_a_node_that_must_take_its_neighbours_along() -> None:
    """Alone the middle costs 1 + 10 + 10, with both its neighbours 5."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [2, 1, 2], [10, 10, 0])
    start = Partition(Instance(graph, Platform(3, bandwidth=1)), [0, 0, 0])
    assert bound_of(start) == pytest.approx(5.0)
    assert BlockCuts(start.instance, 5.0).alone().tolist() == pytest.approx([12.0, 21.0, 12.0])


def test_the_largest_cut_counts_and_not_the_costliest_node_alone() -> None:
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [2, 1, 2, 7], [10, 10, 0, 0])
    result = pinned(Partition(Instance(graph, Platform(3, bandwidth=1)), [0, 0, 0, 0]))
    assert result.bound is not None
    assert result.bound.value == pytest.approx(7.0)
    assert result.bound.witness == {"nodes": [3]}


@pytest.mark.parametrize("between", [1, 2, 3])
def test_blocks_have_no_holes(between: int) -> None:
    """To save the tensor of 10, either end would have to take the costly detour along as well."""
    last = between + 1
    edges = [(0, last, 0), (0, 1, 1), *((v, v + 1) for v in range(1, last))]
    work, sizes = [1.0, *[50.0] * between, 1.0], [[10.0, 0.0], *[[0.0]] * between, [0.0]]
    cuts = BlockCuts(Instance(ComputationGraph.from_edges(edges, work, sizes), Platform(3, bandwidth=1)), 1000.0)
    assert [cuts.least_cost([v]) for v in (0, last)] == pytest.approx([11, 11], rel=1e-6)
    assert cuts.least_cost([0, last]) == pytest.approx(2 + 50 * between, rel=1e-6)


@given(graphs(max_nodes=8))
def test_reach_is_the_transitive_closure(graph: ComputationGraph) -> None:
    cuts = BlockCuts(Instance(graph, Platform(2, bandwidth=1)), 1.0)
    assert cuts.reach.tolist() == paths(graph).tolist()


def test_what_lies_between_two_pinned_nodes_is_pinned() -> None:
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (0, 2)], [1, 100, 1], [0, 0, 0])
    cuts = BlockCuts(Instance(graph, Platform(3, bandwidth=1)), 1000.0)
    assert cuts.least_cost([0, 2]) == pytest.approx(102, rel=1e-6)
    assert cuts.least_cost([0]) == pytest.approx(1, rel=1e-4)


def test_a_start_that_costs_nothing_needs_no_cut() -> None:
    instance = Instance(ComputationGraph.from_edges([(0, 1)], [0, 0]), Platform(2, bandwidth=1))
    assert bound_of(Partition(instance, [0, 1])) == 0


def test_two_hundred_nodes() -> None:
    instance = Instance(regal_style("barabasi-albert", 200, seed=0), Platform(16, bandwidth=1))
    start = slice_order(instance, kahn(instance.graph, np.zeros(200)))
    heaviest = float(instance.graph.work.max())
    assert heaviest - rounding(instance, start.bottleneck) <= bound_of(start) <= start.bottleneck


def test_bug_parameters_that_nodes_share_took_no_memory() -> None:
    """Each of two blocks streams what both nodes use, as in training; one that holds both streams it once."""
    use = SharedParameter("weight", 6.0, (0, 1))
    graph = ComputationGraph.from_edges([(0, 1)], [1.0, 2.0], [0.0, 0.0], parameters=(use,))
    bound = pinned(Partition(Instance(graph, Platform(2, 1.0, memory=0.0)), [0, 1])).bound
    assert bound is not None
    assert bound.value == pytest.approx(8.0, rel=1e-9)
