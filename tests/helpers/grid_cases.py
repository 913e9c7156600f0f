"""Small questions of training in a grid, and all their plans."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np

from instances.errors import InputError
from instances.planning.grid import Configuration, ConfiguredChain, ConfiguredLayer, GridInstance, GridPlan, Servers
from instances.planning.grid.plan import PLACINGS
from instances.planning.grid.problem import StateBytes


def equal_chain(layers: int) -> ConfiguredChain:
    """Equal layers that can be shared by two devices, and can recompute everything."""

    def way(tp: int, times: tuple[float, float], sizes: tuple[float, float, float], mode: str) -> Configuration:
        forward, backward = times
        return Configuration(
            tp=tp,
            forward=forward,
            input_backward=backward / 2,
            weight_backward=backward / 2,
            parameters=sizes[0],
            stored_bytes=sizes[1],
            working_bytes=sizes[2],
            output_bytes=1,
            recompute=mode,
        )

    ways = (
        way(1, (2, 4), (1, 3, 0), "none"),
        way(1, (2, 6), (1, 1, 2), "full"),
        way(2, (1.5, 3), (0.5, 1.5, 0), "none"),
        way(2, (1.5, 4.5), (0.5, 0.5, 1), "full"),
    )
    return ConfiguredChain(tuple(ConfiguredLayer(f"layer.{i}", "layer", ways) for i in range(layers)))


def equal_question(layers: int, batch: int, memory: float = math.inf, zero: int = 0) -> GridInstance:
    """Equal layers on one server of four devices whose links are 1 byte/s."""
    servers = Servers(1, 4, 1, 1)
    state = StateBytes(1, 1, 2)
    return GridInstance((equal_chain(layers),), servers, batch, memory=memory, state_bytes=state, zero=(zero,))


#: Context and expert degrees without and with either; of several servers, stages of two may fill whole ones.
ALONE, SHARED = ((1, 1),), ((1, 1), (2, 1), (1, 2), (2, 2))


def random_question(
    rng: np.random.Generator, servers: Servers | None = None, shared: Sequence[tuple[int, int]] = ALONE
) -> GridInstance:
    """Up to four layers of one or two kinds, with or without tied ends, on up to six devices; three if `shared`."""
    count = int(rng.integers(1, 5 if shared is ALONE else 4))
    kinds = [f"kind {int(rng.integers(0, 2))}" for _ in range(count)]
    degrees = [1, 2] if rng.random() < 0.7 else [1]
    tied = bool(rng.random() < 0.2)
    ways = {kind: _random_ways(rng, degrees, tied and len(set(kinds)) == 1, shared) for kind in sorted(set(kinds))}
    layers = tuple(ConfiguredLayer(str(i), kind, ways[kind]) for i, kind in enumerate(kinds))
    if servers is None:
        size = int(rng.choice([1, 2, 4]))
        servers = Servers(int(rng.integers(1, 4)) if size < 4 else 1, size, float(rng.choice([2, 8])), 1.0)
    memory = float(rng.choice([8, 12, 20, 40])) if rng.random() < 0.7 else math.inf
    return GridInstance(
        (ConfiguredChain(layers),),
        servers,
        int(rng.choice([1, 2, 3, 4, 6])),
        memory=memory,
        state_bytes=StateBytes(1, 1, 2),
        update_time=float(rng.choice([0.0, 0.25])),
        zero=tuple(sorted(set(rng.integers(0, 4, 2).tolist()))),
        full_duplex=bool(rng.random() < 0.5),
        whole_experts=shared is SHARED and bool(rng.random() < 0.3),
    )


def _random_ways(
    rng: np.random.Generator, degrees: list[int], tied: bool, shared: Sequence[tuple[int, int]] = ALONE
) -> tuple[Configuration, ...]:
    forward, parameters, stored = rng.integers(1, 5), rng.integers(0, 3), rng.integers(0, 6)
    configurations = []
    experts = 0.0 if shared is ALONE else float(rng.integers(0, 3))
    for t, (c, e) in product(degrees, shared):
        share = {1: 1.0, 2: 0.75, 4: 0.5}[t * c]
        values = {
            "tp": t,
            "cp": c,
            "ep": e,
            "expert_parameters": experts / e,
            "forward": float(forward) * share,
            "weight_backward": float(forward) * share,
            "parameters": float(parameters) / t,
            "tied_parameters": float(parameters) / t if tied else 0.0,
            "output_bytes": float(rng.integers(0, 4)) / (t * c),
        }
        back = float(forward) * share
        configurations.append(Configuration(**values, input_backward=back, stored_bytes=stored / (t * c)))
        again = back + float(forward) * share
        configurations.append(
            Configuration(
                **values,
                input_backward=again,
                stored_bytes=stored / 3 / (t * c),
                working_bytes=stored / (t * c),
                recompute="full",
            )
        )
    return tuple(configurations)


def all_plans(question: GridInstance) -> Iterator[GridPlan]:
    """Every plan whose devices run one stage each."""
    L, V = question.layers, question.servers.devices
    for chain in question.chains:
        degrees, shared = sorted({t for t, _, _ in chain.degrees}), sorted({(c, e) for _, c, e in chain.degrees})
        for (c, e), d, zero in product(shared, range(1, V + 1), question.zero):
            for stages in range(1, L + 1):
                for inner in combinations(range(1, L), stages - 1):
                    for tensor in product(degrees, repeat=stages):
                        if d * c * sum(tensor) <= V:
                            yield from _plans(question, chain, d, zero, (0, *inner, L), tensor, (c, e))


def _plans(
    question: GridInstance,
    chain: ConfiguredChain,
    d: int,
    zero: int,
    cuts: tuple[int, ...],
    tensor: tuple[int, ...],
    shared: tuple[int, int] = (1, 1),
) -> Iterator[GridPlan]:
    ways = ("none", "full") if question.memory < math.inf else ("none",)
    placings = PLACINGS if shared[1] == 1 else PLACINGS[:1]  # exchanges of experts are timed between neighbours
    for modes, placing in product(product(ways, repeat=question.layers), placings):
        try:
            yield GridPlan(question, chain.micro_batch, d, cuts, tensor, modes, *shared, zero, placing)
        except InputError:
            continue


def with_ends(rng: np.random.Generator, least: int = 2, factors: Sequence[float] = (1,)) -> GridInstance:
    """Two or three layers, or more, so many times as large as each other, between two others; four to six devices."""
    ends = [_random_ways(rng, [1, 2], False) for _ in range(2)]
    inner, count = _random_ways(rng, [1, 2], False), int(rng.integers(least, least + 2))
    layers = [ConfiguredLayer("before", "before", ends[0])]
    layers += [ConfiguredLayer(f"layer.{i}", "layer", inner) for i in range(count)]
    if len(factors) > 1:
        layers[1:] = [scaled(layer, float(rng.choice(factors))) for layer in layers[1:]]
    layers.append(ConfiguredLayer("after", "after", ends[1]))
    servers = Servers(int(rng.integers(2, 4)), 2, 4.0, 1.0)
    memory = float(rng.choice([12, 20, 30])) if rng.random() < 0.8 else math.inf
    return GridInstance(
        (ConfiguredChain(tuple(layers)),),
        servers,
        int(rng.choice([2, 4])),
        memory=memory,
        state_bytes=StateBytes(1, 1, 2),
        zero=(int(rng.integers(0, 4)),),
    )


def on_slow_servers(rng: np.random.Generator, question: GridInstance) -> GridInstance:
    """The question on two or three servers, with links between them as fast as inside or down to a hundredth."""
    inner, size = float(rng.choice([2, 8])), int(rng.choice([1, 2, 2, 3]))
    outer, latency = inner / float(rng.choice([1, 2, 5, 10, 100])), float(rng.choice([0, 0.25, 1]))
    servers = Servers(int(rng.integers(2, 4)), size, inner, outer, latency=latency)
    return replace(question, servers=servers, exposed=float(rng.choice([0, 0.5])), full_duplex=bool(rng.random() < 0.4))


def of_three_groups(rng: np.random.Generator, factors: Sequence[float] = (1,)) -> GridInstance:
    """The same with more layers, room for all that they keep, and three or six samples."""
    return replace(with_ends(rng, 4, factors), memory=math.inf, global_batch=int(rng.choice([3, 6])))


def scaled(layer: ConfiguredLayer, factor: float) -> ConfiguredLayer:
    """A layer of its own kind that takes, has and keeps so many times as much."""
    names = ("forward", "input_backward", "weight_backward", "parameters", "stored_bytes", "working_bytes")
    ways = [replace(way, **{name: factor * getattr(way, name) for name in names}) for way in layer.configurations]
    return ConfiguredLayer(layer.name, layer.name, tuple(ways))


def plans_in_turns(question: GridInstance) -> Iterator[GridPlan]:
    """Every plan whose devices run two stages or more."""
    L, V, chain = question.layers, question.servers.devices, question.chains[0]
    for d, groups in product(range(1, V + 1), range(2, L // 2 + 1)):
        for turns in range(2, L // groups + 1):
            for inner in combinations(range(1, L), groups * turns - 1):
                for tensor in product((1, 2), repeat=groups):
                    samples = question.global_batch
                    if d * sum(tensor) <= V and samples % d == 0 and samples // d % groups == 0:
                        yield from _plans(question, chain, d, question.zero[0], (0, *inner, L), tensor)
