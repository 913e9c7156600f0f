"""The replication models against brute force, PRM and Z-DP; the guarantees of the paper; bounds for any plan."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import highspy
import numpy as np
import pytest
from planning_oracles import all_plans, random_instance

from heuristics.planning.execution import execute, pe
from heuristics.planning.spp import plans_by_stages, recursive_device_order, spp, spp_plans
from instances import ComputationGraph, FalseCertificateError, InputError, Instance, Platform
from instances.planning import Cluster, LayerChain, Plan, TrainingInstance
from instances.planning.bounds import least_z, speeds_along
from instances.planning.chains import simulation
from mtpp_models import SolveOptions, build_replication, read_plan, write_model
from mtpp_models.planning.bounds import Guarantee, iteration_bound, lemma_1, lemma_2, link_factor, theorem_1
from mtpp_models.planning.models import FORMS, ScaledTraining, StagePrice
from mtpp_models.planning.solve import solve_replication
from mtpp_models.solvers.modeling import pyo

EXACT = pytest.approx
PROOF = 1e-6


def question(seed: int) -> tuple[TrainingInstance, list[int]]:
    rng = np.random.default_rng(seed)
    layers, devices, microbatches = (int(rng.integers(1, 6)) for _ in range(3))
    options = {"symmetric": bool(seed % 2), "full_duplex": seed % 3 == 0}
    instance = random_instance(rng, layers, devices, microbatches, **options)
    if seed % 4 == 0:
        instance = replace(instance, memory=float(rng.uniform(300, 4000)))
    return instance, rng.permutation(devices).tolist()


def fitting_plans(instance: TrainingInstance, order: list[int]) -> list[Plan]:
    plans = all_plans(replace(instance, memory=math.inf), order)
    return [plan for plan in plans if (plan.memory_needed(np.ones(plan.n_stages)) <= instance.memory).all()]


def same(plan: Plan, instance: TrainingInstance) -> Plan:
    return Plan(instance, plan.cuts, plan.devices)


@pytest.mark.parametrize("form", FORMS)
def test_forms_find_the_best_plan_and_prove_it(form: str) -> None:
    """As brute force does, from the default start and from any other, with and without memory."""
    for seed in range(60):
        instance, order = question(seed)
        plans = fitting_plans(instance, order)
        if not plans:
            with pytest.raises(InputError, match="nothing fits into"):
                solve_replication(instance, order, form=form)
            continue
        start = None if seed % 2 else same(plans[seed % len(plans)], instance)
        answer = solve_replication(instance, order, form=form, start=start, slack=(1.0, 1.1, 4.0)[seed % 3])
        least = min(FORMS[form].cost(plan) for plan in plans)
        assert answer.cost == EXACT(least, rel=1e-9)
        assert answer.cost == FORMS[form].cost(answer.answer.plan)
        assert least * (1 - PROOF) <= answer.bound.value <= least


def test_models_agree_with_prm_and_z_dp() -> None:
    """On the paper's network and six devices: arc-flow finds PRM's W, the makespan form the Z of Z-DP."""
    instance = simulation(0, servers=(4, 2), microbatches=8)
    order = recursive_device_order(instance.cluster)
    found = [plan for plan in plans_by_stages(instance, order, pe) if plan is not None]
    least = min(plan.workload for plan in found)
    answer = solve_replication(instance, order, start=found[0], slack=1.1)
    assert answer.cost == EXACT(least, rel=1e-9)
    assert answer.proved
    z = solve_replication(instance, order, form="makespan", start=found[3])
    speeds = speeds_along(instance.cluster, order)
    assert z.cost == EXACT(least_z(instance, speeds, math.inf, allow_idle=False), rel=1e-9)
    assert z.proved


def test_a_plan_of_sixteen_devices_is_proved() -> None:
    """27 layers; arcs up to 1.1 times the plan of SPP."""
    instance = simulation(1, servers=(4,) * 4)
    plan = spp(instance).plan
    assert plan is not None
    answer = solve_replication(instance, recursive_device_order(instance.cluster), start=plan, slack=1.1)
    assert answer.proved
    assert answer.bound.optimal
    assert answer.cost <= plan.workload


@pytest.mark.parametrize("form", FORMS)
def test_a_built_model_is_solved_by_others(form: str, tmp_path: Path) -> None:
    """In Python and from its file; rows of one's own restrict the plan."""
    instance = simulation(0, servers=(2, 2), microbatches=4)
    best = solve_replication(instance, range(4), form=form).cost
    built = build_replication(instance, form=form)
    pyo.SolverFactory("appsi_highs").solve(built.model)
    assert FORMS[form].cost(read_plan(built)) == EXACT(best, rel=1e-4)
    (file,) = write_model(instance, form, tmp_path / "plan.mps")
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(file))
    highs.run()
    assert highs.getObjectiveValue() * built.unit == EXACT(best, rel=1e-4)
    document = json.loads((tmp_path / "plan.names.json").read_text())
    assert document["order"] == [0, 1, 2, 3]
    assert len(document["layers"]) == instance.chain.n


