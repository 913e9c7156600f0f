"""Pictures of partitions, placements and fronts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike, NDArray

from instances import Bound, ComputationGraph, Partition
from instances.partitioning.serving import ServedPartition
from instances.placement.placement import Placement
from instances.runtimes.layers import layers_in_words
from instances.runtimes.serving_front import Front
from mtpp.plots.style import axes_of, colours, legend_beside, plain
from mtpp.text.tables import drawn

# Places of nodes in pictures of graphs: columns from left to right, and rows in them.


FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def block_columns(partition: Partition) -> tuple[FloatArray, list[tuple[float, float]]]:
    """(n,) column of each node: its depth in its block, blocks side by side; and the extent of each block."""
    graph, block = partition.instance.graph, partition.block
    start, successor = graph.successors
    depth = np.zeros(graph.n)
    for u in graph.topological_order:
        for v in successor[start[u] : start[u + 1]]:
            if block[u] == block[v]:
                depth[v] = max(depth[v], depth[u] + 1)
    bounds, left = [], 0.0
    for b in range(partition.instance.k):
        inside = block == b
        right = left + (depth[inside].max() + 1 if inside.any() else 0)
        depth[inside] += left
        bounds.append((left - 0.5, right - 0.5))
        left = right
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
    """(n, 2) column and row of each node: neighbours come near each other by repeated averaging within the columns.

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
    """Rows of the nodes, (n,): one apart in each column and centred, sorted by the rows wanted."""
    height = np.zeros(len(wish))
    for column in columns:
        by_wish = column[np.argsort(wish[column], kind="stable")]
        height[by_wish] = np.arange(len(column)) - (len(column) - 1) / 2
    return height


# Helpers to draw graphs: edges, names of nodes.


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


# Pictures: each function takes data and optional Axes, draws, and returns the Axes.


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


# Pictures of placements: the graph coloured by device, and the activity of devices and buses during a step.
#
# What draws one picture takes the axes to draw on, and a new figure by default.


_DEVICE, _BUS = 0.55, 0.25  # heights, where the rows of two devices are one apart
_LABELLED_DEVICES = 24
_SWEEPS_OF_PLACEMENT = 8


def plot_placement(placement: Placement, ax: Axes | None = None) -> Axes:
    """Draw the graph from left to right by depth, coloured by device; the larger a node, the more work it has.

    Edges within a device are light, edges between devices dark. Small graphs carry the nodes' names.
    """
    ax = axes_of(ax, 11, 4.5)
    instance, graph, device = placement.instance, placement.instance.graph, placement.device
    points = placed(graph, depth_columns(graph), sweeps=_SWEEPS_OF_PLACEMENT, inertia=0.0)
    edges = np.unique(graph.edges, axis=0)
    inside = device[edges[:, 0]] == device[edges[:, 1]]
    alpha = float(np.clip(150 / max(1, len(edges)), 0.1, 1))
    draw_edges(ax, points[edges], inside, alpha)
    size = float(np.clip(5000 / graph.n, 20, 250)) * (0.3 + graph.work / graph.work.max())
    for d, fill in enumerate(colours(instance.devices)):
        x, y = points[device == d].T
        ax.scatter(
            x, y, s=size[device == d], color=fill, edgecolors="white", linewidths=0.4, zorder=2, label=f"device {d}"
        )
    draw_names(ax, graph, points, 12)
    if instance.devices <= _LABELLED_DEVICES:
        legend = legend_beside(ax, bbox_to_anchor=(1.0, 1))
        for handle in legend.legend_handles:
            handle.set_sizes([40])  # type: ignore[union-attr]
    ax.margins(0.03, 0.1)
    ax.set_axis_off()
    ax.set_title(f"{drawn(graph.name)}: n = {graph.n}, m = {graph.m}, {instance.devices} devices", loc="left")
    return ax


