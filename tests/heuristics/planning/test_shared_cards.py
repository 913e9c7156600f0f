"""Planning on shared network cards: no worse than its starts, within memory, and as it is asked."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from shared_plans import random_plan, random_question

from heuristics.method import Limits
from heuristics.planning import PLANNERS
from heuristics.planning.execution import PlanState, steady, warmed_up
from heuristics.planning.orders import execute_orders, zero_bubble
from heuristics.planning.shared_cards import ORDERS, Effort, Scored, anneal_on_cards, improved_on_cards, on_cards, score
from heuristics.planning.spp import improved, spp
from instances import InputError
from instances.deadline import Deadline
from instances.devices import NetworkCards
from instances.planning import Cluster, LayerChain, Plan, Timeline, TrainingInstance
from instances.planning.bounds import speeds_along
from instances.planning.chains import simulation


def shared(instance: TrainingInstance, **options: object) -> TrainingInstance:
    return replace(instance, network=NetworkCards(), **options)  # type: ignore[arg-type]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_never_worse_than_what_the_paper_plans() -> None:
    """Nor than `improved`, whose plan may lose to SPP's here; and the same with the same seed."""
    generator = np.random.default_rng(5)
    for _ in range(10):
        instance = replace(random_question(generator, ties=False), samples=None)
        found = improved_on_cards(instance, rng(), None, Effort(orders="unsplit"))
        for planner in (spp(instance.in_paper), improved(instance.in_paper, rng())):
            assert found.time <= on_cards(planner, instance).time * (1 + 1e-9)
    assert improved_on_cards(instance, rng(), None, Effort(orders="unsplit")).time == found.time


def test_the_paper_s_cluster() -> None:
    """Network cards cost `improved` what it had gained over SPP; planning for them wins it back."""
    instance = shared(simulation(0, microbatches=8))
    paper = on_cards(spp(instance.in_paper), instance).time
    found = improved_on_cards(instance, rng(), None, Effort(orders="unsplit"))
    assert found.time <= 0.83 * paper


@pytest.mark.parametrize("orders", ORDERS)
def test_orders_that_are_asked_for(orders: str) -> None:
    instance = shared(simulation(1, microbatches=8, servers=(2, 2)))
    (timeline,) = improved_on_cards(instance, rng(), None, Effort(level=1, orders=orders)).schedules
    assert isinstance(timeline, Timeline)
    assert timeline.order_name == orders or orders in ("auto", "unsplit", "zb")
    assert timeline.split or orders != "zb"
    assert timeline.interleaved or orders != "interleaved"
    assert not (timeline.split or timeline.interleaved) or orders not in ("unsplit", "1f1b", "pe", "gpipe")


def test_the_score_is_the_time_of_the_plan() -> None:
    """The compiled plan costs against those of `Plan` and the simulator, whatever the order."""
    generator = np.random.default_rng(6)
    for _ in range(150):
        instance = random_question(generator, ties=bool(generator.integers(2)))
        plan, M = random_plan(generator, instance), instance.microbatches
        distance, behind = int(generator.integers(1, 4)), int(generator.integers(0, 3))
        assert instance.ports is not None
        at_once = 0.0 if instance.samples is None else instance.at_once
        scored = Scored(instance.input_sums, instance.ports, at_once, recomputation=False, free=True)
        found = score(instance.arrays, scored, PlanState.of(plan, distance, behind), math.inf)
        orders = warmed_up(steady(plan.n_stages, M, distance), M)
        if behind:
            orders = zero_bubble(plan, distance, behind)[0]
        assert found == pytest.approx(execute_orders(plan, orders).makespan, rel=1e-9)


