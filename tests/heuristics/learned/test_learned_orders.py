"""How policies make orders: as described, by slow versions that take costs from their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances

from heuristics import kahn, slice_order
from heuristics.learned import block_filling, sweeps
from heuristics.learned.policies import PROPOSERS, Proposer
from instances import ComputationGraph, Instance, Partition, Platform
from instances.graph.tensors import FloatArray
from instances.partitioning.kernel_arrays import KernelArrays
from instances.partitioning.partition import check_order
from instances.random_graphs import regal_style

SEEDS = st.integers(0, 2**32 - 1)


def drawn(proposer: Proposer, n: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Noise and weights that no policy has."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(n), 3 * rng.standard_normal(len(proposer.features))


def whole_numbers(rng: np.random.Generator) -> Instance:
    """A random instance of up to 12 nodes whose times are whole numbers, so that their sums are exact."""
    n = int(rng.integers(4, 13))
    edges = [(u, v) for v in range(n) for u in range(v) if rng.random() < 0.3]
    graph = ComputationGraph.from_edges(edges, rng.integers(0, 9, n), rng.integers(0, 6, n).astype(np.float64))
    return Instance(graph, Platform(int(rng.integers(2, 6)), bandwidth=1))


def question(name: str, seed: int) -> tuple[np.random.Generator, Instance, FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    instance = whole_numbers(rng)
    return rng, instance, *drawn(PROPOSERS[name], instance.graph.n, seed)


@pytest.mark.parametrize("name", PROPOSERS)
@settings(max_examples=40)
@given(instances(max_nodes=8, max_k=6), st.floats(1e-9, 1e9), SEEDS)
def test_any_weights_give_a_topological_order(name: str, instance: Instance, room: float, seed: int) -> None:
    noise, weights = drawn(PROPOSERS[name], instance.graph.n, seed)
    order = PROPOSERS[name].build(noise, weights, room, instance.k, KernelArrays.of(instance))
    check_order(instance.graph, order)


class TestPacking:
    @pytest.mark.parametrize("seed", range(60))
    def test_takes_the_highest_score_that_fits(self, seed: int) -> None:
        """Against a slow version that follows the description and takes costs from their definition."""
        rng, instance, noise, weights = question("orders", seed)
        room = rng.integers(5, 40) + 1 / 7  # no sum of whole numbers
        order = block_filling.pack(noise, weights, room, instance.k, KernelArrays.of(instance))
        assert order.tolist() == packed(instance, noise, weights, room)

    def test_compares_some_of_many(self) -> None:
        """Of 400 ready nodes the last ones are not seen at first; each is placed all the same."""
        graph = ComputationGraph.from_edges([], np.ones(400))
        instance = Instance(graph, Platform(4, bandwidth=1))
        noise = np.arange(400.0)
        order = block_filling.pack(noise, np.zeros(len(block_filling.FEATURES)), 100.0, 4, KernelArrays.of(instance))
        assert order[0] == 255
        assert sorted(order.tolist()) == list(range(400))


def packed(instance: Instance, noise: FloatArray, weights: FloatArray, room: float) -> list[int]:
    graph = instance.graph
    tensors = [
        (int(u), float(time), {int(v) for v in graph.tensors.consumers[a:b]})
        for u, time, a, b in zip(
            graph.tensors.producer, instance.tensor_time, graph.tensors.start[:-1], graph.tensors.start[1:], strict=True
        )
    ]
    unit = graph.work.sum() / instance.k or 1.0
    tensor_unit = (sum(time for _, time, _ in tensors) / len(tensors) if tensors else 0.0) or 1.0

    def cost(block: set[int]) -> float:
        io = sum(
            t for u, t, readers in tensors if (u in block and readers - block) or (u not in block and readers & block)
        )
        return io + sum(graph.work[v] for v in block)

    def score(v: int, block: set[int], done: list[int], since: float) -> float:
        inputs = [(u, time, readers) for u, time, readers in tensors if v in readers]
        there = [time for u, time, readers in inputs if u in block or readers & block]
        last = [(u, time) for u, time, readers in inputs if readers <= {v, *done}]
        share, before = (cost(block | {v}) - cost(block)) / room, cost(block) / room
        columns = (
            sum(there) / tensor_unit,
            (sum(time for _, time, _ in inputs) - sum(there)) / tensor_unit,
            sum(time for _, time in last) / tensor_unit,
            sum(time for u, time in last if u in block) / tensor_unit,
            sum(time for u, time, readers in tensors if u == v and readers) / tensor_unit,
            (sum(graph.work[u] for u in done) - since) / unit,
            share,
            share * before,
            math.exp(-8 * abs(1 - before - share)),
        )
        return float(noise[v] + np.dot(weights, columns))

    before = {v: {u for u, _, readers in tensors if v in readers} for v in range(graph.n)}
    order: list[int] = []
    block: set[int] = set()
    since: dict[int, float] = {}
    while len(order) < graph.n:
        ready = [v for v in range(graph.n) if v not in order and before[v] <= set(order)]
        for v in ready:
            since.setdefault(v, sum(graph.work[u] for u in order))
        fitting = [v for v in ready if cost(block) == 0 or cost(block | {v}) <= room]
        if not fitting:
            block = set()
            continue
        v = max(fitting, key=lambda u: score(u, block, order, since[u]))
        order.append(v)
        block.add(v)
    return order


class TestSweeps:
    @pytest.mark.parametrize("seed", range(25))
    def test_goes_where_the_score_is_highest(self, seed: int) -> None:
        """Against a slow version that takes costs from `Partition`; whole numbers, so that both round alike."""
        rng, instance, noise, weights = question("intervals", seed)
        room = float(rng.integers(5, 20))
        order = sweeps.sweep(noise, weights, room, instance.k, KernelArrays.of(instance))
        assert order.tolist() == swept(instance, noise, weights, room)

    @settings(max_examples=40)
    @given(instances(max_nodes=8, max_k=6, overflow=False), st.floats(0.1, 100.0), SEEDS)
    def test_is_never_worse_than_its_start(self, instance: Instance, room: float, seed: int) -> None:
        noise, weights = drawn(PROPOSERS["intervals"], instance.graph.n, seed)
        order = sweeps.sweep(noise, weights, room, instance.k, KernelArrays.of(instance))
        assert slice_order(instance, order).bottleneck <= start(instance, noise).bottleneck * (1 + 1e-9)

    def test_nodes_stay_where_staying_is_all_that_counts(self) -> None:
        instance = Instance(regal_style("watts-strogatz", 40, seed=77), Platform(4, bandwidth=1))
        noise, _ = drawn(PROPOSERS["intervals"], 40, 0)
        weights = np.eye(len(sweeps.FEATURES))[0]
        order = sweeps.sweep(noise, weights, 1.0, 4, KernelArrays.of(instance))
        assert order.tolist() == kahn(instance.graph, noise).tolist()

    def test_balances_where_nothing_else_counts(self) -> None:
        """Falling eighth powers of the costs: from three heavy nodes in one of two blocks to the optimum."""
        graph = ComputationGraph.from_edges([], [4, 1, 1, 4, 2, 4])
        instance = Instance(graph, Platform(2, bandwidth=1))
        weights = -np.eye(len(sweeps.FEATURES))[2]
        order = sweeps.sweep(np.arange(6.0), weights, 8.0, 2, KernelArrays.of(instance))
        assert slice_order(instance, order).bottleneck == 8

    def test_more_blocks_than_nodes(self) -> None:
        graph = ComputationGraph.from_edges([(0, 1)], [2, 3], [1, 0])
        instance = Instance(graph, Platform(10**6, bandwidth=1))
        order = sweeps.sweep(np.zeros(2), np.ones(len(sweeps.FEATURES)), 3.0, 10**6, KernelArrays.of(instance))
        assert order.tolist() == [0, 1]

    def test_nodes_times_blocks_are_bounded(self) -> None:
        """A table of all these nodes and blocks would take 65 GB."""
        n = 127_000
        graph = ComputationGraph.from_edges([(i, i + 1) for i in range(n - 1)], np.ones(n), np.ones(n))
        instance = Instance(graph, Platform(n, bandwidth=1))
        order = sweeps.sweep(np.zeros(n), np.ones(len(sweeps.FEATURES)), 3.0, n, KernelArrays.of(instance))
        assert order.tolist() == list(range(n))


def start(instance: Instance, noise: FloatArray) -> Partition:
    """A random order in pieces of equal work."""
    order, k = kahn(instance.graph, noise), min(instance.k, instance.graph.n)
    block, done, total = np.zeros(instance.graph.n, dtype=np.int64), 0.0, instance.graph.work.sum()
    for v in order:
        block[v] = min(k - 1, int(k * (done / total))) if total > 0 else 0
        done += instance.graph.work[v]
    return Partition(instance, block, order)


def swept(instance: Instance, noise: FloatArray, weights: FloatArray, room: float) -> list[int]:
    graph, order, block = instance.graph, kahn(instance.graph, noise).tolist(), start(instance, noise).block.copy()
    instance = instance.with_k(min(instance.k, graph.n))
    unit = graph.work.sum() / graph.n or room

    def costs(v: int, b: int) -> FloatArray:
        moved = block.copy()
        moved[v] = b
        return Partition(instance, moved).block_costs

    def columns(v: int, b: int, done: float) -> tuple[float, ...]:
        a, old, new = block[v], costs(v, block[v]), costs(v, b)
        near = [*graph.edges[graph.edges[:, 1] == v, 0], *graph.edges[graph.edges[:, 0] == v, 1]]
        share = sum(block[u] == b for u in near) / max(1, len(near))
        if a == b:
            return 1.0, done, 0, 0, 0, 0, old[b] / room, share, 0, 0
        (x, y), (x_old, y_old) = ((float(c[a]) / room, float(c[b]) / room) for c in (new, old))
        powers = eighth(x) + eighth(y) - eighth(x_old) - eighth(y_old)
        side = old[: a + 1] if b > a else old[a:]
        return (
            *(0.0, 0.0, powers, powers * done),
            (max(new[a], new[b]) - max(old[a], old[b])) / room,
            (new[a] + new[b] - old[a] - old[b]) / unit,
            *(new[b] / room, share, abs(b - a) / instance.k),
            side.sum() / room - len(side) * (old.sum() / room / instance.k),
        )

    best, least = block.copy(), costs(0, block[0]).max()
    for done, v in enumerate((*order[::-1], *order) * 2):
        low = max((block[u] for u in graph.edges[graph.edges[:, 1] == v, 0]), default=0)
        high = min((block[u] for u in graph.edges[graph.edges[:, 0] == v, 1]), default=instance.k - 1)
        scores = []
        for b in range(low, high + 1):
            scores.append(0.0)
            for weight, column in zip(weights, columns(v, b, done / (4 * graph.n)), strict=True):
                scores[-1] += weight * column
        block[v] = low + int(np.argmax(scores))
        if costs(v, block[v]).max() < least:
            best, least = block.copy(), costs(v, block[v]).max()
    return sorted(order, key=lambda v: (best[v], order.index(v)))


def eighth(x: float) -> float:
    square = x * x
    fourth = square * square
    return fourth * fourth
