"""Members that questions and answers of all problems have."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from typing_extensions import TypeVar

from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance

__all__ = ["A", "Answer", "Q", "Question"]


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
    def time_unit(self) -> str:
        """Time unit of its costs."""


class Answer(Protocol):
    """Interface of all answers, such as `Partition`."""

    #: Word for the cost.
    cost_name: ClassVar[str]

    @property
    def instance(self) -> Any:
        """The question that it answers."""

    @property
    def cost(self) -> float:
        """Objective that is minimised, in the time unit of the question."""


Q = TypeVar("Q", bound=Question, default=Instance)
A = TypeVar("A", bound=Answer, default=Partition)
