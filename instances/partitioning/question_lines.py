"""Questions of partitioning as lines of text, and in a few words."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator

from instances.devices import Platform
from instances.graph.display import exact_figures, figures
from instances.graph.graph import ComputationGraph
from instances.graph.question_lines import digest_of, graph_lines, said_number, shared_lines
from instances.graph.tensors import FloatArray
from instances.partitioning.constraints import Constraints

# Constraints, and their characters, that are stated one by one.
_MOST_RULES, _LONGEST_RULES = 8, 100


def instance_lines(
    graph: ComputationGraph, platform: Platform, rules: Constraints, need: FloatArray | None, by_need: bool
) -> Iterator[str]:
    """All lines of a question of partitioning but the first two."""
    yield from platform_lines(graph, platform)
    yield from graph_lines(graph)
    yield from shared_lines(graph)
    yield from rule_lines(rules, platform.k)
    if need is not None:  # of merged nodes; questions of users have none
        yield " ".join(["need", *map(said_number, need.tolist())])
    if by_need:
        yield "by need"


def platform_lines(graph: ComputationGraph, platform: Platform) -> Iterator[str]:
    """The time unit, the number of blocks, and the devices."""
    yield f"unit {json.dumps(graph.time_unit)[1:-1]}"
    yield f"k {platform.k}"
    yield f"bandwidth {said_number(platform.bandwidth)}"
    yield f"memory {said_number(platform.memory)}"
    yield f"buffer {said_number(platform.activation_buffer)}"
    yield f"fit {int(platform.fit)}"


def rule_lines(rules: Constraints, k: int) -> Iterator[str]:
    """Side constraints, each kind sorted as texts: groups that overlap are one, windows of a node are intersected."""
    yield from sorted(" ".join(["together", *map(str, group)]) for group in _united(rules.together))
    windows: dict[int, tuple[int, int]] = {}
    for v, first, last in rules.windows:
        begin, end = windows.get(v, (0, k - 1))
        windows[v] = max(begin, first), min(end, last)
    yield from sorted(f"window {v} {a} {b}" for v, (a, b) in windows.items() if (a, b) != (0, k - 1))
    yield from sorted(f"uncut {v}" for v in set(rules.uncut))
    yield from sorted(" ".join(["least", str(count), *map(str, sorted(nodes))]) for count, nodes in rules.at_least)


def _united(groups: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    """Groups of two nodes or more, those that overlap as one."""
    united: list[set[int]] = []
    for group in groups:
        touching = [other for other in united if not other.isdisjoint(group)]
        united = [other for other in united if other.isdisjoint(group)] + [set(group).union(*touching)]
    return [sorted(group) for group in united if len(group) > 1]


def instance_in_words(
    graph: ComputationGraph, devices: Iterable[str], rules: Constraints, k: int, need: FloatArray | None, by_need: bool
) -> str:
    """A question of partitioning in one line: its devices, its constraints, its graph."""
    words = [*devices, rules_in_words(rules, k)]
    if need is not None:
        words.append(f"needs of merged nodes {digest_of(map(said_number, need.tolist()))}")
    words += ["peaks by need"] if by_need else []
    return f"{', '.join(words)}; {graph_in_words(graph)}"


def platform_in_words(platform: Platform, time_unit: str) -> list[str]:
    """Number of blocks and devices, such as "k 8", "25 GB/s", "memory unlimited"."""
    rate = exact_figures(platform.bandwidth, f"bytes/{time_unit}")
    words = [f"k {platform.k}", rate, memory_in_words(platform.memory)]
    if platform.activation_buffer is not None:
        words.append(f"of it {exact_figures(platform.activation_buffer, 'bytes')} for activations")
    return [*words, *(["all must fit"] if platform.fit else [])]


def memory_in_words(memory: float) -> str:
    """The memory of a device."""
    return f"memory {exact_figures(memory, 'bytes') if math.isfinite(memory) else 'unlimited'}"


def graph_in_words(graph: ComputationGraph) -> str:
    """Size and work of a graph, and the first digits of its hash."""
    work = figures(float(graph.work.sum()), graph.time_unit)
    return f"{graph.n} nodes, {graph.m} edges, work {work}, graph {graph.content_hash[:12]}"


def rules_in_words(rules: Constraints, k: int) -> str:
    """The side constraints; where they are many, their number and the first digits of their hash."""
    lines = list(rule_lines(rules, k))
    if len(lines) > _MOST_RULES or sum(map(len, lines)) > _LONGEST_RULES:
        return f"{len(lines)} constraints {digest_of(lines)}"
    return ", ".join(lines) or "no constraints"