@pytest.mark.parametrize("free", [False, True])
def test_annealing_changes_the_order_of_passes_where_it_may(free: bool) -> None:
    """How far gradients of weights stay behind is then a power of two, or 12; what is in one piece stays so."""
    instance, ends = shared(simulation(0, microbatches=12, servers=(2, 2), layers=4)), set()
    assert instance.ports is not None
    scored = Scored(instance.input_sums, instance.ports, 0.0, recomputation=False, free=free)
    plan = Plan(instance, (0, 2, 4, instance.chain.n), ((0,), (1,), (2, 3)))
    for seed, behind in itertools.product(range(8), (0, 3)):
        state = PlanState.of(plan, 2, behind)
        end, least, best = anneal_on_cards(instance.arrays, scored, state, np.full(300, 10.0), seed)
        assert score(instance.arrays, scored, best, math.inf) == least
        assert (end.counts[2] > 0) == (behind > 0)
        ends.add((int(end.counts[1]), int(end.counts[2])))
    split = {after for _, after in ends} - {0, 3}
    assert split <= {1, 2, 4, 8, 12}
    assert len(split) > 2 if free else ends == {(2, 0), (2, 3)}


def test_speeds_are_those_of_lonely_transfers() -> None:
    """A window of an order, with its cards for itself, takes as long as the plan says."""
    generator = np.random.default_rng(7)
    for _ in range(40):
        instance = replace(random_question(generator, ties=False), samples=None)
        order, chain = generator.permutation(instance.cluster.n), instance.chain
        speeds = speeds_along(instance.cluster, order, instance.ports)
        plan = random_plan(generator, instance)
        plan = plan.along(instance, plan.cuts, plan.replicas, order)
        place = 0
        for n in range(plan.n_stages):
            r = int(plan.replicas[n])
            place += r
            size = 2 * (r - 1) * plan.param_bytes[n]
            assert plan.allreduce_time[n] == pytest.approx(size / (r * speeds.within[place, r]) if size else 0.0)
            if n < plan.n_stages - 1:
                q, boundary = int(plan.replicas[n + 1]), plan.cuts[n + 1] - 1
                forth = chain.forward_bytes[boundary] / (r * q * speeds.forth[place, r, q])
                back = chain.backward_bytes[boundary] / (r * q * speeds.back[place, r, q])
                assert plan.forward_transfer_time[n] == pytest.approx(forth)
                assert plan.backward_transfer_time[n] == pytest.approx(back)


def test_memory_is_kept_and_recomputation_makes_room() -> None:
    """Two layers that store 10 bytes and receive 1: with 4 microbatches in flight they do not fit into 30."""
    chain = LayerChain([4, 4], [8, 8], [1], [1], [0, 0], [10, 10])
    instance = shared(TrainingInstance(chain, Cluster.of_servers([1, 1], 1.0, 1.0), 8, memory=16.0))
    plain = improved_on_cards(instance, rng())
    assert max(peak.total for peak in plain.schedules[0].peaks) <= 16  # type: ignore[union-attr]
    again = improved_on_cards(replace(instance, recomputation=True), rng())
    assert again.time <= plain.time
    with pytest.raises(InputError, match=r"layer 0 \(0\) alone needs 5 bytes"):
        improved_on_cards(replace(instance, memory=4.0), rng())


def test_time_is_kept_and_the_first_plan_comes_early() -> None:
    """With no time at all an even plan or the least load of one order is answered."""
    phases: list[str] = []
    limits = Limits(deadline=Deadline.after(0.0))
    instance = shared(simulation(0))
    found = improved_on_cards(
        instance, rng(), limits, Effort(orders="unsplit", tell=lambda phase, _: phases.append(phase))
    )
    assert math.isfinite(found.time)
    assert phases[0] == "even"
    assert "annealing" not in phases


def test_rivals_run_on_shared_cards_as_they_planned() -> None:
    """Cuts and devices are those of the paper's network; the time is that of shared cards."""
    instance = simulation(0, microbatches=4, servers=(2, 2))
    for name in ("spp", "gpipe", "pipedream", "data-parallel", "hetpipe"):
        paper = PLANNERS[name].run(instance, rng())
        here = PLANNERS[name].run(shared(instance), rng())
        assert here.time >= paper.time * (1 - 1e-9)
        if paper.plan is not None:
            assert here.plan is not None
            assert (here.plan.cuts, here.plan.devices) == (paper.plan.cuts, paper.plan.devices)


