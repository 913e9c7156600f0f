"""Bounds from node prices: the claim by brute force, the tree, the search for prices and the whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
from brute_force import best_partition
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from price_oracle import cheapest, convex_sets, prices_for, searched_tree, without_overflow
from scipy.sparse import csr_array
from strategies import heavy_overflows, instances, partitions

from heuristics import HEURISTICS
from instances import ComputationGraph, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.partitioning.kernel_arrays import KernelArrays
from instances.partitioning.reductions import reduce_instance
from instances.random_graphs import regal_style
from mtpp_models import Progress, SolveOptions, solve
from mtpp_models.bounds.priced.block_search import Relations, heaviest_block
from mtpp_models.bounds.priced.ends import with_ends
from mtpp_models.bounds.priced.guessed_prices import Climb, QuickPrices
from mtpp_models.bounds.priced.price_search import PriceSearch
from mtpp_models.bounds.priced.priced import Prices
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.simple import simple
from mtpp_models.solvers.highs import solve_lp
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

    def begin(start: Partition, seed: int) -> PriceSearch:
        begun.append(start.instance)
        return PriceSearch(start, seed)

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
    bound = solve(instance, "priced", options, start=best, known=factor * best.bottleneck).bound
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
    graph = ComputationGraph.from_edges([(0, 1), *((1, v) for v in range(2, 9))], [0.0, *[1.0] * 8], [0.1] * 9)
    instance = Instance(graph, Platform(3, 1.0))
    result = solve(instance, "priced", SolveOptions(time_limit=60), start=best_of_kahn(instance))
    assert result.bound is not None
    prices = result.bound.witness["prices"]
    assert len(prices) == 9 + 2
    assert prices[0] == 0
    assert searched_tree(with_ends(instance), np.array(prices), result.bound.value * (1 - 1e-9))[0]


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


@pytest.mark.slow
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
        search.improve(1000, Searches(90))
        assert search.prices.min() >= 0
        assert search.prices.max() > 0
        assert bound.value <= search.ceiling <= start.bottleneck
        for block in search._blocks.values():
            if block.any():
                assert search.cost(block) == pytest.approx(costs[block.tobytes()], rel=1e-9, abs=1e-9)
                assert search.cost(block) > search.ceiling or search.prices[block].sum() <= 1 + 1e-6


def test_prices_of_a_seed_are_the_same_again() -> None:
    instance = Instance(regal_style("watts-strogatz", 60, seed=0), Platform(8, 1.0))
    answers = []
    for seed in (3, 3, 4):
        search = PriceSearch(best_of_kahn(instance), seed)
        search.improve(1000, Searches(400))
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


def test_a_program_that_takes_too_long_has_no_answer() -> None:
    """What it would say in time, it says; what it had when it was stopped are no prices."""
    inside = csr_array(np.ones((2, 3)))
    answer = solve_lp(inside, np.ones(3), np.ones(2), 60.0)
    assert answer is not None
    assert answer.sum() == pytest.approx(1.0, abs=1e-2)
    assert solve_lp(inside, np.ones(3), np.ones(2), 0.0) is None


def test_a_search_without_its_program_keeps_its_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is told what time is left, and at least a second; prices and ceiling stay where it has no answer."""
    told = []

    def none(*args: object) -> None:
        told.append(args[-1])

    monkeypatch.setattr("mtpp_models.bounds.priced.price_search.solve_lp", none)
    search = PriceSearch(best_of_kahn(Instance(regal_style("watts-strogatz", 60, seed=0), Platform(8, 1.0))))
    prices, ceiling = search.prices, search.ceiling
    search.improve(1, Deadline.after(0))
    search.improve(1, Searches(3))
    assert told == [1.0, np.inf]
    assert search.ceiling == ceiling
    blocks = np.array(list(search._blocks.values()))
    assert (blocks @ search.prices)[np.array(search._costs) <= ceiling].max() <= 1 + 1e-9
    assert search.prices / search.prices.max() == pytest.approx(prices / prices.max())
