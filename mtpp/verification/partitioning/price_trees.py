r"""Check of bounds by node prices: a tree of decisions in each leaf of which no cheap block is worth its share.

Let k' be the smaller of k and the number of nodes with a price above 0, and
:math:`w_v = \lceil 2^{40} k' price_v / \sum price \rceil`. The blocks of any partition share all prices, at most k' of
them have any, and so some block S has :math:`w(S) \ge 2^{40}`. If S holds two nodes of a listed pair, it costs at least
what a block with both does. Else it lies in one leaf of the tree, with all that follows from the decisions there for
blocks without such pairs, and costs at least the bound of that leaf by its multiplier. So the least of all pairs and
leaves is a bound on every bottleneck.

All of this is of the graph in the file, where nodes that have to share a block are one: no other reduction is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.json_files import Value
from mtpp.verification.clock import Clock
from mtpp.verification.partitioning.cuts import UNIT, BlockCuts, CutBound
from mtpp.verification.partitioning.exact_instance import ExactInstance, Rational
from mtpp.verification.partitioning.kernel import IN, OUT, SHARE

__all__ = ["PriceTree", "read_tree", "tree_bound"]

# Entry of a tree that is a leaf; most leaves, and the largest multiplier in parts of the goal.
_LEAF, _MOST_LEAVES, _LARGEST = -1, 50_000, 2047.0
# Parts of the overflow by which leaves are bounded.
_PARTS = tuple(Fraction(part, 4) for part in range(5))


class PriceTree(NamedTuple):
    """Tree in pre-order, behind a node first what has it in the block; a multiplier a leaf, and pairs of nodes."""

    entries: Sequence[int]
    multipliers: Sequence[float]  # in parts of the value that shall be proved
    pairs: Sequence[tuple[int, int]]


def read_tree(parameters: Value, n: int) -> PriceTree:
    """Read the members `tree`, `multipliers` and `apart` of a bound; n is the number of nodes in the file.

    Raises
    ------
    InputError
        If they are no tree over these nodes.
    """
    fields = parameters.open_members(("tree", "multipliers", "apart"))
    entries, multipliers = fields["tree"].whole_numbers(), fields["multipliers"].numbers()
    leaves = entries.count(_LEAF)
    if leaves > _MOST_LEAVES:
        fields["tree"].fail(f"it has {leaves} leaves; {_MOST_LEAVES} are the most.")
    if len(entries) != 2 * leaves - 1:
        fields["tree"].fail(f"{leaves} leaves among {len(entries)} entries are no tree; it may be cut short.")
    if len(multipliers) != leaves:
        fields["multipliers"].fail(f"there are {len(multipliers)} for {leaves} leaves.")
    for i, multiplier in enumerate(multipliers):
        if not 0 <= multiplier <= _LARGEST:
            fields["multipliers"].fail(f"number {i} is {multiplier}; they are from 0 to {_LARGEST:g}.")
    pairs = [pair.whole_numbers() for pair in fields["apart"].items()]
    for name, nodes in (("tree", [v for v in entries if v != _LEAF]), ("apart", [v for pair in pairs for v in pair])):
        for v in nodes:
            if not 0 <= v < n:
                fields[name].fail(f"there is no node {v}; there are {n}.")
    if any(len(pair) != 2 for pair in pairs):
        fields["apart"].fail("an item has not two nodes.")
    for _ in _leaves(entries, range(n), fields["tree"]):
        pass
    return PriceTree(entries, multipliers, [(u, v) for u, v in pairs])


def tree_bound(
    exact: ExactInstance,
    group: Sequence[int],
    prices: Sequence[Rational],
    tree: PriceTree,
    value: Fraction,
    clock: Clock,
) -> CutBound:
    """Bound that a tree proves, at most a value.

    Parameters
    ----------
    exact : ExactInstance
    group : (n,) integers
        Node of `exact` that holds each node of the file.
    prices : numbers
        Of the nodes of `exact`, not negative, not all 0.
    tree : PriceTree
    value : Fraction
        Positive.
    clock : Clock

    Raises
    ------
    OutOfTimeError
    """
    full = Fraction(SHARE * min(exact.k, sum(price > 0 for price in prices))) / sum(prices)
    weights = [min(SHARE, (full * price).__ceil__()) for price in prices]
    pairs = {(group[u], group[v]) for u, v in tree.pairs}
    alone = BlockCuts(exact, value)
    least = UNIT
    for u, v in pairs:
        clock.raise_if_late()
        least = min(least, alone.least((u, v)))
    cuts = BlockCuts(exact, value, weights, pairs, _PARTS)
    for decided, multiplier in zip(_leaves(tree.entries, group), tree.multipliers, strict=True):
        clock.raise_if_late()
        least = min(least, cuts.least_decided(decided, int(multiplier * UNIT)))
        if least == 0:
            break
    return CutBound(value * least / UNIT, cuts.lost, len(pairs) + len(tree.multipliers))


def _leaves(entries: Sequence[int], group: Sequence[int], place: Value | None = None) -> Iterator[NDArray[np.int8]]:
    """Yield the decisions of each leaf on the nodes of a group each; what is no tree is refused at its place.

    Where nodes of one group are decided one below the other, the first decision stays: fewer exclude no block.
    """
    decided = np.zeros(max(group) + 1, dtype=np.int8)
    path: list[tuple[int, bool, bool]] = []  # node, whether it was decided here, whether it is now left out
    ended = False
    for i, entry in enumerate(entries):
        if ended and place is not None:
            place.fail(f"the tree ends before entry {i}.")
        if entry != _LEAF:
            v = group[entry]
            if decided[v] and place is not None:
                place.fail(f"node {entry} of entry {i} is decided above.")
            path.append((v, not decided[v], False))
            decided[v] = decided[v] or IN
            continue
        yield decided
        while path and path[-1][2]:
            v, here, _ = path.pop()
            decided[v] = 0 if here else decided[v]
        ended = not path
        if path:
            v, here, _ = path.pop()
            path.append((v, here, True))
            decided[v] = OUT if here else decided[v]
