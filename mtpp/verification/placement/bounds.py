"""Bounds on placements, proved again from their witnesses: heads and tails, a window, or a refuted time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from instances.certificates.claims import Claim
from instances.json_files import Value
from instances.placement.problem import PlacementInstance
from mtpp.verification.clock import Clock
from mtpp.verification.faults import ROUNDING
from mtpp.verification.fractions import as_float
from mtpp.verification.placement.step_time import Step
from mtpp.verification.verdict import Check, by_solver, compare

if TYPE_CHECKING:
    from mtpp.verification.placement.start_times import Known

__all__ = ["PLACEMENT_CHECKERS", "PlacementTask"]

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
        from mtpp.verification.placement.start_times import Known  # compiled, which takes a while to load

        known = Known.of(self.step, self.instance, self.step_time)
        known.raise_both(self.clock)
        fault = self._fault_of_heads(claim, known)
        return Check(claim, None, "false", fault) if fault else PLACEMENT_CHECKERS[claim.method](self, claim, known)

    def _fault_of_heads(self, claim: Claim, known: Known) -> str:
        """Describe a head or tail that is later than proved here; empty if there is none."""
        fields = claim.parameters.open_members(("heads", "tails"))
        for name, proved in (("heads", known.early.tolist()), ("tails", known.late.tolist())):
            stated = fields[name].numbers()
            if len(stated) != len(proved):
                return f"parameters.{name} has {len(stated)} numbers for {len(proved)} nodes"
            for v, (time, most) in enumerate(zip(stated, proved, strict=True)):
                true = int(most) * known.unit
                if Fraction(time) > true * (1 + ROUNDING) + ROUNDING * self.step_time:
                    shown = as_float(true)
                    return f"parameters.{name}[{v}]: {time!r} is claimed, only {shown!r} is proved"
        return ""


def _heads(task: PlacementTask, claim: Claim, known: Known) -> Check:
    """The node that the claim names, with its head and its tail."""
    nodes = claim.parameters.open_members(("nodes",))["nodes"].whole_numbers()
    if len(nodes) != 1 or not 0 <= nodes[0] < len(known.work):
        return Check(claim, None, "false", "parameters.nodes does not name one node")
    (v,) = nodes
    proved = int(known.early[v] + known.work[v] + known.late[v]) * known.unit
    return compare(claim, proved, "re-proved by its heads and tails")


def _windows(task: PlacementTask, claim: Claim, known: Known) -> Check:
    """The nodes that start no earlier than a and have b behind them share the devices."""
    a, b = _pair(claim.parameters.open_members(("window",))["window"])
    slack = ROUNDING * task.step_time
    least = [(Fraction(x) * (1 - ROUNDING) - slack) / known.unit for x in (a, b)]
    early, late, work = known.early.tolist(), known.late.tolist(), known.work.tolist()
    inside = [v for v in range(len(work)) if early[v] >= least[0] and late[v] >= least[1]]
    if not inside:
        return Check(claim, None, "false", "no node lies in parameters.window")
    begin, end = min(early[v] for v in inside), min(late[v] for v in inside)
    takes = max(Fraction(sum(work[v] for v in inside)) / known.capacity, _with_rests(task, known, inside))
    return compare(claim, (begin + end + takes) * known.unit, "re-proved by its window")


def _with_rests(task: PlacementTask, known: Known, inside: list[int]) -> Fraction:
    """Time of nodes on all devices with their rests, of which each device spares one."""
    slowest = Fraction(1)
    if task.instance.unequal is not None:
        speeds = [Fraction(speed) for speed in task.instance.unequal.speeds]
        slowest = min(speeds) / max(speeds)
    rests = int(known.rest[inside].sum()) * slowest
    return (int(known.work[inside].sum()) + rests) / known.capacity - known.gap


def _energetic(task: PlacementTask, claim: Claim, known: Known) -> Check:
    """Refute the horizon by an interval with more work than the devices can do."""
    fields = claim.parameters.open_members(("horizon", "interval"))
    horizon, interval = fields["horizon"].number(), _pair(fields["interval"])
    if not _is_too_full(task, known, _short(horizon) / known.unit, interval):
        return Check(claim, None, "false", f"parameters.interval does not refute {horizon!r}")
    return compare(claim, _short(horizon), "re-proved by its interval")


def _short(horizon: float) -> Fraction:
    """A horizon less half of what stated numbers may be off."""
    return Fraction(horizon) * (1 - ROUNDING / 2)


def _is_too_full(task: PlacementTask, known: Known, horizon: Fraction, interval: tuple[float, float]) -> bool:
    if known.capacity < task.instance.devices:  # nodes that run faster elsewhere do less in the interval
        return False
    begin, end = (Fraction(time) / known.unit for time in interval)
    total, columns = Fraction(0), (known.work.tolist(), known.early.tolist(), known.late.tolist())
    for time, early, late in zip(*columns, strict=True):
        inside: list[Fraction] = [end - begin, early + time - begin, end - horizon + late + time]
        total += max(Fraction(0), min(Fraction(time), *inside))
    return 0 <= begin < end and total > task.instance.devices * (end - begin)


def _colocation(task: PlacementTask, claim: Claim, known: Known) -> Check:
    """Derive pairs that must share a device in a step no longer than the horizon, until these contradict each other."""
    fields = claim.parameters.members(("heads", "tails", "horizon"), ("interval",))
    horizon = fields["horizon"].number()
    interval = _pair(fields["interval"]) if "interval" in fields else None
    limit = _short(horizon) / known.unit
    known.limit = min(known.most, int(limit))
    for _ in range(_MOST_PASSES):
        more = known.raise_both(task.clock)
        full = interval is not None and _is_too_full(task, known, limit, interval)
        longest = max(known.longest_node(), known.longest_group(task.clock), known.longest_window())
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


#: Method to what checks it, beside *simple*; all others are trusted from their solver.
PLACEMENT_CHECKERS: dict[str, Callable[[PlacementTask, Claim, Known], Check]] = {
    "heads": _heads,
    "windows": _windows,
    "energetic": _energetic,
    "colocation": _colocation,
}
