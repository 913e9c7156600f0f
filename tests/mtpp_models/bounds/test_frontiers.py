"""Bounds by prices where frontiers are narrow against brute force, and their check."""

from __future__ import annotations

import copy
import json
from fractions import Fraction

import numpy as np
import pytest
from answer_files import check
from certificates import Document
from exact import needed_optimum
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from price_oracle import best_of_kahn, cheapest, convex_sets

from instances import ComputationGraph, Instance, Platform
from instances.graph.tensors import Tensors
from mtpp.problems.checking import certificate_document
from mtpp.verification.partitioning.cuts import frontier_bound
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.verdict import Clock
from mtpp_models import SolveOptions, solve
from mtpp_models.bounds.priced.frontiers import FrontierBlocks, sweep_of


@st.composite
def forests(draw: st.DrawFn) -> Instance:
    """Questions whose graph is a forest, with edges away from the roots or towards them, and several tensors a node."""
    n, outward = draw(st.integers(1, 7)), draw(st.booleans())
    number = st.sampled_from([0.0, 1.0, 2.0, 0.3, 1e-9]) | st.floats(0, 5)
    parent = [draw(st.integers(-1, v - 1)) for v in range(n)]
    tensors: list[tuple[int, float, list[int]]] = []
    for p in range(n):
        children = [v for v in range(n) if parent[v] == p]
        groups = draw(st.integers(1, 3))
        for g in range(groups):
            readers = [v for v in children if g == 0 or draw(st.booleans())]
            size = draw(number)
            if outward:
                tensors.append((p, size, readers))
            else:
                tensors += [(n - 1 - v, size, [n - 1 - p]) for v in readers]
    tensors.sort(key=lambda tensor: tensor[0])
    return _question(draw, n, tensors, number)


@st.composite
def any_graphs(draw: st.DrawFn) -> Instance:
    """Questions with up to seven nodes, of several tensors each that any later nodes read."""
    n = draw(st.integers(1, 7))
    number = st.sampled_from([0.0, 1.0, 2.0, 0.3, 1e-9]) | st.floats(0, 5)
    tensors = [
        (p, draw(number), draw(st.sets(st.integers(p + 1, n - 1), max_size=3)) if p < n - 1 else set())
        for p in range(n)
        for _ in range(draw(st.integers(1, 2)))
    ]
    return _question(draw, n, [(p, size, sorted(readers)) for p, size, readers in tensors], number)


def _question(
    draw: st.DrawFn, n: int, tensors: list[tuple[int, float, list[int]]], number: st.SearchStrategy[float]
) -> Instance:
    graph = ComputationGraph(
        work=np.array([draw(number) for _ in range(n)]),
        param_bytes=np.zeros(n),
        tensors=Tensors(
            producer=np.array([t[0] for t in tensors], dtype=np.int64),
            bytes=np.array([t[1] for t in tensors]),
            start=np.cumsum([0, *(len(t[2]) for t in tensors)]),
            consumers=np.array([v for t in tensors for v in t[2]], dtype=np.int64),
        ),
    )
    return Instance(graph, Platform(draw(st.integers(1, 4)), bandwidth=1.0))


