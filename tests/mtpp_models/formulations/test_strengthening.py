"""What is added to the models of superblocks holds for every partition below the known bottleneck."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from brute_force import best_partition
from brute_force import modelled_optimum as optimum
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import compositions, heavy_overflows, instances, partitions

from heuristics import HEURISTICS
from instances import ComputationGraph, InputError, Instance, Partition, Platform, Tensors, combine
from instances.deadline import Deadline
from instances.json_files import read_json, write_json
from instances.random_graphs import TOYS, regal_style
from mtpp.problems.checking import certificate_document, rerun, verify
from mtpp_models import ScaledInstance, SolveOptions, Strengthening, solve
from mtpp_models.cuts.conflicts import conflicts, windows
from mtpp_models.cuts.max_flow import reachability
from mtpp_models.formulations.exact import exact
from mtpp_models.formulations.strengthening import ablation
from mtpp_models.formulations.superblocks import EXACT, coarse, merged
from mtpp_models.solvers.highs import run_highs
from mtpp_models.solvers.interface import Controls, Termination
from mtpp_models.solvers.modeling import pyo

NAMES = ablation("exact")[1:]
FACTORS = st.sampled_from([1.0, 1.0, 1.0, 1.05, 1.3, 2.0])


def below(instance: Instance, cutoff: float) -> Iterator[Partition]:
    """All partitions with a bottleneck below the cutoff; the peak is the largest need of a node."""
    edges, modelled = instance.graph.edges.tolist(), instance.modelled()
    for block in itertools.product(range(instance.k), repeat=instance.graph.n):
        if all(block[u] <= block[v] for u, v in edges):
            partition = Partition(modelled, block)
            if partition.bottleneck < cutoff:
                yield partition


def cutoff_of(partition: Partition, factor: float) -> float:
    """A bottleneck, so that sums which equal it occur, or more."""
    cutoff = Partition(partition.instance.modelled(), partition.block).bottleneck * factor
    assume(cutoff > 0)
    return cutoff


@settings(max_examples=250)
@given(partitions(max_nodes=5), FACTORS)
def test_no_partition_below_the_ceiling_leaves_its_windows(partition: Partition, factor: float) -> None:
    """With and without the help of conflicts, with and without time for cuts."""
    cutoff = cutoff_of(partition, factor)
    pairs = conflicts(partition.instance, cutoff)
    for apart, deadline in ((None, None), (pairs, None), (pairs, Deadline.after(0))):
        first, last = windows(partition.instance.modelled(), cutoff, apart, deadline)
        for other in below(partition.instance, cutoff):
            assert (first <= other.block + 1).all()
            assert (other.block + 1 <= last).all()


@settings(max_examples=150)
@given(partitions(max_nodes=5), FACTORS)
def test_windows_are_at_least_those_of_the_work(partition: Partition, factor: float) -> None:
    instance, cutoff = partition.instance, cutoff_of(partition, factor)
    graph, k = instance.graph, instance.k
    reach = reachability(*graph.successors, graph.topological_order)
    first, last = windows(instance, cutoff)
    for v in range(graph.n):
        ahead, behind = graph.work[reach[:, v]].sum(), graph.work[reach[v]].sum()
        assert first[v] >= ahead / cutoff * (1 - 1e-9)
        assert k + 1 - last[v] >= behind / cutoff * (1 - 1e-9)


def test_windows_count_tensors_that_must_leave() -> None:
    """Two nodes of work 2 and a tensor of 1 behind them cost 5, so they need two blocks below 5."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [2, 2, 2], [1, 1, 0])
    first, last = windows(Instance(graph, Platform(3, 1.0)), 5 * (1 - 1e-7))
    assert first.tolist() == [1, 2, 2]
    assert last.tolist() == [2, 2, 3]


