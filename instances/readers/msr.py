"""Profiles published with "Efficient Algorithms for Device Placement of DNN Graph Operators" (Tarnawski et al., 2020).

A JSON object with ``nodes`` (id, name, fpgaLatency [ms], size: parameters [bytes], …) and ``edges``
(sourceId, destId, size [bytes], cost). The accelerator's latency ``fpgaLatency`` is the work, also of nodes that are
not ``supportedOnFpga``, which gives a warning. The limits of the devices are not read. Colour classes join nodes in
training profiles; those of an inference profile are the graph's attribute ``colour_classes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import IntArray
from instances.json_files import Value, read_json
from instances.readers.parsing import add_node, graph_of_file, json_amount, links_of, outputs_by_size

__all__ = ["read_msr", "recognises_msr"]


def recognises_msr(text: str) -> bool:
    """Whether the text of a file looks like this format."""
    return text.lstrip().startswith("{") and '"fpgaLatency"' in text and '"mtpp-graph/' not in text


def read_msr(path: str | Path, communication: str = "size") -> ComputationGraph:
    """Read an inference or a training profile.

    Edges that leave one node with the same size are one tensor; with different sizes they are several.

    In a training profile each backward node joins the forward nodes of its colour class, which must share its device,
    and each gradient is a tensor of its own between the nodes that it joins: a transfer costs both its ends the same
    whichever way it goes. So an edge of the backward pass says which blocks are neighbours, and it orders them like
    the forward pass if it is reversed, as gradients flow, or as it stands: the layer profiles give the forward graph
    twice. All such edges of a file are read in one direction, the one that leaves more nodes once the nodes of each
    cycle have become one; if both leave as many, they are reversed. If even then cycles take more than half of the
    nodes, that is a warning.

    Parameters
    ----------
    path : path of a JSON file
    communication : {"size", "cost"}
        "size": a tensor has the ``size`` [bytes] of its edges, and the work is in seconds. "cost": the numbers
        stay as in the file; a tensor has the ``cost`` of its edges, to be used with bandwidth 1, and the
        work is in milliseconds. Layer profiles give ``cost`` in seconds and operator profiles in milliseconds;
        the optima published for both take it as it stands.

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
        add_node(item, node["id"], index)
        milliseconds = json_amount(node["fpgaLatency"])
        nodes.append(
            _Node(
                name=node["name"].text() if "name" in node else str(node["id"].data),
                work=milliseconds if communication == "cost" else milliseconds / 1000,
                size=json_amount(node["size"]),
                backward="isBackwardNode" in node and _flag(node["isBackwardNode"]),
                colour=node["colorClass"].whole() if "colorClass" in node else None,
                supported="supportedOnFpga" not in node or _flag(node["supportedOnFpga"]),
            )
        )

    links = links_of(fields["edges"], index, communication)
    warnings = _unsupported(nodes)
    work, param_bytes = [node.work for node in nodes], [node.size for node in nodes]
    names = [node.name for node in nodes]
    classes: list[list[int]] = []
    try:
        if any(node.backward for node in nodes):
            group, edges, outputs = _fold(nodes, links)
            warnings += _lost_in_cycles(nodes, int(group.max()) + 1)
            work, param_bytes = np.bincount(group, work).tolist(), np.bincount(group, param_bytes).tolist()
            names = [nodes[v].name for v in np.unique(group, return_index=True)[1]]
        else:
            edges, outputs = outputs_by_size(links, len(nodes))
            classes = _colour_classes(nodes)
    except InputError as error:
        document.fail(str(error))
    return graph_of_file(
        path,
        edges,
        work,
        outputs,
        param_bytes,
        names=tuple(names),
        source=f"profile {Path(path).name}, communication by {communication}",
        time_unit="ms" if communication == "cost" else "s",
        attributes=({"warnings": warnings} if warnings else {}) | ({"colour_classes": classes} if classes else {}),
    )


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    work: float
    size: float
    backward: bool
    colour: int | None
    supported: bool


