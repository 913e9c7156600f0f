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

from instances.graph.graph import ComputationGraph

__all__ = ["graph_lines", "hash_of_question", "said_number", "said_text", "shared_lines"]

_FORMAT = "mtpp-question/1"


def hash_of_question(problem: str, lines: Iterable[str]) -> str:
    """The hash of a question of a problem [64 hexadecimal digits]."""
    digest = hashlib.sha256()
    for line in (_FORMAT, f"problem {problem}", *lines):
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


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
