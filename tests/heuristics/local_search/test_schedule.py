"""Searches take turns: none starves, the one that gains goes on, and nothing that is known is lost."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from brute_force import optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances, partitions

from heuristics import HEURISTICS, Limits, portfolio
from heuristics.local_search.annealing import Budget
from heuristics.local_search.schedule import _Arm, _next
from heuristics.local_search.searches import multilevel
from instances import Instance, Partition, Platform
from instances.deadline import Deadline
from instances.random_graphs import layered, regal_style


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.01, 2.0)), min_size=2, max_size=6))
def test_each_search_has_its_least_part_and_the_rest_goes_to_the_one_that_gains(
    arms: list[tuple[float, float]],
) -> None:
    """Each gains at its own rate in slices of its own length."""
    least = 0.5 / len(arms)
    found = [_Arm(lambda best: best, least) for _ in arms]
    of = {id(arm): numbers for arm, numbers in zip(found, arms, strict=True)}
    for _ in range(400):
        arm = _next(found)
        rate, slice_length = of[id(arm)]
        arm.note(rate * slice_length, slice_length)
    total, longest = sum(arm.spent for arm in found), max(length for _, length in arms)
    assert all(arm.spent >= least * total - longest * len(arms) for arm in found)
    best, second = sorted(range(len(arms)), key=lambda i: -arms[i][0])[:2]
    if arms[best][0] > 2 * arms[second][0]:
        assert found[best].spent >= 0.5 * total - 2 * longest * len(arms)


def test_a_time_limit_is_no_limit_on_moves() -> None:
    assert Budget(Limits(Deadline.after(9.0)), 50).remaining == sys.maxsize
    assert Budget(Limits(), 50).remaining == 10_000_000
    assert Budget(Limits(), 3).remaining == 600_000
    assert Budget(Limits(evaluations=20_000_000), 50).remaining == 20_000_000
    assert Budget(Limits(Deadline.after(9.0), evaluations=7), 50).remaining == 7


@settings(max_examples=60)
@given(instances(max_nodes=7, max_k=4, huge_ratio=False), st.integers(0, 9), st.sampled_from([1, 500, 20_000]))
def test_never_below_the_optimum(instance: Instance, seed: int, moves: int) -> None:
    if instance.needs_peaks:  # which depend on the order; the brute force runs nodes by index
        return
    best = optimum(instance)
    for name in ("multilevel", "portfolio"):
        found = HEURISTICS[name].run(instance, np.random.default_rng(seed), Limits(evaluations=moves))
        assert found.bottleneck >= best * (1 - 1e-9)
        assert found.bottleneck == pytest.approx(Partition(instance, found.block, found.order).bottleneck)


@settings(max_examples=60)
@given(partitions(max_nodes=8), st.integers(0, 9))
def test_no_start_is_lost(start: Partition, seed: int) -> None:
    found = portfolio(start.instance, np.random.default_rng(seed), Limits(evaluations=300), starts=[start])
    assert found.bottleneck <= start.bottleneck
    assert found.instance is start.instance


def test_partitions_into_fewer_blocks_are_starts() -> None:
    graph = regal_style("watts-strogatz", 60, seed=0)
    fewer = portfolio(Instance(graph, Platform(3, 1.0)), np.random.default_rng(0), Limits(evaluations=200_000))
    found = portfolio(
        Instance(graph, Platform(4, 1.0)), np.random.default_rng(0), Limits(evaluations=1), starts=[fewer]
    )
    assert found.bottleneck <= fewer.bottleneck
    assert found.instance.k == 4


@pytest.mark.parametrize("target", [0.0, 1e-300, np.inf])
@pytest.mark.parametrize("search", [portfolio, multilevel])
def test_a_target_ends_the_search(search: type, target: float) -> None:
    """Also one that is reached as the search adds up, and missed by a rounding as the partition does."""
    instance = Instance(layered(40, 100, seed=0), Platform(4, 1.0))
    known = portfolio(instance, np.random.default_rng(0), Limits(evaluations=300_000))
    for goal in (target, known.bottleneck, np.nextafter(known.bottleneck, 0.0)):
        found = search(instance, np.random.default_rng(0), Limits(evaluations=400_000, target=goal))
        assert found.bottleneck > 0


def test_more_moves_never_hurt_and_the_same_moves_repeat() -> None:
    """The clock of a search without a time limit is its moves."""
    instance = Instance(layered(150, 400, seed=3), Platform(6, 1.0))
    few, many, again = (
        portfolio(instance, np.random.default_rng(5), Limits(evaluations=moves))
        for moves in (100_000, 3_000_000, 3_000_000)
    )
    assert many.bottleneck <= few.bottleneck
    assert many.block.tolist() == again.block.tolist()
