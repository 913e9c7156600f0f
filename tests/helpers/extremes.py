"""Tiny questions on extreme platforms from a number: for fixed examples, and for the hunter of new ones."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
from subset_oracle import Case

from instances import ComputationGraph, Instance, Platform, SharedParameter
from instances.graph.tensors import Tensors
from instances.machines import Machines
from instances.placement.problem import PlacementInstance

__all__ = ["build", "build_placement", "graph_of", "random_case"]

# Numbers of one kind in a graph, so that ties and huge ratios are frequent.
_KINDS: tuple[Callable[[random.Random], float], ...] = (
    lambda r: 0.0,
    lambda r: 3.0,
    lambda r: float(r.randrange(10)),
    lambda r: float(r.randrange(10)),
    lambda r: r.uniform(0, 10),
    lambda r: 10 ** r.uniform(-12, 12),
    lambda r: r.choice((0.0, 1e-12, 1.0, 1e12)),
    lambda r: r.choice((0.0, 1.0, 1.0 + 1e-12, 2.0)),
)
_HUGE = (1e11, 1.4e11, 1e17, 1e300)
_BANDWIDTHS = (math.inf, math.inf, 1.0, 1.0, 1.0, 0.25, 0.1, 3.0, 1e3, 1e-12, 1e12, 1e-300, 1e300)


def random_case(r: random.Random, most_nodes: int = 6) -> Case:
    """A random graph on a random platform; costs may be too large for floats.

    Several outputs a node or none, unread and huge tensors, shared parameters of any number of users, parts without
    an edge between them, more blocks than nodes; memory none, just enough, huge or infinite, buffers beyond it.
    """
    n = r.randint(1, most_nodes)
    times, sizes, params = (r.choice(_KINDS) for _ in range(3))
    order = r.sample(range(n), n)
    density = r.choice((0.0, 0.3, 0.6, 1.0))
    tensors = []
    for i, u in enumerate(order):
        for _ in range(r.choice((0, 1, 1, 1, 2))):
            readers = sorted(v for v in order[i + 1 :] if r.random() < density)
            size = sizes(r)
            if r.random() < (0.15 if not readers else 0.03):
                size = r.choice(_HUGE)
            tensors.append((u, size, readers))
    shared = [(params(r), sorted(r.sample(range(n), r.randint(0, n)))) for _ in range(r.choice((0, 0, 1, 2)))]
    held = [params(r) for _ in range(n)]
    buffer = r.choice((None, None, 0.0, 0.0, 2.0, 10.0, 1e12))
    some = sum(size for size in held if r.random() < 0.5) + (buffer or 0.0)
    memory = r.choice(
        (math.inf, math.inf, 0.0, 5e-324, 1.0, 5.0, 12.5, 40.0, some, some, some * (1 + 1e-9), 1e12, 1e30, 1e308)
    )
    k = r.choice((1, 2, 2, 3, 3, 4, n, n + 2))
    work = [times(r) for _ in range(n)]
    return Case(work, held, sorted(tensors), shared, k, r.choice(_BANDWIDTHS), memory, buffer)


def graph_of(case: Case) -> ComputationGraph:
    """The graph of a case."""
    starts = np.cumsum([0, *(len(readers) for _, _, readers in case.tensors)])
    tensors = Tensors(
        np.array([u for u, _, _ in case.tensors], dtype=np.int64),
        np.array([size for _, size, _ in case.tensors], dtype=np.float64),
        starts,
        np.array([v for _, _, readers in case.tensors for v in readers], dtype=np.int64),
    )
    parameters = tuple(SharedParameter(f"p{i}", size, tuple(users)) for i, (size, users) in enumerate(case.shared))
    return ComputationGraph(np.array(case.work), np.array(case.params), tensors, parameters=parameters)


def build(case: Case) -> Instance:
    """The instance of a case.

    Raises
    ------
    InputError
        If its costs are too large for floats.
    """
    return Instance(graph_of(case), Platform(case.k, case.bandwidth, case.memory, case.buffer, case.fit))


def build_placement(case: Case) -> PlacementInstance:
    """The same graph, to be placed on k devices.

    Raises
    ------
    InputError
        If no node has work, or there is no memory.
    """
    return PlacementInstance(graph_of(case), Machines.alike(case.k, case.bandwidth, case.memory))
