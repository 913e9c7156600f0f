"""Files that hold a partition: certificates, partition files, and blocks or names written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instances.certificates import Claim, accepted, older_format
from instances.devices import Platform
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.json_files import CERTIFICATE_FORMAT, PARTITION_FORMAT, Value, finite_or_none, read_json, write_json
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints
from instances.partitioning.constraints_file import parse_constraints, stated_constraints
from instances.partitioning.partition import IDLE, Partition
from instances.partitioning.problem import Instance
from instances.partitioning.stages import crossings, stages
from instances.partitioning.stated import Certificate, Crossing, Stage, certificate_from_document, platform_document
from instances.partitioning.stated_kinds import KINDS_CERTIFICATE, KindsCertificate, StatedKinds, kinds_from_document
from instances.partitioning.stated_serving import StatedPoint
from instances.records import read, written

# Partition files, ``mtpp-partition/1``, JSON.


_NUMBERS = ("bandwidth", "memory", "activation_buffer", "bottleneck")
_OPTIONAL = ("graph", "graph_hash", "order", *_NUMBERS, "fit", "constraints", "stages", "costs", "crossing", "notes")


def partition_document(partition: Partition) -> dict[str, Any]:
    """The partition as the JSON document of its file; infinite numbers are null.

    The stages by name, their costs and the tensors between them are for information only.
    """
    instance = partition.instance
    graph = instance.graph
    names: list[list[str]] = [[] for _ in range(instance.k)]
    for v in partition.order.tolist():
        names[partition.block[v]].append(graph.names[v])
    return {
        "format": PARTITION_FORMAT,
        "graph": graph.name,
        "graph_hash": graph.content_hash,
        "block": partition.block.tolist(),
        "order": partition.order.tolist(),
        **platform_document(instance),
        "bottleneck": finite_or_none(
            partition.bottleneck
        ),  # infinite where the memory is a hard limit that is exceeded
        "stages": names,
        "costs": [*map(written, stages(partition))],
        "crossing": [*map(written, crossings(partition))],
    }


def save_partition(partition: Partition, path: str | Path) -> None:
    """Write a partition file; raise `InputError` if it cannot be written."""
    write_json(path, partition_document(partition))


def read_partition(path: str | Path, instance: Instance) -> Partition:
    """Read a partition file as an answer to `instance`.

    The blocks and the order are taken from the file. The cost is computed again for the platform of
    `instance`; the platform, the constraints, the bottleneck and the stages of the file are for information only.

    Raises
    ------
    InputError
        If the file cannot be read, and as `partition_from_document`.
    """
    return partition_from_document(read_json(path), instance)


def check_same_question(document: Value, graph: str, graph_hash: str, k: int, instance: Instance) -> None:
    """Raise `InputError` if the partition of a document is of another graph or another number of blocks."""
    if graph_hash != instance.graph.content_hash:
        document.fail(
            f"the partition was made for another graph ('{graph}', hash {graph_hash[:8]}), not for "
            f"'{instance.graph.name}' ({instance.graph.content_hash[:8]}); use that one."
        )
    if k != instance.k:
        document.fail(f"the partition has k = {k}, but k = {instance.k} was asked for; use the same k.")


def partition_from_document(document: Value, instance: Instance) -> Partition:
    """The partition of a file's document.

    Raises
    ------
    InputError
        If it is none, was made for another graph or another k, or the partition is infeasible.
    """
    document.check_format(PARTITION_FORMAT)
    fields = document.members(("format", "k", "block"), _OPTIONAL)
    graph = fields["graph"].text() if "graph" in fields else "?"
    for name in _NUMBERS:
        if name in fields and fields[name].data is not None:
            fields[name].number()
    if "fit" in fields:
        fields["fit"].truth()
    shown: dict[str, Any] = {"stages": tuple[tuple[str, ...], ...], "costs": tuple[Stage, ...]}
    for name, kind in (shown | {"crossing": tuple[Crossing, ...], "notes": tuple[str, ...]}).items():
        if name in fields:
            read(fields[name], kind)
    made_for = fields["graph_hash"].text() if "graph_hash" in fields else instance.graph.content_hash
    check_same_question(document, graph, made_for, fields["k"].whole(), instance)
    if "constraints" in fields:
        stated_constraints(fields["constraints"], instance.graph, instance.k)
    block = fields["block"].whole_numbers()
    order = None
    if "order" in fields and fields["order"].data is not None:
        order = fields["order"].whole_numbers()
    try:
        return Partition(instance, block, order)
    except InputError as error:
        document.fail(str(error))


# Partitions of files over kinds of devices, with their costs computed anew.


def kinds_partition(document: Value) -> Partition | None:
    """The partition of a certificate; None if it holds none.

    Raises
    ------
    InputError
        If the file is no certificate, or the partition is refused.
    """
    try:
        return stated_partition(kinds_from_document(document))
    except InputError as error:
        document.fail(str(error))


def stated_partition(certificate: Certificate | KindsCertificate) -> Partition | None:
    """The partition that a certificate states, with its costs computed anew; None if it states none.

    Raises
    ------
    InputError
        If it is no partition.
    """
    stated = certificate.partition
    instance = certificate.instance
    if isinstance(stated, StatedKinds):
        return Partition(instance, stated.block, stated.order, _kind_numbers(instance, stated.kind))
    return None if stated is None else Partition(instance, stated.block, stated.order)


def served_cut(instance: Instance, point: StatedPoint) -> Partition:
    """The cut of a point of a serving front, with its costs computed anew; `InputError` if it is none."""
    return Partition(instance, point.block, kind=_kind_numbers(instance, point.kind or ()))


def _kind_numbers(instance: Instance, names: Sequence[str | None]) -> list[int]:
    """Kinds by their names, `IDLE` for None; `InputError` if there is no such kind."""
    numbers = {kind.name: t for t, kind in enumerate(instance.machines.kinds)}
    for name in names:
        if name is not None and name not in numbers:
            raise InputError(f"there is no kind {name!r} among its devices; there are {', '.join(numbers)}.")
    return [IDLE if name is None else numbers[name] for name in names]


# Files that hold a partition: certificates, partition files, and blocks or names written by hand.


_BY_HAND = ("block", "stages", "order", "k", "graph", "bandwidth", "memory", "activation_buffer", "fit", "constraints")


@dataclass(frozen=True)
class AnswerFile:
    """A file that holds a partition.

    Parameters
    ----------
    document : Value
        A certificate, a partition file, or an object with the block of each node as ``block``, or with the nodes of
        each stage, by name or number, as ``stages``; perhaps with ``k``, ``order`` and the platform.
    """

    document: Value

    @classmethod
    def read(cls, path: str | Path) -> AnswerFile:
        """Read a file that holds a partition.

        Raises
        ------
        InputError
            If it cannot be read, or is something else.
        """
        return cls.of(read_json(path))

    @classmethod
    def of(cls, document: Value) -> AnswerFile:
        """Wrap the content of a file; raise `InputError` if it has another format."""
        if "format" in document.open_members(()):
            document.check_format(*accepted(CERTIFICATE_FORMAT, PARTITION_FORMAT, KINDS_CERTIFICATE))
        return cls(document)

    @property
    def holds_graph(self) -> bool:
        """Whether the graph is in the file, so that it is a certificate."""
        named = self.document.open_members(()).get("format")
        return named is not None and older_format(named.text()) in (CERTIFICATE_FORMAT, KINDS_CERTIFICATE)

    @property
    def graph_name(self) -> str | None:
        """Name of the graph; None if the file does not state it."""
        name = self.document.open_members(()).get("graph")
        return None if name is None or name.data is None else name.text()

    @property
    def graph_hash(self) -> str | None:
        """Hash of the content of the graph; None if the file does not state it."""
        stated = self.document.open_members(()).get("graph_hash")
        return stated.data if stated is not None and isinstance(stated.data, str) else None

    def certified(self) -> tuple[Partition, tuple[Claim, ...]]:
        """The partition of a certificate, and its bounds as the file states them.

        Raises
        ------
        InputError
            If there is no partition in it, or it is refused.
        """
        if older_format(self.document.open_members(())["format"].text()) == KINDS_CERTIFICATE:
            return self._certified_kinds()
        certificate = certificate_from_document(self.document)
        stated = certificate.partition
        if stated is None:
            self.document.fail("it holds a bound and no partition; give a file with a partition.")
        try:
            partition = Partition(certificate.instance, stated.block, stated.order)
        except InputError as error:
            self.document.fail(str(error))
        return partition, certificate.claims

    def _certified_kinds(self) -> tuple[Partition, tuple[Claim, ...]]:
        found = kinds_partition(self.document)
        if found is None:
            self.document.fail("it holds a bound and no partition; give a file with a partition.")
        return found, kinds_from_document(self.document).claims

    def partition(
        self,
        graph: ComputationGraph,
        platform: Callable[[int, dict[str, float | None]], Platform],
        constraints: Constraints | None = None,
    ) -> Partition:
        """Build the partition for a graph.

        Parameters
        ----------
        platform : callable
            Makes a platform of the number of blocks and of what the file says of bandwidth, memory, activation_buffer
            and fit; infinite numbers are infinite here.
        constraints : Constraints, optional
            In place of those of the file.

        Raises
        ------
        InputError
            If the file does not fit the graph.
        """
        fields = self.document.open_members(())
        if "format" not in fields:
            fields = self.document.members((), _BY_HAND)
        said = {name: fields[name].optional_number() for name in ("bandwidth", "memory") if name in fields}
        numbers: dict[str, float | None] = {name: math.inf if x is None else x for name, x in said.items()}
        if "activation_buffer" in fields:
            numbers["activation_buffer"] = fields["activation_buffer"].optional_number()
        if "fit" in fields:
            numbers["fit"] = fields["fit"].truth()
        rules = constraints or NO_CONSTRAINTS
        if constraints is None and "constraints" in fields:
            rules = parse_constraints(fields["constraints"], graph)
        if "format" in fields:
            k = self.document.open_members(("k",))["k"].whole()
            instance = Instance(graph, platform(k, numbers), constraints=rules)
            return partition_from_document(self.document, instance)
        if ("block" in fields) == ("stages" in fields):
            self.document.fail("give the block of each node as 'block', or the nodes of each stage as 'stages'.")
        if "stages" in fields:
            least, block = len(fields["stages"].items()), _blocks_of(fields["stages"], graph)
        else:
            block = fields["block"].whole_numbers()
            least = max(block, default=0) + 1
        k = fields["k"].whole() if "k" in fields else least
        order = fields["order"].whole_numbers() if "order" in fields else None
        try:
            return Partition(Instance(graph, platform(k, numbers), constraints=rules), block, order)
        except InputError as error:
            self.document.fail(str(error))


def _blocks_of(stages: Value, graph: ComputationGraph) -> list[int]:
    """Block of each node, from the nodes of each stage by name or number."""
    index: dict[str, list[int]] = {}
    for v, name in enumerate(graph.names):
        index.setdefault(name, []).append(v)
    block = [-1] * graph.n
    for b, stage in enumerate(stages.items()):
        for item in stage.items():
            if isinstance(item.data, str):
                nodes = index.get(item.data, [])
                if len(nodes) != 1:
                    item.fail(
                        f"{len(nodes) or 'no'} nodes of the graph are called {item.data!r}; give a number instead."
                    )
                v = nodes[0]
            else:
                v = item.whole()
            if not 0 <= v < graph.n:
                item.fail(f"there is no node {v}; they run from 0 to {graph.n - 1}.")
            if block[v] >= 0:
                item.fail(f"node {v} ({graph.names[v]}) is in stage {block[v]} already; name each node once.")
            block[v] = b
    for v in [v for v in range(graph.n) if block[v] < 0][:1]:
        stages.fail(f"node {v} ({graph.names[v]}) is in no stage; name each node once.")
    return block
