"""Pictures: each function takes data and optional Axes, draws, and returns the Axes."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from instances import Bound, Partition
from mtpp.plots.graphs import draw_edges, draw_names
from mtpp.plots.layout import block_columns, placed
from mtpp.plots.style import axes_of, colours, legend_beside, plain
from mtpp.text.tables import drawn

__all__ = [
    "partition_figure",
    "plot_block_costs",
    "plot_partition",
]

FloatArray = NDArray[np.float64]

_LABELLED_BLOCKS = 16
_ROOM_FOR_LABELS = 30
_SWEEPS = 12
_TERMS = {"receive": "#7fb2d9", "work": "#3b5b92", "overflow": "#c44e52", "send": "#f2b46c"}
_GREY = "0.45"


def plot_partition(
    partition: Partition, ax: Axes | None = None, values: ArrayLike | None = None, label: str = ""
) -> Axes:
    """Draw the graph from left to right, block after block, coloured by block.

    Edges within a block are light, edges between blocks dark. Small graphs carry the nodes' names.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        A new figure by default.
    values : (n,) floats, optional
        Numbers to colour the nodes by instead, such as their prices.
    label : str
        What these are, for the colour bar.
    """
    ax = axes_of(ax, 11, 4.5)
    graph, block = partition.instance.graph, partition.block
    layer, bounds = block_columns(partition)
    points = placed(graph, layer, sweeps=_SWEEPS, inertia=0.5)
    fills = colours(partition.instance.k)
    for b, (left, right) in enumerate(bounds):
        if right > left:
            ax.axvspan(left, right, color=fills[b], alpha=0.12, linewidth=0)
    edges = np.unique(graph.edges, axis=0)
    inside = block[edges[:, 0]] == block[edges[:, 1]]
    alpha = float(np.clip(250 / max(1, len(edges)), 0.15, 1))
    draw_edges(ax, _curves(points, edges), inside, alpha)
    width = layer.max() + 1
    size = float(np.clip(min(5000 / graph.n, (600 / width) ** 2), 6, 220))
    nodes = ax.scatter(points[:, 0], points[:, 1], s=size, edgecolors="white", linewidths=0.5, zorder=2)
    if values is None:
        nodes.set_facecolor([fills[b] for b in block])
    else:
        nodes.set_array(np.asarray(values, dtype=float))
        nodes.set_cmap("viridis_r")
        figure = ax.get_figure()
        assert figure is not None
        figure.colorbar(nodes, ax=ax, label=label, pad=0.01)
    draw_names(ax, graph, points, 9)
    last = -np.inf
    for b, (left, right) in enumerate(bounds):
        middle = (left + right) / 2
        if right > left and middle - last > width / _ROOM_FOR_LABELS:
            last = middle
            ax.text(
                middle, 1.01, str(b), color=fills[b], weight="bold", ha="center", va="bottom",
                transform=ax.get_xaxis_transform(),
            )  # fmt: skip
    ax.set_xlim(-0.6, bounds[-1][1] + 0.1)
    ax.margins(y=0.08)
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_title(
        f"{drawn(partition.instance.name)}: n = {graph.n}, m = {graph.m}, {len(bounds)} blocks from left to right",
        loc="left",
        pad=18,
    )
    return ax


def plot_block_costs(partition: Partition, bound: Bound | None = None, ax: Axes | None = None) -> Axes:
    """Stack the receive, work, overflow and send time of each block, with the bottleneck and the bound as lines."""
    ax = axes_of(ax, 8, 4)
    factor, unit = _time_scale(partition.bottleneck, partition.instance.graph.time_unit)
    blocks, base = np.arange(partition.instance.k), np.zeros(partition.instance.k)
    for term, colour in _TERMS.items():
        time = getattr(partition.costs, term) * factor
        if term != "overflow" or partition.instance.has_overflow:
            ax.bar(blocks, time, bottom=base, color=colour, label=term, width=0.8)
            base = base + time
    top = partition.bottleneck * factor
    ax.axhline(top, color=_GREY, linewidth=1, linestyle=":", label=f"bottleneck {top:.5g} {unit}")
    if bound is not None:
        value = bound.value * factor
        ax.axhline(
            value, color="black", linewidth=1.4, linestyle="--", label=f"bound {value:.5g} {unit} ({bound.method})"
        )
    ax.set_xlabel("block")
    names = partition.kind_names
    if names and len(names) <= _LABELLED_BLOCKS:
        ax.set_xticks(blocks, [f"{b}\n{drawn(name)}" for b, name in enumerate(names)])
        ax.set_xlabel("block, and kind of its device")
    ax.set_ylabel(f"time [{unit}]")
    ax.set_xlim(-0.6, partition.instance.k - 0.4)
    if not names:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=_LABELLED_BLOCKS, min_n_ticks=1))
    plain(ax)
    legend_beside(ax)
    return ax


def partition_figure(partition: Partition, bound: Bound | None = None) -> Figure:
    """The graph coloured by block, above the costs of the blocks."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(3, 2))
    plot_partition(partition, above)
    plot_block_costs(partition, bound, below)
    return figure


def _time_scale(value: float, unit: str) -> tuple[float, str]:
    """Factor and unit that give a time in seconds readable digits."""
    if unit != "s" or value == 0 or value >= 1:
        return 1.0, drawn(unit)
    return next(((f, u) for f, u in ((1e3, "ms"), (1e6, "µs")) if value * f >= 1), (1e9, "ns"))


def _curves(points: FloatArray, edges: NDArray[np.int64]) -> FloatArray:
    """Points on the edges, (m, 17, 2); an edge that passes columns is bent around their nodes."""
    t = np.linspace(0, 1, 17)[:, np.newaxis]
    source, target = points[edges[:, 0], np.newaxis], points[edges[:, 1], np.newaxis]
    curves = source + t * (target - source)
    span = target[:, 0, 0] - source[:, 0, 0]
    bend = np.where(span > 1, 0.15 * np.sqrt(np.maximum(0, span)), 0.0) * np.where(edges[:, 0] % 2, -1, 1)
    curves[:, :, 1] += bend[:, np.newaxis] * (4 * t * (1 - t)).T
    return curves
