"""What is exported runs: torch's runtime takes the schedule and computes the gradients of the model in one piece."""

from __future__ import annotations

import numpy as np
import pytest

from heuristics.planning.orders import execute_orders, interleaved, portfolio, zero_bubble
from instances.devices import NetworkCards
from instances.planning import Cluster, LayerChain, Plan, TrainingInstance
from instances.planning.operations import PassLists
from instances.planning.plan_files import schedule_csv

pytest.importorskip("torch", reason="torch is not installed")

_MICROBATCHES, _SAMPLES = 4, 2


def plan_of(groups: tuple[tuple[int, ...], ...]) -> Plan:
    layers, devices = len(groups), max(map(max, groups)) + 1
    between = np.ones(layers - 1)
    chain = LayerChain(np.ones(layers), 2 * np.ones(layers), between, between, np.ones(layers))
    cluster = Cluster.of_servers([devices], 8.0)
    return Plan(
        TrainingInstance(chain, cluster, _MICROBATCHES, network=NetworkCards()), tuple(range(layers + 1)), groups
    )


def check_gradients(plan: Plan, *orders: PassLists) -> None:
    import torch
    from torch_pipelines import gradients_of_plans, gradients_of_whole

    schedules = [schedule_csv(execute_orders(plan, one)) for one in orders]
    stages = [plan.groups.index(stage) for stage in plan.devices]
    expected = gradients_of_whole(plan.n_stages, _MICROBATCHES, _SAMPLES)
    for rank, runs in enumerate(gradients_of_plans(schedules, plan.groups, stages, _MICROBATCHES, _SAMPLES)):
        assert len(runs) == len(orders)
        for n, gradients in ((n, gradients) for run in runs for n, gradients in enumerate(run)):
            assert bool(gradients) == (rank in plan.devices[n])
            for mine, true in zip(gradients, expected[n], strict=False):
                torch.testing.assert_close(mine, true, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_an_interleaved_plan() -> None:
    """Two processes with two stages each, in turns."""
    check_gradients(plan_of(((0,), (1,)) * 2), interleaved(2, 2, _MICROBATCHES))


@pytest.mark.slow
def test_a_replicated_plan_with_split_backward_passes() -> None:
    """Two stages of two replicas each, which add up their gradients."""
    plan = plan_of(((0, 1), (2, 3)))
    check_gradients(plan, zero_bubble(plan, 1, _MICROBATCHES)[0])


@pytest.mark.slow
def test_other_orders() -> None:
    """Three stages, one process each: unsplit and split orders, one after the other."""
    plan = plan_of(((0,), (1,), (2,)))
    found = dict(portfolio(plan))
    check_gradients(
        plan, *(found[name] for name in ("1f1b", "steady-2", "pe", "gpipe", "zb-h1", "zb-free") if name in found)
    )
