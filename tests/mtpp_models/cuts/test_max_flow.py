"""Flows against networkx: their value, the source side of the smallest cut, and flows that go on."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.graph.tensors import IntArray
from mtpp_models.cuts.max_flow import UNLIMITED, BoolArray, FlowNetwork, augment

CAPACITIES = st.sampled_from([0, 1, 2, 3, 7, 2**36, UNLIMITED])


@st.composite
def networks(draw: st.DrawFn) -> FlowNetwork:
    """Up to seven nodes, arcs there and back, some of them edges of a graph."""
    size = draw(st.integers(2, 7))
    pairs = [(u, v) for u in range(size) for v in range(u + 1, size)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True))
    edges = draw(st.integers(0, len(chosen)))
    tail, head = np.array(chosen, dtype=np.int64).reshape(-1, 2).T
    there, back = (np.array([draw(CAPACITIES) for _ in chosen], dtype=np.int64) for _ in range(2))
    drain = np.array([draw(CAPACITIES) for _ in range(size)], dtype=np.int64)
    return FlowNetwork.of(tail, head, there, back, edges, drain)


def pushed(
    network: FlowNetwork, residual: IntArray, drain: IntArray, sources: IntArray, around: BoolArray, limit: int
) -> tuple[int, BoolArray]:
    reached = np.zeros(len(drain), dtype=bool)
    return augment(network, residual, drain, sources, around[0], around[1], limit, reached), reached


def known_cut(network: FlowNetwork, sources: IntArray, around: BoolArray) -> tuple[int, BoolArray]:
    """Value and smallest source side of the minimum cut."""
    graph, size = nx.DiGraph(), len(network.drain)
    graph.add_nodes_from(["source", "sink"])
    for v in sources:
        graph.add_edge("source", int(v))  # no capacity: as much as one likes
    for v in range(size):
        graph.add_edge(v, "sink", capacity=int(network.drain[v]))
        for a in range(network.start[v], network.start[v + 1]):
            w = int(network.head[a])
            kept = (network.along[a] == 1 and around[0, w]) or (network.along[a] == 2 and around[1, w])
            graph.add_edge(v, w, **({} if kept else {"capacity": int(network.capacity[a])}))
    value, (inside, _) = nx.minimum_cut(graph, "source", "sink")
    flow = nx.algorithms.flow.preflow_push(graph, "source", "sink")
    open_arcs = nx.DiGraph([(u, v) for u, v, data in flow.edges(data=True) if data["capacity"] > data["flow"]])
    near = nx.descendants(open_arcs, "source") if "source" in open_arcs else inside
    return value, np.array([v in near for v in range(size)])


@settings(max_examples=500)
@given(networks(), st.data())
def test_flows_have_the_value_of_the_smallest_cut(network: FlowNetwork, data: st.DataObject) -> None:
    size = len(network.drain)
    sources = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, unique=True)))
    around = np.array(data.draw(st.lists(st.booleans(), min_size=2 * size, max_size=2 * size))).reshape(2, size)
    value, inside = known_cut(network, sources, around)
    residual, drain = network.capacity.copy(), network.drain.copy()
    total, reached = 0, np.zeros(size, dtype=bool)
    limits = [*data.draw(st.lists(st.sampled_from([0, 1, 5, 2**36]), max_size=3)), 2**63 - 1]
    for limit in limits:  # a flow that stopped goes on
        part, reached = pushed(network, residual, drain, sources, around, limit)
        assert 0 <= part <= limit
        total += part
        assert total <= value
    assert total == value
    assert reached.tolist() == inside.tolist()
    assert total == (network.drain - drain).sum()
    assert (drain >= 0).all()
