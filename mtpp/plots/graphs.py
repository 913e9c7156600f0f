"""Helpers to draw graphs: nodes in columns from left to right, edges, names of nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from instances import ComputationGraph
from mtpp.text.tables import drawn

__all__ = ["draw_edges", "draw_names", "heights", "stacked"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_LABELLED_NODES = 30


def heights(
    graph: ComputationGraph, columns: Sequence[IntArray], start: FloatArray, *, sweeps: int, inertia: float
) -> FloatArray:
    """(n,) rows of the nodes: neighbours come near each other by repeated averaging within the columns.

    The rows at first are `start`, (n,). Inertia is the weight, from 0 to 1, of a node's own row against those of its
    neighbours.
    """
    height = start
    u, v = graph.edges.T
    degree = np.maximum(1, np.bincount(u, minlength=graph.n) + np.bincount(v, minlength=graph.n))
    for _ in range(sweeps):
        total = np.bincount(u, height[v], graph.n) + np.bincount(v, height[u], graph.n)
        height = stacked(columns, inertia * height + (1 - inertia) * total / degree)
    return height


def stacked(columns: Sequence[IntArray], wish: FloatArray) -> FloatArray:
    """Rows of the nodes, (n,): one apart in each column and centred, sorted by the rows wanted."""
    height = np.zeros(len(wish))
    for column in columns:
        by_wish = column[np.argsort(wish[column], kind="stable")]
        height[by_wish] = np.arange(len(column)) - (len(column) - 1) / 2
    return height


def draw_edges(ax: Axes, curves: FloatArray, inside: NDArray[np.bool_], alpha: float) -> None:
    """Draw (m, p, 2) curves: light where both ends are in one part, dark between parts."""
    for mask, colour in ((inside, "0.6"), (~inside, "0.1")):
        ax.add_collection(LineCollection(list(curves[mask]), colors=colour, linewidths=0.7, alpha=alpha, zorder=1))


def draw_names(ax: Axes, graph: ComputationGraph, points: FloatArray, above: float) -> None:
    """Write the names of a small graph's nodes so many points above them."""
    if graph.n <= _LABELLED_NODES:
        for name, (x, y) in zip(graph.names, points, strict=True):
            ax.annotate(drawn(name), (x, y), xytext=(0, above), textcoords="offset points", ha="center", fontsize=7)
