"""Constraints files, ``mtpp-constraints/1``, JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.json_files import CONSTRAINTS_FORMAT, Value, read_json
from instances.partitioning.constraints import (
    BlockRules,
    Constraints,
    NodeName,
    NodeNames,
    kind_names,
    span_of,
    whole_number,
)

#: Kinds of constraints.
KINDS = ("together", "windows", "uncut", "at_least", "on")
_LISTS = ("together", "windows", "at_least")


def read_constraints(path: str | Path, graph: ComputationGraph) -> Constraints:
    """Read side constraints for a graph.

    The file is an object with ``"format": "mtpp-constraints/1"`` and any of ``together`` (a list of groups, each a list
    of nodes), ``windows`` (a list of ``{"nodes": […], "first": b, "last": b}``), ``uncut`` (a list of nodes whose
    output is never cut), ``at_least`` (a list of ``{"count": m, "nodes": […]}``) and ``on`` (an object from a name or
    pattern to a list of kinds of devices). A node is a name, a pattern such as ``/model/layers.7/*`` or a number;
    blocks count from 0.

    Raises
    ------
    InputError
        If the file cannot be read, or names a node that is not there.
    """
    document = read_json(path)
    document.check_format(CONSTRAINTS_FORMAT)
    document.members(("format",), KINDS)
    return parse_constraints(document, graph)


def parse_constraints(value: Value, graph: ComputationGraph) -> Constraints:
    """The constraints of an object with any of the five kinds.

    Raises
    ------
    InputError
        If it holds something else, or names a node that is not there.
    """
    fields, names = value.open_members(()), NodeNames(graph)
    together, windows, counts = (fields[kind].items() if kind in fields else [] for kind in _LISTS)
    return Constraints(
        together=tuple(_group(field, names) for field in together),
        windows=tuple(window for field in windows for window in _windows(field, names)),
        uncut=_group(fields["uncut"], names) if "uncut" in fields else (),
        at_least=tuple(_count(field, names) for field in counts),
        on=_on(fields["on"], names) if "on" in fields else (),
    )


def stated_constraints(value: Value, graph: ComputationGraph, k: int) -> Constraints:
    """The constraints that an answer file states for k blocks.

    Raises
    ------
    InputError
        As `parse_constraints`, and if they contradict one another; the message names the place.
    """
    value.members((), KINDS)
    constraints = parse_constraints(value, graph)
    try:
        BlockRules.of(graph, k, constraints)
    except InputError as error:
        value.fail(str(error))
    return constraints


def constraints_document(constraints: Constraints) -> dict[str, Any]:
    """The constraints as JSON, in node numbers; `parse_constraints` reads it. What is not constrained is left out."""
    kinds = {
        "together": [list(group) for group in constraints.together],
        "windows": [
            {"nodes": [v for v, *_ in windows], "first": first, "last": last}
            for (first, last), windows in groupby(constraints.windows, key=lambda window: window[1:])
        ],
        "uncut": list(constraints.uncut),
        "at_least": [{"count": count, "nodes": list(nodes)} for count, nodes in constraints.at_least],
    }
    return {kind: items for kind, items in kinds.items() if items}


def _group(field: Value, names: NodeNames) -> tuple[int, ...]:
    nodes = _nodes(field)
    with refused_at(field):
        return names.all(nodes, field.path)


def _windows(field: Value, names: NodeNames) -> list[tuple[int, int, int]]:
    window = field.members(("nodes", "first", "last"))
    nodes, span = _nodes(window["nodes"]), (window["first"].whole(), window["last"].whole())
    with refused_at(field):
        return [(v, *span_of(node, span)) for node in nodes for v in names.nodes_of(node)]


def _count(field: Value, names: NodeNames) -> tuple[int, tuple[int, ...]]:
    least = field.members(("count", "nodes"))
    count, nodes = least["count"].whole(), _nodes(least["nodes"])
    with refused_at(field):
        return whole_number(count, "at_least"), names.all(nodes, "at_least")


def _on(field: Value, names: NodeNames) -> tuple[tuple[int, tuple[str, ...]], ...]:
    kinds = {node: value.texts() for node, value in field.open_members(()).items()}
    with refused_at(field):
        return tuple((v, kind_names(allowed, node)) for node, allowed in kinds.items() for v in names.nodes_of(node))


@contextmanager
def refused_at(field: Value) -> Iterator[None]:
    """Add the place in the file to errors."""
    try:
        yield
    except InputError as error:
        field.fail(str(error))


def _nodes(field: Value) -> list[NodeName]:
    return [item.data if isinstance(item.data, str) else item.whole() for item in field.items()]
