"""Searches over orders: limits, seeds, and what the genetic algorithm keeps."""

from __future__ import annotations

import numpy as np
import pytest

from heuristics import HEURISTICS, BRKGAParameters, Limits, brkga
from heuristics.brkga import evolve
from instances import InputError, Instance, Platform
from instances.synthetic import regal_style


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
    [({"seconds": -1}, "time limit is -1"), ({"seconds": float("nan")}, "nan"), ({"evaluations": 0}, "at least 1")],
)
def test_limits_refuse_nonsense(limits: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Limits(**limits)


@pytest.mark.parametrize("parameters", [{"population": 2}, {"elite": 0.0}, {"mutants": 0.9}, {"generations": 0}])
def test_brkga_refuses_a_population_without_parents_or_children(parameters: dict[str, float]) -> None:
    with pytest.raises(InputError, match="no elite or no children"):
        BRKGAParameters(**parameters)


def test_brkga_runs_without_options(instance: Instance) -> None:
    parameters = BRKGAParameters(20, 5)
    a, b = (brkga(instance, np.random.default_rng(3), parameters=parameters) for _ in range(2))
    assert a.block.tolist() == b.block.tolist()
