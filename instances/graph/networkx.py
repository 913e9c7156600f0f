"""Columns of a graph from a networkx digraph; unknown attributes are refused, not ignored."""

from __future__ import annotations

from typing import Any

import networkx as nx

from instances.errors import InputError
from instances.registry import unknown

__all__ = ["networkx_columns"]

_WEIGHTS = ("work", "output_bytes", "param_bytes", "state_bytes")
_NODE_WORDS = (*_WEIGHTS, "name")
_EDGE_WORDS = ("output", "bytes")


def networkx_columns(graph: nx.DiGraph[Any]) -> dict[str, Any]:
    """The arguments of `ComputationGraph.from_edges` for a digraph.

    Raises
    ------
    InputError
        If the graph has no direction, a node has no work, or an attribute is unknown or contradicts another one.
    """
    if not isinstance(graph, nx.Graph):
        raise InputError(f"A networkx.DiGraph is needed here, no {type(graph).__name__}.")
    if not graph.is_directed():
        raise InputError(
            "The networkx graph has no direction; give a DiGraph whose edges go from producer to consumer."
        )
    nodes = list(graph.nodes(data=True))
    for node, data in nodes:
        _check_words(data, _NODE_WORDS, f"Node {node!r}", "node")
        if "work" not in data:
            raise InputError(f"Node {node!r} has no attribute 'work', its time; set it, 0.0 if it takes none.")
    index = {node: i for i, (node, _) in enumerate(nodes)}
    edges = []
    for u, v, data in graph.edges(data=True):
        _check_words(data, _EDGE_WORDS, f"Edge {u!r} -> {v!r}", "edge")
        _check_size(u, v, data, graph.nodes[u])
        edges.append((index[u], index[v], data.get("output", 0)))
    return {
        "edges": edges,
        **{word: [data.get(word, 0.0) for _, data in nodes] for word in _WEIGHTS},
        "names": tuple(str(data.get("name", node)) for node, data in nodes),
        **{word: str(graph.graph[word]) for word in ("name", "time_unit") if graph.graph.get(word)},
    }


def _check_words(data: dict[str, Any], words: tuple[str, ...], where: str, what: str) -> None:
    for word in data:
        if word not in words:
            raise InputError(f"{where}: {unknown(words, str(word), f'{what} attribute')} Rename or remove it.")


def _check_size(u: object, v: object, data: dict[str, Any], producer: dict[str, Any]) -> None:
    """Refuse bytes of an edge that are not those of the output which it reads."""
    if "bytes" not in data:
        return
    outputs = producer.get("output_bytes", 0.0)
    output = data.get("output", 0)
    try:
        size = outputs[output] if isinstance(outputs, list | tuple) else outputs
    except (IndexError, TypeError):
        return  # `from_edges` says that there is no such output
    if data["bytes"] != size:
        raise InputError(
            f"Edge {u!r} -> {v!r} has {data['bytes']} bytes, but the output that it reads has {size}; "
            f"set output_bytes of node {u!r}, a list if it has several, and output of the edge."
        )
