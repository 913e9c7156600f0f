"""Fronts of serving questions, and default rules over optima."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from instances import Bound
from instances.runtimes.layer_cut import layers_in_words
from instances.runtimes.serving_front import Front
from mtpp.plots.style import axes_of, legend_beside, plain

__all__ = ["front_figure", "plot_front", "plot_rules"]

_MARKS = "os^Dv"


def plot_front(front: Front, others: Mapping[str, tuple[float, float]] | None = None, ax: Axes | None = None) -> Axes:
    """Context over bottleneck of what no cut beats, each point with its layers.

    Parameters
    ----------
    front : Front
    others : mapping of str to (float, float), optional
        Bottleneck and context of other cuts by name, such as those of default rules.
    """
    ax = axes_of(ax, 7.5, 4)
    points = [point for point in front.points if point.capacity < math.inf]
    question = front.instance
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
    ax.set_xlabel(f"bottleneck [{question.instance.time_unit}]")
    ax.set_ylabel("context of each sequence [tokens]")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.margins(x=0.15, y=0.15)
    plain(ax)
    legend_beside(ax)
    return ax


def front_figure(front: Front, bound: Bound | None = None) -> Figure:
    """Context over bottleneck of what no cut beats; its first point is the bound."""
    figure = plot_front(front).figure
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
