"""Check of placements: their step time, and bounds by heads and tails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from instances.certificates import Claim
from instances.json_files import Value
from instances.placement.problem import PlacementInstance, StatedPlacement, placement_from_document
from mtpp.verification.placement.step_time import (
    Run,
    Step,
    TimeBounds,
    capacity_of,
    devices_of_kinds,
    faults_of_sequences,
    peaks,
    resident_bytes,
    run_in_sequence,
    speeds_of,
)
from mtpp.verification.verdict import (
    FEASIBLE,
    ROUNDING,
    Check,
    Clock,
    Limits,
    Verdict,
    as_float,
    by_solver,
    compare,
    is_near,
    unequal,
    verdict_of,
)

# Bounds on placements, proved again from their witnesses: heads and tails, a window, or a refuted time.


# Passes in both directions for one time.
_MOST_PASSES = 60


@dataclass(frozen=True)
class PlacementTask:
    """Question and limits for all checkers of placements."""

    instance: PlacementInstance
    step: Step  # in whole numbers
    simple: Fraction  # a longest path, or an even share of all work
    step_time: Fraction  # of a placement, within which all nodes run
    clock: Clock

    def check(self, claim: Claim) -> Check:
        """Prove a claim again by the checker of its method.

        Raises
        ------
        OutOfTimeError
        """
        value = Fraction(claim.value)
        if claim.method == "simple":
            return compare(claim, self.simple, "re-proved by its formula")
        if value <= self.simple * (1 + ROUNDING):
            return compare(claim, self.simple, "re-proved by the formula of simple")
        if claim.method not in PLACEMENT_CHECKERS:
            return by_solver(claim)

        bounds = TimeBounds.of(self.step, self.instance, self.step_time)
        bounds.raise_both(self.clock)
        fault = self._fault_of_heads(claim, bounds)
        return Check(claim, None, "false", fault) if fault else PLACEMENT_CHECKERS[claim.method](self, claim, bounds)

    def _fault_of_heads(self, claim: Claim, bounds: TimeBounds) -> str:
        """A head or tail in the claim that exceeds the proved one; empty if there is none."""
        fields = claim.parameters.open_members(("heads", "tails"))
        for name, proved in (("heads", bounds.early.tolist()), ("tails", bounds.late.tolist())):
            stated = fields[name].numbers()
            if len(stated) != len(proved):
                return f"parameters.{name} has {len(stated)} numbers for {len(proved)} nodes"
            for v, (time, limit) in enumerate(zip(stated, proved, strict=True)):
                true = int(limit) * bounds.unit
                if Fraction(time) > true * (1 + ROUNDING) + ROUNDING * self.step_time:
                    return f"parameters.{name}[{v}]: {time!r} is claimed, only {as_float(true)!r} is proved"
        return ""


def _heads(task: PlacementTask, claim: Claim, bounds: TimeBounds) -> Check:
    """Prove a claim by the head and the tail of its node."""
    nodes = claim.parameters.open_members(("nodes",))["nodes"].whole_numbers()
    if len(nodes) != 1 or not 0 <= nodes[0] < len(bounds.work):
        return Check(claim, None, "false", "parameters.nodes does not name one node")
    (v,) = nodes
    proved = int(bounds.early[v] + bounds.work[v] + bounds.late[v]) * bounds.unit
    return compare(claim, proved, "re-proved by its heads and tails")


def _windows(task: PlacementTask, claim: Claim, bounds: TimeBounds) -> Check:
    """Prove a claim by a window (a, b): nodes that start at a or later and end b or more before the step's end."""
    a, b = _pair(claim.parameters.open_members(("window",))["window"])
    slack = ROUNDING * task.step_time
    least = [(Fraction(x) * (1 - ROUNDING) - slack) / bounds.unit for x in (a, b)]
    early, late, work = bounds.early.tolist(), bounds.late.tolist(), bounds.work.tolist()
    inside = [v for v in range(len(work)) if early[v] >= least[0] and late[v] >= least[1]]
    if not inside:
        return Check(claim, None, "false", "no node lies in parameters.window")
    begin, end = min(early[v] for v in inside), min(late[v] for v in inside)
    takes = max(Fraction(sum(work[v] for v in inside)) / bounds.capacity, _with_rests(task, bounds, inside))
    return compare(claim, (begin + end + takes) * bounds.unit, "re-proved by its window")


