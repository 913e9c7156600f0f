"""Graph files, ``mtpp-graph/1``, JSON.

Floats are written with the shortest digits that give the same float back, so a graph survives a round trip
bit by bit. An unknown field is an error: a misspelt one must not count as absent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import SharedParameter
from instances.json_files import GRAPH_FORMAT, Value, read_json, write_json

_GRAPH_OPTIONAL = ("name", "source", "time_unit", "parameters", "attributes")
_NODE_OPTIONAL = ("name", "param_bytes", "output_bytes", "state_bytes")


def graph_document(graph: ComputationGraph) -> dict[str, Any]:
    """Convert the graph to the JSON document of its file."""
    sizes = (graph.tensors.bytes + 0.0).tolist()
    first = graph.output_start.tolist()
    nodes: list[dict[str, Any]] = []
    columns = (graph.names, graph.work.tolist(), graph.param_bytes.tolist(), graph.state_bytes.tolist())
    for v, (name, work, params, state) in enumerate(zip(*columns, strict=True)):
        outputs = sizes[first[v] : first[v + 1]]
        output_bytes = outputs[0] if len(outputs) == 1 else outputs
        stored = {"param_bytes": params, "state_bytes": state} if state else {"param_bytes": params}
        nodes.append({"name": name, "work": work, **stored, "output_bytes": output_bytes})
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
        "parameters": [{"name": p.name, "bytes": p.bytes, "users": list(p.users)} for p in graph.parameters],
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
    param_bytes, state_bytes = (
        [node[key].number() if key in node else 0.0 for node in nodes] for key in ("param_bytes", "state_bytes")
    )
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
            state_bytes=np.array(state_bytes),
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


def _sizes(value: Value) -> list[float]:
    return value.numbers() if isinstance(value.data, list) else [value.number()]


def _edge(value: Value) -> list[int]:
    edge = value.whole_numbers()
    if len(edge) not in (2, 3):
        value.fail(f"an edge has 2 or 3 numbers, [from, to] or [from, to, output]; this one has {len(edge)}.")
    return edge


def _parameter(value: Value) -> SharedParameter:
    fields = value.members(("name", "bytes", "users"))
    users = tuple(fields["users"].whole_numbers())
    return SharedParameter(fields["name"].text(), fields["bytes"].number(), users)
