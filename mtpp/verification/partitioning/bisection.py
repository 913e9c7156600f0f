r"""Check of bounds by two halves, the first h blocks and the others, with h = ⌈k / 2⌉.

Merged, each costs at most h bottlenecks: what either holds beyond h times the memory its blocks hold beyond theirs, if
a block has room at all, and in any case a half with nodes has a block with nodes. Two more nodes, before all others and
behind them, belong to the first half and the last. So a h-th of what a price tree proves of two blocks of the longer
graph bounds the bottleneck. The prices are fixed: each node has its work, and each of the two more all work together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from mtpp.verification.clock import Clock
from mtpp.verification.partitioning.cuts import CutBound
from mtpp.verification.partitioning.ends import with_ends
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.price_trees import PriceTree, tree_bound

__all__ = ["halves_bound"]


def halves_bound(
    exact: ExactInstance, group: Sequence[int], tree: PriceTree, value: Fraction, clock: Clock
) -> CutBound:
    """Bound that a tree over the longer graph proves, at most a value; parameters are those of `tree_bound`."""
    halves, total = -(-exact.k // 2), sum(exact.work)
    if not total:
        return CutBound(Fraction(0), Fraction(0), 0)
    ends = [exact.n, exact.n + 1]
    times = halves if exact.room is not None and exact.room >= 0 else 1
    two = replace(
        with_ends(exact),
        k=2,
        memory=None if exact.memory is None else times * exact.memory,
        buffer=None if exact.buffer is None else times * exact.buffer,
    )
    found = tree_bound(two, [*group, *ends], [*exact.work, total, total], tree, value * halves, clock)
    return CutBound(found.least / halves, found.lost / halves, found.cuts)
