"""Profiles published with "Efficient Algorithms for Device Placement of DNN Graph Operators" (Tarnawski et al., 2020).

A JSON object with ``nodes`` (id, name, fpgaLatency [ms], size: parameters [bytes], …) and ``edges``
(sourceId, destId, size [bytes], cost). The accelerator's latency ``fpgaLatency`` is the work. The limits of the
devices are not read, and colour classes in training profiles only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from instances.documents import Value, read_json
from instances.errors import InputError
from instances.graph import ComputationGraph
from instances.readers.parsing import json_amount, node_index, outputs_by_size
from instances.tensors import IntArray

__all__ = ["read_msr", "recognises_msr"]


def recognises_msr(text: str) -> bool:
    """Whether the text of a file looks like this format."""
    return text.lstrip().startswith("{") and '"fpgaLatency"' in text and '"mtpp-graph/' not in text


def read_msr(path: str | Path, communication: str = "size") -> ComputationGraph:
    """Read an inference or a training profile.

    Edges that leave one node with the same size are one tensor; with different sizes they are several.

    In a training profile the backward pass runs through the blocks in reverse. So each backward node joins the forward
    nodes of its colour class, which must share its device, and each gradient is a tensor against the stream: a
    transfer costs both its ends the same whichever way it goes. Nodes that would be on a cycle become one node.

    Parameters
    ----------
    path : path of a JSON file
    communication : {"size", "cost"}
        "size": a tensor has the ``size`` [bytes] of its edges, and the work is in seconds. "cost": the numbers
        stay as in the file; a tensor has the ``cost`` of its edges, to be used with bandwidth 1, and the
        work is in milliseconds. Layer profiles give ``cost`` in seconds and operator profiles in milliseconds;
        the optima published for both take it as it stands.

    Returns
    -------
    ComputationGraph

    Raises
    ------
    InputError
        If the file cannot be read, a field is missing or of the wrong kind, or an edge names an unknown node.
    """
    document = read_json(path)
    fields = document.open_members(("nodes", "edges"))
    index: dict[int, int] = {}
    nodes: list[_Node] = []
    for item in fields["nodes"].items():
        node = item.open_members(("id", "fpgaLatency", "size"))
        if index.setdefault(node["id"].whole(), len(index)) != len(nodes):
            item.fail(f"id {node['id'].data} is taken by nodes[{index[node['id'].data]}].")
        milliseconds = json_amount(node["fpgaLatency"])
        nodes.append(
            _Node(
                name=node["name"].text() if "name" in node else str(node["id"].data),
                work=milliseconds if communication == "cost" else milliseconds / 1000,
                size=json_amount(node["size"]),
                backward="isBackwardNode" in node and _flag(node["isBackwardNode"]),
                colour=node["colorClass"].whole() if "colorClass" in node else None,
            )
        )

    links = []
    for item in fields["edges"].items():
        edge = item.open_members(("sourceId", "destId", communication))
        u, v = node_index(edge["sourceId"], index), node_index(edge["destId"], index)
        links.append((u, v, json_amount(edge[communication])))
    work, param_bytes = [node.work for node in nodes], [node.size for node in nodes]
    names = [node.name for node in nodes]
    try:
        if any(node.backward for node in nodes):
            group, edges, outputs = _fold(nodes, links)
            work, param_bytes = np.bincount(group, work).tolist(), np.bincount(group, param_bytes).tolist()
            names = [nodes[v].name for v in np.unique(group, return_index=True)[1]]
        else:
            edges, outputs = outputs_by_size(links, len(nodes))
        return ComputationGraph.from_edges(
            edges,
            work,
            outputs,
            param_bytes,
            names=tuple(names),
            name=Path(path).stem,
            source=f"profile {Path(path).name}, communication by {communication}",
            time_unit="ms" if communication == "cost" else "s",
        )
    except InputError as error:
        document.fail(str(error))


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    work: float
    size: float
    backward: bool
    colour: int | None


def _flag(value: Value) -> bool:
    """Whether a field is set, which the published files spell as boolean or as 0 and 1."""
    return value.data if isinstance(value.data, bool) else bool(value.whole())


def _fold(
    nodes: list[_Node], links: list[tuple[int, int, float]]
) -> tuple[IntArray, list[tuple[int, int, int]], list[list[float]]]:
    """Fold the backward pass onto the forward pass: the group of each node, and the groups' edges and outputs."""
    before = []  # pairs (u, v) where the block of u comes no later than that of v
    for u, v, _ in links:
        if nodes[u].backward and not nodes[v].backward:
            raise InputError(f"Edge {nodes[u].name} -> {nodes[v].name} leads from the backward to the forward pass.")
        if nodes[u].backward:
            before.append((v, u))
        elif not nodes[v].backward:
            before.append((u, v))
    backward_colours = {node.colour for node in nodes if node.backward} - {None}
    first: dict[int | None, int] = {}
    for v, node in enumerate(nodes):
        if node.colour in backward_colours:
            u = first.setdefault(node.colour, v)
            before += [(u, v), (v, u)]
    u_, v_ = np.array(before, dtype=np.int64).reshape(-1, 2).T
    _, labels = connected_components(
        coo_array((np.ones(len(u_)), (u_, v_)), shape=(len(nodes),) * 2), connection="strong"
    )
    _, first_node, group = np.unique(labels, return_index=True, return_inverse=True)
    group = np.argsort(np.argsort(first_node))[group]  # numbered by their first nodes

    apart = [(s, t) for s, t in zip(group[u_].tolist(), group[v_].tolist(), strict=True) if s != t]
    position = np.argsort(ComputationGraph.from_edges(apart, np.zeros(len(first_node))).topological_order).tolist()
    outputs: list[dict[tuple[int, float], int]] = [{} for _ in first_node]
    edges = []
    for u, v, size in links:
        # A tensor has one producer: a gradient that several earlier groups read becomes a tensor of each of them.
        s, t = sorted((int(group[u]), int(group[v])), key=position.__getitem__)
        if s != t:
            edges.append((s, t, outputs[s].setdefault((u, size), len(outputs[s]))))
    return group, edges, [[size for _, size in tensors] for tensors in outputs]
