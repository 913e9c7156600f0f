"""What a run may claim: an answer, a bound, and how far they are apart; the same for all problems."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from typing_extensions import TypeVar

from instances.deadline import COMPILE
from instances.errors import FalseCertificateError, InputError
from instances.graph.display import Displayed, Rows, figures
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PROOF_TOLERANCE", "STATED", "Answer", "Bound", "Question", "Result", "Status", "combine"]

#: An answer is called optimal when its cost exceeds a proved bound by at most this relative amount.
PROOF_TOLERANCE = 1e-6
#: Method of a bound that somebody states and nothing here has proved; it makes no answer optimal.
STATED = "stated"
_ROUNDING = 1e-9


class Question(Protocol):
    """What all questions have, such as `Instance`."""

    @property
    def key(self) -> str:
        """Hash of everything that costs depend on."""

    @property
    def label(self) -> str:
        """What people call it."""

    @property
    def time_unit(self) -> str:
        """Of its costs."""


class Answer(Protocol):
    """What all answers have, such as `Partition`."""

    #: What people call the cost.
    cost_name: ClassVar[str]

    @property
    def instance(self) -> Any:
        """The question that it answers."""

    @property
    def cost(self) -> float:
        """What is minimised, in the time unit of the question."""


Q = TypeVar("Q", bound=Question, default=Instance)
A = TypeVar("A", bound=Answer, default=Partition)


class Status(Enum):
    """What is known after a run."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    BOUND = "bound only"
    NOTHING = "none found"
    IMPOSSIBLE = "proved impossible"


@dataclass(frozen=True)
class Bound:
    """No answer to the question costs less than `value`."""

    value: float  # in the time unit of the question
    method: str  # what proved it, or `STATED`
    optimal: bool = True  # whether the method ran to its end, so that it cannot prove more
    # What lets others check the bound again, such as the nodes it rests on.
    witness: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.value < math.inf:
            raise FalseCertificateError(f"{self.method} claims the bound {self.value}; please report this as a bug.")

    @property
    def proved(self) -> bool:
        """Whether something here has proved it."""
        return self.method != STATED


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
        Wall time of each phase, of which "compile" is beside the others; see `spent`.
    solver : str, optional
        Name and version of the solver, if one was used.
    log : str
        What the solver printed.
    interrupted : bool
        Whether Ctrl-C ended the run early; answer and bound are what was known by then.
    impossible : str, optional
        Why the question has no answer at all, in one line; then there is no bound either.

    Raises
    ------
    FalseCertificateError
        If the bound exceeds the cost of the answer, or there is an answer that is called impossible.
    InputError
        If the answer belongs to another question.
    """

    #: Draws a result. Pictures are made above this package, by `mtpp`, which sets it.
    drawing: ClassVar[Callable[[Result[Any, Any]], Figure] | None] = None

    method: str
    instance: Q
    answer: A | None = None
    bound: Bound | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    solver: str | None = None
    log: str = ""
    interrupted: bool = False
    impossible: str | None = None

    def __post_init__(self) -> None:
        if self.answer is None:
            return
        if self.impossible is not None:
            raise FalseCertificateError(
                f"{self.instance.label}: there is an answer to what is called impossible ({self.impossible}); please "
                "report this as a bug."
            )
        if self.answer.instance.key != self.instance.key:
            raise InputError("The answer belongs to another instance; combine results of the same one.")
        if self.bound is not None and self.bound.value > self.answer.cost * (1 + _ROUNDING):
            raise FalseCertificateError(
                f"{self.instance.label}: bound {self.bound.value!r} of {self.bound.method} exceeds the "
                f"{self.answer.cost_name} {self.answer.cost!r}; please report this as a bug."
            )

    @property
    def partition(self) -> Partition | None:
        """The answer, if it is a partition."""
        return self.answer if isinstance(self.answer, Partition) else None

    @property
    def cost(self) -> float | None:
        """Of the answer."""
        return None if self.answer is None else self.answer.cost

    @property
    def spent(self) -> float:
        """Seconds of all phases but "compile", the compiling and loading of kernels, which no time limit counts."""
        return sum(seconds for phase, seconds in self.seconds.items() if phase != COMPILE)

    @property
    def ratio(self) -> float | None:
        """Cost over bound, at least 1 up to rounding; infinite if the bound is 0 and the cost is not."""
        if self.answer is None or self.bound is None:
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
        """Whether the answer is optimal within `PROOF_TOLERANCE`; no bound that is only stated says so."""
        return self.bound is not None and self.bound.proved and self.gap is not None and self.gap <= PROOF_TOLERANCE

    @property
    def status(self) -> Status:
        """What is known."""
        if self.impossible is not None:
            return Status.IMPOSSIBLE
        if self.answer is None:
            return Status.NOTHING if self.bound is None else Status.BOUND
        return Status.OPTIMAL if self.proved else Status.FEASIBLE

    def summary(self) -> str:
        """A few aligned lines for people."""
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
            raise InputError(f"{self.instance.label}: {self.method} found no answer to draw.")
        if Result.drawing is None:
            raise InputError("Pictures are made by mtpp; import mtpp.api first.")
        return Result.drawing(self)

    def _title(self) -> str:
        return self.instance.label

    def _facts(self) -> dict[str, str]:
        unit = self.instance.time_unit
        lines = {"method": self.method}
        if self.solver is not None:
            lines["solver"] = self.solver
        lines["status"] = self.status.value
        if self.answer is not None:
            lines[self.answer.cost_name] = figures(self.answer.cost, unit)
        if self.partition is not None:
            lines["throughput"] = figures(self.partition.throughput, f"per {unit}")
            lines["latency"] = figures(self.partition.latency, unit)
        if self.bound is not None:
            lines["bound"] = f"{figures(self.bound.value, unit)} ({self.bound.method})"
        if self.ratio is not None:
            lines["ratio"] = f"{self.ratio:.6f}"
        if self.impossible is not None:
            lines["reason"] = self.impossible
        lines["seconds"] = f"{self.spent:.2f}"
        return lines

    def _rows(self) -> Rows | None:
        return self.answer._rows() if isinstance(self.answer, Displayed) else None


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
    if any(answer.instance.key != instance.key for answer in answers):
        raise InputError("The answers belong to different instances; combine those of one at a time.")
    results = [answer for answer in answers if isinstance(answer, Result)]
    found = [answer for answer in answers if not isinstance(answer, Result)]
    found += [result.answer for result in results if result.answer is not None]
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
        answer=min(found, key=lambda answer: answer.cost, default=None),
        bound=None if proof is None else proof.bound,
        seconds=seconds | ({COMPILE: sum(compiling)} if compiling else {}),
        solver=None if proof is None else proof.solver,
        interrupted=any(result.interrupted for result in results),
        impossible=None if hopeless is None else hopeless.impossible,
    )
