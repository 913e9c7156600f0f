"""Several threads at one tree of blocks, or at one search for prices: against brute force, and the same each time."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from price_oracle import all_blocks, best_of_kahn, cheapest, convex_sets, prices_for, searched_tree
from strategies import heavy_overflows, instances

from instances import Instance, Platform
from instances.deadline import Deadline
from instances.random_graphs import regal_style
from mtpp_models import SolveOptions, solve
from mtpp_models.bounds.priced.prices import BlockTree, PriceSearch


@pytest.fixture(autouse=True, scope="module")
def shared_after_each_node() -> Iterator[None]:
    """Trees of few nodes would otherwise end before a second thread has any of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mtpp_models.bounds.priced.prices._WORK_BETWEEN", 1)
        yield


@settings(max_examples=200)
@given(st.data())
def test_threads_find_and_prove_what_one_does(data: st.DataObject) -> None:
    """Goals that rise and fall, prices that change or fall, and blocks that are passed by; against all convex sets."""
    instance = data.draw(instances(max_nodes=6, max_k=3) | heavy_overflows())
    prices, threads = data.draw(prices_for(instance.graph.n)), data.draw(st.integers(2, 4))
    value = cheapest(instance, prices, 1e-12)
    assume(0 < value < math.inf)
    sets = {one.tobytes() for one, _ in convex_sets(instance)}
    tree = BlockTree(instance, prices, value, threads=threads)
    for _ in range(4):
        if data.draw(st.booleans()):
            prices = data.draw(prices_for(instance.graph.n))
            tree.reprice(prices)
        value = cheapest(instance, prices, 1e-12)
        goal = value * data.draw(st.sampled_from([0.5, 0.99, 1.01, 2.0]))
        assume(0 < goal < math.inf)
        tree.aim(goal)
        proved, blocks = all_blocks(tree)
        assert proved == (not blocks) == searched_tree(instance, prices, goal)[0]
        assert goal <= value * (1 + 1e-9) or not proved
        share = prices.sum() / min(instance.k, instance.graph.n)
        assert all(block.tobytes() in sets and prices[block].sum() >= share * (1 - 1e-6) for block in blocks)


@pytest.mark.parametrize("family", ["erdos-renyi", "stochastic-block"])
def test_as_many_threads_find_the_same_each_time(family: str) -> None:
    """Whichever of them is the faster one, blocks come in one order, and the leaves of the proof as well."""
    instance = Instance(regal_style(family, 30, seed=3), Platform(4, 1.0))
    work = instance.graph.work
    goal = 1.03 * cheapest_block(instance)
    trees = [BlockTree(instance, work, goal, threads=3) for _ in range(3)]
    found = [[block.tobytes() for block in all_blocks(tree)[1]] for tree in trees]
    assert found[0] == found[1] == found[2]
    assert found[0]
    for tree in trees:
        tree.aim(0.99 * cheapest_block(instance))
        assert tree.explore(Deadline.after(60.0)) == (True, None)
    proofs = [tree.proof() for tree in trees]
    assert len({None if proof is None else proof.decided.tobytes() for proof in proofs}) == 1


def cheapest_block(instance: Instance) -> float:
    """Cost of the cheapest block that is worth its share of the work, by the model of the paper."""
    bound = solve(instance, "bottleneck", reduce=False).bound
    assert bound is not None
    assert bound.optimal
    return bound.value


def test_leaves_that_threads_have_lost_are_explored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance(regal_style("erdos-renyi", 30, seed=2), Platform(3, 1.0))
    work, floor = instance.graph.work, float(instance.graph.work.sum()) / 3
    monkeypatch.setattr("mtpp_models.bounds.priced.prices._MOST_DECISIONS", 3)
    tree = BlockTree(instance, work, floor, threads=3)
    for goal in [floor * factor for factor in (1.05, 1.1, 1.15, 1.1, 1.2, 1.3)]:
        tree.aim(goal)
        assert tree.explore(Deadline.after(60.0))[0] == searched_tree(instance, work, goal)[0]


def test_threads_search_for_the_same_prices() -> None:
    """Each search has a seed of its own."""
    start = best_of_kahn(Instance(regal_style("watts-strogatz", 40, seed=0), Platform(4, 1.0)))
    one, three = PriceSearch(start, seed=1), PriceSearch(start, seed=1, threads=3)
    for search in (one, three):
        search.improve(4)
    np.testing.assert_array_equal(one.prices, three.prices)
    assert one.block_count == three.block_count


@pytest.mark.parametrize("method", ["priced", "priced-quick", "bisection"])
@pytest.mark.slow
def test_bounds_of_threads_are_the_same_each_time_and_have_witnesses(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mtpp_models.bounds.priced.prices._WORK_BETWEEN", 40)  # four of the nodes of a tree
    instance = Instance(regal_style("barabasi-albert", 10, seed=4), Platform(2 if method == "bisection" else 3, 1.0))
    start = best_of_kahn(instance)
    bounds = [solve(instance, method, SolveOptions(threads=3), start=start).bound for _ in range(2)]
    assert all(bound is not None and "tree" in bound.witness for bound in bounds)
    assert bounds[0] == bounds[1]
