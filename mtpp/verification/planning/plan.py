"""Check of plans of the papers' model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from instances.certificates import Claim
from instances.planning.problem import TrainingInstance
from instances.planning.stated import MOMENTS, StatedPlan, StatedTimeline
from mtpp.verification.planning.shared_cards import Cards, Operation, least_work
from mtpp.verification.verdict import (
    ROUNDING,
    Check,
    Clock,
    Limits,
    Verdict,
    as_float,
    compare,
    is_near,
    unequal,
    verdict_of,
)

# Passes of a plan with all its times: completeness, durations, and the memory that the order needs.


Order = Sequence[tuple[int, str, int]]


def structure_faults(stated: StatedTimeline) -> Iterator[str]:
    """Yield all reasons why stages, devices, orders and times are no plan."""
    instance, cuts = stated.instance, stated.cuts
    layers, S = instance.chain.n, len(stated.devices)
    if len(cuts) < 2 or cuts[0] != 0 or cuts[-1] != layers or any(i >= j for i, j in pairwise(cuts)):
        yield f"the cuts do not rise from 0 to {layers}, the number of layers"
    if len(cuts) - 1 != S or not all(stated.devices):
        yield f"{len(cuts) - 1} stages need one device or more each"
    if len(stated.recompute) != S:
        yield f"recompute has {len(stated.recompute)} values for {S} stages"
    elif any(stated.recompute) and not instance.recomputation:
        yield "a stage recomputes, which the question does not allow"
    used = Counter(v for group in dict.fromkeys(stated.devices) for v in group)
    for v, times in used.items():
        if not 0 <= v < instance.cluster.n:
            yield f"device {v} does not exist; there are {instance.cluster.n}"
        if times > 1:
            yield f"device {v} is used twice"
    yield from _faults_of_orders(stated)
    yield from _faults_of_shapes(stated)


def _faults_of_orders(stated: StatedTimeline) -> Iterator[str]:
    M, groups = stated.instance.microbatches, list(dict.fromkeys(stated.devices))
    if len(stated.orders) != len(groups):
        yield f"there are {len(stated.orders)} orders for {len(groups)} groups of devices"
        return
    for group, order in zip(groups, stated.orders, strict=True):
        seen = Counter(order)
        for n in (n for n, devices in enumerate(stated.devices) if devices == group):
            for m in range(M):
                letters = "".join(letter for letter in "FBIW" if seen.pop((n, letter, m), 0) == 1)
                if letters not in ("FB", "FIW"):
                    yield f"stage {n} does not run both passes of microbatch {m} once"
        for n, letter, m in seen:
            yield f"{n}{letter}{m} is in the order of another group, or no pass of this plan"


def deadlocks(stated: StatedTimeline) -> Iterator[str]:
    """The first pass of each group that waits for ever, if the orders of the groups wait for each other."""
    places, done, moved = [0] * len(stated.orders), set[tuple[int, str, int]](), True
    while moved:
        moved = False
        for g, order in enumerate(stated.orders):
            while places[g] < len(order) and _is_ready(order[places[g]], done, len(stated.devices) - 1):
                done.add(order[places[g]])
                places[g] += 1
                moved = True
    for place, order in zip(places, stated.orders, strict=True):
        if place < len(order):
            n, letter, m = order[place]
            yield f"{n}{letter}{m} waits for ever in this order"


def _is_ready(step: tuple[int, str, int], done: set[tuple[int, str, int]], last: int) -> bool:
    n, letter, m = step
    if letter == "F":
        return n == 0 or (n - 1, "F", m) in done
    if letter == "W":
        return (n, "I", m) in done
    return (n, "F", m) in done and (n == last or (n + 1, "B", m) in done or (n + 1, "I", m) in done)


def _faults_of_shapes(stated: StatedTimeline) -> Iterator[str]:
    S, M = len(stated.devices), stated.instance.microbatches
    split = {(n, m) for order in stated.orders for n, letter, m in order if letter == "W"}
    for kind in MOMENTS:
        rows, width = S - 1 if kind in ("send", "receive") else S, M
        if kind == "allreduce":
            rows, width = 1, S
        for what, table in (("starts", stated.starts[kind]), ("ends", stated.ends[kind])):
            if len(table) != rows or any(len(row) != width for row in table):
                yield f"{what}.{kind} is no table of {rows} rows of {width} times"
                return
            for n, row in enumerate(table):
                for m, time in enumerate(row):
                    if (time is None) != (kind == "weights" and (n, m) not in split):
                        yield f"{what}.{kind}[{n}][{m}] is a time where there is none, or none where there is one"
                    elif time is not None and time < 0:
                        yield f"{what}.{kind}[{n}][{m}] is before the iteration starts"


@dataclass(frozen=True)
class PlanPasses:
    """Passes and transfers of a plan without fault, with their times."""

    instance: TrainingInstance
    cuts: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]
    recompute: tuple[bool, ...]
    sends: tuple[Operation, ...]
    receives: tuple[Operation, ...]
    reduces: tuple[Operation, ...]

    @classmethod
    def of(cls, stated: StatedTimeline) -> PlanPasses | None:
        """Passes of a plan whose structure has no fault; None if a link is missing."""
        instance, chain, cards = stated.instance, stated.instance.chain, Cards(stated.instance)
        pairs = list(zip(stated.cuts[1:-1], stated.devices, stated.devices[1:], strict=False))
        sends = [
            cards.transfer(float(chain.forward_bytes[cut - 1]), sender, receiver) for cut, sender, receiver in pairs
        ]
        receives = [
            cards.transfer(float(chain.backward_bytes[cut - 1]), receiver, sender) for cut, sender, receiver in pairs
        ]
        reduces = [
            cards.allreduce(_sum(chain.param_bytes, i, j), group)
            for (i, j), group in zip(pairwise(stated.cuts), stated.devices, strict=True)
        ]
        if None in (*sends, *receives, *reduces):
            return None
        return cls(
            instance=instance,
            cuts=stated.cuts,
            devices=stated.devices,
            recompute=stated.recompute,
            sends=tuple(operation for operation in sends if operation is not None),
            receives=tuple(operation for operation in receives if operation is not None),
            reduces=tuple(operation for operation in reduces if operation is not None),
        )

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.devices)

    def duration(self, letter: str, n: int) -> Fraction:
        """Seconds of a pass of stage n."""
        chain = self.instance.chain
        forward, backward = self._shared(chain.forward, n), self._shared(chain.backward, n)
        half = chain.backward / 2 if chain.input_backward is None else chain.input_backward
        first = self._shared(half, n)
        again = forward if self.recompute[n] else Fraction(0)
        return {"F": forward, "B": backward + again, "I": first + again, "W": backward - first}[letter]

    def operation(self, kind: str, n: int, m: int) -> Operation:
        """A transfer after stage n, or the AllReduce of stage m."""
        return self.reduces[m] if kind == "allreduce" else (self.sends if kind == "send" else self.receives)[n]

    def peaks(self, orders: Sequence[Order]) -> list[Fraction]:
        """Most bytes that a device of each group holds."""
        chain, copies, peaks = self.instance.chain, Fraction(self.instance.parameter_copies), []
        for group, order in zip(dict.fromkeys(self.devices), orders, strict=True):
            resident = peak = Fraction(0)
            for n, letter, _ in order:
                stored, arriving = self._stored(n)
                if letter == "F":
                    resident += arriving if self.recompute[n] else stored
                elif letter in "BI" and self.recompute[n]:
                    resident += stored
                peak = max(peak, resident)
                if letter in "BW":
                    resident -= arriving + stored if self.recompute[n] else stored
            if self._at_once:
                stored, arriving = self._stored(0)
                M = self.instance.microbatches
                peak = M * arriving + stored if self.recompute[0] else M * stored
            stages = [n for n, devices in enumerate(self.devices) if devices == group]
            fixed = sum((_sum(chain.param_bytes, *self.cuts[n : n + 2]) for n in stages), Fraction(0))
            peaks.append(copies * fixed + peak)
        return peaks

    def _stored(self, n: int) -> tuple[Fraction, Fraction]:
        """Bytes of a microbatch that a replica keeps, and those of its input among them."""
        chain, (i, j), r = self.instance.chain, self.cuts[n : n + 2], len(self.devices[n])
        arriving = Fraction(float(chain.forward_bytes[i - 1])) if i else Fraction(0)
        return _sum(chain.stored, i, j) / r, arriving / r

    @property
    def _at_once(self) -> bool:
        return self.instance.samples is not None and len(self.devices[0]) == self.instance.cluster.n

    def _shared(self, times: np.ndarray, n: int) -> Fraction:
        """Seconds of a replica's part of the layers of a stage."""
        instance, (i, j), r = self.instance, self.cuts[n : n + 2], len(self.devices[n])
        q = instance.samples
        if q is not None:
            whole = instance.microbatches * q if self._at_once else q
            return _sum(times, i, j) * Fraction(-(-whole // r), whole)
        if instance.replica_share is None:
            return _sum(times, i, j) / r
        table = np.broadcast_to(instance.replica_share, (instance.chain.n, instance.cluster.n))
        return sum((Fraction(float(times[v])) * Fraction(float(table[v, r - 1])) for v in range(i, j)), Fraction(0))


def _sum(values: np.ndarray, i: int, j: int) -> Fraction:
    return sum(map(Fraction, values[i:j].tolist()), Fraction(0))


# Time of one training iteration, computed a second time from the equations of SPP (Luo et al., INFOCOM 2022).
#
# Stage n on r devices works f_n and b_n on the passes of a microbatch, the r-th part of its layers' times, and ends
# with an AllReduce of 2 (r - 1) α / (r · bandwidth) over its slowest link. A transfer between stages on r and q devices
# takes its bytes over r · q times the bandwidth of the slowest link between them. Stages and channels work in given
# orders, one operation at a time, each as early as what it waits for allows. In full duplex a channel is two machines.


Devices = Sequence[Sequence[int]]


class NoLinkError(Exception):
    """Devices that have to exchange data are not connected."""


@dataclass(frozen=True)
class StageTimes:
    """Times of each stage and each channel for a microbatch, and of each AllReduce [s]."""

    forward: tuple[Fraction, ...]  # one a stage
    backward: tuple[Fraction, ...]  # one a stage
    allreduce: tuple[Fraction, ...]  # one a stage
    sends: tuple[Fraction, ...]  # one a channel
    receives: tuple[Fraction, ...]  # one a channel

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
            sends=tuple(
                _transfer(float(chain.forward_bytes[v]), links, sender, receiver) for v, sender, receiver in neighbours
            ),
            receives=tuple(
                _transfer(float(chain.backward_bytes[v]), links, receiver, sender) for v, sender, receiver in neighbours
            ),
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
    peak = count = 0
    for pass_ in order:
        count += 1 if pass_ == "f" else -1
        peak = max(peak, count)
    return peak


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
    everything = (*times.forward, *times.backward, *times.allreduce, *times.sends, *times.receives)
    scale = math.lcm(*(time.denominator for time in everything))

    def whole(time: Fraction) -> int:
        return time.numerator * (scale // time.denominator)

    last = len(stages) - 1
    forward = [_Line(whole(time), None) for time in times.forward]
    backward = [_Line(whole(time), None) for time in times.backward]
    sends = [_Line(whole(time), forward[n].ends) for n, time in enumerate(times.sends)]
    receives = [_Line(whole(time), backward[n + 1].ends) for n, time in enumerate(times.receives)]
    for n in range(last):
        forward[n + 1].after, backward[n].after = sends[n].ends, receives[n].ends
    backward[last].after = forward[last].ends
    machines = [_Machine({"f": forward[n], "b": backward[n]}, order) for n, order in enumerate(stages)]
    for n, order in enumerate(channels):
        lines = {"f": sends[n], "b": receives[n]}
        parts = [order.replace("b", ""), order.replace("f", "")] if full_duplex else [order]
        machines += [_Machine(lines, part) for part in parts]
    while sum(machine.advance() for machine in machines):
        clock.raise_if_late()
    if any(machine.place < len(machine.order) for machine in machines):
        return None
    return Fraction(max(line.ends[-1] + whole(A) for line, A in zip(backward, times.allreduce, strict=True)), scale)


# Check a plan: its stages and its time from the definition; its bound is trusted.


def verify_plan(plan: StatedPlan, limits: Limits) -> Verdict:
    """Check everything in a plan in the paper's setting that can be checked; errors are those of `verify`."""
    cost, faults = None, list[str]()
    fault = next(_faults_of_plan(plan), None)
    if fault is None:
        try:
            times = StageTimes.of(plan.instance, plan.cuts, plan.devices)
        except NoLinkError:
            fault = "devices that have to exchange data have no link"
        else:
            faults += _faults_of_stages(plan, times)
            orders = (plan.operations.stages, plan.operations.channels)
            cost = iteration_time(times, *orders, plan.instance.full_duplex, Clock(limits.seconds))
            if cost is None:
                fault = "its stages and channels wait for each other for ever in the order of operations"
    fault = fault and f"plan: {fault}"
    return verdict_of(plan, cost, faults, lambda claim: _check(plan, claim), limits, fault=fault)


def _check(plan: StatedPlan, claim: Claim) -> Check:
    if claim.value <= 0:
        return Check(claim, Fraction(0), "nothing to prove")
    if claim.method == "work-any":
        return compare(claim, least_work(plan.instance), "re-proved: an even share of all work")
    return Check(claim, None, "trusted from a program over stages on the fastest links")


def _faults_of_plan(plan: StatedPlan) -> Iterator[str]:
    """Yield all reasons why stages and orders are no plan."""
    instance, stages, M = plan.instance, len(plan.devices), plan.instance.microbatches
    layers, devices = instance.chain.n, instance.cluster.n
    if (
        len(plan.cuts) < 2
        or plan.cuts[0] != 0
        or plan.cuts[-1] != layers
        or any(i >= j for i, j in pairwise(plan.cuts))
    ):
        yield f"the cuts do not rise from 0 to {layers}, the number of layers"
    if stages != len(plan.cuts) - 1 or not all(plan.devices):
        yield f"{len(plan.cuts) - 1} stages need one device or more each"
    used: set[int] = set()
    for v in (v for stage in plan.devices for v in stage):
        if not 0 <= v < devices:
            yield f"device {v} does not exist; there are {devices}"
        if v in used:
            yield f"device {v} is used twice"
        used.add(v)
    for what, orders, count in (
        ("stages", plan.operations.stages, stages),
        ("channels", plan.operations.channels, stages - 1),
    ):
        if len(orders) != count:
            yield f"operations.{what} has {len(orders)} orders for {count} {what}"
        for n, order in enumerate(orders):
            if len(order) != 2 * M or order.count("f") != M or order.count("b") != M:
                yield f"operations.{what}[{n}] is not an order of {M} forward and {M} backward operations"
    yield from _faults_of_memory(plan)


def _faults_of_memory(plan: StatedPlan) -> Iterator[str]:
    instance, chain = plan.instance, plan.instance.chain
    if math.isinf(instance.memory):
        return
    for n, (i, j) in enumerate(pairwise(plan.cuts)):
        params, stored = (
            sum(map(Fraction, sizes[i:j].tolist()), Fraction(0)) for sizes in (chain.param_bytes, chain.stored)
        )
        needed = Fraction(instance.parameter_copies) * params
        needed += in_flight(plan.operations.stages[n]) * stored / len(plan.devices[n])
        if needed > Fraction(instance.memory) * (1 + ROUNDING):
            yield f"stage {n} needs {as_float(needed)!r} bytes on each device, which has {instance.memory!r}"


def _faults_of_stages(plan: StatedPlan, times: StageTimes) -> Iterator[str]:
    """Faults of the numbers of each stage. Times of passes are differences of sums, which all layers make inexact."""
    chain, cluster = plan.instance.chain, plan.instance.cluster
    if len(plan.stages) != len(plan.devices):
        yield f"answer.stages: {len(plan.stages)} are described, there are {len(plan.devices)}"
        return
    slack = {
        "forward": ROUNDING * sum(map(Fraction, chain.forward.tolist())),
        "backward": ROUNDING * sum(map(Fraction, chain.backward.tolist())),
        "allreduce": Fraction(0),
    }
    for n, stage in enumerate(plan.stages):
        if stage.layers != (chain.names[plan.cuts[n]], chain.names[plan.cuts[n + 1] - 1]):
            yield f"answer.stages[{n}].layers: the names are not those of its first and last layer"
        if stage.devices != tuple(cluster.names[v] for v in plan.devices[n]):
            yield f"answer.stages[{n}].devices: the names are not those of its devices"
        for name, tolerance in slack.items():
            claimed, true = getattr(stage, name), getattr(times, name)[n]
            if not is_near(claimed, true) and abs(Fraction(claimed) - true) > tolerance:
                yield unequal(f"answer.stages[{n}].{name}", claimed, as_float(true))
