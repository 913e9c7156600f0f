"""Files that hold a partition: certificates, partition files, and blocks or names written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from instances.certificates.claims import Claim
from instances.certificates.provenance import accepted, older_format
from instances.devices.platform import Platform
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.json_files import CERTIFICATE_FORMAT, PARTITION_FORMAT, Value, read_json
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints
from instances.partitioning.constraints_file import parse_constraints
from instances.partitioning.kinds.answer import kinds_partition
from instances.partitioning.kinds.file import KINDS_CERTIFICATE, kinds_from_document
from instances.partitioning.partition import Partition
from instances.partitioning.partition_file import partition_from_document
from instances.partitioning.problem import Instance
from instances.partitioning.stated import certificate_from_document

__all__ = ["AnswerFile"]

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
