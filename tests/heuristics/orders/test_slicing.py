"""Segment costs and SliceGraph against the definition of cost."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds_cases import GOLDEN
from strategies import instances, orders

from heuristics import kahn, segment_costs, slice_order, slice_order_for_all_k
from heuristics.orders.orders import decode
from instances import ComputationGraph, Instance, Partition, Platform
from instances.partitioning.constraints import Constraints
from instances.partitioning.peaks import KernelArrays
from instances.random_graphs import heavy_and_light, misleading_edge


@given(st.data())
def test_segment_cost_is_the_cost_of_the_segment_as_a_block(data: st.DataObject) -> None:
    instance = data.draw(instances())
    order = data.draw(orders(instance.graph))
    costs = segment_costs(instance, order)
    position = np.argsort(order)
    alone = Instance(instance.graph, Platform(3, *_without_k(instance)))
    for l, r in itertools.combinations_with_replacement(range(instance.graph.n), 2):  # noqa: E741
        block = np.where(position < l, 0, np.where(position <= r, 1, 2))
        assert costs[l, r] == pytest.approx(Partition(alone, block, order).block_costs[1], abs=_rounding(instance))


@given(st.data())
def test_slice_graph_finds_the_best_of_all_slicings(data: st.DataObject) -> None:
    instance = data.draw(instances(max_nodes=6))
    order = data.draw(orders(instance.graph))
    costs = segment_costs(instance, order)
    for k, partition in enumerate(slice_order_for_all_k(instance, order), 1):
        best = min(max(costs[first, end - 1] for first, end in segments) for segments in _slicings(instance.graph.n, k))
        assert partition.instance.k == k
        assert partition.bottleneck == pytest.approx(best, abs=_rounding(instance))


@pytest.mark.parametrize("buffer", [None, 2.0])
def test_blocks_may_fill_a_hard_memory(buffer: float | None) -> None:
    """Parameters of 5 and activations of 2 fit into 7."""
    graph = ComputationGraph.from_edges([(0, 1)], [3, 4], [2, 0], param_bytes=[5, 5])
    for memory, fits in ((7.0, True), (6.9, False)):
        costs = segment_costs(Instance(graph, Platform(2, 1.0, memory, buffer, fit=True)), np.arange(2))
        assert (costs[0, 0] == 3 + 2) == (costs[1, 1] == 2 + 4) == fits


@given(st.data())
def test_decode_gives_the_bottleneck_of_the_sliced_kahn_order(data: st.DataObject) -> None:
    instance = data.draw(instances())
    keys = np.random.default_rng(data.draw(st.integers(0, 9))).random((3, instance.graph.n))
    values = decode(keys, instance.k, KernelArrays.of(instance))
    expected = [slice_order(instance, kahn(instance.graph, row)).bottleneck for row in keys]
    assert values.tolist() == pytest.approx(expected, abs=_rounding(instance))


def test_lemma_3_5_a_bad_order_is_as_bad_as_one_block() -> None:
    instance, optimum = misleading_edge(k=4)
    assert slice_order(instance, range(instance.graph.n)).bottleneck == 4 * optimum == instance.graph.work.sum()


def test_remark_a_1_an_order_of_independent_nodes_costs_nearly_twice_the_optimum() -> None:
    instance, optimum = heavy_and_light(k=4)
    assert (slice_order(instance, range(instance.graph.n)).bottleneck, optimum) == (8, 5)


def _rounding(instance: Instance) -> float:
    """Costs are sums with cancellation, so their rounding follows the largest term."""
    graph = instance.graph
    params = (graph.held_total + graph.tensors.bytes.sum()) / instance.platform.bandwidth
    return 1e-12 * float(graph.work.sum() + instance.tensor_time.sum() + params)


def _without_k(instance: Instance) -> tuple[float, float, float | None]:
    platform = instance.platform
    return platform.bandwidth, platform.memory, platform.activation_buffer


def _slicings(n: int, k: int) -> list[list[tuple[int, int]]]:
    """All ways to cut 0 … n into at most k non-empty segments."""
    cuts = (c for blocks in range(1, min(n, k) + 1) for c in itertools.combinations(range(1, n), blocks - 1))
    return [list(itertools.pairwise((0, *c, n))) for c in cuts]


def test_over_kinds_an_order_is_cut_best_and_each_block_has_a_device() -> None:
    """Also where windows say in which block a node is."""
    question, optimum = GOLDEN["two kinds"]
    found = slice_order(question, question.graph.topological_order)
    assert found.bottleneck == optimum
    windowed = Instance(question.graph, question.machines, k=3, constraints=Constraints(windows=((0, 1, 1),)))
    assert slice_order(windowed, question.graph.topological_order).block[0] == 1
