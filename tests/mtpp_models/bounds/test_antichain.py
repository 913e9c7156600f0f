"""The width of a graph, against the longest antichain that networkx lists."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from strategies import graphs

from instances import ComputationGraph, Instance, Platform
from mtpp_models.bounds.ideals.ideals import count_ideals
from mtpp_models.bounds.ideals.lattice import antichain


@given(graphs())
def test_it_is_the_longest_antichain(graph: ComputationGraph) -> None:
    longest = max(len(nodes) for nodes in nx.antichains(nx.DiGraph(graph.to_networkx())))
    assert antichain(graph) == longest


@given(graphs())
def test_so_many_nodes_make_two_to_their_number_of_ideals(graph: ComputationGraph) -> None:
    assert count_ideals(Instance(graph, Platform(1, 1.0)), 2 ** antichain(graph) - 1) is None


def test_of_large_graphs_one_depth_counts() -> None:
    fan = [(0, v) for v in range(1, 500)]
    graph = ComputationGraph.from_edges(fan, work=[1] * 500, output_bytes=[1] * 500)
    assert antichain(graph) == 499
