"""Check a placement: its step time, its memory and its bound from the definition."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from instances.json_files import Value
from instances.placement.problem import PlacementInstance
from instances.placement.stated import StatedPlacement, placement_from_document
from mtpp.verification.clock import Clock, Limits
from mtpp.verification.faults import ROUNDING, faults_of_copies, faults_of_cost, faults_of_sum, is_near, unequal
from mtpp.verification.fractions import as_float
from mtpp.verification.placement.bounds import PlacementTask
from mtpp.verification.placement.sequences import faults_of_sequences, run_in_sequence
from mtpp.verification.placement.step_time import Run, Step, held_bytes, peaks
from mtpp.verification.verdict import Check, Verdict, check_claims

__all__ = ["verify_placement"]


def verify_placement(document: Value, limits: Limits) -> Verdict:
    """Check everything in a placement file; errors are those of `verify`."""
    placement, clock = placement_from_document(document), Clock(limits.seconds)
    step = Step.exact(placement.instance)
    faults = list(_faults_of_copies(placement))
    fault, cost, needed = next(_faults_of_placement(placement, step), None), None, [Fraction(0)]
    if fault is None:
        run = _run(placement, step, clock)
        if isinstance(run, str):
            fault = run
        else:
            cost, needed = Fraction(max(run.end)) * step.unit, _memory(placement, run)
            fault = next(_faults_of_order(placement, run), None)
    if fault is not None or cost is None:
        checks = tuple(Check(claim, None, "not checked, without a placement") for claim in placement.claims)
        return Verdict(placement, None, checks, (*faults, f"placement: {fault}"))
    task = PlacementTask(placement.instance, step, _work_bound(step, placement.instance), cost, clock)
    checks, false = check_claims(placement, task.check, limits.seconds)
    faults += false
    faults += _faults_of_memory(placement, needed, clock)
    faults += faults_of_cost("step_time", placement.cost, cost)
    faults += faults_of_sum(placement, cost)
    fits = all(bytes_needed <= memory for bytes_needed, memory in zip(needed, _memories(placement), strict=True))
    return Verdict(placement, cost, checks, tuple(faults), "feasible" if fits else "more than the memory of a device")


def _run(placement: StatedPlacement, step: Step, clock: Clock) -> Run | str:
    """Run the step, by its sequences if it has any; return a message if it deadlocks."""
    if placement.device_order is None:
        run = step.run(placement.device, placement.sequence, clock)
        return "its devices wait for each other for ever in the order of the sequence" if run is None else run
    return run_in_sequence(placement, step, clock)


def _memories(placement: StatedPlacement) -> Sequence[float]:
    instance = placement.instance
    return [instance.memory] * instance.devices if instance.unequal is None else instance.unequal.memories


def _work_bound(step: Step, instance: PlacementInstance) -> Fraction:
    """The work of a longest path, or an even share of all work, in the time unit of the work.

    Of unequal devices the path is on the fastest one, and shares are by speed.
    """
    speeds = [1.0] * instance.devices if instance.unequal is None else instance.unequal.speeds
    fastest, missing = speeds.index(max(speeds)), [0] * len(step.outputs)
    for readers in step.readers:
        for v in readers:
            missing[v] += 1
    order, work = (
        [v for v, count in enumerate(missing) if not count],
        [step.node_time(v, fastest) for v in range(len(missing))],
    )
    end = list(work)
    for u in order:  # grows
        for v in (v for t in step.outputs[u] for v in step.readers[t]):
            end[v] = max(end[v], end[u] + work[v])
            missing[v] -= 1
            if not missing[v]:
                order.append(v)
    parts = sum(Fraction(speed) for speed in speeds) / Fraction(speeds[fastest])
    return max(Fraction(max(end)), Fraction(sum(work)) / parts) * step.unit


def _memory(placement: StatedPlacement, run: Run) -> list[Fraction]:
    """Memory of each device [bytes]."""
    instance = placement.instance
    fixed = held_bytes(instance, placement.device)
    return [held + peak for held, peak in zip(fixed, peaks(instance, run), strict=True)]


def _faults_of_placement(placement: StatedPlacement, step: Step) -> Iterator[str]:
    """Yield all reasons why devices and an order are no placement."""
    n, k = placement.instance.graph.n, placement.instance.devices
    if len(placement.device) != n:
        yield f"there are {len(placement.device)} devices for {n} nodes"
    for v, d in enumerate(placement.device):
        if not 0 <= d < k:
            yield f"node {v} is on device {d} of {k}"
    if sorted(placement.sequence) != list(range(n)):
        yield "the sequence is not a permutation of the nodes"
    if placement.device_order is not None and len(placement.device) == n and all(0 <= d < k for d in placement.device):
        yield from faults_of_sequences(placement, step)


def _faults_of_order(placement: StatedPlacement, run: Run) -> Iterator[str]:
    """Yield faults of the order: first ready, first served; ties up to rounding are free.

    Where there are sequences, nodes come as they start.
    """
    slack = ROUNDING * Fraction(max(run.end))
    if placement.device_order is not None:
        for u, v in pairwise(placement.sequence):
            if run.start[v] < run.start[u] - slack:
                yield f"node {v} starts before node {u}, which comes first in the sequence"
        return
    latest: dict[int, float] = {}
    for v in placement.sequence:
        d = placement.device[v]
        if run.ready[v] < latest.get(d, 0) - slack:
            yield f"node {v} is ready before nodes that come first on device {d} in the sequence"
        latest[d] = max(latest.get(d, 0), run.ready[v])


def _faults_of_memory(placement: StatedPlacement, needed: list[Fraction], clock: Clock) -> Iterator[str]:
    """Yield faults of the peaks, computed exactly; near ties may also be as floats have them."""
    if len(placement.peak_memory) != len(needed):
        yield f"peak_memory: {len(placement.peak_memory)} devices are described, there are {len(needed)}"
        return
    wrong = [d for d, claimed in enumerate(placement.peak_memory) if not is_near(claimed, needed[d])]
    if wrong:
        run = _run(placement, Step.rounded(placement.instance), clock)
        assert not isinstance(run, str)
        rounded = _memory(placement, run)
        for d in wrong:
            if not is_near(placement.peak_memory[d], rounded[d]):
                yield unequal(f"peak_memory[{d}]", placement.peak_memory[d], as_float(needed[d]))


def _faults_of_copies(placement: StatedPlacement) -> Iterator[str]:
    """Yield a fault for each value of question and devices that the file repeats wrongly."""
    instance = placement.instance
    true = {
        "graph": instance.graph.name,
        "graph_hash": instance.graph.content_hash,
        "devices": instance.devices,
        "bandwidth": instance.bandwidth if math.isfinite(instance.bandwidth) else None,
        "memory": instance.memory if math.isfinite(instance.memory) else None,
    }
    yield from faults_of_copies(placement.copies, true)
    names: list[list[str]] = [[] for _ in range(instance.devices)]
    for name, d in zip(instance.graph.names, placement.device, strict=False):
        if 0 <= d < instance.devices:
            names[d].append(name)
    if [list(row) for row in placement.nodes] != names:
        yield "nodes: the names are not those of the nodes on each device"