def _colour_classes(nodes: list[_Node]) -> list[list[int]]:
    """The nodes of each colour that several have."""
    classes: dict[int, list[int]] = {}
    for v, node in enumerate(nodes):
        if node.colour is not None:
            classes.setdefault(node.colour, []).append(v)
    return [members for members in classes.values() if len(members) > 1]


def _flag(value: Value) -> bool:
    """Whether a field is set, which the published files spell as boolean or as 0 and 1."""
    return value.data if isinstance(value.data, bool) else bool(value.whole())


def _fold(
    nodes: list[_Node], links: list[tuple[int, int, float]]
) -> tuple[IntArray, list[tuple[int, int, int]], list[list[float]]]:
    """Fold the backward pass onto the forward pass: the group of each node, and the groups' edges and outputs."""
    ties = _ties(nodes)
    readings = [_ordered(nodes, links, reverse) for reverse in (True, False)]
    groups = [_components(ties + before, len(nodes)) for before in readings]
    before, group = max(zip(readings, groups, strict=True), key=lambda reading: reading[1].max())  # the first if equal
    count = int(group.max()) + 1
    apart = [(s, t) for s, t in ((int(group[u]), int(group[v])) for u, v in before) if s != t]
    position = np.argsort(ComputationGraph.from_edges(apart, np.zeros(count)).topological_order).tolist()
    outputs: list[dict[tuple[int, float], int]] = [{} for _ in range(count)]
    edges = []
    for u, v, size in links:
        # A tensor has one producer: a gradient that several earlier groups read becomes a tensor of each of them.
        s, t = sorted((int(group[u]), int(group[v])), key=position.__getitem__)
        if s != t:
            edges.append((s, t, outputs[s].setdefault((u, size), len(outputs[s]))))
    return group, edges, [[size for _, size in tensors] for tensors in outputs]


def _ties(nodes: list[_Node]) -> list[tuple[int, int]]:
    """Pairs of nodes, in both directions, that share a colour class with a backward node, and so a device."""
    colours = {node.colour for node in nodes if node.backward} - {None}
    first: dict[int | None, int] = {}
    ties = []
    for v, node in enumerate(nodes):
        if node.colour in colours:
            u = first.setdefault(node.colour, v)
            ties += [(u, v), (v, u)]
    return ties


def _ordered(nodes: list[_Node], links: list[tuple[int, int, float]], reverse: bool) -> list[tuple[int, int]]:
    """Pairs (u, v): the block of u is at most that of v. `reverse` turns edges between backward nodes round."""
    before = []
    for u, v, _ in links:
        if nodes[u].backward and not nodes[v].backward:
            raise InputError(f"Edge {nodes[u].name} -> {nodes[v].name} leads from the backward to the forward pass.")
        if nodes[u].backward:
            before.append((v, u) if reverse else (u, v))
        elif not nodes[v].backward:
            before.append((u, v))
    return before


def _components(pairs: list[tuple[int, int]], n: int) -> IntArray:
    """Strongly connected component of each node, numbered by their first nodes."""
    u, v = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    _, labels = connected_components(coo_array((np.ones(len(u)), (u, v)), shape=(n, n)), connection="strong")
    _, first, component = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[component]


def _lost_in_cycles(nodes: list[_Node], remaining: int) -> list[str]:
    """The warning that few of the nodes are left, not counting what colour classes join."""
    given = int(_components(_ties(nodes), len(nodes)).max()) + 1
    if 2 * remaining >= given:
        return []
    return [
        f"{given - remaining} of {given} nodes (colour classes count as one) are lost to cycles, {remaining} left; "
        "nodes on a cycle share a block, so check the direction of the edges."
    ]


def _unsupported(nodes: list[_Node]) -> list[str]:
    """The warning that some nodes cannot run where they are timed."""
    count = sum(not node.supported for node in nodes)
    if not count:
        return []
    return [f"{count} of {len(nodes)} nodes are not supported on the accelerator; its latency counts all the same."]
