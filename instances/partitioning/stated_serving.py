"""Serving fronts in files, ``mtpp-serving/1``, as raw records: statements that are not checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from instances.certificates.claims import Envelope
from instances.devices.platform import Platform
from instances.errors import InputError
from instances.graph.graph_file import graph_from_document
from instances.json_files import Value
from instances.partitioning.constraints import NO_CONSTRAINTS
from instances.partitioning.constraints_file import stated_constraints
from instances.partitioning.problem import Instance

__all__ = ["SERVING_FORMAT", "StatedPoint", "StatedServing", "serving_from_document"]

SERVING_FORMAT = "mtpp-serving/1"

_QUESTION = (
    *("name", "k", "bandwidth", "memory", "activation_buffer", "fit"),
    *("need", "token_bytes", "window", "context", "batch", "graph"),
)
_STAGE = ("weights", "first_token", "activations", "context")


@dataclass(frozen=True)
class StatedPoint:
    """A cut as a file states it."""

    block: tuple[int, ...]
    bottleneck: float
    context: float  # tokens; infinite for null
    stages: tuple[tuple[float, float, float, float], ...]  # weights, cache of a token, activations [bytes], context


@dataclass(frozen=True, kw_only=True)
class StatedServing(Envelope):
    """A serving question and its front as a file states them."""

    need: tuple[float, ...]  # activations of each node [bytes]
    token_bytes: tuple[float, ...]
    window: tuple[float, ...]  # tokens
    context: int
    batch: int
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
    document.check_format(SERVING_FORMAT)
    fields = document.members(("format", "instance", "front", "answer", "runtime", "words"))
    question = fields["instance"].members(_QUESTION, ("constraints",))
    graph = graph_from_document(question["graph"])
    rows = {name: tuple(map(_or_infinite, question[name].items())) for name in ("need", "token_bytes", "window")}
    for name, row in rows.items():
        if len(row) != graph.n or min(row) < 0 or (name != "window" and math.inf in row):
            question[name].fail(f"expected {graph.n} numbers, each 0 or more.")
    platform = _platform(fields["instance"], question)
    rules = NO_CONSTRAINTS
    if "constraints" in question:
        rules = stated_constraints(question["constraints"], graph, platform.k)
    return StatedServing(
        file=document.file,
        instance=Instance(graph, platform, question["name"].text(), rules),
        cost=None,
        bound=None,
        ratio=None,
        claims=(),
        **rows,
        context=question["context"].whole(),
        batch=question["batch"].whole(),
        front=tuple(map(_point, fields["front"].items())),
        answer=fields["answer"].whole(),
        runtime=fields["runtime"].text(),
        settings=fields["words"].text(),
    )


def _platform(place: Value, question: dict[str, Value]) -> Platform:
    numbers = _or_infinite(question["bandwidth"]), question["memory"].number()
    buffer = question["activation_buffer"].optional_number()
    try:
        return Platform(question["k"].whole(), *numbers, buffer, question["fit"].truth())
    except InputError as error:
        place.fail(str(error))


def _point(value: Value) -> StatedPoint:
    fields = value.members(("block", "bottleneck", "context", "stages"))
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
    )


def _or_infinite(value: Value) -> float:
    number = value.optional_number()
    return math.inf if number is None else number
