"""Parsing of constraints: nodes by number, name or pattern; blocks, windows and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import filter as matching
from typing import Any

import numpy as np

from instances.errors import InputError
from instances.graph.graph import ComputationGraph

__all__ = ["NodeName", "NodeNames", "Windows", "kind_names", "listed", "pairs_of", "span_of", "whole_number"]

#: A node by number or by name, or several by a pattern such as ``/model/layers.7/*``.
NodeName = int | str
#: The block of a name, or its first and last one.
Windows = Mapping[NodeName, int | Sequence[int]] | Iterable[tuple[NodeName, int | Sequence[int]]]

# Names that patterns look at, and nodes that names stand for, at the most, all of them together.
_MOST_MATCHES, _MOST_NODES = 20_000_000, 10_000_000
# A suggestion compares a name with so many letters of names, divided by its own, at the most.
_MOST_LETTERS = 10_000_000
_SHOWN = 60


class NodeNames:
    """Nodes of a graph by word; patterns with too many matches are refused."""

    def __init__(self, graph: ComputationGraph) -> None:
        self._graph = graph
        self._nodes: dict[str, list[int]] = {}
        self._matches = self._found = 0
        for v, name in enumerate(graph.names):
            self._nodes.setdefault(name, []).append(v)

    def all(self, names: Any, what: str) -> tuple[int, ...]:
        """Return the nodes of several names, or of one text.

        Raises
        ------
        InputError
            If that is no list, or as `one`; `what` says where it stands.
        """
        return tuple(v for name in listed(names, what) for v in self.one(name))

    def one(self, name: Any) -> list[int]:
        """Return the nodes of a name, a pattern or a number.

        Raises
        ------
        InputError
            If there is no such node, or the names stand for too many.
        """
        found = self._nodes_of(name)
        self._found += len(found)
        if self._found > _MOST_NODES:
            raise InputError(f"Names up to {_short(name)} stand for more than {_MOST_NODES} nodes; name fewer.")
        return found

    def _nodes_of(self, name: Any) -> list[int]:
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
            if not 0 <= name < self._graph.n:
                raise InputError(f"There is no node {_short(name)}; nodes run from 0 to {self._graph.n - 1}.")
            return [int(name)]
        if not isinstance(name, str):
            raise InputError(f"A node is a name, a pattern or a number, not {_short(name)}.")
        if name in self._nodes:
            return self._nodes[name]
        self._matches += len(self._nodes)
        if self._matches > _MOST_MATCHES:
            raise InputError(
                f"Patterns up to {_short(name)} are too many for {self._graph.n} nodes; give node numbers."
            )
        found = [v for match in matching(self._nodes, name) for v in self._nodes[match]]
        if not found:
            near = get_close_matches(name, self._comparable(name), n=1)
            raise InputError(
                f"There is no node {_short(name)}" + (f"; did you mean {_short(near[0])}?" if near else ".")
            )
        return sorted(found)

    def _comparable(self, name: str) -> list[str]:
        """The first names, as many as a suggestion has time for."""
        first, letters = [], _MOST_LETTERS // (len(name) + 1)
        for other in self._nodes:
            letters -= len(other)
            if letters < 0:
                break
            first.append(other)
        return first


def listed(names: Any, what: str) -> list[Any]:
    """The items of a list; one text is a list of one.

    Raises
    ------
    InputError
        If it is no list; `what` says where it stands.
    """
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Iterable):
        raise InputError(f"{what}: {_short(names)} is no list; put it into one.")
    return list(names)


def pairs_of(pairs: Any, what: str) -> list[tuple[Any, Any]]:
    """The items of a list of pairs, or of a mapping.

    Raises
    ------
    InputError
        If it is neither; `what` says where it stands.
    """
    items = listed(pairs.items() if isinstance(pairs, Mapping) else pairs, what)
    for pair in items:
        if not isinstance(pair, (list, tuple, np.ndarray)) or len(pair) != 2:
            raise InputError(f"{what}: {_short(pair)} is no pair; give a list of pairs.")
    return [(first, second) for first, second in items]


def kind_names(names: Any, what: str) -> tuple[str, ...]:
    """The names of kinds of devices in a list, or of one text.

    Raises
    ------
    InputError
        If it is no list of texts, or empty; `what` says where it stands.
    """
    found = tuple(listed(names, what))
    if not found or not all(isinstance(name, str) for name in found):
        raise InputError(f"{what}: {_short(names)} names no kinds of devices; give a list of their names.")
    return found


def whole_number(value: Any, what: str) -> int:
    """A whole number, 0 or more.

    Raises
    ------
    InputError
        If it is none; `what` says where it stands.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise InputError(f"{what}: {_short(value)} is no whole number, 0 or more.")
    return int(value)


def span_of(name: Any, span: Any) -> tuple[int, int]:
    """The first and the last block of the window of a name.

    Raises
    ------
    InputError
        If it is no block and no pair of blocks, or the first is behind the last.
    """
    ends = list(span) if isinstance(span, (list, tuple, np.ndarray)) else [span, span]
    if len(ends) != 2:
        raise InputError(f"The window of {name!r} is {_short(span)}; give a block, or the first and the last one.")
    first, last = (whole_number(end, f"The window of {name!r}") for end in ends)
    if first > last:
        raise InputError(f"The window of {name!r} begins with block {first} and ends with {last}; exchange them.")
    return first, last


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        return "a number of so many digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
