"""Graphs of a page as SVG: nodes by stage from left to right; a node tells of itself where the pointer is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from instances import ComputationGraph
from mtpp.plots.layout import placed
from mtpp.plots.report.drawing import hue, svg
from mtpp.plots.report.markup import paragraph, text
from mtpp.text.numbers import bytes_in_words, time_in_words

__all__ = ["graph_picture"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Nodes and edges up to which each is drawn; of a larger graph a dot stands for a column.
_MOST_NODES, _MOST_EDGES = 2000, 8000
_MOST_DOTS = 500
_SWEEPS = 12
_WIDTH, _NARROWEST, _TOP = 1040.0, 7.0, 26.0


def graph_picture(
    graph: ComputationGraph,
    group: IntArray,
    column: FloatArray,
    name: str,
    spans: Sequence[tuple[float, float]] = (),
) -> str:
    """A graph with the colour of its group for each node, and a sentence that says so.

    Parameters
    ----------
    group, column : (n,) integers, (n,) floats
        Stage or device, and column, of each node.
    name : str
        What a group is.
    spans : sequence of (float, float)
        First and last column of each group, where groups are side by side.
    """
    width = float(column.max()) + 1
    step = max(_NARROWEST, _WIDTH / max(width, 1)) if graph.n <= _MOST_NODES else _WIDTH / max(width, 1)
    step = min(step, 60.0)
    bands = "".join(
        f'<rect x="{(left + 0.5) * step:.1f}" y="{_TOP - 6:.0f}" width="{(right - left) * step:.1f}" height="HEIGHT" '
        f'fill="{hue(b)}" opacity=".12"><title>{text(name)} {b}</title></rect>'
        + (f'<text x="{(left + 0.5) * step + 2:.1f}" y="14">{b}</text>' if (right - left) * step > 18 else "")
        for b, (left, right) in enumerate(spans[:_MOST_DOTS])
        if right > left
    )
    whole = graph.n <= _MOST_NODES and graph.m <= _MOST_EDGES
    drawn, height = (_nodes if whole else _dots)(graph, group, column, step, name)
    told = f"Each dot is an operator in the colour of its {name}. Dark lines are tensors between {name}s."
    if not whole:
        told = f"Each dot stands for neighbouring operators, in the colour of the first {name} among them."
    return paragraph(f"{told} Point at a dot to see what it is.", "soft") + svg(
        (width + 0.5) * step, height, bands.replace("HEIGHT", f"{height - _TOP:.0f}") + drawn
    )


def _nodes(graph: ComputationGraph, group: IntArray, column: FloatArray, step: float, name: str) -> tuple[str, float]:
    """All nodes and edges, and the height of the picture."""
    points = placed(graph, column, sweeps=_SWEEPS, inertia=0.5)
    rows = float(np.ptp(points[:, 1])) + 1
    gap = float(np.clip(420 / rows, _NARROWEST, 30))
    radius = float(np.clip(0.32 * min(step, gap), 2, 8))
    x = np.round((points[:, 0] + 0.75) * step).astype(int)
    y = np.round(_TOP + (points[:, 1] - points[:, 1].min() + 0.7) * gap).astype(int)
    edges = np.unique(graph.edges, axis=0)
    inside = group[edges[:, 0]] == group[edges[:, 1]]
    lines = "".join(
        f'<path class="{kind}" d="{_curves(x, y, edges[mask])}"/>'
        for kind, mask in (("inside", inside), ("across", ~inside))
    )
    title = _titles(graph, group, name)
    circles = [
        f'<g fill="{hue(b)}">{_circles(np.flatnonzero(group == b), x, y, radius, title)}</g>' for b in np.unique(group)
    ]
    return lines + "".join(circles), _TOP + (rows + 0.4) * gap + 8


def _curves(x: IntArray, y: IntArray, edges: IntArray) -> str:
    """One path with all edges; one that passes columns bends around their nodes."""
    parts = []
    for u, v in edges.tolist():
        bend = 0 if abs(x[v] - x[u]) <= 60 else (14 if u % 2 else -14)
        middle = f"Q{(x[u] + x[v]) // 2} {(y[u] + y[v]) // 2 + bend} " if bend else "L"
        parts.append(f"M{x[u]} {y[u]}{middle}{x[v]} {y[v]}")
    return "".join(parts)


def _circles(nodes: IntArray, x: IntArray, y: IntArray, radius: float, title: Callable[[int], str]) -> str:
    return "".join(
        f'<circle cx="{x[v]}" cy="{y[v]}" r="{radius:.1f}"><title>{text(title(v), 200)}</title></circle>'
        for v in nodes.tolist()
    )


def _titles(graph: ComputationGraph, group: IntArray, name: str) -> Callable[[int], str]:
    out = np.bincount(graph.tensors.producer, graph.tensors.bytes, graph.n)

    def title(v: int) -> str:
        sizes = {"parameters": graph.param_bytes[v], "states": graph.state_bytes[v], "output": out[v]}
        told = "".join(f", {label} {bytes_in_words(size)}" for label, size in sizes.items() if size)
        work = time_in_words(float(graph.work[v]), graph.time_unit)
        return f"{_short(graph.names[v])}, {name} {group[v]}, work {work}{told}"

    return title


def _short(node: str) -> str:
    return node if len(node) <= 60 else f"{node[:30]}…{node[-29:]}"


def _dots(graph: ComputationGraph, group: IntArray, column: FloatArray, step: float, name: str) -> tuple[str, float]:
    """A dot for each group in each part of the picture's width, the larger the more nodes, and the picture's height."""
    parts = min(_MOST_DOTS, int(column.max()) + 1)
    place = np.minimum(parts - 1, (column * parts / (column.max() + 1)).astype(int))
    keys, first, counts = np.unique(place, return_index=True, return_counts=True)
    work = np.bincount(place, graph.work, parts)
    circles = []
    for key, v, count in zip(keys.tolist(), first.tolist(), counts.tolist(), strict=True):
        held = np.unique(group[place == key])
        groups = str(held[0]) if len(held) == 1 else f"{held[0]} to {held[-1]}"
        time = time_in_words(float(work[key]), graph.time_unit)
        told = text(f"{count} nodes, {name} {groups}, work {time}, {_short(graph.names[v])} …", 200)
        x = (key + 0.75) * step * (column.max() + 1) / parts
        look = f'r="{min(24.0, 2 + count**0.5):.1f}" fill="{hue(int(held[0]))}" opacity=".8"'
        circles.append(f'<circle cx="{x:.1f}" cy="60" {look}><title>{told}</title></circle>')
    return "".join(circles), 110.0