def test_a_row_of_ones_own_restricts_a_plan() -> None:
    """No stage on two devices: every device has a stage of its own."""
    built = build_replication(simulation(0, servers=(2, 2), microbatches=4), slack=3.0)
    m = built.model
    m.alone = pyo.Constraint(expr=sum(m.x[k, e, i, r] for k, e, i, r in m.stages if r > 1) == 0)
    pyo.SolverFactory("appsi_highs").solve(m)
    assert read_plan(built).replicas.tolist() == [1, 1, 1, 1]


def test_what_is_no_model_of_a_plan_is_refused(tmp_path: Path) -> None:
    instance = simulation(0, servers=(2,), microbatches=4)
    graph = Instance(ComputationGraph.from_edges([], [1.0]), Platform(1, 1.0))
    built = build_replication(instance)
    for variable in built.model.x.values():
        variable.set_value(0.5, skip_validation=True)
    refusals = {
        "neither 0 nor 1": lambda: read_plan(built),
        "is one of plans": lambda: write_model(graph, "arc-flow", tmp_path / "m.lp"),
        "is one of partitions": lambda: write_model(instance, "exact", tmp_path / "m.lp"),
        "There is no form": lambda: build_replication(instance, form="exact"),
        "The order names 1 of 2": lambda: build_replication(instance, [0]),
    }
    for reason, ask in refusals.items():
        with pytest.raises(InputError, match=reason) as error:
            ask()
        assert "\n" not in str(error.value)


def test_every_solver_proves_the_same(solver: str) -> None:
    """Half duplex and full, with the start handed over."""
    for seed, form in itertools.product((3, 5), FORMS):
        instance, order = question(seed)
        plans = fitting_plans(instance, order)
        try:
            answer = solve_replication(
                instance, order, SolveOptions(solver=solver, time_limit=30), form=form, start=plans[-1]
            )
        except Exception as error:
            if "licen" in str(error):  # larger than the free licence allows
                pytest.skip(str(error))
            raise
        least = min(FORMS[form].cost(plan) for plan in plans)
        assert answer.cost == EXACT(least, rel=1e-9)
        assert least * (1 - 1e-3) <= answer.bound.value <= least


def test_relaxation_is_strong() -> None:
    """Rows over all arcs with a layer or a device: the LP comes within 15 % of the optimum."""
    instance = simulation(0, servers=(4, 4), microbatches=8)
    order = recursive_device_order(instance.cluster)
    best = solve_replication(instance, order)
    model = FORMS["arc-flow"].build(ScaledTraining(instance, speeds_along(instance.cluster, order), best.cost, 1.5))
    pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
    pyo.SolverFactory("highs").solve(model)
    assert 0.85 < pyo.value(model.objective) < 1 + 1e-9


def test_network_holds_only_what_a_plan_within_reach_can_use() -> None:
    """Each stage and channel lies on a plan; each plan within the ceiling is there."""
    for seed in range(12):
        instance, order = question(4 * seed + 1)
        plans = list(all_plans(instance, order))
        ceiling = float(np.median([plan.workload for plan in plans]))
        network = ScaledTraining(instance, speeds_along(instance.cluster, order), 1.0, ceiling).network()
        stages = set(network.stages)
        for plan in plans:
            if plan.workload <= ceiling:
                ends = np.cumsum([0, *plan.replicas]).tolist()
                used = zip(plan.cuts, plan.cuts[1:], ends, plan.replicas.tolist(), strict=False)
                assert {StagePrice(*stage) for stage in used} <= stages
        joints = {(k, i) for k, _, i, _ in stages} | {(instance.chain.n, instance.cluster.n)}
        assert all((e, i + r) in joints for _, e, i, r in stages)


def test_what_costs_more_than_the_start_is_left_out_by_default() -> None:
    """With more slack, the solver gets a larger model."""
    instance, order = question(13)
    start = min(all_plans(instance, order), key=lambda plan: plan.workload)
    sizes = []
    for options in ({}, {"slack": 1.0}, {"slack": 2.0}):
        log = solve_replication(instance, order, start=start, **options).log  # type: ignore[arg-type]
        size = re.search(r"has (\d+) rows; (\d+) cols", log)
        assert size
        sizes.append((int(size[1]), int(size[2])))
    assert sizes[0] == sizes[1] < sizes[2]


def test_missing_links_are_avoided() -> None:
    """Two islands joined by one slow link: replicas never span them, in any form."""
    bandwidth = np.zeros((4, 4))
    bandwidth[0, 1] = bandwidth[1, 0] = bandwidth[2, 3] = bandwidth[3, 2] = 8.0
    bandwidth[1, 2] = bandwidth[2, 1] = 4.0
    chain = LayerChain([1] * 4, [2] * 4, [1] * 3, [1] * 3, [1] * 4)
    instance = TrainingInstance(chain, Cluster(bandwidth), 4)
    for form in FORMS:
        assert solve_replication(instance, range(4), form=form).answer.plan.devices == ((0,), (1,), (2,), (3,))


