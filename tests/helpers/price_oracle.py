"""Cheapest blocks of given prices by brute force, the tree that looks for them, and a partition to begin with."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from heuristics import HEURISTICS
from instances import Instance, Partition, Platform
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from mtpp_models.bounds.priced.prices import BlockTree
from mtpp_models.cuts.max_flow import BoolArray


def best_of_kahn(instance: Instance) -> Partition:
    """A partition without a search."""
    return HEURISTICS["kahn"].run(instance, np.random.default_rng(0))


def convex_sets(instance: Instance) -> list[tuple[BoolArray, float]]:
    """All blocks but the empty one, by brute force, with their costs; without a buffer the peak is the largest need."""
    graph, modelled = instance.graph, instance.modelled().with_k(3)
    sets: dict[bytes, tuple[BoolArray, float]] = {}
    for home in itertools.product(range(3), repeat=graph.n):
        if 1 in home and all(home[u] <= home[v] for u, v in graph.edges.tolist()):
            inside = np.array(home) == 1
            if inside.tobytes() not in sets:
                sets[inside.tobytes()] = inside, float(Partition(modelled, home).block_costs[1])
    return list(sets.values())


def cheapest(instance: Instance, prices: FloatArray, short: float = 0.0) -> float:
    """Cost of the cheapest block that is worth its share, of which a small part may be missing."""
    share = math.fsum(prices) / min(instance.k, instance.graph.n) * (1 - short)
    return min(cost for inside, cost in convex_sets(instance) if prices[inside].sum() >= share)


@st.composite
def prices_for(draw: st.DrawFn, n: int) -> FloatArray:
    """Any prices: few, equal, whole, of very different size."""
    price = draw(st.sampled_from([st.integers(0, 3), st.floats(0, 1), st.sampled_from([0.0, 1e-9, 1.0, 1e9])]))
    prices = np.array(draw(st.lists(price, min_size=n, max_size=n)), dtype=np.float64)
    assume(prices.max() > 1e-300)
    return prices


def searched_tree(
    instance: Instance, prices: FloatArray, goal: float, seconds: float = 60.0
) -> tuple[bool, BoolArray | None]:
    return BlockTree(instance, prices, goal).explore(Deadline.after(seconds))


def all_blocks(tree: BlockTree) -> tuple[bool, list[BoolArray]]:
    """Whether nothing stands in the way, and what does."""
    blocks: list[BoolArray] = []
    while True:
        proved, block = tree.explore(Deadline.after(60.0))
        if block is None:
            return proved, blocks
        blocks.append(block)
        tree.pass_by()


def without_overflow(instance: Instance) -> Instance:
    return Instance(instance.graph, Platform(instance.k, instance.platform.bandwidth))