def _with_rests(task: PlacementTask, bounds: TimeBounds, inside: list[int]) -> Fraction:
    """Lower bound on the time in which all devices run the nodes `inside` with their pauses [`bounds.unit`]."""
    rests = int(bounds.rest[inside].sum()) * min(speeds_of(task.instance))
    return (int(bounds.work[inside].sum()) + rests) / bounds.capacity - bounds.gap


def _energetic(task: PlacementTask, claim: Claim, bounds: TimeBounds) -> Check:
    """Refute the horizon by an interval with more work than devices can do (energetic reasoning)."""
    fields = claim.parameters.open_members(("horizon", "interval"))
    horizon, interval = fields["horizon"].number(), _pair(fields["interval"])
    if not _is_too_full(task, bounds, _short(horizon) / bounds.unit, interval):
        return Check(claim, None, "false", f"parameters.interval does not refute {horizon!r}")
    return compare(claim, _short(horizon), "re-proved by its interval")


def _short(horizon: float) -> Fraction:
    """The horizon, reduced by half of the rounding error of stated numbers."""
    return Fraction(horizon) * (1 - ROUNDING / 2)


def _is_too_full(task: PlacementTask, bounds: TimeBounds, horizon: Fraction, interval: tuple[float, float]) -> bool:
    if bounds.capacity < task.instance.devices:  # nodes that run faster elsewhere do less in the interval
        return False
    begin, end = (Fraction(time) / bounds.unit for time in interval)
    total, columns = Fraction(0), (bounds.work.tolist(), bounds.early.tolist(), bounds.late.tolist())
    for time, early, late in zip(*columns, strict=True):
        inside: list[Fraction] = [end - begin, early + time - begin, end - horizon + late + time]
        total += max(Fraction(0), min(Fraction(time), *inside))
    return 0 <= begin < end and total > task.instance.devices * (end - begin)


def _colocation(task: PlacementTask, claim: Claim, bounds: TimeBounds) -> Check:
    """Refute the horizon by pairs of nodes that would have to share devices until that contradicts itself."""
    fields = claim.parameters.members(("heads", "tails", "horizon"), ("interval",))
    horizon = fields["horizon"].number()
    interval = _pair(fields["interval"]) if "interval" in fields else None
    limit = _short(horizon) / bounds.unit
    bounds.limit = min(bounds.ceiling, int(limit))
    for _ in range(_MOST_PASSES):
        more = bounds.raise_both(task.clock)
        full = interval is not None and _is_too_full(task, bounds, limit, interval)
        longest = max(bounds.longest_node(), bounds.longest_group(task.clock), bounds.longest_window())
        if full or longest > limit:
            return compare(claim, _short(horizon), "re-proved by nodes that share a device")
        if not more:
            break
    return Check(claim, None, "false", f"nothing refutes parameters.horizon {horizon!r}")


def _pair(value: Value) -> tuple[float, float]:
    numbers = value.numbers()
    if len(numbers) != 2:
        value.fail(f"there are {len(numbers)} numbers; it takes 2.")
    return numbers[0], numbers[1]


#: Method to what checks it, besides *simple*; all others are trusted from their solver.
PLACEMENT_CHECKERS: dict[str, Callable[[PlacementTask, Claim, TimeBounds], Check]] = {
    "heads": _heads,
    "windows": _windows,
    "energetic": _energetic,
    "colocation": _colocation,
}


# Check a placement: its step time, its memory and its bound from the definition.


