"""Sections of an answer as data, which pages and pictures draw; and the places of nodes in pictures of graphs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import ComputationGraph, Partition
from instances.errors import printable
from mtpp.text.numbers import Scale, bytes_in_words

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: A key of `KINDS`, or the number of a stage, device or run, each with a colour of its own.
Kind = str | int

#: Kinds of bars, and their colours on white.
KINDS = {
    "receive": "#6aa9d6", "work": "#3f67a8", "overflow": "#c94c54", "send": "#e2a03f",
    "parameters": "#5a7fb8", "states": "#58a08a", "activations": "#c98fbd", "stored": "#6aa9d6", "working": "#c98fbd",
    "forward": "#4f8ac9", "backward": "#dd8a3c", "weights": "#5a9f68", "gradients": "#dd8a3c",
    "transfer": "#9b7fc0", "optimizer": "#9b7fc0", "allreduce": "#5d6677", "spare": "#d5d9e0",
}  # fmt: skip
#: Nodes up to which pictures write their names.
LABELLED_NODES = 30
_GOLDEN_ANGLE = 137.50776


class Bar(NamedTuple):
    """Bar in a row from one number to another, in the unit that the chart's scale divides."""

    start: float
    end: float
    kind: Kind
    title: str  # text of a page, shown at the pointer
    low: float = 0.0  # part of the row's height from which it begins, from 0 to 1
    high: float = 1.0
    label: str = ""  # text of a picture, written in the bar where there is room
    shade: float = 1.0  # strength of the colour in a picture, from 0 to 1


class Row(NamedTuple):
    """Row of bars, side by side or stacked in height."""

    label: str
    bars: Sequence[Bar]


class Mark(NamedTuple):
    """Vertical line across all rows of a chart."""

    at: float
    kind: str  # "limit": the cost, or what a device has; "bound": what no answer passes
    label: str


class Chart(NamedTuple):
    """Rows of bars on one axis."""

    rows: Sequence[Row]
    scale: Scale
    names: str  # what a row is
    axis: str = "time"
    kinds: Mapping[Kind, str] = {}  # kind of bars to words about it
    marks: Sequence[Mark] = ()

    @property
    def legend(self) -> dict[Kind, str]:
        """Text of each kind of bars that occurs."""
        present = {bar.kind for row in self.rows for bar in row.bars}
        return {kind: words for kind, words in self.kinds.items() if kind in present}

    @property
    def end(self) -> float:
        """Largest end of all bars and lines; 1 without any."""
        ends = [bar.end for row in self.rows for bar in row.bars]
        return max(ends + [mark.at for mark in self.marks if math.isfinite(mark.at)], default=0.0) or 1.0


class GroupedGraph(NamedTuple):
    """A graph whose nodes have the colours of their groups."""

    graph: ComputationGraph
    group: IntArray  # (n,): stage or device of each node
    column: FloatArray  # (n,): column of each node
    name: str  # what a group is
    spans: Sequence[tuple[float, float]] = ()  # first and last column of each group, where groups are side by side


class Point(NamedTuple):
    """A point of a front."""

    x: float
    y: float
    words: tuple[str, str]  # both numbers
    title: str  # shown at the pointer
    chosen: bool


class Scatter(NamedTuple):
    """Pareto-optimal points from left to right."""

    points: Sequence[Point]
    x: str  # what is to the right
    y: str


