"""Verify plans of microbatches in the papers' model, also with shared network cards."""

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
from instances.planning.stated import MOMENTS, StatedOrders, StatedPlan, StatedTimeline
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

# The bound of an even share of all work, which holds for every plan.


def least_work(instance: TrainingInstance) -> Fraction:
    """Lower bound on the work of the busiest device [s]: an even share, each layer with its cheapest replica number."""
    chain, V, total = instance.chain, instance.cluster.n, Fraction(0)
    for layer, times in enumerate(zip(chain.forward.tolist(), chain.backward.tolist(), strict=True)):
        share = Fraction(1)
        if instance.replica_share is not None:
            table = instance.replica_share.tolist()
            row = table[layer] if isinstance(table[0], list) else table
            share = min(Fraction(part) * (r + 1) for r, part in enumerate(row))
        total += share * sum(map(Fraction, times))
    return instance.microbatches * total / V


# Operations of a plan on network cards that servers share, computed a second time in exact numbers.
#
# A transfer of d bytes from q to r replicas sends d / (q r) bytes over each of their links; an AllReduce of α bytes on
# r devices sends 2 (r - 1) α / r over each link of its ring. What leaves a server passes its card, which has a rate for
# each direction, or one for both. Alone an operation takes as long as its slowest link or card. Those that run at one
# time share the cards: their speeds rise together until one is full, and what uses a full card rises no more.


Port = tuple[str, int]


@dataclass(frozen=True)
class Operation:
    """A transfer or an AllReduce."""

    alone: Fraction  # seconds if it shares nothing
    loads: tuple[tuple[Port, Fraction], ...]  # seconds that it keeps each port busy

    @property
    def needs(self) -> tuple[tuple[Port, Fraction], ...]:
        """Ports, each with the part of it that the operation takes at full speed."""
        return tuple((port, load / self.alone) for port, load in self.loads) if self.alone else ()


class Cards:
    """Network cards of a cluster; without a network its links share nothing, as if all devices were in one server."""

    def __init__(self, instance: TrainingInstance) -> None:
        network = instance.network
        sizes = instance.cluster.servers if network is not None else (instance.cluster.n,)
        self._server = [h for h, size in enumerate(sizes) for _ in range(size)]
        self._links = instance.cluster.bandwidth.tolist()
        self._half = network is not None and network.half
        self._rates: dict[Port, Fraction] = {}
        devices = range(len(self._server))
        for h in range(len(sizes)):
            pairs = [(v, w) for v in devices if self._server[v] == h for w in devices if self._server[w] != h]
            out = max((self._links[v][w] for v, w in pairs), default=0.0)
            home = max((self._links[w][v] for v, w in pairs), default=0.0)
            if network is not None and network.rates is not None:
                out = home = network.rates[h]
            if self._half:
                out = home = max(out, home)
            self._rates["out", h], self._rates[self._enters(h)] = Fraction(out), Fraction(home)

    def transfer(self, size: float, senders: Sequence[int], receivers: Sequence[int]) -> Operation | None:
        """The transfer of `size` bytes from senders to receivers; None without a link."""
        if size == 0 or tuple(senders) == tuple(receivers):
            return Operation(Fraction(0), ())
        part = Fraction(size) / (len(senders) * len(receivers))
        pairs = [(v, w) for v in senders for w in receivers]
        bytes_through: Counter[Port] = Counter()
        for v, w in pairs:
            if self._server[v] != self._server[w]:
                bytes_through["out", self._server[v]] += part  # type: ignore[assignment]
                bytes_through[self._enters(self._server[w])] += part  # type: ignore[assignment]
        return self._operation(part, [self._links[v][w] for v, w in pairs], bytes_through)

    def allreduce(self, size: Fraction, devices: Sequence[int]) -> Operation | None:
        """The AllReduce of `size` bytes among devices; None without a link."""
        r = len(devices)
        if r == 1 or size == 0:
            return Operation(Fraction(0), ())
        part = 2 * (r - 1) * size / r
        servers = {self._server[v] for v in devices}
        bytes_through: Counter[Port] = Counter()
        for h in servers if len(servers) > 1 else ():
            bytes_through["out", h] += part  # type: ignore[assignment]
            bytes_through[self._enters(h)] += part  # type: ignore[assignment]
        return self._operation(part, [self._links[v][w] for v in devices for w in devices if v != w], bytes_through)

    def _enters(self, h: int) -> Port:
        return ("out" if self._half else "in", h)

    def _operation(self, part: Fraction, links: list[float], bytes_through: Counter[Port]) -> Operation | None:
        if min(links) == 0 or any(self._rates[port] == 0 for port in bytes_through):
            return None
        loads = tuple((port, Fraction(size) / self._rates[port]) for port, size in sorted(bytes_through.items()))
        return Operation(max([part / Fraction(min(links)), *(load for _, load in loads)]), loads)


