"""How bottleneck and bound came together over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.certificates.arms import Rung
from experiments.plots.style import axes_of, colours, legend_beside, plain
from experiments.quantities import Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_progress"]

# Height of the strip that says who is at work, as a part of the picture.
_STRIP = 0.05


def plot_progress(rungs: Sequence[Rung], time_unit: str, ax: Axes | None = None) -> Axes:
    """Draw the best bottleneck and the best bound behind each step, and what was at work meanwhile.

    Parameters
    ----------
    rungs : sequence of Rung
        In their order, at least one.
    time_unit : str
        Of bottleneck and bound.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    ax = axes_of(ax, 8.0, 4.5)
    scale = Scale.of_times([rung.bottleneck or rung.bound or 0.0 for rung in rungs], time_unit)
    for name, values, colour in (
        ("best bottleneck", [rung.bottleneck for rung in rungs], "black"),
        ("best bound", [rung.bound for rung in rungs], "tab:red"),
    ):
        known = [(rung.end, value / scale.size) for rung, value in zip(rungs, values, strict=True) if value is not None]
        if known:
            ax.step(*zip(*known, strict=True), where="post", label=name, color=colour, marker=".")
    low, high = ax.get_ylim()
    ax.set_ylim(low - 2 * _STRIP * (high - low), high)
    methods = list(dict.fromkeys(rung.method for rung in rungs))
    for method, hue in zip(methods, colours(len(methods)), strict=True):
        for number, rung in enumerate(rung for rung in rungs if rung.method == method):
            label = None if number else method
            ax.axvspan(rung.end - rung.seconds, rung.end, 0, _STRIP, color=hue, lw=0, label=label)
    ax.set_xlabel("time since the begin [s]")
    ax.set_ylabel(f"time of a block [{scale.unit}]")
    plain(ax)
    legend_beside(ax)
    return ax
