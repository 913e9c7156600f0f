"""Reading published profiles and looking graphs up by name, file and format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instances import ComputationGraph, InputError, Instance, Partition, Platform, load_graph, save_graph
from instances.architectures import ARCHITECTURES
from instances.readers import READERS


def msr_node(id_: Any, latency: Any = 2.0, **changes: Any) -> dict[str, Any]:
    return {"id": id_, "name": f"n{id_}", "fpgaLatency": latency, "cpuLatency": 9.0, "size": 5.0, **changes}


def msr_edge(source: int, target: int, size: Any = 100.0, cost: Any = 0.5) -> dict[str, Any]:
    return {"sourceId": source, "destId": target, "size": size, "cost": cost}


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


MSR = {
    "maxFPGAs": 2,
    "nodes": [msr_node(7), msr_node(3, 4.0), msr_node(40)],
    "edges": [msr_edge(7, 3), msr_edge(7, 40), msr_edge(7, 40, 30.0, 0.25), msr_edge(3, 40, 0.0, 0.0)],
}


def test_msr_sizes_are_bytes_and_work_is_seconds(tmp_path: Path) -> None:
    """Edges of node 7 with equal sizes are one tensor; another size is another tensor."""
    graph = load_graph(write(tmp_path / "net.json", MSR))
    assert (graph.name, graph.time_unit, graph.names) == ("net", "s", ("n7", "n3", "n40"))
    assert graph.work.tolist() == [0.002, 0.004, 0.002]
    assert graph.param_bytes.tolist() == [5, 5, 5]
    assert graph.tensors.producer.tolist() == [0, 0, 1]
    assert graph.tensors.bytes.tolist() == [100, 30, 0]
    assert list(zip(graph.edge_tensor.tolist(), graph.edges[:, 1].tolist(), strict=True)) == [
        (0, 1),
        (0, 2),
        (1, 2),
        (2, 2),
    ]


def test_msr_costs_stay_as_in_the_file(tmp_path: Path) -> None:
    graph = load_graph(write(tmp_path / "net.json", MSR), communication="cost")
    assert (graph.time_unit, graph.work.tolist()) == ("ms", [2, 4, 2])
    assert graph.tensors.bytes.tolist() == [0.5, 0.25, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": [msr_node(1), msr_node(1)]}, ", nodes[1]: id 1 is taken by nodes[0]."),
        ({"nodes": [msr_node("1")]}, ', nodes[0].id: expected a whole number, found "1".'),
        ({"nodes": [msr_node(1, "2")]}, ', nodes[0].fpgaLatency: expected a number, found "2".'),
        ({"nodes": [{"id": 1, "fpgaLatency": 1}]}, ", nodes[0]: missing field 'name'."),
        ({"nodes": [msr_node(1, isBackwardNode=1)]}, ", nodes[0]: this node is of the backward pass"),
        ({"edges": [msr_edge(7, 8)]}, ", edges[0].destId: no node has id 8."),
        ({"edges": [msr_edge(7, 3, None)]}, ", edges[0].size: expected a number, found null."),
        ({"edges": [{"sourceId": 7, "destId": 3, "cost": 1}]}, ", edges[0]: missing field 'size'."),
        ({"edges": [msr_edge(7, 3, -1.0)]}, ": Node 0 (n7): output_bytes is -1.0"),
        ({"edges": [msr_edge(7, 3), msr_edge(3, 7)]}, ": The edges contain a cycle: 0 (n7) -> 1 (n3)"),
        ({"edges": 5}, ", edges: expected a list […], found 5."),
    ],
)
def test_a_bad_msr_file_is_refused_by_place(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "net.json", MSR | changes)
    with pytest.raises(InputError) as caught:
        load_graph(path, reader="msr")
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_truncated_msr_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "net.json", json.dumps(MSR)[:150])
    with pytest.raises(InputError, match="not valid JSON at line 1"):
        load_graph(path)


PIPEDREAM = """\
node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, parameter_size=0.000
node2 -- LSTM(8, 4) -- forward_compute_time=3.5, backward_compute_time=5, activation_size=[60; 20; 10], parameter_size=9
node3 -- __getitem__(0) -- forward_compute_time=0, backward_compute_time=0, activation_size=60.0, parameter_size=0.0
node4 -- __getitem__(1) -- forward_compute_time=0, backward_compute_time=0, activation_size=20.0, parameter_size=0.0
node5 -- Add -- forward_compute_time=1, backward_compute_time=0, activation_size=7, parameter_size=0.0 -- stage_id=1
\tnode1 -- node2
\tnode2 -- node3
\tnode2 -- node4
\tnode2 -- node5
\tnode1 -- node4
"""


def test_pipedream_times_are_milliseconds_and_items_are_tensors(tmp_path: Path) -> None:
    """``__getitem__(i)`` reads output i of the list, everybody else reads all; one size is one tensor."""
    graph = load_graph(write(tmp_path / "net.graph.txt", PIPEDREAM))
    assert (graph.name, graph.time_unit, graph.n) == ("net", "s", 5)
    assert graph.names == ("node1 Input0", "node2 LSTM", "node3 __getitem__", "node4 __getitem__", "node5 Add")
    np.testing.assert_allclose(graph.work, [0, 0.0035, 0, 0, 0.001])
    assert graph.param_bytes.tolist() == [0, 9, 0, 0, 0]
    assert graph.tensors.bytes.tolist() == [0, 60, 20, 10, 60, 20, 7]
    edges = list(zip(graph.edge_tensor.tolist(), graph.edges[:, 1].tolist(), strict=True))
    assert edges == [(0, 1), (0, 3), (1, 2), (1, 4), (2, 3), (2, 4), (3, 4)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("node3 -- __", "node2 -- __", ", line 3: node 'node2' is given twice"),
        ("\tnode2 -- node3", "\tnode2 -- node9", ", line 7: there is no node 'node9'."),
        ("\tnode2 -- node3", "\tnode2 node3", ", line 7: expected 'id -- description"),
        ("\tnode2 -- node3", "node2 -- node3", ", line 7: expected 'id -- description"),
        ("forward_compute_time=3.5", "forward_compute_time=fast", ", line 2: forward_compute_time is 'fast'"),
        ("forward_compute_time=3.5", "forward_compute_time=nan", ", line 2: forward_compute_time is 'nan'"),
        ("forward_compute_time=3.5", "forward_compute_time=[1; 2]", ", line 2: forward_compute_time is a list"),
        ("forward_compute_time=3.5", "forward_compute_time=-3.5", ": Node 1 (node2 LSTM): work is -0.0035"),
        ("[60; 20; 10]", "[60; 20; ten]", ", line 2: activation_size is 'ten'"),
        ("[60; 20; 10]", "[60; 20", ", line 2: activation_size is '[60; 20'"),
        (", parameter_size=9", "", ", line 2: missing field 'parameter_size'."),
        ("parameter_size=9", "parametersize=9", ", line 2: field 'parametersize' is unknown; known fields are"),
        (
            "backward_compute_time=5",
            "forward_compute_time=5",
            ", line 2: field 'forward_compute_time' is given twice",
        ),
        ("\tnode1 -- node4", "\tnode3 -- node1", ": The edges contain a cycle: 0 (node1 Input0) -> 1 (node2 LSTM)"),
    ],
)
def test_a_bad_pipedream_file_is_refused_by_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in PIPEDREAM
    path = write(tmp_path / "net.graph.txt", PIPEDREAM.replace(old, new))
    with pytest.raises(InputError) as caught:
        load_graph(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


def test_all_published_pipedream_profiles_load(data: Path) -> None:
    sizes = {path.name.split(".")[0]: load_graph(path).n for path in (data / "pipedream").glob("*.graph.txt")}
    assert sizes == {"densenet121": 429, "gnmt": 48, "resnet50": 177, "squeezenet1_0": 68, "vgg16": 41}


def ideals(before: list[int]) -> set[int]:
    """All sets of nodes, as bits, that hold the nodes `before` each of their own."""
    found, todo = {0}, [0]
    while todo:
        ideal = todo.pop()
        for v, needed in enumerate(before):
            larger = ideal | 1 << v
            if larger not in found and needed & ~ideal == 0:
                found.add(larger)
                todo.append(larger)
    return found


def optimum_of_two_blocks(graph: ComputationGraph) -> float:
    """Try every first block. Nodes without work that have one neighbour, before or after, go where that one is."""
    neighbours: list[set[int]] = [set() for _ in range(graph.n)]
    before: list[set[int]] = [set() for _ in range(graph.n)]
    for u, v in graph.edges.tolist():
        neighbours[u].add(v)
        neighbours[v].add(u)
        before[v].add(u)
    host = {v: next(iter(near)) for v, near in enumerate(neighbours) if graph.work[v] == 0 and len(near) == 1}
    core = [v for v in range(graph.n) if v not in host]
    bit = {v: i for i, v in enumerate(core)}
    instance = Instance(graph, Platform(2, bandwidth=1))
    best = np.inf
    for ideal in ideals([sum(1 << bit[u] for u in before[v] if u in bit) for v in core]):
        block = np.zeros(graph.n, dtype=np.int64)
        block[core] = [1 - (ideal >> i & 1) for i in range(len(core))]
        for v, near in host.items():
            block[v] = block[near]
        best = min(best, Partition(instance, block).bottleneck)
    return best


@pytest.mark.parametrize(
    ("name", "optimum"),
    [("bert24_layer", 47.478953), ("gnmt_layer", 93.194348), ("bert_l-3_operator", 33.256680)],
)
def test_the_published_optimum_for_two_blocks_is_the_best(name: str, optimum: float, data: Path) -> None:
    """With the file's own costs and bandwidth 1, in milliseconds."""
    graph = load_graph(data / "msr" / f"{name}_inference.json", communication="cost")
    assert optimum_of_two_blocks(graph) == pytest.approx(optimum, abs=1e-6)


