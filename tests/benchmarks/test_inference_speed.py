"""How fast orders are decoded and models are handed over; `make bench` prints the table.

Rates are in ``extra_info``; timings are noisy, so compare rows of one run.
"""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from heuristics import HEURISTICS
from heuristics.orders.orders import decode
from instances import Instance, Platform
from instances.deadline import Deadline
from instances.partitioning.peaks import KernelArrays
from instances.random_graphs import regal_style
from mtpp_models import MODELS, ScaledInstance
from mtpp_models.solvers.highs import run_highs
from mtpp_models.solvers.interface import Controls

DECODES = 200


@pytest.mark.parametrize("n", [75, 150, 300, 600, 1200])
def test_decode_all_k_to_64(benchmark: BenchmarkFixture, n: int) -> None:
    """Kahn, segment costs and SliceGraph for every k up to 64; 1,500 a second and core at n = 150 is the bar."""
    instance = Instance(regal_style("barabasi-albert", n, seed=0), Platform(64, 1.0))
    arrays = KernelArrays.of(instance)
    keys = np.random.default_rng(0).random((DECODES * 75 // n, n))
    decode(keys[:1], 64, arrays)
    benchmark(decode, keys, 64, arrays)
    benchmark.extra_info["decodes per second"] = round(len(keys) / benchmark.stats["min"])


@pytest.mark.parametrize("k", [2, 8, 64])
def test_brkga_10000(benchmark: BenchmarkFixture, k: int) -> None:
    """One REGAL-style graph at one k; below 10 s on one core is the bar."""
    instance = Instance(regal_style("erdos-renyi", 200, seed=0), Platform(k, 1.0))
    search = HEURISTICS["brkga-10000"]
    benchmark.pedantic(lambda: search.run(instance, np.random.default_rng(0)), rounds=1, warmup_rounds=0)


def test_exact_model_of_100_000_rows(benchmark: BenchmarkFixture) -> None:
    """Building the exact model and handing it to HiGHS; below 5 s is the bar."""
    instance = Instance(regal_style("erdos-renyi", 200, seed=0), Platform(33, 1.0))
    data = ScaledInstance.near(instance, None)

    def build_and_hand_over() -> int:
        (case,) = MODELS["exact"].cases(data)
        model = case.model()
        run_highs(model, Controls(deadline=Deadline.after(1e-3)))
        return sum(len(rows) for rows in model.component_objects(ctype=type(model.dag)))

    benchmark.extra_info["rows"] = benchmark.pedantic(build_and_hand_over, rounds=3, warmup_rounds=0)
