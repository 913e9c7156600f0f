"""Graphs from networkx and from pandas: what is not understood is refused in one line that says what is known."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from instances import ComputationGraph, InputError


def digraph(**node: Any) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_node("a", **({"work": 1.0, "output_bytes": 8.0} | node))
    graph.add_node("b", work=2.0)
    graph.add_edge("a", "b")
    return graph


def half_weighted() -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph([("a", "b")])
    graph.nodes["a"]["work"] = 2.0
    return graph


def with_edge(**data: Any) -> nx.DiGraph[str]:
    graph = digraph()
    graph.edges["a", "b"].update(data)
    return graph


NODES = pd.DataFrame({"name": ["a", "b", "c"], "work": [1, 2, 3], "output_bytes": [4.0, 5.0, 0.0]})
EDGES = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            digraph(weight=3),
            r"Node 'a': There is no node attribute 'weight'; there are work, output_bytes, param_",
        ),
        (digraph(wrok=3), r"did you mean work\? There are work, output_bytes, param_bytes, state_bytes, name"),
        (with_edge(weight=3), r"Edge 'a' -> 'b': There is no edge attribute 'weight'; there are output, bytes"),
        (with_edge(bytes=3), r"has 3 bytes, but the output that it reads has 8.0; set output_bytes of node 'a'"),
        (with_edge(output=1), r"reads output 1 of node 0"),
        (digraph(work=float("nan")), r"Node 0 \(a\): work is nan; it must be a finite number"),
        (digraph(work=None), r"Node 'a': work is None; give a number, 0 if there is none"),
        (digraph(work="long"), r"work holds something that is not a number"),
        (nx.DiGraph([("a", "b")]), r"Node 'a' has no attribute 'work'"),
        (half_weighted(), r"Node 'b' has no attribute 'work', its time; set it, 0.0 if it takes none"),
        (nx.Graph([("a", "b")]), r"has no direction"),
        (nx.DiGraph(), r"no node"),
        ([(0, 1)], r"A networkx.DiGraph is needed here, no list"),
    ],
)
def test_a_networkx_graph_that_is_not_understood_is_refused(graph: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ComputationGraph.from_networkx(graph)


def test_networkx_keeps_name_unit_and_a_node_without_work() -> None:
    graph = ComputationGraph.from_edges([(0, 1, 1)], [1, 0], [[3, 4], 0], name="two", time_unit="ms")
    back = ComputationGraph.from_networkx(graph.to_networkx())
    assert (back.name, back.time_unit, back.content_hash) == ("two", "ms", graph.content_hash)
    assert ComputationGraph.from_networkx(graph.to_networkx(), name="other").name == "other"


def test_frames_make_the_graph_of_the_edge_list() -> None:
    """By the column of names, or by the index."""
    plain = ComputationGraph.from_edges([(0, 1), (1, 2)], [1, 2, 3], [4, 5, 0], names=("a", "b", "c"))
    for nodes in (NODES, NODES.set_index("name")):
        graph = ComputationGraph.from_frames(nodes, EDGES, name="chain")
        assert (graph.content_hash, graph.names, graph.name) == (plain.content_hash, plain.names, "chain")
    numbered = NODES.drop(columns="name")
    edges = pd.DataFrame({"source": [0, 1], "target": [1.0, 2.0]})  # a column that had gaps once
    assert ComputationGraph.from_frames(numbered, edges).content_hash == plain.content_hash


def test_frames_may_hold_several_outputs_and_no_edge() -> None:
    nodes = pd.DataFrame({"work": [1, 2], "output_bytes": [[3, 4], 0]})
    edges = pd.DataFrame({"source": [0], "target": [1], "output": [1]})
    graph = ComputationGraph.from_frames(nodes, edges)
    assert graph.to_networkx().edges[0, 1, 0] == {"output": 1, "bytes": 4.0}
    alone = ComputationGraph.from_frames(pd.DataFrame({"work": [1.0]}), pd.DataFrame(columns=["source", "target"]))
    assert (alone.n, alone.m) == (1, 0)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (NODES.rename(columns={"work": "Work"}), EDGES, r"The nodes: There is no column 'Work'; did you mean work\?"),
        (NODES.drop(columns="work"), EDGES, r"The nodes have no column 'work'"),
        (NODES, EDGES.rename(columns={"source": "from"}), r"The edges: There is no column 'from'; there are source"),
        (NODES, EDGES.drop(columns="target"), r"The edges have no column 'target'"),
        (NODES.assign(work=[1, np.nan, 3]), EDGES, r"Node 'b': work is missing"),
        (NODES.assign(work=[1, "2 ms", 3]), EDGES, r"Node 'b': work is '2 ms'; give a number"),
        (NODES.assign(work=[1, np.inf, 3]), EDGES, r"Node 1 \(b\): work is inf"),
        (NODES.assign(work=[1, -1, 3]), EDGES, r"Node 1 \(b\): work is -1"),
        (NODES.assign(output_bytes=[1, [2, "x"], 3]), EDGES, r"Node 'b': output_bytes is 'x'"),
        (NODES.assign(param_bytes=[True, False, True]), EDGES, r"Node 'a': param_bytes is True"),
        (NODES.assign(name=["a", "b", "a"]), EDGES, r"Rows 0 and 2 of the nodes are both called 'a'"),
        (NODES.assign(name=["a", None, "c"]), EDGES, r"Row 1 of the nodes has no name"),
        (NODES.assign(name=["a", ["b"], "c"]), EDGES, r"Row 1 of the nodes is called \['b'\]"),
        (NODES, EDGES.assign(target=["b", "d"]), r"Row 1 of the edges: its target 'd' is no node"),
        (NODES, EDGES.assign(target=[1, 2]), r"its target 1 is no node; nodes are called by their str"),
        (NODES, EDGES.assign(source=["a", np.nan]), r"Row 1 of the edges has no source"),
        (NODES, EDGES.assign(output=["x", 0]), r"Row 0 of the edges: output is 'x'"),
        (NODES, EDGES.assign(target=["b", "a"]), r"cycle"),
        (NODES.iloc[:0], EDGES.iloc[:0], r"no node"),
        (NODES, [("a", "b")], r"The edges are a list; give a pandas frame with source, target, output"),
        (pd.concat([NODES, NODES["work"]], axis=1), EDGES, r"two columns 'work'"),
    ],
)
def test_frames_that_are_not_understood_are_refused(nodes: Any, edges: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        ComputationGraph.from_frames(nodes, edges)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["Int64", "Float64", "string[python]"])
def test_frames_may_have_nullable_types(kind: str) -> None:
    """The missing value of pandas is told as any other."""

    def build(nodes: pd.DataFrame) -> ComputationGraph:
        return ComputationGraph.from_frames(nodes, EDGES)

    if kind.startswith("string"):
        assert build(NODES.astype({"name": kind})).n == 3
    else:
        assert build(NODES.astype({"work": kind})).work.tolist() == [1, 2, 3]
        with pytest.raises(InputError, match="Node 'b': work is missing"):
            build(NODES.assign(work=pd.array([1, None, 3], dtype=kind)))
