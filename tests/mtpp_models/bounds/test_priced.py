"""Bounds from node prices: the claim by brute force, the tree, the search for prices and the whole."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from brute_force import best_partition
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import heavy_overflows, instances, partitions

from heuristics import HEURISTICS
from instances import ComputationGraph, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.partitioning.kernel_arrays import KernelArrays
from instances.partitioning.reductions import reduce_instance
from instances.random_graphs import regal_style
from mtpp_models import SolveOptions, solve
from mtpp_models.bounds.priced.block_search import Relations, heaviest_block
from mtpp_models.bounds.priced.branch_and_bound import BlockTree
from mtpp_models.bounds.priced.price_search import PriceSearch
from mtpp_models.cuts.max_flow import BoolArray

FloatArray = np.ndarray


def convex_sets(instance: Instance) -> list[tuple[BoolArray, float]]:
    """All blocks but the empty one, by brute force, with their costs; without a buffer the peak is the largest need."""
    graph, modelled = instance.graph, instance.modelled().with_k(3)
    found: dict[bytes, tuple[BoolArray, float]] = {}
    for home in itertools.product(range(3), repeat=graph.n):
        if 1 in home and all(home[u] <= home[v] for u, v in graph.edges.tolist()):
            inside = np.array(home) == 1
            if inside.tobytes() not in found:
                found[inside.tobytes()] = inside, float(Partition(modelled, home).block_costs[1])
    return list(found.values())


def cheapest(instance: Instance, prices: FloatArray, short: float = 0.0) -> float:
    """Cost of the cheapest block that is worth its share, of which a small part may be missing."""
    share = math.fsum(prices) / min(instance.k, instance.graph.n) * (1 - short)
    return min(cost for inside, cost in convex_sets(instance) if prices[inside].sum() >= share)


@st.composite
def prices_for(draw: st.DrawFn, n: int) -> FloatArray:
    """Any prices: few, equal, whole, of very different size."""
    price = draw(st.sampled_from([st.integers(0, 3), st.floats(0, 1), st.sampled_from([0.0, 1e-9, 1.0, 1e9])]))
    prices = np.array(draw(st.lists(price, min_size=n, max_size=n)), dtype=np.float64)
    assume(prices.max() > 1e-300)
    return prices


@settings(max_examples=2000)
@given(st.data())
def test_some_block_of_every_partition_is_worth_its_share(data: st.DataObject) -> None:
    """OPT is at least the cost of the cheapest block that is worth a k-th of all prices."""
    instance = data.draw(instances(max_nodes=4, max_k=3) | heavy_overflows())
    prices = data.draw(prices_for(instance.graph.n))
    best = best_partition(instance.modelled()).bottleneck
    assert cheapest(instance, prices, 1e-12) <= best * (1 + 1e-12)


@settings(max_examples=300)
@given(st.data())
def test_reductions_prove_no_more_than_the_original_graph(data: st.DataObject) -> None:
    """With the prices at the anchors; so what is proved for the smaller graph can be proved again for the larger."""
    instance = data.draw(instances(max_nodes=6))
    reduction = reduce_instance(instance)
    small = data.draw(prices_for(reduction.instance.graph.n))
    large = np.zeros(instance.graph.n)
    large[reduction.anchor] = small
    assume(reduction.instance.graph.n >= instance.k)  # else the smaller graph has larger shares
    original = cheapest(instance, large, 1e-12)
    assert cheapest(reduction.instance, small, 1e-9) <= original * (1 + 1e-12)


def searched_tree(
    instance: Instance, prices: FloatArray, goal: float, seconds: float = 60.0
) -> tuple[bool, BoolArray | None]:
    return BlockTree(instance, prices, goal).explore(Deadline.after(seconds))


@settings(max_examples=600)
@given(st.data())
def test_the_tree_finds_a_block_below_the_goal_or_proves_that_there_is_none(data: st.DataObject) -> None:
    """Against all convex sets; with overflow and without, weights of any size, goals near what is true."""
    instance = data.draw(instances(max_nodes=5) | heavy_overflows())
    prices = data.draw(prices_for(instance.graph.n))
    value = cheapest(instance, prices, 1e-12)
    goal = value * data.draw(st.sampled_from([0.5, 0.99, 1.0, 1.01, 2.0]))
    assume(goal > 0 and np.isfinite(goal))
    proved, block = searched_tree(instance, prices, goal)
    if proved:
        assert goal <= value * (1 + 1e-9)
    else:
        assert block is not None
        assert cheapest(without_overflow(instance), prices, 1e-6) <= goal * (1 + 1e-9)
        sets = {one.tobytes() for one, _ in convex_sets(instance)}
        assert block.tobytes() in sets
        assert prices[block].sum() >= prices.sum() / min(instance.k, instance.graph.n) * (1 - 1e-6)
        # Shared parameters are left out, and those of thousands of goals are cut short.
        most = 2**12 * goal * instance.platform.bandwidth
        if not instance.graph.parameters and instance.graph.held_total < most:
            costs = {one.tobytes(): cost for one, cost in convex_sets(instance)}
            assert costs[block.tobytes()] <= goal * (1 + 1e-6)


@pytest.mark.parametrize("family", ["erdos-renyi", "watts-strogatz", "stochastic-block"])
@pytest.mark.parametrize("k", [3, 6])
def test_the_tree_agrees_with_the_model_of_the_paper(family: str, k: int) -> None:
    """Where the prices are the work, the cheapest block is the optimum of *bottleneck*."""
    instance = Instance(regal_style(family, 24, seed=1), Platform(k, 1.0))
    bound = solve(instance, "bottleneck", reduce=False).bound
    assert bound is not None
    assert bound.optimal
    work = instance.graph.work
    assert searched_tree(instance, work, bound.value * (1 - 1e-5)) == (True, None)
    proved, block = searched_tree(instance, work, bound.value * (1 + 1e-5))
    assert not proved
    assert block is not None


def test_a_tree_that_is_told_to_stop_proves_nothing() -> None:
    instance = Instance(regal_style("erdos-renyi", 40, seed=1), Platform(4, 1.0))
    assert BlockTree(instance, instance.graph.work, 1.0).explore(Deadline.after(0)) == (False, None)


def test_small_prices_count_together() -> None:
    """Each is a millionth of a millionth of the largest; together they are worth a share."""
    half = 100
    graph = ComputationGraph.from_edges(
        [(v, v + 1) for v in range(2 * half - 1)], np.full(2 * half, 1 / half), np.full(2 * half, 1e-3)
    )
    instance = Instance(graph, Platform(2, 1.0))
    prices = np.full(2 * half, 0.9e-9)
    prices[[0, -1]] = 1.0
    optimum = Partition(instance, np.repeat([0, 1], half)).bottleneck
    assert not searched_tree(instance, prices, 1.5 * optimum)[0]


@settings(max_examples=400)
@given(st.data())
def test_leaves_that_are_kept_prove_what_the_root_proves(data: st.DataObject) -> None:
    """Goals that rise and fall, and prices that change, in one tree: against all convex sets, as from the root."""
    instance = data.draw(instances(max_nodes=5) | heavy_overflows())
    prices = data.draw(prices_for(instance.graph.n))
    first = cheapest(instance, prices, 1e-12)
    assume(0 < first < math.inf)
    tree = BlockTree(instance, prices, first)
    for _ in range(4):
        if data.draw(st.booleans()):
            tree.explore(Deadline.after(60.0))
        if data.draw(st.booleans()):
            prices = data.draw(prices_for(instance.graph.n))
            tree.reprice(prices)
        value = cheapest(instance, prices, 1e-12)
        goal = value * data.draw(st.sampled_from([0.5, 0.99, 1.0, 1.01, 2.0]))
        assume(0 < goal < math.inf)
        tree.aim(goal)
        proved, block = tree.explore(Deadline.after(60.0))
        if goal != value:  # there, rounding decides: both answers are true
            assert proved == searched_tree(instance, prices, goal)[0]
        assert goal <= value * (1 + 1e-9) or not proved
        assert proved == (block is None)


def test_leaves_that_are_lost_are_explored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for so few that some are lost, the tree begins anew and proves the same."""
    instance = Instance(regal_style("erdos-renyi", 30, seed=2), Platform(3, 1.0))
    work, floor = instance.graph.work, float(instance.graph.work.sum()) / 3
    monkeypatch.setattr("mtpp_models.bounds.priced.branch_and_bound._MOST_DECISIONS", 1)
    tree = BlockTree(instance, work, floor)
    goals = [floor * factor for factor in (1.05, 1.1, 1.15, 1.1, 1.2, 1.3)]
    for goal in goals:
        tree.aim(goal)
        assert tree.explore(Deadline.after(60.0))[0] == searched_tree(instance, work, goal)[0]


