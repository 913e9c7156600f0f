"""Serving questions by brute force in exact numbers: every cut of a small chain, from the definitions."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
from hypothesis import strategies as st
from kinds_cases import chain

from instances import ComputationGraph, Platform, SharedParameter
from instances.machines import Kind, Machines
from instances.partitioning.problem import Instance
from instances.partitioning.serving import ServingInstance


def cuts(n: int, k: int) -> Iterator[list[int]]:
    """Blocks of all cuts of a chain."""
    for ends in combinations_with_replacement(range(n + 1), k - 1):
        yield [sum(end <= v for end in ends) for v in range(n)]


def cost(question: ServingInstance, block: list[int]) -> Fraction:
    """Time between two batches."""
    return time_a_batch(question, stage_costs(question, block))


def time_a_batch(question: ServingInstance, costs: list[Fraction]) -> Fraction:
    """Time between two batches of stages that take so long: each visits all of them, in flight with some others."""
    return max(max(costs), sum(costs) / question.in_flight if question.in_flight else Fraction(0))


def stage_costs(question: ServingInstance, block: list[int]) -> list[Fraction]:
    """Cost of each block: what it receives once, works and sends once."""
    graph, platform = question.instance.graph, question.instance.platform
    rate = Fraction(platform.bandwidth)
    costs = [Fraction(0)] * platform.k
    for v, work in enumerate(graph.work.tolist()):
        costs[block[v]] += Fraction(work)
    tensors = graph.tensors
    for t, producer in enumerate(tensors.producer.tolist()):
        readers = tensors.consumers[tensors.start[t] : tensors.start[t + 1]].tolist()
        others = {block[v] for v in readers} - {block[producer]}
        for b in others:
            costs[b] += Fraction(float(tensors.bytes[t])) / rate
        if others:
            costs[block[producer]] += Fraction(float(tensors.bytes[t])) / rate
    return costs


def holds(question: ServingInstance, block: list[int], context: int) -> bool:
    """Whether all stages have room for so much context; more context never takes less room."""
    return all(stage_holds(question, block, b, context) for b in range(question.instance.k))


def stage_holds(question: ServingInstance, block: list[int], b: int, context: int) -> bool:
    """Whether stage b has room for so much context."""
    graph, platform = question.instance.graph, question.instance.platform
    nodes = [v for v in range(graph.n) if block[v] == b]
    held = sum(Fraction(float(graph.param_bytes[v])) for v in nodes)
    held += sum(Fraction(p.bytes) for p in graph.parameters if set(p.users) & set(nodes))
    held += max((Fraction(float(question.instance.needs[v])) for v in nodes), default=Fraction(0))
    for v in nodes:
        limit = question.window[v]
        tokens = context if limit == math.inf else min(Fraction(context), Fraction(float(limit)))
        held += (question.in_flight or 1) * Fraction(float(question.token_bytes[v])) * tokens
    return held <= Fraction(platform.memory)


def legal(question: ServingInstance, block: list[int]) -> bool:
    """Whether the constraints allow it."""
    rules = question.instance.constraints
    counts = [[sum(block[v] == b for v in nodes) for b in range(question.instance.k)] for _, nodes in rules.at_least]
    return (
        all(len({block[v] for v in group}) <= 1 for group in rules.together)
        and all(first <= block[v] <= last for v, first, last in rules.windows)
        and all(min(held) >= count for held, (count, _) in zip(counts, rules.at_least, strict=True))
    )


@st.composite
def serving_questions(draw: st.DrawFn) -> ServingInstance:
    """Chains with tensors that skip nodes, shared parameters, windows of attention and constraints; small numbers."""
    n, k = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    small = st.integers(0, 6).map(float)

    def row(values: st.SearchStrategy[float] = small) -> list[float]:
        return draw(st.lists(values, min_size=n, max_size=n))

    nodes = st.integers(0, n - 1)
    skips = [(u, v) for u, v in draw(st.lists(st.tuples(nodes, nodes), max_size=3)) if u < v]
    shared = [
        SharedParameter(f"p{i}", size, tuple(sorted(users)))
        for i, (size, users) in enumerate(
            draw(st.lists(st.tuples(small, st.sets(nodes, min_size=min(2, n))), max_size=2))
        )
    ]
    graph = ComputationGraph.from_edges(
        [(v - 1, v) for v in range(1, n)] + skips,
        work=row(),
        output_bytes=row(),
        param_bytes=row(),
        parameters=tuple(shared),
    )
    words = {}
    if n >= k and draw(st.booleans()):
        words["at_least"] = [(1, list(range(n)))]
    if n > 1 and draw(st.booleans()):
        first = draw(st.integers(0, n - 2))
        words["together"] = [[first, first + 1]] if len(words) == 0 or n > k else []
    memory = draw(st.integers(0, 60))
    return ServingInstance(
        instance=Instance(graph, Platform(k, 2.0, memory, fit=True), by_need=True, **words),
        token_bytes=np.array(row()),
        window=np.array(row(st.sampled_from([0.0, 2.0, 3.0, 7.0, math.inf, math.inf]))),
        context=draw(st.integers(1, 3)),
        batch=1,
        in_flight=draw(st.none() | st.integers(1, k)),
    )


def draw_served(rng: random.Random) -> ServingInstance:
    """A chain over two kinds of devices, with small whole numbers."""
    n, order = rng.randint(2, 5), rng.choice(["free", "fixed"])
    kinds = [
        Kind(f"{t}", rng.randint(1, 2), speed=t + 1.0, memory=rng.randint(8, 60), bandwidth=rng.choice([1, 2.5]))
        for t in range(2)
    ]
    graph = chain([0] * n, [rng.randint(0, 5) for _ in range(n - 1)], param_bytes=[rng.randint(0, 6) for _ in range(n)])
    works = [[rng.randint(0, 9) for _ in range(n)] for _ in kinds]
    rates = [[rng.choice([0.5, 1, 2.5, math.inf]) for _ in kinds] for _ in kinds] if rng.random() < 0.5 else None
    devices = Machines(kinds, order, rates)
    k = devices.total if order == "fixed" else rng.randint(1, devices.total)
    return ServingInstance(
        instance=Instance(graph, devices, by_need=True, k=k, works=works, fit=True),
        token_bytes=np.array([rng.randint(0, 4) for _ in range(n)], dtype=float),
        window=np.array([rng.choice([0.0, 3.0, math.inf]) for _ in range(n)]),
        context=rng.randint(1, 3),
        batch=1,
    )
