"""Serving fronts as files state them, and their questions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from instances.certificates import Envelope, check_written, opened
from instances.devices import Platform
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.graph_file import graph_document, graph_from_document
from instances.graph.question_lines import (
    digest_of,
    graph_lines,
    hash_of_question,
    said_number,
    said_text,
    shared_lines,
)
from instances.graph.tensors import FloatArray, IntArray
from instances.json_files import Value, finite_or_none
from instances.machines import Machines
from instances.partitioning.constraints import NO_CONSTRAINTS
from instances.partitioning.constraints_file import refused_at, stated_constraints
from instances.partitioning.problem import Instance
from instances.partitioning.stated import platform_document
from instances.partitioning.stated_kinds import devices_of_members, kinds_document, kinds_of_blocks

# Questions of serving as lines of text, in a few words, and as a member of files.


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


# Serving fronts in files, ``mtpp-serving/1``, as raw records: statements that are not checked.


SERVING_FORMAT = "mtpp-serving/1"

_QUESTION = (
    *("name", "k", "bandwidth", "memory", "activation_buffer", "fit"),
    *("need", "token_bytes", "window", "context", "batch", "graph"),
)
#: What the chain was made of.
_SOURCE = ("operators", "layer", "constant")
_KINDS = ("order", "kinds")
_STAGE = ("weights", "first_token", "activations", "context")


@dataclass(frozen=True)
class StatedPoint:
    """A cut as a file states it."""

    block: tuple[int, ...]
    bottleneck: float
    context: float  # tokens; infinite for null
    stages: tuple[tuple[float, float, float, float], ...]  # weights, cache of a token, activations [bytes], context
    kind: tuple[str | None, ...] | None = None  # of the device of each stage, None where it is empty; None: all alike


@dataclass(frozen=True, kw_only=True)
class StatedServing(ServingQuestion, Envelope):
    """A serving question and its front as a file states them; older files lack what the chain was made of."""

    need: FloatArray  # (n,) activations of each node [bytes]
    front: tuple[StatedPoint, ...]
    answer: int  # of the front
    runtime: str
    settings: str  # of the answer for the runtime; empty if there are none

    answer_name: ClassVar[str] = "front"
    cost_name: ClassVar[str] = "bottleneck"


def serving_from_document(document: Value) -> StatedServing:
    """The front of a file with its question.

    Raises
    ------
    InputError
        If this is none, or it names a field that there is not; the message names the place.
    """
    document, stated_hash = opened(document, SERVING_FORMAT)
    fields = document.members(("format", "instance", "front", "answer", "runtime", "words"))
    question = fields["instance"].members(_QUESTION, ("constraints", "works", "rates", *_KINDS, *_SOURCE))
    graph = graph_from_document(question["graph"])
    rows = {name: np.array([*map(_or_infinite, question[name].items())]) for name in ("need", "token_bytes", "window")}
    for name, row in rows.items():
        if len(row) != graph.n or row.min() < 0 or (name != "window" and math.inf in row):
            question[name].fail(f"expected {graph.n} numbers, each 0 or more.")
    platform = _platform(fields["instance"], question)
    rules = NO_CONSTRAINTS
    if "constraints" in question:
        rules = stated_constraints(question["constraints"], graph, platform.k)
    machines: Platform | Machines = platform
    more: dict[str, Any] = {}
    if not ("kinds" in question) == ("order" in question) >= ("works" in question or "rates" in question):
        fields["instance"].fail("'kinds', 'order' and, with operators, 'works' belong together, and 'rates' to them.")
    if "kinds" in question:
        if rules:
            question["constraints"].fail("there are none beside several kinds of devices.")
        devices, works = devices_of_members(question["kinds"], question["order"], graph.n, question.get("rates"))
        if not np.isfinite(works).all():
            question["kinds"].fail("all nodes of a front run on each kind; expected works that are numbers.")
        machines = replace(devices, bandwidth=platform.bandwidth)
        more = {"k": platform.k, "works": works, "activation_buffer": platform.activation_buffer, "fit": platform.fit}
    with refused_at(fields["instance"]):
        instance = Instance(graph, machines, question["name"].text(), rules, rows["need"], by_need=True, **more)
    stated = StatedServing(
        file=document.file,
        instance=instance,
        cost=None,
        bound=None,
        ratio=None,
        claims=(),
        token_bytes=rows["token_bytes"],
        window=rows["window"],
        need=rows["need"],
        context=question["context"].whole(),
        batch=question["batch"].whole(),
        front=tuple(map(_point, fields["front"].items())),
        answer=fields["answer"].whole(),
        runtime=fields["runtime"].text(),
        settings=fields["words"].text(),
        source=_source(question, fields["runtime"].text(), instance),
        question_hash=stated_hash,
    )
    if stated_hash is not None:
        if stated.source is None:
            fields["instance"].fail("its operators are missing; write the front anew with mtpp serve.")
        check_written(fields["instance"], serving_document(stated))
    return stated


def _source(question: dict[str, Value], runtime: str, chain: Instance) -> ServedDecoder | None:
    if not set(_SOURCE) <= question.keys():
        return None
    n, works = chain.graph.n, None
    operators, layer = graph_from_document(question["operators"]), question["layer"].whole_numbers()
    constant = question["constant"].numbers()
    if len(constant) != n or min(constant) < 0:
        question["constant"].fail(f"expected {n} numbers, each 0 or more.")
    if len(layer) != operators.n or min(layer) < 0 or max(layer) >= n:
        question["layer"].fail(f"expected {operators.n} numbers from 0 to {n - 1}.")
    if not chain.is_alike:
        rows = [row.numbers() for row in question["works"].items()] if "works" in question else []
        if len(rows) != chain.kinds or any(len(row) != operators.n or min(row) < 0 for row in rows):
            question["operators"].fail(f"expected works of them on {chain.kinds} kinds, each 0 or more.")
        works = np.array(rows)
    return ServedDecoder(operators, np.array(layer), runtime, np.array(constant), works)


def _platform(place: Value, question: dict[str, Value]) -> Platform:
    numbers = _or_infinite(question["bandwidth"]), question["memory"].number()
    buffer = question["activation_buffer"].optional_number()
    try:
        return Platform(question["k"].whole(), *numbers, buffer, question["fit"].truth())
    except InputError as error:
        place.fail(str(error))


def _point(value: Value) -> StatedPoint:
    fields = value.members(("block", "bottleneck", "context", "stages"), ("kind",))
    stages = []
    for stage in fields["stages"].items():
        members = stage.members(_STAGE)
        numbers = [members[name].number() for name in _STAGE[:-1]]
        stages.append((numbers[0], numbers[1], numbers[2], _or_infinite(members["context"])))
    return StatedPoint(
        block=tuple(fields["block"].whole_numbers()),
        bottleneck=fields["bottleneck"].number(),
        context=_or_infinite(fields["context"]),
        stages=tuple(stages),
        kind=kinds_of_blocks(fields["kind"]) if "kind" in fields else None,
    )


def _or_infinite(value: Value) -> float:
    number = value.optional_number()
    return math.inf if number is None else number
