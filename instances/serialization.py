"""Graph and partition files: ``mtpp-graph/1`` and ``mtpp-partition/1``, both JSON.

Floats are written with the shortest digits that give the same float back, so a graph survives a round trip
bit by bit. An unknown field is an error: a misspelt one must not count as absent.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from instances.documents import Value, read_json, write_json
from instances.errors import InputError
from instances.graph import ComputationGraph
from instances.partition import Partition
from instances.problem import Instance
from instances.tensors import SharedParameter

__all__ = [
    "GRAPH_FORMAT",
    "PARTITION_FORMAT",
    "graph_document",
    "graph_from_document",
    "partition_document",
    "read_graph",
    "read_partition",
    "save_graph",
    "save_partition",
]

GRAPH_FORMAT = "mtpp-graph/1"
PARTITION_FORMAT = "mtpp-partition/1"

_GRAPH_OPTIONAL = ("name", "source", "time_unit", "parameters", "attributes")
_NODE_OPTIONAL = ("name", "param_bytes", "output_bytes")
_PARTITION_NUMBERS = ("bandwidth", "memory", "activation_buffer", "bottleneck")
_PARTITION_OPTIONAL = ("graph", "graph_hash", "order", *_PARTITION_NUMBERS, "stages")


def graph_document(graph: ComputationGraph) -> dict[str, Any]:
    """The graph as the JSON document of its file."""
    sizes = graph.tensors.bytes.tolist()
    first = graph.output_start.tolist()
    nodes: list[dict[str, Any]] = []
    for v, (name, work, params) in enumerate(
        zip(graph.names, graph.work.tolist(), graph.param_bytes.tolist(), strict=True)
    ):
        outputs = sizes[first[v] : first[v + 1]]
        output_bytes = outputs[0] if len(outputs) == 1 else outputs
        nodes.append({"name": name, "work": work, "param_bytes": params, "output_bytes": output_bytes})
    edges = [
        [u, v] if first[u + 1] - first[u] == 1 else [u, v, tensor - first[u]]
        for (u, v), tensor in zip(graph.edges.tolist(), graph.edge_tensor.tolist(), strict=True)
    ]
    return {
        "format": GRAPH_FORMAT,
        "name": graph.name,
        "source": graph.source,
        "time_unit": graph.time_unit,
        "nodes": nodes,
        "edges": edges,
        "parameters": [{"name": p.name, "bytes": float(p.bytes), "users": list(p.users)} for p in graph.parameters],
        "attributes": dict(graph.attributes),
    }


def graph_from_document(document: Value) -> ComputationGraph:
    """Build a graph from its JSON document.

    ``format``, ``nodes``, ``edges`` and the ``work`` of each node are required; sizes default to 0, names to
    indices and the time unit to seconds.

    Raises
    ------
    InputError
        If a field is missing, unknown or of the wrong kind, or the graph itself is refused; the message
        names the place.
    """
    document.check_format(GRAPH_FORMAT)
    fields = document.members(("format", "nodes", "edges"), _GRAPH_OPTIONAL)
    nodes = [node.members(("work",), _NODE_OPTIONAL) for node in fields["nodes"].items()]
    if not nodes:
        fields["nodes"].fail("the graph has no node; give at least one.")
    attributes = fields.get("attributes", Value({}, document.file))
    attributes.open_members(())
    texts = {key: fields[key].text() for key in ("name", "source", "time_unit") if key in fields}
    work = [node["work"].number() for node in nodes]
    output_bytes = [_sizes(node["output_bytes"]) if "output_bytes" in node else [0.0] for node in nodes]
    param_bytes = [node["param_bytes"].number() if "param_bytes" in node else 0.0 for node in nodes]
    names = tuple(node["name"].text() if "name" in node else str(v) for v, node in enumerate(nodes))
    edges = [_edge(edge) for edge in fields["edges"].items()]
    parameters = tuple(_parameter(value) for value in fields["parameters"].items()) if "parameters" in fields else ()
    try:
        return ComputationGraph.from_edges(
            edges,
            work,
            output_bytes,
            param_bytes,
            names=names,
            parameters=parameters,
            attributes=attributes.data,
            **texts,
        )
    except InputError as error:
        document.fail(str(error))


def save_graph(graph: ComputationGraph, path: str | Path) -> None:
    """Write a graph file.

    Raises
    ------
    InputError
        If the file cannot be written, or the attributes hold something that JSON cannot.
    """
    write_json(path, graph_document(graph))


def read_graph(path: str | Path) -> ComputationGraph:
    """Read a graph file.

    Raises
    ------
    InputError
        If the file cannot be read or is not a valid graph; the message names the file and the place.
    """
    return graph_from_document(read_json(path))


def partition_document(partition: Partition) -> dict[str, Any]:
    """The partition as the JSON document of its file; infinite bandwidth and memory are null."""
    instance = partition.instance
    graph, platform = instance.graph, instance.platform
    stages: list[list[str]] = [[] for _ in range(instance.k)]
    for v in partition.order.tolist():
        stages[partition.block[v]].append(graph.names[v])
    return {
        "format": PARTITION_FORMAT,
        "graph": graph.name,
        "graph_hash": graph.content_hash,
        "k": instance.k,
        "block": partition.block.tolist(),
        "order": partition.order.tolist(),
        "bandwidth": _finite(platform.bandwidth),
        "memory": _finite(platform.memory),
        "activation_buffer": platform.activation_buffer,
        "bottleneck": partition.bottleneck,
        "stages": stages,
    }


def save_partition(partition: Partition, path: str | Path) -> None:
    """Write a partition file.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    write_json(path, partition_document(partition))


