"""Costs of a plan with degrees of parallelism, computed a second time from its question, in fractions.

Numbers (parameters) of a layer are those on one device. A device keeps w + g + o bytes for each number, of which ZeRO
1 divides o, 2 also g and 3 also w among the devices that hold the same numbers: pipelines times context degree, of
experts divided by the expert degree.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from instances.planning.grid.configurations import Configuration, ConfiguredChain
from instances.planning.grid.problem import GridInstance
from instances.planning.stated import StatedGrid


def way_of(chain: ConfiguredChain, layer: int, degrees: tuple[int, int, int], mode: str) -> Configuration | None:
    """The configuration of a layer with these degrees and mode; None if there is none."""
    for way in chain.layers[layer].configurations:
        if (way.tp, way.cp, way.ep) == degrees and way.recompute == mode:
            return way
    return None


def allowed_way(
    stated: StatedGrid, chain: ConfiguredChain, layer: int, degrees: tuple[int, int, int]
) -> Configuration | None:
    """The stated configuration of a layer if it is allowed; else the one without recomputation."""
    mode, allowed = stated.modes[layer], stated.instance.modes
    if mode in allowed or (mode == "none" and all(way_of(chain, layer, degrees, other) is None for other in allowed)):
        return way_of(chain, layer, degrees, mode)
    return None


def _numbers(layers: list[Configuration], whole: bool) -> tuple[Fraction, Fraction]:
    dense = sum((Fraction(way.parameters) for way in layers), Fraction(0))
    if whole and len(layers) > 1:
        dense -= Fraction(layers[-1].tied_parameters)
    return dense, sum((Fraction(way.expert_parameters) for way in layers), Fraction(0))


def kept_bytes(
    question: GridInstance, layers: list[Configuration], zero: int, shards: tuple[int, int], whole: bool
) -> list[Fraction]:
    """Bytes of weights, gradients and optimizer, three numbers, on a device with these layers.

    `zero` is the ZeRO stage, `shards` the numbers of devices with the same dense parameters and experts; `whole` says
    whether these are all layers of the model.
    """
    sizes, parts = question.state_bytes, [Fraction(0)] * 3
    for numbers, shared in zip(_numbers(layers, whole), shards, strict=True):
        for i, (size, from_stage) in enumerate(((sizes.weights, 3), (sizes.gradients, 2), (sizes.optimizer, 1))):
            parts[i] += numbers * Fraction(size) / (shared if zero >= from_stage else 1)
    if zero == 3:
        largest = max(Fraction(way.parameters) for way in layers)
        parts[0] += 2 * Fraction(sizes.weights) * largest * sum(shared > 1 for shared in shards)
    return parts


def copies_of(question: GridInstance, degrees: tuple[int, int, int], pipelines: int) -> tuple[int, int]:
    """Numbers of devices with the same dense parameters, and with the same experts; 0 if impossible."""
    tp, cp, ep = degrees
    all_experts = pipelines * cp * tp if question.whole_experts else pipelines * cp
    return pipelines * cp, 0 if all_experts % ep else all_experts // ep


def ring_rates(
    question: GridInstance, in_server: int | None, degrees: tuple[int, int, int]
) -> tuple[Fraction, Fraction]:
    """Rates of rings for dense parameters and for experts, with `in_server` devices of a rank in each server."""
    servers, (tp, _, ep) = question.servers, degrees
    inner, outer = Fraction(servers.inner), Fraction(servers.outer)
    if in_server is None:
        return (Fraction(servers.reached) * inner,) * 2
    of_experts = in_server * tp // ep if question.whole_experts else in_server // ep
    dense, experts = (min(inner, ranks * outer) for ranks in (in_server, max(of_experts, 1)))
    return Fraction(servers.reached) * dense, Fraction(servers.reached) * experts


def transfer_time(question: GridInstance, size: Fraction, near: bool) -> Fraction:
    """Time to send `size` bytes to another device, within a server if `near` [s]."""
    servers = question.servers
    if near or not size:
        return size / (Fraction(servers.reached) * Fraction(servers.inner))
    return size / (Fraction(servers.reached) * Fraction(servers.outer)) + Fraction(servers.latency)


def after_time(
    question: GridInstance,
    layers: list[Configuration],
    zero: int,
    shards: tuple[int, int],
    rates: tuple[Fraction, Fraction],
    whole: bool,
) -> Fraction:
    """Time of gradient exchange and update after the last backward pass [s], without that of tied parameters.

    `rates` are the bandwidths of the rings of `shards` [bytes/s]; other parameters are those of `kept_bytes`.
    """
    w, g, update = (
        Fraction(x) for x in (question.state_bytes.weights, question.state_bytes.gradients, question.update_time)
    )
    moved, total = (2 * g, g + w, w, Fraction(0))[zero], Fraction(0)
    for numbers, shared, rate in zip(_numbers(layers, whole), shards, rates, strict=True):
        total += numbers * (moved * (shared - 1) / shared / rate + update / (shared if zero else 1))
    return total


def meanwhile(
    question: GridInstance,
    layers: list[Configuration],
    zero: int,
    shards: tuple[int, int],
    rates: tuple[Fraction, Fraction],
    whole: bool,
) -> tuple[Fraction, Fraction]:
    """Times [s] that replicas communicate during a forward pass, and during a backward pass, by ZeRO."""
    w, g = Fraction(question.state_bytes.weights), Fraction(question.state_bytes.gradients)
    forward, backward = w if zero == 3 else Fraction(0), (w if zero == 3 else Fraction(0)) + (g if zero >= 2 else 0)
    flow = sum(
        (
            numbers * (shared - 1) / shared / rate
            for numbers, shared, rate in zip(_numbers(layers, whole), shards, rates, strict=True)
        ),
        Fraction(0),
    )
    return flow * forward, flow * backward


@dataclass(frozen=True)
class GridCosts:
    """Times and memory of a plan whose structure has been checked."""

    stated: StatedGrid
    chain: ConfiguredChain
    stages: tuple[tuple[Configuration, ...], ...]  # layers of each stage
    server: tuple[tuple[int, ...], ...]  # server of each group in each pipeline

    @classmethod
    def of(cls, stated: StatedGrid) -> GridCosts | None:
        """Costs of a plan; None if a layer lacks the configuration."""
        chain = next(chain for chain in stated.instance.chains if chain.micro_batch == stated.micro_batch)
        stages = []
        for n, (begin, end) in enumerate(pairwise(stated.cuts)):
            degrees = (stated.tensor[n % stated.groups], stated.context, stated.expert)
            ways = [allowed_way(stated, chain, layer, degrees) for layer in range(begin, end)]
            if None in ways:
                return None
            stages.append(tuple(way for way in ways if way is not None))
        server = [[0] * stated.pipelines for _ in range(stated.groups)]
        for _, place, _, stage, tp, cp, pipeline in stated.ranks:
            if tp == cp == 0:  # of a stage in several servers the first one counts
                server[stage][pipeline] = place
        return cls(stated, chain, tuple(stages), tuple(map(tuple, server)))

    def degrees(self, group: int) -> tuple[int, int, int]:
        """Tensor, context and expert degree of a group."""
        return self.stated.tensor[group], self.stated.context, self.stated.expert

    def shards(self, group: int) -> tuple[int, int]:
        """Numbers of devices with the same dense parameters, and with the same experts, of a group."""
        return copies_of(self.stated.instance, self.degrees(group), self.stated.pipelines)

    @cached_property
    def durations(self) -> tuple[list[Fraction], list[Fraction]]:
        """Times of the forward passes of all stages, and of the backward passes [s]."""
        forward, backward = [], []
        exposed = Fraction(self.stated.instance.exposed)
        for n, layers in enumerate(self.stages):
            g = n % self.stated.groups
            question, zero, rates = self.stated.instance, self.stated.zero, self._rates_of(g)
            sent = meanwhile(question, list(layers), zero, self.shards(g), rates, self._whole)
            compute = sum((Fraction(way.forward) for way in layers), Fraction(0))
            forward.append(max(compute + exposed * sent[0], sent[0]))
            both = (Fraction(way.input_backward) + Fraction(way.weight_backward) for way in layers)
            backward.append(max(sum(both, Fraction(0)) + exposed * sent[1], sent[1]))
        return forward, backward

    def transfer(self, n: int) -> Fraction:
        """Time to send a microbatch from stage n to the next one [s]."""
        stated, S = self.stated, self.stated.groups
        sender, receiver = n % S, (n + 1) % S
        degrees = (stated.tensor[receiver], stated.context, stated.expert)
        received = way_of(self.chain, stated.cuts[n + 1] - 1, degrees, "none")
        sizes = [self.stages[n][-1].output_bytes] + ([] if received is None else [received.output_bytes])
        near = all(a == b for a, b in zip(self.server[sender], self.server[receiver], strict=True))
        return transfer_time(stated.instance, Fraction(max(sizes)), near)

    def after(self, n: int) -> Fraction:
        """Time of the work after the last backward pass of stage n [s]; 0 unless it is the last one of its group."""
        question, S, last = self.stated.instance, self.stated.groups, len(self.stages) - 1
        if n >= S:
            return Fraction(0)
        layers, rates = self.layers_of(n), self._rates_of(n)
        time = after_time(question, layers, self.stated.zero, self.shards(n), rates, self._whole)
        if last > 0 and n in (0, S - 1):
            near = self.server[0] == self.server[S - 1]
            time += transfer_time(question, self._tied * Fraction(question.state_bytes.gradients), near)
        return time

    def layers_of(self, group: int) -> list[Configuration]:
        """Layers of all stages of a group."""
        return [layer for n in range(group, len(self.stages), self.stated.groups) for layer in self.stages[n]]

    @property
    def _tied(self) -> Fraction:
        """Number of parameters shared by the first and the last stage, on the device that holds more."""
        stated, L = self.stated, self.stated.cuts[-1]
        ends = [(t, stated.context, stated.expert) for t in (stated.tensor[0], stated.tensor[-1])]
        ways = [way_of(self.chain, L - 1, degrees, "none") for degrees in ends]
        return max(Fraction(0 if way is None else way.tied_parameters) for way in ways)

    @property
    def _whole(self) -> bool:
        return len(self.stages) == 1

    def _rates_of(self, group: int) -> tuple[Fraction, Fraction]:
        """Rates of the rings of a group."""
        stated, size, servers = self.stated, self.stated.instance.servers.size, self.server[group]
        width, pipelines = stated.tensor[group] * stated.context, Counter(servers)
        ranks = min(stated.context, size // stated.tensor[group]) * min(pipelines.values())
        inside = len(pipelines) == 1 and width <= size
        return ring_rates(stated.instance, None if inside else ranks, self.degrees(group))
