"""Side constraints on blocks, in names of nodes and resolved to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import filter as matching
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.errors import InputError, nearest
from instances.graph.graph import ComputationGraph
from instances.graph.questions import digest_of, graph_in_words
from instances.graph.tensors import FloatArray, IntArray, components, compressed_rows
from instances.json_files import CONSTRAINTS_FORMAT, Value, read_json

# Parsing of constraints: nodes by number, name or pattern; blocks, windows and counts.


#: A node by number or by name, or several by a pattern such as ``/model/layers.7/*``.
NodeName = int | str
#: By name of a node, its block, or its first and last block.
Windows = Mapping[NodeName, int | Sequence[int]] | Iterable[tuple[NodeName, int | Sequence[int]]]

# Largest numbers of names that all patterns are compared with, and of nodes that all names stand for.
_MOST_MATCHES, _MOST_NODES = 20_000_000, 10_000_000
_SHOWN = 60
# Characters of patterns; a name without any of them is no pattern.
_WILDCARDS = frozenset("*?[")


class NodeNames:
    """Look-up of nodes by name, pattern or number; patterns with too many matches are refused."""

    def __init__(self, graph: ComputationGraph) -> None:
        self._graph = graph
        self._nodes: dict[str, list[int]] = {}
        self._matches = self._node_count = 0
        for v, name in enumerate(graph.names):
            self._nodes.setdefault(name, []).append(v)

    def all(self, names: Any, what: str) -> tuple[int, ...]:
        """Return the nodes of several names, or of one text.

        Raises
        ------
        InputError
            If that is no list, or as `nodes_of`; `what` says where it stands.
        """
        return tuple(v for name in listed(names, what) for v in self.nodes_of(name))

    def nodes_of(self, name: Any) -> list[int]:
        """Return the nodes of a name, a pattern or a number.

        Raises
        ------
        InputError
            If there is no such node, or the names stand for too many.
        """
        nodes = self._nodes_of(name)
        self._node_count += len(nodes)
        if self._node_count > _MOST_NODES:
            raise InputError(f"Names up to {_short(name)} stand for more than {_MOST_NODES} nodes; name fewer.")
        return nodes

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
        matches = matching(self._nodes, name) if _WILDCARDS & set(name) else []
        nodes = [v for match in matches for v in self._nodes[match]]
        if not nodes:
            raise InputError(f"There is no node {_short(name)}{nearest(self._nodes, name)}")
        return sorted(nodes)


def listed(names: Any, what: str) -> list[Any]:
    """The items of a list; a single text counts as a list of one item.

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
    """The names of kinds of devices in a list; a single text counts as a list of one name.

    Raises
    ------
    InputError
        If it is no list of texts, or empty; `what` says where it stands.
    """
    kinds = tuple(listed(names, what))
    if not kinds or not all(isinstance(name, str) for name in kinds):
        raise InputError(f"{what}: {_short(names)} names no kinds of devices; give a list of their names.")
    return kinds


def whole_number(value: Any, what: str) -> int:
    """The value as a whole number, 0 or more.

    Raises
    ------
    InputError
        If it is no such number; `what` says where it stands.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise InputError(f"{what}: {_short(value)} is no whole number, 0 or more.")
    return int(value)


def span_of(name: Any, span: Any) -> tuple[int, int]:
    """First and last block of the window of a node.

    Raises
    ------
    InputError
        If `span` is no block and no pair of blocks, or the first is behind the last.
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


# Side constraints of a question: nodes that share a block, allowed blocks of a node, contents of every block.
#
# Five kinds, in node numbers:
#
# - *together*: the nodes of a group are in one block;
# - *windows*: a node is in one of the blocks ``first`` to ``last``; a fixed stage is a window of one;
# - *uncut*: a node and all that read its outputs are in one block, so that these are never sent;
# - *at least*: every block holds so many of the nodes of a set; all nodes and 1 mean that no block is empty;
# - *on*: a node is on a device of one of some kinds. `Instance` turns that into works that are infinite.
#
# As no edge points backwards, a path from one node of a group to another lies in the group's block as a whole, and a
# node is in no earlier block than the nodes before it. `BlockRules` says what follows for each node.


_MOST_COUNTS = 100