def test_size_and_cost_readings_of_a_published_file_agree(data: Path) -> None:
    """In operator files a cost is the size over 2**31 bytes/s, in ms; nothing but the unit differs."""
    path = data / "msr" / "bert_l-3_operator_inference.json"
    sizes, costs = load_graph(path), load_graph(path, communication="cost")
    assert (sizes.n, sizes.m) == (costs.n, costs.m) == (235, 250)
    np.testing.assert_allclose(sizes.work * 1000, costs.work)
    np.testing.assert_allclose(sizes.tensors.bytes / 2**31 * 1000, costs.tensors.bytes)


def test_architectures_are_found_by_name() -> None:
    graph = load_graph("bert-base", dims={"batch": 2, "sequence": 64})
    assert graph.content_hash == ARCHITECTURES["bert-base"].build(batch=2, sequence=64).content_hash


def test_the_format_is_recognised_by_content(tmp_path: Path) -> None:
    """Whatever the file is called."""
    own = tmp_path / "a.txt"
    graph = ComputationGraph.from_edges([(0, 1)], [1, 2], attributes={"note": '"fpgaLatency"'})
    save_graph(graph, own)
    assert load_graph(own).content_hash == load_graph(str(own), reader="json").content_hash == graph.content_hash
    assert load_graph(write(tmp_path / "b.bin", MSR)).n == 3
    assert load_graph(write(tmp_path / "c.json", PIPEDREAM)).n == 5


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("bert-bse", {}, "no file and no architecture 'bert-bse'; did you mean bert-base"),
        ("zzz", {}, "known names are bert-base"),
        ("bert-base", {"reader": "mrs"}, "There is no reader 'mrs'; did you mean msr"),
        ("bert-base", {"communication": "bytes"}, "it must be 'size' or 'cost'"),
        ("bert-base", {"communication": "cost"}, "an architecture has no edge costs"),
        ("bert-base", {"dims": {"device": 3}}, "bert-base: there is no dimension 'device'; it has batch"),
        ("bert-base", {"dims": {"batch": 0}}, "dimension batch is 0"),
        ("bert-base", {"reader": "json"}, "bert-base: there is no such file"),
    ],
)
def test_a_bad_request_is_refused(spec: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_graph(spec, **options)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, "the file is empty"),
        ("hello", {}, "not recognised; name the reader, one of msr, pipedream, json"),
        ('{"nodes": []}', {}, "missing field 'format'"),
        (PIPEDREAM, {"communication": "cost"}, "'pipedream' files have no edge costs"),
        (PIPEDREAM, {"dims": {"batch": 2}}, r"dimensions \(batch\) are for architectures"),
        (PIPEDREAM, {"reader": "json"}, "not valid JSON at line 1"),
        ("hello", {"reader": "pipedream"}, "line 1: expected 'id"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    content: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "file", content)
    with pytest.raises(InputError, match=message) as caught:
        load_graph(path, **options)
    assert str(caught.value).startswith(str(path))


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this is a folder"):
        load_graph(tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_every_reader_names_a_missing_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        load_graph(tmp_path / "nothing", reader=name)
