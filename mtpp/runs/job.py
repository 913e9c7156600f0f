"""Unit of work of the engine: one run to be made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from instances.deadline import Stopwatch
from mtpp.runs.log import Run
from mtpp.versions import package_version

__all__ = ["Job"]


class Job(ABC):
    """One run to be made.

    A job can be pickled, as another process may run it. Its answer depends on its key alone: neither on where it runs,
    nor on what runs at the same time.
    """

    @property
    @abstractmethod
    def key(self) -> str:
        """Hash of everything that the answer depends on."""

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

    def run(self, start: Sequence[Run] = ()) -> Run:
        """Make the run, given the runs of the jobs that it waits for; a failure is a line with an error text.

        Raises
        ------
        KeyboardInterrupt
            If the run was interrupted; a part of a run is not a run.
        """
        watch = Stopwatch()
        try:
            answer = self.answer(start)
        except Exception as error:
            return self.record(watch.passed, f"{type(error).__name__}: {error}")
        return self.record(watch.passed, **answer)

    def line(self, about: Run, seconds: float | None, error: str | None, answer: Run) -> Run:
        """A line for the file of runs: what the study says of the job and its answer, and what all lines have."""
        made = {"version": package_version(), "seconds": seconds, "error": error}
        return {"key": self.key, **about, **made, **answer}

    @staticmethod
    def failed(run: Run) -> bool:
        """Whether a run has no answer, so that it is worth another try."""
        return run["error"] is not None

    def is_done(self, run: Run | None) -> bool:
        """Whether a run of the file answers the job; one that failed, or lacks a field, is made again."""
        return run is not None and run.keys() >= self.record().keys() and not self.failed(run)