@dataclass(frozen=True)
class Constraints:
    """Side constraints in node numbers; none by default.

    Parameters
    ----------
    together : tuple of tuple of int
        Groups of nodes that share a block.
    windows : tuple of (node, first, last)
        First and last block in which a node may be; blocks count from 0.
    uncut : tuple of int
        Nodes whose outputs are never cut.
    at_least : tuple of (count, nodes)
        Every block holds at least `count` of the nodes; a node that stands there twice counts twice.
    on : tuple of (node, kinds)
        Names of the kinds of devices on which a node may run; of several entries for a node all hold.
    """

    together: tuple[tuple[int, ...], ...] = ()
    windows: tuple[tuple[int, int, int], ...] = ()
    uncut: tuple[int, ...] = ()
    at_least: tuple[tuple[int, tuple[int, ...]], ...] = ()
    on: tuple[tuple[int, tuple[str, ...]], ...] = ()

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        *,
        together: Iterable[Sequence[NodeName] | str] = (),
        windows: Windows | None = None,
        uncut: Iterable[NodeName] = (),
        at_least: Iterable[tuple[int, Iterable[NodeName] | str]] = (),
        on: Mapping[NodeName, Sequence[str] | str] | Iterable[tuple[NodeName, Sequence[str] | str]] = (),
    ) -> Constraints:
        """Read constraints whose nodes are names, patterns or numbers.

        Parameters
        ----------
        together : iterable of groups
            A group is a list of names, or one pattern.
        windows : mapping or pairs of name to block or to (first, last)
            A node with several windows has to lie in all of them.
        uncut : iterable of names
            Nodes whose output tensors are never cut.
        at_least : iterable of (count, names)
        on : mapping or pairs of name to the names of kinds of devices

        Raises
        ------
        InputError
            If a name or number stands for no node, or a block or count is no whole number.
        """
        names = NodeNames(graph)
        return cls(
            together=tuple(names.all(group, "together") for group in listed(together, "together")),
            windows=tuple(
                (v, *span_of(node, span))
                for node, span in pairs_of(() if windows is None else windows, "windows")
                for v in names.nodes_of(node)
            ),
            uncut=names.all(uncut, "uncut"),
            at_least=tuple(
                (whole_number(count, "at_least"), names.all(nodes, "at_least"))
                for count, nodes in pairs_of(at_least, "at_least")
            ),
            on=tuple((v, kind_names(kinds, "on")) for node, kinds in pairs_of(on, "on") for v in names.nodes_of(node)),
        )

    @property
    def fewest_blocks(self) -> int:
        """Least number of blocks that contains all blocks named by windows."""
        return 1 + max((last for *_, last in self.windows), default=0)

    def canonical(self, k: int) -> Constraints:
        """The same constraints in normal form: overlapping groups merged, windows of one node intersected."""
        united: list[set[int]] = []
        for group in self.together:
            touching = [other for other in united if not other.isdisjoint(group)]
            united = [other for other in united if other.isdisjoint(group)] + [set(group).union(*touching)]
        windows: dict[int, tuple[int, int]] = {}
        for v, first, last in self.windows:
            begin, end = windows.get(v, (0, k - 1))
            windows[v] = max(begin, first), min(end, last)
        return Constraints(
            together=tuple(sorted(tuple(sorted(group)) for group in united if len(group) > 1)),
            windows=tuple((v, *span) for v, span in sorted(windows.items()) if span != (0, k - 1)),
            uncut=tuple(sorted(set(self.uncut))),
            at_least=tuple(sorted((count, tuple(sorted(nodes))) for count, nodes in self.at_least)),
            on=tuple(sorted(self.on)),
        )

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def __add__(self, other: Constraints) -> Constraints:
        return Constraints(*(mine + its for mine, its in zip(vars(self).values(), vars(other).values(), strict=True)))


NO_CONSTRAINTS = Constraints()


