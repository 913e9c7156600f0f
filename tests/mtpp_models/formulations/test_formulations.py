"""The formulations as Pyomo models: their sizes, their starts, their files."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from fixed_models import fixed_objective
from hypothesis import assume, given, settings
from kinds_cases import GOLDEN
from strategies import instances, partitions

from heuristics import HEURISTICS, Limits, search
from instances import ComputationGraph, InputError, Instance, Partition, Platform, SharedParameter
from instances.random_graphs import regal_style
from mtpp_models import MODELS, Case, Formulation, ScaledInstance, SolveOptions, simple, solve
from mtpp_models.simple import one_block, work_bound
from mtpp_models.solvers.modeling import pyo


@pytest.fixture(scope="module")
def instance() -> Instance:
    return Instance(regal_style("erdos-renyi", 30, seed=2), Platform(4, 1.0))


@pytest.fixture(scope="module")
def start(instance: Instance) -> Partition:
    return HEURISTICS["random-100"].run(instance, np.random.default_rng(0))


@settings(max_examples=60)
@given(partitions(max_nodes=6, huge_ratio=False))
def test_exact_with_y_fixed_to_a_start_costs_what_the_partition_costs(partition: Partition) -> None:
    partition = Partition(partition.instance.modelled(), partition.block)
    data = ScaledInstance(partition.instance, unit=2.0)
    tensors = partition.instance.tensor_time
    assume(all(2.0 * data.cut_time[t] == tensors[t] for t in data.tensors))  # none is capped
    (case,) = MODELS["exact"].cases(data)
    assert fixed_objective(case.model(partition)) == pytest.approx(
        max(partition.bottleneck, _empty_block(partition)) / 2, rel=1e-6, abs=1e-6
    )


def _empty_block(partition: Partition) -> float:
    """What the model charges an empty block: the part of the buffer that exceeds the memory."""
    platform = partition.instance.platform
    return max(0.0, (platform.activation_buffer or 0.0) - platform.memory) / platform.bandwidth


@pytest.mark.parametrize("name", ["bottleneck", "bottleneck-no-dag", "bottleneck-no-cut-io"])
def test_three_superblocks_with_y_fixed_cost_what_the_block_of_most_work_costs(
    name: str, instance: Instance, start: Partition
) -> None:
    (case,) = MODELS[name].cases(ScaledInstance(instance, unit=1.0))
    middle = start.costs.work.argmax()
    expected = start.costs.work[middle] if name == "bottleneck-no-cut-io" else start.block_costs[middle]
    assert fixed_objective(case.model(start)) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["bottleneck", "guess-the-bottleneck", "exact"])
def test_a_bound_that_stopped_early_says_what_its_program_can_be_at_most(
    name: str, instance: Instance, start: Partition
) -> None:
    """By the cost of the solution that its solver knows, however large the gap at which it stops."""
    early, end = (solve(instance, name, SolveOptions(gap=gap), start=start).bound for gap in (0.5, 0.0))
    assert early is not None
    assert end is not None
    assert not early.optimal
    assert early.value <= end.value <= early.witness["at_most"]
    assert "at_most" not in end.witness


@pytest.mark.parametrize("work", [0.1, 1 / 3, 0.7, 1.1e-9, 3e15 / 7])
def test_rounding_does_not_cut_off_a_block_of_exactly_its_share(work: float) -> None:
    """(14) beside sums that differ in their last digit."""
    for n in range(2, 40):
        instance = Instance(ComputationGraph.from_edges([], [work] * 2 * n), Platform(2, 1.0))
        half = Partition(instance, [0] * n + [1] * n)
        for unit in (simple(instance), 3.0 * work, 0.1 * work):
            (case,) = MODELS["bottleneck"].cases(ScaledInstance(instance, unit))
            share = case.model(half).share
            assert pyo.value(share.lower) <= pyo.value(share.body) <= 1 + 1e-12


def test_guess_the_bottleneck_with_y_fixed_costs_the_bottleneck_at_its_own_position(
    instance: Instance, start: Partition
) -> None:
    cases = MODELS["guess-the-bottleneck"].cases(ScaledInstance(instance, unit=1.0))
    r = int(start.block_costs.argmax())
    assert len(cases) == instance.k
    assert fixed_objective(cases[r].model(start)) == pytest.approx(start.bottleneck)


@settings(max_examples=60)
@given(instances(max_nodes=5, huge_ratio=False))
def test_the_bottleneck_model_finds_the_cheapest_middle_block_with_its_share(instance: Instance) -> None:
    """Of all partitions into three blocks; *simple* is stated where it is more."""
    share, cheapest = work_bound(instance), math.inf
    three = instance.modelled().with_k(3)
    for block in itertools.product(range(3), repeat=instance.graph.n):
        with contextlib.suppress(InputError):
            partition = Partition(three, block)
            if partition.costs.work[1] >= share * (1 - 1e-9):
                cheapest = min(cheapest, max(partition.block_costs[1], _empty_block(partition)))
    bound = solve(instance, "bottleneck", reduce=False).bound
    assert bound is not None
    margin = 1e-6 * one_block(instance).bottleneck  # of the unit in which the model is scaled
    assert bound.value == pytest.approx(max(simple(instance), cheapest), rel=3e-6, abs=1e-9 + margin)


def test_guess_the_bottleneck_allows_blocks_that_all_cost_the_same() -> None:
    """Each of its constraints then holds with equality."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], [1, 1, 1, 1], [0, 0, 0, 0])
    each = Partition(Instance(graph, Platform(4, 1.0)), [0, 1, 2, 3])
    cases = MODELS["guess-the-bottleneck"].cases(ScaledInstance(each.instance, unit=1.0))
    assert [fixed_objective(case.model(each)) for case in cases] == pytest.approx([1.0] * 4)


