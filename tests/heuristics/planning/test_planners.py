"""RDO, PRM, PE, SPP, Z-DP and the improved planner, each against a slow second opinion."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from planning_oracles import all_plans, queue_makespan, queue_order, random_instance, workload

from heuristics.planning import PLANNERS
from heuristics.planning.execution import Order, execute, iteration_time, one_forward_one_backward, pe, steady
from heuristics.planning.spp import improved, minimum_cut, plans_by_stages, recursive_device_order, spp, spp_plans
from instances import InputError
from instances.planning import Cluster, LayerChain, Plan, TrainingInstance
from instances.planning.bounds import fastest_speeds, least_z, speeds_along, z_points
from instances.planning.chains import simulation

EXACT = pytest.approx


def small(seed: int, **options: Any) -> TrainingInstance:
    rng = np.random.default_rng(seed)
    return random_instance(rng, int(rng.integers(1, 6)), int(rng.integers(1, 6)), int(rng.integers(1, 9)), **options)


def random_plan(rng: np.random.Generator, instance: TrainingInstance) -> Plan:
    plans = list(all_plans(instance, rng.permutation(instance.cluster.n).tolist()))
    return plans[rng.integers(len(plans))]


def test_published_example_is_reproduced(data: Path) -> None:
    """Device order, cuts, replicas, W and both makespans for every number of stages, and the global bound."""
    for golden in json.loads((data / "spp" / "golden.json").read_text()):
        chain = LayerChain(*(golden[label] for label in ("pf", "pb", "df", "db", "alpha")))
        instance = TrainingInstance(chain, Cluster(golden["bw"]), golden["M"])
        assert recursive_device_order(instance.cluster).tolist() == golden["order"]
        for row, plan in zip(golden["rows"], spp_plans(instance), strict=True):
            assert plan is not None
            assert [list(plan.cuts), plan.replicas.tolist()] == [row["cuts"], row["repl"]]
            assert plan.workload == EXACT(row["W"], rel=1e-9)
            assert plan.lower_bound == EXACT(row["planLB"], rel=1e-9)
            warmup = pe(plan.n_stages, instance.microbatches)
            assert execute(plan, warmup).makespan == EXACT(row["T"], rel=1e-9)
            duplex = Plan(replace(instance, full_duplex=True), plan.cuts, plan.devices)
            assert execute(duplex, warmup).makespan == EXACT(row["Tfd"], rel=1e-9)
        assert spp(instance).time == EXACT(golden["T_spp"], rel=1e-9)
        bound = least_z(instance, fastest_speeds(instance.cluster), np.inf, allow_idle=False)
        assert bound == EXACT(golden["globalLB"], rel=1e-9)


@pytest.mark.parametrize("symmetric", [True, False])
def test_prm_finds_the_least_workload(symmetric: bool) -> None:
    """For every number of stages, as brute force does; W of `Plan` is that of the formula."""
    for seed in range(60):
        instance = small(seed, symmetric=symmetric)
        order = np.random.default_rng(seed).permutation(instance.cluster.n).tolist()
        least: dict[int, float] = {}
        for plan in all_plans(instance, order):
            assert plan.workload == EXACT(workload(plan), rel=1e-12)
            least[plan.n_stages] = min(plan.workload, least.get(plan.n_stages, np.inf))
        found = plans_by_stages(instance, order, pe)
        assert {plan.n_stages: plan.workload for plan in found if plan} == EXACT(least, rel=1e-12)


def test_prm_breaks_ties_as_documented() -> None:
    """Among equal plans: last stage with fewest devices, then fewest layers, then the stage before it likewise."""
    chain = LayerChain([1] * 6, [1] * 6, [0] * 5, [0] * 5, [0] * 6)
    instance = TrainingInstance(chain, Cluster.of_servers([4], 1.0), 2)
    for plan in plans_by_stages(instance, range(4), pe):
        assert plan is not None
        ties = [p for p in all_plans(instance, range(4)) if p.n_stages == plan.n_stages and p.workload == plan.workload]
        best = min(ties, key=lambda p: [x for n in range(p.n_stages)[::-1] for x in (p.replicas[n], -p.cuts[n])])
        assert (plan.replicas[-1], plan.cuts[-2]) == (best.replicas[-1], best.cuts[-2])


def test_prm_with_idle_devices_covers_every_window() -> None:
    """Allowed to leave devices idle, it is as good as the best run on any consecutive devices."""
    for seed in range(30):
        instance = small(seed)
        V = instance.cluster.n
        speeds = [range(i, j) for i in range(V) for j in range(i + 1, V + 1)]
        for stages, plan in enumerate(plans_by_stages(instance, range(V), pe, allow_idle=True), start=1):
            found = [p.workload for window in speeds for p in all_plans(instance, window) if p.n_stages == stages]
            assert plan is not None
            assert plan.workload == EXACT(min(found), rel=1e-12)


@pytest.mark.parametrize("order", [pe, one_forward_one_backward])
def test_prm_respects_memory(order: Order) -> None:
    """Where memory is short, it finds the best plan that fits, or none if there is none."""
    refused = 0
    for seed in range(60):
        instance = small(seed)
        instance = replace(instance, memory=float(np.random.default_rng(seed).uniform(200, 3000)))
        places = list(range(instance.cluster.n))
        fitting: dict[int, float] = {}
        for plan in all_plans(replace(instance, memory=np.inf), places):
            needed = plan.memory_needed(order(plan.n_stages, instance.microbatches))
            if (needed <= instance.memory).all():
                fitting[plan.n_stages] = min(plan.workload, fitting.get(plan.n_stages, np.inf))
        found = plans_by_stages(instance, places, order)
        refused += sum(plan is None for plan in found)
        assert {plan.n_stages: plan.workload for plan in found if plan} == EXACT(fitting, rel=1e-12)
        for plan in filter(None, found):
            execute(plan, order(plan.n_stages, instance.microbatches))  # checks the memory
    assert refused > 20


def test_prm_uses_measured_replica_times() -> None:
    """Replica times that do not fall as 1/r, equal for all layers or not, enter W."""
    for seed in range(30):
        plain = small(seed)
        rng = np.random.default_rng(seed)
        V = plain.cluster.n
        share = 1 / np.arange(1, V + 1) ** 0.5
        if seed % 2:
            share = share * rng.uniform(1, 2, (plain.chain.n, 1))
        instance = replace(plain, replica_share=share)
        order = rng.permutation(V).tolist()
        found = [plan.workload for plan in plans_by_stages(instance, order, pe) if plan]
        assert min(found) == EXACT(min(plan.workload for plan in all_plans(instance, order)), rel=1e-12)
        tables = np.broadcast_to(share, (plain.chain.n, V))
        plan = random_plan(rng, instance)
        for n, r in enumerate(plan.replicas):
            layers = slice(plan.cuts[n], plan.cuts[n + 1])
            assert plan.forward_time[n] == EXACT((plain.chain.forward * tables[:, r - 1])[layers].sum())


def test_pe_orders_as_its_queues_do() -> None:
    """The closed form of the warm-up is what lines 3 to 8 of Algorithm 1 produce."""
    for stages, microbatches in itertools.product(range(1, 8), (1, 2, 3, 7, 20, 33)):
        for n, operations in enumerate(queue_order(stages, microbatches)[:-1]):
            kinds = [kind for _, kind in operations]
            assert kinds.index("B") == pe(stages, microbatches)[n]
            assert [m for m, kind in operations if kind == "F"] == list(range(microbatches))


@pytest.mark.parametrize("full_duplex", [False, True])
def test_pe_is_the_queue_algorithm_and_keeps_lemma_1(full_duplex: bool) -> None:
    """The simulator agrees with a heap of events; its schedules are possible and within their bounds."""
    for seed in range(150):
        instance = small(seed, full_duplex=full_duplex)
        plan = random_plan(np.random.default_rng(seed), instance)
        S, M = plan.n_stages, instance.microbatches
        schedule = execute(plan, pe(S, M))
        assert schedule.makespan == EXACT(queue_makespan(plan), rel=1e-12)
        assert schedule.makespan <= (M + 4 * S - 4) * plan.cycle_time + plan.allreduce_time.max() + 1e-9
        assert schedule.makespan >= plan.lower_bound * (1 - 1e-12)
        assert plan.lower_bound >= plan.makespan_bound * (1 - 1e-12)
        assert schedule.makespan >= plan.workload * (1 - 1e-12) or full_duplex
        assert ([peak.in_flight for peak in schedule.peaks] <= pe(S, M)).all()


def test_every_order_is_executed_within_its_warm_up() -> None:
    """Schedules of all orders are possible, above the bound, and hold no more microbatches than the warm-up."""
    for seed in range(60):
        instance = small(seed)
        plan = random_plan(np.random.default_rng(seed), instance)
        for distance in (1, 2, 3, instance.microbatches):
            warmup = steady(plan.n_stages, instance.microbatches, distance)
            schedule = execute(plan, warmup)
            assert schedule.makespan == iteration_time(plan, warmup)
            assert schedule.makespan >= plan.lower_bound * (1 - 1e-12)
            assert ([peak.in_flight for peak in schedule.peaks] <= warmup).all()


def test_impossible_warm_ups_are_refused() -> None:
    """A stage cannot wait for more forward passes than the stage before it delivers."""
    instance = TrainingInstance(LayerChain([1, 1], [1, 1], [1], [1], [1, 1]), Cluster.of_servers([2], 1.0), 3)
    plan = Plan(instance, (0, 1, 2), ((0,), (1,)))
    for warmup in ([1, 2], [0, 0], [4, 1], [1]):
        with pytest.raises(InputError, match="warm-up"):
            execute(plan, np.array(warmup))


def test_rdo_cuts_where_the_cut_is_least() -> None:
    """Its cuts are as small as networkx's, and each half of a split is contiguous in the order."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        V = int(rng.integers(2, 9))
        weight = rng.uniform(1, 100, (V, V))
        weight = np.minimum(weight, weight.T)
        np.fill_diagonal(weight, 0)
        side = minimum_cut(weight)
        least, _ = nx.stoer_wagner(nx.from_numpy_array(weight))
        assert weight[np.ix_(side, ~side)].sum() == EXACT(least)
        order = recursive_device_order(Cluster(weight)).tolist()
        assert sorted(order) == list(range(V))
        smaller = min((side.nonzero()[0].tolist(), (~side).nonzero()[0].tolist()), key=lambda part: (len(part), part))
        assert sorted(order[: len(smaller)]) == smaller
        large_first = recursive_device_order(Cluster(weight), smaller_first=False).tolist()
        if 2 * len(smaller) < V:
            assert sorted(large_first[-len(smaller) :]) == smaller


