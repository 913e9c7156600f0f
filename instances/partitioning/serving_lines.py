"""Questions of serving as lines of text, in a few words, and as a member of files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from instances.graph.graph import ComputationGraph
from instances.graph.graph_file import graph_document
from instances.graph.question_lines import graph_lines, said_number, said_text, shared_lines
from instances.graph.tensors import FloatArray, IntArray
from instances.json_files import finite_or_none
from instances.partitioning.kinds.file import kinds_document
from instances.partitioning.kinds.problem import UnlikeInstance
from instances.partitioning.problem import Instance
from instances.partitioning.question_file import platform_document
from instances.partitioning.question_lines import instance_lines

__all__ = ["ServedDecoder", "ServingQuestion", "serving_document", "serving_in_words", "serving_lines"]


@dataclass(frozen=True, eq=False)
class ServedDecoder:
    """The operators of a decoder, the node of the chain that each belongs to, and the runtime that has to take cuts."""

    operators: ComputationGraph
    layer: IntArray  # (operators,) node of the chain
    runtime: str
    constant: FloatArray  # (n,) bytes of the states of each node of the chain that do not grow with the context
    works: FloatArray | None = None  # (T, operators) their work on each kind of device; None where all are alike


class ServingQuestion(Protocol):
    """Question of serving, checked or as a file states it."""

    @property
    def instance(self) -> Instance:
        """The chain, the devices and the constraints."""

    @property
    def token_bytes(self) -> FloatArray:
        """(n,) bytes of a token."""

    @property
    def window(self) -> FloatArray:
        """(n,) tokens."""

    @property
    def context(self) -> int:
        """Tokens of each sequence."""

    @property
    def batch(self) -> int:
        """Sequences."""

    @property
    def source(self) -> ServedDecoder | None:
        """The operators that the chain was made of."""


def serving_lines(question: ServingQuestion) -> Iterator[str]:
    """All lines of a question of serving but the first two."""
    chain = question.instance
    if isinstance(chain, UnlikeInstance):
        yield from chain.lines()
    else:
        yield from instance_lines(chain.graph, chain.platform, chain.constraints, chain.need, chain.by_need)
    yield f"context {question.context}"
    yield f"batch {question.batch}"
    for token, window in zip(question.token_bytes.tolist(), question.window.tolist(), strict=True):
        yield f"cache {said_number(token)} {said_number(window)}"
    source = question.source
    if source is not None:
        yield f"runtime {said_text(source.runtime)}"
        yield " ".join(["layers", *map(str, source.layer.tolist())])
        yield " ".join(["constant", *map(said_number, source.constant.tolist())])
        for works in () if source.works is None else source.works.tolist():
            yield " ".join(["works", *map(said_number, works)])
        yield from graph_lines(source.operators)
        yield from shared_lines(source.operators)


def serving_in_words(question: ServingQuestion) -> str:
    """The question without names, in one line."""
    runtime = "" if question.source is None else f" for {question.source.runtime}"
    return f"context {question.context}, batch {question.batch}{runtime}, {question.instance.question_words}"


def serving_document(question: ServingQuestion) -> dict[str, Any]:
    """The question as the member ``instance`` of a serving front; infinite numbers are null."""
    instance, source = question.instance, question.source
    made_of: dict[str, Any] = {}
    if source is not None:
        made_of = {"operators": graph_document(source.operators), "layer": source.layer.tolist()}
        made_of["constant"] = source.constant.tolist()
        made_of |= {} if source.works is None else {"works": source.works.tolist()}
    return {
        "name": instance.name,
        **platform_document(instance),
        "fit": instance.platform.fit,
        "need": instance.needs.tolist(),
        "token_bytes": question.token_bytes.tolist(),
        "window": [finite_or_none(size) for size in question.window.tolist()],
        "context": question.context,
        "batch": question.batch,
        "graph": graph_document(instance.graph),
        **(kinds_document(instance) if isinstance(instance, UnlikeInstance) else {}),
        **made_of,
    }