def test_theorem_4_1_sizes_of_the_exact_model(instance: Instance) -> None:
    """O(nk) variables and O(mk) constraints; rows that cannot bind at the first or last block are left out."""
    (case,) = MODELS["exact"].cases(ScaledInstance(instance, unit=1.0))
    model, n, m, k = case.model(), instance.graph.n, instance.graph.m, instance.k
    tensors = len(np.unique(instance.graph.edge_tensor))
    free = [v for v in model.component_data_objects(pyo.Var) if not v.fixed]
    assert len(free) == n * (k - 1) + tensors * k + 1
    rows = {c.name: len(c) for c in model.component_objects(pyo.Constraint)}
    assert rows == {
        "monotone": n * (k - 2),
        "dag": m * (k - 1),
        "enters": m * (k - 1),
        "leaves": m * (k - 1),
        "slowest": k,
    }


def test_corollary_4_3_three_superblocks_do_not_grow_with_k(instance: Instance) -> None:
    sizes = []
    for k in (4, 64):
        (case,) = MODELS["bottleneck"].cases(ScaledInstance(instance.with_k(k), unit=1.0))
        sizes.append(sum(1 for _ in case.model().component_data_objects(pyo.Constraint)))
    assert sizes[0] == sizes[1]


def test_each_constraint_names_its_equation(instance: Instance) -> None:
    (case,) = MODELS["exact"].cases(ScaledInstance(instance, unit=1.0))
    docs = {c.name: c.doc for c in case.model().component_objects(pyo.Constraint)}
    assert [docs[name][:4].strip() for name in ("slowest", "dag", "enters", "leaves")] == ["(6)", "(8)", "(9)", "(10)"]


def test_a_shared_parameter_counts_once_in_a_block() -> None:
    """Both users in one block overflow by 2 bytes, apart by 2 bytes each."""
    graph = ComputationGraph.from_edges([], [1, 1], parameters=(SharedParameter("w", 6.0, (0, 1)),))
    result = solve(Instance(graph, Platform(2, 1.0, memory=4.0, activation_buffer=0.0)), "exact")
    assert result.partition is not None
    assert result.partition.bottleneck == 3.0
    assert result.proved


def test_the_relaxation_has_a_method_of_its_own(instance: Instance) -> None:
    linear, whole = solve(instance, "bottleneck", relaxation=True), solve(instance, "bottleneck")
    assert linear.bound is not None
    assert whole.bound is not None
    assert linear.bound.method == "bottleneck:lp"
    assert linear.bound.value <= whole.bound.value


