"""Pictures of runs: profiles and progress."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from instances import InputError, Instance, Result
from instances.results import A, Moment, Q
from mtpp.plots.style import axes_of, plain, readable_log, with_legend
from mtpp.runs.statistics import performance_ratios
from mtpp.text.numbers import Scale

# Pictures of progress: bottleneck and bound over time, and the method that ran meanwhile.


# Inches: of the picture, of the upper part, of a row of the lower part.
_WIDTH, _HEIGHT, _ROW = 8.0, 3.4, 0.24
_UPPER, _LOWER = "black", "tab:red"
# Turns too short to be seen are drawn this part of all time wide.
_VISIBLE = 0.003


def plot_trace(result: Result[Q, A]) -> Figure:
    """Plot best cost and best bound over time [s], with a row of turns for each method below.

    Parameters
    ----------
    result : Result
        What `mtpp.certify` or another function has returned, not what was read from a file. Costs are in a unit that
        fits, and time is that of `Result.trace`.

    Raises
    ------
    InputError
        If it has no trace.
    """
    if not isinstance(result, Result):
        raise InputError(f"The trace of a result is drawn, of no {type(result).__name__}.")
    if not result.moments:
        raise InputError(f"{result.instance.label}: this result has no trace; draw that of a run, not of a file.")
    methods = list(dict.fromkeys(moment.method for moment in result.moments))
    rows = _ROW * (len(methods) + 1)
    figure = Figure(figsize=(_WIDTH, _HEIGHT + rows), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(_HEIGHT, rows))
    _draw_bounds(above, result)
    _draw_turns(below, result.moments, methods)
    for ax in (above, below):
        plain(ax)
    return figure


def _draw_bounds(ax: Axes, result: Result[Q, A]) -> None:
    moments, last = result.moments, result.moments[-1]
    scale = Scale.of_times([moment.cost or moment.bound or 0.0 for moment in moments], result.instance.time_unit)
    name = result.instance.cost_name
    by = None if result.bound is None else result.bound.method
    for label, values, colour in (
        (f"best {name}, {{}}", [moment.cost for moment in moments], _UPPER),
        (f"best bound, {{}} ({by})", [moment.bound for moment in moments], _LOWER),
    ):
        points = [
            (moment.seconds, value / scale.size)
            for moment, value in zip(moments, values, strict=True)
            if value is not None and value < math.inf
        ]
        if not points:
            continue
        times, heights = zip(*points, strict=True)
        changes = [i for i, height in enumerate(heights) if i == 0 or height != heights[i - 1]]
        text = label.format(f"{scale.cell(points[-1][1] * scale.size)} {scale.unit}")
        ax.step(times, heights, where="post", label=text, color=colour, marker=".", markevery=changes)
    if last.cost is not None and last.bound:
        ax.set_title(f"ratio {last.cost / last.bound:.4f} after {last.seconds:.3g} s", loc="left", fontsize="medium")
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"{'time of a block' if isinstance(result.instance, Instance) else name} [{scale.unit}]")
    if ax.lines:
        ax.legend(frameon=False, fontsize="small")


def _draw_turns(ax: Axes, moments: Sequence[Moment], methods: Sequence[str]) -> None:
    least = _VISIBLE * (max(moment.seconds for moment in moments) or 1.0)
    for row, method in enumerate(methods):
        ends = {moment.began: moment.seconds for moment in moments if moment.method == method}
        drawn = [(begin, max(least, end - begin)) for begin, end in ends.items()]
        ax.broken_barh(drawn, (row - 0.4, 0.8), color="tab:blue", edgecolor="white", linewidth=0.5)
    ax.set_yticks(range(len(methods)), methods, fontsize="small")
    ax.set_ylim(len(methods) - 0.5, -0.5)
    ax.set_ylabel("at work")
    ax.set_xlabel("time since the begin [s]")
    ax.set_xlim(left=0)


# Pictures of methods side by side: distributions of ratios, performance profiles, means with intervals, seconds.


#: Part of all ratios that an axis has room for; what lies beyond is told in words.
_SHOWN = 0.98
#: An axis is at least so long, and so much longer than its last ratio.
_SHORTEST, _MARGIN = 1.02, 1.02
_POINTS, _MIDDLE = "#3b5b92", "#c44e52"


def plot_running_times(seconds: Mapping[str, Sequence[float]], ax: Axes | None = None) -> Axes:
    """Distribution of the seconds of each run, by method, on a logarithmic axis (Figure 4 of the paper)."""
    ax = axes_of(ax, 8, 0.5 * len(seconds) + 1.4)
    labels = list(seconds)
    for row, label in enumerate(labels):
        times = np.maximum(np.sort(np.asarray(seconds[label], dtype=float)), 1e-4)
        jitter = 0.14 * np.sin(np.arange(len(times)) * 2.4)  # spread evenly, the same in every drawing
        ax.scatter(times, row + jitter, s=12, alpha=0.55, color=_POINTS, linewidths=0, zorder=3)
        median = {"color": _MIDDLE, "linewidth": 1.6}
        ax.boxplot(
            times, positions=[row], orientation="horizontal", widths=0.55, whis=(0, 100), manage_ticks=False,
            medianprops=median,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set_xlabel("seconds (line: median, box: quartiles, whiskers: all runs)")
    ax.grid(axis="x", color="0.9")
    plain(ax)
    return ax


def plot_ratio_profile(ratios: Mapping[str, Sequence[float]], ax: Axes | None = None) -> Axes:
    """Plot, by method, the fraction of instances with at most a ratio; NaN means no partition.

    The axis ends where 98 % of the ratios are passed; how many lie beyond is written below.
    """
    return _profiles({label: np.asarray(values) for label, values in ratios.items()}, "bottleneck over best bound", ax)


def plot_performance(costs: Mapping[str, ArrayLike], ax: Axes | None = None) -> Axes:
    """Performance profile (Dolan and Moré): fraction of the questions whose cost is within a factor of the best.

    Parameters
    ----------
    costs : mapping of names to (questions,) floats
        NaN or infinite where a method failed, which is never within any factor.
    ax : matplotlib.axes.Axes, optional
        A new figure by default.
    """
    return _profiles(performance_ratios(costs), "cost over that of the best method, τ", ax)


def plot_intervals(cells: pd.DataFrame, label: str, ax: Axes | None = None) -> Axes:
    """Plot means with intervals, a row for each method; published values are hollow diamonds.

    Parameters
    ----------
    cells : DataFrame
        Columns row, column, value, low, high, and perhaps `theirs`, the value of others in the same place.
    label : str
        Label of the axis, with unit.
    ax : matplotlib.axes.Axes, optional
        A new figure by default.
    """
    rows, columns = (list(dict.fromkeys(cells[name])) for name in ("row", "column"))
    ax = axes_of(ax, 8, 0.6 * len(rows) + 1.6)
    step = 0.7 / max(1, len(columns))
    for i, column in enumerate(columns):
        subset = cells[cells["column"] == column]
        places = np.array([rows.index(row) for row in subset["row"]]) + (i - (len(columns) - 1) / 2) * step
        colour = matplotlib.colormaps["viridis"](i / max(1, len(columns)))
        width = np.nan_to_num(
            np.array([subset["value"] - subset["low"], subset["high"] - subset["value"]], dtype=float)
        )
        ax.errorbar(
            subset["value"], places, xerr=np.maximum(width, 0), fmt="o", color=colour, markersize=4, linewidth=1.4,
            label=str(column),
        )  # fmt: skip
        if "theirs" in subset:
            ax.plot(subset["theirs"], places, "D", color=colour, fillstyle="none", markersize=5, linestyle="none")
    if "theirs" in cells:
        ax.plot([], [], "D", color="0.3", fillstyle="none", markersize=5, linestyle="none", label="the paper")
    if len(cells) and np.nanmax(cells["value"]) > 3 * np.nanmin(cells["value"]) > 0:
        ax.set_xscale("log")
        readable_log(ax.xaxis)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel(f"{label}; bars: 95 % intervals")
    ax.grid(axis="x", color="0.9")
    return with_legend(ax)


def _profiles(ratios: Mapping[str, NDArray[np.float64]], label: str, ax: Axes | None) -> Axes:
    """Plot the cumulative share of values, as steps over a logarithmic axis."""
    ax = axes_of(ax, 8, 4.5)
    finite = np.array([r for values in ratios.values() for r in values if np.isfinite(r)])
    end = _end(finite)
    hues = matplotlib.colormaps["tab10"].colors  # type: ignore[attr-defined]
    for i, (name, values) in enumerate(ratios.items()):
        reached = np.sort(values[np.isfinite(values)])
        counted = reached[reached <= end]
        share = np.arange(len(counted) + 1) / max(1, len(values))
        ax.step(
            np.concatenate(([1.0], counted, [end])),
            np.append(share, share[-1]),
            where="post",
            label=name,
            color=hues[i % len(hues)],
            linestyle=("-", "--", ":")[i // len(hues) % 3],
            linewidth=1.3 + 1.5 * (1 - i / len(ratios)),  # lines on top of each other stay visible
        )
    beyond = np.count_nonzero(finite > end)
    ax.set_xscale("log")
    if end > 3:
        readable_log(ax.xaxis)
    else:
        ticks = matplotlib.ticker.MaxNLocator(8).tick_values(1, end)
        ax.set_xticks([tick for tick in ticks if 1 <= tick <= end])
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    ax.set_xlim(1, end)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(label if not beyond else f"{label} ({beyond} of {len(finite)} beyond, up to {finite.max():.3g})")
    ax.set_ylabel("fraction of instances")
    ax.grid(color="0.9")
    return with_legend(ax)


def _end(finite: NDArray[np.float64]) -> float:
    """End of the axis: just beyond nearly all ratios, or the largest if it is near."""
    if not len(finite):
        return _SHORTEST
    largest, nearly = float(finite.max()), float(np.quantile(finite, _SHOWN, method="higher"))
    near = largest if largest <= 1 + 1.5 * (nearly - 1) else nearly
    return max(_SHORTEST, near * _MARGIN)
