"""From an instance to a certificate under one time budget: search, then prove, as long as a gap is left."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.certificates.arms import Rung, arms_of, choose
from experiments.certificates.other_k import from_other_k
from heuristics import HEURISTICS, Limits, search
from instances import Instance, Partition, Result, combine
from instances.deadline import Deadline, Stopwatch
from instances.interrupts import catch_interrupt
from mtpp_models import Progress, SolveOptions, SolverFaultError, SolverNotAvailableError, solve
from mtpp_models.bounds.priced.priced import PRICED
from mtpp_models.bounds.priced.quick import PRICED_QUICK
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.registry import Model, find_model
from mtpp_models.solvers.registry import find_solver

__all__ = ["certify", "gather", "reaches", "rules_out"]

# Seconds that are worth a turn, and the least that a method is told.
_SHORTEST, _LEAST, _ROUNDING = 0.05, 1e-3, 1e-9

# What `certify` takes if nobody says how long.
_A_MINUTE = SolveOptions(time_limit=60.0)


# What comes first, in order of effort, and the part of the time still left that each may use; the first two always run,
# as they answer at once even when time is up. Each runs only while a gap is left, as all that follows.
_AT_ONCE = ("simple", "kahn")
_OPENING = (("simple", 1.0), ("kahn", 1.0), ("pinned", 0.1), ("local-search", 0.05), ("pinned", 0.1))


def certify(
    instance: Instance,
    options: SolveOptions = _A_MINUTE,
    *,
    start: Partition | None = None,
    known: Sequence[Result] = (),
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> Result:
    """Find a good partition and prove how good it is.

    Parameters
    ----------
    instance : Instance
    options : SolveOptions
        The time limit, a minute by default, is for everything together.
    start : Partition, optional
        A partition known already.
    known : sequence of Result
        Answers for other k, from which something may follow for this one.
    on_progress : callable, optional
        Receives the method at work with the best bottleneck and bound so far.
    on_fault : callable, optional
        Receives each `SolverNotAvailableError` of a solver that fails at work; the other methods go on without it. By
        default that is a warning.

    Returns
    -------
    Result
        Always with a bound, or with the reason why nothing fits. Ctrl-C ends the work and returns what is known.

    Raises
    ------
    InputError
        If the solver is unknown.
    SolverNotAvailableError
        If the solver cannot run here.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 1, 2], output_bytes=[1, 0, 0])
    >>> certify(Instance(graph, Platform(k=2, bandwidth=1))).ratio
    1.0
    """
    return combine(*gather(instance, options, start=start, known=known, on_progress=on_progress, on_fault=on_fault))


def gather(
    instance: Instance,
    options: SolveOptions = _A_MINUTE,
    *,
    start: Partition | None = None,
    known: Sequence[Result] = (),
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
    on_step: Callable[[Rung], None] | None = None,
    enough: float | None = None,
) -> list[Result]:
    """The answers that `certify` combines, in the order in which they were found; of each bound the best.

    `on_step` receives a `Rung` behind each turn of a method. The work ends early once a partition has a bottleneck of
    at most `enough`, or a bound rules that out.
    """
    find_solver(options.solver)  # before the searches, which may take a while
    answers = [*from_other_k(known, instance), *([] if start is None else [Result("start", instance, start)])]
    on_fault = on_fault or (lambda fault: warnings.warn(str(fault), RuntimeWarning, stacklevel=3))
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        ladder = _Ladder(instance, options, deadline, answers, on_progress or _ignore, on_fault, on_step or _ignore)
        ladder.climb(enough)
    kept = _best_of_each_bound(answers)
    stopped = interrupted.is_set() or combine(*answers).interrupted
    return [*kept[:-1], replace(kept[-1], interrupted=stopped)]


@dataclass
class _Ladder:
    """The work of `gather`."""

    instance: Instance
    options: SolveOptions
    deadline: Deadline
    answers: list[Result]  # in the order in which they were found
    on_progress: Callable[[Progress], None]
    on_fault: Callable[[SolverNotAvailableError], None]
    on_step: Callable[[Rung], None]

    def __post_init__(self) -> None:
        self._watch, self._rng = Stopwatch(), np.random.default_rng(self.options.seed)
        self._sound = True  # whether the solver is to be believed

    @property
    def best(self) -> Result:
        """What is known."""
        return combine(*self.answers) if self.answers else Result("nothing", self.instance)

    def climb(self, enough: float | None) -> None:
        """Run the opening, then one method after the other as long as it is worth it."""
        for method, share in _OPENING:
            if self._is_over(enough, timeless=method in _AT_ONCE):
                return
            self._run(method, None if method in HEURISTICS else find_model(method), self.deadline.share(share))
        arms = arms_of(self.instance)
        while arms and not self._is_over(enough):
            arm = choose(arms)
            before, watch = _gap(self.best), Stopwatch()
            answer = self._run(arm.method, arm.model, arm.deadline(self.deadline))
            at_its_end = answer is None or (answer.bound is not None and answer.bound.optimal)
            arm.learn(watch.passed, before, _gap(self.best), at_its_end or self.deadline.left == math.inf)
            arms = [arm for arm in arms if not arm.over and (self._sound or not isinstance(arm.model, Formulation))]

    def _is_over(self, enough: float | None, *, timeless: bool = False) -> bool:
        """Whether nothing more is asked for, or there is no time for what needs some."""
        best = self.best
        decided = enough is not None and (reaches(best, enough) or rules_out(best, enough))
        no_time = self.deadline.interrupted.is_set() or best.interrupted or self.deadline.left < _SHORTEST
        return (
            best.impossible is not None
            or decided
            or _close_enough(best, self.options.gap)
            or (no_time and not timeless)
        )

    def _run(self, method: str, model: Model | None, deadline: Deadline) -> Result | None:
        """Run a search or a model until its deadline; what it found, or None if its solver failed."""
        best, watch, answer = self.best, Stopwatch(), None
        report = _reporter(method, best, self._watch, self.on_progress)
        report(None)
        try:
            answer = self._answer(method, model, deadline, best, report)
            self.answers.append(answer)
        except SolverNotAvailableError as fault:
            self._sound = False
            self.on_fault(fault)
        for lie in _drop_lies(self.answers):
            self._sound = False
            self.on_fault(lie)
        self._tell(method, watch.passed)
        return answer

    def _answer(
        self, method: str, model: Model | None, deadline: Deadline, best: Result, report: Callable[[Progress], None]
    ) -> Result:
        if model is None:
            target = None if best.bound is None else best.bound.value
            return search(self.instance, method, self._rng, Limits(deadline, target=target))
        if best.partition is None and isinstance(model, Formulation):
            model = find_model(method.partition("+")[0])  # what strengthens a model is a known partition
        left = deadline.time_limit
        told = replace(self.options, time_limit=None if left is None else max(left, _LEAST))
        return solve(self.instance, model, told, start=best.partition, on_progress=report)

    def _tell(self, method: str, seconds: float) -> None:
        best = self.best
        rung = Rung(
            method=method,
            seconds=seconds,
            end=self._watch.passed,
            bottleneck=best.cost,
            bound=None if best.bound is None else best.bound.value,
            by=None if best.bound is None else best.bound.method,
        )
        self.on_step(rung)


def _ignore(_: object) -> None:
    pass


def _gap(known: Result) -> float:
    """The logarithm of the ratio; infinite if that is none."""
    return math.inf if known.ratio is None or known.ratio == math.inf else math.log(known.ratio)


def reaches(known: Result, enough: float) -> bool:
    """Whether a partition is known with a bottleneck of at most `enough`."""
    return known.partition is not None and known.partition.bottleneck <= enough


def rules_out(known: Result, enough: float) -> bool:
    """Whether it is proved that there is no such partition, rounding aside."""
    above = known.bound is not None and known.bound.value > enough * (1 + _ROUNDING)
    return known.impossible is not None or above


def _drop_lies(answers: list[Result]) -> list[SolverFaultError]:
    """Take away the bounds of solvers that a partition found later contradicts; one fault for each."""
    least = min((answer.partition.bottleneck for answer in answers if answer.partition is not None), default=math.inf)
    faults = []
    for number, answer in enumerate(answers):
        if answer.solver is not None and answer.bound is not None and answer.bound.value > least * (1 + _ROUNDING):
            claim = f"stated the bound {answer.bound.value:.6g} of {answer.method}, against a partition of {least:.6g}"
            faults.append(SolverFaultError(answer.solver, claim))
            answers[number] = replace(answer, bound=None)
    return faults


def _best_of_each_bound(answers: list[Result]) -> list[Result]:
    """Without the weaker answers of methods that ran more than once; their partitions came from elsewhere."""
    best: dict[str, Result] = {}
    for answer in answers:
        known = best.get(answer.method)
        if answer.bound is not None and (
            known is None or known.bound is None or answer.bound.value > known.bound.value
        ):
            best[answer.method] = answer
    return [answer for answer in answers if answer.bound is None or best[answer.method] is answer]


def _close_enough(known: Result, gap: float) -> bool:
    return known.proved or (known.gap is not None and known.gap <= gap)


def _reporter(
    method: str, known: Result, watch: Stopwatch, on_progress: Callable[[Progress], None]
) -> Callable[[Progress | None], None]:
    """Put what a solver says into the frame of what is known."""
    bottleneck = None if known.partition is None else known.partition.bottleneck
    proved = None if known.bound is None else known.bound.value
    # What other models reach while they run bounds something else.
    telling = method not in HEURISTICS and (find_model(method).exact or method in (PRICED, PRICED_QUICK))

    def report(moment: Progress | None) -> None:
        nonlocal bottleneck, proved
        if moment is not None and telling:
            bottleneck = min((x for x in (bottleneck, moment.incumbent) if x is not None), default=None)
            proved = max((x for x in (proved, moment.bound) if x is not None), default=None)
        if bottleneck is not None and proved is not None:
            proved = min(proved, bottleneck)  # that of a model which holds only below the bottleneck may be higher
        nodes = None if moment is None else moment.nodes
        on_progress(Progress(method, watch.passed, bottleneck, proved, nodes))

    return report