def test_rdo_splits_off_what_is_not_linked() -> None:
    """The smallest component comes first; slow servers stay together."""
    bandwidth = np.zeros((5, 5))
    bandwidth[0, 1] = bandwidth[1, 0] = 1.0
    bandwidth[2:, 2:] = 1.0
    assert recursive_device_order(Cluster(bandwidth)).tolist()[:2] == [0, 1]


def test_z_dp_finds_the_least_bound() -> None:
    """As brute force does, for every number of stages and over all, also where replicas gain less than they should."""
    for seed in range(60):
        instance = small(seed, full_duplex=bool(seed % 2))
        V = instance.cluster.n
        if seed % 3 == 0:
            share = np.random.default_rng(seed).uniform(1.0, 1.5, (instance.chain.n, V)) / np.arange(1, V + 1)
            instance = replace(instance, replica_share=share)
        least: dict[int, float] = {}
        for plan in all_plans(instance, range(V)):
            least[plan.n_stages] = min(plan.makespan_bound, least.get(plan.n_stages, np.inf))
        speeds = speeds_along(instance.cluster, range(V))
        levels = min(instance.chain.n, V)
        points = z_points(instance, speeds, np.inf, np.ones(levels))
        found: dict[int, float] = {}
        for point, value in zip(points.first.tolist(), points.value.tolist(), strict=True):
            cuts, replicas, start = points.stages(point)
            assert start == 0
            plan = Plan.along(instance, cuts, replicas, range(V))
            assert value <= plan.makespan_bound * (1 + 1e-12)
            found[plan.n_stages] = min(value, found.get(plan.n_stages, np.inf))
        assert found == EXACT(least, rel=1e-12)
        assert least_z(instance, speeds, np.inf, allow_idle=False) == EXACT(min(least.values()), rel=1e-12)


