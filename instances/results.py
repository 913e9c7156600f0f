"""Results: a question, its answer, and bounds that are proved of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields, replace
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from typing_extensions import TypeVar

from instances.certificates import KINDS, PARTITION, SOLVER_NAMES, STATED, bound_members, recheck
from instances.deadline import COMPILE, Stopwatch, processor_seconds
from instances.errors import FalseCertificateError, InputError
from instances.graph.display import Displayed, Rows, figures
from instances.json_files import check_writable, write_json
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Lower bounds on the cost of every answer to a question.


#: Suffix of the name of a model that stands for its linear relaxation.
LP_SUFFIX = ":lp"
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Bound:
    """Statement that no answer to the question costs less than `value`."""

    value: float  # in the time unit of the question
    method: str  # that proved it, or `STATED`
    optimal: bool = True  # whether the method ran to its end, so that it cannot prove more
    # Data with which others check the bound again, such as the nodes it rests on.
    witness: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if type(self.value) is not float:
            object.__setattr__(self, "value", _floored(self.method, self.value))
        if not 0 <= self.value < math.inf:
            raise FalseCertificateError(f"{self.method} claims the bound {self.value}; please report this as a bug.")

    @property
    def proved(self) -> bool:
        """Whether this project has proved the bound."""
        return self.method != STATED


def _floored(method: str, value: Any) -> float:
    """The largest float that does not exceed a number of another type, such as a fraction."""
    try:
        number = float(value) if hasattr(value, "__float__") else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        raise InputError(f"{method} claims the bound {value!r}, which is no number; give one.")
    return math.nextafter(number, -math.inf) if number > value else number


def exceeds(bound: float, cost: float) -> bool:
    """Whether a bound is above a cost by more than rounding, and therefore false."""
    return bound > cost + _ROUNDING * max(cost, sys.float_info.min)  # smaller floats have fewer digits


# Members that questions and answers of all problems have.


class Question(Protocol):
    """Interface of all questions, such as `Instance`."""

    @property
    def key(self) -> str:
        """Hash of everything that costs depend on."""

    @property
    def question_hash(self) -> str:
        """Hash of everything that costs depend on and of the names of nodes, the same in all versions."""

    @property
    def label(self) -> str:
        """Short name of the question, as messages and tables show it."""

    @property
    def cost_name(self) -> str:
        """Noun of the costs of answers."""

    @property
    def time_unit(self) -> str:
        """Time unit of the costs."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences to print beside each answer."""


def is_same(question: Question, other: Question) -> bool:
    """Whether two questions are one, up to names."""
    return question is other or question.key == other.key


class Answer(Protocol):
    """Interface of all answers, such as `Partition`."""

    @property
    def instance(self) -> Any:
        """The question that it answers."""

    @property
    def cost(self) -> float:
        """The objective, which is minimised [time unit of the question]."""


Q = TypeVar("Q", bound=Question, default=Instance)
A = TypeVar("A", bound=Answer, default=Partition)


# Result of a method: an answer, a bound, and how far they are apart; the same for all problems.


#: An answer is called optimal when its cost exceeds a proved bound by at most this relative amount.
PROOF_TOLERANCE = 1e-6
#: Largest number of moments of a run that are kept.
MOST_MOMENTS = 1000


