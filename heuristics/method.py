"""A search under the name that the command line and the tables use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from heuristics.limits import Limits

__all__ = ["Method", "Search"]

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