def progress(needs: Sequence[tuple[tuple[Port, Fraction], ...]]) -> list[Fraction]:
    """Speeds of simultaneous operations by max-min fair shares of ports, from the ports that each needs; at most 1."""
    speeds: list[Fraction | None] = [None if need else Fraction(1) for need in needs]
    while None in speeds:
        used: dict[Port, Fraction] = {}
        wanted: dict[Port, Fraction] = {}
        for need, speed in zip(needs, speeds, strict=True):
            for port, part in need:
                if speed is None:
                    wanted[port] = wanted.get(port, Fraction(0)) + part
                else:
                    used[port] = used.get(port, Fraction(0)) + part * speed
        levels = {port: (1 - used.get(port, Fraction(0))) / want for port, want in wanted.items() if want}
        level = min([Fraction(1), *levels.values()])
        full = {port for port, at in levels.items() if at == level}
        for k, need in enumerate(needs):
            if speeds[k] is None and (level == 1 or any(port in full for port, _ in need)):
                speeds[k] = level
    return [speed or Fraction(0) for speed in speeds]


# Passes of a plan with all its times: completeness, durations, and the memory that the order needs.


Order = Sequence[tuple[int, str, int]]


def structure_faults(stated: StatedTimeline) -> Iterator[str]:
    """Yield all faults of stages, devices, orders and times."""
    S = len(stated.devices)
    yield from _faults_of_cuts(stated, list(dict.fromkeys(stated.devices)))
    if len(stated.recompute) != S:
        yield f"recompute has {len(stated.recompute)} values for {S} stages"
    elif any(stated.recompute) and not stated.instance.recomputation:
        yield "a stage recomputes, which the question does not allow"
    yield from _faults_of_orders(stated)
    yield from _faults_of_shapes(stated)


def _faults_of_cuts(stated: StatedPlan | StatedTimeline, groups: Sequence[Sequence[int]]) -> Iterator[str]:
    """Yield faults of cuts and of groups of devices, which must be disjoint."""
    instance, cuts = stated.instance, stated.cuts
    if len(cuts) < 2 or cuts[0] != 0 or cuts[-1] != instance.chain.n or any(i >= j for i, j in pairwise(cuts)):
        yield f"the cuts do not rise from 0 to {instance.chain.n}, the number of layers"
    if len(cuts) - 1 != len(stated.devices) or not all(stated.devices):
        yield f"{len(cuts) - 1} stages need one device or more each"
    used = Counter(v for group in groups for v in group)
    for v, times in used.items():
        if not 0 <= v < instance.cluster.n:
            yield f"device {v} does not exist; there are {instance.cluster.n}"
        if times > 1:
            yield f"device {v} is used twice"


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
    """Yield the first pass of each group that waits forever, if the orders deadlock."""
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
    """Passes and transfers with their times, of a plan whose structure has been checked."""

    instance: TrainingInstance
    cuts: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]
    recompute: tuple[bool, ...]
    sends: tuple[Operation, ...]
    receives: tuple[Operation, ...]
    reduces: tuple[Operation, ...]

    @classmethod
    def of(cls, stated: StatedPlan | StatedTimeline) -> PlanPasses | None:
        """Passes of a plan; None if a link is missing."""
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
            recompute=stated.recompute if isinstance(stated, StatedTimeline) else (False,) * len(reduces),
            sends=tuple(operation for operation in sends if operation is not None),
            receives=tuple(operation for operation in receives if operation is not None),
            reduces=tuple(operation for operation in reduces if operation is not None),
        )

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.devices)

    def duration(self, letter: str, n: int) -> Fraction:
        """Time of a pass of stage n [s]: F forward, B backward, I gradients of inputs, W gradients of weights."""
        chain = self.instance.chain
        forward, backward = self._shared(chain.forward, n), self._shared(chain.backward, n)
        half = chain.backward / 2 if chain.input_backward is None else chain.input_backward
        first = self._shared(half, n)
        again = forward if self.recompute[n] else Fraction(0)
        return {"F": forward, "B": backward + again, "I": first + again, "W": backward - first}[letter]

    def operation(self, kind: str, n: int, m: int) -> Operation:
        """The transfer after stage n, forward for the kind "send", else backward; or the "allreduce" of stage m."""
        return self.reduces[m] if kind == "allreduce" else (self.sends if kind == "send" else self.receives)[n]

    def peaks(self, orders: Sequence[Order]) -> list[Fraction]:
        """Largest number of bytes on a device of each group."""
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
        """Bytes of a microbatch that a replica of stage n keeps, and the bytes of its input."""
        chain, (i, j), r = self.instance.chain, self.cuts[n : n + 2], len(self.devices[n])
        arriving = Fraction(float(chain.forward_bytes[i - 1])) if i else Fraction(0)
        return _sum(chain.stored, i, j) / r, arriving / r

    @property
    def _at_once(self) -> bool:
        return self.instance.samples is not None and len(self.devices[0]) == self.instance.cluster.n

    def _shared(self, times: np.ndarray, n: int) -> Fraction:
        """Sum of `times` [s] over the layers of stage n, on one replica."""
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
# Stages and channels work in given orders, one operation at a time, each as early as what it waits for allows; links
# share nothing. In full duplex a channel is two machines.