class Status(Enum):
    """State of knowledge at the end of a run."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    BOUND = "bound only"
    NOTHING = "none found"
    IMPOSSIBLE = "proved impossible"


@dataclass(frozen=True, kw_only=True)
class Moment:
    """State of knowledge at a moment of a run."""

    method: str  # the method at work
    began: float  # seconds from the start of the run to the start of the method's turn, by the clock of time limits
    seconds: float  # seconds since the start of the run, by that clock
    cpu_seconds: float  # processor seconds since the start of the run; those of solver programs once they have ended
    cost: float | None = None  # cost of the best answer so far
    bound: float | None = None  # the best bound so far


_BEGIN = Moment(method="", began=0.0, seconds=0.0, cpu_seconds=0.0)


class Recorder:
    """History of a run: the end of each method's turn, and each improvement; thinned if it is long."""

    def __init__(self) -> None:
        self.watch = Stopwatch()
        self.beside = 0.0  # processor seconds of other processes that work
        self._used, self._moments = processor_seconds(), list[Moment]()

    def note(self, method: str, cost: float | None, bound: float | None, began: float = 0.0, *, end: bool) -> None:
        """Record the cost and bound that a method reports, or the best known at the `end` of its turn.

        At the end, better values from before are corrected: a solver may have reported bounds without its tolerance.
        """
        if end:
            self._moments = [_no_better(moment, cost, bound) for moment in self._moments]
        last = self._moments[-1] if self._moments else _BEGIN
        if not end:
            cost, bound = _least(cost, last.cost), _largest(bound, last.bound)
        if end or (cost, bound) != (last.cost, last.bound):
            used = processor_seconds() - self._used + self.beside
            spent = {"began": began, "seconds": self.watch.passed, "cpu_seconds": used}
            self._moments.append(Moment(method=method, cost=cost, bound=bound, **spent))
        self._moments = thinned(self._moments)

    @property
    def moments(self) -> tuple[Moment, ...]:
        """The history so far."""
        return tuple(self._moments)


