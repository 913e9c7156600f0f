"""Multilevel search and the portfolio against local search alone, with the same number of moves.

`make bench` prints the ratios of bottlenecks and of processor time; `docs/journal/search.md` reports them.
"""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from heuristics import HEURISTICS, Limits
from instances import Instance, Platform
from instances.random_graphs import layered, regal_style

#: Kinds of graphs, and the bandwidth; at 0.01 all transfers take ten times the work.
KINDS = {
    "REGAL-style": [Instance(regal_style("watts-strogatz", n, seed=n), Platform(8, 1.0)) for n in (90, 140)],
    "layered": [Instance(layered(n, 2 * n, seed=n), Platform(8, 1.0)) for n in (400, 1_000)],
    "high communication": [Instance(layered(400, 800, seed=1), Platform(k, 0.01)) for k in (2, 4, 8)],
}


@pytest.mark.parametrize("moves", [1_000_000, 10_000_000])
@pytest.mark.parametrize("kind", KINDS)
def test_over_local_search(benchmark: BenchmarkFixture, kind: str, moves: int) -> None:
    """Bottlenecks and processor time over those of local search; geometric means."""
    limits = Limits(evaluations=moves)
    ratios: dict[str, list[float]] = {"multilevel": [], "portfolio": []}
    times: dict[str, list[float]] = {name: [] for name in ratios}

    def compare() -> None:
        for instance in KINDS[kind]:
            alone, seconds = run("local-search", instance, limits)
            for name in ratios:
                found, spent = run(name, instance, limits)
                ratios[name].append(found / alone)
                times[name].append(spent / seconds)

    for name in ("local-search", *ratios):
        run(name, KINDS[kind][0], Limits(evaluations=100))
    benchmark.pedantic(compare, rounds=1, warmup_rounds=0)
    for name, values in ratios.items():
        benchmark.extra_info |= {name: mean(values), f"time of {name}": mean(times[name])}


def run(name: str, instance: Instance, limits: Limits) -> tuple[float, float]:
    """Bottleneck and processor seconds."""
    begin = time.process_time()
    return HEURISTICS[name].run(instance, np.random.default_rng(0), limits).bottleneck, time.process_time() - begin


def mean(ratios: list[float]) -> float:
    """Geometric."""
    return round(math.exp(np.mean(np.log(ratios))), 4)