@pytest.mark.parametrize("cutoff", [np.nextafter(0.1, 1), 0.1 * (1 + 1e-15)])
def test_a_sum_that_was_rounded_up_takes_no_block_away(cutoff: float) -> None:
    """0.1 + 0.1 + 0.1 is more than 3 · 0.1 in floats, and three blocks hold it all the same."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [0.1] * 3, [0, 0, 0])
    first, last = windows(Instance(graph, Platform(3, 1.0)), float(cutoff))
    assert (first <= [1, 2, 3]).all()
    assert (last >= [1, 2, 3]).all()


@settings(max_examples=150)
@given(partitions(max_nodes=5, huge_ratio=False), st.sampled_from(NAMES), st.integers(0, 3))
def test_every_row_holds_for_every_partition_below_the_start(start: Partition, name: str, j: int) -> None:
    """Of the contracted instance, whose groups none of them cuts; j = 0 is the exact model."""
    assume(Partition(start.instance.modelled(), start.block).bottleneck > 0)
    model = (coarse(j) if j else EXACT).strengthened(Strengthening.of(name.removeprefix("exact+")))
    prepared = model.prepare(start.instance, start, 0.0, Deadline())
    if not prepared.cases:
        assert not list(below(start.instance, prepared.cutoff))
        return
    instance, group = prepared.data.instance, prepared.group
    anchor = np.unique(group, return_index=True)[1]
    m = prepared.cases[0].model()
    for partition in below(start.instance, prepared.cutoff):
        assert (partition.block[anchor][group] == partition.block).all()
        rank = np.unique(partition.block, return_inverse=True)[1][anchor]
        home = merged(Partition(instance, rank), model.sizes(instance.k))
        for v, b in itertools.product(m.V, m.B_before_last):
            value = int(home[v] <= b)
            if m.y[v, b].fixed:
                assert m.y[v, b].value == value
            else:
                m.y[v, b].set_value(value)
        for rows in (m.behind, m.clique, m.dag, m.monotone):
            assert all(row.upper is None or pyo.value(row.body) <= pyo.value(row.upper) + 1e-9 for row in rows.values())


@settings(max_examples=80)
@given(partitions(max_nodes=6, huge_ratio=False), st.data())
def test_the_stronger_rows_cost_the_same_in_whole_numbers(partition: Partition, data: st.DataObject) -> None:
    """With y fixed, (9') and (10') say what (9) and (10) say."""
    sizes = data.draw(compositions(partition.instance.k))
    objectives = []
    for stronger in (False, True):
        m = exact(ScaledInstance(partition.instance, 1.0), sizes, stronger=stronger)
        home = merged(partition, sizes)
        for v, b in itertools.product(m.V, m.B_before_last):
            m.y[v, b].fix(int(home[v] <= b))
        assert run_highs(m, Controls()).termination is Termination.OPTIMAL
        objectives.append(pyo.value(m.objective))
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-6, abs=1e-6)


def starts(instance: Instance) -> list[Partition]:
    """The optimum, and something worse."""
    random = HEURISTICS["random-1"].run(instance, np.random.default_rng(0))
    return [best_partition(instance), random, Partition(instance, [0] * instance.graph.n)]


def check_bounds(instance: Instance, names: tuple[str, ...], **more: object) -> None:
    value = optimum(instance)
    for name, start in itertools.product(names, starts(instance)):
        result = solve(instance, name, start=start, **more)  # type: ignore[arg-type]
        assert result.bound is not None
        # What solvers leave for rounding is a part of the start, and much of an optimum far below that.
        assert result.bound.optimal or result.bound.value < 0.6 * start.bottleneck
        assert result.bound.value <= value * (1 + 1e-9), (name, start.bottleneck)
        if name.startswith("exact"):
            assert result.bound.value >= value - 2e-6 * start.bottleneck, (name, start.bottleneck)


@settings(max_examples=25)
@given(instances(max_nodes=5, max_k=4, huge_ratio=False), st.integers(0, len(NAMES) - 1))
def test_the_strengthened_exact_model_reaches_the_optimum(instance: Instance, number: int) -> None:
    """Each part alone, all but one, and all, from the optimum and from worse."""
    check_bounds(instance, (NAMES[number],))


@settings(max_examples=40)
@given(instances(max_nodes=5, max_k=4, huge_ratio=False))
def test_all_parts_together_reach_the_optimum(instance: Instance) -> None:
    check_bounds(instance, ("exact+all",))


@settings(max_examples=30)
@given(instances(max_nodes=5, overflow=False))
def test_bounds_hold_for_numbers_of_any_size(instance: Instance) -> None:
    best = best_partition(instance)
    for name, start in itertools.product(("exact+all", "coarse-2+all"), starts(instance)):
        combine(best, solve(instance, name, start=start))


@settings(max_examples=30)
@given(heavy_overflows())
def test_bounds_hold_beside_a_huge_overflow(instance: Instance) -> None:
    best = best_partition(instance.modelled())
    for start in starts(instance):
        bound = solve(instance, "exact+all", start=start).bound
        assert bound is not None
        assert bound.value <= best.bottleneck * (1 + 1e-9)


@settings(max_examples=30)
@given(instances(max_nodes=5, max_k=5, huge_ratio=False), st.integers(1, 3))
def test_strengthened_superblocks_bound_no_less_than_plain_ones(instance: Instance, j: int) -> None:
    value = optimum(instance)
    plain = solve(instance, coarse(j)).bound
    assert plain is not None
    for start in starts(instance):
        bound = solve(instance, coarse(j), start=start, strengthening=Strengthening()).bound
        assert bound is not None
        assert plain.value - 2e-6 * start.bottleneck <= bound.value <= value * (1 + 1e-9)


@settings(max_examples=25)
@given(instances(max_nodes=5, max_k=4, huge_ratio=False))
def test_the_linear_relaxation_bounds_too(instance: Instance) -> None:
    best = best_partition(instance)
    for start in starts(instance):
        result = solve(instance, "exact+all", start=start, relaxation=True)
        assert result.method == "exact+all:lp"
        combine(best, result)


def test_every_solver_proves_an_optimal_start(solver: str) -> None:
    """Where the model is infeasible, and where it is not."""
    for name, model in itertools.product(
        TOYS, ("exact+all", "exact+cutoff", "exact+windows+conflicts", "coarse-2+all")
    ):
        instance, value = TOYS[name]()
        start = solve(instance, "exact").partition
        result = solve(instance, model, SolveOptions(solver=solver), start=start)
        assert result.bound is not None
        assert result.bound.value <= value * (1 + 1e-9)
        assert result.proved or model == "coarse-2+all"


def test_a_start_that_is_not_optimal_is_improved() -> None:
    instance = Instance(regal_style("watts-strogatz", 12, seed=0), Platform(4, 1.0))
    start = HEURISTICS["random-1"].run(instance, np.random.default_rng(0))
    plain, strong = (solve(instance, name, start=start) for name in ("exact", "exact+all"))
    assert strong.proved
    assert strong.partition is not None
    assert plain.partition is not None
    assert strong.partition.bottleneck == pytest.approx(plain.partition.bottleneck, rel=1e-6)
    assert strong.partition.bottleneck < start.bottleneck


def test_contracting_at_the_optimum_itself_loses_nothing() -> None:
    """Edges are merged that the optimum cuts; the bound is that of the start all the same."""
    for seed in range(12):
        instance = Instance(regal_style("barabasi-albert", 8, seed=seed), Platform(3, 1.0))
        best = best_partition(instance)
        for name in ("exact+joins", "exact+all"):
            result = solve(instance, name, start=best)
            assert result.proved
            assert result.bound is not None
            assert result.bound.value <= best.bottleneck


def test_what_takes_too_long_proves_nothing_false() -> None:
    instance = Instance(regal_style("erdos-renyi", 60, seed=1), Platform(8, 1.0))
    start = HEURISTICS["brkga-100"].run(instance, np.random.default_rng(0))
    for limit in (0.01, 0.1, 1.0):
        combine(start, solve(instance, "exact+all", SolveOptions(time_limit=limit), start=start))


@pytest.mark.parametrize("name", ["exact+al", "exact+", "exact+all-window", "bottleneck+all", "simple+cuts"])
def test_unknown_parts_and_models_without_parts_are_refused(name: str) -> None:
    instance, _ = TOYS["four-blocks"]()
    with pytest.raises(InputError):
        solve(instance, name, start=best_partition(instance))


def test_a_strengthened_model_needs_a_start() -> None:
    instance, _ = TOYS["four-blocks"]()
    with pytest.raises(InputError, match="needs a partition to start from"):
        solve(instance, "exact+all")


def test_the_names_of_an_ablation_read_back() -> None:
    parts = [Strengthening.of(name.removeprefix("exact+")) for name in NAMES]
    assert tuple(f"exact+{part}" for part in parts) == NAMES
    assert len(set(parts)) == len(parts) == 11
    assert parts[-1] == Strengthening()


def test_a_certificate_of_a_strengthened_model_can_be_proved_again(tmp_path: object) -> None:
    instance, _ = TOYS["four-blocks"]()
    result = solve(instance, "exact", start=best_partition(instance), strengthening=Strengthening(joins=False))
    file = tmp_path / "c.json"  # type: ignore[operator]
    write_json(file, certificate_document([result]))
    verdict = rerun(verify(read_json(file)), time_limit=10.0)
    assert verdict.faults == ()
    [check] = verdict.checks
    assert check.claim.method == "exact+all-joins"
    assert check.confirmed


def test_presolve_of_highs_cuts_off_no_optimum() -> None:
    """It did on this model, with 20 columns, where nothing but the cutoff bounded the bottleneck."""
    tensors = Tensors(np.array([0, 3, 3, 4]), np.array([0.0, 3.0, 8.0, 0.0]), np.array([0, 0, 2, 3, 7]),
                      np.array([0, 1, 0, 0, 1, 2, 3]))  # fmt: skip
    graph = ComputationGraph(np.array([0.0, 7.928818, 8.648808, 0.0, 1.072865]), np.zeros(5), tensors)
    start = Partition(Instance(graph, Platform(3, 0.25)), [2, 2, 1, 1, 0], [4, 2, 3, 0, 1])
    result = solve(start.instance, "exact+cutoff", start=start)
    assert result.cost == pytest.approx(8.648808)
    assert result.bound is not None
    assert result.bound.value <= 8.648808 * (1 + 1e-9)
