"""Deployments by enumeration: all chains on all devices, all batches, all ways to place chains side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np

from instances.serving.answer import Chain, ServedChain, Stage
from instances.serving.model import LayerShape, ServedModel, Servers
from instances.serving.problem import DeploymentInstance


def random_question(rng: np.random.Generator) -> DeploymentInstance:
    """A small question with odd numbers: some memory, some limits of time, experts, windows, tied ends."""
    shapes = tuple(
        LayerShape(
            weights=int(rng.integers(1, 200)) * 10**6,
            whole=int(rng.integers(0, 3)) * 10**5,
            expert=int(rng.integers(1, 50)) * 10**6 if experts else 0,
            experts=experts,
            chosen=min(experts, int(rng.integers(1, 3))) if experts else 0,
            scores=int(rng.integers(1, 4000)),
            cache=int(rng.integers(1, 2000)),
            heads=4,
            key_heads=int(rng.choice([1, 2, 4])),
            inner=int(rng.integers(0, 5000)),
            window=int(rng.choice([0, 0, 300])),
        )
        for experts in rng.choice([0, 0, 4], size=2).tolist()
    )
    # Every other layer has bytes as a file of weights has them.
    shapes = tuple(replace(s, stored=s.cache % 2 * s.parameters * s.inner // 2000) for s in shapes)
    layers, ends = int(rng.integers(1, 5)), int(rng.integers(0, 40)) * 10**6
    order, tied = rng.integers(0, 2, size=layers), int(rng.choice([0, ends]))
    stored = (ends * 3 // 4, ends * 7 // 8 if not tied else ends * 3 // 4) if shapes[0].stored else (0, 0)
    model = ServedModel("small", 512, shapes, order, ends, ends, ends, tied, stored)
    servers = tuple(
        Servers(
            kind=f"kind-{t}",
            devices=int(rng.choice([1, 2, 2, 3, 4])),
            count=int(rng.choice([1, 1, 2])),
            peak_flops=float(rng.uniform(1e12, 4e14)),
            memory_bandwidth=float(rng.uniform(1e11, 3e12)),
            memory=float(rng.uniform(1.1e9, 3e9)),
            within=float(rng.uniform(1e9, 4e11)),
            switched=bool(rng.integers(2)),
            price=float(rng.uniform(1, 9)),
        )
        for t in range(int(rng.choice([1, 1, 2])))
    )
    pools = rng.integers(4) == 0 and sum(s.count * s.devices for s in servers) > 1
    objective = str(rng.choice(["throughput", "throughput", "throughput", "latency", "cost"]))
    return DeploymentInstance(
        model,
        servers,
        between=float(rng.uniform(1e8, 1e11)),
        input=int(rng.integers(1, 3000)),
        output=int(rng.integers(1, 1000)),
        weights=str(rng.choice(["bf16", "fp8", "int4"])),
        kv=str(rng.choice(["bf16", "fp8"])),
        reserve=str(rng.choice(["full", "mean"])),  # type: ignore[arg-type]
        degrees=(1, 2, 4)
        if max(s.devices for s in servers) >= 4
        else (1, 2)
        if max(s.devices for s in servers) > 1
        else (1,),
        uniform=bool(rng.integers(2)),
        batch=int(rng.integers(1, 10)),
        tpot=math.inf if rng.integers(2) else float(rng.uniform(1.3e-3, 8e-3)),
        ttft=math.inf if rng.integers(3) else float(rng.uniform(7e-3, 0.2)),
        objective="throughput" if pools else objective,  # type: ignore[arg-type]
        topology="replicas" if pools or rng.integers(2) else "chain",
        prefill="pools" if pools else "mixed" if rng.integers(2) else "none",  # type: ignore[arg-type]
    )


def chains(
    question: DeploymentInstance, counts: tuple[int, ...], sizes: tuple[int, ...]
) -> Iterator[tuple[Stage, ...]]:
    """All sequences of stages on so many servers of each type, with so many devices of each."""
    layers = question.model.layers

    def from_layer(
        first: int, stages: tuple[Stage, ...], left: tuple[int, ...], free: int
    ) -> Iterator[tuple[Stage, ...]]:
        if first == layers:
            yield stages
            return
        for s in range(len(counts)):
            same = bool(stages) and stages[-1].servers == s
            for begins in (False, True):
                if (begins and left[s] == 0) or (not begins and not same):
                    continue
                room = sizes[s] if begins else free
                server = counts[s] - left[s] if begins else stages[-1].server
                after = tuple(n - (begins and t == s) for t, n in enumerate(left))
                for degree, end in product(question.degrees, range(first + 1, layers + 1)):
                    if degree <= room:
                        stage = Stage(s, server, degree, first, end)
                        yield from from_layer(end, (*stages, stage), after, room - degree)

    yield from from_layer(0, (), counts, 0)


def best_rate(question: DeploymentInstance, counts: tuple[int, ...], sizes: tuple[int, ...]) -> Fraction:
    """The largest rate of one chain [tokens/s]."""
    best = Fraction(0)
    latency = question.objective == "latency"
    for stages in chains(question, counts, sizes):
        if question.uniform and len({stage.degree for stage in stages}) > 1:
            continue
        for m in range(1, 2 if latency else len(stages) + 2):
            for b in range(1, 2 if latency else question.batch + 1):
                chain = ServedChain(question, Chain(stages, m, b))
                if chain.fits and chain.tpot <= question.tpot and chain.ttft <= question.ttft:
                    best = max(best, chain.rate)
    return best


def best_cost(question: DeploymentInstance) -> Fraction | None:
    """The least cost of a deployment; None if there is none."""
    if question.prefill == "pools":
        return _best_of_pools(question)
    counts, sizes = tuple(s.count for s in question.servers), tuple(s.devices for s in question.servers)
    prices = [Fraction(s.price or 0.0) for s in question.servers]

    @cache
    def part(s: int, devices: int) -> Fraction:
        only = tuple(int(t == s) for t in range(len(counts)))
        return best_rate(question, only, tuple(devices if t == s else size for t, size in enumerate(sizes)))

    @cache
    def server(s: int, devices: int) -> Fraction:
        if question.topology == "chain":
            return part(s, devices)
        splits = [part(s, d) + server(s, devices - d) for d in range(1, devices)]
        return max([part(s, devices), *splits])

    if question.objective == "latency" or (question.topology == "chain" and question.objective == "throughput"):
        rate = best_rate(question, counts, sizes)
        return 1 / rate if rate else None
    vectors = [v for v in product(*(range(n + 1) for n in counts)) if any(v)]
    alone = {
        v: server(v.index(1), sizes[v.index(1)]) if sum(v) == 1 else best_rate(question, v, sizes) for v in vectors
    }
    if question.objective == "cost":
        paid = {v: sum(n * p for n, p in zip(v, prices, strict=True)) for v in vectors}
        return min((paid[v] / 3600 / rate for v, rate in alone.items() if rate), default=None)

    @cache
    def split(v: tuple[int, ...]) -> Fraction:
        rates = [Fraction(0)]
        for first in vectors:
            rest = tuple(a - b for a, b in zip(v, first, strict=True))
            if min(rest) >= 0:
                rates.append(alone[first] + (split(rest) if any(rest) else 0))
        return max(rates)

    rate = split(counts)
    return 1 / rate if rate else None


def _best_of_pools(question: DeploymentInstance) -> Fraction | None:
    """The least cost over all ways to give servers, or parts of one, to prompts and to decoding."""
    parts = question.pools
    counts, sizes = tuple(s.count for s in question.servers), tuple(s.devices for s in question.servers)

    @cache
    def server(pool: int, s: int, devices: int) -> Fraction:
        if devices == 0:
            return Fraction(0)
        only = tuple(int(t == s) for t in range(len(counts)))
        alone = best_rate(parts[pool], only, tuple(devices if t == s else size for t, size in enumerate(sizes)))
        return max([alone, *(server(pool, s, d) + server(pool, s, devices - d) for d in range(1, devices))])

    @cache
    def triples(v: tuple[int, ...]) -> frozenset[tuple[Fraction, Fraction, Fraction]]:
        if sum(v) == 1:
            s = v.index(1)
            each = [(server(0, s, d), server(1, s, sizes[s] - d)) for d in range(sizes[s] + 1)]
            return frozenset((a, b, min(a, b / question.output, carried[s])) for a, b in each)
        nothing = Fraction(0)
        some = {
            (best_rate(parts[0], v, sizes), nothing, nothing),
            (nothing, best_rate(parts[1], v, sizes), nothing),
        }
        for first in product(*(range(n + 1) for n in v)):
            rest = tuple(a - b for a, b in zip(v, first, strict=True))
            if any(first) and any(rest):
                some |= {(a + x, b + y, c + z) for a, b, c in triples(first) for x, y, z in triples(rest)}
        return frozenset(some)

    shapes = [question.model.shapes[number] for number in question.model.order.tolist()]
    size = sum(shape.cache * min(question.input, shape.window or question.input) for shape in shapes)
    size *= Fraction(question.cache_bytes)
    carried = [Fraction(server.within) / size for server in question.servers]
    sent = Fraction(question.between) * sum(counts) / 2 / size if sum(counts) > 1 else 0
    rate = max(
        min(tokens, question.output * min(prompts, sent + within)) for prompts, tokens, within in triples(counts)
    )
    return 1 / rate if rate else None
