"""The compiled simulator of shared ports against the exact definition, and the orders that it runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from shared_plans import random_orders, random_plan, random_question

from heuristics.planning.execution import all_forward_first, execute, one_forward_one_backward, pe, steady, warmed_up
from heuristics.planning.orders import execute_orders, interleaved, portfolio, zero_bubble
from instances import InputError
from instances.devices import NetworkCards
from instances.planning import Cluster, LayerChain, Plan, TrainingInstance
from instances.planning.operations import BACKWARD, FORWARD, WEIGHTS, Flows, PassLists, Waiting, encoded, simulate
from instances.planning.simulator import empty_log, run

FAST_INSIDE = Cluster.of_servers([2, 2], within=8.0, between=1.0)


def golden_orders(plan: Plan) -> dict[str, PassLists]:
    S, M = plan.n_stages, plan.instance.microbatches
    return {
        "1f1b": warmed_up(one_forward_one_backward(S, M), M),
        "pe": warmed_up(pe(S, M), M),
        "gpipe": warmed_up(all_forward_first(S, M), M),
        "zb-h1": zero_bubble(plan)[0],
        "zb-free": zero_bubble(plan, 1, M)[0],
    }


def four_stages(network: NetworkCards | None, *, full_duplex: bool = False) -> Plan:
    chain = LayerChain([2] * 4, [4] * 4, [3] * 3, [3] * 3, [0] * 4)
    instance = TrainingInstance(chain, FAST_INSIDE, 4, full_duplex=full_duplex, network=network)
    return Plan(instance, (0, 1, 2, 3, 4), ((0,), (2,), (1,), (3,)))


def two_replicated_stages(network: NetworkCards | None) -> Plan:
    chain = LayerChain([4, 6], [8, 12], [4], [4], [6, 3])
    return Plan(TrainingInstance(chain, FAST_INSIDE, 3, network=network), (0, 1, 2), ((0, 2), (1, 3)))


@pytest.mark.parametrize(
    ("plan", "times"),
    [
        (four_stages(None), (72, 60, 63, 60, 60)),
        (four_stages(NetworkCards()), (80, 65, 66, 72, 72)),
        (four_stages(NetworkCards(), full_duplex=True), (80, 63, 66, 64, 64)),
        (two_replicated_stages(None), (41, 41, 41, 35, 33)),
        (two_replicated_stages(NetworkCards()), (42, 42, 42, 38, 35)),
    ],
)
def test_golden_times(plan: Plan, times: tuple[float, ...]) -> None:
    """Worked out by hand and by an independent program; exact and compiled agree to the last digit."""
    for (name, orders), time in zip(golden_orders(plan).items(), times, strict=True):
        assert execute_orders(plan, orders, name).makespan == time
        assert simulate(Flows.of(plan), orders, plan.instance.microbatches).makespan == time


def test_interleaving_pays() -> None:
    """Two chunks of half a stage each on two groups, against one stage each."""

    def question(layers: int) -> TrainingInstance:
        times, between = np.full(layers, 8 / layers), np.ones(layers - 1)
        chain = LayerChain(times, 2 * times, between, between, np.zeros(layers))
        return TrainingInstance(chain, FAST_INSIDE, 4, network=NetworkCards())

    plain = Plan(question(2), (0, 1, 2), ((0,), (2,)))
    chunks = Plan(question(4), (0, 1, 2, 3, 4), ((0,), (2,)) * 2)
    assert execute_orders(plain, warmed_up([2, 1], 4)).makespan == 64
    assert execute_orders(chunks, interleaved(2, 2, 4)).makespan == 60
    with pytest.raises(InputError, match="2 groups divide, not 3"):
        interleaved(2, 2, 3)


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("repeated", [True, False])
def test_compiled_is_exact(ties: bool, repeated: bool) -> None:
    """Every start and end of random plans; half of them with many events at one time."""
    rng = np.random.default_rng((ties, repeated))
    for _ in range(60):
        plan = random_plan(rng, random_question(rng, ties=ties), repeated=repeated)
        M, S = plan.instance.microbatches, plan.n_stages
        if repeated and M % len(plan.groups):
            continue
        flows, orders = Flows.of(plan), random_orders(rng, plan)
        exact, log = simulate(flows, orders, M), empty_log(S, M)
        slack = 1e-9 * float(exact.makespan)
        assert run(flows, encoded(orders, M), M, log, math.inf) == pytest.approx(float(exact.makespan), abs=slack)
        for (kind, n, m), moments in exact.passes.items():
            row = 0 if kind == FORWARD else 2 if kind == WEIGHTS else 1
            assert (log.start[row, n, m], log.end[row, n, m]) == pytest.approx(tuple(map(float, moments)), abs=slack)
        for (row, m), moments in exact.transfers.items():
            starts, ends = (
                (log.transfer_start[row, m], log.transfer_end[row, m])
                if row < 2 * S - 2
                else (log.allreduce_start[row - 2 * S + 2], log.allreduce_end[row - 2 * S + 2])
            )
            assert (starts, ends) == pytest.approx(tuple(map(float, moments)), abs=slack)


def test_without_ports_it_is_the_paper() -> None:
    """The times of the paper's simulator, for every warm-up."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        instance = random_question(rng, ties=bool(rng.integers(2))).in_paper
        plan, M = random_plan(rng, instance), instance.microbatches
        for warmup in (steady(plan.n_stages, M, int(rng.integers(1, 6))), all_forward_first(plan.n_stages, M)):
            paper = execute(plan, warmup).makespan
            assert execute_orders(plan, warmed_up(warmup, M)).makespan == pytest.approx(paper, rel=1e-12)


