"""Reductions lose nothing, and answers come back to the original graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from brute_force import allowed_partitions, best_partition, optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances, partitions, questions

from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.architectures import ARCHITECTURES
from instances.partitioning.symmetry import contract, reduce_instance


def idle(instance: Instance, zeros: list[bool]) -> Instance:
    """The same instance where some nodes have no work, so that reductions apply."""
    work = np.where(zeros, 0.0, instance.graph.work)
    return replace(instance, graph=replace(instance.graph, work=work))


@settings(max_examples=150)
@given(st.data())
def test_reductions_keep_the_optimum(data: st.DataObject) -> None:
    instance = data.draw(instances(max_nodes=6, max_k=3))
    instance = idle(instance, data.draw(st.lists(st.booleans(), min_size=instance.graph.n, max_size=instance.graph.n)))
    reduction = reduce_instance(instance)
    best, reduced = best_partition(instance), best_partition(reduction.instance)
    scale = 1e-12 * float(instance.graph.work.sum() + instance.tensor_time.sum())
    assert reduced.bottleneck == pytest.approx(best.bottleneck, rel=1e-9, abs=scale)
    assert reduction.expand(reduced).bottleneck == pytest.approx(reduced.bottleneck, rel=1e-9, abs=scale)


@given(partitions(), st.data())
def test_a_restricted_partition_costs_no_more(partition: Partition, data: st.DataObject) -> None:
    n = partition.instance.graph.n
    instance = idle(partition.instance, data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    partition = Partition(instance, partition.block, partition.order)
    reduction = reduce_instance(instance)
    scale = 1e-12 * float(instance.graph.work.sum() + instance.tensor_time.sum())
    if reduction.instance is not instance:
        assert reduction.restrict(partition).bottleneck <= partition.bottleneck * (1 + 1e-9) + scale


def test_weights_as_nodes_are_merged_into_their_operators() -> None:
    """Without this, orders cut the parameters of BERT from their operators."""
    build = ARCHITECTURES["bert-base"].build
    plain, with_weights = (build(weights_as_nodes=flag) for flag in (False, True))
    sizes = [reduce_instance(Instance(graph, Platform(4, 25e9))).instance.graph.n for graph in (plain, with_weights)]
    assert with_weights.n > plain.n
    assert sizes[1] == sizes[0] < plain.n


def test_a_parameter_node_stays_where_its_bytes_would_overflow() -> None:
    """It holds 100 bytes and saves 1: alone in a block it fits, beside its reader it does not."""
    graph = ComputationGraph.from_edges([(0, 1)], [0, 5], [1, 0], [100, 100])
    tight = Instance(graph, Platform(2, 1.0, memory=100.0, activation_buffer=0.0))
    assert reduce_instance(tight).instance.graph.n == 2
    assert reduce_instance(tight.with_platform(Platform(2, 1.0))).instance.graph.n == 1


def test_nothing_is_merged_under_the_true_peak() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [0, 5], [1, 0])
    instance = Instance(graph, Platform(2, 1.0, memory=100.0))
    assert reduce_instance(instance).instance is instance


def test_merging_around_a_node_is_refused() -> None:
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (0, 2)], [1, 1, 1], [1, 1, 0])
    with pytest.raises(InputError, match="do not form a pipeline"):
        contract(Instance(graph, Platform(2, 1.0)), {0: 2})


def test_a_long_chain_without_work_becomes_one_node() -> None:
    """In one round, not in one for each node; the work in the middle takes what comes before and after it."""
    n = 30_000
    work = np.zeros(n)
    work[n // 3] = 1.0
    graph = ComputationGraph.from_edges(np.column_stack((np.arange(n - 1), np.arange(1, n))), work, np.ones(n))
    reduction = reduce_instance(Instance(graph, Platform(4, 1.0)))
    assert reduction.instance.graph.n == 1
    assert reduction.anchor.tolist() == [n // 3]


def test_parameters_that_overflow_are_tested_again_after_each_merge() -> None:
    """Each node alone saves as much as it holds; together the first two hold 4 and save 2."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [0, 0, 5], [2, 2, 0], [2, 2, 2])
    instance = Instance(graph, Platform(3, 1.0, memory=3.0, activation_buffer=0.0))
    assert reduce_instance(instance).instance.graph.n == 2


@settings(max_examples=200)
@given(questions(peaks=False))
def test_reductions_lose_nothing_under_constraints(instance: Instance) -> None:
    """With groups, windows, least numbers and hard memory, against every allowed assignment."""
    reduction = reduce_instance(instance)
    best = optimum(instance)
    assert optimum(reduction.instance) == pytest.approx(best, rel=1e-9)
    assert not (reduction.instance.constraints and reduction.instance.rules.has_groups)
    if best < float("inf"):
        found = min(allowed_partitions(reduction.instance), key=lambda partition: partition.bottleneck)
        assert reduction.expand(found).bottleneck == pytest.approx(best, rel=1e-9)


@settings(max_examples=100)
@given(questions())
def test_a_merged_node_needs_as_much_as_its_members(instance: Instance) -> None:
    """Whatever is merged, the most that a node of a block reads and writes at once is no more than its peak."""
    reduction = reduce_instance(instance)
    for partition in allowed_partitions(reduction.instance):
        expanded = reduction.expand(partition)
        if instance.needs_peaks:
            for b in range(instance.k):
                need = max((reduction.instance.needs[v] for v in np.flatnonzero(partition.block == b)), default=0.0)
                assert need == max((instance.needs[v] for v in np.flatnonzero(expanded.block == b)), default=0.0)
                assert need <= expanded.peaks[b] * (1 + 1e-9)
