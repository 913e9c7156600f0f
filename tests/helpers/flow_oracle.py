"""Largest flows of tiny questions of flow by trying all intervals; shares no code with the project."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

__all__ = [
    "FlowCase",
    "StepsCase",
    "draw_flow",
    "draw_sparse_flow",
    "draw_steps",
    "largest_flow",
    "largest_flow_of_steps",
]


@dataclass(frozen=True)
class FlowCase:
    """A question as plain numbers."""

    layers: int
    kind: list[int]
    capacity: list[dict[int, int]]  # requests by number of layers, a kind
    links: dict[tuple[str, str], int]  # between devices, named by number, "source" and "sink"


@dataclass(frozen=True)
class StepsCase:
    """A question with steps, of 1, 2, … sequences."""

    layers: int
    kind: list[int]
    slots: list[dict[int, int]]  # by number of layers, a kind
    seconds: list[dict[int, list[int]]]  # of steps by number of layers and sequences, 1 to 8
    links: dict[tuple[str, str], int]  # sequences per second
    in_flight: int | None


#: Whole multiples of it over 1 to 8 seconds are whole numbers.
_SECONDS = 840


def draw_steps(rng: random.Random) -> StepsCase:
    """A random question with up to three devices and layers."""
    layers, n, density = rng.randint(1, 3), rng.randint(1, 3), rng.choice((0.6, 1.0))
    kind = [rng.randrange(2) for _ in range(n)]
    slots, seconds = [], []
    for _ in range(2):
        most, rows = [rng.randint(0, 9)], {}
        for c in range(1, layers + 1):
            most.append(rng.randint(0, most[-1]) if c > 1 else most[0])
            first = rng.randint(1, 4)
            rows[c] = sorted(min(8, first + rng.randint(0, 4)) for _ in range(rng.choice((3, 3, 4))))[:3]
        slots.append(dict(enumerate(most[1:], 1)))
        seconds.append(rows)
    ends = [*map(str, range(n)), "source", "sink"]
    links = {
        (u, v): rng.choice((100, rng.randint(1, 4)))
        for u, v in product(ends, ends)
        if u != v and u != "sink" and v != "source" and (u, v) != ("source", "sink") and rng.random() < density
    }
    return StepsCase(layers, kind, slots, seconds, links, rng.choice((None, None, 1, 2, 3)))


def largest_flow_of_steps(case: StepsCase) -> Fraction:
    """The largest flow of all groups of devices, intervals, numbers of batches in flight and ticks."""
    devices = range(len(case.kind))
    alone = {
        group: _largest_flow_of_group(case, group)
        for size in range(1, len(case.kind) + 1)
        for group in combinations(devices, size)
    }
    numbers = product(devices, repeat=len(case.kind))
    divisions = [[tuple(i for i in devices if number[i] == g) for g in devices] for number in numbers]
    return max(sum((alone[group] for group in groups if group), Fraction(0)) for groups in divisions)


def _largest_flow_of_group(case: StepsCase, group: tuple[int, ...]) -> Fraction:
    """The largest flow of some devices that step together."""
    largest, names = Fraction(0), {str(i): str(x) for x, i in enumerate(group)} | {"source": "source", "sink": "sink"}
    links = {(names[u], names[v]): rate * _SECONDS for (u, v), rate in case.links.items() if u in names and v in names}
    for m in range(1, len(group) + 1) if case.in_flight is None else (case.in_flight,):
        for tick in range(1, 9):
            capacity: list[dict[int, int]] = []
            for slots, rows in zip(case.slots, case.seconds, strict=True):
                capacity.append({})
                for c, row in rows.items():
                    sizes = [b for b, second in enumerate(row, 1) if second <= tick and m * b <= slots[c]]
                    if sizes:
                        capacity[-1][c] = max(sizes) * _SECONDS // tick
            inside = FlowCase(case.layers, [case.kind[i] for i in group], capacity, links)
            largest = max(largest, largest_flow(inside, m) / _SECONDS)
    return largest


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
        for t, span in zip(case.kind, choice, strict=True):
            for layer in range(*span) if span else ():
                held[layer] += case.capacity[t][span[1] - span[0]]
        if min(held) > largest and (longest is None or _longest_path(case, choice) <= longest):
            largest = max(largest, _flow(case, choice))
    return Fraction(largest)


def _longest_path(case: FlowCase, choice: tuple[tuple[int, int] | None, ...]) -> int:
    """Devices on the longest path from the source to the sink; below 0 without one."""

    def behind(i: int, end: int) -> int:
        paths = [0] if end == case.layers and case.links.get((str(i), "sink")) else [-len(choice) - 1]
        for j, span in enumerate(choice):
            if span is not None and j != i and span[0] == end and case.links.get((str(i), str(j))):
                paths.append(1 + behind(j, span[1]))
        return max(paths)

    firsts = [
        (i, span[1]) for i, span in enumerate(choice) if span and span[0] == 0 and case.links.get(("source", str(i)))
    ]
    return max((1 + behind(i, end) for i, end in firsts), default=-1)


def _flow(case: FlowCase, choice: tuple[tuple[int, int] | None, ...]) -> int:
    """Most flow, by paths of depth-first search."""
    left: dict[str, dict[str, int]] = {}

    def join(tail: str, head: str, size: int) -> None:
        left.setdefault(tail, {})[head] = size
        left.setdefault(head, {}).setdefault(tail, 0)

    for i, span in enumerate(choice):
        if span is None:
            continue
        join(f"in {i}", f"out {i}", case.capacity[case.kind[i]][span[1] - span[0]])
        if span[0] == 0:
            join("source", f"in {i}", case.links.get(("source", str(i)), 0))
        if span[1] == case.layers:
            join(f"out {i}", "sink", case.links.get((str(i), "sink"), 0))
        for j, other in enumerate(choice):
            if other is not None and j != i and other[0] == span[1]:
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
