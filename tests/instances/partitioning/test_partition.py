"""Partition's costs against plain sets: equations (1) to (4) and a simulation of what is in memory."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import partitions

from instances import ComputationGraph, InputError, Instance, Partition, Platform, SharedParameter


def slow_tensors(graph: ComputationGraph) -> list[tuple[int, float, set[int]]]:
    """Producer, bytes and readers of each tensor."""
    tensors: list[tuple[int, float, set[int]]] = [
        (int(u), float(size), set()) for u, size in zip(graph.tensors.producer, graph.tensors.bytes, strict=True)
    ]
    for t in range(len(tensors)):
        for position in range(int(graph.tensors.start[t]), int(graph.tensors.start[t + 1])):
            tensors[t][2].add(int(graph.tensors.consumers[position]))
    return tensors


def slow_io(graph: ComputationGraph, senders: set[int], readers: set[int], bandwidth: float) -> float:
    """Equation (1)."""
    return sum(size for u, size, read_by in slow_tensors(graph) if u in senders and read_by & readers) / bandwidth


def slow_peak(graph: ComputationGraph, nodes: set[int], order: list[int]) -> float:
    """Run the nodes one by one: load what a step reads, keep what it writes, drop what `nodes` will not read again."""
    tensors = slow_tensors(graph)
    still_to_run = set(nodes)
    in_memory: set[int] = set()
    peak = 0.0
    for v in order:
        if v not in nodes:
            continue
        in_memory |= {t for t, (u, _, read_by) in enumerate(tensors) if v in read_by or u == v}
        peak = max(peak, sum(tensors[t][1] for t in in_memory))
        still_to_run.remove(v)
        in_memory = {t for t in in_memory if tensors[t][2] & still_to_run}
    return peak


def slow_cost(partition: Partition, b: int) -> float:
    """Equation (3) with the overflow of equation (2)."""
    graph, platform = partition.instance.graph, partition.instance.platform
    inside = {v for v in range(graph.n) if partition.block[v] == b}
    outside = set(range(graph.n)) - inside
    cost = slow_io(graph, outside, inside, platform.bandwidth)
    cost += sum(float(graph.work[v]) for v in inside)
    cost += slow_io(graph, inside, outside, platform.bandwidth)
    params = sum(float(graph.param_bytes[v] + graph.state_bytes[v]) for v in inside)
    params += sum(parameter.bytes for parameter in graph.parameters if set(parameter.users) & inside)
    if platform.activation_buffer is None:
        peak = slow_peak(graph, inside, partition.order.tolist())
    else:
        peak = platform.activation_buffer if inside else 0.0
    if math.isfinite(platform.memory):
        cost += max(0.0, params + peak - platform.memory) / platform.bandwidth
    return cost


@settings(max_examples=400)
@given(partitions())
def test_block_costs_follow_the_equations(partition: Partition) -> None:
    """Every block, with and without overflow; 1e-6 absolute is rounding beside weights of 1e9."""
    expected = [slow_cost(partition, b) for b in range(partition.instance.k)]
    np.testing.assert_allclose(partition.block_costs, expected, rtol=1e-12, atol=1e-6)
    assert partition.bottleneck == max(partition.block_costs)


@settings(max_examples=400)
@given(partitions(max_nodes=7, overflow=True))
def test_peaks_follow_the_simulation(partition: Partition) -> None:
    """Live intervals and a step-by-step run of the block agree on the peak."""
    instance = partition.instance
    platform = Platform(instance.k, instance.platform.bandwidth, instance.platform.memory)
    bare = Partition(Instance(instance.graph, platform), partition.block, partition.order)
    blocks = [set(np.flatnonzero(partition.block == b).tolist()) for b in range(instance.k)]
    expected = [slow_peak(instance.graph, nodes, partition.order.tolist()) for nodes in blocks]
    np.testing.assert_allclose(bare.peaks, expected, rtol=1e-12, atol=1e-6)


@given(partitions())
def test_one_block_pays_no_communication(partition: Partition) -> None:
    """All nodes in one block: nothing crosses, the work is the whole."""
    together = Partition(partition.instance, np.zeros(partition.instance.graph.n), partition.order)
    assert together.costs.receive.sum() == together.costs.send.sum() == 0
    assert together.costs.work[0] == pytest.approx(partition.instance.graph.work.sum())


def diamond(k: int = 3, **platform: float) -> Instance:
    graph = ComputationGraph.from_edges(
        [(0, 1), (0, 2), (1, 3), (2, 3)], [1, 2, 3, 4], [10, 6, 8, 5], [1, 1, 1, 1], names=tuple("abcd")
    )
    return Instance(graph, Platform(k, bandwidth=2, **platform))


def test_a_tensor_is_sent_once_and_read_once_per_block() -> None:
    """Tensor 0 leaves block 0 once and enters block 1 once, although two nodes there read it."""
    costs = Partition(diamond(), [0, 1, 1, 2]).costs
    assert costs.send.tolist() == [5, 7, 0]
    assert costs.receive.tolist() == [0, 5, 7]
    assert costs.work.tolist() == [1, 5, 4]


def test_tensors_of_one_node_are_charged_apart() -> None:
    """Of two outputs only the one that crosses costs."""
    graph = ComputationGraph.from_edges([(0, 1, 0), (0, 2, 1)], [0, 0, 0], [[4, 100], 0, 0])
    assert Partition(Instance(graph, Platform(2, 1)), [0, 1, 0]).block_costs.tolist() == [4, 4]


def test_shared_parameters_count_once_in_each_block_that_uses_them() -> None:
    graph = ComputationGraph.from_edges([], [0, 0, 0], parameters=(SharedParameter("table", 7, (0, 1, 2)),))
    partition = Partition(Instance(graph, Platform(3, bandwidth=1, memory=2)), [0, 0, 2])
    assert partition.param_bytes.tolist() == [7, 0, 7]
    assert partition.costs.overflow.tolist() == [5, 0, 5]


def test_states_take_memory_beside_parameters_and_activations() -> None:
    """Ten bytes of memory: the first block holds 4 + 3 + 8, the second 2 + 0 + 8; at two bytes a second."""
    graph = ComputationGraph.from_edges([(0, 1)], [1, 1], [8, 0], [4, 2], state_bytes=np.array([3, 0]))
    partition = Partition(Instance(graph, Platform(2, 2.0, memory=10.0)), [0, 1])
    arrays = (partition.param_bytes, partition.state_bytes, partition.peaks)
    assert [array.tolist() for array in arrays] == [[4, 2], [3, 0], [8, 8]]
    assert partition.costs.overflow.tolist() == [2.5, 0.0]


def test_the_activation_buffer_stands_for_the_peak_of_blocks_that_are_not_empty() -> None:
    partition = Partition(diamond(memory=3, activation_buffer=5), [0, 0, 0, 2])
    assert partition.peaks.tolist() == [5, 0, 5]
    assert partition.costs.overflow.tolist() == [2.5, 0, 1.5]


def test_the_order_decides_the_peak() -> None:
    """Two chains a→b, c→d with large inner tensors: one after the other needs less than side by side."""
    graph = ComputationGraph.from_edges([(0, 1), (2, 3)], [0] * 4, [10, 1, 10, 1])
    instance = Instance(graph, Platform(1, bandwidth=1, memory=0))
    assert Partition(instance, [0] * 4, [0, 1, 2, 3]).peaks.tolist() == [11]
    assert Partition(instance, [0] * 4, [0, 2, 1, 3]).peaks.tolist() == [21]


def test_more_blocks_than_nodes_leaves_blocks_empty() -> None:
    graph = ComputationGraph.from_edges([], [2.0])
    partition = Partition(Instance(graph, Platform(5, bandwidth=1)), [3])
    assert partition.block_costs.tolist() == [0, 0, 0, 2, 0]
    assert (partition.throughput, partition.latency) == (0.5, 10)


@pytest.mark.parametrize(
    ("block", "order", "message"),
    [
        ([0, 1, 0, 0], None, r"Edge 1 -> 3 \(b -> d\) points backwards, from block 1 to block 0"),
        ([0, 0, 0, 3], None, r"Node 3 \(d\) is in block 3; blocks run from 0 to 2"),
        ([0, 0, -1, 0], None, r"Node 2 \(c\) is in block -1"),
        ([0, 0, 0], None, "3 blocks for 4 nodes"),
        ([[0, 0], [0, 0]], None, "give one per node"),
        ([0, 0.5, 1, 1], None, "whole numbers"),
        ([0, math.nan, 1, 1], None, "whole numbers"),
        ([0, 0, 0, 0], [0, 1, 2, 2], "not a permutation"),
        ([0, 0, 0, 0], [0, 1, 2], "not a permutation"),
        ([0, 0, 0, 0], [0, 1, 3, 2], "Edge 2 -> 3 points backwards in the order"),
    ],
)
def test_an_infeasible_partition_is_refused(block: list[float], order: list[int] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Partition(diamond(), block, order)


def test_partitions_cannot_be_changed() -> None:
    """Costs are computed once, so the blocks must stay; the caller's own list is copied."""
    mine = np.array([0, 0, 0, 0])
    partition = Partition(diamond(), mine)
    mine[:] = 2
    assert partition.block.tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        partition.block[0] = 1


def test_costs_cannot_be_changed_by_their_readers() -> None:
    """Scaled in place for a picture they would be the costs of the next reader; nor after pickling."""
    graph = ComputationGraph.from_edges([(0, 1)], [1.0, 2.0], [1.0, 1.0], [1.0, 1.0])
    partition = Partition(Instance(graph, Platform(2, 1.0, 1.0)), [0, 1])
    for known in (partition, pickle.loads(pickle.dumps(partition))):
        for name in ("block_costs", "peaks", "param_bytes", "state_bytes", "excess"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(known, name)[0] = 0.0
        for part in known.costs:
            with pytest.raises(ValueError, match="read-only"):
                part /= 2


@pytest.mark.parametrize(("graph", "platform"), [("bert-base", Platform(2, 1.0)), ({}, 2)])
def test_an_instance_is_made_of_a_graph_and_a_platform(graph: object, platform: object) -> None:
    with pytest.raises(InputError, match="made of a ComputationGraph and a Platform, not of"):
        Instance(graph, platform)  # type: ignore[arg-type]
