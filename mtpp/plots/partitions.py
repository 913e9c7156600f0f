"""Pictures of partitions, placements and fronts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike, NDArray

from instances import Bound, ComputationGraph, Partition, Result
from instances.partitioning.serving import ServedPartition
from instances.placement.placement import Placement
from instances.runtimes.layers import layers_in_words
from instances.runtimes.serving_front import Front
from instances.serving.answer import Deployment
from instances.serving.problem import DeploymentInstance
from mtpp.plots.report.partitions import stage_section
from mtpp.plots.report.plans import step_of_placement
from mtpp.plots.sections import LABELLED_NODES, FloatArray, block_columns, depth_columns, placed
from mtpp.plots.style import axes_of, chart_height, colour, draw, legend_beside, readable_log, with_legend
from mtpp.text.numbers import Scale, time_in_words
from mtpp.text.tables import drawn

# Helpers to draw graphs: edges, names of nodes.


def draw_edges(ax: Axes, curves: FloatArray, inside: NDArray[np.bool_], alpha: float) -> None:
    """Draw (m, p, 2) curves: light where both ends are in one part, dark between parts."""
    for mask, grey in ((inside, "0.6"), (~inside, "0.1")):
        ax.add_collection(LineCollection(list(curves[mask]), colors=grey, linewidths=0.7, alpha=alpha, zorder=1))


def draw_names(ax: Axes, graph: ComputationGraph, points: FloatArray, above: float) -> None:
    """Write the names of a small graph's nodes `above` points over them."""
    if graph.n <= LABELLED_NODES:
        for name, (x, y) in zip(graph.names, points, strict=True):
            ax.annotate(drawn(name), (x, y), xytext=(0, above), textcoords="offset points", ha="center", fontsize=7)


# Pictures: each function takes data and optional Axes, draws, and returns the Axes.


_ROOM_FOR_LABELS = 30
_SWEEPS = 12


def plot_partition(
    partition: Partition, ax: Axes | None = None, values: ArrayLike | None = None, label: str = ""
) -> Axes:
    """Draw the graph from left to right, block by block, coloured by block.

    Edges within a block are light, edges between blocks dark. Small graphs carry the nodes' names.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        A new figure by default.
    values : (n,) floats, optional
        Numbers to colour the nodes by instead, such as their prices.
    label : str
        Meaning of the values, for the colour bar.
    """
    ax = axes_of(ax, 11, 4.5)
    graph, block = partition.instance.graph, partition.block
    layer, bounds = block_columns(partition)
    points = placed(graph, layer, sweeps=_SWEEPS, inertia=0.5)
    fills = [colour(b) for b in range(partition.instance.k)]
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


def partition_figure(partition: Partition, bound: Bound | None = None) -> Figure:
    """Figure of the graph coloured by block, and below it the costs of the blocks."""
    height = chart_height(partition.instance.k)
    figure = Figure(figsize=(11, 4.5 + height), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(4.5, height))
    plot_partition(partition, above)
    draw(stage_section(partition, bound), below)
    return figure


def _curves(points: FloatArray, edges: NDArray[np.int64]) -> FloatArray:
    """(m, 17, 2) points of curves for the edges, bent around nodes in columns between."""
    t = np.linspace(0, 1, 17)[:, np.newaxis]
    source, target = points[edges[:, 0], np.newaxis], points[edges[:, 1], np.newaxis]
    curves = source + t * (target - source)
    span = target[:, 0, 0] - source[:, 0, 0]
    bend = np.where(span > 1, 0.15 * np.sqrt(np.maximum(0, span)), 0.0) * np.where(edges[:, 0] % 2, -1, 1)
    curves[:, :, 1] += bend[:, np.newaxis] * (4 * t * (1 - t)).T
    return curves


# Pictures of placements: the graph coloured by device, and the activity of devices and buses during a step.


_LABELLED_DEVICES = 24
_SWEEPS_OF_PLACEMENT = 8


