"""Graphs for other packages: data frames of pandas, and networkx."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from instances.errors import InputError, unknown

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

# Columns of a graph from pandas frames: one row for each node, and one for each edge.


_HELD = ("param_bytes", "state_bytes")
_NODE_WORDS = ("name", "work", "output_bytes", *_HELD)
_EDGE_WORDS = ("source", "target", "output")


def frame_columns(nodes: pd.DataFrame, edges: pd.DataFrame) -> dict[str, Any]:
    """Arguments of `ComputationGraph.from_edges`, read from two frames.

    Raises
    ------
    InputError
        If a column is unknown or missing, an entry is missing or of the wrong type, a node is there twice, or an edge
        names a node that is not there.
    """
    _check_words(nodes, _NODE_WORDS, ("work",), "nodes")
    _check_words(edges, _EDGE_WORDS, _EDGE_WORDS[:2], "edges")
    labels = (nodes["name"] if "name" in nodes else nodes.index.to_series()).tolist()
    index: dict[Any, int] = {}
    for i, label in enumerate(labels):
        if _is_missing(label):
            raise InputError(f"Row {i} of the nodes has no name; give each node one.")
        if not isinstance(label, Hashable):
            raise InputError(f"Row {i} of the nodes is called {label!r}; give a text or a number.")
        if index.setdefault(label, i) != i:
            raise InputError(
                f"Rows {index[label]} and {i} of the nodes are both called {label!r}; give each its own name."
            )
    outputs = edges["output"].tolist() if "output" in edges else [0] * len(edges)
    read = [_whole(value, i) for i, value in enumerate(outputs)]
    ends = [[_node(index, label, i, end) for i, label in enumerate(edges[end].tolist())] for end in _EDGE_WORDS[:2]]
    return {
        "edges": list(zip(*ends, read, strict=True)),
        "work": _weights(nodes, "work", labels),
        "output_bytes": _sizes(nodes, labels),
        **{word: _weights(nodes, word, labels) for word in _HELD if word in nodes},
        "names": _texts(labels),
    }


def _texts(labels: Sequence[Any]) -> tuple[str, ...]:
    """Node labels as texts; labels that would coincide, as 1 and "1", are written as Python literals."""
    texts = [str(label) for label in labels]
    counts = Counter(texts)
    return tuple(text if counts[text] == 1 else repr(label) for text, label in zip(texts, labels, strict=True))


def _check_words(frame: pd.DataFrame, words: tuple[str, ...], needed: tuple[str, ...], what: str) -> None:
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"The {what} are a {type(frame).__name__}; give a pandas frame with {', '.join(words)}.")
    for word in frame.columns:
        if word not in words:
            raise InputError(f"The {what}: {unknown(words, str(word), 'column')} Rename or drop it.")
        if list(frame.columns).count(word) > 1:
            raise InputError(f"The {what} have two columns {word!r}; drop one.")
    for word in needed:
        if word not in frame:
            raise InputError(f"The {what} have no column {word!r}; columns are {', '.join(words)}.")


def _is_missing(value: object) -> bool:
    import pandas as pd

    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and np.isnan(value))


def _node(index: dict[Any, int], label: Any, row: int, end: str) -> int:
    if _is_missing(label):
        raise InputError(f"Row {row} of the edges has no {end}; give the name of a node.")
    if not isinstance(label, Hashable) or label not in index:
        kind = type(next(iter(index), label)).__name__
        raise InputError(f"Row {row} of the edges: its {end} {label!r} is no node; nodes are called by their {kind}.")
    return index[label]


def _whole(value: Any, row: int) -> int:
    if _is_missing(value):
        return 0
    if isinstance(value, bool | str) or not isinstance(value, int | float) or value != int(value):
        raise InputError(f"Row {row} of the edges: output is {value!r}; give the number of an output, from 0.")
    return int(value)


def _weights(nodes: pd.DataFrame, word: str, labels: list[Any]) -> list[float]:
    return [_weight(value, word, label) for value, label in zip(nodes[word].tolist(), labels, strict=True)]


def _sizes(nodes: pd.DataFrame, labels: list[Any]) -> list[Any] | None:
    if "output_bytes" not in nodes:
        return None
    return [
        [_weight(size, "output_bytes", label) for size in value]
        if isinstance(value, list | tuple | np.ndarray)
        else _weight(value, "output_bytes", label)
        for value, label in zip(nodes["output_bytes"].tolist(), labels, strict=True)
    ]


def _weight(value: Any, word: str, label: object) -> float:
    if _is_missing(value):
        raise InputError(f"Node {label!r}: {word} is missing; give a number, 0 if there is none.")
    if isinstance(value, bool | str):
        raise InputError(f"Node {label!r}: {word} is {value!r}; give a number.")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"Node {label!r}: {word} is {value!r}; give a number.") from None


# Columns of a graph from a networkx digraph; unknown attributes are refused, not ignored.


_WEIGHTS = ("work", "output_bytes", "param_bytes", "state_bytes")
_NODE_ATTRIBUTES = (*_WEIGHTS, "name")
_EDGE_ATTRIBUTES = ("output", "bytes")


def networkx_columns(graph: nx.DiGraph[Any]) -> dict[str, Any]:
    """The arguments of `ComputationGraph.from_edges` for a digraph.

    Raises
    ------
    InputError
        If the graph has no direction, a node has no work, or an attribute is unknown or contradicts another one.
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise InputError(f"A networkx.DiGraph is needed here, no {type(graph).__name__}.")
    if not graph.is_directed():
        raise InputError(
            "The networkx graph has no direction; give a DiGraph whose edges go from producer to consumer."
        )
    nodes = list(graph.nodes(data=True))
    for node, data in nodes:
        _check_attributes(data, _NODE_ATTRIBUTES, f"Node {node!r}", "node")
        if "work" not in data:
            raise InputError(f"Node {node!r} has no attribute 'work', its time; set it, 0.0 if it takes none.")
        for word in _WEIGHTS:
            if word in data and data[word] is None:
                raise InputError(f"Node {node!r}: {word} is None; give a number, 0 if there is none.")
    index = {node: i for i, (node, _) in enumerate(nodes)}
    edges = []
    for u, v, data in graph.edges(data=True):
        _check_attributes(data, _EDGE_ATTRIBUTES, f"Edge {u!r} -> {v!r}", "edge")
        _check_size(u, v, data, graph.nodes[u])
        edges.append((index[u], index[v], data.get("output", 0)))
    return {
        "edges": edges,
        **{word: [data.get(word, 0.0) for _, data in nodes] for word in _WEIGHTS},
        "names": _texts([data.get("name", node) for node, data in nodes]),
        **{word: str(graph.graph[word]) for word in ("name", "time_unit") if graph.graph.get(word)},
    }


def _check_attributes(data: dict[str, Any], words: tuple[str, ...], where: str, what: str) -> None:
    for word in data:
        if word not in words:
            raise InputError(f"{where}: {unknown(words, str(word), f'{what} attribute')} Rename or remove it.")


def _check_size(u: object, v: object, data: dict[str, Any], producer: dict[str, Any]) -> None:
    """Refuse an edge whose bytes differ from those of the output that it reads."""
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
