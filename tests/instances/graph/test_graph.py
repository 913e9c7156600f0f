"""What the constructors of graphs, platforms and instances refuse, and what they must accept."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from strategies import graphs

from instances import ComputationGraph, InputError, Instance, Partition, Platform, SharedParameter


def test_bug_a_cycle_behind_a_long_path_is_told_at_once() -> None:
    """Looking for it took time by the square of the nodes around it."""
    n = 60_000
    edges = [(u, u - 1) for u in range(1, n - 2)] + [(n - 2, n - 1), (n - 1, n - 2), (n - 2, n - 3)]
    with pytest.raises(InputError, match=rf"cycle: {n - 2} .* -> {n - 1} "):
        ComputationGraph.from_edges(edges, [1.0] * n)


@pytest.mark.parametrize(
    ("edges", "work", "rest", "message"),
    [
        ([], [], {}, "no node"),
        ([(0, 1), (1, 2), (2, 0)], [1, 1, 1], {}, r"cycle: .*0 \(0\) -> 1 \(1\) -> 2 \(2\) -> 0 \(0\)"),
        ([(1, 1)], [1, 1], {"names": ("a", "b")}, r"1 -> 1 \(b\) is a self-loop"),
        ([(0, 2)], [1, 1], {}, "node 2 does not exist; indices run from 0 to 1"),
        ([(-1, 1)], [1, 1], {}, "node -1 does not exist"),
        ([(0, 1, 1)], [1, 1], {}, "reads output 1 of node 0, which has 1"),
        ([], [1, math.nan], {}, r"Node 1 \(1\): work is nan"),
        ([], [math.inf], {}, "work is inf"),
        ([], [-1], {}, "work is -1"),
        ([], [1, 1], {"output_bytes": [1, -2]}, r"Node 1 \(1\): output_bytes is -2"),
        ([], [1, 1], {"output_bytes": [1, [0, math.nan]]}, "output_bytes is nan"),
        ([], [1], {"param_bytes": [math.inf]}, "param_bytes is inf"),
        ([], [1, 1], {"output_bytes": [1]}, "2 work values but 1 output sizes"),
        ([], [1, 1], {"param_bytes": [1]}, "1 parameter sizes"),
        ([], [1, 1], {"names": ("a",)}, "1 names"),
        ([], [1], {"parameters": (SharedParameter("p", -1, (0,)),)}, "Parameter p: bytes is -1"),
        ([], [1], {"parameters": (SharedParameter("p", 1, (0, 4)),)}, "Parameter p: user 4 does not exist"),
    ],
)
def test_a_bad_graph_is_refused(
    edges: list[tuple[int, ...]], work: list[float], rest: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        ComputationGraph.from_edges(edges, work, **rest)
    assert "\n" not in str(caught.value)


def test_a_long_cycle_is_cut_short_in_the_message() -> None:
    edges = [(v, (v + 1) % 50) for v in range(50)]
    with pytest.raises(InputError, match="42 more") as caught:
        ComputationGraph.from_edges(edges, [1] * 50)
    assert len(str(caught.value)) < 200


def test_a_repeated_edge_is_one_edge() -> None:
    once = ComputationGraph.from_edges([(0, 1), (0, 1, 0)], [1, 1], [5, 0])
    assert once.m == 1
    assert once.content_hash == ComputationGraph.from_edges([(0, 1)], [1, 1], [5, 0]).content_hash


@pytest.mark.parametrize("work", [[1.0], [0.0, 0.0, 0.0]])
def test_no_edges_and_zero_work_are_fine(work: list[float]) -> None:
    graph = ComputationGraph.from_edges([], work)
    assert (graph.n, graph.m) == (len(work), 0)
    assert graph.topological_order.tolist() == list(range(len(work)))


@given(graphs())
def test_order_and_neighbours_agree_with_the_edges(graph: ComputationGraph) -> None:
    """Every view of the edges holds the same edges."""
    position = np.argsort(graph.topological_order)
    assert (position[graph.edges[:, 0]] < position[graph.edges[:, 1]]).all()
    edges = sorted(map(tuple, graph.edges.tolist()))
    start, successor = graph.successors
    assert sorted((u, v) for u in range(graph.n) for v in successor[start[u] : start[u + 1]].tolist()) == edges
    start, predecessor = graph.predecessors
    assert sorted((u, v) for v in range(graph.n) for u in predecessor[start[v] : start[v + 1]].tolist()) == edges
    assert sorted(graph.to_networkx().edges()) == edges
    start, tensor = graph.inputs
    read = {(int(t), v) for v in range(graph.n) for t in tensor[start[v] : start[v + 1]]}
    assert read == set(zip(graph.edge_tensor.tolist(), graph.edges[:, 1].tolist(), strict=True))


def test_networkx_attributes_become_weights() -> None:
    digraph = nx.DiGraph([("a", "b")])
    digraph.nodes["a"].update(work=2.0, output_bytes=3.0)
    digraph.nodes["b"].update(work=0.0)
    graph = ComputationGraph.from_networkx(digraph, name="pair")
    assert (graph.work.tolist(), graph.tensors.bytes.tolist(), graph.names, graph.name) == (
        [2, 0],
        [3, 0],
        ("a", "b"),
        "pair",
    )


def test_the_hash_covers_what_costs_depend_on_and_nothing_else() -> None:
    def build(work: float = 1, size: float = 2, shared: float = 3, name: str = "x") -> str:
        parameters = (SharedParameter("p", shared, (0, 1)),)
        return ComputationGraph.from_edges(
            [(0, 1)], [work, 1], [size, 0], name=name, parameters=parameters
        ).content_hash

    assert build() == build(name="y")
    assert len({build(), build(work=9), build(size=9), build(shared=9)}) == 4


def test_graphs_cannot_be_changed_and_copy_what_they_get() -> None:
    work = np.array([1.0, 2.0])
    graph = ComputationGraph.from_edges([(0, 1)], work, work, work)
    work[0] = 7
    assert (graph.work[0], graph.tensors.bytes[0], graph.param_bytes[0]) == (1, 1, 1)
    for array in (graph.work, graph.param_bytes, graph.tensors.bytes, graph.tensors.consumers):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("platform", "message"),
    [
        ({"k": 0, "bandwidth": 1}, "k is 0"),
        ({"k": 1.5, "bandwidth": 1}, "k is 1.5"),
        ({"k": 2, "bandwidth": 0}, "bandwidth is 0"),
        ({"k": 2, "bandwidth": -1}, "bandwidth is -1"),
        ({"k": 2, "bandwidth": math.nan}, "bandwidth is nan"),
        ({"k": 2, "bandwidth": 1, "memory": -1}, "memory is -1"),
        ({"k": 2, "bandwidth": 1, "memory": math.nan}, "memory is nan"),
        ({"k": 2, "bandwidth": 1, "activation_buffer": math.inf}, "activation_buffer is inf"),
        ({"k": 2, "bandwidth": 1, "activation_buffer": -1}, "activation_buffer is -1"),
    ],
)
def test_a_bad_platform_is_refused(platform: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Platform(**platform)


def test_times_of_tensors_beyond_the_largest_number_are_refused() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], work=[1.0, 1.0], output_bytes=[1e300, 0.0])
    with pytest.raises(InputError, match="bandwidth of 1e-09"):
        Instance(graph, Platform(2, 1e-9))


def test_infinite_bandwidth_makes_communication_free() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [1, 1], [5, 0])
    assert Instance(graph, Platform(2, math.inf)).communication_over_work == 0


def test_communication_over_work_counts_tensors_that_are_read_once() -> None:
    graph = ComputationGraph.from_edges([(0, 1), (0, 2)], [1, 1, 2], [8, 100, 0])
    assert Instance(graph, Platform(2, bandwidth=2)).communication_over_work == 1
    idle = ComputationGraph.from_edges([(0, 1)], [0, 0], [8, 0])
    assert Instance(idle, Platform(2, bandwidth=2)).communication_over_work is None


def test_the_key_tells_platforms_apart() -> None:
    graph = ComputationGraph.from_edges([], [1, 1])
    instance = Instance(graph, Platform(2, 1))
    assert instance.key == Instance(graph, Platform(2, 1), name="other").key
    assert instance.key != instance.with_k(3).key


@pytest.mark.parametrize("field", [{"k": 2.0}, {"bandwidth": 1}, {"memory": 5}, {"activation_buffer": 0}])
def test_equal_numbers_of_any_type_are_one_question(field: dict[str, float]) -> None:
    graph = ComputationGraph.from_edges([], [1, 1])
    plain = Platform(2, 1.0, 5.0, 0.0)
    same = replace(plain, **field)
    assert same == plain
    assert repr(same) == repr(plain)
    assert Instance(graph, same).key == Instance(graph, plain).key
    assert type(same.k) is int


@pytest.mark.parametrize("field", [{"k": 3}, {"bandwidth": 2}, {"memory": 6}, {"activation_buffer": None}])
def test_the_key_holds_every_field_of_the_platform(field: dict[str, float]) -> None:
    graph = ComputationGraph.from_edges([], [1, 1])
    plain = Platform(2, 1.0, 5.0, 0.0)
    assert Instance(graph, replace(plain, **field)).key != Instance(graph, plain).key


def test_the_hash_tells_apart_who_uses_what_and_who_reads_what() -> None:
    def build(
        users: tuple[int, ...] = (0, 1), edges: tuple[tuple[int, ...], ...] = ((0, 2),), params: float = 0
    ) -> str:
        shared = (SharedParameter("p", 3, users),)
        return ComputationGraph.from_edges(
            edges, [1, 1, 1], [[2, 2], [2], [0]], [params, 0, 0], parameters=shared
        ).content_hash

    different = [
        build(),
        build((0, 2)),
        build((0, 1, 2)),
        build(edges=((0, 1),)),
        build(edges=((1, 2),)),
        build(params=1),
    ]
    different += [build(edges=((0, 2, 1),)), build(edges=())]
    assert len(set(different)) == len(different)
    assert build((1, 0, 1)) == build((0, 1))


def arrays_of(graph: ComputationGraph) -> list[np.ndarray]:
    tensors = graph.tensors
    return [graph.work, graph.param_bytes, tensors.producer, tensors.bytes, tensors.start, tensors.consumers]


@given(graphs())
def test_pickling_keeps_everything_and_arrays_read_only(graph: ComputationGraph) -> None:
    """As it happens whenever a run is sent to another process."""
    partition = Partition(Instance(graph, Platform(2, 1.0)), np.zeros(graph.n))
    back = pickle.loads(pickle.dumps(partition))
    copy = back.instance.graph
    assert (copy.content_hash, copy.names, copy.parameters) == (graph.content_hash, graph.names, graph.parameters)
    assert back.instance.key == partition.instance.key
    assert back.bottleneck == partition.bottleneck
    assert not any(array.flags.writeable for array in (*arrays_of(copy), back.block, back.order))


@given(graphs())
def test_networkx_and_back_is_the_same_graph(graph: ComputationGraph) -> None:
    """Several outputs per node, tensors that nobody reads, parallel edges; shared parameters stay behind."""
    alone = replace(graph, parameters=(), names=tuple(f"node {v}" for v in range(graph.n)))
    back = ComputationGraph.from_networkx(alone.to_networkx())
    assert back.content_hash == alone.content_hash
    assert back.names == alone.names


def test_minus_zero_is_zero() -> None:
    assert (
        ComputationGraph.from_edges([], [-0.0], [-0.0], [-0.0]).content_hash
        == ComputationGraph.from_edges([], [0.0], [0.0], [0.0]).content_hash
    )


@pytest.mark.parametrize("columns", [2, 3])
def test_edges_and_sizes_may_be_arrays(columns: int) -> None:
    """An array, tuples and pairs mixed with triples give the same graph."""
    edges = np.array([(0, 2, 0), (0, 1, 0), (1, 2, 0), (0, 2, 0)])
    mixed = [edge[:2] if i % 2 else edge for i, edge in enumerate(edges.tolist())]
    sizes = [[3.0], 4.0, (5.0,)]
    graphs = [
        ComputationGraph.from_edges(edges[:, :columns], np.ones(3), np.array([3.0, 4.0, 5.0])),
        ComputationGraph.from_edges(edges[:, :columns].astype(np.int32), [1, 1, 1], [3, 4, 5]),
        ComputationGraph.from_edges(map(tuple, edges[:, :columns].tolist()), [1, 1, 1], sizes),
        ComputationGraph.from_edges(mixed, [1, 1, 1], sizes),
    ]
    assert len({graph.content_hash for graph in graphs}) == 1
    assert graphs[0].edges.tolist() == [[0, 1], [0, 2], [1, 2]]


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (np.array([(0, 1), (1, 3)]), "Edge 1 -> 3: node 3 does not exist"),
        (np.array([(0, 1, 1)]), "reads output 1 of node 0, which has 1"),
        (np.array([(0.0, 1.0)]), "not \\(u, v\\) or \\(u, v, output\\) in whole numbers"),
        (np.array([(0, 1, 0, 0)]), "not \\(u, v\\) or"),
    ],
)
def test_a_wrong_edge_in_an_array_is_named(edges: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ComputationGraph.from_edges(edges, [1, 1, 1])


def test_a_chain_of_a_hundred_thousand_nodes_is_ordered() -> None:
    """As deep as it is long, against the index order."""
    n = 100_000
    edges = np.column_stack((np.arange(1, n), np.arange(n - 1)))
    graph = ComputationGraph.from_edges(edges, np.ones(n))
    assert graph.topological_order.tolist() == list(range(n - 1, -1, -1))
