"""Profiles published with "Efficient Algorithms for Device Placement of DNN Graph Operators" (Tarnawski et al., 2020).

A JSON object with ``nodes`` (id, name, fpgaLatency [ms], size: parameters [bytes], …) and ``edges``
(sourceId, destId, size [bytes], cost). The accelerator's latency ``fpgaLatency`` is the work. Colour classes
and the limits of the devices are not read.
"""

from __future__ import annotations

import json
from pathlib import Path

from instances.documents import Value, read_json
from instances.errors import InputError
from instances.graph import ComputationGraph

__all__ = ["read_msr", "recognises_msr"]


def recognises_msr(text: str) -> bool:
    """Whether the text of a file looks like this format."""
    return text.lstrip().startswith("{") and '"fpgaLatency"' in text and '"mtpp-graph/' not in text


def read_msr(path: str | Path, communication: str = "size") -> ComputationGraph:
    """Read an inference profile.

    Edges that leave one node with the same size are one tensor; with different sizes they are several.

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
        If the file cannot be read, a field is missing or of the wrong kind, an edge names an unknown node, or a
        node is of the backward pass.
    """
    document = read_json(path)
    fields = document.open_members(("nodes", "edges"))
    index: dict[int, int] = {}
    names: list[str] = []
    work, param_bytes = [], []
    for item in fields["nodes"].items():
        node = item.open_members(("id", "name", "fpgaLatency", "size"))
        if "isBackwardNode" in node and node["isBackwardNode"].data:
            item.fail("this node is of the backward pass; give an inference profile.")
        if index.setdefault(node["id"].whole(), len(index)) != len(names):
            item.fail(f"id {node['id'].data} is taken by nodes[{index[node['id'].data]}].")
        names.append(node["name"].text())
        milliseconds = node["fpgaLatency"].number()
        work.append(milliseconds if communication == "cost" else milliseconds / 1000)
        param_bytes.append(node["size"].number())

    outputs: list[list[float]] = [[] for _ in names]
    edges = []
    for item in fields["edges"].items():
        edge = item.open_members(("sourceId", "destId", communication))
        u, v = _node(edge["sourceId"], index), _node(edge["destId"], index)
        size = edge[communication].number()
        if size not in outputs[u]:
            outputs[u].append(size)
        edges.append((u, v, outputs[u].index(size)))
    try:
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


def _node(value: Value, index: dict[int, int]) -> int:
    if value.whole() not in index:
        value.fail(f"no node has id {json.dumps(value.data)}.")
    return index[value.whole()]