class Table(NamedTuple):
    """Header and rows of a table."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: bool = False  # whether it is aligned to the left
    longest: int | None = 60  # characters of a cell
    summary: str = ""  # what to click on to see it; empty if it is in sight


@dataclass(frozen=True)
class Section:
    """The content under one heading, in this order."""

    title: str
    _: KW_ONLY
    facts: Mapping[str, str] = field(default_factory=dict)
    sentences: Sequence[str] = ()
    graph: GroupedGraph | None = None
    scatter: Scatter | None = None
    chart: Chart | None = None
    table: Table | None = None


def stacked(
    labels: Sequence[str],
    parts: Mapping[str, Sequence[float]],
    scale: Scale,
    names: str,
    *,
    axis: str = "time",
    kinds: Mapping[Kind, str] | None = None,
    marks: Sequence[Mark] = (),
) -> Chart:
    """A row for each label in which the parts follow each other.

    Parameters
    ----------
    labels : sequence of str
    parts : mapping of str to sequence of float
        Kind of bars to a number for each row, at least 0, in the unit that `scale` divides; infinite ones have no bar.
    scale : Scale
        Unit of the axis.
    names, axis : str
        Text that says what a row is, and text that says what the axis measures.
    kinds : mapping of str to str, optional
        Text of each kind; the kinds themselves by default.
    marks : sequence of Mark
    """
    rows, words = [], kinds or {kind: kind for kind in parts}
    for i, label in enumerate(labels):
        bars, start = list[Bar](), 0.0
        for kind, values in parts.items():
            if 0 < values[i] < math.inf:
                title = f"{names} {label}: {words[kind]} {scale.cell(values[i])} {scale.unit}"
                bars.append(Bar(start, start + values[i], kind, title))
                start += values[i]
        rows.append(Row(label, bars))
    return Chart(rows, scale, names, axis, words, marks)


def memory_section(
    labels: Sequence[str], sizes: Mapping[str, Sequence[float]], limit: float, names: str, *sentences: str
) -> Section:
    """Bytes on each stage or device, with the limit."""
    parts = {kind: values for kind, values in sizes.items() if any(values)}
    totals = [sum(values[i] for values in parts.values()) for i in range(len(labels))]
    scale = Scale.of_bytes([*totals, limit])
    marks = [Mark(limit, "limit", f"memory {bytes_in_words(limit)}")] if math.isfinite(limit) else []
    rows = [
        [label, *(bytes_in_words(values[i]) for values in parts.values()), bytes_in_words(totals[i])]
        for i, label in enumerate(labels)
    ]
    return Section(
        "Memory",
        sentences=sentences,
        chart=stacked(labels, parts, scale, names, axis="memory", marks=marks),
        table=Table([names, *parts, "sum"], rows, summary="As a table"),
    )


def hue(number: int) -> tuple[int, int, int]:
    """Hue [degrees], saturation and lightness [%] of a stage or device: those that follow each other differ much."""
    return round(210 + number * _GOLDEN_ANGLE) % 360, 55, (50, 58, 44)[number % 3]


def shortened(words: str, longest: int | None = 60) -> str:
    """A printable text; if longer than `longest`, without its middle."""
    label = printable(words)
    if longest is None or len(label) <= longest:
        return label
    return f"{label[: longest // 2]}…{label[-((longest - 1) // 2) :]}"


# Places of nodes in pictures of graphs: columns from left to right, and rows in them.


def block_columns(partition: Partition) -> tuple[FloatArray, list[tuple[float, float]]]:
    """(n,) column of each node by its depth in its block, blocks side by side; and their extents."""
    graph, block = partition.instance.graph, partition.block
    start, successor = graph.successors
    depth = np.zeros(graph.n)
    for u in graph.topological_order:
        for v in successor[start[u] : start[u + 1]]:
            if block[u] == block[v]:
                depth[v] = max(depth[v], depth[u] + 1)
    bounds, x = [], 0.0
    for b in range(partition.instance.k):
        inside = block == b
        right = x + (depth[inside].max() + 1 if inside.any() else 0)
        depth[inside] += x
        bounds.append((x - 0.5, right - 0.5))
        x = right
    return depth, bounds


def depth_columns(graph: ComputationGraph) -> FloatArray:
    """(n,) column of each node: its depth; weights and inputs stand beside their first readers."""
    start, before = graph.predecessors
    column = np.zeros(graph.n, dtype=np.int64)
    for v in graph.topological_order:
        column[v] = 1 + column[before[start[v] : start[v + 1]]].max(initial=-1)
    after, successor = graph.successors
    for v in np.flatnonzero(column == 0):
        column[v] = max(0, column[successor[after[v] : after[v + 1]]].min(initial=column.max() + 1) - 1)
    return column.astype(float)


def placed(graph: ComputationGraph, column: FloatArray, *, sweeps: int, inertia: float) -> FloatArray:
    """(n, 2) column and row of each node, rows by repeated averaging over neighbours.

    Inertia is the weight, from 0 to 1, of a node's own row against those of its neighbours.
    """
    by_column = np.argsort(column, kind="stable")
    columns = np.split(by_column, np.flatnonzero(np.diff(column[by_column])) + 1)
    height = _stacked(columns, np.zeros(graph.n))
    u, v = graph.edges.T
    degree = np.maximum(1, np.bincount(u, minlength=graph.n) + np.bincount(v, minlength=graph.n))
    for _ in range(sweeps):
        total = np.bincount(u, height[v], graph.n) + np.bincount(v, height[u], graph.n)
        height = _stacked(columns, inertia * height + (1 - inertia) * total / degree)
    return np.column_stack((column, height))


def _stacked(columns: Sequence[IntArray], wish: FloatArray) -> FloatArray:
    """(n,) rows of the nodes: sorted by `wish`, one apart and centred in each column."""
    height = np.zeros(len(wish))
    for column in columns:
        by_wish = column[np.argsort(wish[column], kind="stable")]
        height[by_wish] = np.arange(len(column)) - (len(column) - 1) / 2
    return height
