"""Equal branches: what is found is true, and what is there in networks is found."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from branch_cases import random_branch_case
from extremes import build, random_case

from instances import ComputationGraph, InputError, Instance, Platform
from instances.graph.tensors import IntArray
from instances.partitioning.symmetry import families, reduce_instance
from instances.random_graphs import layered, moe
from instances.readers import load_graph


def is_automorphism(instance: Instance, image: IntArray) -> bool:
    """By the definition: what the renamed graph says is what the graph says."""
    graph = instance.graph
    readers = [graph.tensors.consumers[a:b] for a, b in zip(graph.tensors.start, graph.tensors.start[1:], strict=False)]
    facts = [
        sorted(
            (int(rename[u]), size, sorted(rename[nodes].tolist()))
            for u, size, nodes in zip(graph.tensors.producer, graph.tensors.bytes, readers, strict=True)
        )
        for rename in (np.arange(graph.n), image)
    ]
    users = [
        sorted((parameter.bytes, sorted(rename[list(set(parameter.users))].tolist())) for parameter in graph.parameters)
        for rename in (np.arange(graph.n), image)
    ]
    columns = (graph.work, graph.param_bytes, graph.state_bytes, instance.needs)
    same = all(np.array_equal(column[image], column) for column in columns)
    return same and facts[0] == facts[1] and users[0] == users[1]


def exchanges(instance: Instance) -> list[IntArray]:
    found = []
    for rows in families(instance):
        for a in range(len(rows)):
            for b in range(a):
                image = np.arange(instance.graph.n)
                image[rows[a]], image[rows[b]] = rows[b], rows[a]
                found.append(image)
    return found


@pytest.mark.parametrize("block", range(4))
def test_exchanges_are_automorphisms(block: int) -> None:
    """Of graphs with equal branches, of any, and of those that a small change of one number makes of the first."""
    count = 0
    for seed in range(50 * block, 50 * block + 50):
        r = random.Random(seed)
        case = random_branch_case(r)
        changed = replace(case, params=[p + (v == 0) for v, p in enumerate(case.params)])
        other = replace(case, tensors=[(u, size, readers[1:]) for u, size, readers in case.tensors])
        for instance in (build(case), build(changed), build(other)):
            found = exchanges(instance)
            count += len(found)
            assert all(is_automorphism(instance, image) for image in found)
            nodes = [v for rows in families(instance) for v in rows.ravel().tolist()]
            assert len(nodes) == len(set(nodes))
    assert count > 50


@pytest.mark.parametrize("seed", range(30))
def test_exchanges_of_any_graph_are_automorphisms(seed: int) -> None:
    try:
        instance = build(random_case(random.Random(seed)))
    except InputError:
        return
    assert all(is_automorphism(instance, image) for image in exchanges(instance))


def test_experts_are_found() -> None:
    instance = Instance(moe(3, 5), Platform(4, 1.0))
    assert [rows.shape for rows in families(instance)] == [(5, 1)] * 3
    assert families(instance)[0].ravel().tolist() == [4, 5, 6, 7, 8]


def test_a_router_with_a_tensor_for_each_expert() -> None:
    """Experts of two nodes each."""
    edges = [(0, 1 + b, b) for b in range(3)] + [(1 + b, 4 + b) for b in range(3)] + [(4 + b, 7) for b in range(3)]
    sizes: list[float | list[float]] = [[2.0, 2.0, 2.0], *[1.0] * 7]
    graph = ComputationGraph.from_edges(edges, np.ones(8), sizes)
    assert [rows.tolist() for rows in families(Instance(graph, Platform(2, 1.0)))] == [[[1, 4], [2, 5], [3, 6]]]
    sizes[0] = [2.0, 3.0, 2.0]
    graph = ComputationGraph.from_edges(edges, np.ones(8), sizes)
    assert [rows.tolist() for rows in families(Instance(graph, Platform(2, 1.0)))] == [[[1, 4], [3, 6]]]


def test_windows_tell_nodes_apart() -> None:
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (0, 3)], np.ones(4), np.ones(4))
    free, bound = (Instance(graph, Platform(2, 1.0), windows=w) for w in (None, {1: 1}))
    assert [rows.tolist() for rows in families(free)] == [[[1], [2], [3]]]
    assert [rows.tolist() for rows in families(bound)] == [[[2], [3]]]


def test_all_alike_and_none_alike() -> None:
    """A thousand equal nodes, a complete bipartite graph, numbers that are all different."""
    equal = ComputationGraph.from_edges([], np.ones(1000))
    assert [rows.shape for rows in families(Instance(equal, Platform(2, 1.0)))] == [(1000, 1)]
    bipartite = ComputationGraph.from_edges(
        [(u, 40 + v) for u in range(40) for v in range(40)], np.ones(80), np.ones(80)
    )
    assert [rows.shape for rows in families(Instance(bipartite, Platform(2, 1.0)))] == [(40, 1), (40, 1)]
    assert families(Instance(layered(3000, 6000, 1), Platform(2, 1.0))) == ()


def test_experts_of_mixtral_are_found() -> None:
    instance = reduce_instance(Instance(load_graph("mixtral-8x7b"), Platform(8, 25e9))).instance
    assert {rows.shape for rows in families(instance)} == {(8, 5)}
