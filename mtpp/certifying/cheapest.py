"""Cheapest devices for a good enough answer, and the proof that no cheaper ones suffice."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product

from instances import InputError, Instance, Result
from instances.deadline import Deadline
from instances.machines import Machines
from instances.system.interrupts import catch_interrupt
from mtpp.certifying.certify import certify
from mtpp.certifying.least_k import LeastK, find_least_k
from mtpp.certifying.loop import reaches, rules_out
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.bounds.kinds.ideals import sufficient_counts

__all__ = ["LeastPrice", "find_least"]

# Choices of devices that are looked at.
_MOST_CHOICES = 4096
# Part of the time that is left for what is found on one choice, and the least that is told [s].
_PART, _LEAST = 0.5, 1e-3


@dataclass
class LeastPrice(LeastK):
    """The cheapest devices; `known` has the answer on them by their number.

    Parameters
    ----------
    devices : Devices, optional
        None if there are none that are good enough.
    undecided : list of Machines
        Cheaper ones that nothing excludes, and on which no good enough answer is known.
    """

    devices: Machines | None = None
    undecided: list[Machines] = field(default_factory=list)

    @property
    def open(self) -> list[int]:
        """Numbers of devices in the cheaper choices that are undecided."""
        return sorted({devices.total for devices in self.undecided})

    def sentence(self) -> str:
        """State the cheapest devices, and why no cheaper ones will do."""
        if self.devices is None:
            left = f"; open are {', '.join(map(str, self.undecided[-3:]))}" if self.undecided else ""
            return f"No choice of the devices {'is known' if left else 'there is'} {self.goal}{left}."
        told = f"{self.devices} at a price of {self.devices.price:g} are the cheapest devices {self.goal}"
        if self.undecided:
            return f"{told} that are known; open are {', '.join(map(str, self.undecided[-3:]))}."
        return f"{told}: all cheaper ones are excluded, by all ideals of the graph or by `certify`."


def find_least(
    question: Instance,
    good_enough: float,
    options: SolveOptions,
    *,
    method: str = "portfolio",
    prove: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> LeastK:
    """Look for the cheapest devices where they have prices, else for the least number of blocks.

    The cheaper choices come first. A program over ideals, whose costs are none too high, excludes a choice; on the
    others `certify` finds an answer. The time limit is for all choices together; when it has passed, all devices are
    tried without time, and what nobody has looked at is open.

    Raises
    ------
    InputError
        If there are too many choices, or ideals.
    """
    if question.is_alike or question.machines.price is None:
        return find_least_k(
            question, good_enough, options, method=method, prove=prove, on_progress=on_progress, on_fault=on_fault
        )
    devices = question.machines
    if math.prod(count + 1 for count in devices.counts) > _MOST_CHOICES:
        raise InputError(f"{question.name}: there are more than {_MOST_CHOICES} choices of devices; give fewer kinds.")
    fewest = question.constraints.fewest_blocks
    choices = [counts for counts in product(*(range(count + 1) for count in devices.counts)) if sum(counts) >= fewest]
    choices.sort(key=lambda counts: (devices.subset(counts).price, sum(counts)))
    least, looked_at = LeastPrice(question, good_enough), 0
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        for counts in sufficient_counts(question, choices, good_enough, deadline):
            looked_at = choices.index(counts) + 1
            left = deadline.share(_PART).time_limit
            part = replace(options, time_limit=None if left is None else max(left, _LEAST))
            found = _on(question, counts, part, good_enough, on_progress, on_fault)
            least.interrupted = found.interrupted or interrupted.is_set()
            if _decided(least, found, devices.subset(counts)) or least.interrupted:
                break
        least.interrupted |= interrupted.is_set()
        if least.devices is None and deadline.passed:
            least.undecided += [devices.subset(counts) for counts in choices[looked_at:]]
            if not least.interrupted and looked_at < len(choices):  # all devices are the last choice
                least.undecided.pop()
                at_once = replace(options, time_limit=_LEAST)
                found = _on(question, devices.counts, at_once, good_enough, on_progress, on_fault)
                _decided(least, found, devices)
    return least


def _decided(least: LeastPrice, found: Result, chosen: Machines) -> bool:
    """Take in what is found on some devices; whether it is good enough."""
    if reaches(found, least.good_enough):
        least.devices, least.known = chosen, {chosen.total: found}
        return True
    if not rules_out(found, least.good_enough):
        least.undecided.append(chosen)
    return False


def _on(
    question: Instance,
    counts: tuple[int, ...],
    options: SolveOptions,
    good_enough: float,
    on_progress: Callable[[Progress], None] | None,
    on_fault: Callable[[SolverNotAvailableError], None] | None,
) -> Result:
    """Run `certify` on some of the devices."""
    chosen = question.machines.subset(counts)
    instance = Instance(
        question.graph,
        chosen,
        question.name,
        question.constraints,
        works=question.work[[t for t, count in enumerate(counts) if count]],
        activation_buffer=question.activation_buffer,
        fit=question.fit and any(math.isfinite(kind.memory) for kind in chosen.kinds),
    )
    return certify(instance, options, good_enough=good_enough, on_progress=on_progress, on_fault=on_fault)
