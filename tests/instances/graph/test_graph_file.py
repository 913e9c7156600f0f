"""Graph and partition files: exact round trips, and a clear line for everything that cannot be read."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from profile_files import assert_refused, write
from strategies import graphs, partitions

from instances import (
    ComputationGraph,
    InputError,
    Instance,
    Partition,
    Platform,
    SharedParameter,
    read_graph,
    read_partition,
    save_graph,
    save_partition,
)
from instances.graph.graph import graph_document
from instances.graph.memory import summarise
from instances.graph.views import merge_graph
from instances.partitioning.partition import crossings, stages
from instances.records import written

# A file that is written anew in each example may stay in the folder of the test.
anew = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@anew
@given(graph=graphs())
def test_graphs_survive_a_round_trip_bit_by_bit(graph: ComputationGraph, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    save_graph(graph, path)
    again = read_graph(path)
    assert again.content_hash == graph.content_hash
    assert again.parameters == graph.parameters
    save_graph(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


@anew
@given(partition=partitions())
def test_partitions_survive_a_round_trip(partition: Partition, tmp_path: Path) -> None:
    path = tmp_path / "partition.json"
    save_partition(partition, path)
    again = read_partition(path, partition.instance)
    assert again.block.tolist() == partition.block.tolist()
    assert again.order.tolist() == partition.order.tolist()
    assert again.bottleneck == partition.bottleneck


def sample() -> ComputationGraph:
    return ComputationGraph.from_edges(
        [(0, 1, 1), (0, 2, 0), (1, 2)],
        [0.1, 1 / 3, 1e-300],
        [[1e17, 5], 2.5, []],
        [0, 7, 0],
        names=("größe", "b", "b"),
        parameters=(SharedParameter("table", 0.3, (0, 2)),),
        time_unit="ms",
        name="sample",
        source="by hand",
        attributes={"batch": 8, "note": ["x", None, True]},
    )


def test_names_units_and_attributes_survive(tmp_path: Path) -> None:
    save_graph(sample(), tmp_path / "g.json")
    again = read_graph(tmp_path / "g.json")
    for field in ("names", "parameters", "time_unit", "name", "source", "attributes"):
        assert getattr(again, field) == getattr(sample(), field)


def test_states_are_written_where_there_are_any_and_count_in_the_hash(tmp_path: Path) -> None:
    """A graph without any has the file and the hash that it had before there were states."""
    without = ComputationGraph.from_edges([(0, 1)], [1, 2], [8, 0], [4, 0])
    assert without.content_hash == "5ab8d1ca313461ff7d325af51c6ed9ddec727115977d000b1db3deaeaa33db4c"
    assert not any("state_bytes" in node for node in graph_document(without)["nodes"])
    graph = replace(without, state_bytes=np.array([0, 5]))
    assert graph.content_hash != without.content_hash
    assert [node.get("state_bytes") for node in graph_document(graph)["nodes"]] == [None, 5.0]
    save_graph(graph, tmp_path / "graph.json")
    read = read_graph(tmp_path / "graph.json")
    assert (read.content_hash, read.state_bytes.tolist()) == (graph.content_hash, [0, 5])
    assert ComputationGraph.from_networkx(graph.to_networkx()).content_hash == graph.content_hash
    assert summarise(graph).state_bytes == 5
    assert merge_graph(graph, np.zeros(2, dtype=np.int64))[0].state_bytes.tolist() == [5]


@pytest.mark.parametrize("states", [[1], [1, -1], [1, float("nan")], [1, 2, 3]])
def test_a_state_is_a_size_for_each_node(states: list[float]) -> None:
    with pytest.raises(InputError, match="state"):
        ComputationGraph.from_edges([(0, 1)], [1, 2], state_bytes=states)


def test_the_partition_file_says_what_it_answers(tmp_path: Path) -> None:
    graph = sample()
    partition = Partition(Instance(graph, Platform(3, math.inf)), [0, 1, 1])
    save_partition(partition, tmp_path / "p.json")
    document = json.loads((tmp_path / "p.json").read_text())
    assert document["question_hash"] == partition.instance.question_hash
    assert document["answer"] == {
        "block": [0, 1, 1],
        "order": [0, 1, 2],
        "stages": [["größe"], ["b", "b"], []],
        "costs": [*map(written, stages(partition))],
        "crossing": [*map(written, crossings(partition))],
    }
    assert (document["cost"], document["bounds"]) == (1 / 3 + 1e-300, [])


def graph_file(**changes: Any) -> dict[str, Any]:
    nodes = [{"name": "a", "work": 1, "param_bytes": 0, "output_bytes": 4}, {"work": 2.5}]
    return {"format": "mtpp-graph/1", "nodes": nodes, "edges": [[0, 1]], **changes}


def test_only_format_nodes_work_and_edges_are_required(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(json.dumps(graph_file(edges=[[0, 1], [0, 1, 0]])), encoding="utf-8-sig")
    graph = read_graph(path)
    assert (graph.n, graph.m, graph.names, graph.time_unit) == (2, 1, ("a", "1"), "s")
    assert graph.tensors.bytes.tolist() == [4, 0]


def node(**changes: Any) -> dict[str, Any]:
    return graph_file(nodes=[{"work": 1}, {"work": 1, **changes}])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            node(wrok=1),
            ", nodes[1]: unknown field 'wrok'; did you mean work? Known fields are work, name, ",
        ),
        (
            graph_file(edge=[]),
            ": unknown field 'edge'; did you mean edges? Known fields are format,",
        ),
        (graph_file(format="mtpp-graph/2"), ", format: this is 'mtpp-graph/2'; expected 'mtpp-graph/1'."),
        (graph_file(format=1), ", format: expected a string, found 1."),
        ({"nodes": [], "edges": []}, ": missing field 'format'; expected 'mtpp-graph/1'."),
        ({"format": "mtpp-graph/1", "nodes": []}, ": missing field 'edges'."),
        (graph_file(nodes=[{"name": "a"}]), ", nodes[0]: missing field 'work'."),
        (graph_file(nodes=[]), ", nodes: the graph has no node; give at least one."),
        (graph_file(nodes={}), ", nodes: expected a list […], found {}."),
        (graph_file(nodes=[3]), ", nodes[0]: expected an object {…}, found 3."),
        ([1, 2], ": expected an object {…}, found [1, 2]."),
        (node(work="1"), ', nodes[1].work: expected a number, found "1".'),
        (node(work=True), ", nodes[1].work: expected a number, found true."),
        (node(work=None), ", nodes[1].work: expected a number, found null."),
        (node(work=-1), ": Node 1 (1): work is -1.0"),
        (node(work=10**400), ", nodes[1].work: the number is too large"),
        (node(output_bytes=[1, "2"]), ', nodes[1].output_bytes[1]: expected a number, found "2".'),
        (node(output_bytes=None), ", nodes[1].output_bytes: expected a number, found null."),
        (node(name=5), ", nodes[1].name: expected a string, found 5."),
        (graph_file(edges=[[0, 1], [0]]), ", edges[1]: an edge has 2 or 3 numbers"),
        (graph_file(edges=[[0, 1, 0, 0]]), ", edges[0]: an edge has 2 or 3 numbers"),
        (graph_file(edges=[[0, 1.5]]), ", edges[0][1]: expected a whole number, found 1.5."),
        (graph_file(edges=[["a", 1]]), ', edges[0][0]: expected a whole number, found "a".'),
        (graph_file(edges=[[0, True]]), ", edges[0][1]: expected a whole number, found true."),
        (graph_file(edges=[[0, 10**30]]), ", edges[0][1]: the whole number is too large."),
        (graph_file(edges=[[0, 2]]), ": Edge 0 -> 2: node 2 does not exist"),
        (graph_file(edges=[[0, 1, 3]]), ": Edge 0 -> 1 reads output 3 of node 0"),
        (graph_file(edges=[[0, 0]]), ": Edge 0 -> 0 (a) is a self-loop"),
        (graph_file(edges=[[0, 1], [1, 0]]), ": The edges contain a cycle: 0 (a) -> 1 (1) -> 0 (a)"),
        (graph_file(parameters=[{"name": "p", "bytes": 1}]), ", parameters[0]: missing field 'users'."),
        (graph_file(parameters=[{"name": "p", "bytes": 1, "users": [5]}]), ": Parameter p: user 5 does not exist"),
        (graph_file(attributes=[]), ", attributes: expected an object {…}, found []."),
        (graph_file(time_unit=None), ", time_unit: expected a string, found null."),
    ],
)
def test_a_bad_graph_file_is_refused_by_place(document: Any, message: str, tmp_path: Path) -> None:
    assert_refused(read_graph, write(tmp_path / "graph.json", document), message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b'{"format": "mtpp-graph/1", "nodes": [', "not valid JSON at line 1, column 38"),
        (b"\xff\xfe\x00", "byte 0 is not UTF-8"),
        (b'{"format": "mtpp-graph/1", "nodes": [{"work": NaN}], "edges": []}', "NaN is not a JSON number"),
        (b'{"format": "mtpp-graph/1", "nodes": [{"work": -Infinity}], "edges": []}', "-Infinity is not a JSON number"),
        (b'{"format": "mtpp-graph/1", "nodes": [{"work": 1e999}], "edges": []}', "nodes[0].work: the number is too"),
        (b'{"format": "mtpp-graph/1", "nodes": [{"work": 1, "work": 2}], "edges": []}', "field 'work' is given twice"),
        (b"[" * 100_000, "cannot be read as JSON"),
    ],
)
def test_a_file_that_is_not_json_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_graph(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_graph(tmp_path / "nothing.json")
    with pytest.raises(InputError, match="this is a folder"):
        read_graph(tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        save_graph(sample(), tmp_path / "nowhere" / "g.json")
    with pytest.raises(InputError, match="cannot be written"):
        save_graph(sample(), tmp_path)


@pytest.mark.parametrize("value", [math.nan, {1, 2}, "\ud800"])
def test_a_failed_write_leaves_the_earlier_file(value: object, tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    save_graph(sample(), path)
    before = path.read_bytes()
    bad = ComputationGraph.from_edges([], [1], attributes={"x": value})
    with pytest.raises(InputError, match="cannot be written as JSON"):
        save_graph(bad, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def pair(work: float = 1) -> Instance:
    graph = ComputationGraph.from_edges([(0, 1)], [work, 1], [1, 0], names=("a", "b"), name="pair")
    return Instance(graph, Platform(2, 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": [1, 0]}, ": Edge 0 -> 1 (a -> b) points backwards, from block 1 to block 0."),
        ({"block": [0, 2]}, ": Node 1 (b) is in block 2; blocks run from 0 to 1."),
        ({"block": [0]}, ": The partition has 1 blocks for 2 nodes; give one per node."),
        ({"block": [0, 0.5]}, ", answer.block[1]: expected a whole number, found 0.5."),
        ({"block": [0, 10**30]}, ", answer.block[1]: the whole number is too large."),
        ({"block": None}, ", answer.block: expected a list […], found null."),
        ({"order": [1, 0]}, ": Edge 0 -> 1 points backwards in the order."),
        (
            {"blocks": []},
            ", answer: unknown field 'blocks'; did you mean block? Known fields are block,",
        ),
        ({"stages": ["a"]}, ', answer.stages[0]: expected a list […], found "a".'),
        ({"costs": [{"stage": 0}]}, ", answer.costs[0]: missing field 'first'."),
        ({"crossing": [{"node": 0, "by": 1}]}, ", answer.crossing[0]: missing field 'producer'."),
    ],
)
def test_a_bad_partition_file_is_refused_by_place(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    save_partition(Partition(pair(), [0, 1]), path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"answer": document["answer"] | changes}))
    assert_refused(lambda path: read_partition(path, pair()), path, message)


def test_a_partition_of_another_graph_is_refused(tmp_path: Path) -> None:
    save_partition(Partition(pair(), [0, 1]), tmp_path / "p.json")
    with pytest.raises(InputError, match="made for another graph"):
        read_partition(tmp_path / "p.json", pair(work=2))
    with pytest.raises(InputError, match="the partition has k = 2, but k = 1 was asked for"):
        read_partition(tmp_path / "p.json", pair().with_k(1))
    save_graph(pair().graph, tmp_path / "g.json")
    with pytest.raises(InputError, match=r"format: this is 'mtpp-graph/1'; expected 'mtpp-answer/1'\."):
        read_partition(tmp_path / "g.json", pair())


def test_a_partition_needs_only_k_and_blocks_and_is_priced_anew(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"graph": "pair", "k": 2, "block": [0, 1]}')
    assert read_partition(path, pair()).bottleneck == 2
