"""Questions of serving as lines of text, in a few words, and as a member of files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from instances.graph.graph import ComputationGraph
from instances.graph.graph_file import graph_document
from instances.graph.question_lines import (
    digest_of,
    graph_lines,
    hash_of_question,
    said_number,
    said_text,
    shared_lines,
)
from instances.graph.tensors import FloatArray, IntArray
from instances.json_files import finite_or_none
from instances.partitioning.kinds.file import kinds_document
from instances.partitioning.problem import Instance
from instances.partitioning.question_file import platform_document

__all__ = ["ServedDecoder", "ServingQuestion", "serving_document"]


@dataclass(frozen=True, eq=False)
class ServedDecoder:
    """The operators of a decoder, the node of the chain that each belongs to, and the runtime that has to take cuts."""

    operators: ComputationGraph
    layer: IntArray  # (operators,) node of the chain
    runtime: str
    constant: FloatArray  # (n,) bytes of the states of each node of the chain that do not grow with the context
    works: FloatArray | None = None  # (T, operators) their work on each kind of device; None where all are alike


@dataclass(frozen=True, eq=False)
class ServingQuestion:
    """Question of serving, checked or as a file states it."""

    instance: Instance  # the chain, the devices and the constraints
    token_bytes: FloatArray  # (n,) bytes of the cache of each node for one more token of each sequence
    window: FloatArray  # (n,) tokens after which the cache of a node does not grow any more
    context: int  # tokens of each sequence
    batch: int  # sequences
    source: ServedDecoder | None = None  # what the chain was made of

    def lines(self) -> Iterator[str]:
        """All lines of the question but the first two."""
        yield from self.instance.lines()
        yield f"context {self.context}"
        yield f"batch {self.batch}"
        yield from self._lines_beside()

    def _lines_beside(self) -> Iterator[str]:
        """Lines of caches, and of what the chain was made of."""
        for token, window in zip(self.token_bytes.tolist(), self.window.tolist(), strict=True):
            yield f"cache {said_number(token)} {said_number(window)}"
        source = self.source
        if source is not None:
            yield f"runtime {said_text(source.runtime)}"
            yield " ".join(["layers", *map(str, source.layer.tolist())])
            yield " ".join(["constant", *map(said_number, source.constant.tolist())])
            for works in () if source.works is None else source.works.tolist():
                yield " ".join(["works", *map(said_number, works)])
            yield from graph_lines(source.operators)
            yield from shared_lines(source.operators)

    @property
    def true_hash(self) -> str:
        """SHA-256 of the whole question, names of nodes included, the same in all versions (``mtpp-question/1``)."""
        return hash_of_question("serving", self.lines())

    @property
    def question_words(self) -> str:
        """The question without names, in one line."""
        runtime = "" if self.source is None else f" for {self.source.runtime}"
        beside = digest_of(self._lines_beside())
        return f"context {self.context}, batch {self.batch}, caches {beside}{runtime}, {self.instance.question_words}"

    @property
    def label(self) -> str:
        """Name of the decoder and number of stages."""
        return self.instance.label


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
        **({} if instance.is_alike else kinds_document(instance)),
        **made_of,
    }
