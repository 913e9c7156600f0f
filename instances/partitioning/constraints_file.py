"""Constraints files, ``mtpp-constraints/1``, JSON."""

from __future__ import annotations

from itertools import chain, groupby
from pathlib import Path
from typing import Any

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.json_files import CONSTRAINTS_FORMAT, Value, read_json
from instances.partitioning.constraints import BlockRules, Constraints, Word

__all__ = ["KINDS", "constraints_document", "parse_constraints", "read_constraints", "stated_constraints"]

#: What constraints are made of.
KINDS = ("together", "windows", "uncut", "at_least")


def read_constraints(path: str | Path, graph: ComputationGraph) -> Constraints:
    """Read side constraints for a graph.

    The file is an object with ``"format": "mtpp-constraints/1"`` and any of ``together`` (a list of groups, each a list
    of nodes), ``windows`` (a list of ``{"nodes": […], "first": b, "last": b}``), ``uncut`` (a list of nodes whose
    output is never cut) and ``at_least`` (a list of ``{"count": m, "nodes": […]}``). A node is a name, a pattern such
    as ``/model/layers.7/*`` or a number; blocks count from 0.

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
    """The constraints of an object with any of the four kinds.

    Raises
    ------
    InputError
        If it holds something else, or names a node that is not there.
    """
    fields = value.open_members(())
    found = Constraints()
    if "together" in fields:
        groups = [_words(group) for group in fields["together"].items()]
        found += _given(fields["together"], graph, together=groups)
    if "windows" in fields:
        windows = [_window(window) for window in fields["windows"].items()]
        found += _given(fields["windows"], graph, windows=chain.from_iterable(windows))
    if "uncut" in fields:
        found += _given(fields["uncut"], graph, uncut=_words(fields["uncut"]))
    if "at_least" in fields:
        counts = [_count(count) for count in fields["at_least"].items()]
        found += _given(fields["at_least"], graph, at_least=counts)
    return found


def stated_constraints(value: Value, graph: ComputationGraph, k: int) -> Constraints:
    """The constraints that an answer file states for k blocks.

    Raises
    ------
    InputError
        As `parse_constraints`, and if they contradict one another; the message names the place.
    """
    value.members((), KINDS)
    found = parse_constraints(value, graph)
    try:
        BlockRules.of(graph, k, found)
    except InputError as error:
        value.fail(str(error))
    return found


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


def _given(field: Value, graph: ComputationGraph, **words: Any) -> Constraints:
    try:
        return Constraints.of(graph, **words)
    except InputError as error:
        field.fail(str(error))


def _window(field: Value) -> list[tuple[Word, tuple[int, int]]]:
    window = field.members(("nodes", "first", "last"))
    span = (window["first"].whole(), window["last"].whole())
    return [(word, span) for word in _words(window["nodes"])]


def _count(field: Value) -> tuple[int, list[Word]]:
    least = field.members(("count", "nodes"))
    return least["count"].whole(), _words(least["nodes"])


def _words(field: Value) -> list[Word]:
    return [item.data if isinstance(item.data, str) else item.whole() for item in field.items()]
