"""Reading TensorFlow's cost graphs as protobuf text."""

from __future__ import annotations

from pathlib import Path

import pytest
from profile_files import assert_edit_refused, edits, write

from instances import InputError
from instances.readers.costgraph import read_costgraph, recognises_costgraph

GRAPH = """\
# two outputs, of which one is read twice
node { name: "_SOURCE" }
node {
  name: "split" id: 1 device: "/cpu:0"
  output_info { size: 70 alias_input_port: -1 dtype: DT_FLOAT shape { dim { size: 5 } dim { size: 14 } } }
  output_info { size: 30 }
  control_input: 0
  compute_cost: 58
}
node {
  name: 'left'
  id: 7
  input_info { preceding_node: 1 }
  input_info { preceding_node: 1, preceding_port: 1 }
  output_info < size: 5 >
  compute_cost: 47;
}
node: {
  id: 3
  input_info { preceding_node: 1 preceding_port: 1 }
  input_info { preceding_node: 7 }
  control_input: [0, 7]
}
"""


def test_costs_are_microseconds_and_control_inputs_carry_no_bytes(tmp_path: Path) -> None:
    graph = read_costgraph(write(tmp_path / "net.pbtxt", GRAPH))
    assert (graph.name, graph.time_unit, graph.names) == ("net", "s", ("_SOURCE", "split", "left", "3"))
    assert graph.work.tolist() == [0, 58 * 1e-6, 47 * 1e-6, 0]
    assert graph.tensors.producer.tolist() == [0, 1, 1, 2, 2]
    assert graph.tensors.bytes.tolist() == [0, 70, 30, 5, 0]
    edges = list(zip(graph.edge_tensor.tolist(), graph.edges[:, 1].tolist(), strict=True))
    assert edges == [(0, 1), (0, 3), (1, 2), (2, 2), (2, 3), (3, 3), (4, 3)]


def test_the_numbers_of_the_file_are_kept_when_asked(tmp_path: Path) -> None:
    graph = read_costgraph(write(tmp_path / "net.pbtxt", GRAPH), communication="cost")
    assert (graph.time_unit, graph.work.tolist()) == ("us", [0, 58, 47, 0])


def test_the_published_example_loads(data: Path) -> None:
    graph = read_costgraph(data / "regal" / "example_graph.pbtxt", communication="cost")
    assert graph.names == ("_SOURCE", "node_0", "node_1", "node_2", "node_3")
    assert graph.work.tolist() == [0, 0, 58, 47, 58]
    assert graph.tensors.bytes.tolist() == [0, 70, 52, 55]
    assert graph.edges.tolist() == [[0, 1], [0, 2], [0, 3], [0, 4], [2, 4]]


@edits(
    ("id: 7", "id: 1", ", line 10: id 1 is taken by another node"),
    ("id: 7", "id: 0.5", ", line 12: id is '0.5'; it must be a whole number."),
    ("id: 7", "id: 123456789012345678901", ", line 12: id is '123456789012345678901'"),
    ("compute_cost: 47", "compute_costs: 47", ", line 16: unknown field 'compute_costs'; known fields are "),
    ("compute_cost: 47", "compute_cost: -47", ", line 16: compute_cost is '-47'"),
    ("compute_cost: 47", "compute_cost: nan", ", line 16: compute_cost is 'nan'"),
    ("size: 30", "size: -1", ", line 6: size is '-1'; it must be a finite number, 0 or more."),
    ("size: 30", "size: }", ", line 6: field 'size' has no value."),
    ("input_info { preceding_node: 7 }", "input_info { preceding_node: 8 }", ", line 18: there is no node 8."),
    ("control_input: [0, 7]", "control_input: [0, 9]", ", line 18: there is no node 9."),
    ("control_input: [0, 7]", "control_input: [0, 7", ", line 23: field 'control_input' has a list without an end"),
    ("input_info { preceding_node: 7", "node { id: 7", ", line 21: unknown field 'node'; known fields are"),
    ("preceding_node: 1 preceding_port: 1", "preceding_node: 1 preceding_port: 2", ", line 18: input 2 of node 1"),
    ("preceding_node: 1, preceding_port: 1", "preceding_node: 7", ": Edge 2 -> 2 (left) is a self-loop"),
    ("  output_info < size: 5 >\n", "", ", line 17: input 0 of node 7, which has 0 outputs"),
    ('name: "_SOURCE" }', 'name: "_SOURCE }', ", line 2: cannot be read from '\"_SOURCE }' on."),
    ("node { name", "{ name", ", line 2: '{' without a field name before it."),
    ('device: "/cpu:0"', 'device: "/cpu:0" }', ", line 5: unknown field 'output_info'"),
    ("control_input: 0", "input_info { preceding_node: 7 }", ": The edges contain a cycle: 1 (split) -> 2 (left)"),
    ("# two outputs", "}", ", line 1: '}' closes nothing; remove it."),
)
def test_a_bad_file_is_refused_by_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert_edit_refused(read_costgraph, tmp_path / "net.pbtxt", GRAPH, old, new, message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("# nothing\n", "the file is empty"),
        ("node {\n  id: 1\n", "the file ends inside a node; it may be cut short"),
        ("node {\n  shape {", "line 2: unknown field 'shape'"),
        ("node { output_info { shape {" + "dim {" * 50_000, "the file ends inside a node"),
        ("node { name", "field 'name' has no value; the file may be cut short"),
        ("node { name: " + "x" * 2_000_000, "a line has more than 1048576 characters"),
    ],
)
def test_a_file_without_a_graph_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_costgraph(write(tmp_path / "net.pbtxt", text))


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.pbtxt").write_bytes(b"node {\n name: '\xff'\n}")
    with pytest.raises(InputError, match="this is not UTF-8"):
        read_costgraph(tmp_path / "net.pbtxt")
    with pytest.raises(InputError, match="there is no such file"):
        read_costgraph(tmp_path / "nothing")
    with pytest.raises(InputError, match="this is a folder"):
        read_costgraph(tmp_path)


def test_the_format_is_recognised_by_content() -> None:
    assert recognises_costgraph(GRAPH)
    assert recognises_costgraph("\n# a\n\n node: <")
    assert not recognises_costgraph('{"nodes": []}')
    assert not recognises_costgraph("nodes {")
