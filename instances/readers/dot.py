"""Graphviz DOT with weights as dagP reads them (Herrmann et al., 2019).

A ``digraph`` of node statements ``a [weight=3];`` and edge statements ``a -> b [weight=5];``. A missing weight is 1,
other attributes are not read, and every node that an edge names must be declared. The format has no units: the weight
of a node counts in seconds, or in the unit `time_unit`, and that of an edge in bytes. Missing weights give a warning.
Subgraphs and ports are refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.json_files import read_text
from instances.readers.parsing import amount, graph_of_file, outputs_by_size, seconds

_TOKEN = re.compile(
    r"(?:\s+|//[^\n]*|/\*.*?\*/|^\#[^\n]*)+"
    r"|(?P<arrow>->)|(?P<mark>[{}\[\];,=])"
    r'|(?P<text>"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:\.\d+|\d+(?:\.\d*)?)(?![\w.])|[^\W\d]\w*)',
    re.MULTILINE | re.DOTALL,
)
_DEFAULTS = ("graph", "node", "edge")


def recognises_dot(text: str) -> bool:
    """Whether the text of a file looks like this format."""
    return re.match(r"(?:\s*(?://.*|\#.*)\n)*\s*(?:strict\s+)?(?:di)?graph\b[^{]*\{", text, re.IGNORECASE) is not None


def read_dot(path: str | Path, time_unit: str = "s") -> ComputationGraph:
    """Read a weighted graph; its work is in seconds.

    Edges that leave one node with the same weight are one tensor; with different weights they are several.

    Parameters
    ----------
    path : path of a text file
    time_unit : {"s", "ms", "us"}
        Unit of the weights of nodes.

    Raises
    ------
    InputError
        If the file cannot be read, is undirected, has a weight that is not a number of 0 or more, or an edge of a node
        that is not declared; the message names the line.
    """
    unit = seconds(time_unit)
    parser = _Parser(str(path), read_text(path))
    parser.parse()
    index = {name: v for v, name in enumerate(parser.nodes)}
    links = []
    for place, source, target, weight in parser.edges:
        for name in (source, target):
            if name not in index:
                raise InputError(f"{place}: node '{name}' is not declared; add a line '{name} [weight=…];'.")
        links.append((index[source], index[target], weight))
    edges, outputs = outputs_by_size(links, len(index))
    return graph_of_file(
        path,
        edges,
        [weight * unit for weight in parser.nodes.values()],
        outputs,
        names=tuple(parser.nodes),
        source=f"DOT file {Path(path).name}, weights as {time_unit} and bytes",
        attributes={"warnings": parser.warnings} if parser.warnings else {},
    )


@dataclass
class _Parser:
    """The statements of a digraph, by one token of lookahead."""

    file: str
    text: str
    nodes: dict[str, float] = field(default_factory=dict)
    edges: list[tuple[str, str, str, float]] = field(default_factory=list)
    unweighted: Counter[str] = field(default_factory=Counter)
    line: int = 1
    kind: str | None = ""
    token: str = ""

    def parse(self) -> None:
        """Fill `nodes` and `edges`."""
        self.tokens = self._scan()
        self._next()
        if self.token.lower() == "strict":
            self._next()
        if self.token.lower() == "graph":
            self._fail("the graph is undirected; write 'digraph' and '->'.")
        if self.token.lower() != "digraph":
            self._fail(f"expected 'digraph', found {self._shown()}.")
        self._next()
        if self.kind == "text":
            self._next()
        self._expect("{")
        while self.token != "}":
            self._statement()
        self._next()
        if self.kind is not None:
            self._fail(f"expected the end of the file, found {self._shown()}.")

    def _statement(self) -> None:
        if self.token == ";":
            self._next()
            return
        place = self._place()
        keyword = self.token.lower()
        path = [self._name()]
        if keyword in _DEFAULTS:
            if "weight" in {key.lower() for key in self._attributes()}:
                raise InputError(f"{place}: default weights are not read; give each node and edge its own.")
            return
        if self.token == "=":  # an attribute of the graph, such as rankdir=LR
            self._next()
            self._name()
            return
        while self.kind == "arrow":
            self._next()
            path.append(self._name())
        stated = self._weight(place)
        weight = 1.0 if stated is None else stated
        if stated is None:
            self.unweighted["nodes" if len(path) == 1 else "edges"] += max(1, len(path) - 1)
        if len(path) == 1:
            if path[0] in self.nodes:
                raise InputError(f"{place}: node '{path[0]}' is declared twice; keep one.")
            self.nodes[path[0]] = weight
        self.edges += [(place, u, v, weight) for u, v in pairwise(path)]

    @property
    def warnings(self) -> list[str]:
        """Warnings about weights that the file does not state."""
        totals = {"nodes": len(self.nodes), "edges": len(self.edges)}
        missing = [f"{count} of {totals[kind]} {kind}" for kind, count in self.unweighted.items()]
        return [f"{' and '.join(missing)} have no weight, which counts as 1; give each its own."] if missing else []

    def _weight(self, place: str) -> float | None:
        weights = [value for key, value in self._attributes().items() if key in ("weight", "Weight")]
        if not weights:
            return None
        if len(weights) > 1:
            raise InputError(f"{place}: weight is given twice; keep one.")
        return amount(weights[0], "weight", place)

    def _attributes(self) -> dict[str, str]:
        attributes: dict[str, str] = {}
        while self.token == "[":
            self._next()
            while self.token != "]":
                key = self._name()
                self._expect("=")
                if key in attributes:
                    self._fail(f"attribute '{key[:40]}' is given twice; keep one.")
                attributes[key] = self._name()
                if self.token in (",", ";"):
                    self._next()
            self._next()
        return attributes

    def _name(self) -> str:
        if self.token in ("{", "subgraph"):
            self._fail("subgraphs are not read; list their nodes and edges in the graph itself.")
        if self.kind != "text":
            self._fail(f"expected a name, found {self._shown()}.")
        name = self.token[1:-1] if self.token.startswith('"') else self.token
        self._next()
        return name

    def _expect(self, token: str) -> None:
        if self.token != token:
            self._fail(f"expected '{token}', found {self._shown()}.")
        self._next()

    def _next(self) -> None:
        self.kind, self.token = next(self.tokens, (None, ""))

    def _scan(self) -> Iterator[tuple[str, str]]:
        start = 0
        while start < len(self.text):
            match = _TOKEN.match(self.text, start)
            if match is None:
                self._fail(f"cannot be read from '{self.text[start : start + 40].splitlines()[0]}' on.")
            start = match.end()
            if match.lastgroup:
                yield match.lastgroup, match[0]
            self.line += match[0].count("\n")

    def _place(self) -> str:
        return f"{self.file}, line {self.line}"

    def _shown(self) -> str:
        return f"'{self.token[:40]}'" if self.kind else "the end of the file, which may be cut short"

    def _fail(self, problem: str) -> NoReturn:
        raise InputError(f"{self._place()}: {problem}")