@pytest.mark.parametrize("model", ["priced", "priced-quick"])
@pytest.mark.parametrize("start", ["none", "optimal"])
@settings(max_examples=40)
@given(instance=instances(max_nodes=5) | heavy_overflows())
def test_no_bound_is_above_the_optimum(model: str, start: str, instance: Instance) -> None:
    """Overflow, more blocks than nodes, one block, weights of any size."""
    best = best_partition(instance)
    result = solve(instance, model, SolveOptions(time_limit=0.1), start=best if start == "optimal" else None)
    assert result.bound is not None
    assert result.bound.value <= best_partition(instance.modelled()).bottleneck * (1 + 1e-9)
    assert (result.partition is None) == (start == "none")


def test_a_toy_is_proved_beyond_all_cuts() -> None:
    """Three blocks of two equal nodes do not hold seven of them; neither the work nor pairs of nodes tell."""
    graph = ComputationGraph.from_edges([], [1.0] * 7, [0.0] * 7)
    instance = Instance(graph, Platform(3, 1.0))
    start = Partition(instance, [0, 0, 0, 1, 1, 2, 2])
    priced, *others = (
        solve(instance, model, SolveOptions(time_limit=20), start=start).bound
        for model in ("priced", "simple", "pigeonhole")
    )
    assert priced is not None
    assert min(priced.witness["prices"]) >= 0
    assert all(other is not None and priced.value > 1.15 * other.value for other in others)


