"""Questions as lines of text, whose hash names them: ``mtpp-question/1``.

A hash of a question is the SHA-256 of its lines in UTF-8, each ended by a line break. Floats are written as
`float.hex` writes them, an infinite one is ``inf``, and what is missing ``none``. The lines are everything that costs
and rules read: two questions with one hash have the same answers at the same costs.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import ClassVar

from instances.graph.display import Displayed
from instances.graph.graph import ComputationGraph

_FORMAT = "mtpp-question/1"


class QuestionRecord(Displayed):
    """Base of the questions of all problems: records with lines of text, whose hash names the question."""

    #: The problem, as hashes name it.
    problem: ClassVar[str]

    def lines(self) -> Iterator[str]:
        """All lines of the question but the first two: everything that costs and rules read."""
        raise NotImplementedError

    @cached_property
    def question_hash(self) -> str:
        """SHA-256 of the whole question, all names included, the same in all versions (``mtpp-question/1``)."""
        return hash_of_question(self.problem, self.lines())

    @property
    def question_words(self) -> str:
        """The question without names, in one line."""
        raise NotImplementedError

    @property
    def time_unit(self) -> str:
        """Time unit of its costs."""
        return "s"


class GraphQuestion(QuestionRecord):
    """Base of the questions of one graph, whose time unit is that of the graph."""

    graph: ComputationGraph

    @property
    def time_unit(self) -> str:
        """Time unit of its costs."""
        return self.graph.time_unit


def hash_of_question(problem: str, lines: Iterable[str]) -> str:
    """The hash of a question of a problem [64 hexadecimal digits]."""
    digest = hashlib.sha256()
    for line in (_FORMAT, f"problem {problem}", *lines):
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def digest_of(lines: Iterable[str]) -> str:
    """The first digits of a hash of lines, in place of what is too long for a few words [12 hexadecimal digits]."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def said_number(number: float | None) -> str:
    """A number of a question; whole numbers that are no floats are written without this."""
    if number is None:
        return "none"
    return "inf" if number == math.inf else (float(number) + 0.0).hex()


def said_text(text: str) -> str:
    """A name, as JSON writes it in ASCII."""
    return json.dumps(text)


def graph_lines(graph: ComputationGraph) -> Iterator[str]:
    """Nodes with their names, and tensors with their readers, in the order of the file."""
    columns = (graph.names, graph.work.tolist(), graph.param_bytes.tolist(), graph.state_bytes.tolist())
    for name, *numbers in zip(*columns, strict=True):
        yield " ".join(["node", said_text(name), *map(said_number, numbers)])
    tensors = graph.tensors
    start, readers = tensors.start.tolist(), tensors.consumers.tolist()
    for t, (producer, size) in enumerate(zip(tensors.producer.tolist(), tensors.bytes.tolist(), strict=True)):
        reading = map(str, sorted(readers[start[t] : start[t + 1]]))
        yield " ".join(["tensor", str(producer), said_number(size), *reading])


def shared_lines(graph: ComputationGraph) -> list[str]:
    """Shared parameters, sorted as texts."""
    return sorted(" ".join(["shared", said_number(p.bytes), *map(str, p.users)]) for p in graph.parameters)
