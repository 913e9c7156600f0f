"""Certificate files, ``mtpp-certificate/1``, as raw records: what a file states, and nothing that is believed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from instances.errors import InputError
from instances.graph.graph_file import graph_from_document
from instances.json_files import CERTIFICATE_FORMAT, PARTITION_FORMAT, Value, read_json
from instances.partitioning.problem import Instance, Platform

__all__ = ["SOLVER_NAMES", "Certificate", "Claim", "Stated", "read_certificate", "read_claim", "recheck"]

#: Solvers that a certificate may name; others could be programs of a stranger.
SOLVER_NAMES = ("highs", "scip", "gurobi", "cbc", "glpk", "cplex", "xpress")

#: What checks the bounds of a method again; those of solvers are trusted.
_RECHECKS = {
    "simple": "formula",
    "pinned": "minimum cuts",
    "pigeonhole": "minimum cuts",
    "ideals": "ideals",
    "carried": "trusted",
    "priced": "trusted",
}
_PART = "(cuts|windows|conflicts|joins|cutoff)"
_PARTS = rf"\+(all(-{_PART})*|{_PART}(\+{_PART})*)"
_OF_SOLVERS = re.compile(
    rf"(bottleneck(-no-dag|-no-cut-io)?|guess-the-bottleneck|(exact|coarse-2|coarse-4)({_PARTS})?)(-lp)?"
)

#: What the parameters of a bound may hold.
_PARAMETERS = ("nodes", "prices", "from_k", "value", "proof", "time_limit", "gap", "threads", "seed")
_PLATFORM = ("k", "bandwidth", "memory", "activation_buffer")
_CLAIM = ("method", "value", "optimal", "parameters", "solver", "version", "seconds", "recheck")


def recheck(method: str) -> str | None:
    """What checks a bound of this method again.

    Returns
    -------
    str, optional
        "formula", "minimum cuts", "ideals", or "trusted"; None where there is no such method.
    """
    return _RECHECKS.get(method) or ("trusted" if _OF_SOLVERS.fullmatch(method) else None)


@dataclass(frozen=True)
class Claim:
    """A bound as a file states it.

    Parameters
    ----------
    place : str
        Where in the file, such as ``bounds[2]``.
    method : str
        A method that this project has.
    value : float
        In the time unit of the work.
    parameters : Value
        What a check needs to know, such as the nodes that the bound rests on.
    solver : str, optional
        One of `SOLVER_NAMES`.
    version : str, optional
        Of the solver.
    recheck : str
        What is said to check it again.
    """

    place: str
    method: str
    value: float
    parameters: Value
    solver: str | None
    version: str | None
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
        If the file is not a certificate, its graph or platform is none, or it names a field, a method or a solver that
        this project does not have; the message names the place.
    """
    document = read_json(path)
    document.check_format(CERTIFICATE_FORMAT)
    names = ("format", "instance", "partition", "bottleneck", "bound", "ratio", "bounds")
    fields = document.members(names)
    if fields["partition"].data is None and not fields["bounds"].items():
        document.fail("it holds neither a partition nor a bound; there is nothing to check.")
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
        claims=tuple(read_claim(value) for value in fields["bounds"].items()),
    )


def read_claim(value: Value) -> Claim:
    """A bound of a certificate.

    Raises
    ------
    InputError
        If a field is missing, unknown or of the wrong kind, or names a method or a solver that there is not.
    """
    fields = value.members(_CLAIM)
    if not isinstance(fields["optimal"].data, bool):
        fields["optimal"].fail("expected true or false.")
    method, solver = fields["method"].text(), _optional_text(fields["solver"])
    if recheck(method) is None:
        fields["method"].fail(f"there is no method {method!r} (mtpp list models).")
    if solver is not None and solver not in SOLVER_NAMES:
        fields["solver"].fail(f"there is no solver {solver!r}; known are {', '.join(SOLVER_NAMES)}.")
    fields["parameters"].members((), _PARAMETERS)
    fields["seconds"].number()
    return Claim(
        place=value.path,
        method=method,
        value=fields["value"].number(),
        parameters=fields["parameters"],
        solver=solver,
        version=_optional_text(fields["version"]),
        recheck=fields["recheck"].text(),
    )


def _stated(value: Value) -> Stated:
    value.check_format(PARTITION_FORMAT)
    names = ("format", "graph", "graph_hash", "block", "order", *_PLATFORM, "bottleneck", "stages")
    fields = value.members(names)
    fields["graph"].text()
    return Stated(
        block=tuple(fields["block"].whole_numbers()),
        order=tuple(fields["order"].whole_numbers()),
        platform=_platform(value, fields),
        graph_hash=fields["graph_hash"].text(),
        bottleneck=fields["bottleneck"].number(),
        stages=tuple(tuple(_texts(stage)) for stage in fields["stages"].items()),
    )


def _texts(value: Value) -> Iterator[str]:
    return (item.text() for item in value.items())


def _platform(place: Value, fields: dict[str, Value]) -> Platform:
    bandwidth, memory, buffer = (_optional(fields[name]) for name in _PLATFORM[1:])
    rate, limit = (math.inf if number is None else number for number in (bandwidth, memory))
    try:
        return Platform(fields["k"].whole(), rate, limit, buffer)
    except InputError as error:
        place.fail(str(error))


def _optional(value: Value) -> float | None:
    return None if value.data is None else value.number()


def _optional_text(value: Value) -> str | None:
    return None if value.data is None else value.text()
