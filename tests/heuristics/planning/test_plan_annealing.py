"""Annealing of plans against all plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planning_oracles import all_plans, random_instance

from heuristics.planning.execution import PlanState, anneal_plan, iteration_time, steady
from instances.planning import Cluster


@pytest.mark.parametrize("part", [0.02, 0.1, 0.3])
def test_annealing_finds_the_best_plan_that_fits(part: float) -> None:
    """From the slowest of the plans that fit into a memory that most exceed; devices are equal."""
    instance = replace(random_instance(np.random.default_rng(0), 5, 3, 4), cluster=Cluster.of_servers([3], 5.0))
    choices = []
    for plan in (plan for devices in range(1, 4) for plan in all_plans(instance, range(devices))):
        for distance in range(1, instance.microbatches + 1):
            warmup = steady(plan.n_stages, instance.microbatches, distance)
            choices.append((plan.memory_needed(warmup).max(), iteration_time(plan, warmup), plan, distance))
    memory = float(np.quantile([need for need, *_ in choices], part, method="lower"))
    fitting = [choice for choice in choices if choice[0] <= memory]
    _, _, slowest, distance = max(fitting, key=lambda choice: choice[1])
    start = PlanState.of(slowest, distance)
    found, state = anneal_plan(replace(instance, memory=memory * (1 + 1e-9)).arrays, start, 20_000, 0.3, 1e-3, 0)
    assert found == pytest.approx(min(time for _, time, *_ in fitting), rel=1e-9)
    best = state.plan(instance)
    warmup = steady(best.n_stages, instance.microbatches, int(state.counts[1]))
    assert best.memory_needed(warmup).max() <= memory * (1 + 1e-9)
