"""The loop of certification, one for all problems: methods take turns until gap or time is used up.

Methods that answer at once come first, then steps, each for its part of the time that is left, then short turns, then
turns by what methods gain. A method that fails ends itself alone, and the answer says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Generic

from instances import Result, combine
from instances.deadline import Deadline, Stopwatch
from instances.errors import MethodError
from instances.results import A, Q, Recorder, exceeds
from mtpp_models import Progress, SolveOptions, SolverFaultError, SolverNotAvailableError
from mtpp_models.solvers.interface import Controls

# Seconds that are worth a turn, and the least that a method is given.
_SHORTEST, _LEAST = 0.05, 1e-3
# Short turns take this part of the time, or so many seconds if that is less; the first of them so many. What has said
# all that it can comes again when the cost has fallen to this part.
_SHORT_PART, _MOST_SHORT, _FIRST_TURN, _FALLEN = 0.08, 5.0, 0.1, 0.99
# How much longer each turn is than the one before; no turn counts less in seconds.
_GROWTH, _LEAST_COUNTED = 2.0, 1e-3


@contextmanager
def leaving_out(name: str, note: Callable[[str], None]) -> Iterator[None]:
    """Let an error of a caller's method, of arithmetic or of memory end only the code inside.

    `note` receives a sentence.
    """
    try:
        yield
    except MethodError as fault:
        note(f"{name} left out: {fault}".removesuffix("."))
    except (ArithmeticError, MemoryError) as fault:
        note(f"{name} left out: {type(fault).__name__}: {fault}".removesuffix(": "))


def ignore(_: object) -> None:
    """Do nothing; the default listener."""


@dataclass(frozen=True, eq=False)
class Method(Generic[Q, A]):
    """A search or a proof that the loop calls for a question, with its share of the time."""

    name: str
    # From the best results so far; None if nothing new follows.
    run: Callable[[Result[Q, A], Controls], Result[Q, A] | None]
    share: float = 1.0  # of the time that is left, for its first turn
    timeless: bool = False  # whether it answers at once, so that it runs even when time is up
    counted: bool = False  # whether its answer depends on no clock, unless time ends it early
    exact: bool = False  # whether costs and bounds that it reports at work are those of the question
    solver: bool = False  # whether it needs a solver, and is dropped once one has failed
    optional: bool = False  # whether a missing solver is not reported, as the caller has named none
    least: float = 0.0  # seconds below which a turn achieves nothing
    behind: Method[Q, A] | None = None  # this method has turns only if the last turn of `behind` was cut off
    again: bool = False  # whether it is a step that has turns afterwards, as long as time and a gap are left
    once: bool = False  # whether it has one turn alone, as another would begin anew
    stated: bool = False  # whether its bounds are stated, not proved, so that nothing but its own turns rests on them


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Record of one turn of a method: its time, and the best results afterwards."""

    method: str
    seconds: float  # by the clock of the time limit
    end: float  # seconds since the begin of the work
    bottleneck: float | None  # of the best partition
    bound: float | None  # the best one
    by: str | None  # whose bound that is


@dataclass(eq=False)
class Candidate(Generic[Q, A]):
    """State of a method that may have several turns."""

    method: Method[Q, A]
    behind: Candidate[Q, A] | None = None  # the state of `Method.behind`
    turn: float = 0.0  # seconds of the next turn, after the first one
    spent: float = 0.0  # seconds so far
    gain: float = math.inf  # fall of the logarithm of the ratio per second in the last turn
    over: bool = False  # whether another turn is of no use
    cut_off: bool = False  # whether the last turn ended because its time was up

    def deadline(self, whole: Deadline) -> Deadline:
        """End of the method's next turn; the end of all time if less than half a turn would remain after it."""
        if whole.left == math.inf:
            return whole
        if self.spent == 0:
            self.turn = self.method.share * whole.left
        return whole.share(1.0 if 1.5 * self.turn > whole.left else self.turn / whole.left)

    def learn(self, seconds: float, before: float, behind: float, at_its_end: bool) -> None:
        """Record the gain of a turn: the decrease of the logarithm of the ratio."""
        self.gain = (before - behind) / max(seconds, _LEAST_COUNTED) if before < math.inf else 0.0
        early = seconds < self.turn / 2
        self.cut_off = seconds >= self.turn
        # A method that stops early and has found nothing will not find more.
        self.over = self.method.once or at_its_end or (early and self.spent > 0 and not self.gain > 0)
        self.spent += max(seconds, _LEAST_COUNTED)
        self.turn *= _GROWTH


def _candidates(methods: Iterable[Method[Q, A]]) -> list[Candidate[Q, A]]:
    """A candidate for each method, in order; one that follows another starts after it."""
    candidates: dict[int, Candidate[Q, A]] = {}
    for method in methods:
        candidates[id(method)] = Candidate(method, None if method.behind is None else candidates[id(method.behind)])
    return list(candidates.values())


