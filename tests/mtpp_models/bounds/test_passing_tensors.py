"""Tensors that pass a node: live there in every order of its block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances, orders

from instances import ComputationGraph, Instance, Partition, Platform
from instances.partitioning.memory import block_peaks
from mtpp.verification.partitioning.exact_instance import ExactInstance, merge_groups
from mtpp.verification.partitioning.ideals import fits_nowhere, ideals_bound
from mtpp.verification.verdict import Clock
from mtpp_models import solve
from mtpp_models.bounds.ideals import dynamic_program as passing_module
from mtpp_models.bounds.ideals.dynamic_program import empty_block, join_block, leave_block, passing_tensors
from mtpp_models.bounds.ideals.ideals import ideals


def most_live(instance: Instance, nodes: set[int], watched: set[int] | None = None) -> float:
    """The largest, over the watched nodes of a convex set, of needs and what passes, by the definition."""
    graph, tensors = instance.graph, instance.graph.tensors
    paths = nx.DiGraph(graph.edges.tolist())
    paths.add_nodes_from(range(graph.n))
    most = max(float(instance.needs[v]) for v in nodes)
    for w in nodes if watched is None else nodes & watched:
        before, behind = nx.ancestors(paths, w) & nodes, nx.descendants(paths, w) & nodes
        live = float(instance.needs[w])
        for t, producer in enumerate(tensors.producer.tolist()):
            readers = set(tensors.consumers[tensors.start[t] : tensors.start[t + 1]].tolist())
            begins = producer in before if producer in nodes else bool(readers & before)
            if begins and readers & behind and w not in readers:
                live += float(tensors.bytes[t])
        most = max(most, live)
    return most


@st.composite
def blocks_of_groups(draw: st.DrawFn) -> tuple[Instance, list[int], list[int], set[int]]:
    """A question, an order, a group for each node, of nodes that follow one another there, and a block of groups."""
    instance = draw(instances(max_nodes=6, huge_ratio=False, overflow=True))
    platform = Platform(instance.k, instance.platform.bandwidth, memory=0.0)  # nothing fits, so that all counts
    order = draw(orders(instance.graph))
    n = len(order)
    ends = sorted(draw(st.sets(st.integers(1, n - 1)))) if n > 1 else []
    group = [0] * n
    for place, v in enumerate(order):
        group[v] = sum(end <= place for end in ends)
    first, last = sorted((draw(st.integers(0, len(ends))), draw(st.integers(0, len(ends)))))
    return Instance(instance.graph, platform), order, group, set(range(first, last + 1))


@settings(max_examples=300)
@given(blocks_of_groups())
@pytest.mark.slow
def test_what_passes_is_live_in_every_order(drawn: tuple[Instance, list[int], list[int], set[int]]) -> None:
    instance, _, group, chosen = drawn
    graph = instance.graph
    nodes = {v for v in range(graph.n) if group[v] in chosen}
    passing = passing_tensors(instance, np.array(group))
    block = empty_block(passing)
    need = [max((instance.needs[v] for v in range(graph.n) if group[v] == g), default=0.0) for g in range(graph.n)]
    found = max(max(need[g], join_block(g, passing, block)) for g in sorted(chosen))
    assert found == pytest.approx(most_live(instance, nodes), rel=1e-12)
    inside = np.array([int(v not in nodes) for v in range(graph.n)])
    paths = nx.DiGraph(graph.edges.tolist())
    paths.add_nodes_from(range(graph.n))
    for order in nx.all_topological_sorts(paths):
        assert found <= block_peaks(graph, inside, np.array(order), 2)[0] * (1 + 1e-12)
    for g in sorted(chosen, reverse=True):
        leave_block(g, passing, block)
    assert all(not array.any() for array in (block.behind, block.passed, block.bytes))


@given(blocks_of_groups(), st.integers(1, 3))
def test_of_large_graphs_some_nodes_are_watched(
    drawn: tuple[Instance, list[int], list[int], set[int]], most: int
) -> None:
    instance, _, group, chosen = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passing_module, "_MOST_WATCHED", most)
        passing = passing_tensors(instance, np.array(group))
    nodes = {v for v in range(instance.graph.n) if group[v] in chosen}
    step = math.ceil(instance.graph.n / most)
    watched = set(instance.graph.topological_order[::step].tolist())
    block = empty_block(passing)
    found = max(instance.needs[v] for v in nodes)
    found = max([found, *(join_block(g, passing, block) for g in sorted(chosen))])
    assert found == pytest.approx(most_live(instance, nodes, watched), rel=1e-12)


def training(layers: int, stash: Sequence[float], memory: float, k: int) -> Instance:
    """A forward pass whose layers hand a tensor each to their gradients, which work twice as long."""
    forward = [(v, v + 1, 0) for v in range(2 * layers - 1)]
    handed = [(v, 2 * layers - 1 - v, 1) for v in range(layers - 1)]
    sizes = [[1.0, stash[v]] if v < layers - 1 else [1.0] for v in range(2 * layers)]
    work = [1.0] * layers + [2.0] * layers
    return Instance(ComputationGraph.from_edges([*forward, *handed], work, sizes), Platform(k, 1.0, memory))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("memory", [3.0, 8.0, 20.0])
def test_a_training_step_is_proved_with_its_peaks(memory: float, k: int) -> None:
    instance = training(6, [5.0, 4.0, 3.0, 2.0, 1.0], memory, k)
    everything = Partition(instance, np.zeros(instance.graph.n, dtype=np.int64))
    result, by_need = ideals(everything), ideals(Partition(instance.modelled(), everything.block))
    assert result.proved
    assert result.bound is not None
    assert by_need.bound is not None
    if k == 1:
        assert result.bound.value == pytest.approx(everything.bottleneck, rel=1e-9)
        assert (by_need.bound.value < 0.9 * result.bound.value) == (memory < 15)
    exact = ExactInstance.of(instance).kinds[0]
    assert ideals_bound(exact, Fraction(result.bound.value) * (1 - Fraction(1, 10**9)), Clock(60.0)) is not None
    assert ideals_bound(exact, Fraction(result.bound.value) * (1 + Fraction(1, 10**6)), Clock(60.0)) is None


@pytest.mark.parametrize("first", [1.0, 70.0])
def test_what_passes_a_node_passes_none_64_places_behind(first: float) -> None:
    """The 8 bytes that pass the nodes 3 to 5 fit beside what these move, and would not beside the 5 that node 67 moves.

    They are in the block in front, or in that behind a node that takes as long as all others.
    """
    n = 70
    edges = [*((v, v + 1) for v in range(n - 1)), (1, 6)]
    graph = ComputationGraph.from_edges(edges, [first] + [1.0] * (n - 1), [1.0, 8.0] + [1.0] * 64 + [4.0] + [1.0] * 3)
    instance = Instance(graph, Platform(2, 1.0, 11.0))
    cuts = (Partition(instance, [0] * cut + [1] * (n - cut)) for cut in range(1, n))
    best = min(cuts, key=lambda partition: partition.bottleneck)
    assert best.bottleneck == (36.0 if first == 1 else 71.0)
    assert ideals(best).proved
    exact = ExactInstance.of(instance).kinds[0]
    assert ideals_bound(exact, Fraction(best.bottleneck) * (1 - Fraction(1, 10**9)), Clock(60.0)) is not None
    assert ideals_bound(exact, Fraction(best.bottleneck) * (1 + Fraction(1, 10**6)), Clock(60.0)) is None


def test_what_a_node_reads_does_not_pass_it() -> None:
    """The tensor of node 0 goes to 1 and 2: with what these hand on 9 and 10 are live there, 8 of them once."""
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2), (2, 3)], [1.0, 1.0, 1.0, 10.0], [8.0, 1.0, 1.0, 0.0])
    best = Partition(Instance(graph, Platform(2, 1.0, 0.0)), [0, 0, 0, 1])
    assert best.bottleneck == 3.0 + 1.0 + 10.0
    result = ideals(best)
    assert result.bound is not None
    assert result.bound.value == pytest.approx(14.0, rel=1e-9)
    assert ideals_bound(ExactInstance.of(best.instance).kinds[0], Fraction("14.001"), Clock(60.0)) is None


def test_it_does_not_pass_a_reader_beside_a_node_that_it_passes() -> None:
    """The tensor of node 0 passes node 2, behind node 1, which reads it as node 3 does: 11 are live at most."""
    edges = [(0, 1), (0, 3), (1, 2), (1, 3), (2, 3)]
    graph = ComputationGraph.from_edges(edges, np.ones(4), [8.0, 1.0, 1.0, 1.0])
    passing = passing_tensors(Instance(graph, Platform(1, 1.0, 0.0)), np.arange(4))
    block = empty_block(passing)
    assert [join_block(v, passing, block) for v in range(4)] == [0.0, 0.0, 0.0, 10.0]


def test_what_fits_in_another_order_is_not_impossible() -> None:
    """Two branches, the first tensor of each large: one branch behind the other fits, side by side they do not."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)]
    graph = ComputationGraph.from_edges(edges, np.ones(6), [0.0, 9.0, 9.0, 1.0, 1.0, 0.0])
    instance = Instance(graph, Platform(1, 1.0, 12.0, fit=True))
    start = Partition(instance, np.zeros(6, dtype=np.int64))
    assert start.bottleneck == math.inf
    assert Partition(instance, start.block, np.array([0, 1, 3, 2, 4, 5])).bottleneck < math.inf
    assert ideals(start).impossible is None
    assert not fits_nowhere(ExactInstance.of(instance).kinds[0], Clock(60.0))


