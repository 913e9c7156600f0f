"""Groups of operators: what they keep, how many there are, and that no cycle comes from merging."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs

from instances import ComputationGraph, InputError
from instances.graph.views import node_layers
from instances.placement.networks import PLACEMENT_NETWORKS, group_nodes, placement_network


@settings(max_examples=60)
@given(graphs(max_nodes=12), st.integers(1, 8))
def test_groups_keep_work_and_parameters(graph: ComputationGraph, groups: int) -> None:
    """Nothing gets lost; each group hangs together; where nodes are left that could be merged, enough were."""
    grouping = group_nodes(graph, groups)
    smaller, group = grouping.graph, grouping.group
    assert smaller.work.tolist() == pytest.approx(np.bincount(group, graph.work, smaller.n).tolist())
    assert smaller.parameter_total == pytest.approx(graph.parameter_total)
    assert sorted(set(group.tolist())) == list(range(smaller.n))
    undirected = nx.Graph(graph.edges.tolist())
    undirected.add_nodes_from(range(graph.n))
    for g in range(smaller.n):
        assert nx.is_connected(undirected.subgraph(np.flatnonzero(group == g).tolist()))
    parts = nx.number_connected_components(undirected)
    assert smaller.n == min(graph.n, max(groups, parts))


@settings(max_examples=60)
@given(graphs(max_nodes=12), st.integers(1, 8))
def test_groups_are_joined_as_their_nodes_are(graph: ComputationGraph, groups: int) -> None:
    """The edges between groups are those between their nodes; ComputationGraph itself refuses cycles."""
    grouping = group_nodes(graph, groups)
    ends = grouping.group[graph.edges]
    expected = {(u, v) for u, v in ends.tolist() if u != v}
    assert {tuple(edge) for edge in grouping.graph.edges.tolist()} == expected


def test_a_small_graph_stays_as_it_is() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [1, 1])
    assert group_nodes(graph, 2).graph is graph


def test_co_location_stops_at_a_share_of_the_work() -> None:
    """A path of eight equal nodes becomes four pairs, not one group."""
    graph = ComputationGraph.from_edges([(v, v + 1) for v in range(7)], [1.0] * 8)
    assert group_nodes(graph, 4).graph.work.tolist() == [2.0] * 4


def test_small_nodes_join_the_neighbour_with_most_bytes() -> None:
    """Node 1 is small; it sends node 2 more than it reads from node 0."""
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2), (1, 3)], [5, 1, 5, 5], [1, 8, 0, 0])
    assert group_nodes(graph, 3).group.tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("name", list(PLACEMENT_NETWORKS))
def test_networks_are_grouped_evenly(name: str) -> None:
    """To 150 groups, none of which has much of the work unless it is a single operator."""
    graph = placement_network(name)
    smaller = group_nodes(graph).graph
    assert smaller.n == 150
    assert smaller.work.max() < max(0.03 * graph.work.sum(), 1.2 * graph.work.max())
    assert smaller.attributes["training"]


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(InputError, match="nmt-4-layers"):
        placement_network("nmt-5-layers")


def test_layers() -> None:
    """A gradient is as deep as what it is the gradient of; groups take the layer of their heaviest node."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 4)]
    graph = ComputationGraph.from_edges(edges, [1, 2, 3, 9, 8, 7], attributes={"training": True})
    assert node_layers(graph).tolist() == [0, 1, 2, 2, 1, 0]
    assert node_layers(ComputationGraph.from_edges(edges, [1] * 6)).tolist() == [0, 1, 2, 3, 4, 5]
    grouping = group_nodes(graph, 3)
    heaviest = [max(np.flatnonzero(grouping.group == g), key=lambda v: graph.work[v]) for g in range(3)]
    assert node_layers(grouping.graph).tolist() == node_layers(graph)[heaviest].tolist()


def test_lanes_go_with_the_heaviest_node() -> None:
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [1, 5, 9], [1, 1, 1], attributes={"lane": [7, 8, 9]})
    assert group_nodes(graph, 2).graph.attributes["lane"] == [8, 9]
    assert group_nodes(graph, 1).graph.attributes["lane"] == [9]