def read_partition(path: str | Path, instance: Instance) -> Partition:
    """Read a partition file as an answer to `instance`.

    The blocks and the order are taken from the file. The cost is computed anew for the platform of
    `instance`; the platform, bottleneck and stages in the file are there for people.

    Raises
    ------
    InputError
        If the file cannot be read, was made for another graph or another k, or the partition is infeasible.
    """
    document = read_json(path)
    document.check_format(PARTITION_FORMAT)
    fields = document.members(("format", "k", "block"), _PARTITION_OPTIONAL)
    graph = fields["graph"].text() if "graph" in fields else "?"
    for name in _PARTITION_NUMBERS:
        if name in fields and fields[name].data is not None:
            fields[name].number()
    if "stages" in fields:
        for stage in fields["stages"].items():
            for node in stage.items():
                node.text()
    if "graph_hash" in fields and fields["graph_hash"].text() != instance.graph.content_hash:
        document.fail(
            f"the partition was made for another graph ('{graph}', hash {fields['graph_hash'].data[:8]}), not for "
            f"'{instance.graph.name}' ({instance.graph.content_hash[:8]}); use that one."
        )
    if fields["k"].whole() != instance.k:
        document.fail(f"the partition has k = {fields['k'].data}, but k = {instance.k} was asked for; use the same k.")
    block = fields["block"].whole_numbers()
    order = None
    if "order" in fields and fields["order"].data is not None:
        order = fields["order"].whole_numbers()
    try:
        return Partition(instance, block, order)
    except InputError as error:
        document.fail(str(error))


def _sizes(value: Value) -> list[float]:
    return [item.number() for item in value.items()] if isinstance(value.data, list) else [value.number()]


def _edge(value: Value) -> list[int]:
    edge = value.whole_numbers()
    if len(edge) not in (2, 3):
        value.fail(f"an edge has 2 or 3 numbers, [from, to] or [from, to, output]; this one has {len(edge)}.")
    return edge


def _parameter(value: Value) -> SharedParameter:
    fields = value.members(("name", "bytes", "users"))
    users = tuple(fields["users"].whole_numbers())
    return SharedParameter(fields["name"].text(), fields["bytes"].number(), users)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