@settings(max_examples=200)
@given(forests() | any_graphs(), st.data())
def test_the_cheapest_block_that_is_worth_its_share(instance: Instance, data: st.DataObject) -> None:
    n = instance.graph.n
    prices = np.array(data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)))
    bottleneck, steps = best_of_kahn(instance).bottleneck, sweep_of(instance, 0)
    assume(steps is not None and bottleneck > 0)
    assert steps is not None
    blocks, true = FrontierBlocks(steps, instance, bottleneck), cheapest(instance, prices.astype(float))
    blocks.price(prices, -(-int(prices.sum()) // min(instance.k, n)))
    assert true * (1 - 1e-6) - 1e-6 * bottleneck <= blocks.least <= true
    costs = {inside.tobytes(): cost for inside, cost in convex_sets(instance)}
    for block in blocks.blocks(bottleneck):
        assert block.tobytes() in costs
        assert prices[block].sum() * min(instance.k, n) >= prices.sum()
    assert costs[blocks.blocks(bottleneck)[0].tobytes()] == pytest.approx(true, rel=1e-6, abs=1e-6 * bottleneck)


@settings(max_examples=200)
@given(forests() | any_graphs(), st.data())
def test_the_check_knows_the_cheapest_block(instance: Instance, data: st.DataObject) -> None:
    """In any order; nodes that the order leaves out come behind their neighbours."""
    n = instance.graph.n
    prices = np.array(data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    assume(prices.any())
    order = [v for v in data.draw(st.permutations(range(n))) if prices[v] or data.draw(st.booleans())]
    exact, k = ExactInstance.of(instance).kinds[0], min(instance.k, int((prices > 0).sum()))
    true = min(cost for inside, cost in convex_sets(instance) if prices[inside].sum() * k >= prices.sum())
    assume(true > 0)
    bound = frontier_bound(exact, prices.tolist(), order, Fraction(2 * true), Clock(60.0))
    assert not isinstance(bound, str)
    assert bound.least <= Fraction(true) * (1 + Fraction(1, 10**12))
    assert float(bound.least) == pytest.approx(true, rel=1e-9)


@settings(max_examples=25)
@given(forests())
def test_bounds_are_below_the_optimum_and_proved_again(instance: Instance) -> None:
    result = solve(instance, "priced", start=best_of_kahn(instance))
    optimum = needed_optimum(instance)
    assert result.bound is not None
    assert optimum is not None
    assert result.bound.value <= optimum * (1 + Fraction(1, 10**9))
    verdict = check(certificate_document([result]))
    assert verdict.faults == ()
    assert not verdict.rests_on_trust


@pytest.fixture(scope="module")
def made() -> Document:
    """A bound for a tree of 25 nodes, of which the last one does no work and has no price."""
    rng, n = np.random.default_rng(1), 25
    edges = [(int(rng.integers(max(0, v - 9), v)), v) for v in range(1, n)]
    work = np.append(rng.lognormal(0, 0.5, n - 1), 0.0)
    graph = ComputationGraph.from_edges(edges, work=work, output_bytes=rng.lognormal(0, 0.5, n))
    start = best_of_kahn(Instance(graph, Platform(4, 1.0)))
    document = certificate_document([solve(start.instance, "priced", SolveOptions(seed=2), start=start)])
    assert document["bounds"][0]["parameters"]["prices"][-1] == 0
    return document


def test_the_bound_of_a_tree_is_above_simple(made: Document) -> None:
    verdict = check(made)
    assert verdict.faults == ()
    assert not verdict.rests_on_trust
    assert verdict.checks[0].how.startswith("re-proved by prices and a sweep")
    assert made["bounds"][0]["value"] > 1.03 * sum(node["work"] for node in made["question"]["graph"]["nodes"]) / 4


def test_what_prices_do_not_prove_is_false(made: Document) -> None:
    prices = made["bounds"][0]["parameters"]["prices"]
    for parameters, factor in (
        ({}, 1.01),
        ({"prices": prices[::-1]}, 1.0),
        ({"prices": [*prices[:-1], 0.5]}, 1.0),
        ({"prices": [price * 1000 for price in prices]}, 1.0),
        ({"tree": [0, 0]}, 1.0),
    ):
        other = copy.deepcopy(made)
        other["bounds"][0]["parameters"] |= parameters
        other["bounds"][0]["value"] = other["bound"] = made["bound"] * factor
        other["ratio"] = other["cost"] / other["bound"]
        assert len(check(other).faults) == 1


def test_faults_of_a_sweep_are_said() -> None:
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], [1.0] * 4, [1.0] * 4)
    instance = Instance(graph, Platform(2, 1.0))
    exact, clock = ExactInstance.of(instance).kinds[0], Clock(9.0)
    assert "names all nodes" in str(frontier_bound(exact, [1] * 4, [], Fraction(2), clock))
    assert "a block at most" in str(frontier_bound(exact, [2**20] * 4, [0], Fraction(2), clock))
    bound = frontier_bound(exact, [1, 1, 1, 0], [0, 1, 2, 3], Fraction(4), clock)
    assert not isinstance(bound, str)
    assert float(bound.least) == pytest.approx(4.0)
    assert sweep_of(instance) is None


def test_bug_an_order_was_no_json() -> None:
    """Of nodes with several edges, whose numbers were numpy's."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    instance = Instance(ComputationGraph.from_edges(edges, [1.0] * 5, [1.0] * 5), Platform(2, 1.0))
    steps = sweep_of(instance, 0)
    assert steps is not None
    assert sorted(json.loads(json.dumps([step.node for step in steps]))) == [0, 1, 2, 3, 4]


def test_bug_a_state_that_leads_nowhere_is_no_error() -> None:
    """Two nodes have places that the path between them, which the sweep meets later, rules out."""
    edges = [(0, 2), (0, 3), (1, 3), (1, 4), (2, 4)]
    instance = Instance(ComputationGraph.from_edges(edges, [1.0] * 5, [1.0] * 5), Platform(2, 1.0))
    steps = sweep_of(instance, 0)
    assert steps is not None
    blocks = FrontierBlocks(steps, instance, 5.0)
    blocks.price(np.ones(5, dtype=np.int64), 3)
    assert blocks.least == pytest.approx(cheapest(instance, np.array([1.0] * 5)))


@pytest.mark.parametrize("price", [1, 1000])
def test_sweeps_whose_tables_would_fill_the_memory_are_refused(price: int) -> None:
    """All leaves before their common reader, with long tables, and with short ones, whose names fill it."""
    graph = ComputationGraph.from_edges([(v, 40) for v in range(40)], [1.0] * 41, [1.0] * 41)
    exact = ExactInstance.of(Instance(graph, Platform(2, 1.0))).kinds[0]
    assert "too many states" in str(frontier_bound(exact, [price] * 41, range(41), Fraction(2), Clock(60.0)))


def test_the_bound_of_a_grid_is_proved_again() -> None:
    """Of ten rows of twelve nodes, drawn at random."""
    rng, rows, columns = np.random.default_rng(3), 10, 12
    edges = [(i * columns + j, i * columns + j + 1) for i in range(rows) for j in range(columns - 1)]
    edges += [(i * columns + j, i * columns + j + columns) for i in range(rows - 1) for j in range(columns)]
    n = rows * columns
    graph = ComputationGraph.from_edges(edges, rng.lognormal(0, 0.5, n), rng.lognormal(-0.7, 0.5, n))
    start = best_of_kahn(Instance(graph, Platform(6, 1.0)))
    document = certificate_document([solve(start.instance, "priced", SolveOptions(seed=2, time_limit=20), start=start)])
    verdict = check(document)
    assert verdict.faults == ()
    assert verdict.checks[0].how.startswith("re-proved by prices and a sweep")
    assert document["bound"] > 1.1 * graph.work.sum() / 6
