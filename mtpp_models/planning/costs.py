"""Data of the replication models: costs along an order of devices, and stages worth a variable."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from instances.planning import TrainingInstance
from instances.planning.link_speeds import LinkSpeeds

__all__ = ["Channel", "ScaledTraining", "Stage", "StageNetwork"]

# Relative, of sums of floats.
_ROUNDING = 1e-9


class Stage(NamedTuple):
    """The layers after the first `k` up to number `e`, on the `r` devices from place `i` on."""

    k: int
    e: int
    i: int
    r: int


class Channel(NamedTuple):
    """Transfer after `k` layers and `i` devices, from a stage of `q` replicas to one of `r`."""

    k: int
    i: int
    q: int
    r: int


class StageNetwork(NamedTuple):
    """Stages and channels of plans within reach: those on a path from the first layer and device to the last ones."""

    stages: list[Stage]
    channels: list[Channel]


@dataclass(frozen=True, eq=False)
class ScaledTraining:
    """The coefficients of the models; times are in multiples of `unit`, so that objectives are near 1."""

    instance: TrainingInstance
    speeds: LinkSpeeds  # bandwidths along the order of the devices; plans use all of them
    unit: float  # positive [s]
    ceiling: float  # in units; plans that cost more need not be in a model

    @property
    def L(self) -> int:  # noqa: N802
        """Number of layers."""
        return self.instance.chain.n

    @property
    def V(self) -> int:  # noqa: N802
        """Number of devices."""
        return len(self.speeds.within) - 1

    @property
    def M(self) -> int:  # noqa: N802
        """Number of microbatches."""
        return self.instance.microbatches

    def passes(self, stage: Stage) -> tuple[float, float]:
        """Forward and backward time of a microbatch, f and b."""
        k, e, _, r = stage
        forward, backward = self._sums
        return (forward[r - 1][e] - forward[r - 1][k]) / r, (backward[r - 1][e] - backward[r - 1][k]) / r

    def allreduce(self, stage: Stage) -> float:
        """Time of the AllReduce, A."""
        k, e, i, r = stage
        return _over(2 * (r - 1) * (self._params[e] - self._params[k]), r * float(self.speeds.within[i + r, r]))

    def load(self, stage: Stage) -> float:
        """Time that the stage and its AllReduce take in an iteration, M (f + b) + A."""
        return self.M * sum(self.passes(stage)) + self.allreduce(stage)

    def transfers(self, channel: Channel) -> tuple[float, float]:
        """Transfer times of a microbatch to the next stage and back, c^f and c^b."""
        k, i, q, r = channel
        forth, back = self.speeds.forth[i, q, r], self.speeds.back[i, q, r]
        there, here = self._between
        return _over(there[k - 1], q * r * float(forth)), _over(here[k - 1], q * r * float(back))

    def traffic(self, channel: Channel, *, makespan: bool = False) -> float:
        """Time that the channel is busy in an iteration, M (c^f + c^b).

        With `makespan`, in full duplex, the larger direction counts alone.
        """
        both = self.transfers(channel)
        return self.M * (max(both) if makespan and self.instance.full_duplex else sum(both))

    def fill(self, stage: Stage) -> float:
        """Part of a device's memory that the stage needs with one microbatch in flight."""
        k, e, _, r = stage
        if math.isinf(self.instance.memory):
            return 0.0
        needed = self.instance.parameter_copies * float(self._param_bytes[e] - self._param_bytes[k])
        return _over(needed + float(self._stored[e] - self._stored[k]) / r, self.instance.memory)

    def network(self, *, makespan: bool = False) -> StageNetwork:
        """Stages and channels that cost no more than the ceiling, without those that no plan can use."""
        heads: list[set[tuple[int, int]]] = [set() for _ in range(self.L + 1)]  # place and replicas of the next stage
        tails: list[set[tuple[int, int]]] = [set() for _ in range(self.L + 1)]  # place after a stage and its replicas
        heads[0] = {(0, r) for r in range(1, self.V + 1)}
        stages, channels = [], []
        for k in range(self.L):
            for i, q in sorted(tails[k]):
                for r in range(1, self.V - i + 1):
                    channel = Channel(k, i, q, r)
                    if self._within_reach(self.traffic(channel, makespan=makespan)):
                        channels.append(channel)
                        heads[k].add((i, r))
            for i, r in sorted(heads[k]):
                for e in range(k + 1, self.L + 1):
                    stage = Stage(k, e, i, r)
                    if not self._within_reach(self.load(stage)) or self.fill(stage) > 1 + _ROUNDING:
                        break
                    if (e == self.L) == (i + r == self.V):
                        stages.append(stage)
                        tails[e].add((i + r, r))
        return self._that_reach_the_end(stages, channels)

    def _that_reach_the_end(self, stages: list[Stage], channels: list[Channel]) -> StageNetwork:
        tails = {(self.L, self.V, r) for r in range(1, self.V + 1)}
        heads: set[tuple[int, int, int]] = set()
        kept = StageNetwork([], [])
        s, c = len(stages), len(channels)
        for k in range(self.L - 1, -1, -1):
            while s > 0 and stages[s - 1].k == k:
                s -= 1
                _, e, i, r = stages[s]
                if (e, i + r, r) in tails:
                    kept.stages.append(stages[s])
                    heads.add((k, i, r))
            while c > 0 and channels[c - 1].k == k:
                c -= 1
                _, i, q, r = channels[c]
                if (k, i, r) in heads:
                    kept.channels.append(channels[c])
                    tails.add((k, i, q))
        return StageNetwork(kept.stages[::-1], kept.channels[::-1])

    def _within_reach(self, cost: float) -> bool:
        return math.isfinite(cost) and cost <= self.ceiling * (1 + _ROUNDING)

    @cached_property
    def _sums(self) -> tuple[list[list[float]], list[list[float]]]:
        arrays = self.instance.arrays
        return (arrays.forward / self.unit).tolist(), (arrays.backward / self.unit).tolist()

    @cached_property
    def _param_bytes(self) -> list[float]:
        return self.instance.arrays.params.tolist()

    @cached_property
    def _stored(self) -> list[float]:
        return self.instance.arrays.stored.tolist()

    @cached_property
    def _params(self) -> list[float]:
        return [size / self.unit for size in self._param_bytes]

    @cached_property
    def _between(self) -> tuple[list[float], list[float]]:
        chain = self.instance.chain
        return (chain.forward_bytes / self.unit).tolist(), (chain.backward_bytes / self.unit).tolist()


def _over(size: float, rate: float) -> float:
    """Size over rate; no link is no obstacle where there is nothing to send."""
    if size == 0:
        return 0.0
    return size / rate if rate > 0 else math.inf
