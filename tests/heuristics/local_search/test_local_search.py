"""Annealing keeps its books, and the local search only ever improves."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from strategies import partitions

from heuristics import HEURISTICS, Limits
from heuristics.local_search.annealing import Budget, Cooling, Walker, anneal_partition
from heuristics.local_search.searches import local_search
from heuristics.local_search.state import PartitionState, start_state, times_after
from instances import ComputationGraph, Instance, Partition, Platform
from instances.partitioning.peaks import KernelArrays
from instances.random_graphs import TOYS, layered, regal_style
from instances.suites import SUITES


def begun(block: Any, order: Any, k: int, arrays: KernelArrays) -> PartitionState:
    """As searches begin: from arrays that are not read-only, which to numba are another type."""
    return start_state(np.array(block), np.array(order), k, arrays)


def annealed(
    start: Partition, moves: int, seed: int, hot: float = 1.0, cold: float = 0.01
) -> tuple[PartitionState, float, np.ndarray]:
    """State, best bottleneck and best blocks after a walk."""
    instance = start.instance
    arrays = KernelArrays.of(instance)
    state = begun(start.block, start.order, instance.k, arrays)
    cooling = Cooling(moves, hot, cold)
    anneal_partition(state, arrays, instance.graph.predecessors, cooling, np.ones(instance.k), seed)
    return state, float(state.best[0]), state.best_rank[state.best_block]


def rounding(instance: Instance) -> float:
    params = instance.graph.held_total + instance.graph.tensors.bytes.sum()
    return 1e-11 * float(1 + instance.graph.work.sum() + params + instance.tensor_time.sum())


@pytest.mark.slow
@settings(max_examples=150)
@given(partitions(max_nodes=8, huge_ratio=False), st.integers(1, 300), st.integers(0, 99), st.sampled_from([1.0, 1e6]))
def test_after_any_walk_the_sums_are_those_of_the_blocks(start: Partition, moves: int, seed: int, hot: float) -> None:
    """Several outputs, shared parameters, memory with and without a buffer; when hot, every move is accepted."""
    instance = start.instance
    state, _, _ = annealed(start, moves, seed, hot)
    fresh = begun(state.block, start.order, instance.k, KernelArrays.of(instance))
    for name in ("size", "reads", "end", *(["uses"] if instance.has_overflow else [])):
        assert getattr(state, name).tolist() == getattr(fresh, name).tolist(), name
    assert state.queues.following.tolist() == fresh.queues.following.tolist()
    assert state.block[state.members].tolist() == sorted(state.block.tolist())
    assert state.members[state.place].tolist() == list(range(instance.graph.n))
    for name in ("time", "peak", *(["resident"] if instance.has_overflow else [])):
        np.testing.assert_allclose(getattr(state, name), getattr(fresh, name), rtol=0, atol=rounding(instance))


@given(partitions(max_nodes=8))
def test_the_sums_of_a_start_are_the_costs_of_the_partition(start: Partition) -> None:
    state = begun(start.block, start.order, start.instance.k, KernelArrays.of(start.instance))
    costs = start.costs
    np.testing.assert_allclose(state.time, costs.receive + costs.work + costs.send, rtol=1e-12, atol=1e-6)
    np.testing.assert_allclose(state.resident, start.param_bytes + start.state_bytes, rtol=1e-12)
    assert state.best[0] == pytest.approx(start.bottleneck, rel=1e-12, abs=1e-6)
    assert state.size.tolist() == np.bincount(start.block, minlength=start.instance.k).tolist()


@settings(max_examples=150)
@given(partitions(max_nodes=8, huge_ratio=False), st.integers(1, 300), st.integers(0, 99))
def test_the_bottleneck_of_a_walk_is_that_of_its_partition(start: Partition, moves: int, seed: int) -> None:
    """Its blocks are feasible, as are those at the end of the walk, and no worse than the start."""
    instance = start.instance
    state, best, block = annealed(start, moves, seed)
    assert Partition(instance, block, start.order).bottleneck == pytest.approx(best, abs=rounding(instance))
    assert Partition(instance, state.rank[state.block], start.order).bottleneck >= best - rounding(instance)
    assert state.at[state.rank].tolist() == list(range(instance.k))
    assert best <= start.bottleneck + rounding(instance)


@given(partitions(max_nodes=8, huge_ratio=False))
def test_two_nodes_that_change_places_cost_at_least_what_they_add_apart(start: Partition) -> None:
    """So a swap that is refused for the sum of its halves would be refused for its cost."""
    arrays, k, slack = KernelArrays.of(start.instance), start.instance.k, rounding(start.instance)
    state = begun(start.block, start.order, k, arrays)
    for v, w in combinations(range(start.instance.graph.n), 2):
        swapped, (a, b) = start.block.copy(), start.block[[v, w]].tolist()
        swapped[[v, w]] = b, a
        if a == b or any(swapped[x] > swapped[y] for x, y in start.instance.graph.edges):
            continue
        there, back = times_after(v, a, b, state, arrays), times_after(w, b, a, state, arrays)
        after = begun(swapped, start.order, k, arrays)
        assert there[0] + back[1] - state.time[a] <= after.time[a] + slack
        assert there[1] + back[0] - state.time[b] <= after.time[b] + slack


def test_blocks_change_places_unless_an_edge_joins_them() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], work=[1.0, 1.0, 1.0])
    start = Partition(Instance(graph, Platform(3, 1.0)), [0, 1, 2])
    states = [annealed(start, 50, seed, hot=1e-9, cold=1e-9)[0] for seed in range(20)]
    assert {tuple(state.rank.tolist()) for state in states} > {(0, 1, 2)}
    for state in states:
        assert state.rank[state.block[0]] < state.rank[state.block[1]]


def test_a_walk_climbs_when_hot_and_descends_when_cold(instance: Instance) -> None:
    start = HEURISTICS["kahn"].run(instance, np.random.default_rng(0))
    hot, best, _ = annealed(start, 20_000, seed=0, hot=1e9, cold=1e9)
    assert hot.time.max() > 1.3 * best
    cold, best, _ = annealed(start, 20_000, seed=0, hot=1e-9, cold=1e-9)
    assert cold.time.max() < 1.01 * best < start.bottleneck


def test_each_round_is_sliced_anew() -> None:
    """One move out of a single block cannot halve its cost, a slicing can."""
    instance = Instance(regal_style("erdos-renyi", 20, seed=0), Platform(3, bandwidth=1e9))
    start = Partition(instance, [0] * 20)
    assert (
        local_search(instance, np.random.default_rng(0), Limits(evaluations=1), start=start).bottleneck
        < 0.5 * start.bottleneck
    )


def test_slicing_leaves_a_trough_that_single_moves_do_not() -> None:
    """Every cut of Inception-v3 close to the best of one order is much dearer."""
    instance = SUITES["real"].entries[10].instance(2)
    assert instance.name == "inception-v3"
    limits = Limits(evaluations=130_000)
    found, orders = (
        HEURISTICS[name].run(instance, np.random.default_rng(0), limits).bottleneck
        for name in ("local-search", "random-100")
    )
    assert found <= 1.01 * orders


def test_the_start_of_a_walk_is_left_alone() -> None:
    instance = Instance(regal_style("erdos-renyi", 20, seed=0), Platform(3, bandwidth=1))
    start = Partition(instance, [0] * 20)
    state, _, block = annealed(start, 1000, seed=0)
    assert start.block.tolist() == [0] * 20
    assert block.tolist() != state.block.tolist() != start.block.tolist()


@pytest.mark.parametrize("toy", TOYS)
def test_toys_are_solved(toy: str) -> None:
    instance, optimum = TOYS[toy]()
    found = local_search(instance, np.random.default_rng(0), Limits(evaluations=20_000))
    assert found.instance is instance
    assert found.bottleneck == pytest.approx(optimum)


@settings(max_examples=60)
@given(partitions(max_nodes=8), st.integers(0, 9))
def test_never_worse_than_the_start(start: Partition, seed: int) -> None:
    """Also where the peak of an order counts."""
    found = local_search(start.instance, np.random.default_rng(seed), Limits(evaluations=500), start=start)
    assert found.bottleneck <= start.bottleneck
    assert found.instance is start.instance


def test_an_order_that_saves_memory_is_not_lost() -> None:
    """Run by index both large tensors are alive at once; the order of the start makes and drops one after the other."""
    graph = ComputationGraph.from_edges([(0, 2), (1, 3)], [1, 1, 1, 1], [100, 100, 0, 0])
    instance = Instance(graph, Platform(1, bandwidth=1, memory=100))
    start = Partition(instance, [0, 0, 0, 0], [0, 2, 1, 3])
    assert Partition(instance, start.block).bottleneck == 104 > start.bottleneck == 4
    assert local_search(instance, np.random.default_rng(0), Limits(evaluations=500), start=start).bottleneck == 4


@pytest.fixture(scope="module")
def instance() -> Instance:
    return Instance(regal_style("barabasi-albert", 60, seed=1), Platform(6, bandwidth=1))


def test_it_improves_on_the_order_that_it_starts_from(instance: Instance) -> None:
    start = HEURISTICS["kahn"].run(instance, np.random.default_rng(0))
    found = local_search(instance, np.random.default_rng(0), Limits(evaluations=100_000), start=start)
    assert found.bottleneck < 0.95 * start.bottleneck


def test_same_seed_same_answer_and_other_seeds_others(instance: Instance) -> None:
    blocks = [
        local_search(instance, np.random.default_rng(seed), Limits(evaluations=20_000)).block.tolist()
        for seed in (0, 0, 1)
    ]
    assert blocks[0] == blocks[1] != blocks[2]


def test_evaluations_are_moves_and_rounds_go_on_until_they_are_used(instance: Instance) -> None:
    """More rounds from the same seed are never worse."""
    found = [
        local_search(instance, np.random.default_rng(0), Limits(evaluations=moves)).bottleneck
        for moves in (125_000, 375_000, 875_000)
    ]
    assert found == sorted(found, reverse=True)
    assert found[2] < found[0]


def test_a_partition_that_costs_nothing_is_returned_at_once() -> None:
    idle = Instance(ComputationGraph.from_edges([(0, 1)], [0, 0]), Platform(2, bandwidth=1))
    start = Partition(idle, [0, 1])
    assert local_search(idle, np.random.default_rng(0), start=start) is start


@pytest.mark.parametrize("activation_buffer", [None, 0.0])
def test_a_search_that_minds_memory_beats_a_blind_one(activation_buffer: float | None) -> None:
    """The memory of a block is half of its share of the parameters."""
    graph = layered(60, 180, seed=1)
    memory = graph.parameter_total / 2 / 6
    instance = Instance(graph, Platform(6, 1.0, memory, activation_buffer))
    blind = local_search(Instance(graph, Platform(6, 1.0)), np.random.default_rng(0), Limits(evaluations=100_000))
    found = local_search(instance, np.random.default_rng(0), Limits(evaluations=100_000))
    assert found.bottleneck < 0.95 * Partition(instance, blind.block, blind.order).bottleneck


def test_tables_that_would_not_fit_are_not_made() -> None:
    """Readers of 3,000 tensors in 200,000 blocks would take 2.4 GB."""
    graph = layered(3_000, 3_000, seed=0)
    instance = Instance(graph, Platform(200_000, 1.0))
    start = Partition(instance, np.zeros(graph.n))
    assert local_search(instance, np.random.default_rng(0), start=start) is start


def test_temperatures_count_transfers_and_not_the_unit_of_time() -> None:
    graph = layered(60, 150, seed=0)

    def scale(bandwidth: float) -> float:
        instance = Instance(graph, Platform(4, bandwidth))
        walker = Walker(instance, np.random.default_rng(0), Budget(Limits(evaluations=1), graph.n))
        one_block = Partition(instance, np.zeros(graph.n, dtype=np.int64), graph.topological_order)
        communication = instance.tensor_time.sum() / graph.work.sum()
        assert walker._scale(one_block) == pytest.approx(16 * (1 + 2 * communication) / graph.n)
        return walker._scale(one_block)

    assert scale(0.1) > scale(1.0) > scale(1e9)


def test_blocks_become_equal_where_that_makes_transfers_dear() -> None:
    """One node is read by 300 that are read by another; what the block of the last one gains, others lose many times.

    The bound is that of a linear program: each of the 300 is in the last block, where its output stays, or elsewhere.
    """
    rng, n, k = np.random.default_rng(5), 302, 4
    middle = range(1, n - 1)
    edges = [(0, v) for v in middle] + [(v, n - 1) for v in middle]
    work, sent = rng.exponential(10, n), rng.exponential(5, n)
    graph = ComputationGraph.from_edges(edges, work, sent)
    stay, leave = work[1:-1] - sent[1:-1], work[1:-1] + sent[1:-1]
    rows = np.array([[*stay, -1], [*-leave, 1 - k]])
    most = [-(work[-1] + sent[1:-1].sum()), -(work[0] + leave.sum())]
    bound = linprog([0] * len(stay) + [1], rows, most, bounds=[(0, 1)] * len(stay) + [(0, None)]).fun
    found = local_search(
        Instance(graph, Platform(k, bandwidth=1)), np.random.default_rng(1), Limits(evaluations=1_000_000)
    )
    assert bound <= found.bottleneck <= 1.002 * bound
