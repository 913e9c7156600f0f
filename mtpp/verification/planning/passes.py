"""Passes of a plan with all its times: completeness, durations, and the memory that the order needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from instances.planning.problem import TrainingInstance
from instances.planning.stated import MOMENTS, StatedTimeline
from mtpp.verification.planning.shared_cards import Cards, Operation

__all__ = ["PlanPasses", "deadlocks", "structure_faults"]

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


def _is_ready(one: tuple[int, str, int], done: set[tuple[int, str, int]], last: int) -> bool:
    n, letter, m = one
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
    there: tuple[Operation, ...]
    back: tuple[Operation, ...]
    reduces: tuple[Operation, ...]

    @classmethod
    def of(cls, stated: StatedTimeline) -> PlanPasses | None:
        """Passes of a plan whose structure has no fault; None if a link is missing."""
        instance, chain, cards = stated.instance, stated.instance.chain, Cards(stated.instance)
        pairs = list(zip(stated.cuts[1:-1], stated.devices, stated.devices[1:], strict=False))
        there = [cards.transfer(float(chain.forward_bytes[cut - 1]), here, next_) for cut, here, next_ in pairs]
        back = [cards.transfer(float(chain.backward_bytes[cut - 1]), next_, here) for cut, here, next_ in pairs]
        reduces = [
            cards.allreduce(_sum(chain.param_bytes, i, j), group)
            for (i, j), group in zip(pairwise(stated.cuts), stated.devices, strict=True)
        ]
        if None in (*there, *back, *reduces):
            return None
        return cls(
            instance=instance,
            cuts=stated.cuts,
            devices=stated.devices,
            recompute=stated.recompute,
            there=tuple(one for one in there if one is not None),
            back=tuple(one for one in back if one is not None),
            reduces=tuple(one for one in reduces if one is not None),
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
        return self.reduces[m] if kind == "allreduce" else (self.there if kind == "send" else self.back)[n]

    def peaks(self, orders: Sequence[Order]) -> list[Fraction]:
        """Most bytes that a device of each group holds."""
        chain, copies, found = self.instance.chain, Fraction(self.instance.parameter_copies), []
        for group, order in zip(dict.fromkeys(self.devices), orders, strict=True):
            held = most = Fraction(0)
            for n, letter, _ in order:
                stored, arriving = self._stored(n)
                if letter == "F":
                    held += arriving if self.recompute[n] else stored
                elif letter in "BI" and self.recompute[n]:
                    held += stored
                most = max(most, held)
                if letter in "BW":
                    held -= arriving + stored if self.recompute[n] else stored
            if self._at_once:
                stored, arriving = self._stored(0)
                M = self.instance.microbatches
                most = M * arriving + stored if self.recompute[0] else M * stored
            stages = [n for n, devices in enumerate(self.devices) if devices == group]
            fixed = sum((_sum(chain.param_bytes, *self.cuts[n : n + 2]) for n in stages), Fraction(0))
            found.append(copies * fixed + most)
        return found

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