def test_prices_are_stated_for_the_nodes_of_the_original_graph() -> None:
    """Node 0, a constant, is merged away; its price is 0."""
    graph = ComputationGraph.from_edges([(0, 1), *((1, v) for v in range(2, 9))], [0.0, *[1.0] * 8], [0.1] * 9)
    instance = Instance(graph, Platform(3, 1.0))
    result = solve(instance, "priced", SolveOptions(time_limit=2), start=best_of_kahn(instance))
    assert result.bound is not None
    prices = result.bound.witness["prices"]
    assert len(prices) == 9
    assert prices[0] == 0
    assert searched_tree(instance, np.array(prices), result.bound.value * (1 - 1e-9))[0]


def best_of_kahn(instance: Instance) -> Partition:
    return HEURISTICS["kahn"].run(instance, np.random.default_rng(0))


def searched(
    instance: Instance, inside: BoolArray, prices: FloatArray, ceiling: float, seed: int = 0, moves: int = 200
) -> tuple[float, BoolArray]:
    """A search at the temperatures that the search for prices begins with."""
    n, mean = len(prices), float(prices.mean())
    arrays, relations = KernelArrays.of(instance), Relations.of(instance.graph)
    return heaviest_block(inside, prices, ceiling, arrays, relations, moves * n, 0.4 * mean, 0.04 * mean, PENALTY, seed)


# For prices whose mean is k / n.
PENALTY = 1.3


