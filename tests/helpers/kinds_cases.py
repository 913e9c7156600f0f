"""Questions over kinds of devices with known optima, by brute force."""

from __future__ import annotations

import math
from typing import Any

from instances import ComputationGraph, Instance
from instances.machines import Kind, Machines

__all__ = ["GOLDEN", "U1", "chain", "devices", "question"]

Kinds = list[tuple[float, float, int]]


def devices(kinds: Kinds, memories: list[float] | None = None, order: str = "free") -> Machines:
    """Kinds with a speed, a bandwidth and a count each."""
    limits = memories or [math.inf] * len(kinds)
    named = [Kind(f"kind {t}", n, speed=s, bandwidth=b, memory=limits[t]) for t, (s, b, n) in enumerate(kinds)]
    return Machines(named, order)


def question(graph: ComputationGraph, machines: Machines, **words: Any) -> Instance:
    """The question where each kind takes the works of the graph over its speed."""

    return Instance(graph, machines, **words)


def chain(work: list[float], sizes: list[float], **words: Any) -> ComputationGraph:
    """Nodes in a row, each of which reads the one before."""
    edges = [(i, i + 1) for i in range(len(work) - 1)]
    return ComputationGraph.from_edges(edges, work=work, output_bytes=[*sizes, 0], **words)


U1 = chain([4, 2, 3, 1, 5, 3], [2, 1, 3, 1, 2])
_G1 = ComputationGraph.from_edges(
    [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)], work=[2, 6, 3, 6, 3, 2], output_bytes=[2, 1, 1, 1, 1, 0]
)
_SIX = chain([2] * 6, [1] * 5, param_bytes=[1] * 6)
#: Questions and their optima.
GOLDEN = {
    "two kinds": (question(U1, devices([(2, 4, 1), (1, 1, 2)])), 6.25),
    "three speeds": (question(chain([1] * 8, [0] * 7), devices([(4, 1, 1), (2, 1, 1), (1, 1, 1)])), 1.25),
    "memory": (question(_SIX, devices([(4, 1, 1), (1, 1, 2)], [2, 4]), fit=True, activation_buffer=0.0), 5.0),
    "graph": (question(_G1, devices([(2, 2, 1), (1, 1, 2)])), 8.0),
}
