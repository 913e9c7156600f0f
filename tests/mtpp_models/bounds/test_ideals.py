"""Dynamic programming over ideals: exact wherever it answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from brute_force import best_partition
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances

from heuristics import HEURISTICS
from instances import Bound, ComputationGraph, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.random_graphs import TOYS, moe
from instances.readers import load_graph
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.ideals import ideals_bound
from mtpp.verification.verdict import Clock
from mtpp_models.bounds.ideals import ideals as ideals_module
from mtpp_models.bounds.ideals.ideals import Ideals, count_ideals, ideals
from mtpp_models.bounds.ideals.lattice import Branches


@pytest.mark.parametrize("most", [700, 3000])
def test_a_number_of_ideals_is_foreseen(most: int) -> None:
    """16 nodes without edges have 65536; the fewer of them are listed, the lower is the guess."""
    instance = Instance(ComputationGraph.from_edges([], np.ones(16)), Platform(4, 1.0))
    growing = ideals_module._begin(instance, math.inf)
    growing = ideals_module._go_on(instance, Branches.of((), 16), most, math.inf, growing)
    assert growing.listed == most
    assert 2 * most < ideals_module._in_sight(growing.lattice.ideals[:most], 16) < 2 * 2**16


def grid(rows: int, columns: int) -> ComputationGraph:
    edges = [(i * columns + j, i * columns + j + 1) for i in range(rows) for j in range(columns - 1)]
    edges += [(i * columns + j, (i + 1) * columns + j) for i in range(rows - 1) for j in range(columns)]
    return ComputationGraph.from_edges(edges, np.ones(rows * columns))


@pytest.mark.parametrize(
    ("graph", "count"),
    [
        (ComputationGraph.from_edges([(v, v + 1) for v in range(99)], np.ones(100)), 101),
        (ComputationGraph.from_edges([], np.ones(12)), 2**12),
        (grid(4, 5), 126),  # lattice paths: (4 + 5) choose 4
        (grid(9, 9), 48620),
    ],
)
def test_ideals_are_counted(graph: ComputationGraph, count: int) -> None:
    instance = Instance(graph, Platform(1, bandwidth=1.0))
    assert count_ideals(instance, 50_000) == count
    assert count_ideals(instance, count - 1) is None


@dataclass(frozen=True)
class OneStep(Deadline):
    """A turn that is over after one step."""

    asked: list[bool] = field(default_factory=lambda: [False])

    @property
    def passed(self) -> bool:
        self.asked.append(True)
        return self.asked[-2]


@pytest.mark.parametrize(("graph", "few"), [(grid(4, 5), 20_000), (moe(2, 3), 0)], ids=["all", "equal"])
def test_short_turns_end_where_a_long_one_does(
    graph: ComputationGraph, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Partition(Instance(graph, Platform(3, 1.0)), np.zeros(graph.n, dtype=int))
    monkeypatch.setattr(ideals_module, "_FEW_IDEALS", few)
    at_once = ideals(start)
    monkeypatch.setattr(ideals_module, "_LISTED_AT_ONCE", 1)
    monkeypatch.setattr(ideals_module, "_MORE", 0)
    monkeypatch.setattr("mtpp_models.bounds.ideals.ideals._STEPS", 1)
    method, turns, result = Ideals(Deadline()), 0, None
    while result is None or not result.proved:
        result, turns = method(start, OneStep()), turns + 1
    assert turns > graph.n
    assert result.cost == at_once.cost
    assert result.bound == at_once.bound


def test_what_others_find_between_turns_lowers_the_goal() -> None:
    instance = Instance(grid(4, 5), Platform(4, 1.0))
    method, start = Ideals(Deadline()), Partition(instance, np.zeros(20, dtype=int))
    first = method(start, Deadline.after(0.0))
    assert not first.proved
    best = ideals(start).partition
    assert best is not None
    result = method(best, Deadline())
    assert result.proved
    assert result.partition is best


@settings(max_examples=200)
@given(instances(max_nodes=6, huge_ratio=False), st.integers(0, 3))
def test_ideals_find_and_prove_the_optimum(instance: Instance, seed: int) -> None:
    if instance.has_overflow and instance.platform.activation_buffer is None:
        instance = Instance(instance.graph, Platform(instance.k, instance.platform.bandwidth))
    result = ideals(HEURISTICS["random-1"].run(instance, np.random.default_rng(seed)))
    assert result.proved
    assert result.partition is not None
    assert result.partition.bottleneck == pytest.approx(best_partition(instance).bottleneck, abs=1e-9)


@settings(max_examples=60)
@given(instances(max_nodes=5, overflow=True))
def test_the_bound_holds_under_the_true_peak(instance: Instance) -> None:
    best = best_partition(instance)
    result = ideals(best)
    assert result.bound is not None
    assert result.bound.value <= best.bottleneck


@pytest.mark.parametrize("memory", [math.inf, 20.0])
@pytest.mark.parametrize("seed", range(40))
def test_a_program_of_its_own_finds_nothing_better(seed: int, memory: float) -> None:
    """Graphs of 24 nodes, some of which have outputs that take longer than their work."""
    rng, n = np.random.default_rng(seed), 24
    edges = np.vstack((grid(3, 8).edges, np.sort(rng.integers(0, n, (24, 2)), axis=1)))
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)
    graph = ComputationGraph.from_edges(edges, 3 * rng.random(n), 3 * rng.random(n) ** 2, rng.integers(0, 5, n))
    instance = Instance(graph, Platform(3 + seed % 4, 1.0, memory, activation_buffer=2.0))
    result = ideals(HEURISTICS["random-1"].run(instance, rng))
    assert result.proved
    assert result.partition is not None
    below = Fraction(result.partition.bottleneck) * (1 - Fraction(1, 10**6))
    assert ideals_bound(ExactInstance.of(instance).kinds[0], below, Clock(math.inf)) is not None


@pytest.mark.parametrize("toy", TOYS)
def test_ideals_solve_the_toys_from_one_block(toy: str) -> None:
    instance, optimum = TOYS[toy]()
    result = ideals(Partition(instance, np.zeros(instance.graph.n, dtype=int)))
    assert result.partition is not None
    assert result.partition.bottleneck == pytest.approx(optimum)
    assert result.proved


@pytest.mark.parametrize(("deadline", "limit"), [(None, 100), (Deadline.after(0), None)])
def test_a_limit_gives_no_wrong_answer(deadline: Deadline | None, limit: int | None) -> None:
    start = Partition(Instance(grid(6, 6), Platform(4, 1.0)), np.zeros(36, dtype=int))
    result = ideals(start, deadline, limit)
    assert result.partition is start
    assert result.bound == Bound(9.0, "ideals", optimal=False)


PUBLISHED = {
    "bert24_layer_inference": (47.478953, 24.916906, 14.203906, 7.195906),
    "gnmt_layer_inference": (93.194348, 47.160658, 25.849555, 24.788104),
    "bert_l-3_operator_inference": (33.256680, 27.186146, 27.186146, 27.186146),
    "bert_l-6_operator_inference": (46.285429, 27.186146, 27.186146, 27.186146),
}


@pytest.mark.parametrize("file", PUBLISHED)
def test_published_optima(data: Path, file: str) -> None:
    """Of k = 2, 4, 8, 16; costs are exactly those in the files."""
    from instances.partitioning.symmetry import reduce_instance

    graph = load_graph(data / "msr" / f"{file}.json", communication="cost")
    reduced = reduce_instance(Instance(graph, Platform(16, bandwidth=1.0)))
    rng = np.random.default_rng(0)
    results = [
        ideals(HEURISTICS["random-100"].run(reduced.instance.with_k(k), rng), limit=1_000_000) for k in (2, 4, 8, 16)
    ]
    bottlenecks = [reduced.expand(result.partition).bottleneck for result in results if result.partition]
    assert bottlenecks == pytest.approx(PUBLISHED[file], abs=5e-7)
    assert all(result.proved for result in results)
