"""Certificate files, ``mtpp-certificate/1``: everything that others need to check an answer again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instances import InputError, Instance, Platform, Result, certify
from instances.documents import Value, read_json
from instances.serialization import PARTITION_FORMAT, graph_document, graph_from_document, partition_document

__all__ = [
    "CERTIFICATE_FORMAT",
    "Certificate",
    "Claim",
    "Stated",
    "certificate_document",
    "read_certificate",
    "recheck",
]

CERTIFICATE_FORMAT = "mtpp-certificate/1"

#: What checks the bounds of a method again; those of all other methods come from a solver and are trusted.
_RECHECKS = {"simple": "formula", "pinned": "minimum cuts", "pigeonhole": "minimum cuts", "ideals": "ideals"}

_PLATFORM = ("k", "bandwidth", "memory", "activation_buffer")


def recheck(method: str) -> str:
    """What checks a bound of this method again: "formula", "minimum cuts", "ideals", or nothing, "trusted"."""
    return _RECHECKS.get(method, "trusted")


@dataclass(frozen=True)
class Claim:
    """A bound as a file states it.

    Parameters
    ----------
    place : str
        Where in the file, such as ``bounds[2]``.
    method : str
    value : float
        In the time unit of the work.
    parameters : Value
        What a check needs to know, such as the nodes that the bound rests on.
    solver : str, optional
        Name and version.
    seconds : float
        What the bound took.
    recheck : str
    """

    place: str
    method: str
    value: float
    parameters: Value
    solver: str | None
    seconds: float
    recheck: str


@dataclass(frozen=True)
class Stated:
    """A partition as a file states it; nothing is checked yet.

    Parameters
    ----------
    block, order : tuple of int
    platform : Platform
    graph_hash : str
    bottleneck : float
    stages : tuple of tuple of str
    """

    block: tuple[int, ...]
    order: tuple[int, ...]
    platform: Platform
    graph_hash: str
    bottleneck: float
    stages: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Certificate:
    """A certificate as a file states it: a question, and claims about it that nobody has checked yet.

    Parameters
    ----------
    file : str
    instance : Instance
    graph_hash : str
    partition : Stated, optional
    bottleneck, bound, ratio : float, optional
    claims : tuple of Claim
        The bounds.
    """

    file: str
    instance: Instance
    graph_hash: str
    partition: Stated | None
    bottleneck: float | None
    bound: float | None
    ratio: float | None
    claims: tuple[Claim, ...]


def certificate_document(answers: list[Result]) -> dict[str, Any]:
    """The answers to one instance as the JSON document of its file."""
    best = certify(*answers)
    graph, platform = best.instance.graph, best.instance.platform
    return {
        "format": CERTIFICATE_FORMAT,
        "instance": {
            "name": best.instance.name,
            "k": platform.k,
            "bandwidth": _finite(platform.bandwidth),
            "memory": _finite(platform.memory),
            "activation_buffer": platform.activation_buffer,
            "graph_hash": graph.content_hash,
            "graph": graph_document(graph),
        },
        "partition": None if best.partition is None else partition_document(best.partition),
        "bottleneck": None if best.partition is None else best.partition.bottleneck,
        "bound": None if best.bound is None else best.bound.value,
        "ratio": None if best.ratio is None else _finite(best.ratio),
        "bounds": [_bound_document(answer) for answer in answers if answer.bound is not None],
    }


def read_certificate(path: str | Path) -> Certificate:
    """Read a certificate file without believing it.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Certificate

    Raises
    ------
    InputError
        If the file is not a certificate, or its graph or platform is none; the message names the place.
    """
    document = read_json(path)
    document.check_format(CERTIFICATE_FORMAT)
    names = ("format", "instance", "partition", "bottleneck", "bound", "ratio", "bounds")
    fields = document.members(names)
    question = fields["instance"].members(("name", *_PLATFORM, "graph_hash", "graph"))
    graph = graph_from_document(question["graph"])
    return Certificate(
        file=str(path),
        instance=Instance(graph, _platform(fields["instance"], question), question["name"].text()),
        graph_hash=question["graph_hash"].text(),
        partition=None if fields["partition"].data is None else _stated(fields["partition"]),
        bottleneck=_optional(fields["bottleneck"]),
        bound=_optional(fields["bound"]),
        ratio=_optional(fields["ratio"]),
        claims=tuple(_claim(value) for value in fields["bounds"].items()),
    )


def _bound_document(answer: Result) -> dict[str, Any]:
    assert answer.bound is not None
    solver, _, version = (answer.solver or "").partition(" ")
    return {
        "method": answer.bound.method,
        "value": answer.bound.value,
        "optimal": answer.bound.optimal,
        "parameters": dict(answer.bound.witness),
        "solver": solver or None,
        "version": version or None,
        "seconds": sum(answer.seconds.values()),
        "recheck": recheck(answer.bound.method),
    }


def _claim(value: Value) -> Claim:
    names = ("method", "value", "optimal", "parameters", "solver", "version", "seconds", "recheck")
    fields = value.members(names)
    if not isinstance(fields["optimal"].data, bool):
        fields["optimal"].fail("expected true or false.")
    fields["parameters"].open_members(())
    solver = [fields[name].text() for name in ("solver", "version") if fields[name].data is not None]
    return Claim(
        place=value.path,
        method=fields["method"].text(),
        value=fields["value"].number(),
        parameters=fields["parameters"],
        solver=" ".join(solver) or None,
        seconds=fields["seconds"].number(),
        recheck=fields["recheck"].text(),
    )


def _stated(value: Value) -> Stated:
    value.check_format(PARTITION_FORMAT)
    names = ("format", "graph", "graph_hash", "block", "order", *_PLATFORM, "bottleneck", "stages")
    fields = value.members(names)
    fields["graph"].text()
    return Stated(
        block=tuple(item.whole() for item in fields["block"].items()),
        order=tuple(item.whole() for item in fields["order"].items()),
        platform=_platform(value, fields),
        graph_hash=fields["graph_hash"].text(),
        bottleneck=fields["bottleneck"].number(),
        stages=tuple(tuple(node.text() for node in stage.items()) for stage in fields["stages"].items()),
    )


def _platform(place: Value, fields: dict[str, Value]) -> Platform:
    bandwidth, memory, buffer = (_optional(fields[name]) for name in _PLATFORM[1:])
    rate, limit = (math.inf if number is None else number for number in (bandwidth, memory))
    try:
        return Platform(fields["k"].whole(), rate, limit, buffer)
    except InputError as error:
        place.fail(str(error))


def _optional(value: Value) -> float | None:
    return None if value.data is None else value.number()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
