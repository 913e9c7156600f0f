"""Pictures of placements: the graph coloured by device, and the activity of devices and buses during a step.

What draws one picture takes the axes to draw on, and a new figure by default.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from instances import Bound
from instances.placement.placement import Placement
from mtpp.plots.graphs import draw_edges, draw_names
from mtpp.plots.layout import depth_columns, placed
from mtpp.plots.style import axes_of, colours, legend_beside, plain
from mtpp.text.tables import drawn

__all__ = ["placement_figure", "plot_placement", "plot_timeline"]

_DEVICE, _BUS = 0.55, 0.25  # heights, where the rows of two devices are one apart
_LABELLED_NODES = 30
_LABELLED_DEVICES = 24
_SWEEPS = 8


def plot_placement(placement: Placement, ax: Axes | None = None) -> Axes:
    """Draw the graph from left to right by depth, coloured by device; the larger a node, the more work it has.

    Edges within a device are light, edges between devices dark. Small graphs carry the nodes' names.
    """
    ax = axes_of(ax, 11, 4.5)
    instance, graph, device = placement.instance, placement.instance.graph, placement.device
    points = placed(graph, depth_columns(graph), sweeps=_SWEEPS, inertia=0.0)
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
