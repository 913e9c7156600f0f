"""Random families stay as they are frozen, and toys have the optimum that they claim."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from instances import InputError, Instance, Partition
from instances.random_graphs import (
    GRAPH_MODELS,
    TOYS,
    chain,
    fan_out,
    heavy_and_light,
    independent_jobs,
    layered,
    misleading_edge,
)
from instances.random_graphs import regal_style as regal

GOLDEN = {
    "erdos-renyi": "0f8ec34d87ebc845",
    "barabasi-albert": "151687edf6469b29",
    "watts-strogatz": "16fc23b612811348",
    "stochastic-block": "a85ee41b14192223",
}


def test_every_family_has_a_golden_graph() -> None:
    assert set(GOLDEN) == set(GRAPH_MODELS)


@pytest.mark.parametrize("family", GOLDEN)
def test_a_seed_always_gives_the_same_graph(family: str) -> None:
    assert regal(family, 60, 7).content_hash.startswith(GOLDEN[family])
    assert regal(family, 60, 8).content_hash != regal(family, 60, 7).content_hash


@pytest.mark.parametrize("family", GRAPH_MODELS)
def test_work_is_own_output_and_inputs_plus_noise(family: str) -> None:
    """What is not output or input is noise, with mean 0 and a tenth of all bytes as standard deviation."""
    graph = regal(family, 200, 1)
    sizes = graph.tensors.bytes
    assert (graph.n, len(sizes)) == (200, 200)
    assert abs(sizes.mean() - 50) < 3
    assert 8 < sizes.std() < 12
    inputs = np.bincount(graph.edges[:, 1], weights=sizes[graph.edges[:, 0]], minlength=200)
    noise = (graph.work - sizes - inputs) / sizes.sum()
    unclipped = noise[graph.work > 0]
    assert (graph.work >= 0).all()
    assert 0.3 < np.mean(noise > 0) < 0.7
    assert 0.06 < np.sqrt(np.mean(unclipped[unclipped > 0] ** 2)) < 0.14


@pytest.mark.parametrize(("family", "edges"), [("barabasi-albert", 2 * 98), ("watts-strogatz", 200)])
def test_families_have_their_number_of_edges(family: str, edges: int) -> None:
    assert regal(family, 100, 3).m == edges


@pytest.mark.parametrize(
    ("family", "n", "seed", "message"),
    [
        ("erdos-reny", 50, 0, "did you mean erdos-renyi"),
        ("erdos-renyi", 3, 0, "n is 3"),
        ("erdos-renyi", 50, -1, "seed is -1"),
    ],
)
def test_bad_arguments_are_refused(family: str, n: int, seed: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        regal(family, n, seed)


def brute_force(instance: Instance) -> float:
    """Try every assignment of nodes to blocks that points forwards."""
    u, v = instance.graph.edges[:, 0], instance.graph.edges[:, 1]
    best = np.inf
    for blocks in product(range(instance.k), repeat=instance.graph.n):
        block = np.array(blocks)
        if (block[u] <= block[v]).all():
            best = min(best, Partition(instance, block).bottleneck)
    return best


def best_slicing(instance: Instance) -> float:
    """Cut the nodes in index order at every choice of places."""
    n, k = instance.graph.n, instance.k
    cuts = (np.sort(cut) for cut in product(range(n + 1), repeat=k - 1))
    blocks = (np.searchsorted(cut, np.arange(n), side="right") for cut in cuts)
    return min(Partition(instance, block, np.arange(n)).bottleneck for block in blocks)


@pytest.mark.parametrize(
    ("instance", "optimum"),
    [
        *(
            TOYS[name]()
            for name in ("fan-out", "four-blocks", "heavy-and-light", "independent-jobs", "misleading-edge")
        ),
        *(chain(k, length) for k, length in ((1, 4), (2, 1), (2, 4), (3, 1), (3, 3), (4, 2))),
        *(fan_out(k) for k in (2, 3, 5)),
        *(independent_jobs(k) for k in (1, 2)),
        *(misleading_edge(k) for k in (1, 2)),
        *(heavy_and_light(k) for k in (1, 2)),
    ],
    ids=lambda value: f"{value.name}-{value.k}" if isinstance(value, Instance) else "",
)
def test_toys_have_the_optimum_that_they_claim(instance: Instance, optimum: float) -> None:
    assert brute_force(instance) == pytest.approx(optimum)


def test_the_default_chain_reaches_its_optimum() -> None:
    instance, optimum = chain()
    equal = np.arange(instance.graph.n) * instance.k // instance.graph.n
    assert Partition(instance, equal).bottleneck == optimum


@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_bad_order_costs_as_much_as_the_paper_says(k: int) -> None:
    """Lemma 3.5: slicing is k times the optimum. Remark A.1: 2k against k + 1, which tends to twice."""
    instance, optimum = misleading_edge(k)
    assert best_slicing(instance) == pytest.approx(k * optimum)
    instance, optimum = heavy_and_light(k)
    assert best_slicing(instance) == pytest.approx(2 * k)
    assert optimum == k + 1


def test_a_layered_graph_has_the_size_that_was_asked_for() -> None:
    """Few of the edges are drawn twice, and the seed alone decides."""
    graph = layered(2_000, 6_000, seed=4)
    assert graph.n == 2_000
    assert 5_700 < graph.m <= 6_000
    assert graph.content_hash == layered(2_000, 6_000, seed=4).content_hash != layered(2_000, 6_000, 5).content_hash


@pytest.mark.parametrize(("n", "m", "seed"), [(7, 3, 0), (8, -1, 0), (8, 3, -1)])
def test_a_layered_graph_refuses_nonsense(n: int, m: int, seed: int) -> None:
    with pytest.raises(InputError, match=f"n is {n}, m is {m} and seed is {seed};"):
        layered(n, m, seed)
