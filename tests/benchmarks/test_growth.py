"""From a graph to a sliced partition at n = 100 to a million; `make bench` prints the table.

Each size runs in a process of its own, so that ``extra_info`` tells its peak memory; stages are in seconds. The bars,
on one core: at 100,000 nodes and k = 64 a first partition within 5 s, sliced exactly within 60 s and 1 GiB; a million
nodes within 8 GiB.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from heuristics import kahn, slice_order
from instances import ComputationGraph, Instance, Partition, Platform
from instances.graph.graph import read_graph, save_graph
from instances.partitioning.partition_file import read_partition, save_partition
from instances.partitioning.symmetry import reduce_instance
from instances.random_graphs import layered


class Stages(dict[str, float]):
    """Seconds of each stage."""

    def run(self, name: str, stage: Callable[[], Any]) -> Any:
        """Time one stage."""
        begin = time.perf_counter()
        answer = stage()
        self[name] = round(time.perf_counter() - begin, 4)
        return answer


def slice_layered(n: int, k: int) -> dict[str, float]:
    """Stages from random numbers to the cost of a partition, and the peak memory of this process."""
    for small in (100, 3_000):  # compile both ways to slice
        warm_up = layered(small, small, seed=0)
        slice_order(Instance(warm_up, Platform(2, 1.0)), kahn(warm_up, np.zeros(small)))
    stages = Stages()
    graph = stages.run("graph", lambda: layered(n, 3 * n, seed=0))
    instance = Instance(graph, Platform(k, 1.0))
    reduction = stages.run("reductions", lambda: reduce_instance(instance))
    order = stages.run("order", lambda: kahn(reduction.instance.graph, np.zeros(reduction.instance.graph.n)))
    partition = stages.run("exact slicing", lambda: slice_order(reduction.instance, order))
    stages.run("cost", lambda: reduction.expand(partition).bottleneck)
    stages["over total work / k"] = partition.bottleneck / (graph.work.sum() / k)
    return stages | _peak()


def write_and_read(n: int, folder: Path) -> dict[str, float]:
    """Seconds to write and read the files of a graph and a partition."""
    graph = layered(n, 3 * n, seed=0)
    stages = Stages()
    stages.run("save graph", lambda: save_graph(graph, folder / "graph.json"))
    again: ComputationGraph = stages.run("read graph", lambda: read_graph(folder / "graph.json"))
    partition = Partition(Instance(again, Platform(2, 1.0)), np.zeros(n))
    stages.run("save partition", lambda: save_partition(partition, folder / "partition.json"))
    stages.run("read partition", lambda: read_partition(folder / "partition.json", partition.instance))
    return stages | _peak()


@pytest.mark.parametrize("k", [2, 64])
@pytest.mark.parametrize("n", [100, 1_000, 10_000, 100_000, 1_000_000])
def test_slicing(benchmark: BenchmarkFixture, n: int, k: int) -> None:
    """Near linear in n, and no slower for few blocks."""
    benchmark.extra_info |= _alone(benchmark, slice_layered, n, k)


@pytest.mark.parametrize("n", [10_000, 100_000])
def test_files(benchmark: BenchmarkFixture, n: int, tmp_path: Path) -> None:
    benchmark.extra_info |= _alone(benchmark, write_and_read, n, tmp_path)


def _alone(benchmark: BenchmarkFixture, stages: Callable[..., dict[str, float]], *arguments: Any) -> dict[str, float]:
    """Run in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return benchmark.pedantic(lambda: pool.submit(stages, *arguments).result(), rounds=1, warmup_rounds=0)


def _peak() -> dict[str, float]:
    return {"peak GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)}
