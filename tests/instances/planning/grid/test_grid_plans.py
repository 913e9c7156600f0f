"""Costs of plans in a grid: golden instances, the exact simulator, memory by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from instances.errors import InputError
from instances.planning.grid import GridPlan, Servers
from instances.planning.operations import decoded, simulate
from tests.helpers.grid_cases import all_plans, equal_question, random_question


def plan_of(
    memory: float, pipelines: int, cuts: tuple[int, ...], tensor: tuple[int, ...], again: int, zero: int = 0
) -> GridPlan:
    question = equal_question(4, 4, memory, zero)
    modes = ("full",) * again + ("none",) * (4 - again)
    return GridPlan(question, 1, pipelines, cuts, tensor, modes, zero=zero)


@pytest.mark.parametrize(
    ("memory", "pipelines", "cuts", "tensor", "again", "time"),
    [
        (math.inf, 4, (0, 4), (1,), 0, 30),
        (12, 2, (0, 4), (2,), 3, 47),
        (12, 1, (0, 2, 4), (2, 2), 0, 49),
        (8, 1, (0, 2, 4), (2, 2), 2, 58),
        (8, 1, (0, 2, 4), (2, 2), 4, 64),
    ],
)
def test_golden_times(
    memory: float, pipelines: int, cuts: tuple[int, ...], tensor: tuple[int, ...], again: int, time: float
) -> None:
    assert plan_of(memory, pipelines, cuts, tensor, again).time == time


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="Group 0 needs 14 bytes on each device, which has 12"):
        plan_of(12, 2, (0, 4), (2,), 1)


def test_bug_servers_were_faster_between_than_within() -> None:
    """Bounds take transfers within a server for the fastest."""
    with pytest.raises(InputError, match=r"The servers' outer is 2\.0; it must be at most 1\.0, their inner"):
        Servers(2, 2, 1.0, 2.0)
    assert Servers(1, 2, 1.0, 2.0).devices == 2


def test_memory_has_five_parts() -> None:
    """Two layers of half a number each keep 1 + 1 + 2 bytes a number; two microbatches are on their way."""
    plan = plan_of(12, 1, (0, 2, 4), (2, 2), 1)
    parts = [part[0] for part in plan.memory]
    assert parts == [1, 1, 2, 2 * (0.5 + 1.5), 1]


def test_zero_divides_what_replicas_share() -> None:
    plan = plan_of(math.inf, 4, (0, 4), (1,), 0, zero=1)
    assert plan.memory.optimizer[0] == 4 * 2 / 4
    assert plan.after_time[0] == 3 / 4 * 4 * 2  # gradients are divided, weights are gathered


def test_the_simulator_is_the_exact_one() -> None:
    """On all plans of random questions, and on stages in turns."""
    rng, seen = np.random.default_rng(5), 0
    for _ in range(30):
        for plan in list(all_plans(random_question(rng)))[::7]:
            _compare(plan)
            seen += 1
    question = equal_question(4, 4)
    for cuts in ((0, 1, 2, 3, 4), (0, 1, 2, 4)):
        if (len(cuts) - 1) % 2 == 0:
            _compare(GridPlan(question, 1, 1, cuts, (1, 2), ("none",) * 4, zero=0))
    assert seen > 100


def _compare(plan: GridPlan) -> None:
    M = plan.microbatches
    exact = simulate(plan.flows, decoded(plan.orders, M), M)
    assert plan.time == pytest.approx(float(exact.makespan), rel=1e-12)


def test_turns_hold_more_microbatches() -> None:
    question = equal_question(4, 4)
    plain = GridPlan(question, 1, 1, (0, 2, 4), (1, 1), ("none",) * 4, zero=0)
    turns = GridPlan(question, 1, 1, (0, 1, 2, 3, 4), (1, 1), ("none",) * 4, zero=0)
    assert turns.time < plain.time
    assert turns.memory.stored[0] == 5 * 3 > plain.memory.stored[0] - 1
