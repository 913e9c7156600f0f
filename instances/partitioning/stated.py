"""Partitions in files, ``mtpp-certificate/1``, as raw records: statements that are not checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from instances.certificates.claims import PARTITIONING, Envelope, envelope
from instances.certificates.provenance import check_written, opened
from instances.devices.platform import Platform
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.graph_file import graph_from_document
from instances.json_files import CERTIFICATE_FORMAT, PARTITION_FORMAT, Value
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints
from instances.partitioning.constraints_file import refused_at, stated_constraints
from instances.partitioning.problem import Instance
from instances.partitioning.question_file import question_document
from instances.partitioning.stage_records import Crossing, Stage
from instances.partitioning.stated_impossible import StatedImpossible, read_impossible
from instances.records import read

__all__ = ["Certificate", "Stated", "certificate_from_document"]

_PLATFORM = ("k", "bandwidth", "memory", "activation_buffer")
_RULES = ("fit", "constraints")


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A partition as a file states it; nothing is checked yet."""

    block: tuple[int, ...]
    order: tuple[int, ...]
    platform: Platform
    constraints: Constraints
    graph_hash: str
    bottleneck: float
    stages: tuple[tuple[str, ...], ...]
    costs: tuple[Stage, ...]
    crossing: tuple[Crossing, ...]


@dataclass(frozen=True, kw_only=True)
class Certificate(Envelope):
    """Certificate of a partition as its file states it: a question, and claims that are not checked yet."""

    instance: Instance
    graph_hash: str
    partition: Stated | None
    impossible: StatedImpossible | None = None

    answer_name: ClassVar[str] = "partition"
    cost_name: ClassVar[str] = "bottleneck"


def certificate_from_document(document: Value) -> Certificate:
    """The certificate of a partition.

    Raises
    ------
    InputError
        If this is not a certificate, its graph or platform is none, its constraints contradict one another, or it names
        a field, a method or a solver that this project does not have; the message names the place.
    """
    document, stated_hash = opened(document, CERTIFICATE_FORMAT)
    names = ("format", "instance", "partition", "bottleneck", "bound", "ratio", "bounds")
    fields = document.members(names, ("version", "impossible", "steps"))
    if fields["partition"].data is None and not fields["bounds"].items() and "impossible" not in fields:
        document.fail("it holds neither a partition nor a bound; there is nothing to check.")
    question = fields["instance"].members(("name", *_PLATFORM, "graph_hash", "graph"), _RULES)
    graph = graph_from_document(question["graph"])
    platform = _platform(fields["instance"], question)
    rules = _constraints(question, graph, platform.k)
    with refused_at(fields["instance"]):
        instance = Instance(graph, platform, question["name"].text(), rules)
    if stated_hash is not None:
        check_written(fields["instance"], question_document(instance))
    return Certificate(
        **envelope(fields, "bottleneck", PARTITIONING, stated_hash),
        instance=instance,
        graph_hash=question["graph_hash"].text(),
        partition=None if fields["partition"].data is None else _stated(fields["partition"], graph),
        impossible=read_impossible(fields["impossible"], graph.n, platform.k) if "impossible" in fields else None,
    )


def _stated(value: Value, graph: ComputationGraph) -> Stated:
    value.check_format(PARTITION_FORMAT)
    names = ("format", "graph", "graph_hash", "block", "order", *_PLATFORM, "bottleneck", "stages", "costs", "crossing")
    fields = value.members(names, _RULES)
    fields["graph"].text()
    platform = _platform(value, fields)
    return Stated(
        block=tuple(fields["block"].whole_numbers()),
        order=tuple(fields["order"].whole_numbers()),
        platform=platform,
        constraints=_constraints(fields, graph, platform.k),
        graph_hash=fields["graph_hash"].text(),
        bottleneck=fields["bottleneck"].number(),
        stages=read(fields["stages"], tuple[tuple[str, ...], ...]),
        costs=read(fields["costs"], tuple[Stage, ...]),
        crossing=read(fields["crossing"], tuple[Crossing, ...]),
    )


def _platform(place: Value, fields: dict[str, Value]) -> Platform:
    bandwidth, memory, buffer = (fields[name].optional_number() for name in _PLATFORM[1:])
    rate, limit = (math.inf if number is None else number for number in (bandwidth, memory))
    try:
        return Platform(fields["k"].whole(), rate, limit, buffer, "fit" in fields and fields["fit"].truth())
    except InputError as error:
        place.fail(str(error))


def _constraints(fields: dict[str, Value], graph: ComputationGraph, k: int) -> Constraints:
    return stated_constraints(fields["constraints"], graph, k) if "constraints" in fields else NO_CONSTRAINTS
