"""Short descriptions of partitioning questions, as texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from instances.devices import Platform
from instances.graph.display import exact_figures, figures
from instances.graph.graph import ComputationGraph
from instances.graph.questions import digest_of
from instances.graph.tensors import FloatArray
from instances.partitioning.constraints import Constraints

# Largest numbers of constraints, and of their characters, that are stated one by one.
_MOST_RULES, _LONGEST_RULES = 8, 100


def instance_in_words(
    graph: ComputationGraph, devices: Iterable[str], rules: Constraints, k: int, need: FloatArray | None, by_need: bool
) -> str:
    """A question of partitioning in one line: its devices, its constraints, its graph."""
    words = [*devices, rules_in_words(rules, k)]
    if need is not None:
        words.append(f"needs of merged nodes {digest_of(need.tolist())}")
    words += ["peaks by need"] if by_need else []
    return f"{', '.join(words)}; {graph_in_words(graph)}"


def platform_in_words(platform: Platform, time_unit: str) -> list[str]:
    """Texts for the number of blocks, bandwidth and memory, such as "k 8", "25 GB/s", "memory unlimited"."""
    rate = exact_figures(platform.bandwidth, f"bytes/{time_unit}")
    words = [f"k {platform.k}", rate, memory_in_words(platform.memory)]
    if platform.activation_buffer is not None:
        words.append(f"of it {exact_figures(platform.activation_buffer, 'bytes')} for activations")
    return [*words, *(["all must fit"] if platform.fit else [])]


def memory_in_words(memory: float) -> str:
    """The memory of a device as a text, such as "memory unlimited"."""
    return f"memory {exact_figures(memory, 'bytes') if math.isfinite(memory) else 'unlimited'}"


def graph_in_words(graph: ComputationGraph) -> str:
    """Text with size and work of a graph, and the first digits of its hash."""
    work = figures(float(graph.work.sum()), graph.time_unit)
    return f"{graph.n} nodes, {graph.m} edges, work {work}, graph {graph.content_hash[:12]}"


def rules_in_words(rules: Constraints, k: int) -> str:
    """The side constraints in words; if there are many, their number and a hash."""
    lines = list(_rule_words(rules.canonical(k)))
    if len(lines) > _MOST_RULES or sum(map(len, lines)) > _LONGEST_RULES:
        return f"{len(lines)} constraints {digest_of(lines)}"
    return ", ".join(lines) or "no constraints"


def _rule_words(rules: Constraints) -> Iterator[str]:
    """Yield a short text for each constraint."""
    for kind, numbers in (("together", rules.together), ("window", rules.windows)):
        yield from (" ".join([kind, *map(str, row)]) for row in numbers)
    yield from (f"uncut {v}" for v in rules.uncut)
    yield from (" ".join(["least", str(count), *map(str, nodes)]) for count, nodes in rules.at_least)