@settings(max_examples=150)
@given(st.data())
def test_a_found_block_is_one(data: st.DataObject) -> None:
    """It is convex, worth and costs what is said; the same seed finds it again."""
    partition = data.draw(partitions(max_nodes=6, huge_ratio=False, overflow=False))
    instance, n = partition.instance, partition.instance.graph.n
    ceiling = partition.bottleneck * data.draw(st.sampled_from([0.5, 1.0, 1.5]))
    prices = data.draw(prices_for(n))
    assume(ceiling > 0)
    prices /= prices.max()
    inside = partition.block == data.draw(st.integers(0, instance.k - 1))
    found, block = searched(instance, inside, prices, ceiling, moves=20)
    again = searched(instance, inside, prices, ceiling, moves=20)
    assert found == again[0]
    assert (block == again[1]).all()
    sets = {one.tobytes(): cost for one, cost in convex_sets(instance)}
    if found >= 0 and block.any():
        assert sets[block.tobytes()] <= ceiling + 1e-9
        assert found == pytest.approx(prices[block].sum(), abs=1e-9)
        assert found >= (prices[inside].sum() if sets.get(inside.tobytes(), 0.0) <= ceiling - 1e-9 else 0) - 1e-9
    elif found < 0:
        assert sets[inside.tobytes()] > ceiling - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_a_search_does_not_drift_to_all_nodes(seed: int) -> None:
    """All nodes together cut no tensor; a penalty that grew linearly let them win, and blocks of 2.5 remained."""
    instance = Instance(regal_style("watts-strogatz", 200, seed=0), Platform(16, 1.0))
    start = best_of_kahn(instance)
    prices = np.random.default_rng(seed).random(200)
    prices *= 16 / prices.sum()
    found, block = searched(instance, np.zeros(200, dtype=bool), prices, start.bottleneck, seed)
    search = PriceSearch(start)
    assert found > 5
    assert found > max(prices[start.block == b].sum() for b in range(16))
    assert found == pytest.approx(prices[block].sum(), rel=1e-9)
    assert search.cost(block) <= start.bottleneck * (1 + 1e-9)


class Searches(Deadline):
    """Passes when a search for prices has looked at it that many times, once after each search for a block."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.looks = [number]

    @property
    def passed(self) -> bool:
        """Whether this is the last look."""
        self.looks[0] -= 1
        return self.looks[0] <= 0


@settings(max_examples=60)
@given(partitions(max_nodes=7, huge_ratio=False))
def test_no_known_block_is_worth_more_than_one(start: Partition) -> None:
    """Prices are not negative and not all 0; the blocks are convex; the ceiling stays between simple and the start."""
    assume(start.bottleneck > 0)
    search = PriceSearch(start, seed=1)
    bound = solve(start.instance, "simple", reduce=False).bound
    assert bound is not None
    assume(bound.value < start.bottleneck)
    costs = {inside.tobytes(): cost for inside, cost in convex_sets(without_overflow(start.instance))}
    for _ in range(3):
        ceiling = search.ceiling
        search.improve(1000, Searches(90))
        assert search.prices.min() >= 0
        assert search.prices.max() > 0
        assert bound.value <= search.ceiling <= ceiling
        for block in search._blocks.values():
            if block.any():
                assert search.cost(block) == pytest.approx(costs[block.tobytes()], rel=1e-9, abs=1e-9)
                assert search.cost(block) > search.ceiling or search.prices[block].sum() <= 1 + 1e-6


def without_overflow(instance: Instance) -> Instance:
    return Instance(instance.graph, Platform(instance.k, instance.platform.bandwidth))


def test_prices_of_a_seed_are_the_same_again() -> None:
    instance = Instance(regal_style("watts-strogatz", 60, seed=0), Platform(8, 1.0))
    answers = []
    for seed in (3, 3, 4):
        search = PriceSearch(best_of_kahn(instance), seed)
        search.improve(1000, Searches(100))
        answers.append((search.prices, search.ceiling))
    assert (answers[0][0] == answers[1][0]).all()
    assert answers[0][1] == answers[1][1]
    assert (answers[0][0] != answers[2][0]).any()


def test_a_search_for_prices_stops_in_the_middle_of_a_round() -> None:
    """Of a large graph one round takes many seconds."""
    instance = Instance(regal_style("watts-strogatz", 60, seed=0), Platform(8, 1.0))
    search = PriceSearch(best_of_kahn(instance))
    asked = Searches(5)
    search.improve(1000, asked)
    assert asked.looks[0] >= -1
    search.improve(1000, Deadline.after(0))
