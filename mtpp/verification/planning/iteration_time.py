"""Time of one training iteration, computed a second time from the equations of SPP (Luo et al., INFOCOM 2022).

Stage n on r devices works f_n and b_n on the passes of a microbatch, the r-th part of its layers' times, and ends with
an AllReduce of 2 (r - 1) α / (r · bandwidth) over its slowest link. A transfer between stages on r and q devices takes
its bytes over r · q times the bandwidth of the slowest link between them. Stages and channels work in given orders, one
operation at a time, each as early as what it waits for allows. In full duplex a channel is two machines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from instances.planning.problem import TrainingInstance
from mtpp.verification.clock import Clock

__all__ = ["NoLinkError", "StageTimes", "in_flight", "iteration_time"]

Devices = Sequence[Sequence[int]]


class NoLinkError(Exception):
    """Devices that have to exchange data are not connected."""


@dataclass(frozen=True)
class StageTimes:
    """Times of each stage and each channel for a microbatch, and of each AllReduce [s]."""

    forward: tuple[Fraction, ...]  # one a stage
    backward: tuple[Fraction, ...]  # one a stage
    allreduce: tuple[Fraction, ...]  # one a stage
    there: tuple[Fraction, ...]  # one a channel
    back: tuple[Fraction, ...]  # one a channel

    @classmethod
    def of(cls, instance: TrainingInstance, cuts: Sequence[int], devices: Devices) -> StageTimes:
        """Times of a plan without fault.

        Raises
        ------
        NoLinkError
            If devices that have to exchange data are not connected.
        """
        chain, links = instance.chain, instance.cluster.bandwidth
        stages = range(len(devices))
        layers = [range(cuts[n], cuts[n + 1]) for n in stages]
        forward, backward = (
            tuple(_compute(instance, times.tolist(), layers[n], len(devices[n])) for n in stages)
            for times in (chain.forward, chain.backward)
        )
        params = [sum(map(Fraction, chain.param_bytes[i:j].tolist()), Fraction(0)) for i, j in pairwise(cuts)]
        neighbours = list(zip([cut - 1 for cut in cuts[1:-1]], devices, devices[1:], strict=False))
        return cls(
            forward=forward,
            backward=backward,
            allreduce=tuple(_allreduce(size, links, stage) for size, stage in zip(params, devices, strict=True)),
            there=tuple(_transfer(float(chain.forward_bytes[v]), links, here, next_) for v, here, next_ in neighbours),
            back=tuple(_transfer(float(chain.backward_bytes[v]), links, next_, here) for v, here, next_ in neighbours),
        )


def _compute(instance: TrainingInstance, times: list[float], layers: range, replicas: int) -> Fraction:
    if instance.replica_share is None:
        return sum((Fraction(times[v]) for v in layers), Fraction(0)) / replicas
    shares = np.broadcast_to(instance.replica_share, (instance.chain.n, instance.cluster.n))[:, replicas - 1].tolist()
    return sum((Fraction(times[v]) * Fraction(shares[v]) for v in layers), Fraction(0))


def _allreduce(size: Fraction, links: np.ndarray, stage: Sequence[int]) -> Fraction:
    r = len(stage)
    if r == 1 or size == 0:
        return Fraction(0)
    table = links[np.ix_(stage, stage)]
    return _over(2 * (r - 1) * size, r, float(table[~np.eye(r, dtype=bool)].min()))


def _transfer(size: float, links: np.ndarray, senders: Sequence[int], receivers: Sequence[int]) -> Fraction:
    slowest = float(links[np.ix_(senders, receivers)].min())
    return _over(Fraction(size), len(senders) * len(receivers), slowest) if size else Fraction(0)


def _over(size: Fraction, lanes: int, bandwidth: float) -> Fraction:
    if bandwidth == 0:
        raise NoLinkError
    return size / (lanes * Fraction(bandwidth))


def in_flight(order: str) -> int:
    """Most microbatches between their passes in a stage that works in this order."""
    most = count = 0
    for pass_ in order:
        count += 1 if pass_ == "f" else -1
        most = max(most, count)
    return most


@dataclass
class _Line:
    """The operations of one kind on one machine, one a microbatch: their time, what each waits for, and their ends."""

    time: int
    after: list[int] | None
    ends: list[int] = field(default_factory=list)


@dataclass
class _Machine:
    lines: dict[str, _Line]
    order: str
    place: int = 0
    free: int = 0

    def advance(self) -> bool:
        """Run all operations whose input is there; return whether there was one."""
        begin = self.place
        while self.place < len(self.order):
            line = self.lines[self.order[self.place]]
            ready = 0
            if line.after is not None:
                if len(line.ends) >= len(line.after):
                    break
                ready = line.after[len(line.ends)]
            self.free = max(self.free, ready) + line.time
            line.ends.append(self.free)
            self.place += 1
        return self.place > begin


def iteration_time(
    times: StageTimes, stages: Sequence[str], channels: Sequence[str], full_duplex: bool, clock: Clock
) -> Fraction | None:
    """Time of an iteration [s]; None if the machines wait for each other for ever.

    The order of each stage and of each channel is M letters "f" and M letters "b". An `OutOfTimeError` says that the
    clock has run out.
    """
    everything = (*times.forward, *times.backward, *times.allreduce, *times.there, *times.back)
    scale = math.lcm(*(time.denominator for time in everything))

    def whole(time: Fraction) -> int:
        return time.numerator * (scale // time.denominator)

    last = len(stages) - 1
    forward = [_Line(whole(time), None) for time in times.forward]
    backward = [_Line(whole(time), None) for time in times.backward]
    there = [_Line(whole(time), forward[n].ends) for n, time in enumerate(times.there)]
    back = [_Line(whole(time), backward[n + 1].ends) for n, time in enumerate(times.back)]
    for n in range(last):
        forward[n + 1].after, backward[n].after = there[n].ends, back[n].ends
    backward[last].after = forward[last].ends
    machines = [_Machine({"f": forward[n], "b": backward[n]}, order) for n, order in enumerate(stages)]
    for n, order in enumerate(channels):
        lines = {"f": there[n], "b": back[n]}
        parts = [order.replace("b", ""), order.replace("f", "")] if full_duplex else [order]
        machines += [_Machine(lines, part) for part in parts]
    while sum(machine.advance() for machine in machines):
        clock.raise_if_late()
    if any(machine.place < len(machine.order) for machine in machines):
        return None
    return Fraction(max(line.ends[-1] + whole(A) for line, A in zip(backward, times.allreduce, strict=True)), scale)
