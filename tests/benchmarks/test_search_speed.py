"""Local search against the searches over orders: rates, time to a target, growth, and what equal time buys.

`make bench` prints the table. Ratios are of runs side by side in one process, by its processor time;
`docs/journal/search.md` reports them.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from experiments.studies.peers import pymoo_brkga
from heuristics import HEURISTICS, Limits, local_search, portfolio
from instances import Instance, Partition, Platform
from instances.deadline import Deadline
from instances.random_graphs import layered, regal_style
from instances.suites import SUITES

FAMILIES = ("erdos-renyi", "barabasi-albert", "watts-strogatz", "stochastic-block")


def timed(search: Callable[[], Partition]) -> tuple[float, float]:
    """Bottleneck and processor seconds."""
    begin = time.process_time()
    bottleneck = search().bottleneck
    return bottleneck, time.process_time() - begin


def mean(ratios: list[float]) -> float:
    """Geometric."""
    return round(math.exp(np.mean(np.log(ratios))), 4)


def moves_for(instance: Instance, seconds: float) -> int:
    """How many moves take so long."""
    sample = 200_000
    _, spent = timed(lambda: local_search(instance, np.random.default_rng(1), Limits(evaluations=sample)))
    return max(1, int(sample * seconds / spent))


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    for n in (20, 3_000):
        local_search(
            Instance(layered(n, n, seed=0), Platform(2, 1.0)), np.random.default_rng(0), Limits(evaluations=100)
        )


@pytest.mark.parametrize("k", [4, 16, 64])
@pytest.mark.parametrize("n", [100, 1_000, 10_000, 100_000, 1_000_000])
def test_moves(benchmark: BenchmarkFixture, n: int, k: int) -> None:
    """Moves a second, from pieces of equal work; the memory is that of all sizes so far."""
    instance = Instance(layered(n, 3 * n, seed=0), Platform(k, 1.0))
    start = portfolio(instance, np.random.default_rng(0), Limits(Deadline.after(0)))
    search = lambda: local_search(instance, np.random.default_rng(0), Limits(evaluations=2_000_000), start=start)  # noqa: E731
    found = benchmark.pedantic(search, rounds=1, warmup_rounds=0)
    benchmark.extra_info |= {
        "million moves per second": round(2 / benchmark.stats["min"], 2),
        "over the start": round(found.bottleneck / start.bottleneck, 4),
        "peak GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


@pytest.mark.parametrize("n", [100_000, 1_000_000])
def test_first_partition(benchmark: BenchmarkFixture, n: int) -> None:
    """Two orders cut into pieces of equal work; below 5 s at 100,000 nodes and k = 64 is the bar."""
    instance = Instance(layered(n, 3 * n, seed=0), Platform(64, 1.0))
    search = lambda: portfolio(instance, np.random.default_rng(0), Limits(Deadline.after(0)))  # noqa: E731
    benchmark.pedantic(search, rounds=1, warmup_rounds=0)


@pytest.mark.parametrize("k", [4, 8, 16, 32])
def test_against_brkga_10000(benchmark: BenchmarkFixture, k: int) -> None:
    """Bottlenecks over those of brkga-10000 in a tenth of its time and in the same time."""
    ratios: dict[str, list[float]] = {"in a tenth of the time": [], "in the same time": [], "random-10000": []}

    def compare() -> None:
        for family in FAMILIES:
            for n, seed in ((50, 1), (110, 3), (200, 6)):
                instance = Instance(regal_style(family, n, seed), Platform(k, 1.0))
                best, seconds = timed(lambda: run("brkga-10000", instance))  # noqa: B023
                for label, part in (("in a tenth of the time", 0.1), ("in the same time", 1.0)):
                    moves = moves_for(instance, part * seconds)
                    found = local_search(instance, np.random.default_rng(0), Limits(evaluations=moves))
                    ratios[label].append(found.bottleneck / best)
                ratios["random-10000"].append(run("random-10000", instance).bottleneck / best)

    benchmark.pedantic(compare, rounds=1, warmup_rounds=0)
    for label, values in ratios.items():
        benchmark.extra_info |= {label: mean(values), f"{label}, worst": round(max(values), 4)}


def test_against_pymoo(benchmark: BenchmarkFixture) -> None:
    """The genetic algorithm of a well-kept library with the decoder of this project, 3,000 decodes each."""
    pytest.importorskip("pymoo", reason="pymoo is not installed")
    library, ours, moved = [], [], []

    def compare() -> None:
        for family in FAMILIES:
            instance = Instance(regal_style(family, 110, seed=3), Platform(8, 1.0))
            limits = Limits(evaluations=3_000)
            value, seconds = timed(lambda: pymoo_brkga(instance, np.random.default_rng(0), limits))  # noqa: B023
            other, spent = timed(lambda: run("brkga-10000", instance, limits))  # noqa: B023
            library.append(seconds / spent)
            ours.append(other / value)
            found = local_search(instance, np.random.default_rng(0), Limits(evaluations=moves_for(instance, seconds)))
            moved.append(found.bottleneck / value)

    benchmark.pedantic(compare, rounds=1, warmup_rounds=0)
    benchmark.extra_info |= {
        "time of pymoo over brkga": mean(library),
        "bottleneck of brkga over pymoo": mean(ours),
        "bottleneck of local search in the time of pymoo": mean(moved),
    }


def test_time_to_target(benchmark: BenchmarkFixture) -> None:
    """Seconds until local search has what brkga-10000 finds."""
    instance = Instance(regal_style("barabasi-albert", 200, seed=6), Platform(8, 1.0))
    target, seconds = timed(lambda: run("brkga-10000", instance))
    limits = Limits(target=target)
    search = lambda: local_search(instance, np.random.default_rng(0), limits)  # noqa: E731
    found, spent = timed(lambda: benchmark.pedantic(search, rounds=1, warmup_rounds=0))
    assert found <= target
    benchmark.extra_info |= {"part of the time of brkga-10000": round(spent / seconds, 4)}


@pytest.mark.parametrize("activation_buffer", [None, 0.0])
def test_finite_memory(benchmark: BenchmarkFixture, activation_buffer: float | None) -> None:
    """Bottleneck over that of a blind search, where blocks have room for half of their share of the parameters."""
    networks = [(SUITES["real"].entries[i].build(), 25e9) for i in (0, 8)]
    ratios, slower = [], []

    def compare() -> None:
        for graph, bandwidth in [(layered(100, 300, seed=1), 1.0), (layered(200, 600, seed=2), 1.0), *networks]:
            for k in (4, 8, 16):
                memory = graph.parameter_total / 2 / k
                instance = Instance(graph, Platform(k, bandwidth, memory, activation_buffer))
                blind = Instance(graph, Platform(k, bandwidth))
                begin = time.process_time()
                one = local_search(blind, np.random.default_rng(0), Limits(evaluations=500_000))
                middle = time.process_time()
                other = local_search(instance, np.random.default_rng(0), Limits(evaluations=500_000))
                slower.append((time.process_time() - middle) / (middle - begin))
                ratios.append(other.bottleneck / Partition(instance, one.block, one.order).bottleneck)

    benchmark.pedantic(compare, rounds=1, warmup_rounds=0)
    benchmark.extra_info |= {"over the blind search": mean(ratios), "times slower": mean(slower)}


def run(name: str, instance: Instance, limits: Limits | None = None) -> Partition:
    return HEURISTICS[name].run(instance, np.random.default_rng(0), limits)