@dataclass
class _Line:
    """Operations of one kind on one machine: times, dependencies and ends."""

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
        """Run all operations whose inputs are ready; return whether there was any."""
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


def _iteration_time(passes: PlanPasses, orders: StatedOrders, clock: Clock) -> Fraction | None:
    """Time of an iteration by simulation [s]; None if it deadlocks.

    The order of each stage and of each channel is M letters "f" and M letters "b". An `OutOfTimeError` says that the
    clock has run out.
    """
    stages = range(passes.stages)
    forward_times, backward_times = ([passes.duration(letter, n) for n in stages] for letter in "FB")
    send_times, receive_times, reduce_times = (
        [operation.alone for operation in operations] for operations in (passes.sends, passes.receives, passes.reduces)
    )
    everything = (*forward_times, *backward_times, *reduce_times, *send_times, *receive_times)
    scale = math.lcm(*(time.denominator for time in everything))

    def whole(time: Fraction) -> int:
        return time.numerator * (scale // time.denominator)

    last = len(stages) - 1
    forward = [_Line(whole(time), None) for time in forward_times]
    backward = [_Line(whole(time), None) for time in backward_times]
    sends = [_Line(whole(time), forward[n].ends) for n, time in enumerate(send_times)]
    receives = [_Line(whole(time), backward[n + 1].ends) for n, time in enumerate(receive_times)]
    for n in range(last):
        forward[n + 1].after, backward[n].after = sends[n].ends, receives[n].ends
    backward[last].after = forward[last].ends
    machines = [_Machine({"f": forward[n], "b": backward[n]}, order) for n, order in enumerate(orders.stages)]
    for n, order in enumerate(orders.channels):
        lines = {"f": sends[n], "b": receives[n]}
        parts = [order.replace("b", ""), order.replace("f", "")] if passes.instance.full_duplex else [order]
        machines += [_Machine(lines, part) for part in parts]
    while sum(machine.advance() for machine in machines):
        clock.raise_if_late()
    if any(machine.place < len(machine.order) for machine in machines):
        return None
    return Fraction(max(line.ends[-1] + whole(A) for line, A in zip(backward, reduce_times, strict=True)), scale)


# Check a plan: its stages and its time from the definition; its bound is trusted.


def verify_plan(plan: StatedPlan, limits: Limits) -> Verdict:
    """Check all that can be checked in a plan on the paper's network; errors are those of `verify`."""
    cost, faults = None, list[str]()
    fault = next(_faults_of_plan(plan), None)
    passes = None if fault else PlanPasses.of(plan)
    if passes is None:
        fault = fault or "devices that have to exchange data have no link"
    elif (fault := next(_faults_of_memory(plan, passes), None)) is None:
        faults += _faults_of_stages(plan, passes)
        cost = _iteration_time(passes, plan.operations, Clock(limits.seconds))
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
    """Yield all faults of stages and orders."""
    stages, M = len(plan.devices), plan.instance.microbatches
    yield from _faults_of_cuts(plan, plan.devices)
    for what, orders, count in (
        ("stages", plan.operations.stages, stages),
        ("channels", plan.operations.channels, stages - 1),
    ):
        if len(orders) != count:
            yield f"operations.{what} has {len(orders)} orders for {count} {what}"
        for n, order in enumerate(orders):
            if len(order) != 2 * M or order.count("f") != M or order.count("b") != M:
                yield f"operations.{what}[{n}] is not an order of {M} forward and {M} backward operations"


def _faults_of_memory(plan: StatedPlan, passes: PlanPasses) -> Iterator[str]:
    memory = plan.instance.memory
    orders = [[(n, letter, 0) for letter in order.upper()] for n, order in enumerate(plan.operations.stages)]
    for n, needed in enumerate(passes.peaks(orders)):
        if not math.isinf(memory) and needed > Fraction(memory) * (1 + ROUNDING):
            yield f"stage {n} needs {as_float(needed)!r} bytes on each device, which has {memory!r}"


def _faults_of_stages(plan: StatedPlan, passes: PlanPasses) -> Iterator[str]:
    """Yield faults of the numbers of each stage, with a tolerance for differences of sums."""
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
        times = passes.duration("F", n), passes.duration("B", n), passes.reduces[n].alone
        for (name, tolerance), true in zip(slack.items(), times, strict=True):
            claimed = getattr(stage, name)
            if not is_near(claimed, true) and abs(Fraction(claimed) - true) > tolerance:
                yield unequal(f"answer.stages[{n}].{name}", claimed, as_float(true))