def test_a_model_that_cannot_be_built_in_time_is_not_begun() -> None:
    """The bound is *simple*; the solver was never asked."""
    instance = Instance(regal_style("erdos-renyi", 200, seed=0), Platform(8, 1.0))
    result = solve(instance, "exact", SolveOptions(time_limit=0.001))
    assert result.bound is not None
    assert result.bound.value == simple(instance)
    assert (result.log, result.seconds["solve"]) == ("", 0.0)


def _own(*edits: Callable[[pyo.ConcreteModel], object]) -> Formulation:
    """The exact model, changed."""

    def build(case: Case) -> pyo.ConcreteModel:
        model = case.build()
        for edit in edits:
            edit(model)
        return model

    def cases(data: ScaledInstance) -> Iterator[Case]:
        return (replace(case, build=partial(build, case)) for case in MODELS["exact"].cases(data))

    return Formulation("own", "", "", cases, exact=True)  # type: ignore[arg-type]  # a generator


def _switch_off(model: pyo.ConcreteModel) -> None:
    for goal in model.component_objects(pyo.Objective):
        goal.deactivate()


def _block(model: pyo.ConcreteModel) -> None:
    model.own = pyo.Block(pyo.RangeSet(2))
    for part in model.own.values():
        part.x = pyo.Var(bounds=(0, 1))
        part.row = pyo.Constraint(expr=part.x >= 0)


def _most(model: pyo.ConcreteModel) -> None:
    model.most = pyo.Objective(expr=-model.bottleneck, sense=pyo.maximize)


def _second(model: pyo.ConcreteModel) -> None:
    model.second = pyo.Objective(expr=2 * model.bottleneck)


def _other(model: pyo.ConcreteModel) -> None:
    model.other = pyo.Objective(expr=model.bottleneck)


@pytest.mark.parametrize("edits", [(_block,), (_switch_off, _other)])
def test_models_with_parts_of_their_own_are_solved(edits: Any) -> None:
    small = Instance(regal_style("erdos-renyi", 8, seed=2), Platform(2, 1.0))
    ours, own = (solve(small, model, SolveOptions(time_limit=None)) for model in ("exact", _own(*edits)))
    assert own.cost == ours.cost


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ((_second,), "2 active objectives"),
        ((_switch_off,), "0 active objectives"),
        ((_switch_off, _most), "an objective that is maximised"),
    ],
)
def test_a_model_minimises_one_objective(edits: Any, message: str, instance: Instance) -> None:
    with pytest.raises(InputError, match=message):
        solve(instance, _own(*edits))


@pytest.mark.parametrize("cases", [[], None, [5], 5])
def test_cases_are_a_list_of_cases(cases: Any, instance: Instance) -> None:
    with pytest.raises(InputError, match="return a list of Case, one or more"):
        solve(instance, Formulation("own", "", "", lambda data: cases))


@pytest.mark.parametrize("name", ["alike", "two kinds"])
def test_a_model_of_a_bound_alone_needs_no_names_of_ours(name: str, instance: Instance) -> None:
    """Also with a start, and where it excludes that."""
    question = instance if name == "alike" else GOLDEN[name][0]

    def build(data: ScaledInstance, least: float) -> pyo.ConcreteModel:
        m = pyo.ConcreteModel()
        m.time = pyo.Var(bounds=(least / data.unit, None))
        m.goal = pyo.Objective(expr=m.time)
        return m

    def own(least: float) -> Formulation:
        return Formulation("own", "", "", lambda data: [Case("one", partial(build, data, least))], kinds="any")

    floor, start = (
        simple(question),
        search(question, "portfolio", np.random.default_rng(0), Limits(evaluations=10)).partition,
    )
    assert solve(question, own(1.1 * floor), start=start).bound.value == pytest.approx(1.1 * floor, rel=1e-5)  # type: ignore[union-attr]
    if name == "alike":
        with pytest.raises(InputError, match="excludes a partition"):
            solve(question, own(100 * floor))
