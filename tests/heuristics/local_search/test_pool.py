"""The pool keeps what is good and varied, and what comes out of it is a partition like any other."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances

from heuristics import Limits, kahn, slice_order
from heuristics.local_search.annealing import Budget
from heuristics.local_search.multilevel import _SIZE, _STALE_SMALL, Pool
from heuristics.orders.slicing import at_once
from instances import Instance, Partition, Platform
from instances.deadline import Deadline
from instances.random_graphs import layered


def pool_of(instance: Instance, known: list[Partition], moves: int) -> Pool:
    """A pool with so many moves to spend."""
    return Pool(instance, np.random.default_rng(0), Budget(Limits(evaluations=moves), instance.graph.n), known)


def slicings(instance: Instance, count: int) -> list[Partition]:
    """Of so many random orders."""
    rng, n = np.random.default_rng(1), instance.graph.n
    return [slice_order(instance, kahn(instance.graph, rng.random(n))) for _ in range(count)]


def test_what_joins_a_full_pool_takes_the_place_of_one_no_better_and_most_alike() -> None:
    instance = Instance(layered(60, 150, seed=0), Platform(4, 1.0))
    known = slicings(instance, 3 * _SIZE)
    pool = pool_of(instance, known[:_SIZE], 1)
    for found in known[_SIZE:]:
        before = list(pool._members)
        pool.add(found)
        gone = [other for other in before if not any(other is kept for kept in pool._members)]
        worse = [other for other in before if other.preference >= found.preference]
        if not worse or any(np.array_equal(found.block, other.block) for other in before):
            assert not gone
            continue
        (left,) = gone
        assert left.preference >= found.preference
        assert np.sum(left.block != found.block) == min(np.sum(other.block != found.block) for other in worse)
    assert len(pool._members) == _SIZE
    best = min(known, key=lambda partition: partition.preference)
    assert min(other.preference for other in pool._members) == best.preference


@settings(max_examples=30)
@given(instances(max_nodes=7, max_k=4, huge_ratio=False), st.integers(1, 4))
def test_what_is_bred_is_never_below_the_optimum(instance: Instance, rounds: int) -> None:
    if instance.needs_peaks:  # which depend on the order; the brute force runs nodes by index
        return
    best = at_once(instance, Limits())
    pool, least = pool_of(instance, [best], 20_000), optimum(instance)
    for _ in range(rounds):
        found = pool.breed(best)
        assert found.bottleneck == pytest.approx(Partition(instance, found.block, found.order).bottleneck)
        assert found.bottleneck >= least * (1 - 1e-9)


def test_generations_from_nothing_and_unions_of_the_better_halves_take_turns() -> None:
    """All cycles lead to the one partition into one block."""
    instance = Instance(layered(30, 60, seed=0), Platform(1, 1.0))
    best = at_once(instance, Limits())
    pool = pool_of(instance, [best], 10**9)
    for _ in range(_STALE_SMALL + 1):
        pool.breed(best)
    assert pool._kept == [best]  # kept, while the next generation finds its own
    assert len(pool._members) == 1
    assert pool._members[0] is not best
    for _ in range(_STALE_SMALL + 1):
        pool.breed(best)
    assert not pool._kept


def test_what_walks_find_joins_no_generation_from_nothing_but_the_union_after_it() -> None:
    instance = Instance(layered(60, 150, seed=0), Platform(4, 1.0))
    known = sorted(slicings(instance, 2 * _SIZE), key=lambda partition: partition.preference)
    pool = pool_of(instance, known[_SIZE:], 1)
    pool._renew()
    assert pool._kept == known[_SIZE : _SIZE + _SIZE // 2]
    assert not pool._members
    pool.add(known[0])
    assert not pool._members
    pool._renew()
    assert known[0] in pool._members
    assert len(pool._members) <= _SIZE
    assert not pool._kept


def test_parts_of_a_budget() -> None:
    """Of moves, of time, and of what ends first."""
    budget = Budget(Limits(evaluations=100), 10)
    assert budget.part == 0.0
    budget.take(25)
    assert budget.part == 0.25
    assert Budget(Limits(Deadline.after(0.0)), 10).part == 1.0
    limited = Budget(Limits(Deadline.after(1e6), evaluations=100), 10)
    limited.take(50)
    assert limited.part == 0.5
