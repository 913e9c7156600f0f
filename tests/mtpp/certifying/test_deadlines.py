"""Work stops when its deadline has passed, and large graphs take no memory of pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mtpp
from heuristics import HEURISTICS, search, slice_order
from heuristics.method import Limits
from heuristics.orders.bisection import slice_by_bisection
from heuristics.orders.slicing import equal_pieces
from instances import ComputationGraph, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.random_graphs import layered, regal_style
from mtpp.certifying.certify import certify
from mtpp_models import SolveOptions, simple, solve
from mtpp_models.bounds.cuts import pinned
from mtpp_models.bounds.ideals.ideals import Turns, list_ideals
from mtpp_models.cuts.cuts import BlockCuts
from mtpp_models.cuts.max_flow import MOST_PAIRED
from mtpp_models.formulations.strengthening import Strengthening, collect_facts

LARGE = Instance(layered(MOST_PAIRED + 1, 2 * MOST_PAIRED, seed=1), Platform(k=4, bandwidth=1.0))


def start_of(instance: Instance) -> Partition:
    return equal_pieces(instance, instance.graph.topological_order)


def test_bug_cuts_around_nodes_need_no_matrix() -> None:
    """`pinned` made two (n, n) matrices before its first look at the clock: 20 GB for 10^5 nodes."""
    cuts = BlockCuts(LARGE, start_of(LARGE).bottleneck)
    _, nodes = cuts.cut([17])
    assert cuts.is_convex(nodes)
    assert not {"reach", "reach_back"} & set(vars(cuts))


@pytest.mark.parametrize("name", ["pigeonhole", "priced-quick", "priced"])
def test_bug_bounds_by_pairs_of_nodes_leave_large_graphs_alone(name: str) -> None:
    """They took half a minute for 10,000 nodes to notice that a tenth of a second was over."""
    result = solve(LARGE, name, SolveOptions(time_limit=50.0), start=start_of(LARGE))
    assert result.bound is not None
    assert result.bound.value == simple(LARGE)
    assert result.bound.method == "simple"


def test_bug_facts_by_pairs_are_not_collected_of_large_graphs() -> None:
    """Windows are then everything, and no nodes are kept apart."""
    facts = collect_facts(LARGE, (2, 2), 1e9, Strengthening(), Deadline())
    assert facts is not None
    assert (facts.windows.first == 1).all()
    assert (facts.windows.last == 2).all()
    assert not facts.successions
    assert not facts.cliques


def test_bug_slicing_a_large_order_stops_at_its_deadline() -> None:
    """It took five seconds of 10^5 nodes under any limit; equal pieces take none."""
    order, passed = LARGE.graph.topological_order, Deadline.after(0.0)
    assert (slice_by_bisection(LARGE, order, passed).block == start_of(LARGE).block).all()
    assert slice_order(LARGE, order).bottleneck < start_of(LARGE).bottleneck
    found = search(LARGE, "kahn", np.random.default_rng(0), Limits(passed)).partition
    assert found is not None


def test_small_orders_are_sliced_whatever_the_deadline_says() -> None:
    """That answers at once."""
    instance = Instance(layered(200, 400, seed=1), Platform(k=4, bandwidth=1.0))
    order = instance.graph.topological_order
    assert slice_order(instance, order, Deadline.after(0.0)).bottleneck == slice_order(instance, order).bottleneck


def test_bug_no_sets_of_nodes_of_a_large_graph_are_listed() -> None:
    """A bit for each pair of nodes would be gigabytes."""
    n = 20_001
    graph = ComputationGraph.from_edges(np.column_stack((np.arange(n - 1), np.arange(1, n))), np.ones(n), np.ones(n))
    turns = Turns(Deadline(), Deadline())
    next(list_ideals(Instance(graph, Platform(k=2, bandwidth=1.0)), float(n), turns))  # waits for a longer turn


def test_bug_models_of_too_many_rows_are_not_built() -> None:
    """Not even without a time limit: they would take all memory."""
    n = 60_000
    instance = Instance(layered(n, 2 * n, seed=1), Platform(k=8, bandwidth=1.0))
    result = solve(instance, "exact")
    assert result.bound is not None
    assert result.bound.value == simple(instance)
    assert not result.bound.optimal


@pytest.mark.parametrize("threads", [1, 2])
def test_a_large_graph_and_a_limit_of_milliseconds(threads: int) -> None:
    """A partition no worse than equal pieces, and a bound."""
    instance = Instance(layered(20_000, 40_000, seed=1), Platform(k=8, bandwidth=1.0))
    result = certify(instance, SolveOptions(time_limit=0.001, threads=threads))
    assert result.cost is not None
    assert result.cost <= start_of(instance).bottleneck
    assert result.bound is not None
    assert simple(instance) <= result.bound.value <= result.cost


def test_after_the_deadline_only_what_answers_at_once_runs() -> None:
    """No other step begins, and none of what runs looks for more."""
    steps: list[str] = []
    instance = Instance(regal_style("erdos-renyi", 60, seed=1), Platform(k=4, bandwidth=1.0))
    certify(instance, SolveOptions(time_limit=1e-9), on_step=lambda turn: steps.append(turn.method))
    assert steps == ["simple", "kahn"]


def test_pinned_stops_with_what_is_proved() -> None:
    """A deadline that has passed leaves no cut, and the bound 0."""
    result = pinned(start_of(LARGE), Deadline.after(0.0))
    assert result.bound is not None
    assert not result.bound.optimal


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seconds", [0.001, 0.05, 60.0])
@pytest.mark.parametrize(("nodes", "edges", "k"), [
    (1, [], 1), (1, [], 3), (5, [], 2), (5, [], 5), (6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], 6), (4, [(0, 3)], 9),
])  # fmt: skip
def test_corners_have_sound_answers(
    nodes: int, edges: list[tuple[int, int]], k: int, seconds: float, threads: int
) -> None:
    """One node, no edge, as many blocks as nodes, more blocks than nodes, at any limit."""
    graph = ComputationGraph.from_edges(edges, 1.0 + np.arange(nodes), np.ones(nodes))
    instance = Instance(graph, Platform(k=k, bandwidth=1.0))
    result = certify(instance, SolveOptions(time_limit=seconds, threads=threads))
    assert result.cost is not None
    assert result.bound is not None
    assert simple(instance) <= result.bound.value <= result.cost * (1 + 1e-9)
    assert seconds < 1 or result.proved


@pytest.mark.parametrize("method", sorted({"portfolio", "local-search", "kahn"} & set(HEURISTICS)))
def test_a_search_is_no_worse_than_its_start(method: str) -> None:
    """`portfolio` and `local-search` go on from it; where there are more blocks than nodes all begin anew."""
    for k in (4, 90):
        instance = Instance(regal_style("erdos-renyi", 60, seed=1), Platform(k=k, bandwidth=1.0))
        start = search(instance, "local-search", np.random.default_rng(0), Limits(evaluations=200_000)).partition
        assert start is not None
        found = search(instance, method, np.random.default_rng(1), Limits(evaluations=10), start=start).partition
        assert found is not None
        assert method == "kahn" or k == 90 or found.bottleneck <= start.bottleneck


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_layers_of_unlike_devices_are_chosen_however_short_the_time(phase: str) -> None:
    result = mtpp.flow("llama-3-70b", devices="4xA100,6xL4,6xT4", dims={"phase": phase}, time_limit=1e-9)
    assert result.answer is not None
    assert result.answer.flow > 0


@pytest.mark.parametrize("words", [{}, {"prefill": "pools"}, {"objective": "latency"}, {"topology": "chain"}])
def test_a_deployment_is_there_however_short_the_time(words: dict[str, Any]) -> None:
    result = mtpp.serve("llama-3-70b", servers="2x8xH100,1x4xL4", time_limit=1e-9, **words)
    assert result.answer is not None
    assert all(chain.is_allowed for _, chain, _ in result.answer.pools)
