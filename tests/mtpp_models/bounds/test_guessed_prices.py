"""The race of guessed prices: who goes on, and what is left to them."""

from __future__ import annotations

import numpy as np
import pytest

from instances import ComputationGraph, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.random_graphs import regal_style
from mtpp_models.bounds.cuts import pinned
from mtpp_models.bounds.priced.quick import Climb, QuickPrices
from mtpp_models.simple import simple
from mtpp_models.solvers.interface import Controls


def instance_of(n: int) -> Instance:
    return Instance(regal_style("erdos-renyi", n, seed=1), Platform(4, 1.0))


def test_a_slow_guess_shuts_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first goals take too long for one guess, the others have their turn and one of them goes on."""
    instance, first, begun = instance_of(12), list[Climb](), list[Climb]()
    begin = Climb.begin

    def slow(self: Climb, goal: float, deadline: Deadline) -> bool:
        first.append(self)
        begun.append(self)
        return self is not first[0] and begin(self, goal, deadline)

    monkeypatch.setattr(Climb, "begin", slow)
    start = Partition(instance, [0] * 12)
    bound = QuickPrices()(start, Controls(deadline=Deadline.after(5.0))).bound
    assert bound is not None
    assert bound.value > simple(instance)
    assert len({id(climb) for climb in begun}) == 3


def test_goals_that_nobody_proves_leave_a_part_of_the_time_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Climb, "begin", lambda self, goal, deadline: False)
    instance, tried = instance_of(12), list[Climb]()
    prove = Climb.prove

    def noted(self: Climb, goal: float, deadline: Deadline) -> bool:
        tried.append(self)
        return prove(self, goal, deadline)

    monkeypatch.setattr(Climb, "prove", noted)
    bound = QuickPrices()(Partition(instance, [0] * 12), Controls(deadline=Deadline.after(2.0))).bound
    assert bound is not None
    assert bound.value > simple(instance)
    assert len({id(climb) for climb in tried}) == 3


@pytest.mark.parametrize("n", [6, 12])
def test_blocks_that_stop_a_race_leave_small_goals(n: int) -> None:
    """In a row of equal nodes no goal of the race is proved, and one that is less than a percent higher is."""
    row = ComputationGraph.from_edges([(v, v + 1) for v in range(n - 1)], np.ones(n), np.full(n, 0.01))
    instance = Instance(row, Platform(3, 1.0))
    start = Partition(instance, np.arange(n) * 3 // n)
    bound = QuickPrices()(start, Controls(deadline=Deadline.after(10.0))).bound
    assert bound is not None
    assert simple(instance) * 1.002 < bound.value <= start.bottleneck


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.5, 2.0])
def test_bug_bounds_above_simple_had_no_witness_where_time_was_over(seconds: float) -> None:
    """The bound is that of the highest goal with a witness, whatever was proved."""
    instance = instance_of(60)
    quick, controls = QuickPrices(), Controls(deadline=Deadline.after(seconds))
    bound = quick(Partition(instance, [0] * 60), controls).bound
    assert bound is not None
    assert bound.value == simple(instance) or "tree" in bound.witness


def test_the_value_of_a_guess_is_the_goal_that_it_proved() -> None:
    instance = instance_of(9)
    climb = Climb(instance, np.ones(9))
    goal = 1.001 * simple(instance)
    assert climb.begin(goal, Deadline()) == (climb.value == goal)
    assert climb.value in (0.0, goal)
    climb = Climb(instance, np.ones(9))
    assert climb.begin(goal / 2, Deadline())
    assert climb.value == goal / 2
    assert climb.proved is not None


def test_a_node_that_overflows_or_sends_much_is_proved_by_itself() -> None:
    """A head needs more with its reader than alone, and sends more without it: a minimum cut leaves out either."""
    n, k = 60, 4
    work, sizes, held = np.ones(n), np.full(n, 1.0), np.ones(n)
    sizes[n - 2 :], held[n - 2], work[n - 2 :] = (40.0, 39.8), 100.0, 0.1
    graph = ComputationGraph.from_edges([(v, v + 1) for v in range(n - 1)], work, sizes, param_bytes=held)
    instance = Instance(graph, Platform(k, 1.0, memory=80.0))
    start = Partition(instance, np.minimum(np.arange(n) * (k - 1) // (n - 2), k - 1))
    pin = pinned(start).bound
    bound = QuickPrices()(start, Controls()).bound
    assert pin is not None
    assert bound is not None
    assert bound.optimal
    assert bound.value == pytest.approx(start.bottleneck)
    assert bound.value > 1.2 * pin.value
    assert np.flatnonzero(bound.witness["prices"]).tolist() == [n - 2]
