"""Bounds from node prices: the claim by brute force, the tree and the whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
from brute_force import best_partition
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from price_oracle import best_of_kahn, cheapest, prices_for, searched_tree
from strategies import heavy_overflows, instances

from instances import ComputationGraph, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.partitioning.symmetry import reduce_instance
from instances.random_graphs import regal_style
from mtpp_models import Progress, SolveOptions, solve
from mtpp_models.bounds.priced.priced import Prices
from mtpp_models.bounds.priced.prices import PriceSearch
from mtpp_models.bounds.priced.quick import Climb, QuickPrices
from mtpp_models.bounds.priced.relaxation import with_ends
from mtpp_models.simple import simple
from mtpp_models.solvers.interface import Controls

FloatArray = np.ndarray


@pytest.mark.slow
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


class NearlyOver(Deadline):
    """Too little time for anything, and never none."""

    left = 0.01
    passed = False

    def share(self, part: float) -> Deadline:
        return self


def test_bug_a_stop_before_the_deadline_is_no_end() -> None:
    """It stopped some milliseconds before its time was up, called that its end, and never had a second turn."""
    instance = Instance(regal_style("erdos-renyi", 40, seed=1), Platform(4, 1.0))
    start, method = Partition(instance, [0] * 40), QuickPrices()
    bound = method(start, Controls(deadline=NearlyOver())).bound
    assert bound is not None
    assert not bound.optimal
    deadline = Deadline.after(20.0)

    def stop(moment: Progress) -> None:
        if moment.bound is not None and moment.bound > bound.value:
            deadline.interrupted.set()

    again = method(start, Controls(deadline=deadline, report=stop)).bound
    assert again is not None
    assert again.value > bound.value


def test_bug_goals_that_failed_in_a_short_turn_leave_no_small_steps_to_a_long_one() -> None:
    """Trials left steps of 0.2 %, each of which began with all leaves, and most of a minute went into them."""
    goals: list[float] = []
    short, fails = Deadline(), True

    class Stubborn(Climb):
        def prove(self, goal: float, deadline: Deadline) -> bool:
            goals.append(goal)
            if len(goals) == 9:
                short.interrupted.set()
            return not fails

    instance = Instance(regal_style("erdos-renyi", 9, seed=1), Platform(4, 1.0))
    climb = Stubborn(instance, np.ones(9))
    assert not list(climb.goals(1.0, 2.0, short))
    assert goals[-1] < 1.01
    fails = False
    assert list(climb.goals(1.0, 2.0, Deadline()))[-1] == 2.0
    assert goals[9] > 1.02
    assert len(goals) < 20


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


def test_another_turn_goes_on_where_the_last_one_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for prices begins once for each question, and no turn proves less than the one before."""
    begun = []

    def begin(start: Partition, seed: int, threads: int) -> PriceSearch:
        begun.append(start.instance)
        return PriceSearch(start, seed, threads)

    monkeypatch.setattr("mtpp_models.bounds.priced.priced.PriceSearch", begin)
    instance, method = Instance(regal_style("erdos-renyi", 40, seed=1), Platform(4, 1.0)), Prices()

    def turn(question: Instance) -> float:
        bound = method(best_of_kahn(question), Controls(deadline=Deadline.after(0.4))).bound
        assert bound is not None
        return bound.value

    values = [turn(instance) for _ in range(4)]
    assert values == sorted(values)
    assert len(begun) == 1
    assert turn(instance.with_k(3)) <= best_of_kahn(instance.with_k(3)).bottleneck
    assert len(begun) == 2


@pytest.mark.parametrize("factor", [0.5, 0.99, 1.0, 1.5, math.inf])
def test_a_bound_that_others_state_is_a_place_to_begin_and_no_proof(factor: float) -> None:
    """Not even a false one gets into the answer; goals begin above one that is true."""
    instance = Instance(regal_style("erdos-renyi", 9, seed=1), Platform(3, 1.0))
    best = best_partition(instance)
    options = SolveOptions(time_limit=2, seed=1)
    bound = solve(instance, "priced", options, start=best, lower=factor * best.bottleneck).bound
    assert bound is not None
    assert simple(instance) <= bound.value <= best.bottleneck * (1 + 1e-9)


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
    """Node 0, a constant, is merged away; its price is 0. The last two are of the nodes before and behind all."""
    edges = [(0, 1), *((1, v) for v in range(2, 9)), (2, 8)]
    graph = ComputationGraph.from_edges(sorted(edges), [0.0, *[1.0] * 8], [0.1] * 9)
    instance = Instance(graph, Platform(3, 1.0))
    result = solve(instance, "priced", SolveOptions(time_limit=60), start=best_of_kahn(instance))
    assert result.bound is not None
    prices = result.bound.witness["prices"]
    assert len(prices) == 9 + 2
    assert prices[0] == 0
    assert searched_tree(with_ends(instance), np.array(prices), result.bound.value * (1 - 1e-9))[0]
