"""Methods of search, and the limits that they keep to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np

from instances import InputError
from instances.deadline import Deadline

# Limits of searches: time, evaluations, a target.


@dataclass(frozen=True)
class Limits:
    """Limits of a search, which stops at the first one reached.

    Parameters
    ----------
    deadline : Deadline
        End of the time, or an interrupt; none by default.
    evaluations : int, optional
        Number of partitions evaluated. The same seed and evaluations give the same answer.
    target : float, optional
        A bottleneck that is good enough, such as a proved bound.

    Raises
    ------
    InputError
        If `evaluations` is no whole number, or less than 1.
    """

    deadline: Deadline = field(default_factory=Deadline)
    evaluations: int | None = None
    target: float | None = None

    def __post_init__(self) -> None:
        if self.evaluations is not None and not (self.evaluations >= 1 and self.evaluations == int(self.evaluations)):
            raise InputError(f"The limit is {self.evaluations} evaluations; allow a whole number, at least 1.")

    def reached(self, bottleneck: float) -> bool:
        """Whether the search should stop: the deadline has passed, or `bottleneck` is good enough."""
        return self.deadline.passed or (self.target is not None and bottleneck <= self.target)

    def without_target(self) -> Limits:
        """The same limits without a target, for a search that minimises something else."""
        return replace(self, target=None)

    def allow(self, evaluations: int) -> int:
        """The number of evaluations that may be made, at most `evaluations`."""
        return evaluations if self.evaluations is None else min(evaluations, self.evaluations)


# A search under the name that the command line and the tables use.


Question = TypeVar("Question", contravariant=True)
Answer = TypeVar("Answer", covariant=True)


class Search(Protocol[Question, Answer]):
    """A function from an instance, a generator and limits, which may be left out, to an answer."""

    def __call__(self, instance: Question, rng: np.random.Generator, limits: Limits | None = None, /) -> Answer:
        """Search for an answer."""


@dataclass(frozen=True)
class Method(Generic[Question, Answer]):
    """A search with its parameters fixed."""

    name: str  # unique in its registry
    summary: str  # description in one line
    reference: str  # where it comes from
    # Maps an instance, a generator and limits to an answer. Without limits it does its own number of evaluations. It
    # raises `InputError` if it finds no answer, or needs something that is not installed.
    run: Search[Question, Answer]
    kinds: Literal["one", "any"] = "one"  # of devices that it answers for, in questions of partitioning
