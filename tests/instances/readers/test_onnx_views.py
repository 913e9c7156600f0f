"""Folding views: a view put into a graph and folded again leaves no trace."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs

from instances import ComputationGraph
from instances.graph.views import fold_views


@st.composite
def viewed(draw: st.DrawFn) -> tuple[ComputationGraph, ComputationGraph, list[int]]:
    """A graph, the same with views between some tensors and some of their readers, and these views."""
    graph = draw(graphs())
    first = graph.output_start.tolist()
    outputs = [graph.tensors.bytes[first[v] : first[v + 1]].tolist() for v in range(graph.n)]
    work, edges, made = graph.work.tolist(), [], {}
    for (u, v), tensor in zip(graph.edges.tolist(), graph.edge_tensor.tolist(), strict=True):
        source = (u, tensor - first[u])
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            if source not in made or draw(st.booleans()):  # a new view, or one that others read, too
                made[source] = len(work)
                edges.append((source[0], len(work), source[1]))
                outputs.append([float(graph.tensors.bytes[tensor])])
                work.append(0.0)
            source = (made[source], 0)
        edges.append((source[0], v, source[1]))
    params, states = (
        [*column.tolist(), *[0.0] * (len(work) - graph.n)] for column in (graph.param_bytes, graph.state_bytes)
    )
    larger = ComputationGraph.from_edges(
        edges, work, outputs, params, parameters=graph.parameters, state_bytes=np.array(states)
    )
    return graph, larger, list(range(graph.n, larger.n))


@given(viewed())
def test_views_leave_no_trace(case: tuple[ComputationGraph, ComputationGraph, list[int]]) -> None:
    graph, larger, views = case
    folded = fold_views(larger, views)
    assert folded.content_hash == graph.content_hash
    assert folded.attributes.get("views_folded", 0) == len(views)


def test_what_does_more_than_view_stays() -> None:
    """Work, parameters, two inputs, two outputs, or another size."""
    edges = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5, 0), (4, 5, 1), (5, 6)]
    graph = ComputationGraph.from_edges(edges, [1, 1, 0, 0, 0, 0, 1], [8, 8, 8, 8, [8, 8], 4, 0], [0, 0, 5, 0, 0, 0, 0])
    assert fold_views(graph, [1, 2, 3, 4, 5]) is graph


def test_a_view_of_an_input_and_a_view_that_nobody_reads_vanish() -> None:
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [0, 3, 0], [8, 8, 8])
    folded = fold_views(graph, [0, 2])
    assert (folded.n, folded.m, folded.work.tolist()) == (1, 0, [3])


def test_a_graph_of_views_stays() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [0, 0], [8, 8])
    assert fold_views(graph, [0, 1]) is graph
