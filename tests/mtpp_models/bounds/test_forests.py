"""Bounds by prices in forests against brute force, and their check."""

from __future__ import annotations

import copy
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
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.forests import forest_bound
from mtpp.verification.verdict import Clock
from mtpp_models import SolveOptions, solve
from mtpp_models.bounds.priced.forests import ForestBlocks, is_forest


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


@settings(max_examples=150)
@given(forests(), st.data())
def test_the_cheapest_block_that_is_worth_its_share(instance: Instance, data: st.DataObject) -> None:
    """No child reads several tensors of several readers here: then it is exact, else a bound."""
    n = instance.graph.n
    prices = np.array(data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)))
    bottleneck = best_of_kahn(instance).bottleneck
    assume(is_forest(instance))
    k = min(instance.k, n)
    blocks, true = ForestBlocks(instance, bottleneck), cheapest(instance, prices.astype(float))
    blocks.price(prices, -(-int(prices.sum()) // k))
    assert blocks.least <= true
    costs = {inside.tobytes(): cost for inside, cost in convex_sets(instance)}
    for block in blocks.blocks(bottleneck):
        assert block.tobytes() in costs
        assert prices[block].sum() * k >= prices.sum()
    assert blocks.least <= costs[blocks.blocks(bottleneck)[0].tobytes()]
    exact = ExactInstance.of(instance).kinds[0]
    if blocks.least > 0:
        bound = forest_bound(exact, prices.tolist(), Fraction(2 * true), Clock(60.0))
        assert not isinstance(bound, str)
        assert bound.least <= Fraction(true) * (1 + Fraction(1, 10**12))
        assert blocks.least == pytest.approx(float(bound.least), rel=1e-9, abs=1e-9 * bottleneck)
    if len(instance.graph.edges) == len(instance.graph.tensors.consumers):
        assert blocks.least == pytest.approx(true, rel=1e-9, abs=1e-9 * bottleneck)


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
    assert verdict.checks[0].how.startswith("re-proved by prices of a forest")
    assert made["bounds"][0]["value"] > 1.03 * sum(node["work"] for node in made["question"]["graph"]["nodes"]) / 4


def test_what_forest_prices_do_not_prove_is_false(made: Document) -> None:
    prices = made["bounds"][0]["parameters"]["prices"]
    for parameters, factor in (
        ({}, 1.01),
        ({"prices": prices[::-1]}, 1.0),
        ({"prices": [*prices[:-1], 0.5]}, 1.0),
        ({"prices": [price * 1000 for price in prices]}, 1.0),
    ):
        other = copy.deepcopy(made)
        other["bounds"][0]["parameters"] |= parameters
        other["bounds"][0]["value"] = other["bound"] = made["bound"] * factor
        other["ratio"] = other["cost"] / other["bound"]
        assert len(check(other).faults) == 1


def test_prices_of_no_forest_prove_nothing() -> None:
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], [1.0] * 4, [1.0] * 4)
    instance = Instance(graph, Platform(2, 1.0))
    exact = ExactInstance.of(instance).kinds[0]
    assert "forest" in str(forest_bound(exact, [1] * 4, Fraction(2), Clock(9.0)))
    bound = forest_bound(exact, [1, 1, 1, 0], Fraction(4), Clock(9.0))  # without the last one it is a tree
    assert not isinstance(bound, str)
    assert float(bound.least) == pytest.approx(3.0)
    assert not is_forest(instance)


def test_prices_whose_tables_would_fill_the_memory_are_refused() -> None:
    """A block may be worth as much as all together may not."""
    graph = ComputationGraph.from_edges([(0, v) for v in range(1, 300)], [1.0] * 300, [1.0] * 300)
    exact = ExactInstance.of(Instance(graph, Platform(300, 1.0))).kinds[0]
    assert "in all at most" in str(forest_bound(exact, [60_000] * 300, Fraction(2), Clock(9.0)))
