"""Orders that a policy proposes: legal, built as described, sliced, and the best one kept."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances

from heuristics import HEURISTICS, Limits, kahn, slice_order
from heuristics.learned import Weights, learned_search, shipped
from heuristics.learned.policies import PROPOSERS, Proposer
from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays
from instances.random_graphs import layered, regal_style

SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(params=PROPOSERS)
def proposer(request: pytest.FixtureRequest) -> Proposer:
    return PROPOSERS[request.param]


@pytest.fixture(scope="module")
def instance() -> Instance:
    return Instance(regal_style("watts-strogatz", 40, seed=77), Platform(4, bandwidth=1))


def first(instance: Instance) -> Partition:
    return slice_order(instance, kahn(instance.graph, np.zeros(instance.graph.n)))


class Recorder:
    """A proposer that remembers its orders."""

    def __init__(self, name: str) -> None:
        self.orders: list[IntArray] = []
        self.weights = replace(Weights.of(shipped(name)), proposer=replace(PROPOSERS[name], build=self.build))
        self.original = PROPOSERS[name].build

    def build(self, noise: FloatArray, weights: FloatArray, room: float, k: int, arrays: KernelArrays) -> IntArray:
        self.orders.append(self.original(noise, weights, room, k, arrays))
        return self.orders[-1]


@pytest.mark.parametrize("name", PROPOSERS)
@settings(max_examples=30)
@given(instances(max_nodes=8, max_k=6, huge_ratio=False), SEEDS)
def test_the_answer_is_the_best_slicing_of_all_orders(name: str, instance: Instance, seed: int) -> None:
    """Also with finite memory, of which the policies know nothing."""
    recorder = Recorder(name)
    found = learned_search(instance, np.random.default_rng(seed), Limits(), 24, recorder.weights)
    all_orders = [first(instance), *(slice_order(instance, order) for order in recorder.orders)]
    assert found.bottleneck == pytest.approx(min(one.bottleneck for one in all_orders), rel=1e-9)
    if found.bottleneck > 0:
        assert len(recorder.orders) == 23


def test_the_first_proposal_has_mean_weights_and_no_noise(instance: Instance, proposer: Proposer) -> None:
    recorder = Recorder(proposer.name)
    learned_search(instance, np.random.default_rng(0), Limits(), 3, recorder.weights)
    mean = recorder.weights.mean
    room = first(instance).bottleneck * math.exp(0.1 * mean[-1])
    order = proposer.build(np.zeros(40), mean[:-1], room, 4, KernelArrays.of(instance))
    assert recorder.orders[0].tolist() == order.tolist()
    assert recorder.orders[1].tolist() != order.tolist()


@pytest.mark.parametrize("evaluations", [1, 2, 11, 12, 40])
def test_keeps_to_its_evaluations(instance: Instance, proposer: Proposer, evaluations: int) -> None:
    recorder = Recorder(proposer.name)
    limits = Limits(evaluations=evaluations)
    found = learned_search(instance, np.random.default_rng(0), limits, 101, recorder.weights)
    assert len(recorder.orders) == evaluations - 1
    assert found.bottleneck <= first(instance).bottleneck


IMMEDIATELY = threading.Event()
IMMEDIATELY.set()


@pytest.mark.parametrize(
    "limits", [{"deadline": Deadline(0.0)}, {"target": 1e9}, {"deadline": Deadline(interrupted=IMMEDIATELY)}]
)
def test_every_limit_ends_the_search_after_the_first_order(
    instance: Instance, proposer: Proposer, limits: dict[str, Any]
) -> None:
    weights = Weights.of(shipped(proposer.name))
    found, more = (
        learned_search(instance, np.random.default_rng(0), limit, 101, weights)
        for limit in (Limits(**limits), Limits())
    )
    assert found.block.tolist() == first(instance).block.tolist()
    assert more.bottleneck < found.bottleneck


def test_where_peaks_count_every_order_is_a_chance_to_stop(instance: Instance, proposer: Proposer) -> None:
    """To slice one order takes long then."""
    interrupted = threading.Event()

    def build(*args: Any) -> IntArray:
        assert not interrupted.is_set()
        interrupted.set()
        return proposer.build(*args)

    weights = replace(Weights.of(shipped(proposer.name)), proposer=replace(proposer, build=build))
    tight = replace(instance, platform=Platform(4, bandwidth=1, memory=1.0))
    learned_search(tight, np.random.default_rng(0), Limits(Deadline(interrupted=interrupted)), 101, weights)
    assert interrupted.is_set()


def test_same_seed_same_answer(instance: Instance, proposer: Proposer) -> None:
    spec = HEURISTICS[f"learned-{proposer.name}-101"]
    a, b, c = (spec.run(instance, np.random.default_rng(seed)).block.tolist() for seed in (3, 3, 4))
    assert a == b
    assert a != c


@pytest.mark.parametrize(("work", "bytes_"), [(1.0, 8.0), (8.0, 8.0), (8.0, 64.0)])
def test_units_do_not_matter(instance: Instance, proposer: Proposer, work: float, bytes_: float) -> None:
    """Time and bytes in other units, here by powers of two, which are exact."""
    graph = instance.graph
    scaled = replace(graph, work=graph.work * work, tensors=replace(graph.tensors, bytes=graph.tensors.bytes * bytes_))
    same = Instance(scaled, Platform(4, bandwidth=bytes_ / work))
    spec = HEURISTICS[f"learned-{proposer.name}-101"]
    a, b = (spec.run(one, np.random.default_rng(0)) for one in (instance, same))
    assert a.block.tolist() == b.block.tolist()


def test_large_graphs_are_sliced_by_bisection(proposer: Proposer) -> None:
    large = Instance(layered(2_500, 6_000, seed=1), Platform(8, bandwidth=1))
    recorder = Recorder(proposer.name)
    found = learned_search(large, np.random.default_rng(0), Limits(evaluations=3), 101, recorder.weights)
    sliced = [first(large), *(slice_order(large, order) for order in recorder.orders)]
    assert len(sliced) == 3
    assert found.bottleneck == min(one.bottleneck for one in sliced)


def test_very_large_graphs_get_one_order() -> None:
    huge = Instance(ComputationGraph.from_edges([], np.ones(150_000)), Platform(2, bandwidth=1))
    recorder = Recorder("orders")
    assert learned_search(huge, np.random.default_rng(0), Limits(), 101, recorder.weights).bottleneck == 75_000
    assert recorder.orders == []


def test_other_policies_are_refused() -> None:
    checkpoint = shipped("orders")
    for other in (
        replace(checkpoint, policy="fast"),
        replace(checkpoint, about={}),
        replace(checkpoint, policy="sweeps"),
    ):
        with pytest.raises(InputError, match="train one"):
            Weights.of(other)
