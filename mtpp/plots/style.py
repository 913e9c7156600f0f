"""Common style of all pictures: axes, frames, legends beside the axes, colours, files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from colorsys import hls_to_rgb
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from instances.json_files import check_writable
from mtpp.plots.sections import KINDS, Chart, Kind, Section, hue, shortened
from mtpp.text.tables import drawn

Colour = tuple[float, float, float]

#: Height of a bar whose row is one high, and where the axis ends, of its last bar or mark.
_ROW, _MARGIN = 0.9, 1.005
#: Parts of the axis from which on a bar has white edges, and two characters within.
_EDGED, _LABELLED = 1 / 400, 1 / 70
_NAMED, _HIGHEST = 48, 24  # rows whose names do not touch, and that make a picture higher
_LEGEND = 26  # characters of a line of a legend
_PALEST = 0.35
_MARKS: Mapping[str, Mapping[str, Any]] = {
    "limit": {"color": "0.45", "linewidth": 1.2, "linestyle": ":"},
    "bound": {"color": "black", "linewidth": 1.2, "linestyle": "--"},
}


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure of that size [inches]."""
    return Figure(figsize=(width, height), layout="constrained").add_subplot() if ax is None else ax


def plain(ax: Axes) -> None:
    """Remove the frame at the top and on the right."""
    ax.spines[["top", "right"]].set_visible(False)


def legend_beside(ax: Axes, **options: Any) -> Legend:
    """Add a legend to the right of the axes; options are those of `Axes.legend`."""
    usual = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "frameon": False, "fontsize": "small"}
    return ax.legend(**(usual | options))


def with_legend(ax: Axes, **options: Any) -> Axes:
    """Add a plain frame and a legend with these options."""
    plain(ax)
    legend_beside(ax, **options)
    return ax


def readable_log(axis: Axis) -> None:
    """Ticks at 1, 2, 5, 10 … on a logarithmic axis, written as plain numbers."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def colour(kind: Kind, shade: float = 1.0) -> Colour:
    """Colour of a kind of bars, or of a numbered stage or device; paler for smaller shades."""
    if isinstance(kind, str):
        full = matplotlib.colors.to_rgb(KINDS[kind])
    else:
        degrees, saturation, lightness = hue(kind)
        full = hls_to_rgb(degrees / 360, lightness / 100, saturation / 100)
    red, green, blue = (1 - (1 - part) * (_PALEST + (1 - _PALEST) * shade) for part in full)
    return red, green, blue


def chart_height(rows: int) -> float:
    """Height of a chart in a figure of several [inches]."""
    return 1.4 + 0.32 * min(rows, _HIGHEST)


def draw(section: Section, ax: Axes | None = None) -> Axes:
    """Draw the chart of a section: rows of bars, the first on top, with marks across them and a legend beside.

    Parameters
    ----------
    section : Section
        With a chart.
    ax : matplotlib.axes.Axes, optional
        A new figure by default.
    """
    chart = section.chart
    assert chart is not None
    ax = axes_of(ax, 11, chart_height(len(chart.rows)))
    size, end = chart.scale.size, chart.end / chart.scale.size
    boxes, fills, edges = [], [], []
    for y, row in enumerate(chart.rows):
        for bar in row.bars:
            start, width, height = bar.start / size, (bar.end - bar.start) / size, _ROW * (bar.high - bar.low)
            bottom = y - _ROW / 2 + _ROW * bar.low
            boxes.append(Rectangle((start, bottom), width, height))
            fills.append(colour(bar.kind, bar.shade))
            edges.append("white" if width > end * _EDGED else fills[-1])  # so that a short one can be seen
            if bar.label and width > end * _LABELLED * max(1, len(bar.label) / 2):
                middle = start + width / 2, bottom + height / 2
                ax.text(*middle, drawn(bar.label), ha="center", va="center", fontsize=7, clip_on=True)
    ax.add_collection(PatchCollection(boxes, facecolors=fills, edgecolors=edges, linewidths=0.3))
    keys: list[Artist] = [
        Rectangle((0, 0), 1, 1, color=colour(kind), label=drawn(words)) for kind, words in chart.legend.items()
    ]
    for mark in chart.marks:
        if math.isfinite(mark.at):
            keys.append(ax.axvline(mark.at / size, label=drawn(mark.label), **_MARKS[mark.kind]))
    if keys:
        legend_beside(ax, handles=keys, labels=[fill(str(key.get_label()), _LEGEND) for key in keys])
    ax.set_xlim(0, end * _MARGIN)
    ax.set_ylim(len(chart.rows) - 0.4, -0.6)
    places = range(0, len(chart.rows), -(-len(chart.rows) // _NAMED) or 1)
    ax.set_yticks(places, [drawn(shortened(chart.rows[i].label, 20)) for i in places], fontsize="small")
    ax.set_xlabel(chart.axis if chart.axis == chart.scale.unit else f"{chart.axis} [{drawn(chart.scale.unit)}]")
    ax.set_ylabel(chart.names)
    ax.set_title(section.title, loc="left", fontsize="medium")
    plain(ax)
    return ax


def figure_of(*charts: tuple[str, Chart | None]) -> Figure:
    """Figure of charts one below the other, each with its title."""
    drawings = [Section(drawn(title), chart=chart) for title, chart in charts if chart is not None]
    heights = [chart_height(len(chart.rows)) for _, chart in charts if chart is not None]
    figure = Figure(figsize=(11, sum(heights) + 0.5), layout="constrained")
    axes = figure.subplots(len(heights), squeeze=False, height_ratios=heights)
    for drawing, ax in zip(drawings, axes[:, 0], strict=True):
        draw(drawing, ax)
    return figure


def save_figure(ax_or_figure: Axes | Figure, path: str | Path) -> None:
    """Write a picture in the format of its suffix, such as ``.png`` or ``.svg``.

    Raises
    ------
    InputError, OSError
        If something that is no regular file is there, or the file cannot be written.
    """
    check_writable(path)
    figure = ax_or_figure if isinstance(ax_or_figure, Figure) else ax_or_figure.get_figure(root=True)
    assert figure is not None
    figure.savefig(path, dpi=150, bbox_inches="tight")