def _least(*values: float | None) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _largest(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _no_better(moment: Moment, cost: float | None, bound: float | None) -> Moment:
    """The moment with its cost at least `cost` and its bound at most `bound`."""
    least = None if moment.cost is None or cost is None else max(moment.cost, cost)
    capped = None if moment.bound is None or bound is None else min(moment.bound, bound)
    return moment if (least, capped) == (moment.cost, moment.bound) else replace(moment, cost=least, bound=capped)


def _one_after_another(runs: Iterable[tuple[Moment, ...]]) -> tuple[Moment, ...]:
    """Histories of consecutive runs as one, with the best values so far at each moment."""
    moments: list[Moment] = []
    for run in runs:
        end = moments[-1] if moments else _BEGIN
        moments += (
            Moment(
                method=moment.method,
                began=end.seconds + moment.began,
                seconds=end.seconds + moment.seconds,
                cpu_seconds=end.cpu_seconds + moment.cpu_seconds,
                cost=_least(end.cost, moment.cost),
                bound=_largest(end.bound, moment.bound),
            )
            for moment in run
        )
    return tuple(thinned(moments))


def thinned(moments: list[Moment], limit: int = MOST_MOMENTS) -> list[Moment]:
    """The first and the last moment, and of the others every second until at most `limit` are left."""
    while len(moments) > limit:
        moments = [moments[0], *moments[1:-1:2], moments[-1]]
    return moments


@dataclass(frozen=True, eq=False, repr=False)
class Result(Displayed, Generic[Q, A]):
    """Outcome of one run of one method on one question; `Result` alone is that of partitioning.

    Parameters
    ----------
    method : str
    instance : Question
    answer : Answer, optional
        A partition, an iteration of a plan, or a placement.
    bound : Bound, optional
    seconds : mapping of str to float
        Wall time of each phase, of which "compile" is in addition to the others; see `spent`.
    solver : str, optional
        Name and version of the solver, if one was used.
    log : str
        What the solver printed.
    interrupted : bool
        Whether Ctrl-C ended the run early; answer and bound are what was known by then.
    impossible : str, optional
        Why the question has no answer at all, in one line; then there is no bound either.
    parts : tuple of Result
        The results that were combined to this one; none for the outcome of a single method.
    provenance : mapping
        Further settings that the answer depends on, such as its seed, for the file of the answer.
    clocked : bool
        Whether a time limit may have affected the answer, so that another run with the same seed may give another one.
    notes : tuple of str
        What a reader of the answer has to know beside it, such as a method that was left out, one sentence each.
    moments : tuple of Moment
        What was known when, of at most 1,000 moments; see `trace`. Files of answers do not hold it.

    Raises
    ------
    FalseCertificateError
        If the bound exceeds the cost of the answer, or there is an answer that is called impossible.
    InputError
        If the answer belongs to another question.
    """

    #: Draws a result. Pictures are made above this package, by `mtpp`, which sets it.
    drawing: ClassVar[Callable[[Result[Any, Any]], Figure] | None] = None
    #: Makes the JSON document of a result; set likewise.
    documenting: ClassVar[Callable[[Result[Any, Any]], Mapping[str, Any]] | None] = None

    method: str
    instance: Q
    answer: A | None = None
    bound: Bound | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    solver: str | None = None
    log: str = ""
    interrupted: bool = False
    impossible: str | None = None
    parts: tuple[Result[Q, A], ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    clocked: bool = False
    notes: tuple[str, ...] = ()
    moments: tuple[Moment, ...] = ()

    def __post_init__(self) -> None:
        if self.answer is None:
            return
        if self.impossible is not None:
            raise FalseCertificateError(
                f"{self.instance.label}: there is an answer to what is called impossible ({self.impossible}); please "
                "report this as a bug."
            )
        if not is_same(self.answer.instance, self.instance):
            raise InputError("The answer belongs to another instance; combine results of the same one.")
        if self.bound is not None and _is_feasible(self.answer) and exceeds(self.bound.value, self.answer.cost):
            raise FalseCertificateError(
                f"{self.instance.label}: bound {self.bound.value!r} of {self.bound.method} exceeds the "
                f"{self.instance.cost_name} {self.answer.cost!r}; please report this as a bug."
            )

    @property
    def partition(self) -> Partition | None:
        """The answer if it is a partition, else None."""
        return self.answer if isinstance(self.answer, Partition) else None

    @property
    def cost(self) -> float | None:
        """Cost of the answer; None without one."""
        return None if self.answer is None else self.answer.cost

    @property
    def spent(self) -> float:
        """Seconds of all phases without "compile", the compiling and loading of kernels, which no limit counts."""
        return sum(seconds for phase, seconds in self.seconds.items() if phase != COMPILE)

    @property
    def ratio(self) -> float | None:
        """Cost over bound, at least 1 up to rounding; infinite if the bound is 0 and the cost is not.

        None without one of them, and where the answer needs more memory than there is.
        """
        if self.answer is None or self.bound is None or not _is_feasible(self.answer):
            return None
        cost, bound = self.answer.cost, self.bound.value
        if bound > 0:
            return max(1.0, cost / bound)
        return 1.0 if cost == 0 else math.inf

    @property
    def gap(self) -> float | None:
        """Ratio minus one."""
        return None if self.ratio is None else self.ratio - 1

    @property
    def proved(self) -> bool:
        """Whether the answer is proved optimal within `PROOF_TOLERANCE`; stated bounds do not count."""
        return self.bound is not None and self.bound.proved and self.gap is not None and self.gap <= PROOF_TOLERANCE

    @property
    def status(self) -> Status:
        """State of knowledge: optimal, feasible, bound only, none found, or proved impossible."""
        if self.impossible is not None:
            return Status.IMPOSSIBLE
        if self.answer is None:
            return Status.NOTHING if self.bound is None else Status.BOUND
        return Status.OPTIMAL if self.proved else Status.FEASIBLE

    @property
    def basis(self) -> str | None:
        """Why the bound, or the proof that there is no answer, can be believed; None without one.

        That is a proof of this project, the word of a solver, which is trusted, or what others state.
        """
        if self.bound is None and self.impossible is None:
            return None
        if self.bound is not None and not self.bound.proved:
            return "stated by others"
        return "proved here" if self.solver is None else f"trusted from {self.solver}"

    @property
    def by(self) -> str:
        """The method of the bound, with the trusted solver or the author of a stated bound; a dash without one."""
        if self.bound is None:
            return "–"
        if not self.bound.proved:
            return f"{self.bound.witness.get('by', self.bound.method)} ({self.basis})"
        return self.bound.method if self.solver is None else f"{self.bound.method} ({self.basis})"

    @property
    def trace(self) -> pd.DataFrame:
        """Best answers and bounds over time: a row for each end of a method's turn and each improvement.

        Returns
        -------
        DataFrame
            `method`, which was at work; `began`, when its turn began, and `seconds` [s since the begin of the run, by
            the clock of time limits, which stands still while kernels are compiled]; `cpu_seconds` [s, of all
            processors since then; those of a solver that is a program count when it has ended]; `cost` of the best
            answer and the best `bound` [time unit of the question], NaN while there is none. At most 1,000 rows; of
            results that were combined, one run behind the other. No rows for what was read from a file.
        """
        import pandas as pd

        columns = [item.name for item in fields(Moment)]
        frame = pd.DataFrame([astuple(moment) for moment in self.moments], columns=columns)
        return frame.astype(dict.fromkeys(columns[1:], float))

    def summary(self) -> str:
        """Summarise in a few aligned lines."""
        lines = {"instance": self.instance.label, **self._facts()}
        return "\n".join(f"{label:<11} {text}" for label, text in lines.items())

    def plot(self) -> Figure:
        """Draw the answer with its bound.

        Raises
        ------
        InputError
            If there is no answer, or nothing that draws: pictures are made by `mtpp`.
        """
        if self.answer is None:
            reason = self.impossible or f"{self.method} found no answer to draw."
            raise InputError(f"{self.instance.label}: {reason}")
        if Result.drawing is None:
            raise InputError("Pictures are made by mtpp; import mtpp.api first.")
        return Result.drawing(self)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the answer and all bounds as a JSON file, as the option --out of the command line does.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            If there is nothing to write, or a method is unknown to readers of the file.
        OSError
            If the file cannot be written.
        """
        if Result.documenting is None:
            raise InputError("Files of results are written by mtpp; import mtpp.api first.")
        if self.impossible is not None and not isinstance(self.instance, Instance):
            raise InputError(f"{self.instance.label}: {self.impossible.rstrip('.')}; there is no answer to write.")
        if not isinstance(path, str | PathLike):
            raise InputError(f"A result is saved to a path, no {type(path).__name__}.")
        file = Path(path)
        check_writable(file)
        write_json(file, Result.documenting(self))
        return file

    def noted(self, *notes: str) -> Result[Q, A]:
        """The same result with further notes before its own, also in its files."""
        parts = tuple(replace(part, notes=(*notes, *part.notes)) for part in self.parts)
        return replace(self, notes=(*notes, *self.notes), parts=parts) if notes else self

    def _title(self) -> str:
        return self.instance.label

    def _facts(self) -> dict[str, str]:
        unit = self.instance.time_unit
        lines = {}
        if isinstance(self.instance, Instance):
            lines["bandwidth"] = figures(self.instance.platform.bandwidth, f"bytes/{unit}")
        lines["method"] = self.method
        if self.solver is not None:
            lines["solver"] = self.solver
        lines["status"] = self.status.value
        if self.answer is not None:
            lines[self.instance.cost_name] = figures(self.answer.cost, unit)
        lines |= getattr(self.answer, "measures", {})
        if self.bound is not None:
            by = self.bound.method if self.bound.proved else self.bound.witness.get("by", self.bound.method)
            lines["bound"] = f"{figures(self.bound.value, unit)} ({by}, {self.basis})"
        if self.ratio is not None:
            lines["ratio"] = f"{self.ratio:.6f}"
        if self.impossible is not None:
            lines["reason"] = f"{self.impossible} ({self.basis})"
        lines["seconds"] = f"{self.spent:.2f}"
        if self.notes:
            lines["notes"] = "; ".join(self.notes)
        return lines

    def _rows(self) -> Rows | None:
        return self.answer._rows() if isinstance(self.answer, Displayed) else None


# Several results of one question as one.


def _is_feasible(answer: Answer) -> bool:
    """Whether the answer is feasible: with a hard limit on memory it must fit."""
    return not getattr(answer.instance, "fit", False) or getattr(answer, "fits", True)


def combine(*answers: A | Result[Q, A]) -> Result[Q, A]:
    """Combine answers to one question: the best answer with the best bound.

    Parameters
    ----------
    *answers : Partition, Iteration, Placement or Result
        At least one; all of the same question.

    Returns
    -------
    Result
        Method "certify", whose bound keeps the method that proved it.

    Raises
    ------
    InputError
        If the answers belong to different questions.
    FalseCertificateError
        If a bound exceeds the cost of an answer.
    """
    if not answers:
        raise InputError("Nothing to combine; give at least one answer or result.")
    instance: Q = answers[0].instance
    if not all(is_same(answer.instance, instance) for answer in answers):
        raise InputError("The answers belong to different instances; combine those of one at a time.")
    results = [answer for answer in answers if isinstance(answer, Result)]
    parts = [part for result in results for part in result.parts or (result,)]
    candidates = [answer for answer in answers if not isinstance(answer, Result)]
    candidates += [result.answer for result in results if result.answer is not None]
    bounds = [(r.bound.value, r.bound.proved, -i) for i, r in enumerate(results) if r.bound is not None]
    proof = results[-max(bounds)[2]] if bounds else None
    seconds: dict[str, float] = {}
    for result in results:
        seconds[result.method] = seconds.get(result.method, 0.0) + result.spent
    compiling = [result.seconds[COMPILE] for result in results if COMPILE in result.seconds]
    hopeless = next((result for result in results if result.impossible is not None), None)
    proof = proof if hopeless is None else hopeless
    return Result(
        method="certify",
        instance=instance,
        answer=min(candidates, key=lambda answer: (not _is_feasible(answer), answer.cost), default=None),
        bound=None if proof is None else proof.bound,
        seconds=seconds | ({COMPILE: sum(compiling)} if compiling else {}),
        solver=None if proof is None else proof.solver,
        interrupted=any(result.interrupted for result in results),
        impossible=None if hopeless is None else hopeless.impossible,
        parts=tuple(parts),
        clocked=any(result.clocked for result in results),
        notes=tuple(dict.fromkeys(note for result in results for note in result.notes)),
        moments=_one_after_another(result.moments for result in results),
    )


# Bounds as members of files.


def bound_document(answer: Result[Any, Any]) -> dict[str, Any]:
    """The bound of an answer, with what a check of it needs."""
    bound = answer.bound
    assert bound is not None
    solver, _, version = (answer.solver or "").partition(" ")
    origin = {"solver": solver or None, "version": version or None, "seconds": answer.spent}
    return bound_members(bound.method, bound.value, bound.witness, _methods_of(answer), **origin)


def check_names(answer: Result[Any, Any]) -> None:
    """Refuse a bound of a method or a solver that readers of files do not know, by an `InputError`."""
    assert answer.bound is not None
    solver = (answer.solver or "").partition(" ")[0]
    if recheck(answer.bound.method, _methods_of(answer)) is None:
        raise InputError(f"A certificate cannot hold a bound of {answer.bound.method!r}; name a model of the registry.")
    if solver and solver not in SOLVER_NAMES:
        raise InputError(f"A certificate cannot hold a bound of {solver!r}; solvers are {', '.join(SOLVER_NAMES)}.")


def _methods_of(answer: Result[Any, Any]) -> str:
    """Name of the problem whose bound methods apply to the answer's question."""
    question = answer.instance
    return KINDS if question.problem == PARTITION and not question.is_alike else str(question.problem)
