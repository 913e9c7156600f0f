"""Largest flows of tiny questions of flow by trying all intervals; shares no code with the project."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

__all__ = ["FlowCase", "draw_flow", "draw_sparse_flow", "largest_flow"]


@dataclass(frozen=True)
class FlowCase:
    """A question as plain numbers."""

    layers: int
    kind: list[int]
    capacity: list[dict[int, int]]  # requests by number of layers, a kind
    links: dict[tuple[str, str], int]  # between devices, named by number, "source" and "sink"


def draw_flow(rng: random.Random) -> FlowCase:
    """A random question with up to four devices and five layers; device 0 may be at an end of all links."""
    layers, n = rng.randint(1, 5), rng.randint(1, 4)
    kinds = rng.randint(1, min(2, n))
    kind = [rng.randrange(kinds) for _ in range(n)]
    capacity = []
    for _ in range(kinds):
        most, row = rng.randint(1, layers), {}
        rate = rng.randint(4, 14)
        for c in range(1, most + 1):
            row[c] = max(1, rate)
            rate -= rng.randint(0, 5)
        capacity.append(row)
    ends = [*map(str, range(n)), "source", "sink"]
    free = rng.random() < 0.3
    ends_at_hub = {"0", "source", "sink"} if rng.random() < 0.4 else set(ends)
    links = {}
    for u, v in product(ends, ends):
        if u not in ends_at_hub and v not in ends_at_hub:
            continue
        if u != v and u != "sink" and v != "source" and (u, v) != ("source", "sink") and rng.random() < 0.9:
            links[u, v] = 100 if free or (rng.random() < 0.4) else rng.randint(1, 12)
    return FlowCase(layers, kind, capacity, links)


def draw_sparse_flow(rng: random.Random) -> FlowCase:
    """A random question with up to five devices, four layers, and 30 to 90 % of the links."""
    layers, n, density = rng.randint(1, 4), rng.randint(1, 5), rng.choice((0.3, 0.5, 0.9))
    kind = [rng.randrange(n) for _ in range(n)]
    capacity = []
    for _ in range(n):
        row, rate = {}, rng.randint(4, 20)
        for c in range(1, rng.randint(1, layers) + 1):
            row[c] = max(1, rate)
            rate -= rng.randint(0, 5)
        capacity.append(row)
    ends = [*map(str, range(n)), "source", "sink"]
    links = {
        (u, v): rng.choice((100, rng.randint(1, 12)))
        for u, v in product(ends, ends)
        if u != v and u != "sink" and v != "source" and (u, v) != ("source", "sink") and rng.random() < density
    }
    return FlowCase(layers, kind, capacity, links)


def largest_flow(case: FlowCase, longest: int | None = None) -> Fraction:
    """The largest flow of all intervals of all devices, with so many devices on a path at the most."""
    intervals = [(a, b) for a in range(case.layers) for b in range(a + 1, case.layers + 1)]
    ways = [[None, *(i for i in intervals if i[1] - i[0] in case.capacity[t])] for t in case.kind]
    largest = 0
    for choice in product(*ways):
        held = [0] * case.layers  # no layer passes more than its devices do
        for t, own in zip(case.kind, choice, strict=True):
            for layer in range(*own) if own else ():
                held[layer] += case.capacity[t][own[1] - own[0]]
        if min(held) > largest and (longest is None or _longest_path(case, choice) <= longest):
            largest = max(largest, _flow(case, choice))
    return Fraction(largest)


def _longest_path(case: FlowCase, choice: tuple[tuple[int, int] | None, ...]) -> int:
    """Devices on the longest path from the source to the sink; below 0 without one."""

    def behind(i: int, end: int) -> int:
        paths = [0] if end == case.layers and case.links.get((str(i), "sink")) else [-len(choice) - 1]
        for j, own in enumerate(choice):
            if own is not None and j != i and own[0] == end and case.links.get((str(i), str(j))):
                paths.append(1 + behind(j, own[1]))
        return max(paths)

    firsts = [(i, own[1]) for i, own in enumerate(choice) if own and own[0] == 0 and case.links.get(("source", str(i)))]
    return max((1 + behind(i, end) for i, end in firsts), default=-1)


def _flow(case: FlowCase, choice: tuple[tuple[int, int] | None, ...]) -> int:
    """Most flow, by paths of depth-first search."""
    left: dict[str, dict[str, int]] = {}

    def join(tail: str, head: str, size: int) -> None:
        left.setdefault(tail, {})[head] = size
        left.setdefault(head, {}).setdefault(tail, 0)

    for i, own in enumerate(choice):
        if own is None:
            continue
        join(f"in {i}", f"out {i}", case.capacity[case.kind[i]][own[1] - own[0]])
        if own[0] == 0:
            join("source", f"in {i}", case.links.get(("source", str(i)), 0))
        if own[1] == case.layers:
            join(f"out {i}", "sink", case.links.get((str(i), "sink"), 0))
        for j, other in enumerate(choice):
            if other is not None and j != i and other[0] == own[1]:
                join(f"out {i}", f"in {j}", case.links.get((str(i), str(j)), 0))
    total = 0

    def push(node: str, size: int, seen: set[str]) -> int:
        if node == "sink":
            return size
        seen.add(node)
        for head, room in left.get(node, {}).items():
            if room > 0 and head not in seen and (pushed := push(head, min(size, room), seen)):
                left[node][head] -= pushed
                left[head][node] += pushed
                return pushed
        return 0

    while pushed := push("source", 10**9, set()):
        total += pushed
    return total
