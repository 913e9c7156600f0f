"""Guess-the-bottleneck where the slowest block pays no more than its cost."""

from __future__ import annotations

import contextlib
import itertools
import math

import numpy as np
import pytest
from brute_force import modelled_optimum
from fixed_models import fixed_objective
from hypothesis import given, settings
from strategies import instances, partitions

from heuristics import HEURISTICS
from instances import ComputationGraph, InputError, Instance, Partition, Platform, SharedParameter
from instances.random_graphs import TOYS, regal_style
from mtpp_models import MODELS, ScaledInstance, SolveOptions, simple, solve
from mtpp_models.formulations.formulation import Case, block_ranks
from mtpp_models.registry import find_model
from mtpp_models.simple import one_block, work_bound
from mtpp_models.solvers.modeling import pyo

TIGHT = "guess-the-bottleneck-tight"


def least_and_most(case: Case, partition: Partition) -> tuple[float, float] | None:
    """What superblock 2 can cost where y is fixed to a partition; None if the case excludes it."""
    ends = []
    for sense in (pyo.minimize, pyo.maximize):
        model = case.model(partition)
        model.objective.sense = sense
        cost = fixed_objective(model)
        if cost is None:
            return None
        ends.append(cost)
    return ends[0], ends[1]


def check_costs(partition: Partition) -> None:
    """Each case costs what its block costs, that of the dearest block admits it; so it does with overflow."""
    instance = partition.instance.modelled()
    partition = Partition(instance, partition.block)
    unit = partition.bottleneck or 1.0
    ranks, room = block_ranks(partition), 1e-6 * max(1.0, one_block(instance).bottleneck / unit)
    costs = {int(rank): cost for rank, cost in zip(ranks, partition.block_costs[partition.block], strict=True)}
    data = ScaledInstance(instance, unit)
    peaks = max(data.need_time) if data.has_overflow else 0.0  # without a buffer they are known from below
    for r, case in enumerate(MODELS[TIGHT].cases(data), start=1):
        ends = least_and_most(case, partition)
        if r not in costs:
            continue
        if ends is None:
            assert costs[r] < partition.bottleneck
            continue
        assert ends[0] >= costs[r] / unit - room
        assert ends[1] <= costs[r] / unit + peaks + room
        if costs[r] == partition.bottleneck:
            assert ends[0] == pytest.approx(1.0 if partition.bottleneck else 0.0, abs=room)


@settings(max_examples=30)
@given(partitions(max_nodes=5, huge_ratio=False))
def test_superblock_2_costs_what_its_block_costs(partition: Partition) -> None:
    check_costs(partition)


@pytest.mark.parametrize("memory", [math.inf, 5.0])
def test_superblock_2_costs_what_its_block_costs_in_all_partitions_of_a_graph(memory: float) -> None:
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    graph = ComputationGraph.from_edges(edges, [3, 1, 4, 1, 5], [2, 1, 3, 2, 0], [2, 3, 1, 2, 2])
    instance, checked = Instance(graph, Platform(3, 2.0, memory)), 0
    for block in itertools.product(range(3), repeat=5):
        with contextlib.suppress(InputError):
            partition = Partition(instance, block)
            check_costs(partition)
            checked += 1
    assert checked == 27


@settings(max_examples=40)
@given(instances(max_nodes=5, huge_ratio=False, overflow=False))
def test_the_bound_is_the_least_of_all_partitions_into_three(instance: Instance) -> None:
    """Of those whose middle costs at least L, and enough for what lies before and behind it."""
    k, share = min(instance.k, instance.graph.n), work_bound(instance)
    three, least = instance.with_k(3), math.inf
    for block in itertools.product(range(3), repeat=instance.graph.n):
        with contextlib.suppress(InputError):
            before, middle, behind = Partition(three, block).block_costs * (1 - 1e-9 * np.array([1, -1, 1]))
            for r in range(1, k + 1):
                empty = (r > 1 or 0 not in block) and (r < k or 2 not in block)
                if empty and middle >= share and (r - 1) * middle >= before and (k - r) * middle >= behind:
                    least = min(least, middle)
    bound = solve(instance, TIGHT, reduce=False).bound
    assert bound is not None
    margin = 1e-6 * one_block(instance).bottleneck  # of the unit in which the model is scaled
    assert bound.value == pytest.approx(max(simple(instance), least), rel=3e-6, abs=1e-9 + margin)


@pytest.mark.parametrize(
    ("question", "least"),
    [
        (TOYS["four-blocks"]()[0], 1.8),
        (Instance(regal_style("barabasi-albert", 14, seed=0), Platform(3, 1.0)), 1.09),
        (Instance(regal_style("watts-strogatz", 12, seed=0), Platform(3, 1.0, 100.0, 160.0)), 1.05),
    ],
    ids=["four-blocks", "barabasi-albert", "overflow"],
)
def test_it_is_higher_than_guess_the_bottleneck(question: Instance, least: float) -> None:
    loose, tight = solve(question, "guess-the-bottleneck").bound, solve(question, TIGHT).bound
    assert loose is not None
    assert tight is not None
    assert tight.value > least * loose.value


def test_it_stays_below_17_on_the_four_block_toy() -> None:
    """With (14) besides it would claim 19, above the optimum: the slowest block need not have the most work."""
    instance, value = TOYS["four-blocks"]()
    bound = solve(instance, TIGHT).bound
    assert bound is not None
    assert bound.value <= value == 17


@pytest.mark.parametrize("work", [0.1, 1 / 3, 0.7, 1.1e-9, 3e15 / 7])
def test_rounding_does_not_cut_off_blocks_that_all_cost_the_same(work: float) -> None:
    """Each row then holds with equality, beside sums that differ in their last digit."""
    for k in (2, 3, 7):
        instance = Instance(ComputationGraph.from_edges([], [work] * 3 * k), Platform(k, 1.0))
        bound = solve(instance, TIGHT, reduce=False).bound
        assert bound is not None
        assert bound.value == pytest.approx(3 * work, rel=2e-6)
        assert bound.value <= 3 * work * (1 + 1e-9)


def test_shared_parameters_and_memory_that_is_smaller_than_the_buffer() -> None:
    """What a block holds is bounded from above as well, each shared parameter once."""
    shared = (SharedParameter("shared", 7.0, (0, 2)),)
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [3, 1, 2], [1, 1, 0], [2, 2, 2], parameters=shared)
    for memory, buffer in ((6.0, 1.0), (1.0, 4.0), (100.0, 1.0)):
        for k in (1, 2, 3):
            instance = Instance(graph, Platform(k, 1.0, memory, buffer))
            bound = solve(instance, TIGHT, reduce=False).bound
            assert bound is not None
            assert bound.value <= modelled_optimum(instance)
            if k == 1:
                assert bound.value == pytest.approx(modelled_optimum(instance), rel=2e-6)


@pytest.mark.parametrize("parts", ["all", "cutoff", "joins"])
def test_nothing_that_holds_below_a_known_bottleneck_is_added(parts: str) -> None:
    with pytest.raises(InputError, match="cannot be strengthened"):
        find_model(f"{TIGHT}+{parts}")


def test_a_start_changes_no_value() -> None:
    """A start is also the unit."""
    instance = Instance(regal_style("barabasi-albert", 9, seed=0), Platform(3, 1.0))
    start = HEURISTICS["random-1"].run(instance, np.random.default_rng(0))
    cold, warm = solve(instance, TIGHT).bound, solve(instance, TIGHT, SolveOptions(), start=start).bound
    assert cold is not None
    assert warm is not None
    assert warm.value == pytest.approx(cold.value, rel=3e-6)
