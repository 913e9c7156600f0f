"""The bound on plans with one stage a device against all orders that keep as few microbatches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from instances.deadline import Deadline
from instances.planning.grid import Configuration, ConfiguredChain, ConfiguredLayer, GridInstance, GridPlan, Servers
from instances.planning.grid.problem import Fixed, StateBytes
from instances.planning.grid.program import settings_of, solve
from instances.planning.operations import BACKWARD, FORWARD, Pass, PassLists, encoded
from instances.planning.simulator import timed
from mtpp import train
from mtpp.certifying.methods import certify_grid
from mtpp.questions.planning import TrainWords
from mtpp.verification.planning.grid.plan import proved_bound
from mtpp.verification.verdict import Clock
from mtpp_models.planning.grid import grid_bounds, turns_bound
from tests.helpers.grid_cases import (
    all_plans,
    equal_question,
    on_slow_servers,
    plans_in_turns,
    random_question,
    with_ends,
)


def one_layer_a_stage(rng: np.random.Generator) -> GridPlan:
    """The only plan of two to four layers that differ, one on each device."""
    S = int(rng.integers(2, 5))
    layers = []
    for i in range(S):
        forward, inputs, weights, sent = rng.integers(0, 6, 4).astype(float).tolist()
        way = Configuration(
            tp=1,
            forward=forward + 0.5,
            input_backward=inputs,
            weight_backward=weights + 0.5,
            parameters=float(rng.integers(0, 3)),
            stored_bytes=1.0,
            output_bytes=sent * float(rng.choice([0.0, 0.5, 2.0])),
        )
        layers.append(ConfiguredLayer(str(i), str(i), (way,)))
    question = GridInstance(
        (ConfiguredChain(tuple(layers)),),
        Servers(1, S, 1.0, 1.0),
        int(rng.integers(1, 9)),
        state_bytes=StateBytes(1, 1, 2),
        update_time=0.25,
        zero=(0,),
        fixed=Fixed(pp=S, tp=1, dp=1, v=1),
        full_duplex=bool(rng.integers(2)),
    )
    return GridPlan(question, 1, 1, tuple(range(S + 1)), (1,) * S, ("none",) * S, zero=0)


def random_orders(rng: np.random.Generator, S: int, M: int) -> PassLists:
    """Passes of each group such that the first of s stages keeps min(M, s) microbatches at most."""
    forward = np.arange(M)
    if rng.random() < 0.3:
        rng.shuffle(forward)
    orders = []
    for g in range(S):
        held, passes = list[int](), list[Pass]()
        coming, eager = list(forward), rng.random()
        while coming or held:
            if coming and len(held) < min(M, S - g) and (not held or rng.random() < eager):
                held.append(coming.pop(0))
                passes.append((FORWARD, g, held[-1]))
            else:
                place = int(rng.integers(len(held))) if rng.random() < 0.1 else 0
                passes.append((BACKWARD, g, held.pop(place)))
        orders.append(tuple(passes))
    return tuple(orders)


@pytest.mark.parametrize("seed", range(4))
def test_no_order_that_keeps_as_few_microbatches_is_below_the_bound(seed: int) -> None:
    """The best of these orders is near the bound, which is proved a second time."""
    rng, ratios = np.random.default_rng(seed), []
    for _ in range(40):
        plan = one_layer_a_stage(rng)
        S, M = plan.groups, plan.microbatches
        bound = grid_bounds(plan, Deadline())[0].value
        best = plan.time
        for _ in range(60):
            time = timed(plan.flows, encoded(random_orders(rng, S, M), M), M)[2]
            assert bound <= time * (1 + 1e-9)
            best = min(best, time)
        proved = proved_bound(plan.instance, "z-grid", bound, Clock(60))
        assert proved is not None
        assert float(proved) >= bound * (1 - 1e-9)
        ratios.append(best / bound)
    assert np.exp(np.log(ratios).mean()) < 1.03


@pytest.mark.parametrize("seed", range(4))
def test_bounds_on_slow_links_are_below_all_plans_and_proved_again(seed: int) -> None:
    """Links between servers from as fast as those inside to a thousandth; in turns or not."""
    rng, counts = np.random.default_rng(seed), 0
    for _ in range(8):
        inner = float(rng.choice([2, 8]))
        servers = Servers(int(rng.integers(2, 4)), 2, inner, inner / float(rng.choice([1, 10, 1000])))
        question = replace(random_question(rng, servers) if rng.random() < 0.6 else with_ends(rng), servers=servers)
        question = replace(question, exposed=float(rng.choice([0, 0.5])), servers=replace(servers, latency=0.25))
        plans = [*all_plans(question), *plans_in_turns(question)]
        if not plans:
            continue
        best, worst = (choose(plans, key=lambda plan: plan.time) for choose in (min, max))
        bounds = {bound.method: bound.value for bound in grid_bounds(worst, Deadline())}
        if "apart-grid" in bounds:
            counts += 1
            assert bounds["work-grid"] < bounds["apart-grid"] <= best.time * (1 + 1e-9)
            proved = proved_bound(question, "apart-grid", bounds["apart-grid"], Clock(60.0))
            assert proved is not None
            assert float(proved) >= bounds["apart-grid"] * (1 - 1e-9)
            refused = proved_bound(question, "apart-grid", best.time * (1 + 1e-6), Clock(60.0))
            assert refused is None or float(refused) <= best.time * (1 + 1e-9)
    assert counts


@pytest.mark.parametrize("seed", range(2))
def test_plans_in_several_servers_are_no_faster_than_their_bound(seed: int) -> None:
    """It is no less than that of plans that lie anywhere, and is proved again, and no more than the best plan."""
    rng = np.random.default_rng(seed)
    for _ in range(12):
        servers = Servers(int(rng.integers(2, 4)), int(rng.choice([1, 2])), 8.0, 8 / float(rng.choice([3, 10, 100])))
        question = replace(random_question(rng, servers), fixed=Fixed(v=1))
        plans = list(all_plans(question))
        if not plans:
            continue
        best, worst = (choose(plans, key=lambda plan: plan.time) for choose in (min, max))
        bound = grid_bounds(worst, Deadline())[0].value
        anywhere = [solve(question, arrays, one, worst.time, Deadline()) for one, arrays in settings_of(question)]
        assert bound >= min(solution.bound for solution in anywhere if solution is not None) * (1 - 1e-9)
        assert bound <= best.time * (1 + 1e-9)
        proved, refused = (
            proved_bound(question, "z-grid", value, Clock(60.0)) for value in (bound, best.time * (1 + 1e-6))
        )
        assert proved is not None
        assert refused is not None
        assert bound * (1 - 1e-9) <= float(proved)
        assert float(refused) <= best.time * (1 + 1e-9)


def test_bug_zero_was_left_out_where_devices_share_experts_alone() -> None:
    """Two devices share each product of the only pipeline, and hold the same experts."""
    question = replace(equal_question(2, 3), zero=(0, 2), whole_experts=True, fixed=Fixed(tp=2, dp=1, v=1))
    ways = (replace(way, expert_parameters=4.0) for way in question.chains[0].layers[0].configurations)
    layer = ConfiguredLayer("layer", "layer", tuple(ways))
    question = replace(question, chains=(ConfiguredChain((layer, layer)),))
    plans = sorted(all_plans(question), key=lambda plan: plan.time)
    assert plans[0].zero == 2
    assert max(bound.value for bound in grid_bounds(plans[-1], Deadline())) <= plans[0].time * (1 + 1e-9)
    assert certify_grid(question).cost == pytest.approx(plans[0].time)


def test_slow_links_count_where_stages_need_more_than_a_server() -> None:
    """Microbatches that wait for a transfer between servers keep a stage from others: a gap of 46 % before."""
    words: TrainWords = {"global_batch": 64, "sequence": 512, "bandwidth": "100GB/s,40Gbps", "device": "H100"}
    gap = train("bert-large", "2x4", **words).gap
    assert gap is not None
    assert gap < 0.2


@pytest.mark.parametrize("seed", range(2))
def test_plans_in_turns_on_slow_servers_are_no_faster_than_their_bound(seed: int) -> None:
    """It is proved again, and no time above the best plan is; slow links make it larger."""
    rng, larger = np.random.default_rng(seed), 0
    for _ in range(6):
        question = on_slow_servers(rng, with_ends(rng))
        plans = list(plans_in_turns(question))
        if not plans:
            continue
        best, worst = (choose(plans, key=lambda plan: plan.time) for choose in (min, max))
        bound = turns_bound(question, worst.time, Deadline())
        assert bound is not None
        assert bound <= best.time * (1 + 1e-9)
        proved, refused = (
            proved_bound(question, "turns-grid", value, Clock(60.0)) for value in (bound, best.time * (1 + 1e-6))
        )
        assert proved is not None
        assert float(proved) >= bound * (1 - 1e-9)
        assert refused == 0
        fast = replace(question, servers=replace(question.servers, outer=question.servers.inner, latency=0.0))
        same = turns_bound(fast, worst.time, Deadline())
        larger += same is not None and same < bound
    assert larger


def test_stages_in_turns_send_all_over_the_channel_between_two_servers() -> None:
    """Two microbatches cross twice, and their gradients come back: eight transfers of 100 s."""
    question = replace(equal_question(4, 2), servers=Servers(2, 1, 1.0, 0.01), fixed=Fixed(pp=2, tp=1, dp=1, v=2))
    assert turns_bound(question, 1e4, Deadline()) == pytest.approx(800, rel=1e-6)