def plot_placement(placement: Placement, ax: Axes | None = None) -> Axes:
    """Draw the graph by depth from left to right, coloured by device, with areas by work.

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
    for d in range(instance.devices):
        x, y = points[device == d].T
        ax.scatter(
            x,
            y,
            s=size[device == d],
            color=colour(d),
            edgecolors="white",
            linewidths=0.4,
            zorder=2,
            label=f"device {d}",
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


def placement_figure(placement: Placement, bound: Bound | None = None) -> Figure:
    """Figure of the graph coloured by device, and below it the timeline of a step with the bound."""
    instance, timeline = placement.instance, placement.timeline
    height = chart_height(2 * instance.devices)
    figure = Figure(figsize=(11, 4.5 + height), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(4.5, height))
    plot_placement(placement, above)
    draw(step_of_placement(placement, bound), below)
    busy = (timeline.end - timeline.start).sum() / (instance.devices * placement.step_time)
    time = time_in_words(placement.step_time, instance.graph.time_unit)
    title = f"step time {drawn(time)}, {placement.relative_time:.3f} of one device; devices busy {busy:.0%}; "
    below.set_title(f"{title}below each device its bus, in the colour of the receiver", loc="left", fontsize="medium")
    return figure


# Fronts of serving questions, and default rules over optima.


_MARKS = "os^Dv"


def plot_front(
    front: Sequence[ServedPartition], others: Mapping[str, tuple[float, float]] | None = None, ax: Axes | None = None
) -> Axes:
    """Plot usable context over time per batch for Pareto-optimal cuts, labelled by layers.

    Parameters
    ----------
    front : sequence of ServedPartition
        Cuts, from the fastest one to the one with the largest context.
    others : mapping of str to (float, float), optional
        Time a batch and context of other cuts by name, such as those of default rules.
    """
    ax = axes_of(ax, 7.5, 4)
    by_context = {point.usable_context: point for point in reversed(front)}  # of those with as much the fastest
    points = [point for context, point in reversed(by_context.items()) if context < math.inf]
    scale = Scale.of_times([point.cost for point in points], front[0].partition.instance.time_unit)
    times, contexts = [point.cost / scale.size for point in points], [point.usable_context for point in points]
    ax.step(times, contexts, where="post", color="0.7", zorder=1)
    ax.plot(times, contexts, "o", color="#3b5b92", label="beaten by no cut (proved)", zorder=2)
    for time, point in list(zip(times, points, strict=True))[:: max(1, len(points) // 4)]:
        counts = layers_in_words(point.partition)
        right = time > (times[0] + times[-1]) / 2
        ax.annotate(
            counts,
            (time, point.usable_context),
            (-7 if right else 7, -11),
            textcoords="offset points",
            fontsize="small",
            horizontalalignment="right" if right else "left",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
    for i, (name, (time, context)) in enumerate((others or {}).items()):
        colour = matplotlib.colormaps["tab10"](i + 1)
        mark = _MARKS[(i + 1) % len(_MARKS)]
        ax.plot(
            time / scale.size, context, mark, color=colour, label=name, zorder=3, fillstyle="none", markersize=9 + 2 * i
        )
    ax.set_xlabel(f"time a batch [{scale.unit}]")
    ax.set_ylabel("context of each sequence [tokens]")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.margins(x=0.15, y=0.15)
    return with_legend(ax)


def front_figure(front: Front, bound: Bound | None = None) -> Figure:
    """Figure of usable context over time per batch for Pareto-optimal cuts."""
    figure = plot_front(front.points).figure
    assert isinstance(figure, Figure)
    return figure


def plot_deployments(front: Sequence[Result[DeploymentInstance, Deployment]], ax: Axes | None = None) -> Axes:
    """Plot tokens a second over time per token, a step line for each context, with bounds.

    Parameters
    ----------
    front : sequence of Result
        As `mtpp.serve` returns them with `front`.
    """
    ax = axes_of(ax, 7.5, 4)
    for i, context in enumerate(dict.fromkeys(result.instance.resident_tokens for result in front)):
        points = [(r, r.answer) for r in front if r.instance.resident_tokens == context and r.answer is not None]
        times, rates = [answer.tpot * 1e3 for _, answer in points], [answer.rate for _, answer in points]
        ax.step(times, rates, "o-", where="post", color=colour(i), label=f"{math.ceil(context)} tokens")
        over = [(answer.tpot * 1e3, 1 / r.bound.value) for r, answer in points if r.bound and not r.proved]
        if over:
            ax.plot(*zip(*over, strict=True), "v", color=colour(i), fillstyle="none", label="no more (proved)")
    ax.set_xscale("log")
    readable_log(ax.xaxis)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("time of a token [ms]")
    ax.set_ylabel("rate [tokens/s]")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.margins(x=0.15, y=0.15)
    ax.set_title(drawn(front[0].instance.label), loc="left", fontsize="medium")
    return with_legend(ax, title="context")


def plot_rules(
    labels: Sequence[str], ratios: Mapping[str, Sequence[float | None]], quantity: str, ax: Axes | None = None
) -> Axes:
    """Plot how far each default rule exceeds the optimum, a row for each question.

    Parameters
    ----------
    labels : sequence of str
        Names of the questions, from top to bottom.
    ratios : mapping of str to sequence of float
        For each rule, one number for each question; None where its cut does not fit.
    quantity : str
        Quantity of which the ratios are, such as "bottleneck".
    """
    ax = axes_of(ax, 7.5, 1.2 + 0.22 * len(labels))
    places = range(len(labels))
    for i, (name, values) in enumerate(ratios.items()):
        defined = [(value, place) for value, place in zip(values, places, strict=True) if value is not None]
        shift = 0.26 * (i - (len(ratios) - 1) / 2)
        ax.plot(
            [value for value, _ in defined],
            [place + shift for _, place in defined],
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
    return with_legend(ax)