def test_what_fits_in_no_order_is_impossible() -> None:
    """The tensors that pass the last layer of the forward pass do not fit beside what it touches."""
    instance = training(4, [5.0, 4.0, 3.0], 10.0, 1)
    instance = Instance(instance.graph, Platform(1, 1.0, 10.0, fit=True))
    result = solve(instance, "ideals")
    assert result.impossible is not None
    assert fits_nowhere(ExactInstance.of(instance).kinds[0], Clock(60.0))


def test_groups_of_nodes_may_run_around_a_tensor() -> None:
    """The nodes 1 and 2 share a block; by edges of theirs the tensor of 0 passes them both, and in fact none."""
    graph = ComputationGraph.from_edges([(0, 3, 0), (0, 1, 1), (2, 3, 0)], [1.0] * 4, [[9.0, 0.0], [9.0], [0.0], [0.0]])
    instance = Instance(graph, Platform(1, 1.0, 0.0), together=[[1, 2]])
    everything = Partition(instance, [0] * 4, np.array([2, 0, 3, 1]))
    result = solve(instance, "ideals", start=everything)
    assert result.bound is not None
    assert result.bound.value <= everything.bottleneck == 13.0
    merged = merge_groups(ExactInstance.of(instance), [0, 1, 1, 2]).kinds[0]
    assert ideals_bound(merged, Fraction(14), Clock(60.0)) is None