def test_words_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="effort is 4"):
        Effort(level=4)
    with pytest.raises(InputError, match="orders is 'fast'"):
        Effort(orders="fast")


def test_bug_huge_memory_overflowed_the_order_with_split_passes() -> None:
    """As many microbatches as fit are no whole number of 64 bits; at most all of them are asked for."""
    chain = LayerChain([1.0, 1.0], [2.0, 2.0], [1e-12], [1e-12], [1.0, 1.0])
    instance = TrainingInstance(chain, Cluster.of_servers((2,), 1.0), 3, memory=1e300, network=NetworkCards())
    plan = Plan(instance, (0, 1, 2), ((0,), (1,)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert zero_bubble(plan) == zero_bubble(replace(plan, instance=replace(instance, memory=math.inf)))


def test_bug_servers_without_links_have_no_gradients_to_exchange() -> None:
    """HetPipe divided no bandwidth by none where there are no parameters."""
    chain = LayerChain([1.0], [2.0], [], [], [0.0])
    instance = TrainingInstance(chain, Cluster.of_servers((1, 1), 1.0, 0.0), 2, network=NetworkCards())
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert PLANNERS["hetpipe"].run(instance, np.random.default_rng(0)).time == 3.0


def test_what_has_no_plan_says_what_is_missing() -> None:
    """A layer that fits nowhere, all layers together, or links."""
    chain = LayerChain([1.0, 1.0], [2.0, 2.0], [1.0], [1.0], [5.0, 5.0])
    cluster = Cluster.of_servers((1, 1), 1.0, 1.0)
    for memory, words in (
        (19.0, r"layer 1 \(1\) alone needs 20.5 bytes"),
        (20.6, "each layer fits alone, and all of them need 20.5 bytes"),
        (40.0, None),
    ):
        instance = TrainingInstance(chain, cluster, 2, memory=memory, network=NetworkCards())
        if words is None:
            improved_on_cards(instance, np.random.default_rng(0), Limits(), Effort(level=0))
        else:
            assert re.search(words, str(instance.no_plan))
    apart = TrainingInstance(chain, Cluster.of_servers((1, 1), 1.0, 0.0), 2, memory=21.0, network=NetworkCards())
    with pytest.raises(InputError, match="have no link"):
        improved_on_cards(apart, np.random.default_rng(0), Limits(), Effort(level=0))


def test_interleaved_stages_on_uneven_groups_are_refused_with_the_reason() -> None:
    instance = shared(simulation(0, servers=(1, 1, 1), microbatches=4, layers=5))
    with pytest.raises(
        InputError, match="even groups, 2 or more, must divide 3 devices and 4 microbatches; choose auto"
    ):
        improved_on_cards(instance, np.random.default_rng(0), Limits(), Effort(level=0, orders="interleaved"))


def test_plans_in_turns_leave_slow_servers_idle_and_move_layers() -> None:
    """The first layer has most parameters, whose AllReduce takes longest."""
    layers, between = np.ones(9), np.full(8, 0.1)
    chain = LayerChain(layers, 2 * layers, between, between, np.array([9.0, *np.ones(8)]))
    times = {}
    for servers, level in ((1, 1), (2, 1), (1, 2), (2, 2)):
        cluster = Cluster.of_servers([4] * servers, within=4.0, between=0.05)
        instance = TrainingInstance(chain, cluster, 2, network=NetworkCards())
        effort = Effort(level, "interleaved")
        times[servers, level] = improved_on_cards(instance, np.random.default_rng(0), effort=effort).time
    assert times[2, 1] == times[1, 1]
    assert times[2, 2] == times[1, 2] < times[1, 1]
