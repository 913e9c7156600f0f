"""Files of Microsoft Research: units, folds of the backward pass, refusals, and published optima."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profile_files import MSR, assert_refused, msr_edge, msr_node, write

from instances import ComputationGraph, InputError, Instance, Partition, Platform, load_graph
from instances.readers.profiles import read_msr


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
    assert_refused(partial(load_graph, reader="msr"), write(tmp_path / "net.json", MSR | changes), message)


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
