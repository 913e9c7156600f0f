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
from instances.readers.msr import read_msr
from instances.readers.pipedream import read_pipedream


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
        ({"nodes": [{"id": 1, "fpgaLatency": 1}]}, ", nodes[0]: missing field 'size'."),
        ({"nodes": [msr_node(1, -2.0)]}, ", nodes[0].fpgaLatency: the number is -2.0; it must be 0 or more."),
        ({"nodes": [msr_node(1, isBackwardNode="no")]}, ", nodes[0].isBackwardNode: expected a whole number"),
        ({"edges": [msr_edge(7, 8)]}, ", edges[0].destId: no node has id 8."),
        ({"edges": [msr_edge(7, 3, None)]}, ", edges[0].size: expected a number, found null."),
        ({"edges": [{"sourceId": 7, "destId": 3, "cost": 1}]}, ", edges[0]: missing field 'size'."),
        ({"edges": [msr_edge(7, 3, -1.0)]}, ", edges[0].size: the number is -1.0; it must be 0 or more."),
        ({"edges": [msr_edge(7, 3), msr_edge(3, 7)]}, ": The edges contain a cycle: 0 (n7) -> 1 (n3)"),
        ({"edges": 5}, ", edges: expected a list […], found 5."),
    ],
)
def test_a_bad_msr_file_is_refused_by_place(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "net.json", MSR | changes)
    with pytest.raises(InputError) as caught:
        load_graph(path, reader="msr")
    assert str(caught.value).startswith(f"{path}{message}")


def test_an_msr_node_needs_no_name(tmp_path: Path) -> None:
    node = {"id": 5, "fpgaLatency": 1, "size": 2}
    assert read_msr(write(tmp_path / "net.json", {"nodes": [node], "edges": []})).names == ("5",)


def msr_training(**changes: Any) -> dict[str, Any]:
    """A chain 0 -> 1 -> 2, its backward pass 12 -> 11 -> 10, and 11 reads what 0 has computed."""
    forward = [msr_node(v, 1.0 + v, colorClass=v) for v in range(3)]
    backward = [msr_node(10 + v, 10.0, colorClass=v, isBackwardNode=True) for v in range(3)]
    links = [(0, 1, 4.0), (1, 2, 5.0), (2, 12, 6.0), (12, 11, 50.0), (11, 10, 40.0), (0, 11, 4.0)]
    return {"nodes": [*forward, *backward], "edges": [msr_edge(u, v, size, size) for u, v, size in links], **changes}


def test_an_msr_training_profile_runs_back_through_the_same_blocks(tmp_path: Path) -> None:
    """Each cut pays for the activation and for the gradient that comes back; 0 -> 11 is the tensor of 0 -> 1."""
    graph = read_msr(write(tmp_path / "net.json", msr_training()), "cost")
    assert (graph.names, graph.work.tolist(), graph.param_bytes.tolist()) == (
        ("n0", "n1", "n2"),
        [11, 12, 13],
        [10, 10, 10],
    )
    assert sorted(zip(graph.edges.tolist(), graph.tensors.bytes[graph.edge_tensor].tolist(), strict=True)) == [
        ([0, 1], 4.0),
        ([0, 1], 40.0),
        ([1, 2], 5.0),
        ([1, 2], 50.0),
    ]
    costs = Partition(Instance(graph, Platform(2, bandwidth=1)), [0, 1, 1]).block_costs
    assert costs.tolist() == [11 + 44, 12 + 13 + 44]


def test_msr_nodes_that_no_pipeline_can_separate_become_one(tmp_path: Path) -> None:
    """The colours 0 and 2 share a device, so what lies between them is there too."""
    document = msr_training()
    document["nodes"][2]["colorClass"] = document["nodes"][5]["colorClass"] = 0
    graph = read_msr(write(tmp_path / "net.json", document), "cost")
    assert (graph.n, graph.m, graph.work.tolist()) == (1, 0, [36])


def test_an_msr_gradient_without_a_forward_node_stays_a_node(tmp_path: Path) -> None:
    document = msr_training()
    document["nodes"].append(msr_node(20, 7.0, isBackwardNode=1))
    document["edges"] += [msr_edge(12, 20, 3.0), msr_edge(20, 10, 2.0)]
    graph = read_msr(write(tmp_path / "net.json", document), "size")
    assert graph.names == ("n0", "n1", "n2", "n20")
    assert {(0, 3), (3, 2)} <= {tuple(edge) for edge in graph.edges.tolist()}
    assert graph.work.sum() == pytest.approx(0.043)


def test_an_msr_edge_from_the_backward_to_the_forward_pass_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "net.json", msr_training(edges=[msr_edge(11, 2)]))
    with pytest.raises(InputError, match="Edge n11 -> n2 leads from the backward to the forward pass"):
        read_msr(path)


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


def test_pipedream_counts_the_backward_pass_when_asked(tmp_path: Path) -> None:
    """Both times, and a gradient for each activation."""
    path = write(tmp_path / "net.graph.txt", PIPEDREAM)
    graph = read_pipedream(path, training=True)
    np.testing.assert_allclose(graph.work, [0, 0.0085, 0, 0, 0.001])
    assert graph.tensors.bytes.tolist() == [0, 120, 40, 20, 120, 40, 14]
    assert graph.edges.tolist() == read_pipedream(path).edges.tolist()


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
        ("forward_compute_time=3.5", "forward_compute_time=-3.5", ", line 2: forward_compute_time is '-3.5'"),
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
    sizes = {
        path.name.split(".")[0]: load_graph(path, input_work="keep").n
        for path in (data / "pipedream").glob("*.graph.txt")
    }
    assert sizes == {
        "densenet121": 429,
        "gnmt": 48,
        "nasnetamobile": 921,
        "resnet50": 177,
        "squeezenet1_0": 68,
        "vgg16": 41,
    }


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


def test_level_and_backward_pass_are_passed_on(tmp_path: Path) -> None:
    graph = load_graph("squeezenet", level="layer", training=True)
    assert graph.content_hash == ARCHITECTURES["squeezenet"].build(level="layer", training=True).content_hash
    path = write(tmp_path / "net.graph.txt", PIPEDREAM)
    assert load_graph(path, training=True).content_hash == read_pipedream(path, training=True).content_hash


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
        ("zzz", {}, "there are bert-base"),
        ("bert-base", {"reader": "mrs"}, "There is no reader 'mrs'; did you mean msr"),
        ("bert-base", {"communication": "bytes"}, "it must be 'size' or 'cost'"),
        ("bert-base", {"communication": "cost"}, "an architecture has no edge costs"),
        ("bert-base", {"dims": {"device": 3}}, "bert-base: there is no dimension 'device'; it has batch"),
        ("bert-base", {"dims": {"batch": 0}}, "dimension batch is 0"),
        ("bert-base", {"cost": "free"}, "cost is 'free'; it must be 'roofline' or 'measured'"),
        ("bert-base", {"level": "block"}, "bert-base: level is 'block'; give one of operator, layer"),
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
        ("hello", {}, f"not recognised; name the reader, one of {', '.join(READERS)}"),
        ('{"nodes": []}', {}, "missing field 'format'"),
        (PIPEDREAM, {"communication": "cost"}, "'pipedream' files have no edge costs"),
        (
            PIPEDREAM,
            {"dims": {"batch": 2}},
            r"'pipedream' files take no dims \(batch\); leave it out \(architectures, onnx do\)",
        ),
        (PIPEDREAM, {"level": "layer"}, r"take no level; leave it out \(architectures do\)"),
        (json.dumps(MSR), {"training": True}, "'msr' files take no training"),
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
