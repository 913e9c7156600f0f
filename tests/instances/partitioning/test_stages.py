"""Stages and crossing tensors against their definitions, in plain loops."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from strategies import partitions

from instances import ComputationGraph, Instance, Partition, Platform
from instances.json_files import Value
from instances.partitioning.partition import crossings, stages
from instances.partitioning.stated import Crossing, StageReport
from instances.records import read, written


@given(partition=partitions())
def test_stages_are_the_blocks_that_hold_nodes(partition: Partition) -> None:
    block, order, found = partition.block.tolist(), partition.order.tolist(), stages(partition)
    assert [stage.stage for stage in found] == sorted(set(block))
    for stage in found:
        own = [partition.instance.graph.names[v] for v in order if block[v] == stage.stage]
        assert (stage.first, stage.last, stage.nodes) == (own[0], own[-1], len(own))
        terms = [getattr(partition.costs, name)[stage.stage] for name in partition.costs._fields]
        assert [stage.receive, stage.work, stage.overflow, stage.send] == terms
        assert stage.cost == partition.block_costs[stage.stage]
        assert stage.param_bytes == partition.param_bytes[stage.stage]
        assert stage.state_bytes == partition.state_bytes[stage.stage]
        assert stage.peak_bytes == partition.peaks[stage.stage]
        assert stage.share * partition.bottleneck == pytest.approx(stage.cost)
        assert 0 <= stage.share <= 1
    assert max(stage.share for stage in found) == 1


@given(partition=partitions())
def test_crossings_are_what_some_other_block_reads(partition: Partition) -> None:
    graph, block = partition.instance.graph, partition.block.tolist()
    expected = []
    for t, (u, size) in enumerate(zip(graph.tensors.producer.tolist(), graph.tensors.bytes.tolist(), strict=True)):
        readers = {
            block[v] for (a, v), e in zip(graph.edges.tolist(), graph.edge_tensor.tolist(), strict=True) if e == t
        }
        if readers - {block[u]}:
            earlier = [s for s in range(t) if graph.tensors.producer[s] == u]
            expected.append((graph.names[u], u, len(earlier), block[u], sorted(readers - {block[u]}), size))
    found = crossings(partition)
    assert [(t.producer, t.node, t.output, t.source, [*t.readers], t.bytes) for t in found] == expected
    assert all(t.time == t.bytes / partition.instance.platform.bandwidth for t in found)


@given(partition=partitions())
def test_costs_follow_from_crossings(partition: Partition) -> None:
    """What a stage sends and receives is the sum over the tensors that cross."""
    found = crossings(partition)
    for stage in stages(partition):
        assert stage.send == pytest.approx(sum(t.time for t in found if t.source == stage.stage))
        assert stage.receive == pytest.approx(sum(t.time for t in found if stage.stage in t.readers))


@given(partition=partitions())
def test_records_survive_a_file(partition: Partition) -> None:
    for record in stages(partition):
        assert read(Value(json.loads(json.dumps(written(record))), "f"), StageReport) == record
    for tensor in crossings(partition):
        assert read(Value(json.loads(json.dumps(written(tensor))), "f"), Crossing) == tensor


def test_an_empty_stage_is_no_record() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [1, 2], [8, 0], names=("a", "b"))
    partition = Partition(Instance(graph, Platform(4, 2.0)), [0, 3])
    assert [(stage.stage, stage.first, stage.cost) for stage in stages(partition)] == [(0, "a", 5.0), (3, "b", 6.0)]
    assert [(t.source, t.readers, t.time) for t in crossings(partition)] == [(0, (3,), 4.0)]
