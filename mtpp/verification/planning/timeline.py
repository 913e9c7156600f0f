"""Verify a plan that states all its times on shared network cards, and its bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from instances.certificates import Claim
from instances.json_files import Value
from instances.planning.stated import StatedPlan, StatedTimeline, plan_from_document
from mtpp.verification.planning.plan import (
    Operation,
    PlanPasses,
    deadlocks,
    least_work,
    progress,
    structure_faults,
    verify_plan,
)
from mtpp.verification.planning.suffixes import check_suffixes
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

#: Classes of plans, from the narrowest on; a bound's method ends with the one that it covers.
_CLASSES = ("fixed", "split", "any")

Span = tuple[Fraction, Fraction]


def verify_any_plan(document: Value, limits: Limits) -> Verdict:
    """Check all that can be checked in a plan; errors are those of `verify`."""
    stated = plan_from_document(document)
    return verify_plan(stated, limits) if isinstance(stated, StatedPlan) else verify_timeline(stated, limits)


def verify_timeline(stated: StatedTimeline, limits: Limits) -> Verdict:
    """Check all that can be checked in a timed plan; errors are those of `verify`."""
    clock, faults, cost = Clock(limits.seconds), list[str](), None
    fault = next(structure_faults(stated), None) or next(deadlocks(stated), None)
    passes = None if fault else PlanPasses.of(stated)
    if passes is None:
        fault = fault or "devices that have to exchange data have no link"
    else:
        spans = _Spans(stated)
        fault = next(_faults_of_times(stated, passes, spans, clock), None)
        if fault is None:
            cost = spans.latest
            faults += _faults_of_memory(stated, passes)
    fault = fault and f"plan: {fault}"
    return verdict_of(stated, cost, faults, lambda claim: _check(stated, claim), limits, fault=fault)


def _faults_of_times(stated: StatedTimeline, passes: PlanPasses, spans: _Spans, clock: Clock) -> Iterator[str]:
    """Yield operations that cannot run at their stated times."""
    slack = ROUNDING * spans.latest
    for faults in (_order_faults, _input_faults, _channel_faults):
        yield from faults(stated, passes, spans, slack)
    yield from _speed_faults(passes, spans, slack, clock)


class _Spans:
    """Stated start and end of each operation, by kind, row and microbatch."""

    def __init__(self, stated: StatedTimeline) -> None:
        self.of: dict[tuple[str, int, int], Span] = {}
        for kind, rows in stated.starts.items():
            for n, row in enumerate(rows):
                for m, start in enumerate(row):
                    end = stated.ends[kind][n][m]
                    if start is not None and end is not None:
                        self.of[kind, n, m] = Fraction(start), Fraction(end)
        self.latest = max((end for _, end in self.of.values()), default=Fraction(0))

    def of_pass(self, step: tuple[int, str, int]) -> Span:
        n, letter, m = step
        return self.of[{"F": "forward", "B": "backward", "I": "backward", "W": "weights"}[letter], n, m]


def _check(stated: StatedTimeline, claim: Claim) -> Check:
    covers, letters = claim.method.rsplit("-", 1)[-1], {letter for order in stated.orders for _, letter, _ in order}
    needed = "any" if len(set(stated.devices)) < len(stated.devices) else "split" if "W" in letters else "fixed"
    if covers not in _CLASSES or _CLASSES.index(covers) < _CLASSES.index(needed):
        fault = f"this bound holds for {covers} plans, and this one is of the class {needed}"
        return Check(claim, None, "false", fault)
    if claim.value <= 0:
        return Check(claim, Fraction(0), "nothing to prove")
    if claim.method != "work-any":
        return check_suffixes(stated.instance, claim)
    return compare(claim, least_work(stated.instance), "re-proved: an even share of all work")


def _order_faults(stated: StatedTimeline, passes: PlanPasses, spans: _Spans, slack: Fraction) -> Iterator[str]:
    """Yield passes with a wrong duration, and passes of a group that overlap."""
    for order in stated.orders:
        before = Fraction(0)
        for step in order:
            start, end = spans.of_pass(step)
            n, letter, m = step
            if abs(end - start - passes.duration(letter, n)) > slack:
                yield f"{n}{letter}{m} lasts {as_float(end - start)!r} s, not {as_float(passes.duration(letter, n))!r}"
            if start < before - slack:
                yield f"{n}{letter}{m} starts before the pass before it ends"
            before = end


def _input_faults(stated: StatedTimeline, passes: PlanPasses, spans: _Spans, slack: Fraction) -> Iterator[str]:
    """Yield faults of operations that start before their inputs are ready."""
    last, split = passes.stages - 1, {(n, m) for order in stated.orders for n, letter, m in order if letter == "W"}
    for (kind, n, m), (start, _) in spans.of.items():
        needs: list[tuple[str, int, int]] = []
        if kind == "forward" and n > 0:
            needs = [("send", n - 1, m)]
        elif kind == "send":
            needs = [("forward", n, m)]
        elif kind == "backward":
            needs = [("forward", n, m), *([("receive", n, m)] if n < last else [])]
        elif kind == "receive":
            needs = [("backward", n + 1, m)]
        elif kind == "weights":
            needs = [("backward", n, m)]
        elif kind == "allreduce":
            every = range(stated.instance.microbatches)
            needs = [("weights" if (m, i) in split else "backward", m, i) for i in every]
        for need in needs:
            if start < spans.of[need][1] - slack:
                where = f"stage {m}" if kind == "allreduce" else f"stage {n}, microbatch {m}"
                yield f"{kind} of {where}: it starts before {need[0]} ends"


def _channel_faults(stated: StatedTimeline, _passes: PlanPasses, spans: _Spans, slack: Fraction) -> Iterator[str]:
    """Yield transfers that overlap in a channel; in full duplex each direction counts alone."""
    busy: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Span]] = {}
    for (kind, n, _), span in spans.of.items():
        if kind in ("send", "receive") and stated.devices[n] != stated.devices[n + 1]:
            first, second = stated.devices[n], stated.devices[n + 1]
            ends = (first, second) if kind == "send" else (second, first)
            if not stated.instance.full_duplex:
                ends = min(first, second), max(first, second)
            busy.setdefault(ends, []).append(span)
    for ends, occupied in busy.items():
        for (_, end), (start, _) in pairwise(sorted(occupied)):
            if start < end - slack:
                yield f"two transfers between the devices {list(ends[0])} and {list(ends[1])} overlap"


def _speed_faults(passes: PlanPasses, spans: _Spans, slack: Fraction, clock: Clock) -> Iterator[str]:
    """Yield transfers and AllReduces that end before or after the cards let them."""
    operations = {key: passes.operation(*key) for key in spans.of if key[0] in ("send", "receive", "allreduce")}
    done = dict.fromkeys(operations, Fraction(0))
    events: list[tuple[Fraction, int, tuple[str, int, int]]] = []
    for key, operation in operations.items():
        start, end = spans.of[key]
        if operation.loads:
            events += [(start, 0, key), (end, 1, key)]  # what takes no time starts before it ends
        else:
            done[key] = end - start
    speeds: dict[tuple[Operation, ...], list[Fraction]] = {}
    running: dict[tuple[str, int, int], Operation] = {}
    now = Fraction(0)
    for time, ends, key in sorted(events):
        clock.raise_if_late()
        if time > now:
            together = tuple(running.values())
            if together not in speeds:
                speeds[together] = progress([operation.needs for operation in together])
            for running_key, speed in zip(running, speeds[together], strict=True):
                done[running_key] += speed * (time - now)
            now = time
        if ends:
            running.pop(key, None)
        else:
            running[key] = operations[key]
    for (kind, n, m), operation in operations.items():
        if abs(done[kind, n, m] - operation.alone) > slack:
            what = f"{kind} of stage {m if kind == 'allreduce' else n}"
            yield f"{what} runs for {as_float(done[kind, n, m])!r} s of {as_float(operation.alone)!r} by its end"


def _faults_of_memory(stated: StatedTimeline, passes: PlanPasses) -> Iterator[str]:
    memory, peaks = stated.instance.memory, passes.peaks(stated.orders)
    if len(peaks) != len(stated.peaks):
        yield f"peak_bytes: there are {len(stated.peaks)} for {len(peaks)} groups"
        return
    for g, (claimed, true) in enumerate(zip(stated.peaks, peaks, strict=True)):
        if not is_near(claimed, true):
            yield unequal(f"peak_bytes[{g}]", claimed, as_float(true))
        if not math.isinf(memory) and true > Fraction(memory) * (1 + ROUNDING):
            yield f"plan: a device of group {g} needs {as_float(true)!r} bytes, which has {memory!r}"
