"""Kahn's algorithm with node priorities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs, partitions

from heuristics import kahn, slice_order
from instances import ComputationGraph, InputError, Partition


def slow_kahn(graph: ComputationGraph, priority: list[float]) -> list[int]:
    """At each step look through all ready nodes."""
    before = {v: {int(u) for u, w in graph.edges if w == v} for v in range(graph.n)}
    order: list[int] = []
    while len(order) < graph.n:
        ready = [v for v in range(graph.n) if v not in order and before[v] <= set(order)]
        order.append(min(ready, key=lambda v: (-priority[v], v)))
    return order


@given(st.data())
def test_kahn_takes_the_ready_node_of_highest_priority(data: st.DataObject) -> None:
    graph = data.draw(graphs(max_nodes=9))
    priority = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=graph.n, max_size=graph.n))
    assert kahn(graph, priority).tolist() == slow_kahn(graph, priority)


@given(partitions())
def test_theorem_3_4_priorities_from_a_partition_lose_nothing(partition: Partition) -> None:
    """The order of priorities -block lists the blocks one after the other, so its best slicing is no worse."""
    instance = partition.instance
    order = kahn(instance.graph, -partition.block.astype(float))
    again = Partition(instance, partition.block, order)
    assert slice_order(instance, order).bottleneck <= again.bottleneck * (1 + 1e-12)


@pytest.mark.parametrize("priority", [[1.0], [0.0, np.nan, 1.0], [[0.0, 1.0, 2.0]]])
def test_kahn_refuses_priorities_that_do_not_fit(priority: list[float]) -> None:
    graph = ComputationGraph.from_edges([(0, 1)], work=[1, 1, 1])
    with pytest.raises(InputError, match="one finite priority for each of the 3 nodes"):
        kahn(graph, priority)