def plot_timeline(placement: Placement, ax: Axes | None = None) -> Axes:
    """Draw when each device runs a node and, below it, when its bus moves a tensor, coloured by the target."""
    instance, timeline, k = placement.instance, placement.timeline, placement.instance.devices
    ax = axes_of(ax, 11, 0.5 * k + 1.5)
    factor, unit = _scale(placement.step_time, instance.graph.time_unit)
    hues = colours(k)
    boxes, fills = [], []
    for d, start, end in zip(placement.device, timeline.start * factor, timeline.end * factor, strict=True):
        boxes.append(Rectangle((start, d - 0.45), end - start, _DEVICE))
        fills.append(hues[d])
    for transfer in timeline.transfers:
        start, width = transfer.start * factor, (transfer.end - transfer.start) * factor
        part = _BUS / len(transfer.targets)
        for i, target in enumerate(transfer.targets):
            boxes.append(Rectangle((start, transfer.source - 0.45 + _DEVICE + i * part), width, part))
            fills.append(hues[target])
    ax.add_collection(PatchCollection(boxes, facecolors=fills, edgecolors="white", linewidths=0.25))
    if instance.graph.n <= _LABELLED_NODES:
        for v, name in enumerate(instance.graph.names):
            middle = (timeline.start[v] + timeline.end[v]) / 2 * factor
            ax.text(middle, placement.device[v] - 0.45 + _DEVICE / 2, drawn(name), ha="center", va="center", fontsize=7)
    last = max([placement.step_time, *(transfer.end for transfer in timeline.transfers)]) * factor
    ax.axvline(placement.step_time * factor, color="0.45", linewidth=1, linestyle=":")
    ax.set_xlim(0, 1.01 * last)
    ax.set_ylim(k - 0.5, -0.55)
    ax.set_yticks(range(0, k, -(-k // _LABELLED_DEVICES)))
    ax.set_xlabel(f"time [{unit}]; below each device its bus, in the colour of the device that receives")
    ax.set_ylabel("device")
    plain(ax)
    busy = (timeline.end - timeline.start).sum() / (k * placement.step_time)
    ax.set_title(
        f"step time {placement.step_time * factor:.4g} {unit}, {placement.relative_time:.3f} of one device; "
        f"devices busy {busy:.0%}",
        loc="left",
    )
    return ax


def placement_figure(placement: Placement, bound: Bound | None = None) -> Figure:
    """The graph coloured by device, above the timeline of a step with the bound on it."""
    figure = Figure(figsize=(11, 6 + 0.5 * placement.instance.devices), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(4, 1.5 + 0.5 * placement.instance.devices))
    plot_placement(placement, above)
    plot_timeline(placement, below)
    if bound is not None and bound.value > 0:
        factor, unit = _scale(placement.step_time, placement.instance.graph.time_unit)
        label = f"bound {bound.value * factor:.4g} {unit} ({bound.method})"
        below.axvline(bound.value * factor, color="black", linewidth=1.2, linestyle="--", label=label)
        legend_beside(below)
    return figure


def _scale(value: float, unit: str) -> tuple[float, str]:
    """Factor and unit that give a time in seconds readable digits."""
    return (1e3, "ms") if unit == "s" and value < 1 else (1.0, drawn(unit))


# Fronts of serving questions, and default rules over optima.


_MARKS = "os^Dv"


def plot_front(
    front: Sequence[ServedPartition], others: Mapping[str, tuple[float, float]] | None = None, ax: Axes | None = None
) -> Axes:
    """Context over bottleneck of what no cut beats, each point with its layers.

    Parameters
    ----------
    front : sequence of ServedPartition
        From the fastest to the one with the largest context.
    others : mapping of str to (float, float), optional
        Bottleneck and context of other cuts by name, such as those of default rules.
    """
    ax = axes_of(ax, 7.5, 4)
    points = [point for point in front if point.capacity < math.inf]
    times, contexts = [p.bottleneck for p in points], [p.capacity for p in points]
    ax.step(times, contexts, where="post", color="0.7", zorder=1)
    ax.plot(times, contexts, "o", color="#3b5b92", label="beaten by no cut (proved)", zorder=2)
    for point in points[:: max(1, len(points) // 4)]:
        counts = layers_in_words(point.partition)
        right = point.bottleneck > (times[0] + times[-1]) / 2
        ax.annotate(
            counts,
            (point.bottleneck, point.capacity),
            (-7 if right else 7, -11),
            textcoords="offset points",
            fontsize="small",
            horizontalalignment="right" if right else "left",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
    for i, (name, (time, context)) in enumerate((others or {}).items()):
        colour = matplotlib.colormaps["tab10"](i + 1)
        mark = _MARKS[(i + 1) % len(_MARKS)]
        ax.plot(time, context, mark, color=colour, label=name, zorder=3, fillstyle="none", markersize=9 + 2 * i)
    ax.set_xlabel(f"bottleneck [{front[0].partition.instance.time_unit}]")
    ax.set_ylabel("context of each sequence [tokens]")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.margins(x=0.15, y=0.15)
    plain(ax)
    legend_beside(ax)
    return ax


def front_figure(front: Front, bound: Bound | None = None) -> Figure:
    """Context over bottleneck of what no cut beats; its first point is the bound."""
    figure = plot_front(front.points).figure
    assert isinstance(figure, Figure)
    return figure


def plot_rules(
    labels: Sequence[str], ratios: Mapping[str, Sequence[float | None]], quantity: str, ax: Axes | None = None
) -> Axes:
    """Draw by how much each default rule exceeds the optimum, a row a question.

    Parameters
    ----------
    labels : sequence of str
        Of the questions, from above.
    ratios : mapping of str to sequence of float
        For each rule a number a question; None where its cut does not fit.
    quantity : str
        What the ratio is of.
    """
    ax = axes_of(ax, 7.5, 1.2 + 0.22 * len(labels))
    places = range(len(labels))
    for i, (name, values) in enumerate(ratios.items()):
        held = [(value, place) for value, place in zip(values, places, strict=True) if value is not None]
        shift = 0.26 * (i - (len(ratios) - 1) / 2)
        ax.plot(
            [value for value, _ in held],
            [place + shift for _, place in held],
            _MARKS[i % len(_MARKS)],
            color=matplotlib.colormaps["tab10"](i),
            markersize=5,
            label=name,
        )
    ax.axvline(1, color="0.4", linewidth=1)
    ax.set_yticks(places, labels, fontsize="small")
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set_xlabel(quantity)
    ax.grid(axis="x", color="0.92")
    plain(ax)
    legend_beside(ax)
    return ax