def verify_placement(document: Value, limits: Limits) -> Verdict:
    """Check all that can be checked in a placement file; errors are those of `verify`."""
    placement, clock = placement_from_document(document), Clock(limits.seconds)
    step = Step.exact(placement.instance)
    faults = list(_faults_of_names(placement))
    cost, check, standing = None, _unchecked, FEASIBLE
    fault = next(_faults_of_placement(placement, step), None)
    run = _run(placement, step, clock) if fault is None else fault
    fault = run if isinstance(run, str) else next(_faults_of_order(placement, run), None)
    if fault is None and not isinstance(run, str):
        cost, needed = Fraction(max(run.end)) * step.unit, _memory(placement, run)
        check = PlacementTask(placement.instance, step, _work_bound(step, placement.instance), cost, clock).check
        faults += _faults_of_memory(placement, needed, clock)
        if any(size > memory for size, memory in zip(needed, _memories(placement), strict=True)):
            standing = "more than the memory of a device"
    fault = fault and f"placement: {fault}"
    return verdict_of(placement, cost, faults, check, limits, fault=fault, standing=standing)


def _unchecked(claim: Claim) -> Check:
    return Check(claim, None, "not checked, without a placement")


def _run(placement: StatedPlacement, step: Step, clock: Clock) -> Run | str:
    """Simulate the step, with stated sequences if any; return a message if it deadlocks."""
    if placement.device_order is None:
        run = step.run(placement.device, placement.sequence, clock)
        return "its devices wait for each other for ever in the order of the sequence" if run is None else run
    return run_in_sequence(placement, step, clock)


def _memories(placement: StatedPlacement) -> list[float]:
    return [kind.memory for kind in placement.instance.machines.kinds for _ in range(kind.count)]


def _work_bound(step: Step, instance: PlacementInstance) -> Fraction:
    """Bound by the longest path or the average work, in the time unit of the work.

    If devices differ, each node counts as on the fastest one, and shares of the work are proportional to speed.
    """
    devices, missing = devices_of_kinds(instance), [0] * len(step.outputs)
    for readers in step.readers:
        for v in readers:
            missing[v] += 1
    order, work = (
        [v for v, count in enumerate(missing) if not count],
        [min(step.node_time(v, d) for d in devices) for v in range(len(missing))],
    )
    end = list(work)
    for u in order:  # grows
        for v in (v for t in step.outputs[u] for v in step.readers[t]):
            end[v] = max(end[v], end[u] + work[v])
            missing[v] -= 1
            if not missing[v]:
                order.append(v)
    return max(Fraction(max(end)), Fraction(sum(work)) / capacity_of(instance)) * step.unit


def _memory(placement: StatedPlacement, run: Run) -> list[Fraction]:
    """Peak memory of each device [bytes]."""
    instance = placement.instance
    params = resident_bytes(instance, placement.device)
    return [fixed + peak for fixed, peak in zip(params, peaks(instance, run), strict=True)]


def _faults_of_placement(placement: StatedPlacement, step: Step) -> Iterator[str]:
    """Yield all faults of devices and order."""
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
    """Yield faults of the order: nodes must run first ready, first served, except for ties.

    If the placement states the sequence of each device, nodes only have to start in the stated order.
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
    """Yield false peaks; a peak that depends on near ties may have either value."""
    if len(placement.peak_memory) != len(needed):
        yield f"answer.peak_memory: {len(placement.peak_memory)} devices are described, there are {len(needed)}"
        return
    wrong = [d for d, claimed in enumerate(placement.peak_memory) if not is_near(claimed, needed[d])]
    if wrong:
        run = _run(placement, Step.rounded(placement.instance), clock)
        assert not isinstance(run, str)
        rounded = _memory(placement, run)
        for d in wrong:
            if not is_near(placement.peak_memory[d], rounded[d]):
                yield unequal(f"answer.peak_memory[{d}]", placement.peak_memory[d], as_float(needed[d]))


def _faults_of_names(placement: StatedPlacement) -> Iterator[str]:
    """Yield a fault if the lists of node names by device are wrong."""
    instance = placement.instance
    names: list[list[str]] = [[] for _ in range(instance.devices)]
    for name, d in zip(instance.graph.names, placement.device, strict=False):
        if 0 <= d < instance.devices:
            names[d].append(name)
    if [list(row) for row in placement.nodes] != names:
        yield "answer.nodes: the names are not those of the nodes on each device"