@dataclass(frozen=True, eq=False)
class BlockRules:
    """Constraints of a question, resolved to arrays over the nodes.

    Parameters
    ----------
    group : (n,) integers
        Nodes of the same number share a block: what is together, and all that lies between.
    first, last : (n,) integers
        First and last block that a node may be in; neither falls along an edge.
    counted : (q, n) integers
        How often each node counts for each number of `least`.
    least : (q,) integers
        Least counts in every block.
    """

    group: IntArray
    first: IntArray
    last: IntArray
    counted: IntArray
    least: IntArray

    @classmethod
    def of(cls, graph: ComputationGraph, k: int, constraints: Constraints) -> BlockRules:
        """The rules of constraints for k blocks, with windows followed along the edges.

        Raises
        ------
        InputError
            If the constraints contradict one another or k; the message names nodes.
        """
        group = _groups(graph, constraints)
        first, last = _windows(graph, k, constraints, group)
        if len(constraints.at_least) > _MOST_COUNTS:
            raise InputError(
                f"There are {len(constraints.at_least)} least numbers of nodes; give {_MOST_COUNTS} or fewer."
            )
        counted = np.zeros((len(constraints.at_least), graph.n), dtype=np.int64)
        for row, (count, nodes) in zip(counted, constraints.at_least, strict=True):
            np.add.at(row, list(nodes), 1)
            if row.sum() < k * count:
                raise InputError(
                    f"At least {count} of {len(nodes)} nodes ({_shown(graph, nodes)}) cannot be in each of {k} blocks; "
                    "give a smaller k or number."
                )
        return cls(group, first, last, counted, np.array([count for count, _ in constraints.at_least], dtype=np.int64))

    @property
    def has_groups(self) -> bool:
        """Whether some nodes have to share a block."""
        return len(self.group) > 0 and int(self.group.max()) + 1 < len(self.group)

    def has_windows(self, k: int) -> bool:
        """Whether some node is excluded from some of the k blocks."""
        return bool((self.first > 0).any() or (self.last < k - 1).any())

    def forbid(self, k: int) -> bool:
        """Whether the constraints exclude some partition."""
        return self.has_groups or self.has_windows(k) or bool((self.least > 0).any())

    def check(self, graph: ComputationGraph, block: IntArray, k: int) -> None:
        """Refuse blocks that break a rule.

        Raises
        ------
        InputError
            The message names the nodes.
        """
        for v in np.flatnonzero((block < self.first) | (block > self.last))[:1]:
            window = f"{self.first[v]} to {self.last[v]}"
            raise InputError(f"Node {v} ({graph.names[v]}) is in block {block[v]}; it may be in blocks {window}.")
        holder = np.zeros(len(self.group), dtype=np.int64)
        holder[self.group] = np.arange(len(self.group))
        for v in np.flatnonzero(block != block[holder[self.group]])[:1]:
            u = holder[self.group[v]]
            raise InputError(
                f"Nodes {v} ({graph.names[v]}) and {u} ({graph.names[u]}) are in blocks {block[v]} and {block[u]}; "
                "they have to be together."
            )
        for row, least in zip(self.counted, self.least, strict=True):
            counts = np.bincount(block, row, k)
            for b in np.flatnonzero(counts < least)[:1]:
                raise InputError(f"Block {b} has {int(counts[b])} of the nodes of which each needs at least {least}.")


def _groups(graph: ComputationGraph, constraints: Constraints) -> IntArray:
    """Group of each node, (n,): nodes that must share a block, merged along cycles between groups."""
    start, readers = graph.successors
    chains = [*constraints.together]
    chains += [(v, *readers[start[v] : start[v + 1]].tolist()) for v in set(constraints.uncut)]
    pairs = np.array([(chain[0], v) for chain in chains for v in chain[1:]], dtype=np.int64).reshape(-1, 2)
    group = components(pairs, graph.n, directed=False)
    # Between groups edges may go round: all that they pass is in one block.
    circle = components(group[graph.edges], int(group.max()) + 1, directed=True)
    merged = circle[group]
    _, number = np.unique(merged, return_inverse=True)
    return number.astype(np.int64)


def _windows(graph: ComputationGraph, k: int, constraints: Constraints, group: IntArray) -> tuple[IntArray, IntArray]:
    """(n,) first and last block of each node, followed along edges and over groups."""
    count = int(group.max()) + 1
    first, last = np.zeros(count, dtype=np.int64), np.full(count, k - 1)
    by_first, by_last = np.full(count, -1), np.full(count, -1)  # the nodes whose windows say so
    for v, begin, end in constraints.windows:
        g = group[v]
        if end > k - 1:
            raise InputError(
                f"Node {v} ({graph.names[v]}) has a window up to block {end}; blocks run from 0 to {k - 1}."
            )
        if begin > first[g]:
            first[g], by_first[g] = begin, v
        if end < last[g]:
            last[g], by_last[g] = end, v
    if constraints.windows:
        edges = group[graph.edges]
        _spread(edges, first, by_first, later=True)
        _spread(edges, last, by_last, later=False)
    for g in np.flatnonzero(first > last)[:1]:
        early, late = int(by_last[g]), int(by_first[g])
        v = int(np.flatnonzero(group == g)[0])
        raise InputError(
            f"No block is left for node {v} ({graph.names[v]}): by node {late} ({graph.names[late]}) it is in block "
            f"{first[g]} or later, by node {early} ({graph.names[early]}) in block {last[g]} or earlier."
        )
    return first[group], last[group]


