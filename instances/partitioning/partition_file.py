"""Files that hold a partition: answers, and blocks or names written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from instances.certificates import Claim, answer_document, refuse_earlier
from instances.devices import Platform
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.json_files import ANSWER_FORMAT, Value, read_json, write_json
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints, parse_constraints
from instances.partitioning.partition import IDLE, Partition, crossings, stages
from instances.partitioning.problem import Instance
from instances.partitioning.stated import Certificate, Stated, StatedPoint, certificate_from_document
from instances.records import written

# Partitions as answers in files.


def partition_document(partition: Partition) -> dict[str, Any]:
    """The partition as the member `answer` of its file, with the names of the nodes of each block."""
    instance, names = partition.instance, partition.instance.graph.names
    members: list[list[str]] = [[] for _ in range(instance.k)]
    for v in partition.order.tolist():
        members[partition.block[v]].append(names[v])
    alike = instance.is_alike
    stated = Stated(
        block=tuple(partition.block.tolist()),
        order=tuple(partition.order.tolist()),
        stages=tuple(map(tuple, members)),
        kind=() if alike else tuple(partition.kinds_by_name),
        costs=tuple(stages(partition)) if alike else (),
        crossing=tuple(crossings(partition)) if alike else (),
    )
    return written(stated)


def save_partition(partition: Partition, path: str | Path) -> None:
    """Write a partition with its question; raise `InputError` if it cannot be written."""
    answer = partition_document(partition)
    write_json(path, answer_document(partition.instance, answer, partition.bottleneck))


def read_partition(path: str | Path, instance: Instance) -> Partition:
    """Read a file that holds a partition as an answer to `instance`.

    The blocks and the order are taken from the file. The cost is computed again for the platform of `instance`; all
    else in the file is for information only.

    Raises
    ------
    InputError
        If the file cannot be read, and as `AnswerFile.answering`.
    """
    return AnswerFile.read(path).answering(instance)


def stated_partition(certificate: Certificate) -> Partition | None:
    """The partition that a certificate states, with its costs computed anew; None if it states none.

    Raises
    ------
    InputError
        If it is no partition.
    """
    stated, instance = certificate.partition, certificate.instance
    if stated is None:
        return None
    kind = _kind_numbers(instance, stated.kind) if stated.kind else None
    return Partition(instance, stated.block, stated.order, kind)


def served_cut(instance: Instance, point: StatedPoint) -> Partition:
    """The partition of a point of a serving front, its costs computed anew; an `InputError` if it is infeasible."""
    return Partition(instance, point.block, kind=_kind_numbers(instance, point.kind or ()))


def _kind_numbers(instance: Instance, names: Sequence[str | None]) -> list[int]:
    """Kinds by their names, `IDLE` for None; `InputError` if there is no such kind."""
    numbers = {kind.name: t for t, kind in enumerate(instance.machines.kinds)}
    for name in names:
        if name is not None and name not in numbers:
            raise InputError(f"there is no kind {name!r} among its devices; there are {', '.join(numbers)}.")
    return [IDLE if name is None else numbers[name] for name in names]


# Files that hold a partition: answers, and blocks or names written by hand.


_BY_HAND = (
    *("block", "stages", "order", "k", "graph", "graph_hash"),
    *("bandwidth", "memory", "activation_buffer", "fit", "constraints"),
)


@dataclass(frozen=True)
class AnswerFile:
    """A file that holds a partition.

    Parameters
    ----------
    document : Value
        An answer, or an object with the block of each node as ``block``, or with the nodes of each stage, by name or
        number, as ``stages``; perhaps with ``k``, ``order`` and the platform.
    """

    document: Value

    @classmethod
    def read(cls, path: str | Path) -> AnswerFile:
        """Read a file that holds a partition.

        Raises
        ------
        InputError
            If the file cannot be read, or holds no partition.
        """
        return cls.of(read_json(path))

    @classmethod
    def of(cls, document: Value) -> AnswerFile:
        """Wrap the content of a file; raise `InputError` if it has another format."""
        refuse_earlier(document)
        fields = document.open_members(())
        if "format" in fields:
            document.check_format(ANSWER_FORMAT)
        elif "block" in fields and "stages" in fields:
            document.fail("it has 'block' and 'stages'; give one of them.")
        elif "block" not in fields and "stages" not in fields:
            document.fail(
                "it holds no answer; give a file that does, or the block of each node as 'block', or the nodes of each "
                "stage as 'stages'."
            )
        return cls(document)

    @property
    def holds_graph(self) -> bool:
        """Whether the graph is in the file, so that it is an answer."""
        return "format" in self.document.open_members(())

    @property
    def graph_name(self) -> str | None:
        """Name of the graph; None if the file does not state it."""
        name = self.document.open_members(()).get("graph")
        return None if name is None or name.data is None else name.text()

    @property
    def graph_hash(self) -> str | None:
        """Hash of the content of the graph; None if the file does not state it."""
        stated = self.document.open_members(()).get("graph_hash")
        return None if stated is None else stated.text()

    def certified(self) -> tuple[Partition, tuple[Claim, ...]]:
        """The partition of an answer, and its bounds as the file states them.

        Raises
        ------
        InputError
            If there is no partition in it, or it is refused.
        """
        certificate = certificate_from_document(self.document)
        with self.document.refusing():
            partition = stated_partition(certificate)
        if partition is None:
            self.document.fail("it holds a bound and no partition; give a file with a partition.")
        return partition, certificate.claims

    def answering(self, instance: Instance) -> Partition:
        """The partition of the file as an answer to `instance`; platform and constraints of the file are ignored.

        Raises
        ------
        InputError
            If it was made for another graph or another k, or the partition is infeasible.
        """
        if not self.holds_graph:
            return self._by_hand(instance.graph, lambda k: instance if k == instance.k else self._other_k(k, instance))
        certified, _ = self.certified()
        self._check_graph(certified.instance.graph.name, certified.instance.graph.content_hash, instance.graph)
        if certified.instance.k != instance.k:
            self._other_k(certified.instance.k, instance)
        with self.document.refusing():
            return certified.under(instance)

    def _check_graph(self, name: str, content_hash: str, graph: ComputationGraph) -> None:
        """Refuse a partition that was made for another graph."""
        if content_hash != graph.content_hash:
            self.document.fail(
                f"the partition was made for another graph ('{name}', hash {content_hash[:8]}), not for "
                f"'{graph.name}' ({graph.content_hash[:8]}); use that one."
            )

    def _other_k(self, k: int, instance: Instance) -> NoReturn:
        self.document.fail(f"the partition has k = {k}, but k = {instance.k} was asked for; use the same k.")

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
            Constraints in place of those of the file.

        Raises
        ------
        InputError
            If the file does not fit the graph.
        """
        fields = self.document.members((), _BY_HAND)
        limits = ("bandwidth", "memory")
        numbers: dict[str, float | None] = {name: fields[name].limit() for name in limits if name in fields}
        if "activation_buffer" in fields:
            numbers["activation_buffer"] = fields["activation_buffer"].optional_number()
        if "fit" in fields:
            numbers["fit"] = fields["fit"].truth()
        rules = constraints or NO_CONSTRAINTS
        if constraints is None and "constraints" in fields:
            rules = parse_constraints(fields["constraints"], graph)
        return self._by_hand(graph, lambda k: Instance(graph, platform(k, numbers), constraints=rules))

    def _by_hand(self, graph: ComputationGraph, question: Callable[[int], Instance]) -> Partition:
        """The partition of a file written by hand (`block` or `stages`), as an answer for that many blocks."""
        fields = self.document.members((), _BY_HAND)
        if self.graph_hash is not None:
            self._check_graph(self.graph_name or "?", self.graph_hash, graph)
        if "stages" in fields:
            least, block = len(fields["stages"].items()), _blocks_of(fields["stages"], graph)
        else:
            block = fields["block"].whole_numbers()
            least = max(block, default=0) + 1
        k = fields["k"].whole() if "k" in fields else least
        order = fields["order"].whole_numbers() if "order" in fields and fields["order"].data is not None else None
        with self.document.refusing():
            return Partition(question(k), block, order)


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
