"""Reading Graphviz files with weights."""

from __future__ import annotations

from pathlib import Path

import pytest
from profile_files import assert_edit_refused, edits, write

from instances import InputError
from instances.readers.dot import read_dot, recognises_dot

GRAPH = """\
// a comment
digraph "G" {
  rankdir=LR; node [shape=box, style="filled"]
# another one
  a [weight=3, label="b -> c;"];
  "b c" [Weight="2.5"]
  3;
  a -> "b c" -> 3 [weight=5]
  a -> 3 [weight=7]; /* and
  one more */
}
"""


def test_weights_are_seconds_and_bytes_and_one_by_default(tmp_path: Path) -> None:
    graph = read_dot(write(tmp_path / "net.dot", GRAPH))
    assert (graph.name, graph.time_unit, graph.names) == ("net", "s", ("a", "b c", "3"))
    assert graph.work.tolist() == [3, 2.5, 1]
    assert graph.tensors.bytes.tolist() == [5, 7, 5]
    assert graph.edges.tolist() == [[0, 1], [0, 2], [1, 2]]


def test_edges_of_one_weight_are_one_tensor(tmp_path: Path) -> None:
    graph = read_dot(write(tmp_path / "net.dot", "strict digraph {0;1;2;0->1;0->2;1->2[color=red]}"))
    assert graph.tensors.producer.tolist() == [0, 1]
    assert (graph.m, graph.tensors.bytes.tolist()) == (3, [1, 1])


@edits(
    ("digraph", "graph", ", line 2: the graph is undirected"),
    ("digraph", "network", ", line 2: expected 'digraph', found 'network'."),
    ('"G" {', '"G"', ", line 3: expected '{', found 'rankdir'."),
    ("3;\n", "3; a;\n", ", line 7: node 'a' is declared twice; keep one."),
    ("3;\n", "3abc;\n", ", line 7: cannot be read from '3abc;' on."),
    ("  a -> 3", "  a -> d", ", line 9: node 'd' is not declared; add a line 'd [weight=…];'."),
    ("  a -> 3", "  a -> a", ": Edge 0 -> 0 (a) is a self-loop"),
    ("  a -> 3", "  3 -> a", ": The edges contain a cycle"),
    ("  a -> 3", "  a -- 3", ", line 9: cannot be read from '-- 3 [weight=7]; /* and' on."),
    ("  a -> 3", "  a -> {3}", ", line 9: subgraphs are not read"),
    ("  a -> 3", "  subgraph s {", ", line 9: subgraphs are not read"),
    ("weight=7", "weight=-7", ", line 9: weight is '-7'; it must be a finite number, 0 or more."),
    ("weight=7", "weight=heavy", ", line 9: weight is 'heavy'"),
    ("weight=7", "weight=inf", ", line 9: weight is 'inf'"),
    ("weight=7", "weight=7, Weight=8", ", line 9: weight is given twice; keep one."),
    ("weight=7", "weight=7, weight=8", ", line 9: attribute 'weight' is given twice; keep one."),
    ("weight=7", "weight", ", line 9: expected '=', found ']'."),
    ("shape=box", "weight=2", ", line 3: default weights are not read"),
    ("*/\n}", "*/", ", line 11: expected a name, found the end of the file, which may be cut short."),
    ("*/\n}", "", ", line 9: cannot be read from '/* and' on."),
    ("*/\n}", "*/\n} }", ", line 11: expected the end of the file, found '}'."),
)
def test_a_bad_file_is_refused_by_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert_edit_refused(read_dot, tmp_path / "net.dot", GRAPH, old, new, message)


def test_a_graph_without_nodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="The graph has no node"):
        read_dot(write(tmp_path / "net.dot", "digraph {}"))


def test_the_format_is_recognised_by_content() -> None:
    assert recognises_dot(GRAPH)
    assert recognises_dot("strict digraph\n{")
    assert recognises_dot("graph g {")  # an undirected one is told so
    assert not recognises_dot("digraph")
    assert not recognises_dot('{"digraph": {}}')