def test_sharing_never_helps() -> None:
    """No operation takes less than alone, no port less than its load, and without replicas' traffic nothing changes."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        plan = random_plan(rng, random_question(rng, ties=False))
        M, S = plan.instance.microbatches, plan.n_stages
        name, orders = next(portfolio(plan))
        timeline = execute_orders(plan, orders, name)
        alones = (plan.forward_transfer_time, plan.backward_transfer_time)
        for starts, ends, alone in zip(timeline.start[3:5], timeline.end[3:5], alones, strict=True):
            assert ((ends - starts) >= alone[:, None] * (1 - 1e-9)).all()
        load = M * plan.loads[: 2 * S - 2].sum(axis=0) + plan.loads[2 * S - 2 :].sum(axis=0)
        assert timeline.makespan >= load.max(initial=0.0) * (1 - 1e-9)


def test_an_order_that_waits_for_ever_names_the_pass() -> None:
    plan = four_stages(NetworkCards())
    orders = [list(order) for order in warmed_up([4] * 4, 4)]
    orders[1] = [(BACKWARD, 1, 0), *(one for one in orders[1] if one != (BACKWARD, 1, 0))]
    with pytest.raises(InputError, match="1B0 waits for ever"):
        execute_orders(plan, tuple(map(tuple, orders)))
    with pytest.raises(Waiting) as waiting:
        simulate(Flows.of(plan), orders, 4)
    assert waiting.value.first == (BACKWARD, 1, 0)


def test_zero_bubble_keeps_its_limits() -> None:
    """F never goes further ahead of I and of W than allowed, nor beyond memory."""
    plan = four_stages(NetworkCards())
    for distance, behind in ((1, 1), (2, 3), (1, 4)):
        for n, order in enumerate(zero_bubble(plan, distance, behind)[0]):
            counts = [0, 0, 0, 0]
            for kind, _, _ in order:
                counts[kind] += 1
                assert counts[0] - counts[2] <= min(4, distance * (3 - n) + 1)
                assert counts[0] - counts[3] <= min(4, distance * (3 - n) + 1 + behind)