@pytest.mark.parametrize("dear_first", [True, False])
def test_merged_nodes_that_look_equal_may_differ_inside(dear_first: bool) -> None:
    """Eight branches of each of two kinds are joined to nodes of equal work and need; 301 and 201 bytes are live there.

    The best cut has the eight that hold more in the block that holds no parameters.
    """
    edges, work, sizes = list[tuple[int, int, int]](), [1.0], [[1.0]]
    branches: dict[bool, list[list[int]]] = {True: [], False: []}
    for dear in (dear_first, not dear_first):
        for i in range(8):
            part, first = (i + 1) / 64, len(work)
            nodes = list(range(first, first + (3 if dear else 2)))
            branches[dear].append(nodes)
            work += [0.5 - part, 0.25, 0.25 + part] if dear else [0.5 - part, 0.5 + part]
            sizes += [[100.0, 100.0], [100.0], [0.01]] if dear else [[200.0], [0.01]]
            edges += [(0, first, 0), *((u, u + 1, 0) for u in nodes[:-1])]
            edges += [(first, first + 2, 1)] if dear else []
    end = len(work)
    edges += [(nodes[-1], end, 0) for kind in branches.values() for nodes in kind]
    graph = ComputationGraph.from_edges(edges, [*work, 1.0], [*sizes, [0.0]], param_bytes=[500.0] + [0.0] * end)
    instance = Instance(graph, Platform(2, 1.0, 705.0))

    def cut(behind: list[list[int]]) -> Partition:
        block = np.zeros(graph.n, dtype=np.int64)
        block[[v for nodes in behind for v in nodes] + [end]] = 1
        return Partition(instance, block, np.arange(graph.n))

    best = cut(branches[True])
    result = ideals(cut([*branches[True], *branches[False][:3]]), limit=20_001)
    assert result.bound is not None
    assert result.bound.value <= best.bottleneck