def next_candidate(candidates: Sequence[Candidate[Q, A]], remaining: float = math.inf) -> Candidate[Q, A] | None:
    """The candidate to run next: an untried candidate, else the candidate with the largest gain per second.

    None if the seconds left are too few for any.
    """
    able = [
        candidate
        for candidate in candidates
        if candidate.method.least <= remaining and (candidate.behind is None or candidate.behind.cut_off)
    ]
    untried = next((candidate for candidate in able if candidate.spent == 0), None)
    return untried or max(able, key=lambda candidate: (candidate.gain, -candidate.spent), default=None)


@dataclass
class Loop(Generic[Q, A]):
    """Work on one question: all answers so far, and methods that take turns."""

    instance: Q
    options: SolveOptions
    deadline: Deadline
    answers: list[Result[Q, A]]  # in the order in which they were found
    good_enough: float | None = None  # a cost at which, or at the proof that there is none, the work ends
    on_progress: Callable[[Progress], None] = ignore
    on_fault: Callable[[SolverNotAvailableError], None] = ignore
    on_step: Callable[[Turn], None] = ignore
    on_answer: Callable[[Result[Q, A]], None] = ignore
    before_step: Callable[[], None] = lambda: None  # `answers` may grow by what others found
    on_note: Callable[[str], None] | None = None  # by default `notes` takes it
    notes: list[str] = field(default_factory=list)  # sentences that belong to the answer
    clocked: bool = False  # whether a clock had a say so far
    recorder: Recorder = field(default_factory=Recorder)  # since the begin of the work

    def __post_init__(self) -> None:
        self._solver_trusted = True

    @property
    def best(self) -> Result[Q, A]:
        """Best answer and best proved bound so far, combined."""
        return combine(*map(_proved, self.answers)) if self.answers else Result("nothing", self.instance)

    def result(self) -> Result[Q, A]:
        """The best answer and the best proved bound, with the best bound of each method as parts, and notes."""
        stopped = self.deadline.interrupted.is_set() or self.best.interrupted
        parts = best_of_each_method(self.answers) or [self.best]
        clocked = self.clocked or any(answer.clocked for answer in self.answers)
        notes = tuple(dict.fromkeys((*self.instance.caveats, *self.notes)))
        parts[-1] = replace(parts[-1], interrupted=stopped, clocked=clocked, notes=notes)
        whole = combine(*map(_proved, parts))
        return replace(whole, parts=combine(*parts).parts, moments=self.recorder.moments)

    def _log_ratio(self, *, stated: bool) -> float:
        """Logarithm of the ratio, with stated bounds if these count; infinite without a ratio."""
        best = combine(*self.answers) if stated and self.answers else self.best
        return math.inf if best.ratio is None or best.ratio == math.inf else math.log(best.ratio)

    def steps(self, methods: Sequence[Method[Q, A]]) -> None:
        """Run methods in sequence, each for its share of the remaining time; instant ones always run."""
        for method in methods:
            if self.is_done:
                return
            if not self.is_over(timeless=method.timeless):
                self._run(method, self.deadline.share(method.share))

    def short_turns(self, methods: Sequence[Method[Q, A]]) -> None:
        """Run methods in rounds of doubling length, for a small part of the time: many proofs are short.

        Without a time limit all methods run to their ends, so that the answer depends on no clock.
        """
        if self.deadline.left == math.inf:
            return
        whole, turn = self.deadline.share(_SHORT_PART).sooner(_MOST_SHORT), _FIRST_TURN
        said_all: dict[str, float] = {}  # the cost that was known when a method ended early
        while not whole.passed:
            able = [method for method in methods if self._cost <= _FALLEN * said_all.get(method.name, math.inf)]
            if not able:
                return
            for method in able:
                if self.is_over() or whole.passed:
                    return
                watch = Stopwatch()
                self._run(method, whole.sooner(turn))
                if watch.passed < turn / 2:
                    said_all[method.name] = self._cost
            turn *= 2

    @property
    def _cost(self) -> float:
        """The best cost so far; infinite without an answer."""
        return math.inf if self.best.cost is None else self.best.cost

    def turns(self, methods: Sequence[Method[Q, A]]) -> None:
        """Give turns to the methods with the largest gains, as long as there is a gain."""
        candidates = _candidates(methods)
        while not self.is_over() and (candidate := next_candidate(candidates, self.deadline.left)) is not None:
            method, watch = candidate.method, Stopwatch()
            before = self._log_ratio(stated=method.stated)
            answer = self._run(method, candidate.deadline(self.deadline))
            at_its_end = answer is None or (answer.bound is not None and answer.bound.optimal)
            behind = self._log_ratio(stated=method.stated)
            candidate.learn(watch.passed, before, behind, at_its_end or self.deadline.left == math.inf)
            candidates = [
                candidate
                for candidate in candidates
                if not candidate.over and (self._solver_trusted or not candidate.method.solver)
            ]

    def is_over(self, *, timeless: bool = False) -> bool:
        """Whether the goal is reached, or too little time is left."""
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

    def note(self, sentence: str) -> None:
        """Add a sentence to the notes of the answer."""
        self.notes.append(sentence) if self.on_note is None else self.on_note(sentence)

    def _run(self, method: Method[Q, A], deadline: Deadline) -> Result[Q, A] | None:
        """Run a method until its deadline; return its answer, None if it failed or has none."""
        best, began, watch, answer = self.best, self.recorder.watch.passed, Stopwatch(), None
        report = _reporter(method, best, self.recorder, began, self.on_progress)
        report(None)
        remaining = deadline.time_limit
        options = replace(self.options, time_limit=None if remaining is None else max(remaining, _LEAST))
        controls = Controls(options, deadline, report=report, lower=0.0 if best.bound is None else best.bound.value)
        try:
            with leaving_out(method.name, self.note):
                answer = method.run(best, controls)
        except SolverNotAvailableError as fault:
            self._solver_trusted = False
            if type(fault) is not SolverNotAvailableError or not method.optional:
                self.on_fault(fault)
        self.clocked |= deadline.end < math.inf and (deadline.passed or not method.counted)
        for part in () if answer is None else answer.parts or (answer,):
            self.answers.append(replace(part, moments=()))
            self.on_answer(self.answers[-1])
        self.drop_refuted_bounds()
        self.end_turn(method.name, watch.passed, began)
        return answer

    def drop_refuted_bounds(self) -> None:
        """Remove stated and solver bounds above a known cost; do not use such a solver again."""
        for fault in _drop_refuted(self.answers):
            if isinstance(fault, SolverFaultError):
                self._solver_trusted = False
                self.on_fault(fault)
            else:
                self.note(str(fault))

    def end_turn(self, method: str, seconds: float, began: float) -> None:
        """Report the end of a turn, with the best results after it."""
        best, end = self.best, self.recorder.watch.passed
        bound = None if best.bound is None else best.bound.value
        self.recorder.note(method, best.cost, bound, began, end=True)
        by = None if best.bound is None else best.bound.method
        self.on_step(Turn(method=method, seconds=seconds, end=end, bottleneck=best.cost, bound=bound, by=by))