def test_no_plan_and_no_mapping_is_below_the_order_free_bound() -> None:
    """Brute force over all orders, with and without idle devices."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        instance = random_instance(rng, 4, 4, int(rng.integers(1, 9)), symmetric=bool(seed % 2))
        speeds = fastest_speeds(instance.cluster)
        for allow_idle in (False, True):
            bound = least_z(instance, speeds, np.inf, allow_idle=allow_idle)
            sizes = range(1, 5) if allow_idle else [4]
            orders = itertools.chain.from_iterable(itertools.permutations(range(4), size) for size in sizes)
            assert min(p.lower_bound for order in orders for p in all_plans(instance, order)) >= bound * (1 - 1e-12)


def test_a_ceiling_cuts_the_bound_off() -> None:
    """Plans at or above the ceiling do not matter; the bound is then the ceiling."""
    instance = small(3)
    speeds = fastest_speeds(instance.cluster)
    bound = least_z(instance, speeds, np.inf, allow_idle=True)
    assert least_z(instance, speeds, bound / 2, allow_idle=True) == bound / 2
    assert least_z(instance, speeds, bound * 1.01, allow_idle=True) == EXACT(bound)


@pytest.mark.parametrize("seed", range(5))
def test_spp_and_the_improved_planner(seed: int) -> None:
    """Improved ≤ SPP ≤ data parallelism; the same seed gives the same answer."""
    rng = np.random.default_rng(seed)
    instance = random_instance(rng, 6, 6, 8, full_duplex=bool(seed % 2))
    paper, best = spp(instance), improved(instance, np.random.default_rng(1))
    assert best.time <= paper.time
    assert paper.time <= PLANNERS["data-parallel"].run(instance, rng).time
    again = improved(instance, np.random.default_rng(1))
    assert best.plan is not None
    assert again.plan is not None
    assert (again.time, again.plan.devices) == (best.time, best.plan.devices)
    assert best.time >= least_z(instance, fastest_speeds(instance.cluster), np.inf, allow_idle=True) * (1 - 1e-12)


@pytest.mark.parametrize("name", list(PLANNERS))
def test_planners_respect_memory(name: str) -> None:
    """A planner's schedule fits, or the planner says that none does; with a little memory none ever does."""
    fitting = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        instance = random_instance(rng, 6, 4, 6, memory=float(rng.uniform(2000, 6000)))
        try:
            iteration = PLANNERS[name].run(instance, rng)
        except InputError:
            continue
        fitting += 1
        for schedule in iteration.schedules:
            assert (schedule.memory_needed <= instance.memory).all()
    assert fitting > 0
    with pytest.raises(InputError, match=r"memory|bytes"):
        PLANNERS[name].run(replace(instance, memory=10.0), rng)


def test_spp_in_the_default_setting_of_the_paper() -> None:
    """Stages, and the order of the planners, are those of the paper; the improved planner is near the bound."""
    instance = simulation(seed=0)
    times = {name: spec.run(instance, np.random.default_rng(0)).time for name, spec in PLANNERS.items()}
    assert times["improved"] <= times["spp"] < times["pipedream"] < times["data-parallel"] < times["gpipe"]
    assert times["gpipe"] < times["hetpipe"]
    bound = least_z(instance, fastest_speeds(instance.cluster), times["spp"], allow_idle=True)
    assert bound <= times["improved"] <= 1.05 * bound
