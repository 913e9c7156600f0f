"""Costs of a plan in a grid, computed a second time from its question, in fractions.

Numbers of a layer are those of one device. A device keeps w + g + o bytes a number, of which ZeRO 1 divides o, 2 also
g and 3 also w among the devices that hold the same numbers: pipelines times context degree, of experts divided by the
expert degree.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from instances.planning.grid.configurations import Configuration, ConfiguredChain
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.stated import StatedGrid


def way_of(chain: ConfiguredChain, layer: int, degrees: tuple[int, int, int], mode: str) -> Configuration | None:
    """The configuration of a layer; None if there is none."""
    for way in chain.layers[layer].configurations:
        if (way.tp, way.cp, way.ep) == degrees and way.recompute == mode:
            return way
    return None


def _numbers(layers: list[Configuration], whole: bool) -> tuple[Fraction, Fraction]:
    dense = sum((Fraction(way.parameters) for way in layers), Fraction(0))
    if whole and len(layers) > 1:
        dense -= Fraction(layers[-1].tied_parameters)
    return dense, sum((Fraction(way.expert_parameters) for way in layers), Fraction(0))


def kept_bytes(
    question: GridInstance, layers: list[Configuration], zero: int, shards: tuple[int, int], whole: bool
) -> list[Fraction]:
    """Bytes of weights, gradients and optimizer on a device that holds these layers."""
    sizes, parts = question.state_bytes, [Fraction(0)] * 3
    for numbers, shared in zip(_numbers(layers, whole), shards, strict=True):
        for i, (size, from_stage) in enumerate(((sizes.weights, 3), (sizes.gradients, 2), (sizes.optimizer, 1))):
            parts[i] += numbers * Fraction(size) / (shared if zero >= from_stage else 1)
    if zero == 3:
        largest = max(Fraction(way.parameters) for way in layers)
        parts[0] += 2 * Fraction(sizes.weights) * largest * sum(shared > 1 for shared in shards)
    return parts


def after_time(
    question: GridInstance, layers: list[Configuration], zero: int, shards: tuple[int, int], rate: Fraction, whole: bool
) -> Fraction:
    """Time after the last backward pass, without what copies of tied parameters exchange."""
    w, g, update = (
        Fraction(x) for x in (question.state_bytes.weights, question.state_bytes.gradients, question.update_time)
    )
    moved, total = (2 * g, g + w, w, Fraction(0))[zero], Fraction(0)
    for numbers, shared in zip(_numbers(layers, whole), shards, strict=True):
        total += numbers * (moved * (shared - 1) / shared / rate + update / (shared if zero else 1))
    return total


def meanwhile(
    question: GridInstance, layers: list[Configuration], zero: int, shards: tuple[int, int], rate: Fraction, whole: bool
) -> tuple[Fraction, Fraction]:
    """Time that replicas send during a forward and a backward pass."""
    w, g = Fraction(question.state_bytes.weights), Fraction(question.state_bytes.gradients)
    forward, backward = w if zero == 3 else Fraction(0), (w if zero == 3 else Fraction(0)) + (g if zero >= 2 else 0)
    flow = sum(
        (
            numbers * (shared - 1) / shared / rate
            for numbers, shared in zip(_numbers(layers, whole), shards, strict=True)
        ),
        Fraction(0),
    )
    return flow * forward, flow * backward


@dataclass(frozen=True)
class GridCosts:
    """Times and memory of a plan whose structure has no fault."""

    stated: StatedGrid
    chain: ConfiguredChain
    stages: tuple[tuple[Configuration, ...], ...]  # layers of each stage
    server: tuple[tuple[int, ...], ...]  # server of each group in each pipeline

    @classmethod
    def of(cls, stated: StatedGrid) -> GridCosts | None:
        """Costs of a plan; None if a layer has no such configuration."""
        chain = next(chain for chain in stated.instance.chains if chain.micro_batch == stated.micro_batch)
        stages = []
        for n, (begin, end) in enumerate(pairwise(stated.cuts)):
            degrees = (stated.tensor[n % stated.groups], stated.context, stated.expert)
            ways = [way_of(chain, layer, degrees, stated.modes[layer]) for layer in range(begin, end)]
            if None in ways:
                return None
            stages.append(tuple(way for way in ways if way is not None))
        server = [[0] * stated.pipelines for _ in range(stated.groups)]
        for _, place, _, stage, _, _, pipeline in stated.ranks:
            server[stage][pipeline] = place
        return cls(stated, chain, tuple(stages), tuple(map(tuple, server)))

    @property
    def shards(self) -> tuple[int, int]:
        """Devices that hold the same dense numbers, and the same experts."""
        both = self.stated.pipelines * self.stated.context
        return both, both // self.stated.expert

    @cached_property
    def durations(self) -> tuple[list[Fraction], list[Fraction]]:
        """Time of each stage's forward and backward pass."""
        forward, backward = [], []
        for n, layers in enumerate(self.stages):
            rate = self._rate_of(n % self.stated.groups)
            sent = meanwhile(self.stated.instance, list(layers), self.stated.zero, self.shards, rate, self._whole)
            forward.append(max(sum((Fraction(way.forward) for way in layers), Fraction(0)), sent[0]))
            both = (Fraction(way.input_backward) + Fraction(way.weight_backward) for way in layers)
            backward.append(max(sum(both, Fraction(0)), sent[1]))
        return forward, backward

    def transfer(self, n: int) -> Fraction:
        """Time to send a microbatch from stage n to the next one."""
        stated, S = self.stated, self.stated.groups
        sender, receiver = n % S, (n + 1) % S
        degrees = (stated.tensor[receiver], stated.context, stated.expert)
        received = way_of(self.chain, stated.cuts[n + 1] - 1, degrees, "none")
        sizes = [self.stages[n][-1].output_bytes] + ([] if received is None else [received.output_bytes])
        near = all(a == b for a, b in zip(self.server[sender], self.server[receiver], strict=True))
        return Fraction(max(sizes)) / self._rate(near)

    def after(self, n: int) -> Fraction:
        """Time after the last backward pass of stage n."""
        question, last = self.stated.instance, len(self.stages) - 1
        rate = self._rate_of(n % self.stated.groups)
        time = after_time(question, list(self.stages[n]), self.stated.zero, self.shards, rate, self._whole)
        if last > 0 and n in (0, last):
            near = self.server[0] == self.server[last % self.stated.groups]
            time += self._tied * Fraction(question.state_bytes.gradients) / self._rate(near)
        return time

    def layers_of(self, group: int) -> list[Configuration]:
        """Layers of all stages of a group."""
        return [layer for n in range(group, len(self.stages), self.stated.groups) for layer in self.stages[n]]

    @property
    def _tied(self) -> Fraction:
        """Numbers that the first and the last stage share, on a device of the one that has more."""
        stated, L = self.stated, self.stated.cuts[-1]
        ends = [(t, stated.context, stated.expert) for t in (stated.tensor[0], stated.tensor[-1])]
        ways = [way_of(self.chain, L - 1, degrees, "none") for degrees in ends]
        return max(Fraction(0 if way is None else way.tied_parameters) for way in ways)

    @property
    def _whole(self) -> bool:
        return len(self.stages) == 1

    def _rate_of(self, group: int) -> Fraction:
        return self._rate(len(set(self.server[group])) == 1)

    def _rate(self, near: bool) -> Fraction:
        servers = self.stated.instance.servers
        return Fraction(servers.reached) * Fraction(servers.inner if near else servers.outer)