def best_of_each_method(answers: Sequence[Result[Q, A]]) -> list[Result[Q, A]]:
    """All answers, of which each method keeps only its best bound; a method may return another's bound."""
    best: dict[str, Result[Q, A]] = {}
    for answer in answers:
        incumbent = best.get(answer.by)
        if answer.bound is not None and (
            incumbent is None or incumbent.bound is None or answer.bound.value > incumbent.bound.value
        ):
            best[answer.by] = answer
    return [
        answer if answer.bound is None or best[answer.by] is answer else replace(answer, bound=None)
        for answer in answers
    ]


def _proved(answer: Result[Q, A]) -> Result[Q, A]:
    """The answer without its bound if that is only stated."""
    return replace(answer, bound=None) if answer.bound is not None and not answer.bound.proved else answer


def reaches(result: Result[Q, A], good_enough: float) -> bool:
    """Whether an answer with a cost of at most `good_enough` is known."""
    return result.cost is not None and result.cost <= good_enough


def rules_out(result: Result[Q, A], good_enough: float) -> bool:
    """Whether it is proved that no answer costs at most `good_enough`, up to rounding."""
    above = result.bound is not None and exceeds(result.bound.value, good_enough)
    return result.impossible is not None or above


def _drop_refuted(answers: list[Result[Q, A]]) -> list[SolverFaultError | MethodError]:
    """Remove the bounds of solvers and of others above the cost of a known answer; return a fault for each."""
    least = min((answer.cost for answer in answers if answer.cost is not None), default=math.inf)
    faults: list[SolverFaultError | MethodError] = []
    for number, answer in enumerate(answers):
        bound = answer.bound
        if bound is None or not exceeds(bound.value, least) or (answer.solver is None and bound.proved):
            continue
        against = f"against an answer of {least:.6g}"
        if answer.solver is None:
            faults.append(MethodError(f"{answer.method} left out: it states the bound {bound.value:.6g}, {against}"))
        else:
            claim = f"stated the bound {bound.value:.6g} of {answer.method}, {against}"
            faults.append(SolverFaultError(answer.solver, claim))
        answers[number] = replace(answer, bound=None, notes=() if answer.solver is None else answer.notes)
    return faults


def _reporter(
    method: Method[Q, A], best: Result[Q, A], recorder: Recorder, began: float, on_progress: Callable[[Progress], None]
) -> Callable[[Progress | None], None]:
    """Make a listener that combines a method's progress with the best results so far."""
    cost, proved = best.cost, None if best.bound is None else best.bound.value

    def report(moment: Progress | None) -> None:
        nonlocal cost, proved
        if moment is not None and method.exact:  # those of other methods bound something else
            cost = min((x for x in (cost, moment.incumbent) if x is not None), default=None)
            proved = max((x for x in (proved, moment.bound) if x is not None), default=None)
        if cost is not None and proved is not None:
            proved = min(proved, cost)  # that of a model which holds only below the cost may be higher
        nodes = None if moment is None else moment.nodes
        recorder.note(method.name, cost, proved, began, end=False)
        on_progress(Progress(method.name, recorder.watch.passed, cost, proved, nodes))

    return report
