"""Parsing of graph files: numbers, units and edges, and warnings about doubtful content."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from instances.errors import InputError, check_one_of
from instances.graph.graph import ComputationGraph
from instances.json_files import Value, check_readable

# Helpers of readers of text formats: numbers, units, lines of large files, and edges that carry sizes.


_LINE_LIMIT = 1 << 20
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def amount(text: str, label: str, place: str) -> float:
    """Parse a number that is 0 or more.

    Raises
    ------
    InputError
        If the text is no such number; the message begins with `place` and names `label`.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise InputError(f"{place}: {label} is '{text.strip()[:40]}'; it must be a finite number, 0 or more.")
    return number


def graph_of_file(
    path: str | Path,
    edges: Iterable[Sequence[int]],
    work: ArrayLike,
    outputs: Sequence[float | Sequence[float]],
    param_bytes: ArrayLike | None = None,
    **attributes: Any,
) -> ComputationGraph:
    """The graph as `ComputationGraph.from_edges` builds it, named after its file if it has no name.

    Raises
    ------
    InputError
        If the graph is invalid; the message begins with the file.
    """
    try:
        return ComputationGraph.from_edges(edges, work, outputs, param_bytes, **{"name": Path(path).stem} | attributes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def json_amount(value: Value) -> float:
    """Read a number of a JSON file that is 0 or more.

    Raises
    ------
    InputError
        If the value is no such number; the message names the place.
    """
    number = value.number()
    if number < 0:
        value.fail(f"the number is {number}; it must be 0 or more.")
    return number


def add_node(item: Value, number: Value, index: dict[int, int]) -> None:
    """Number a node of the list ``nodes`` of a JSON file, by its id.

    Raises
    ------
    InputError
        If another node has this id; the message names the place.
    """
    at = len(index)
    if index.setdefault(number.whole(), at) != at:
        item.fail(f"id {number.data} is taken by nodes[{index[number.data]}].")


def links_of(edges: Value, index: dict[int, int], size: str) -> list[tuple[int, int, float]]:
    """The edges of a JSON file (``sourceId``, ``destId``), each with its field `size`.

    Raises
    ------
    InputError
        If a field is missing or of the wrong kind, or no node has an id; the message names the place.
    """
    links = []
    for item in edges.items():
        edge = item.open_members(("sourceId", "destId", size))
        ends = (edge["sourceId"], edge["destId"])
        for end in ends:
            if end.whole() not in index:
                end.fail(f"no node has id {end.data}.")
        u, v = (index[end.whole()] for end in ends)
        links.append((u, v, json_amount(edge[size])))
    return links


def outputs_by_size(
    links: Iterable[tuple[int, int, float]], n: int
) -> tuple[list[tuple[int, int, int]], list[list[float]]]:
    """Edges and output bytes, as `ComputationGraph.from_edges` takes them, from links (u, v, bytes).

    Edges that leave one node with the same size are one tensor; with different sizes they are several.
    """
    outputs: list[dict[float, int]] = [{} for _ in range(n)]
    edges = [(u, v, outputs[u].setdefault(size, len(outputs[u]))) for u, v, size in links]
    return edges, [list(sizes) for sizes in outputs]


def seconds(time_unit: str) -> float:
    """Length of a unit of time [s].

    Raises
    ------
    InputError
        If the unit is none of s, ms and us.
    """
    check_one_of("time_unit", time_unit, _SECONDS)
    return _SECONDS[time_unit]


def text_lines(path: str | Path) -> Iterator[str]:
    """Lines of a text file, one at a time: the file may be larger than the memory.

    Raises
    ------
    InputError
        If there is no such file, it is not UTF-8 text, or a line has more than a million characters.
    """
    check_readable(path)
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            while line := file.readline(_LINE_LIMIT):
                if len(line) == _LINE_LIMIT:
                    raise InputError(f"{path}: a line has more than {_LINE_LIMIT} characters; this is no such file.")
                yield line
    except UnicodeDecodeError:
        raise InputError(f"{path}: this is not UTF-8; it is not a text file.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read ({error}).") from None


# Warnings about properties of a graph that are allowed, but probably not meant.
#
# Readers put their own warnings into the attribute ``warnings``, a sentence each. General ones are found here.


# The networks of this project take from a millisecond to some seconds for one pass over a batch. A hundred seconds on
# one accelerator is 1e16 operations at 100 Tflop/s: possible for the largest networks and batches, so it is no error,
# but a file in ms that is read as s is a thousand times too slow, and then a tenth of a second is enough to be seen.
_LONG = 100.0

_SHOWN = 5

#: Attributes that name what a reader had to guess.
_GUESSED = {
    "unknown_operators": "unknown operators, of which only the bytes count",
    "approximate_loops": "loops with a guessed cost",
    "sizes_by_values": "sizes that depend on values are those for inputs of ones",
}


def with_doubts(graph: ComputationGraph, remedy: str = "") -> ComputationGraph:
    """The graph with sentences about all that may be wrong in its attribute ``warnings``.

    `remedy` is advice for a work that is implausibly large for seconds; it is empty if the unit is not in question.
    """
    doubts = list(graph.attributes.get("warnings", ()))
    for key, label in _GUESSED.items():
        if names := list(graph.attributes.get(key, ())):
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            doubts.append(f"{label}: {', '.join(map(str, names[:_SHOWN]))}{more}.")
    total = sum(graph.work.tolist())  # numpy warns where this is infinite
    if total == 0:
        doubts.append("no node takes any time, so communication alone is counted.")
    if remedy and graph.time_unit == "s" and total >= _LONG:
        doubts.append(f"the nodes take {total:.6g} s together, long for one pass of a network; {remedy}.")
    if graph.m and not graph.tensors.bytes[graph.edge_tensor].any():
        doubts.append("no tensor has any bytes, so communication costs nothing.")
    return replace(graph, attributes={**graph.attributes, "warnings": doubts}) if doubts else graph
