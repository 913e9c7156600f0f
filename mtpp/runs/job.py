"""Unit of work of the engine: one run to be made."""

from __future__ import annotations

import hashlib
import json
import platform
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

from instances.errors import MethodError
from mtpp.runs.code_hash import sources_of
from mtpp.runs.log import NOTHING, OLD_SCHEMA, Circumstances, Run
from mtpp.versions import package_version

#: Of an answer that another process has found: its seconds by clock and by processor, which are no field of the run.
MEASURED = "measured"


class Job(ABC):
    """One run to be made.

    A job can be pickled, as another process may run it. Its answer depends on its key alone: neither on where it runs,
    nor on what runs at the same time.
    """

    @property
    @abstractmethod
    def key(self) -> str:
        """Hash of everything that the answer depends on, the code that makes it too."""

    @property
    def old_key(self) -> str | None:
        """Key of the same question in files of the version before, which did not know the code."""
        return None

    @property
    def waits_for(self) -> Sequence[str]:
        """Keys of the jobs whose runs this one starts from."""
        return ()

    @abstractmethod
    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """One line for the file of runs; without arguments, its fields."""

    @abstractmethod
    def answer(self, start: Sequence[Run]) -> Run:
        """Do the work, and return the fields of the answer."""

    def chosen(self, start: Sequence[Run]) -> Sequence[Run]:
        """Those runs among what it waits for that the answer needs."""
        return start

    def refusal(self) -> str | None:
        """Why this process, which did not make the job, must not run it: its code is another; None if it may."""
        return None

    def run(self, start: Sequence[Run] = ()) -> Run:
        """Make the run, given the runs of the jobs that it waits for; a failure is a line with an error text.

        Raises
        ------
        KeyboardInterrupt
            If the run was interrupted; a part of a run is not a run.
        """
        circumstances = Circumstances()
        try:
            answer = self.answer(start)
        except Exception as error:
            message = str(error) if isinstance(error, MethodError) else f"{type(error).__name__}: {error}"
            return self.record(circumstances.watch.passed, message) | circumstances.fields()
        seconds, circumstances.more = answer.pop(MEASURED, (circumstances.watch.passed, 0.0))
        return self.record(seconds, **answer) | circumstances.fields()

    def failure(self, error: str) -> Run:
        """The line of a run that left no answer, as its process died."""
        return self.record(error=error) | NOTHING

    def line(self, about: Run, seconds: float | None, error: str | None, answer: Run) -> Run:
        """A line for the file of runs: what the study says of the job and its answer, and what all lines have."""
        run = {"version": package_version(), "seconds": seconds, "error": error}
        return {"key": self.key, **about, **run, **answer}

    @staticmethod
    def failed(run: Run) -> bool:
        """Whether a run has no answer, so that it is worth another try."""
        return run["error"] is not None

    def is_done(self, run: Run | None) -> bool:
        """Whether a run of the file answers the job; one that failed, or lacks a field, is made again."""
        return run is not None and run.keys() >= _fields(self) and not self.failed(run)

    def adopted(self, run: Run) -> Run | None:
        """A run of the version before as an answer to this job, the fields that it lacks missing; None if it is none.

        Of how it was made nothing more is claimed than it says.
        """
        now = self.record()
        full = dict.fromkeys(now) | {name: now.get(name) for name in ("simple", "cluster") if name in now} | run
        full |= {"key": self.key, "schema": OLD_SCHEMA}
        return full if self.is_done(full) else None


class StudyJob(Job):
    """A job of a study, whose question is a list of plain values; its code is that of its class."""

    @property
    @abstractmethod
    def question(self) -> list[Any]:
        """All but the code that the answer depends on."""

    @cached_property
    def sources(self) -> str:
        """Hash of the code, as the process saw it that made the job."""
        return _sources(type(self))

    @cached_property
    def key(self) -> str:
        """Hash of the question and the code."""
        return key_of([*self.question, self.sources])

    @property
    def old_key(self) -> str | None:
        """Key that counted the version of the package in place of the code."""
        return key_of([*self.question, package_version()])

    def refusal(self) -> str | None:
        """Why this process must not run the job: its code is not the caller's; None if it may."""
        return None if _sources(type(self)) == self.sources else other_code(type(self).__name__)

    def line(self, about: Run, seconds: float | None, error: str | None, answer: Run) -> Run:
        """A line for the file of runs."""
        return super().line({"sources": self.sources, **about}, seconds, error, answer)


def key_of(question: Any) -> str:
    """Hash of plain values."""
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


def other_code(name: str) -> str:
    """Sentence about a worker whose code, or packages that it imports, are not the caller's."""
    return (
        f"the worker on {platform.node()} has other code of {name}, or other versions of packages, than the caller; "
        "install the same, and start both again."
    )


def _fields(job: Job) -> frozenset[str]:
    """Names of the fields of a run, the same for all jobs of a class."""
    kind = type(job)
    if kind not in _FIELDS:
        _FIELDS[kind] = frozenset(job.record())
    return _FIELDS[kind]


_FIELDS: dict[type[Job], frozenset[str]] = {}


@cache
def _sources(kind: type[StudyJob]) -> str:
    return sources_of(kind)
