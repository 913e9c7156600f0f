"""Common style of all pictures: axes, plain frames, legends beside, colours, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import LogLocator, NullLocator

from instances.json_files import check_writable

Colour = tuple[float, float, float, float]

#: Up to so many colours are told apart by hue.
_HUES = 10


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure of that size [inches]."""
    return Figure(figsize=(width, height), layout="constrained").add_subplot() if ax is None else ax


def plain(ax: Axes) -> None:
    """Leave the frame open above and on the right."""
    ax.spines[["top", "right"]].set_visible(False)


def legend_beside(ax: Axes, **options: Any) -> Legend:
    """Explain what is drawn on the right of the axes; options are those of `Axes.legend`."""
    usual = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "frameon": False, "fontsize": "small"}
    return ax.legend(**(usual | options))


def with_legend(ax: Axes, **options: Any) -> Axes:
    """A light grid, a plain frame and a legend beside, for which the options are."""
    ax.grid(color="0.92")
    plain(ax)
    legend_beside(ax, **options)
    return ax


def readable_log(axis: Axis) -> None:
    """Ticks at 1, 2, 5, 10 … on a logarithmic axis, written as plain numbers."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def colours(count: int) -> list[Colour]:
    """Colours of blocks, stages or devices."""
    if count <= _HUES:
        return [matplotlib.colormaps["tab10"](i) for i in range(count)]
    return [matplotlib.colormaps["turbo"](x) for x in np.linspace(0.03, 0.95, count)]


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
