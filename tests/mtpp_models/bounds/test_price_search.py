"""The search for node prices, and for one block that they make heavy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from price_oracle import best_of_kahn, convex_sets, prices_for
from scipy.sparse import csr_array
from strategies import partitions

from instances import ComputationGraph, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.partitioning.peaks import KernelArrays
from instances.random_graphs import regal_style
from mtpp_models import solve
from mtpp_models.bounds.priced.blocks import Relations, heaviest_block
from mtpp_models.bounds.priced.prices import PriceSearch
from mtpp_models.bounds.priced.relaxation import LeastOverflow
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.solvers.highs import solve_lp

FloatArray = np.ndarray


def searched(
    instance: Instance, inside: BoolArray, prices: FloatArray, ceiling: float, seed: int = 0, moves: int = 200
) -> tuple[float, BoolArray]:
    """A search at the temperatures that the search for prices begins with."""
    n, mean = len(prices), float(prices.mean())
    relations, overflow = Relations.of(instance.graph), LeastOverflow.of(instance, ceiling)
    question = prices, ceiling, KernelArrays.of(instance), overflow, relations
    return heaviest_block(inside, *question, moves * n, 0.4 * mean, 0.04 * mean, PENALTY, seed)


# For prices whose mean is k / n.
PENALTY = 1.3


@settings(max_examples=150)
@given(st.data())
def test_a_found_block_is_one(data: st.DataObject) -> None:
    """It is convex, worth and costs what is said; the same seed finds it again."""
    partition = data.draw(partitions(max_nodes=6, huge_ratio=False))
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
    costs = {inside.tobytes(): cost for inside, cost in convex_sets(start.instance)}
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

    monkeypatch.setattr("mtpp_models.bounds.priced.prices.solve_lp", none)
    search = PriceSearch(best_of_kahn(Instance(regal_style("watts-strogatz", 60, seed=0), Platform(8, 1.0))))
    prices, ceiling = search.prices, search.ceiling
    search.improve(1, Deadline.after(0))
    search.improve(1, Searches(3))
    assert told == [1.0, np.inf]
    assert search.ceiling == ceiling
    blocks = np.array(list(search._blocks.values()))
    assert (blocks @ search.prices)[np.array(search._costs) <= ceiling].max() <= 1 + 1e-9
    assert search.prices / search.prices.max() == pytest.approx(prices / prices.max())


def test_bug_prices_did_not_know_of_overflow() -> None:
    """Six nodes that work before six that hold: two blocks cost 5; by work alone they cost 3, and prices proved 4."""
    edges = [(v, v + 1) for v in range(11)]
    graph = ComputationGraph.from_edges(edges, [1] * 6 + [0] * 6, [0] * 12, param_bytes=[0] * 6 + [1] * 6)
    bound = solve(Instance(graph, Platform(2, 1.0, memory=3.0)), "priced", reduce=False).bound
    assert bound is not None
    assert bound.value == pytest.approx(5.0, rel=1e-6)
