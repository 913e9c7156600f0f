"""Partition files, ``mtpp-partition/1``, JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instances.errors import InputError
from instances.json_files import PARTITION_FORMAT, Value, finite_or_none, read_json, write_json
from instances.partitioning.constraints_file import stated_constraints
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance
from instances.partitioning.question_file import platform_document
from instances.partitioning.stage_records import Crossing, Stage
from instances.partitioning.stages import crossings, stages
from instances.records import read, written

__all__ = [
    "check_same_question",
    "partition_document",
    "partition_from_document",
    "read_partition",
    "save_partition",
]

_NUMBERS = ("bandwidth", "memory", "activation_buffer", "bottleneck")
_OPTIONAL = ("graph", "graph_hash", "order", *_NUMBERS, "fit", "constraints", "stages", "costs", "crossing")


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
    for name, kind in (shown | {"crossing": tuple[Crossing, ...]}).items():
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
