"""Certificates of partitions as raw records: their question, partition and claims, none of them checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from instances.certificates import PARTITIONING, Envelope, check_written, envelope, opened
from instances.devices import Platform
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.graph_file import graph_document, graph_from_document
from instances.json_files import CERTIFICATE_FORMAT, PARTITION_FORMAT, Value, finite_or_none
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints
from instances.partitioning.constraints_file import constraints_document, refused_at, stated_constraints
from instances.partitioning.problem import Instance
from instances.records import Limit, read

# Questions of partitioning as a member of files.


def question_document(instance: Instance) -> dict[str, Any]:
    """The question as the member ``instance`` of a certificate; infinite numbers are null."""
    return {
        "name": instance.name,
        **platform_document(instance),
        **graph_members(instance.graph),
    }


def graph_members(graph: ComputationGraph) -> dict[str, Any]:
    """Members ``graph_hash`` and ``graph``."""
    return {"graph_hash": graph.content_hash, "graph": graph_document(graph)}


def platform_document(instance: Instance) -> dict[str, Any]:
    """Number of blocks, devices and rules."""
    platform = instance.platform
    return {
        "k": platform.k,
        "bandwidth": finite_or_none(platform.bandwidth),
        "memory": finite_or_none(platform.memory),
        "activation_buffer": platform.activation_buffer,
        **rules_document(instance),
    }


def rules_document(instance: Instance) -> dict[str, Any]:
    """Members ``fit`` and ``constraints`` of files; empty if neither is set."""
    rules: dict[str, Any] = {"fit": True} if instance.platform.fit else {}
    if instance.constraints:
        rules["constraints"] = constraints_document(instance.constraints)
    return rules


# Records of the stages of an answer and of the tensors between them, as files and tables hold them.


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A block that is not empty: what it holds and what it costs.

    Parameters
    ----------
    stage : int
        Number of the block.
    first, last : str
        Names of the first and the last node that it executes.
    nodes : int
    receive, work, overflow, send, cost : float
        The terms of eq. (3) and their sum, in the time unit of the work.
    share : float
        Cost over bottleneck, from 0 to 1.
    param_bytes, state_bytes, peak_bytes : float
        Its parameters, its states and its peak of activations [bytes].
    """

    stage: int
    first: str
    last: str
    nodes: int
    receive: Limit
    work: Limit
    overflow: Limit
    send: Limit
    cost: Limit
    share: Limit
    param_bytes: Limit
    state_bytes: Limit
    peak_bytes: Limit


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """A tensor that some other block reads than the one that makes it.

    Parameters
    ----------
    producer : str
        Name of the node that makes it.
    node, output : int
        Number of that node, and of the tensor among its outputs.
    source : int
        Block of the producer.
    readers : tuple of int
        Other blocks that read it, in order.
    bytes : float
    time : float
        To move it once, in the time unit of the work.
    """

    producer: str
    node: int
    output: int
    source: int
    readers: tuple[int, ...]
    bytes: Limit
    time: Limit


# Statement of a certificate that no partition fits, as a raw record: not checked.


#: Kind of a proof to the numbers that it names.
PROOFS: dict[str, tuple[str, ...]] = {"sum": (), "node": ("node",), "windows": ("first", "last"), "ideals": ()}


class StatedImpossible(NamedTuple):
    """Why there is no partition at all."""

    reason: str  # in words
    kind: str | None  # of `PROOFS`; None if the file has no proof
    numbers: dict[str, int]  # that it names, of nodes and blocks


def read_impossible(value: Value, n: int, k: int) -> StatedImpossible:
    """Read the member `impossible` of a certificate of a graph with n nodes and of k blocks.

    Raises
    ------
    InputError
        If its proof is none of `PROOFS`, or names what does not exist.
    """
    fields = value.members(("reason", "proof"))
    reason, proof = fields["reason"].text(), fields["proof"]
    if proof.data is None:
        return StatedImpossible(reason, None, {})
    kind = proof.open_members(("kind",))["kind"]
    if kind.text() not in PROOFS:
        kind.fail(f"there is no such proof; known are {', '.join(PROOFS)}.")
    members = proof.members(("kind", *PROOFS[kind.text()]))
    numbers = {name: members[name].whole() for name in PROOFS[kind.text()]}
    for name, number in numbers.items():
        count = n if name == "node" else k
        if not 0 <= number < count:
            members[name].fail(f"it is {number}; there are {count}.")
    return StatedImpossible(reason, kind.text(), numbers)


# Partitions in files, ``mtpp-certificate/1``, as raw records: statements that are not checked.


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
