"""What is drawn in a picture, as text: independent of fonts, renderer and version of Matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

__all__ = ["drawing"]


def drawing(drawn: Figure | Axes) -> list[str]:
    """A line for each text, axis, line, area and set of points, with numbers of four figures, in units of the data."""
    figure = drawn if isinstance(drawn, Figure) else drawn.get_figure()
    assert isinstance(figure, Figure)
    suptitle = figure.get_suptitle()
    return [f"figure {suptitle}".rstrip(), *(line for ax in figure.axes for line in _contents(ax))]


def _contents(ax: Axes) -> Iterator[str]:
    for name, axis, limits in (("x", ax.xaxis, ax.get_xlim()), ("y", ax.yaxis, ax.get_ylim())):
        yield f"{name} {axis.get_label_text()!r}, {axis.get_scale()}, {_numbers(limits)}"
    titles = [ax.get_title(loc=loc) for loc in ("left", "center", "right")]
    yield f"title {' '.join(filter(None, titles))}".rstrip()
    for line in ax.get_lines():
        look = f"{to_hex(line.get_color())} {line.get_linestyle()} {line.get_marker()} {line.get_drawstyle()}"
        yield f"line {_label(line)}: {look}, {_numbers(line.get_xdata())} | {_numbers(line.get_ydata())}"
    for patch in ax.patches:
        yield f"area {_label(patch)}: {to_hex(patch.get_facecolor())} {_box(patch.get_path().vertices, patch)}"
    for collection in ax.collections:
        yield from _members(collection)
    for text in ax.texts:
        where = getattr(text, "xy", text.get_position())
        yield f"text {text.get_text()!r} at {_numbers(where)}, {text.get_ha()}"
    legend = ax.get_legend()
    if legend is not None:
        yield f"legend {[text.get_text() for text in legend.get_texts()]}"


def _members(collection: Collection) -> Iterator[str]:
    fills = list(dict.fromkeys(to_hex(colour) for colour in collection.get_facecolor()))
    values = collection.get_array()
    shown = "" if values is None else f" values {_numbers(values)}"
    if isinstance(collection, PathCollection):
        yield f"points {_label(collection)}: {fills}{shown} {_numbers(np.asarray(collection.get_offsets()))}"
        return
    for path in collection.get_paths():
        yield f"shape {_label(collection)}: {_box(path.vertices)}"
    yield f"shapes: {fills}{shown}"


def _label(artist: Any) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") else label


def _box(vertices: Any, patch: Any = None) -> str:
    """Corners of what is drawn, in units of the data."""
    points = np.asarray(vertices if patch is None else patch.get_patch_transform().transform(vertices))
    return f"{_numbers(points.min(axis=0))} to {_numbers(points.max(axis=0))}"


def _numbers(values: Any) -> str:
    return " ".join(f"{value:.4g}" for value in np.ravel(np.asarray(values, dtype=float)) + 0.0)
