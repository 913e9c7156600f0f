"""Stages of a serving front in exact numbers: what they cost, hold and have room for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from instances.partitioning.stated_serving import StatedServing
from mtpp.verification.clock import Clock
from mtpp.verification.kinds.rates import times_between

__all__ = ["Stage", "caches_of", "context_of", "holds", "is_rated", "stages_of", "times_of_places", "with_transfers"]


class Stage(NamedTuple):
    """Cost and memory of an interval of nodes."""

    cost: Fraction  # in the time unit of the work
    weights: Fraction  # bytes
    activations: Fraction  # bytes
    first: int  # node
    end: int


def is_rated(stated: StatedServing) -> bool:
    """Whether there is a rate for each pair of kinds."""
    return not stated.instance.is_alike and stated.instance.rates is not None


def times_of_places(stated: StatedServing) -> list[list[list[Fraction]]]:
    """Time of what passes each place between nodes, from kind to kind."""
    tensors = stated.instance.graph.tensors
    passing = [Fraction(0)] * (stated.instance.graph.n + 1)
    read = (tensors.start[1:] > tensors.start[:-1]).tolist()
    for producer, size, own in zip(tensors.producer.tolist(), tensors.bytes.tolist(), read, strict=True):
        passing[producer + 1] += Fraction(size) if own else 0
    return times_between(stated.instance, passing)


def with_transfers(stated: StatedServing, held: list[Stage], kinds: list[int]) -> list[Stage]:
    """The stages of a cut with what passes between them at the rates of their kinds, if there are rates for pairs."""
    if not is_rated(stated):
        return held
    times, costs = times_of_places(stated), [stage.cost for stage in held]
    filled = [s for s, stage in enumerate(held) if stage.first < stage.end]
    for s, t in pairwise(filled):
        passing = times[held[t].first][kinds[s]][kinds[t]]
        costs[s] += passing
        costs[t] += passing
    return [stage._replace(cost=cost) for stage, cost in zip(held, costs, strict=True)]


def stages_of(stated: StatedServing, clock: Clock, *, still: bool) -> Iterator[Stage]:
    """Yield all intervals whose weights and activations fit into the memory, with costs by the definition.

    If `still`, without transfers.
    """
    graph, platform = stated.instance.graph, stated.instance.platform
    rate = None if math.isinf(platform.bandwidth) else Fraction(platform.bandwidth)
    if still:
        rate = None
    start, readers = graph.tensors.start.tolist(), graph.tensors.consumers.tolist()
    tensors = [
        (producer, readers[start[t] : start[t + 1]], Fraction(size) / rate if rate else Fraction(0))
        for t, (producer, size) in enumerate(
            zip(graph.tensors.producer.tolist(), graph.tensors.bytes.tolist(), strict=True)
        )
    ]
    work, own = ([Fraction(x) for x in column.tolist()] for column in (graph.work, graph.param_bytes))
    shared = [(Fraction(parameter.bytes), parameter.users) for parameter in graph.parameters]
    memory, buffer = Fraction(platform.memory), platform.activation_buffer
    for first in range(graph.n + 1):
        yield Stage(Fraction(0), Fraction(0), Fraction(0), first, first)
        for end in range(first + 1, graph.n + 1):
            clock.raise_if_late()
            inside = range(first, end)
            weights = sum(own[first:end], Fraction(0))
            weights += sum(size for size, users in shared if any(v in inside for v in users))
            activations = Fraction(max(stated.need[first:end]) if buffer is None else buffer)
            if weights + activations > memory:
                break  # longer ones hold no less
            moved = sum(
                time
                for producer, reading, time in tensors
                if (producer in inside and any(v not in inside for v in reading))
                or (producer not in inside and any(v in inside for v in reading))
            )
            yield Stage(sum(work[first:end], Fraction(0)) + moved, weights, activations, first, end)


def caches_of(stated: StatedServing, stage: Stage) -> list[tuple[float, float]]:
    """Bytes a token, and after how many tokens they stop to grow, of each node."""
    return [(stated.token_bytes[v], stated.window[v]) for v in range(stage.first, stage.end)]


def holds(stated: StatedServing, stage: Stage, context: int) -> bool:
    """Whether a stage has room for so many tokens."""
    cache = sum(Fraction(x) * (context if w >= context else Fraction(w)) for x, w in caches_of(stated, stage))
    return stage.weights + stage.activations + cache <= Fraction(stated.instance.platform.memory)


def context_of(stated: StatedServing, stage: Stage) -> float:
    """The most tokens that a stage has room for, by halving; infinite where the cache stops to grow before."""
    caches = caches_of(stated, stage)
    final = max((math.ceil(w) for x, w in caches if x > 0 and w < math.inf), default=0)
    if not any(x > 0 and w == math.inf for x, w in caches) and holds(stated, stage, final):
        return math.inf
    most = 1
    while holds(stated, stage, most):
        most *= 2
    least = 0
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if holds(stated, stage, middle) else (least, middle)
    return float(least)