def test_wrong_use_is_refused() -> None:
    """Unknown forms, starts of other orders or instances, orders with too few devices, limits out of range."""
    instance, order = simulation(0, servers=(2, 2)), [2, 3, 0, 1]
    other, _ = question(5)
    start = next(iter(all_plans(other, range(other.cluster.n))))
    for options, message in (
        ({"form": "circuit"}, "arc-flow"),
        ({"slack": 0.5}, "slack"),
        ({"start": start}, "another instance"),
    ):
        with pytest.raises(InputError, match=message):
            solve_replication(instance, order, **options)
    with pytest.raises(InputError, match="name all of them"):
        solve_replication(instance, order[:-1])
    elsewhere = Plan.along(instance, (0, 9, 27), (2, 2), range(4))
    with pytest.raises(InputError, match="along the order"):
        solve_replication(instance, order, start=elsewhere)


def test_a_false_bound_is_refused() -> None:
    """A result whose bound exceeds the cost of its plan cannot be made."""
    answer = solve_replication(*question(3))
    with pytest.raises(FalseCertificateError):
        replace(answer, bound=replace(answer.bound, value=1.01 * answer.cost))


def test_stopped_at_once_it_keeps_the_start() -> None:
    """With next to no time the answer is the start, and the bound still holds."""
    instance = simulation(0, servers=(4,) * 4)
    order = recursive_device_order(instance.cluster)
    start = spp_plans(instance)[0]
    assert start is not None
    answer = solve_replication(instance, order, SolveOptions(time_limit=1e-3), form="makespan", start=start)
    assert 0 <= answer.bound.value <= answer.cost <= start.makespan_bound


@pytest.mark.parametrize("allow_idle", [True, False])
def test_no_plan_beats_the_bound(allow_idle: bool) -> None:
    """Over all plans on all devices in every order, or on some of them."""
    for seed in range(40):
        instance, _ = question(2 * seed + 1)
        if instance.cluster.n > 4:
            continue
        bound = iteration_bound(instance, allow_idle=allow_idle).value
        devices = range(instance.cluster.n)
        for size in devices if allow_idle else devices[-1:]:
            for order in itertools.permutations(devices, size + 1):
                for plan in all_plans(instance, order):
                    assert bound <= plan.makespan_bound * (1 + 1e-12) <= plan.lower_bound * (1 + 1e-11)


def test_guarantees_hold() -> None:
    """Lemma 1 for every plan of PRM, Lemma 2 and Theorem 1 against brute force over all orders."""
    for seed in range(40):
        instance, _ = question(4 * seed + 1)
        instance = replace(instance, full_duplex=False)
        plans = [plan for plan in spp_plans(instance) if plan is not None]
        for plan in plans:
            first = lemma_1(execute(plan, pe(plan.n_stages, instance.microbatches)))
            assert first.holds
            if plan.n_stages == 1:
                assert first.slack == EXACT(0.0, abs=1e-9)
        if instance.cluster.n > 4:
            continue
        orders = itertools.permutations(range(instance.cluster.n))
        everything = [plan for order in orders for plan in all_plans(instance, order)]
        least = min(plan.workload for plan in plans)
        assert least <= (1 + link_factor(instance)) * min(plan.workload for plan in everything) * (1 + 1e-9)
        best = min(execute(plan, pe(plan.n_stages, instance.microbatches)).makespan for plan in everything)
        assert theorem_1(instance, spp(instance).time, best).holds


def test_link_factor_by_hand() -> None:
    """Two layers of 3 s on two servers of one device, 2 bytes/s one way and 4 the other: 3 · 4 / 3 · (1/2 - 1/4)."""
    chain = LayerChain([1, 1], [2, 2], [5], [5], [0, 0])
    instance = TrainingInstance(chain, Cluster([[0, 2], [4, 0]]), 4)
    assert link_factor(instance) == 3 * 4 / 3 * (1 / 2 - 1 / 4)
    assert link_factor(replace(instance, cluster=Cluster.of_servers([2], 3.0))) == 0
    assert lemma_2(instance, 12.0).right == 2 * 4 * 3
    assert theorem_1(instance, 1.0, 1.0).right == (2 + 4 / 4) * 2
    with pytest.raises(InputError, match="full duplex"):
        theorem_1(replace(instance, full_duplex=True), 1.0, 1.0)
    with pytest.raises(InputError, match="evenly"):
        lemma_2(replace(instance, replica_share=[1.0, 0.6]), 12.0)


def test_guarantees_say_what_they_know() -> None:
    """The slack in words; where the bound is too weak nothing is decided."""
    assert str(Guarantee("Lemma 9", "a ≤ b", 1.0, 1.5)) == "Lemma 9: a ≤ b: 1 ≤ 1.5 s, holds, slack 50.0%"
    assert not Guarantee("Lemma 9", "a ≤ b", 2.0, 1.5).holds
    assert "not decided" in str(Guarantee("Lemma 9", "a ≤ b", 2.0, 1.5))
