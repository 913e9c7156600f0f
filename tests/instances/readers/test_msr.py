"""Training profiles of Microsoft Research: backward edges against and along the forward ones, and what is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profile_files import write

from instances import InputWarning, Instance, Partition, Platform, load_graph
from instances.readers.profiles import read_msr
from mtpp_models import solve


def profile(n: int, forward: list[tuple[int, int]], backward: list[tuple[int, int]], **fields: Any) -> dict[str, Any]:
    """Node v has the gradient 100 + v in its colour class; an edge from u carries u + 1, from a gradient ten times."""
    nodes = [
        {"id": v + 100 * back, "fpgaLatency": 1.0 + v, "size": 5.0, "colorClass": v, "isBackwardNode": back, **fields}
        for back in (0, 1)
        for v in range(n)
    ]
    links = [(u, v, u + 1.0) for u, v in forward] + [(100 + u, 100 + v, 10.0 * (u + 1)) for u, v in backward]
    edges = [{"sourceId": u, "destId": v, "size": size, "cost": size} for u, v, size in links]
    return {"nodes": nodes, "edges": edges}


CHAIN = [(0, 1), (1, 2), (2, 3)]


def reverse(edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(v, u) for u, v in edges]


def test_bug_a_backward_pass_along_the_forward_one_became_one_node(tmp_path: Path) -> None:
    """Layer profiles give the forward graph twice; both tensors of a cut are paid for."""
    graph = load_graph(write(tmp_path / "net.json", profile(4, CHAIN, CHAIN)), communication="cost")
    assert (graph.n, graph.work.tolist()) == (4, [2, 4, 6, 8])
    costs = Partition(Instance(graph, Platform(2, bandwidth=1)), [0, 0, 1, 1]).block_costs
    assert costs.tolist() == [2 + 4 + 22, 6 + 8 + 22]
    assert "warnings" not in graph.attributes


dags = st.integers(2, 7).flatmap(
    lambda n: st.tuples(
        st.just(n), st.sets(st.sampled_from([(u, v) for v in range(n) for u in range(v)]), max_size=12).map(sorted)
    )
)


@given(dags)
def test_both_directions_of_the_backward_pass_keep_every_node(
    tmp_path_factory: pytest.TempPathFactory, dag: tuple[int, list[tuple[int, int]]]
) -> None:
    n, edges = dag
    path = tmp_path_factory.mktemp("msr") / "net.json"
    for backward in (edges, reverse(edges)):
        graph = read_msr(write(path, profile(n, edges, backward)), "cost")
        assert graph.work.tolist() == [2.0 * (v + 1) for v in range(n)]
        assert {tuple(edge) for edge in graph.edges.tolist()} == set(edges)


def test_the_direction_is_that_of_most_edges_where_both_lose_nodes(tmp_path: Path) -> None:
    """One stray edge the other way makes a cycle of its two ends, not of the network."""
    for backward, left in (([*CHAIN[:2], (3, 2)], 3), ([*reverse(CHAIN[:2]), (2, 3)], 3)):
        assert read_msr(write(tmp_path / "net.json", profile(4, CHAIN, backward))).n == left


def test_a_graph_that_collapses_warns(tmp_path: Path) -> None:
    backward = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]
    path = write(tmp_path / "net.json", profile(4, CHAIN, backward))
    with pytest.warns(InputWarning, match=r"net\.json: 3 of 4 nodes .* are lost to cycles, 1 left"):
        graph = load_graph(path)
    assert graph.n == 1
    assert [text.split(";")[0] for text in graph.attributes["warnings"]] == [
        "3 of 4 nodes (colour classes count as one) are lost to cycles, 1 left"
    ]


def test_nodes_that_the_accelerator_cannot_run_are_counted(tmp_path: Path) -> None:
    document = profile(2, [(0, 1)], [(1, 0)], supportedOnFpga=1)
    document["nodes"][0]["supportedOnFpga"] = False
    with pytest.warns(InputWarning, match="1 of 4 nodes are not supported on the accelerator"):
        load_graph(write(tmp_path / "net.json", document))


@pytest.mark.parametrize(
    ("name", "optima"),
    [
        ("bert24_layer", {2: 109.918, 4: 58.546, 8: 33.379, 16: 16.793}),
        ("gnmt_layer", {4: 137.154}),
        ("bert_l-3_operator", {2: 79.501, 4: 65.303, 8: 65.303, 16: 65.303}),
    ],
)
@pytest.mark.filterwarnings("error")
def test_the_published_optima_in_training_are_the_best(name: str, optima: dict[int, float], data: Path) -> None:
    """With the file's own costs and bandwidth 1, in milliseconds, as the authors' program finds them."""
    graph = load_graph(data / "msr" / f"{name}_training.json", communication="cost")
    for k, optimum in optima.items():
        best = solve(Instance(graph, Platform(k, bandwidth=1.0)), "ideals")
        assert best.bound is not None
        assert best.partition is not None
        assert best.bound.value == pytest.approx(best.partition.bottleneck, rel=1e-9)
        assert best.partition.bottleneck == pytest.approx(optimum, abs=1e-3)
