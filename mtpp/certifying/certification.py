"""Certification of one question: methods take turns, first searches, then proofs, until gap or time is used up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from heuristics import HEURISTICS, Limits, search
from instances import Instance, Result, combine
from instances.deadline import Deadline, Stopwatch
from instances.partitioning.kinds.problem import UnlikeInstance
from instances.results import exceeds
from mtpp.certifying.candidates import Candidate, Turn, next_candidate
from mtpp_models import Progress, SolveOptions, SolverFaultError, SolverNotAvailableError, solve
from mtpp_models.bounds.algorithm import Algorithm
from mtpp_models.bounds.ideals.ideals import IDEALS, Ideals
from mtpp_models.bounds.priced.guessed_prices import PRICED_QUICK
from mtpp_models.bounds.priced.priced import PRICED
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.registry import KIND_MODELS, Model, find_model

__all__ = [
    "INSTANT_STEPS",
    "INSTANT_STEPS_OF_KINDS",
    "OPENING",
    "OPENING_OF_KINDS",
    "Certification",
    "ignore",
    "reaches",
    "rules_out",
]

# Seconds that are worth a turn, and the least that a method is told.
_SHORTEST, _LEAST = 0.05, 1e-3

#: Steps that answer at once, so that they run even when time is up, and the part of the time left that each may use.
INSTANT_STEPS = (("simple", 1.0), ("kahn", 1.0))
#: The steps behind them.
OPENING = (("pinned", 0.1),)
# Short turns take this part of the time, or so many seconds if that is less; the first of them so many. What has said
# all that it can comes again when the bottleneck has fallen to this part.
_SHORT_PART, _MOST_SHORT, _FIRST_TURN, _FALLEN = 0.08, 5.0, 0.1, 0.99
#: Both of questions over kinds of devices; without time the search slices two orders.
INSTANT_STEPS_OF_KINDS = (("simple", 1.0), ("portfolio", 0.05))
OPENING_OF_KINDS = (("ideals", 0.4), ("pinned", 0.1))


def ignore(_: object) -> None:
    """Do nothing; the default listener."""


@dataclass
class Certification:
    """State of a `certify` run: all answers so far, and methods that take turns."""

    instance: Instance
    options: SolveOptions
    deadline: Deadline
    answers: list[Result]  # in the order in which they were found
    good_enough: float | None  # a bottleneck at which, or at the proof that there is none, the work ends
    on_progress: Callable[[Progress], None]
    on_fault: Callable[[SolverNotAvailableError], None]
    on_step: Callable[[Turn], None]
    on_answer: Callable[[Result], None] = ignore
    before_step: Callable[[], None] = lambda: None  # `answers` may grow by what others found
    watch: Stopwatch = field(default_factory=Stopwatch)  # since the begin of the work

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.options.seed)
        self._solver_trusted = True
        model, work = find_model(IDEALS), Ideals(self.deadline)
        assert isinstance(model, Algorithm)
        # Short turns and long ones go on where the last one stopped.
        self._ideals = replace(model, run=lambda start, controls: work(start, controls.deadline))

    @property
    def best(self) -> Result:
        """Best partition and best bound so far, combined."""
        return combine(*self.answers) if self.answers else Result("nothing", self.instance)

    def _model(self, method: str) -> Model | None:
        if isinstance(self.instance, UnlikeInstance):
            return KIND_MODELS.get(method)
        if method == IDEALS:
            return self._ideals
        return None if method in HEURISTICS else find_model(method)

    def steps(self, steps: Sequence[tuple[str, float]], *, timeless: bool = False) -> None:
        """Run methods in turn, each for its part of the time that is left; timeless ones even when time is up."""
        for method, share in steps:
            if self.is_over(timeless=timeless):
                return
            self._run(method, self._model(method), self.deadline.share(share))

    def short_turns(self, methods: Sequence[str]) -> None:
        """Run methods round by round, each round twice as long, for a small part of the time: many proofs are short."""
        whole, turn = self.deadline.share(_SHORT_PART).sooner(_MOST_SHORT), _FIRST_TURN
        said_all: dict[str, float] = {}  # the bottleneck that was known when a method ended early
        while not whole.passed:
            able = [method for method in methods if self._cost <= _FALLEN * said_all.get(method, math.inf)]
            if not able:
                return
            for method in able:
                if self.is_over() or whole.passed:
                    return
                watch = Stopwatch()
                self._run(method, self._model(method), whole.sooner(turn))
                if watch.passed < turn / 2:
                    said_all[method] = self._cost
            turn *= 2

    @property
    def _cost(self) -> float:
        """The least bottleneck that is known; infinite if there is none."""
        return math.inf if self.best.cost is None else self.best.cost

    def turns(self, candidates: Sequence[Candidate]) -> None:
        """Give turns to methods by their gains, as long as one is worth it."""
        while not self.is_over() and (candidate := next_candidate(candidates, self.deadline.left)) is not None:
            before, watch = _gap(self.best), Stopwatch()
            model = candidate.model or self._model(candidate.method)
            answer = self._run(candidate.method, model, candidate.deadline(self.deadline))
            at_its_end = answer is None or (answer.bound is not None and answer.bound.optimal)
            candidate.learn(watch.passed, before, _gap(self.best), at_its_end or self.deadline.left == math.inf)
            candidates = [
                candidate
                for candidate in candidates
                if not candidate.over and (self._solver_trusted or not isinstance(candidate.model, Formulation))
            ]

    def is_over(self, *, timeless: bool = False) -> bool:
        """Whether the goal is reached, or the time is too short for methods that need time."""
        self.before_step()
        self.drop_refuted_bounds()
        no_time = self.deadline.interrupted.is_set() or self.best.interrupted or self.deadline.left < _SHORTEST
        return self.is_done or (no_time and not timeless)

    @property
    def is_done(self) -> bool:
        """Whether the goal is reached: proved, decided, or within the gap."""
        best, good_enough = self.best, self.good_enough
        decided = good_enough is not None and (reaches(best, good_enough) or rules_out(best, good_enough))
        close_enough = best.proved or (best.gap is not None and best.gap <= self.options.gap)
        return best.impossible is not None or decided or close_enough

    def _run(self, method: str, model: Model | None, deadline: Deadline) -> Result | None:
        """Run a search or a model until its deadline; return its answer, None if its solver failed."""
        best, watch, answer = self.best, Stopwatch(), None
        report = _reporter(method, best, self.watch, self.on_progress)
        report(None)
        try:
            answer = self._answer(method, model, deadline, best, report)
            self.answers.append(answer)
            self.on_answer(answer)
        except SolverNotAvailableError as fault:
            self._solver_trusted = False
            self.on_fault(fault)
        self.drop_refuted_bounds()
        self.on_step(self.turn_of(method, watch.passed))
        return answer

    def drop_refuted_bounds(self) -> None:
        """Remove solver bounds above a known cost, and use that solver no more."""
        for fault in _drop_refuted(self.answers):
            self._solver_trusted = False
            self.on_fault(fault)

    def _answer(
        self, method: str, model: Model | None, deadline: Deadline, best: Result, report: Callable[[Progress], None]
    ) -> Result:
        if model is None:
            target = None if best.bound is None else best.bound.value
            return search(self.instance, method, self._rng, Limits(deadline, target=target), start=best.partition)
        if best.partition is None and isinstance(model, Formulation):
            model = find_model(method.partition("+")[0])  # strengthening needs a known partition
        left = deadline.time_limit
        told = replace(self.options, time_limit=None if left is None else max(left, _LEAST))
        known = 0.0 if best.bound is None else best.bound.value
        return solve(self.instance, model, told, start=best.partition, known=known, on_progress=report)

    def turn_of(self, method: str, seconds: float) -> Turn:
        """Record of a turn that ends now, with the best results after it."""
        best = self.best
        return Turn(
            method=method,
            seconds=seconds,
            end=self.watch.passed,
            bottleneck=best.cost,
            bound=None if best.bound is None else best.bound.value,
            by=None if best.bound is None else best.bound.method,
        )


def _gap(known: Result) -> float:
    """The logarithm of the ratio; infinite if that is none."""
    return math.inf if known.ratio is None or known.ratio == math.inf else math.log(known.ratio)


def reaches(known: Result, good_enough: float) -> bool:
    """Whether a partition is known with a bottleneck of at most `good_enough`."""
    return known.partition is not None and known.partition.bottleneck <= good_enough


def rules_out(known: Result, good_enough: float) -> bool:
    """Whether it is proved that there is no such partition, rounding aside."""
    above = known.bound is not None and exceeds(known.bound.value, good_enough)
    return known.impossible is not None or above


def _drop_refuted(answers: list[Result]) -> list[SolverFaultError]:
    """Remove the bounds of solvers above the cost of a known partition; return a fault for each."""
    least = min((answer.partition.bottleneck for answer in answers if answer.partition is not None), default=math.inf)
    faults = []
    for number, answer in enumerate(answers):
        if answer.solver is not None and answer.bound is not None and exceeds(answer.bound.value, least):
            claim = f"stated the bound {answer.bound.value:.6g} of {answer.method}, against a partition of {least:.6g}"
            faults.append(SolverFaultError(answer.solver, claim))
            answers[number] = replace(answer, bound=None)
    return faults


def _reporter(
    method: str, known: Result, watch: Stopwatch, on_progress: Callable[[Progress], None]
) -> Callable[[Progress | None], None]:
    """Make a listener that combines progress of a method with the best results so far."""
    bottleneck = None if known.partition is None else known.partition.bottleneck
    proved = None if known.bound is None else known.bound.value
    # Values of other models during their run bound something else.
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
