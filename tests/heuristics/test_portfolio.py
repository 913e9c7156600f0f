"""The portfolio: something at once for every graph, and the better for more time."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances

from heuristics import HEURISTICS, Limits, kahn, portfolio, slice_order
from instances import Instance, Platform
from instances.deadline import Deadline
from instances.random_graphs import TOYS, layered, regal_style
from instances.suites import SUITES


@settings(max_examples=60)
@given(instances(max_nodes=8, max_k=6), st.integers(0, 9))
def test_no_worse_than_the_best_slicing_of_the_order_by_index(instance: Instance, seed: int) -> None:
    found = portfolio(instance, np.random.default_rng(seed), Limits(evaluations=200))
    assert found.instance is instance
    assert found.bottleneck <= slice_order(instance, kahn(instance.graph, np.zeros(instance.graph.n))).bottleneck


@pytest.mark.parametrize("toy", TOYS)
def test_toys_are_solved(toy: str) -> None:
    instance, optimum = TOYS[toy]()
    limits = Limits(evaluations=20_000, target=optimum)
    assert portfolio(instance, np.random.default_rng(0), limits).bottleneck == pytest.approx(optimum)


@pytest.mark.parametrize("memory", [np.inf, 2_000.0])
def test_a_large_graph_gets_an_answer_before_anything_is_sliced(memory: float) -> None:
    """No time at all is left: two orders in pieces of equal work."""
    graph = layered(20_000, 60_000, seed=0)
    instance = Instance(graph, Platform(8, 1.0, memory))
    found = portfolio(instance, np.random.default_rng(0), Limits(Deadline.after(0)))
    shares = np.bincount(found.block, graph.work, 8) / graph.work.sum()
    assert shares == pytest.approx(np.full(8, 1 / 8), abs=1e-3)


def test_moves_improve_a_large_graph() -> None:
    graph = layered(20_000, 60_000, seed=0)
    instance = Instance(graph, Platform(8, 1.0))
    few, many = (
        portfolio(instance, np.random.default_rng(0), Limits(evaluations=moves)).bottleneck for moves in (1, 1_000_000)
    )
    assert many < few


def test_orders_find_what_moves_do_not() -> None:
    """GNMT is a grid of layers and time steps; in 32 blocks single moves and swaps lead nowhere."""
    instance = next(entry for entry in SUITES["quick"].entries if entry.name == "gnmt").instance(32)
    found, moved = (HEURISTICS[name].run(instance, np.random.default_rng(0)) for name in ("portfolio", "local-search"))
    assert found.bottleneck < 0.99 * moved.bottleneck


def test_an_interrupted_search_returns_what_it_has() -> None:
    stopped = threading.Event()
    stopped.set()
    instance = Instance(regal_style("erdos-renyi", 50, seed=0), Platform(4, 1.0))
    found = portfolio(instance, np.random.default_rng(0), Limits(Deadline(interrupted=stopped)))
    assert 0 < found.bottleneck < instance.graph.work.sum()


def test_same_seed_same_answer() -> None:
    instance = Instance(regal_style("erdos-renyi", 60, seed=0), Platform(6, 1.0))
    limits = Limits(evaluations=50_000)
    blocks = [HEURISTICS["portfolio"].run(instance, np.random.default_rng(s), limits).block.tolist() for s in (0, 0, 1)]
    assert blocks[0] == blocks[1] != blocks[2]
