"""Tiny questions with side constraints and hard memory, by trying all assignments; shares no code with the project."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from subset_oracle import Case, least_peak, numbers, peak

__all__ = ["RuledCase", "fits", "least_bottleneck", "obedient"]


@dataclass(frozen=True)
class RuledCase(Case):
    """A case with what its partitions have to obey.

    Parameters
    ----------
    together : list of list of int
    windows : list of [node, first, last]
    uncut : list of int
    at_least : list of [count, nodes]
    """

    together: list[list[int]] = field(default_factory=list)
    windows: list[list[int]] = field(default_factory=list)
    uncut: list[int] = field(default_factory=list)
    at_least: list[tuple[int, list[int]]] = field(default_factory=list)

    @property
    def overflows(self) -> bool:
        """Whether what does not fit takes time."""
        return not self.fit and super().overflows

    def fewer_rules(self) -> Iterator[RuledCase]:
        """The case with one rule less each."""
        if self.fit:
            yield dataclasses.replace(self, fit=False)
        for name in ("together", "windows", "uncut", "at_least"):
            rules = getattr(self, name)
            for i in range(len(rules)):
                yield dataclasses.replace(self, **{name: rules[:i] + rules[i + 1 :]})
        for name in ("together", "at_least"):
            rules = getattr(self, name)
            for i, rule in enumerate(rules):
                nodes = rule if name == "together" else rule[1]
                for j in range(len(nodes)):
                    fewer = nodes[:j] + nodes[j + 1 :]
                    changed = fewer if name == "together" else (rule[0], fewer)
                    yield dataclasses.replace(self, **{name: [*rules[:i], changed, *rules[i + 1 :]]})

    def rules_without(self, v: int) -> dict[str, Any]:
        """The rules where node v is gone and those behind it move up."""

        def renamed(nodes: Sequence[int]) -> list[int]:
            return [w - (w > v) for w in nodes if w != v]

        return {
            "together": [renamed(group) for group in self.together],
            "windows": [[w - (w > v), first, last] for w, first, last in self.windows if w != v],
            "uncut": renamed(self.uncut),
            "at_least": [(count, renamed(nodes)) for count, nodes in self.at_least],
        }


def obedient(case: RuledCase) -> list[tuple[int, ...]]:
    """All assignments of blocks whose edges point forwards and that obey each rule, word by word."""
    return [blocks for blocks in itertools.product(range(case.k), repeat=case.n) if _obeys(case, blocks)]


def _obeys(case: RuledCase, blocks: Sequence[int]) -> bool:
    for u, _, readers in case.tensors:
        if any(blocks[u] > blocks[v] for v in readers):
            return False
        if u in case.uncut and any(blocks[u] != blocks[v] for v in readers):
            return False
    for group in case.together:
        if len({blocks[v] for v in group}) > 1:
            return False
    for v, first, last in case.windows:
        if not first <= blocks[v] <= last:
            return False
    for count, nodes in case.at_least:
        for b in range(case.k):
            if len([v for v in nodes if blocks[v] == b]) < count:
                return False
    return True


def fits(case: Case, blocks: Sequence[int], order: Sequence[int] | None = None, *, orders: bool = False) -> bool:
    """Whether each block has room for what it holds; its peak is that of the order, or the largest need of a node.

    With `orders`, it is the least one of all orders.
    """
    if case.memory == math.inf:
        return True
    exact = numbers(case, exact=True)
    for b in range(case.k):
        nodes = [v for v in (range(case.n) if order is None else order) if blocks[v] == b]
        if not nodes:
            continue
        held = sum(Fraction(case.params[v]) for v in nodes)
        held += sum(Fraction(size) for size, users in case.shared if any(v in users for v in nodes))
        if case.buffer is not None:
            held += Fraction(case.buffer)
        elif orders:
            held += least_peak(exact, sum(1 << v for v in nodes))
        elif order is None:
            held += max(peak(exact, [v]) for v in nodes)
        else:
            held += peak(exact, nodes)
        if held > Fraction(case.memory):
            return False
    return True


def least_bottleneck(
    case: RuledCase, assignments: Sequence[Sequence[int]], *, exact: bool, orders: bool = False
) -> Any:
    """Least of what the assignments cost, where a peak counts as the largest need of a node; infinite for none.

    With `orders`, it counts as the least one of all orders.
    """
    times = numbers(case, exact=exact)
    needs = [peak(times, [v]) for v in range(case.n)]
    costs: dict[tuple[int, ...], Any] = {(): times.zero}
    best: Any = math.inf
    for blocks in assignments:
        dearest = times.zero
        for b in range(case.k):
            nodes = tuple(v for v in range(case.n) if blocks[v] == b)
            if nodes not in costs:
                block = sum(1 << v for v in nodes)
                live = least_peak(times, block) if orders else max(needs[v] for v in nodes)
                costs[nodes] = times.cost(block, live if case.buffer is None else times.kind(case.buffer))
            dearest = max(dearest, costs[nodes])
        best = min(best, dearest)
    return best
