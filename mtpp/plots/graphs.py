"""Helpers to draw graphs: edges, names of nodes."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from instances import ComputationGraph
from mtpp.text.tables import drawn

__all__ = ["draw_edges", "draw_names"]

FloatArray = NDArray[np.float64]

_LABELLED_NODES = 30


def draw_edges(ax: Axes, curves: FloatArray, inside: NDArray[np.bool_], alpha: float) -> None:
    """Draw (m, p, 2) curves: light where both ends are in one part, dark between parts."""
    for mask, colour in ((inside, "0.6"), (~inside, "0.1")):
        ax.add_collection(LineCollection(list(curves[mask]), colors=colour, linewidths=0.7, alpha=alpha, zorder=1))


def draw_names(ax: Axes, graph: ComputationGraph, points: FloatArray, above: float) -> None:
    """Write the names of a small graph's nodes so many points above them."""
    if graph.n <= _LABELLED_NODES:
        for name, (x, y) in zip(graph.names, points, strict=True):
            ax.annotate(drawn(name), (x, y), xytext=(0, above), textcoords="offset points", ha="center", fontsize=7)
