"""Inner loops, each alone and by processor time; the site shows them over commits (`docs/site/speed.csv`)."""

from __future__ import annotations

import time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from heuristics import HEURISTICS, Limits, kahn, local_search, slice_order
from instances import Instance, Platform
from instances.random_graphs import layered, regal_style
from instances.suites import SUITES
from mtpp_models import SolveOptions, solve

pytestmark = pytest.mark.benchmark(
    group="inner loops", timer=time.process_time, min_rounds=5, max_time=1, warmup=True, warmup_iterations=1
)


def test_slice_an_order(benchmark: BenchmarkFixture) -> None:
    """Kahn's order of 10,000 nodes, cut into 16 blocks."""
    instance = Instance(layered(10_000, 30_000, seed=0), Platform(16, 1.0))
    benchmark(lambda: slice_order(instance, kahn(instance.graph, np.zeros(instance.graph.n))))


def test_genetic_search(benchmark: BenchmarkFixture) -> None:
    """A hundred orders of 200 nodes, bred and sliced."""
    instance = Instance(regal_style("erdos-renyi", 200, seed=0), Platform(8, 1.0))
    benchmark(lambda: HEURISTICS["brkga-100"].run(instance, np.random.default_rng(0)))


def test_local_search(benchmark: BenchmarkFixture) -> None:
    """A million moves on 1,000 nodes in 16 blocks."""
    instance = Instance(layered(1_000, 3_000, seed=0), Platform(16, 1.0))
    benchmark(lambda: local_search(instance, np.random.default_rng(0), Limits(evaluations=1_000_000)))


@pytest.mark.parametrize("model", ["ideals", "pinned"])
def test_bound(benchmark: BenchmarkFixture, model: str) -> None:
    """Bounds that need no solver, on the first network of the suite `real` in 4 blocks."""
    instance = Instance(SUITES["real"].entries[0].build(), Platform(4, 25e9))
    benchmark(lambda: solve(instance, model))


def test_relaxation(benchmark: BenchmarkFixture) -> None:
    """The exact model, built and relaxed, on a graph of 50 nodes in 4 blocks."""
    instance = Instance(regal_style("erdos-renyi", 50, seed=0), Platform(4, 1.0))
    benchmark(lambda: solve(instance, "exact", SolveOptions(solver="highs"), relaxation=True))
