"""Least number of blocks, or cheapest devices, with which a given bottleneck can be reached."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from threading import Event

import numpy as np

from heuristics import Limits, search
from instances import InputError, Instance, Result
from instances.deadline import Deadline
from instances.machines import Machines
from instances.partitioning.memory import proof_of_no_fit
from instances.system.processes import catch_interrupt
from mtpp.certifying.certify import certify
from mtpp.certifying.loop import reaches, rules_out
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.bounds.ideals.kinds import sufficient_counts
from mtpp_models.simple import simple_bound

# Least number of blocks for a good enough answer, and the proof that fewer do not suffice.


# Of more blocks than this none are looked for.
_MOST_BLOCKS = 1024
# Part of the time limit of each k for the search that looks for the first k.
_FOR_SEARCH = 0.2


@dataclass
class LeastK:
    """Results of a search for the least number of blocks, by number of blocks.

    Parameters
    ----------
    question : Instance
        The question; its k has no meaning.
    good_enough : float
        The bottleneck to reach; infinite if any answer will do, because it fits.
    results : dict of int to Result
        Result for each k tried: a partition that is good enough, a proof that there is none, or neither.
    refused : dict of int to str
        Why the constraints contradict these k.
    interrupted : bool
        Whether Ctrl-C ended the work.
    """

    question: Instance
    good_enough: float
    results: dict[int, Result] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def k(self) -> int | None:
        """Least k with a known partition that is good enough; None if there is none."""
        return min((k for k, result in self.results.items() if reaches(result, self.good_enough)), default=None)

    @property
    def open(self) -> list[int]:
        """Undecided numbers of blocks below the least known one."""
        last = self.largest_k if self.k is None else self.k - 1
        fewest = range(1, last + 1) if self.by_itself else range(last, last + 1)
        return [k for k in fewest if k > 0 and not self._excluded(k)]

    @property
    def largest_k(self) -> int:
        """Largest k to try: with more blocks than nodes and windows need, the rest is empty."""
        limit = self.question.machines.total if not self.question.is_alike else _MOST_BLOCKS
        return min(self.question.graph.n + self.question.constraints.fewest_blocks - 1, limit)

    @property
    def by_itself(self) -> bool:
        """Whether each k is a separate question, as constraints name blocks or forbid empty ones."""
        return bool(self.question.constraints.windows or self.question.constraints.at_least)

    def instance(self, k: int) -> Instance | None:
        """The question for k blocks; None if that is a contradiction."""
        try:
            return self.question.with_k(k)
        except InputError as error:
            self.refused[k] = str(error)
            return None

    @property
    def goal(self) -> str:
        """The goal in words."""
        if math.isinf(self.good_enough):
            return "on which it fits"
        unit = self.question.time_unit
        return f"with a bottleneck of {self.good_enough:.6g} {unit} or less ({1 / self.good_enough:.6g} per {unit})"

    def sentence(self) -> str:
        """State the least k, and why fewer blocks do not suffice."""
        goal = "that fits" if math.isinf(self.good_enough) else self.goal
        if self.k is None:
            outcome = f"none {goal} is known" if self.open else f"there is none {goal}"
            return f"Of all numbers of blocks up to {self.largest_k} {outcome}." + self._why(self.largest_k)
        if self.k == 1:
            return f"k = 1 is the least {goal}."
        if self.open:
            which = ", ".join(map(str, self.open[-3:]))
            return f"k = {self.k} is the least {goal} that is known; whether {which} would do is open."
        return f"k = {self.k} is the least {goal}: {self.k - 1} will not do." + self._why(self.k - 1)

    def _excluded(self, k: int) -> bool:
        return k in self.refused or (k in self.results and rules_out(self.results[k], self.good_enough))

    def _why(self, k: int) -> str:
        if k in self.refused:
            return f" {self.refused[k]}"
        result = self.results.get(k)
        if result is None or not rules_out(result, self.good_enough):
            return ""
        if result.impossible is not None:
            return f" {result.instance.label}: {result.impossible}."
        assert result.bound is not None
        bound = f"{result.bound.value:.6g} {result.instance.time_unit} ({result.bound.method})"
        return f" {result.instance.label}: every bottleneck is at least {bound}."


def _fewest_blocks(
    question: Instance, good_enough: float, options: SolveOptions, method: str, proof: Callable[..., Result] | None
) -> LeastK:
    """The least number of blocks; without `proof`, which runs `certify`, smaller k are excluded by sums alone.

    Sums of bytes exclude the smallest k. A search then looks for a k with a good enough partition, in growing steps and
    then between the last two. From there downwards, `proof` finds a good enough partition for k or excludes k; once a
    k is excluded, so are fewer blocks.
    """
    least = LeastK(question, good_enough)
    with catch_interrupt() as interrupted:
        if _starts(least, interrupted):
            _look_upwards(least, lambda k: _search(least, k, options, method, interrupted))
        while proof and least.open and least.k is not None and not (least.interrupted or interrupted.is_set()):
            k = least.open[-1]
            instance = least.instance(k)
            if instance is None:
                continue
            least.results[k] = proof(instance, options, earlier=list(least.results.values()))
            least.interrupted = least.results[k].interrupted
            if not (rules_out(least.results[k], good_enough) or reaches(least.results[k], good_enough)):
                break
        least.interrupted |= interrupted.is_set()
    return least


def _starts(least: LeastK, interrupted: Event) -> bool:
    """Exclude k from below by sums of bytes; return whether any k is left."""
    if least.by_itself:
        return any(_may_do(least, k) for k in range(1, least.largest_k + 1) if not interrupted.is_set())
    low, high = 0, least.largest_k
    if not _may_do(least, high):
        return False
    while high - low > 1 and not interrupted.is_set():
        middle = (low + high) // 2
        low, high = (low, middle) if _may_do(least, middle) else (middle, high)
    return True


def _may_do(least: LeastK, k: int) -> bool:
    instance = least.instance(k)
    if instance is None:
        return False
    reason, bound = proof_of_no_fit(instance), simple_bound(instance, optimal=False)
    result = Result("simple", instance, bound=bound if reason is None else None, impossible=reason)
    if rules_out(result, least.good_enough):
        least.results[k] = result
        return False
    return True


def _look_upwards(least: LeastK, is_good: Callable[[int], bool]) -> None:
    """Search with growing steps for a sufficient k, then between it and the last insufficient one."""
    low = 0 if least.by_itself else max((*least.results, *least.refused), default=0)
    high, step = low + 1, 1
    while not is_good(high):
        if high >= least.largest_k or least.interrupted:
            return
        low, high, step = high, min(least.largest_k, high + step), 2 * step
    while high - low > 1 and not least.interrupted:
        middle = (low + high) // 2
        low, high = (low, middle) if is_good(middle) else (middle, high)


def _search(least: LeastK, k: int, options: SolveOptions, method: str, interrupted: Event) -> bool:
    """Whether a search finds a partition into k blocks that is good enough."""
    instance = None if k in least.results else least.instance(k)
    if instance is None:
        return False
    limit = None if options.time_limit is None else _FOR_SEARCH * options.time_limit
    # Whatever fits is less than infinite.
    limits = Limits(Deadline.after(limit, interrupted), target=min(least.good_enough, sys.float_info.max))
    least.results[k] = search(instance, method, np.random.default_rng(options.seed), limits)
    least.interrupted = interrupted.is_set()
    return reaches(least.results[k], least.good_enough)


# Cheapest devices for a good enough answer, and the proof that no cheaper ones suffice.


# Choices of devices that are looked at.
_MOST_CHOICES = 4096
# Part of the time that is left for what is found on one choice, and the least that is told [s].
_PART, _LEAST = 0.5, 1e-3


@dataclass
class LeastPrice(LeastK):
    """Results of a search for the cheapest devices; `known` has answers by the numbers of devices.

    Parameters
    ----------
    devices : Devices, optional
        The cheapest that are good enough; None if none are known.
    undecided : list of Machines
        Cheaper choices of devices that no bound excludes, without a known answer that is good enough.
    """

    devices: Machines | None = None
    undecided: list[Machines] = field(default_factory=list)

    @property
    def open(self) -> list[int]:
        """Total device counts, ascending, of the cheaper choices that are still undecided."""
        return sorted({devices.total for devices in self.undecided})

    def sentence(self) -> str:
        """State the cheapest devices, and why cheaper ones do not suffice."""
        if self.devices is None:
            undecided = f"; open are {', '.join(map(str, self.undecided[-3:]))}" if self.undecided else ""
            return f"No choice of the devices {'is known' if undecided else 'there is'} {self.goal}{undecided}."
        sentence = f"{self.devices} at a price of {self.devices.price:g} are the cheapest devices {self.goal}"
        if self.undecided:
            return f"{sentence} that are known; open are {', '.join(map(str, self.undecided[-3:]))}."
        return f"{sentence}: all cheaper ones are excluded, by all ideals of the graph or by `certify`."


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
    """Find the cheapest devices if they have prices, else the least number of blocks.

    Cheaper choices of devices come first. A dynamic program over ideals, with lower bounds on costs, excludes a choice;
    on the others `certify` searches for an answer. When the time has passed, the choice of all devices is still tried
    at once, and choices not tried are undecided.

    Parameters
    ----------
    question : Instance
        The question; its k is only used where constraints name blocks.
    good_enough : float
        The bottleneck to reach; infinite where the memory is a hard limit and any answer will do.
    options : SolveOptions
        The time limit is for each k, or for all choices of devices together.
    method : str
        Name of the search for a k.
    prove : bool
        Whether to exclude smaller k by more than sums.
    on_progress, on_fault : callable, optional
        As for `certify`.

    Raises
    ------
    InputError
        If there are too many choices, or ideals.
    """
    proof = partial(certify, good_enough=good_enough, on_progress=on_progress, on_fault=on_fault)
    if question.machines.price is None:
        return _fewest_blocks(question, good_enough, options, method, proof if prove else None)
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
            share = deadline.share(_PART).time_limit
            part = replace(options, time_limit=None if share is None else max(share, _LEAST))
            answer = proof(_on(question, counts), part)
            least.interrupted = answer.interrupted or interrupted.is_set()
            if _decided(least, answer, devices.subset(counts)) or least.interrupted:
                break
        least.interrupted |= interrupted.is_set()
        if least.devices is None and deadline.passed:
            least.undecided += [devices.subset(counts) for counts in choices[looked_at:]]
            if not least.interrupted and looked_at < len(choices):  # all devices are the last choice
                least.undecided.pop()
                answer = proof(_on(question, devices.counts), replace(options, time_limit=_LEAST))
                _decided(least, answer, devices)
    return least


def _decided(least: LeastPrice, answer: Result, chosen: Machines) -> bool:
    """Record the result for a choice of devices; return whether it is good enough."""
    if reaches(answer, least.good_enough):
        least.devices, least.results = chosen, {chosen.total: answer}
        return True
    if not rules_out(answer, least.good_enough):
        least.undecided.append(chosen)
    return False


def _on(question: Instance, counts: tuple[int, ...]) -> Instance:
    """The question on a choice of its devices."""
    chosen = question.machines.subset(counts)
    return Instance(
        question.graph,
        chosen,
        question.name,
        question.constraints,
        works=question.work[[t for t, count in enumerate(counts) if count]],
        activation_buffer=question.activation_buffer,
        fit=question.fit and any(math.isfinite(kind.memory) for kind in chosen.kinds),
    )
