"""Pictures of progress: bottleneck and bound over time, and the method that ran meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from mtpp.certifying.loop import Turn
from mtpp.plots.style import plain
from mtpp.text.numbers import Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_progress"]

# Inches: of the picture, of the upper part, of a row of the lower part.
_WIDTH, _HEIGHT, _ROW = 8.0, 3.4, 0.24
_UPPER, _LOWER = "black", "tab:red"
# Turns too short to be seen are drawn this part of all time wide.
_VISIBLE = 0.003


def plot_progress(turns: Sequence[Turn], time_unit: str) -> Figure:
    """Draw the best bottleneck and the best bound behind each step, and below it a row of turns for each method.

    Parameters
    ----------
    turns : sequence of Turn
        In their order, at least one.
    time_unit : str
        Of bottleneck and bound.
    """
    methods = list(dict.fromkeys(turn.method for turn in turns))
    rows = _ROW * (len(methods) + 1)
    figure = Figure(figsize=(_WIDTH, _HEIGHT + rows), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(_HEIGHT, rows))
    _draw_bounds(above, turns, time_unit)
    _draw_turns(below, turns, methods)
    for ax in (above, below):
        plain(ax)
    return figure


def _draw_bounds(ax: Axes, turns: Sequence[Turn], time_unit: str) -> None:
    scale, last = Scale.of_times([turn.bottleneck or turn.bound or 0.0 for turn in turns], time_unit), turns[-1]
    for name, by, values, colour in (
        ("best bottleneck", "", [turn.bottleneck for turn in turns], _UPPER),
        ("best bound", f" ({last.by})", [turn.bound for turn in turns], _LOWER),
    ):
        known = [(turn.end, value / scale.size) for turn, value in zip(turns, values, strict=True) if value is not None]
        if not known:
            continue
        times, heights = zip(*known, strict=True)
        changes = [i for i, height in enumerate(heights) if i == 0 or height != heights[i - 1]]
        label = f"{name}, {scale.cell(known[-1][1] * scale.size)} {scale.unit}{by}"
        ax.step(times, heights, where="post", label=label, color=colour, marker=".", markevery=changes)
    if last.bottleneck is not None and last.bound:
        ax.set_title(f"ratio {last.bottleneck / last.bound:.4f} after {last.end:.3g} s", loc="left", fontsize="medium")
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"time of a block [{scale.unit}]")
    if ax.lines:
        ax.legend(frameon=False, fontsize="small")


def _draw_turns(ax: Axes, turns: Sequence[Turn], methods: Sequence[str]) -> None:
    least = _VISIBLE * (max(turn.end for turn in turns) or 1.0)
    for row, method in enumerate(methods):
        bars = [(max(0.0, turn.end - turn.seconds), turn.seconds) for turn in turns if turn.method == method]
        drawn = [(begin, max(least, seconds)) for begin, seconds in bars]
        ax.broken_barh(drawn, (row - 0.4, 0.8), color="tab:blue", edgecolor="white", linewidth=0.5)
    ax.set_yticks(range(len(methods)), methods, fontsize="small")
    ax.set_ylim(len(methods) - 0.5, -0.5)
    ax.set_ylabel("at work")
    ax.set_xlabel("time since the begin [s]")
    ax.set_xlim(left=0)