def _spread(edges: NDArray[np.int64], value: IntArray, origin: IntArray, *, later: bool) -> None:
    """Propagate values along edges: upwards if `later`, else downwards against them; `origin` is copied with `value`.

    The most extreme values go first, so that each node is passed once.
    """
    source, target = (edges[:, 0], edges[:, 1]) if later else (edges[:, 1], edges[:, 0])
    start, after = (rows.tolist() for rows in compressed_rows(source, target, len(value)))
    begins = np.flatnonzero(origin >= 0)
    passed = np.zeros(len(value), dtype=bool)
    for begin in begins[np.argsort(-value[begins] if later else value[begins], kind="stable")].tolist():
        todo = [begin]
        while todo:
            u = todo.pop()
            if not passed[u]:
                passed[u] = True
                if value[u] != value[begin]:
                    value[u], origin[u] = value[begin], origin[begin]
                todo += after[start[u] : start[u + 1]]


def _shown(graph: ComputationGraph, nodes: Sequence[int]) -> str:
    names = [graph.names[v] for v in nodes[:3]]
    return ", ".join(names) + (", …" if len(nodes) > 3 else "")


# Constraints files, ``mtpp-constraints/1``, JSON.


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
    """Constraints of a JSON object with any of the five members that `read_constraints` describes.

    Raises
    ------
    InputError
        If the object has other members, or names a node that is not in the graph.
    """
    fields, names = value.open_members(()), NodeNames(graph)
    together, windows, counts = (fields[kind].items() if kind in fields else [] for kind in _LISTS)
    return Constraints(
        together=tuple(_group(field, names) for field in together),
        windows=tuple(window for field in windows for window in _stated_windows(field, names)),
        uncut=_group(fields["uncut"], names) if "uncut" in fields else (),
        at_least=tuple(_count(field, names) for field in counts),
        on=_on(fields["on"], names) if "on" in fields else (),
    )


def _group(field: Value, names: NodeNames) -> tuple[int, ...]:
    nodes = _nodes(field)
    with refused_at(field):
        return names.all(nodes, field.path)


def _stated_windows(field: Value, names: NodeNames) -> list[tuple[int, int, int]]:
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
    """Add the place in the file to errors raised inside."""
    try:
        yield
    except InputError as error:
        field.fail(str(error))


def _nodes(field: Value) -> list[NodeName]:
    return [item.data if isinstance(item.data, str) else item.whole() for item in field.items()]


# Constraints, and questions with them, as texts.


# Largest numbers of constraints, and of their characters, that are stated one by one.
_MOST_RULES, _LONGEST_RULES = 8, 100


def instance_in_words(
    graph: ComputationGraph, devices: Iterable[str], rules: Constraints, k: int, need: FloatArray | None, by_need: bool
) -> str:
    """A question of partitioning in one line: its devices, its constraints, its graph.

    `need`, (n,) bytes, are the needs of merged nodes, None if no nodes are merged; with `by_need` the peak of a block
    is the largest need of its nodes.
    """
    words = [*devices, rules_in_words(rules, k)]
    if need is not None:
        words.append(f"needs of merged nodes {digest_of(need.tolist())}")
    words += ["peaks by need"] if by_need else []
    return f"{', '.join(words)}; {graph_in_words(graph)}"


def rules_in_words(rules: Constraints, k: int) -> str:
    """The side constraints in words; if there are many, their number and a hash."""
    lines = list(_rule_words(rules.canonical(k)))
    if len(lines) > _MOST_RULES or sum(map(len, lines)) > _LONGEST_RULES:
        return f"{len(lines)} constraints {digest_of(lines)}"
    return ", ".join(lines) or "no constraints"


def _rule_words(rules: Constraints) -> Iterator[str]:
    """Yield a short text for each constraint."""
    for kind, numbers in (("together", rules.together), ("window", rules.windows)):
        yield from (" ".join([kind, *map(str, row)]) for row in numbers)
    yield from (f"uncut {v}" for v in rules.uncut)
    yield from (" ".join(["least", str(count), *map(str, nodes)]) for count, nodes in rules.at_least)
