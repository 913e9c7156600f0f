"""Witnesses of bounds by prices out of the air: trees with decisions, multipliers and pairs of any nodes."""

from __future__ import annotations

from random import Random

from mtpp.verification.partitioning.cuts import PriceTree

__all__ = ["mutated_tree", "random_prices", "random_tree"]


def random_prices(r: Random, n: int) -> list[float]:
    """Prices that are not all 0."""
    prices = [r.choice((0.0, 1.0, r.random(), 1e-9, 1e9)) for _ in range(n)]
    return prices if any(prices) else [1.0] * n


def random_tree(r: Random, n: int) -> PriceTree:
    """A tree over n nodes, no node twice on a path."""
    entries: list[int] = []

    def grow(free: list[int]) -> None:
        if not free or r.random() < 0.3:
            entries.append(-1)
            return
        v = r.choice(free)
        entries.append(v)
        for _ in range(2):
            grow([u for u in free if u != v])

    grow(list(range(n)) if n <= 4 else r.sample(range(n), 4))
    multipliers = [
        r.choice((0.0, 1.0, r.random(), 2 * r.random(), 2000 * r.random())) for _ in range(entries.count(-1))
    ]
    pairs = [(r.randrange(n), r.randrange(n)) for _ in range(r.choice((0, 0, 1, 3)))]
    return PriceTree(entries, multipliers, pairs)


def mutated_tree(r: Random, tree: PriceTree, n: int) -> PriceTree:
    """The tree with another node, another multiplier, or a pair more."""
    entries, multipliers, pairs = list(tree.entries), list(tree.multipliers), list(tree.pairs)
    change = r.randrange(4)
    inner = [i for i, entry in enumerate(entries) if entry >= 0]
    if change == 0 and inner:
        old, new = entries[r.choice(inner)], r.randrange(n)
        swap = {old: new, new: old}
        entries = [swap.get(entry, entry) for entry in entries]
    elif change == 1:
        multipliers[r.randrange(len(multipliers))] *= r.choice((0.0, 0.5, 0.99, 1.01, 2.0))
    elif change == 2:
        r.shuffle(multipliers)
    else:
        pairs.append((r.randrange(n), r.randrange(n)))
    return PriceTree(entries, [min(2047.0, multiplier) for multiplier in multipliers], pairs)
