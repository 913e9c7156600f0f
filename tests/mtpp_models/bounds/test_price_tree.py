"""The tree of blocks against brute force: from the root, and with leaves that are kept."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from price_oracle import all_blocks, cheapest, convex_sets, prices_for, searched_tree, without_overflow
from strategies import heavy_overflows, instances

from instances import ComputationGraph, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from instances.partitioning.memory import total_held
from instances.random_graphs import regal_style
from mtpp_models import solve
from mtpp_models.bounds.priced import relaxation
from mtpp_models.bounds.priced.prices import BlockTree
from mtpp_models.bounds.priced.quick import guessed_prices
from mtpp_models.bounds.priced.trees import Proofs
from mtpp_models.simple import simple


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
        # Parameters of thousands of goals are cut short.
        most = 2**12 * goal * instance.platform.bandwidth
        if total_held(instance) < most:
            costs = {one.tobytes(): cost for one, cost in convex_sets(instance)}
            assert costs[block.tobytes()] <= goal * (1 + 1e-6)


def test_parts_of_the_overflow_leave_small_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cheap without overflow, and what is cheap with it, may be dear in between."""
    graph, rng = regal_style("erdos-renyi", 40, seed=5), np.random.default_rng(0)
    graph = replace(graph, param_bytes=rng.lognormal(0.0, 0.5, 40) * graph.tensors.bytes.mean())
    instance = Instance(graph, Platform(4, 1.0, memory=0.2 * graph.held_total, activation_buffer=0.0))
    prices = graph.work + 0.8 * graph.held_bytes
    leaves = {}
    for parts in (1, 4):
        monkeypatch.setattr(relaxation, "_PARTS", parts)
        tree = BlockTree(instance, prices, 1443.0)
        assert tree.explore(Deadline()) == (True, None)
        proof = tree.proof()
        assert proof is not None
        leaves[parts] = len(proof.decided)
    assert leaves[4] < leaves[1] / 2


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


def begun(data: st.DataObject) -> tuple[Instance, FloatArray, float]:
    """A question, prices for it, and what its cheapest block costs: neither nothing nor infinite."""
    instance = data.draw(instances(max_nodes=5) | heavy_overflows())
    prices = data.draw(prices_for(instance.graph.n))
    first = cheapest(instance, prices, 1e-12)
    assume(0 < first < math.inf)
    return instance, prices, first


def aimed_anew(
    data: st.DataObject, tree: BlockTree, instance: Instance, prices: FloatArray, factors: list[float]
) -> tuple[FloatArray, float, float]:
    """Perhaps change the prices, then aim at one of the factors of what the cheapest block costs, the value.

    Returned are the prices, the goal and the value.
    """
    if data.draw(st.booleans()):
        prices = data.draw(prices_for(instance.graph.n))
        tree.reprice(prices)
    value = cheapest(instance, prices, 1e-12)
    goal = value * data.draw(st.sampled_from(factors))
    assume(0 < goal < math.inf)
    tree.aim(goal)
    return prices, goal, value


@pytest.mark.slow
@settings(max_examples=400)
@given(st.data())
def test_leaves_that_are_kept_prove_what_the_root_proves(data: st.DataObject) -> None:
    """Goals that rise and fall, and prices that change, in one tree: against all convex sets, as from the root."""
    instance, prices, first = begun(data)
    tree = BlockTree(instance, prices, first)
    for _ in range(4):
        if data.draw(st.booleans()):
            tree.explore(Deadline.after(60.0))
        prices, goal, value = aimed_anew(data, tree, instance, prices, [0.5, 0.99, 1.0, 1.01, 2.0])
        proved, block = tree.explore(Deadline.after(60.0))
        if goal != value:  # there, rounding decides: both answers are true
            assert proved == searched_tree(instance, prices, goal)[0]
        assert goal <= value * (1 + 1e-9) or not proved
        assert proved == (block is None)


@settings(max_examples=100)
@given(st.data())
def test_other_prices_for_the_same_goal_prove_what_the_root_proves(data: st.DataObject) -> None:
    """Blocks that stand in the way become cheaper until none does: no flow is that of another leaf."""
    instance = data.draw(instances(max_nodes=6, max_k=3) | heavy_overflows())
    prices = data.draw(prices_for(instance.graph.n))
    goal = cheapest(instance, prices, 1e-12) * data.draw(st.sampled_from([0.99, 1.01, 1.5, 2.0]))
    assume(0 < goal < math.inf)
    tree = BlockTree(instance, prices, goal)
    for _ in range(8):
        proved, block = tree.explore(Deadline.after(60.0))
        value = cheapest(instance, prices, 1e-12)
        assert goal <= value * (1 + 1e-9) or not proved
        if abs(goal - value) > 1e-6 * value:  # there, rounding decides: both answers are true
            assert proved == searched_tree(instance, prices, goal)[0]
        if block is None:
            prices = data.draw(prices_for(instance.graph.n))
        else:
            prices = np.where(block, data.draw(st.sampled_from([0.5, 0.93])) * prices, prices)
        tree.reprice(prices)


