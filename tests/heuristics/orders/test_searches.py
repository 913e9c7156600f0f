"""Searches over orders: limits, seeds, and what the genetic algorithm keeps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heuristics import HEURISTICS, BRKGAParameters, Limits, brkga
from heuristics.orders.genetic import evolve
from heuristics.orders.orders import decode
from heuristics.orders.searches import linear_arrangement, random_search
from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.partitioning.peaks import KernelArrays
from instances.random_graphs import regal_style


@pytest.fixture(scope="module")
def instance() -> Instance:
    return Instance(regal_style("barabasi-albert", 40, seed=1), Platform(4, bandwidth=1))


def test_more_random_orders_are_never_worse(instance: Instance) -> None:
    few, many = (HEURISTICS[name].run(instance, np.random.default_rng(5)) for name in ("random-1", "random-100"))
    assert many.bottleneck <= few.bottleneck


def test_brkga_10000_beats_random_10000_on_a_regal_style_graph(instance: Instance) -> None:
    names = ("brkga-10000", "random-10000")
    genetic, random = (HEURISTICS[name].run(instance, np.random.default_rng(0)) for name in names)
    assert genetic.bottleneck < random.bottleneck


@pytest.mark.parametrize("name", HEURISTICS)
def test_one_evaluation_is_enough_for_an_answer(name: str, instance: Instance) -> None:
    partition = HEURISTICS[name].run(instance, np.random.default_rng(0), Limits(evaluations=1))
    assert partition.bottleneck > 0


def test_a_target_ends_the_search_early() -> None:
    seen = []

    def fitness(keys: np.ndarray) -> np.ndarray:
        seen.append(len(keys))
        return keys.sum(axis=1)

    evolve(fitness, 3, np.random.default_rng(0), Limits(target=1e9), BRKGAParameters(10, 10))
    assert seen == [10]


def test_evaluations_are_counted(instance: Instance) -> None:
    seen = []

    def fitness(keys: np.ndarray) -> np.ndarray:
        seen.append(len(keys))
        return keys.sum(axis=1)

    evolve(fitness, 3, np.random.default_rng(0), Limits(), BRKGAParameters(10, 10))
    # Survivors keep their value: 10 in the first generation, 8 in each of the nine others.
    assert seen == [10] + 9 * [8]


def test_evolution_finds_the_minimum_of_a_sum() -> None:
    best = evolve(lambda keys: keys.sum(axis=1), 5, np.random.default_rng(0), Limits(), BRKGAParameters(100, 100))
    assert best.sum() < 0.3


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (lambda: Limits(Deadline.after(-1)), "time_limit=-1: "),
        (lambda: Limits(Deadline.after(float("nan"))), "nan"),
        (lambda: Limits(evaluations=0), "at least 1"),
    ],
)
def test_limits_refuse_nonsense(limits: Callable[[], Limits], message: str) -> None:
    with pytest.raises(InputError, match=message):
        limits()


@pytest.mark.parametrize("parameters", [{"population": 2}, {"elite": 0.0}, {"mutants": 0.9}, {"generations": 0}])
def test_brkga_refuses_a_population_without_parents_or_children(parameters: dict[str, float]) -> None:
    with pytest.raises(InputError, match="no elite or no children"):
        BRKGAParameters(**parameters)


GENERATIONS = BRKGAParameters(population=60, generations=2, elite=0.5, mutants=0.1, inheritance=1.0)


def second_generation(parameters: BRKGAParameters) -> tuple[set[tuple[float, ...]], set[tuple[float, ...]], np.ndarray]:
    """Elite and others of the first generation, and the children of the second."""
    seen = []

    def fitness(keys: np.ndarray) -> np.ndarray:
        seen.append(keys.copy())
        return keys.sum(axis=1)

    evolve(fitness, 3, np.random.default_rng(0), Limits(), parameters)
    first = [tuple(keys) for keys in seen[0][seen[0].sum(axis=1).argsort()].tolist()]
    elite = parameters.num_elite
    return set(first[:elite]), set(first[elite:]), seen[1][: len(seen[1]) - parameters.num_mutants]


def test_a_child_takes_keys_from_its_elite_parent_with_the_probability_of_inheritance() -> None:
    elite, _, children = second_generation(GENERATIONS)
    assert {tuple(keys) for keys in children.tolist()} <= elite
    _, others, children = second_generation(replace(GENERATIONS, inheritance=0.0))
    assert len(children) == 24
    assert {tuple(keys) for keys in children.tolist()} <= others


def test_each_key_of_a_child_comes_from_one_of_two_parents() -> None:
    elite, others, children = second_generation(replace(GENERATIONS, inheritance=0.7))
    from_elite = np.isin(children, [list(keys) for keys in elite])
    assert (from_elite | np.isin(children, [list(keys) for keys in others])).all()
    assert 0.5 < from_elite.mean() < 0.9


def search(name: str, instance: Instance, limits: Limits) -> Partition:
    return HEURISTICS[name].run(instance, np.random.default_rng(4), limits)


def test_random_search_keeps_the_best_of_all_its_orders(instance: Instance) -> None:
    """Several batches, of which now the first and now a later one holds the best."""
    keys = np.random.default_rng(4).random((1000, instance.graph.n))
    values = decode(keys, instance.k, KernelArrays.of(instance))
    best = []
    for count in (1, 99, 100, 101, 250, 600, 1000):
        partition = random_search(instance, np.random.default_rng(4), Limits(evaluations=count), samples=10_000)
        best.append(partition.bottleneck)
        assert best[-1] == pytest.approx(values[:count].min())
    assert len(set(best)) > 3
    assert values[:100].min() < values[100:200].min()


IMMEDIATELY = threading.Event()
IMMEDIATELY.set()


@pytest.mark.parametrize(
    "limits", [{"deadline": Deadline(0.0)}, {"target": 1e9}, {"deadline": Deadline(interrupted=IMMEDIATELY)}]
)
@pytest.mark.parametrize(
    ("name", "first"), [("random-10000", 100), ("brkga-10000", 100), ("brkga-100", 10), ("local-search", None)]
)
def test_every_limit_ends_a_search_after_its_first_step(
    name: str, first: int | None, limits: dict[str, Any], instance: Instance
) -> None:
    more = search(name, instance, Limits(evaluations=2000))
    stopped = search(name, instance, Limits(**limits))
    step = HEURISTICS["kahn"].run(instance, np.random.default_rng(4))
    if first is not None:
        step = search(name, instance, Limits(evaluations=first))
    assert stopped.block.tolist() == step.block.tolist()
    assert more.bottleneck < stopped.bottleneck


def test_limits_that_are_far_away_end_nothing() -> None:
    far = Limits(Deadline.after(1e6), evaluations=10**9, target=1.0)
    assert not far.reached(1.5)
    assert far.reached(1.0)
    assert not far.without_target().reached(1.0)
    assert far.allow(5) == 5
    assert Limits(evaluations=3).allow(5) == 3


def arrangement_cost(partition: Partition, *, weighted: bool) -> float:
    graph = partition.instance.graph
    length = np.argsort(partition.order)[graph.edges] @ [-1, 1]
    return float(length @ (graph.tensors.bytes[graph.edge_tensor] if weighted else np.ones(graph.m)))


@pytest.mark.parametrize(("weighted", "order"), [(False, [0, 1, 2, 3]), (True, [1, 0, 2, 3])])
def test_a_linear_arrangement_has_the_shortest_edges(weighted: bool, order: list[int]) -> None:
    """Of the two orders one has lengths 2 + 1 + 2 + 1, the other 1 + 2 + 3 + 1 with the heavy edge first."""
    graph = ComputationGraph.from_edges([(0, 2), (1, 2), (1, 3), (2, 3)], [1, 1, 1, 1], [100, 1, 1, 0])
    instance = Instance(graph, Platform(2, bandwidth=1))
    rng, parameters = np.random.default_rng(0), BRKGAParameters(100, 100)
    found = linear_arrangement(instance, rng, Limits(), weighted=weighted, parameters=parameters)
    assert found.order.tolist() == order


@pytest.mark.parametrize("weighted", [False, True])
def test_linear_arrangement_minds_the_clock_and_not_the_target(weighted: bool, instance: Instance) -> None:
    """A target is a bottleneck; the search minimises edge lengths."""
    found = [
        arrangement_cost(
            linear_arrangement(
                instance, np.random.default_rng(0), limits, weighted=weighted, parameters=BRKGAParameters(20, 10)
            ),
            weighted=weighted,
        )
        for limits in (Limits(), Limits(target=1e30), Limits(Deadline.after(0)), Limits(evaluations=20))
    ]
    assert found[0] == found[1] < found[2] == found[3]


def test_brkga_runs_without_options(instance: Instance) -> None:
    parameters = BRKGAParameters(20, 5)
    a, b = (brkga(instance, np.random.default_rng(3), parameters=parameters) for _ in range(2))
    assert a.block.tolist() == b.block.tolist()
