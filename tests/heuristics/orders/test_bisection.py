"""Slicing by bisection: the same answers as the table, at sizes where there is no table."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances, orders

from heuristics import kahn, segment_costs, slice_order, slice_order_for_all_k
from heuristics.orders.bisection import fewest_blocks, slice_by_bisection
from instances import ComputationGraph, Instance, Partition, Platform, SharedParameter
from instances.partitioning.memory import block_peaks
from instances.partitioning.peaks import KernelArrays
from instances.random_graphs import layered


@st.composite
def linear_instances(draw: st.DrawFn, max_nodes: int = 12, max_k: int = 9) -> Instance:
    """Instances whose costs do not depend on the peaks of an order."""
    instance = draw(instances(max_nodes, max_k))
    buffer = instance.platform.activation_buffer or 0.0
    return replace(instance, activation_buffer=buffer)


def rounding(instance: Instance) -> float:
    graph = instance.graph
    params = (graph.held_total + (instance.platform.activation_buffer or 0.0)) / instance.platform.bandwidth
    return 1e-12 * float(graph.work.sum() + instance.tensor_time.sum() + params)


@settings(max_examples=500)
@given(st.data())
def test_bisection_and_table_give_the_same_bottleneck(data: st.DataObject) -> None:
    instance = data.draw(linear_instances())
    order = np.array(data.draw(orders(instance.graph)))
    table = slice_order_for_all_k(instance, order)[-1].bottleneck
    assert slice_by_bisection(instance, order).bottleneck == pytest.approx(table, abs=rounding(instance))


@settings(max_examples=150)
@given(st.data())
def test_fewest_blocks_of_every_threshold(data: st.DataObject) -> None:
    """Thresholds between the segment costs, so that rounding does not matter."""
    instance = data.draw(linear_instances(max_nodes=8))
    order = np.array(data.draw(orders(instance.graph)))
    n, arrays, costs = instance.graph.n, KernelArrays.of(instance), segment_costs(instance, order)
    values = np.unique(costs[np.triu_indices(n)])
    values = values[np.append(True, np.diff(values) > 4 * rounding(instance))]
    counts = []
    for value, following in itertools.pairwise([-math.inf, *values.tolist(), math.inf]):
        threshold = value + min(1.0, (following - value) / 2) if value > -math.inf else following - 1.0
        fewest = [0.0]
        for r in range(n):
            fewest.append(min((fewest[i] + 1 for i in range(r + 1) if costs[i, r] <= threshold), default=math.inf))
        starts, bottleneck, same_below = fewest_blocks(order, instance.k, threshold, arrays)
        counts.append(fewest[n] if fewest[n] <= instance.k else math.inf)
        assert (len(starts) or math.inf) == counts[-1]
        if len(starts) > 0:
            ends = [*starts[1:], n]
            largest = max(costs[start, end - 1] for start, end in zip(starts, ends, strict=True))
            assert bottleneck == pytest.approx(largest, abs=rounding(instance))
            assert bottleneck <= threshold
        assert same_below > threshold
        again, _, _ = fewest_blocks(order, instance.k, np.nextafter(same_below, -math.inf), arrays)
        assert again.tolist() == starts.tolist() or same_below - threshold <= rounding(instance)
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("memory", [math.inf, 3_000.0])
def test_a_graph_of_20_000_nodes_has_the_bottlenecks_of_the_table(memory: float) -> None:
    graph = layered(20_000, 60_000, seed=1)
    instance = Instance(graph, Platform(4, 1.0, memory, activation_buffer=10.0))
    order = kahn(graph, np.random.default_rng(0).random(graph.n))
    for table in slice_order_for_all_k(instance, order):
        assert slice_order(table.instance, order).bottleneck == pytest.approx(table.bottleneck, rel=1e-12)


def test_shared_parameters_count_once_in_a_large_graph() -> None:
    """All nodes use one parameter, which alone fills the memory."""
    graph = layered(3_000, 9_000, seed=2)
    shared = SharedParameter("embedding", 500.0, tuple(range(graph.n)))
    instance = Instance(replace(graph, parameters=(shared,)), Platform(5, 1.0, 500.0, activation_buffer=0.0))
    order = kahn(graph, np.zeros(graph.n))
    table = slice_order_for_all_k(instance, order)[-1]
    assert slice_order(instance, order).bottleneck == pytest.approx(table.bottleneck, rel=1e-12)


@pytest.mark.parametrize("work", [0.0, 1.0])
def test_more_blocks_than_nodes_and_nothing_to_pay(work: float) -> None:
    graph = ComputationGraph.from_edges([(v, v + 1) for v in range(4_999)], [work] * 5_000)
    partition = slice_order(Instance(graph, Platform(6_000, 1.0)), range(5_000))
    assert partition.bottleneck == work


def test_a_chain_of_a_hundred_thousand_nodes_is_cut_into_equal_pieces() -> None:
    n = 100_000
    edges = np.column_stack((np.arange(n - 1), np.arange(1, n)))
    graph = ComputationGraph.from_edges(edges, np.ones(n), np.full(n, 0.25))
    # The six pieces between the ends receive and send, 0.25 each; smaller ones would cost the ends more than they save.
    assert slice_order(Instance(graph, Platform(8, 1.0)), range(n)).bottleneck == 12_500.5


def test_slicing_minds_the_peaks_of_a_graph_too_large_for_a_table_of_them() -> None:
    """The memory is the median of what the blocks of the blind slicing need, so half of them overflow."""
    graph = layered(12_000, 36_000, seed=3)
    order = kahn(graph, np.zeros(graph.n))
    blind = slice_order(Instance(graph, Platform(4, 1.0)), order)
    memory = float(np.median(blind.param_bytes + blind.state_bytes + block_peaks(graph, blind.block, order, 4)))
    instance = Instance(graph, Platform(4, 1.0, memory))
    assert slice_order(instance, order).bottleneck < Partition(instance, blind.block, order).bottleneck