@settings(max_examples=300)
@given(st.data())
def test_what_is_done_stays_done_when_blocks_are_relieved(data: st.DataObject) -> None:
    """The prices at the end prove the goal by themselves, whatever was closed under higher ones."""
    instance = data.draw(instances(max_nodes=6, max_k=3) | heavy_overflows())
    prices, spare = data.draw(prices_for(instance.graph.n)), data.draw(st.sampled_from([0.01, 0.3, 1.0]))
    goal = cheapest(instance, prices, 1e-12) * data.draw(st.sampled_from([0.99, 1.01, 1.5, 2.0]))
    assume(0 < goal < math.inf)
    tree = BlockTree(instance, prices, goal, spare=spare)
    proved, block = tree.explore(Deadline.after(60.0))
    while block is not None and tree.relieve(block):
        assert tree.prices[block].sum() < 1
        proved, block = tree.explore(Deadline.after(60.0))
    assert tree.prices.sum() >= min(instance.k, instance.graph.n)
    assert proved == (block is None)
    if proved:
        assert goal <= cheapest(instance, tree.prices, 1e-12) * (1 + 1e-9)


@settings(max_examples=300)
@given(st.data())
def test_blocks_that_are_passed_by_prove_nothing(data: st.DataObject) -> None:
    """They are blocks, and under other goals and prices they count as they do from the root."""
    instance, prices, first = begun(data)
    tree = BlockTree(instance, prices, data.draw(st.sampled_from([1.01, 2.0, 4.0])) * first)
    for _ in range(3):
        proved, blocks = all_blocks(tree)
        assert proved == (not blocks)
        sets = {one.tobytes() for one, _ in convex_sets(instance)}
        share = prices.sum() / min(instance.k, instance.graph.n)
        assert all(block.tobytes() in sets and prices[block].sum() >= share * (1 - 1e-6) for block in blocks)
        prices, goal, _ = aimed_anew(data, tree, instance, prices, [0.5, 0.99, 1.01, 2.0])
        assert all_blocks(tree)[0] == searched_tree(instance, prices, goal)[0]
        tree.aim(goal)


def test_leaves_that_are_lost_are_explored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for so few that some are lost, the tree begins anew and proves the same."""
    instance = Instance(regal_style("erdos-renyi", 30, seed=2), Platform(3, 1.0))
    work, floor = instance.graph.work, float(instance.graph.work.sum()) / 3
    monkeypatch.setattr("mtpp_models.bounds.priced.prices._MOST_DECISIONS", 1)
    tree = BlockTree(instance, work, floor)
    goals = [floor * factor for factor in (1.05, 1.1, 1.15, 1.1, 1.2, 1.3)]
    for goal in goals:
        tree.aim(goal)
        assert tree.explore(Deadline.after(60.0))[0] == searched_tree(instance, work, goal)[0]


def test_the_witness_of_an_earlier_goal_stays_where_there_is_no_time_for_a_later_one() -> None:
    instance = Instance(regal_style("erdos-renyi", 40, seed=5), Platform(4, 1.0))
    prices, goals, proofs = guessed_prices(instance, 0.25), simple(instance) * np.array([0.9, 1.0, 1.1]), Proofs()
    tree = BlockTree(instance, prices, goals[0])
    for goal in goals.tolist():
        tree.aim(goal)
        assert tree.explore(Deadline()) == (True, None)
        proofs.add(goal, tree.proof(), prices)
        if goal == goals[0]:
            proofs.make_witness(Deadline(), 0.0)
    assert (proofs.value, proofs.highest, proofs.is_witnessed) == (goals[0], goals[2], False)
    witness = proofs.witness
    proofs.make_witness(Deadline.after(0.0), -10.0)  # a second, less a tenth of ten
    assert (proofs.value, proofs.witness) == (goals[0], witness)
    leaves = [len(proof.decided) for _, _, proof in proofs.goals]
    assert all(2 * few <= many for few, many in pairwise(leaves))
    proofs.make_witness(Deadline(), 0.0)
    assert (proofs.value, proofs.is_witnessed) == (goals[2], True)
    assert {"tree", "multipliers", "apart", "prices"} == set(proofs.witness)
    proofs.add(2 * goals[2], None, prices)  # a search that has forgotten leaves
    assert (proofs.value, proofs.is_witnessed) == (goals[2], False)
