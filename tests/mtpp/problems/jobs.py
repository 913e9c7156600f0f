"""Jobs on machines of different speeds: a problem of its own, with search, bound, files, checker, page and picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from matplotlib.figure import Figure

from instances import Bound, Result
from instances.certificates import Envelope, envelope, opened, stated_answer
from instances.graph.display import Displayed
from instances.graph.questions import QuestionRecord
from instances.json_files import Value
from instances.records import written
from mtpp.certifying.explain import Reasons
from mtpp.certifying.loop import Method
from mtpp.plots.sections import Section, stacked
from mtpp.problems.registry import Named, Problem
from mtpp.questions.verifying import Comparisons
from mtpp.text.numbers import Scale
from mtpp.verification.verdict import Verdict, compare, verdict_of


@dataclass(frozen=True, eq=False, repr=False)
class Jobs(QuestionRecord):
    problem: ClassVar[str] = "jobs"
    works: tuple[float, ...]
    speeds: tuple[float, ...]
    label: ClassVar[str] = "jobs"

    @property
    def key(self) -> str:
        return self.question_hash

    @property
    def question_words(self) -> str:
        return f"works {self.works}, speeds {self.speeds}"

    def _facts(self) -> dict[str, str]:
        return {"works": str(self.works), "speeds": str(self.speeds)}


@dataclass(frozen=True, eq=False, repr=False)
class Assignment(Displayed):
    instance: Jobs
    machine: tuple[int, ...]

    @property
    def cost(self) -> float:
        return max(self.times())

    def times(self) -> list[float]:
        jobs = list(zip(self.machine, self.instance.works, strict=True))
        return [sum(w for m, w in jobs if m == i) / speed for i, speed in enumerate(self.instance.speeds)]

    def _facts(self) -> dict[str, str]:
        return {"machine": str(self.machine)}


class Members(NamedTuple):
    machine: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Stated(Envelope):
    machine: tuple[int, ...]
    answer_name: ClassVar[str] = "assignment"


def methods(question: Jobs) -> list[Method[Jobs, Assignment]]:
    def search(best: Result[Jobs, Assignment], controls: Any) -> Result[Jobs, Assignment]:
        machine, loads = [0] * len(question.works), [0.0] * len(question.speeds)
        for j in sorted(range(len(machine)), key=lambda j: -question.works[j]):
            i = min(range(len(loads)), key=lambda i: (loads[i] + question.works[j]) / question.speeds[i])
            machine[j], loads[i] = i, loads[i] + question.works[j]
        return Result("greedy", question, Assignment(question, tuple(machine)))

    def bound(best: Result[Jobs, Assignment], controls: Any) -> Result[Jobs, Assignment]:
        return Result("even", question, None, Bound(sum(question.works) / sum(question.speeds), "even"))

    def broken(best: Result[Jobs, Assignment], controls: Any) -> Result[Jobs, Assignment]:
        return Result("broken", question, None, Bound(1 / 0, "broken"))

    return [Method(run.__name__, run, timeless=True) for run in (search, broken, bound)]


def state(answer: Assignment) -> dict[str, Any]:
    return written(Members(answer.machine))


def stated(document: Value) -> Stated:
    fields = opened(document, "jobs")
    question, members = Jobs.of_document(fields["question"]), stated_answer(fields, Members)
    return Stated(**envelope(fields, "jobs"), instance=question, machine=members.machine)


def read(document: Value) -> Result[Jobs, Assignment]:
    file = stated(document)
    bound = Bound(max(claim.value for claim in file.claims), "stated", witness={"by": "even"})
    return Result("read", file.instance, Assignment(file.instance, file.machine), bound)


def verify(document: Value, limits: Any) -> Verdict:
    file = stated(document)
    question = file.instance
    loads = [Fraction(0)] * len(question.speeds)
    for i, work in zip(file.machine, question.works, strict=True):
        loads[i] += Fraction(work) / Fraction(question.speeds[i])
    even = Fraction(sum(question.works)) / Fraction(sum(question.speeds))
    return verdict_of(file, max(loads), (), lambda claim: compare(claim, even, "proved by its formula"), limits)


def compared(file: Stated, given: Any, own: Any) -> Comparisons:
    return Comparisons({}, ())


def facts(answer: Assignment) -> dict[str, str]:
    return answer.instance._facts()


def sections(answer: Assignment, bound: Bound | None) -> Iterator[Section]:
    times, scale = answer.times(), Scale.of_times([answer.cost], "s")
    yield Section("Machines", chart=stacked([str(i) for i in range(len(times))], {"work": times}, scale, "machine"))


def figure(answer: Assignment, bound: Bound | None) -> Figure:
    drawn = Figure()
    drawn.subplots().barh(range(len(answer.times())), answer.times())
    return drawn


def explain(result: Result[Jobs, Assignment], *_: Any) -> tuple[Reasons, bool]:
    assert result.answer is not None
    times = result.answer.times()
    return Reasons(result, (f"Machine {times.index(max(times))} is the last.",)), False


def _own(name: str) -> Named:
    return Named(f"jobs:{name}")


JOBS: dict[str, Any] = {
    "name": "jobs",
    "article": "an assignment",
    "question": _own("Jobs"),
    "stated": (_own("Stated"),),
    "state": _own("state"),
    "read": _own("read"),
    "verify": _own("verify"),
    "compare": _own("compared"),
    "facts": _own("facts"),
    "sections": _own("sections"),
    "figure": _own("figure"),
    "explain": _own("explain"),
}


def problem(**changes: Any) -> Problem:
    return Problem(**JOBS | changes)
