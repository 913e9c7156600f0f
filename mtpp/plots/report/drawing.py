"""Pictures of a page as SVG: stacked bars, timelines, points; a name appears where the pointer is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mtpp.plots.report.markup import text
from mtpp.text.numbers import Scale

__all__ = ["Bar", "Line", "hue", "legend", "stacked_bars", "svg", "timeline"]

_LEFT, _WIDTH, _ROW = 70, 960, 22
_TICKS = 5
_MOST_BARS = 3000
_MOST_ROWS = 128
_GOLDEN_ANGLE = 137.50776


class Bar(NamedTuple):
    """Part of a row between two times."""

    row: int
    start: float
    end: float
    kind: str  # class of the style, or a colour
    title: str  # shown at the pointer
    low: float = 0.0  # part of the row's height from which it begins, from 0 to 1
    high: float = 1.0


class Line(NamedTuple):
    """Vertical line across all rows."""

    at: float
    kind: str  # class of the style
    label: str


def hue(number: int) -> str:
    """Colour of a stage or device: those that follow each other differ much, in light and in dark."""
    return f"hsl({round(210 + number * _GOLDEN_ANGLE) % 360} 55% {(50, 58, 44)[number % 3]}%)"


def legend(kinds: Mapping[str, str]) -> str:
    """Words beside a square of each class."""
    keys = (f"<span class='key {kind}'></span>{text(words)}" for kind, words in kinds.items())
    return f"<p>{''.join(keys)}</p>"


def svg(width: float, height: float, body: str) -> str:
    """A picture of a size in pixels, which scrolls where there is less room."""
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return f'<div class="wide"><svg {size} role="img">{body}</svg></div>'


def stacked_bars(
    labels: Sequence[str],
    parts: Mapping[str, Sequence[float]],
    scale: Scale,
    lines: Iterable[Line] = (),
    names: str = "stage",
) -> str:
    """A row for each label, in which the parts stand side by side; of many rows the longest.

    Parameters
    ----------
    labels : sequence of str
    parts : mapping of str to sequence of float
        Class of the style to a number a row, 0 or more, in the unit that `scale` divides.
    scale : Scale
        Of the axis.
    lines : iterable of Line
    names : str
        What a row is.
    """
    sums = [sum(row) for row in zip(*parts.values(), strict=True)]
    longest = sorted(range(len(labels)), key=lambda i: -sums[i])[:_MOST_ROWS]
    bars = []
    for row, i in enumerate(sorted(longest)):
        start = 0.0
        for kind, values in parts.items():
            if 0 < values[i] < math.inf:
                title = f"{names} {labels[i]}: {kind} {scale.cell(values[i])} {scale.unit}"
                bars.append(Bar(row, start, start + values[i], kind, title))
                start += values[i]
    shown = [labels[i] for i in sorted(longest)]
    left_out = len(labels) - len(shown)
    note = f'<p class="soft">The {len(shown)} longest of {len(labels)} rows.</p>' if left_out else ""
    return _rows(shown, bars, scale, list(lines)) + note


def timeline(labels: Sequence[str], bars: Sequence[Bar], scale: Scale, lines: Iterable[Line] = ()) -> str:
    """A row for each label, with its bars; of many rows the first, and of many bars neighbours are one.

    Parameters
    ----------
    labels : sequence of str
    bars : sequence of Bar
        At most one at a time in each part of a row, in the unit that `scale` divides.
    scale : Scale
        Of the axis.
    lines : iterable of Line
    """
    shown = [bar for bar in bars if bar.row < _MOST_ROWS]
    end = max((bar.end for bar in shown), default=0.0)
    gap, notes = end / _WIDTH / 4, []
    if len(labels) > _MOST_ROWS:
        notes.append(f"The first {_MOST_ROWS} of {len(labels)} rows.")
    if len(shown) > _MOST_BARS:
        notes.append(f"{len(shown)} intervals; neighbours of a kind are drawn as one.")
    while len(shown) > _MOST_BARS:
        shown, gap = _merged(shown, gap), gap * 2
    return _rows(labels[:_MOST_ROWS], shown, scale, list(lines)) + (
        f'<p class="soft">{" ".join(notes)}</p>' if notes else ""
    )


def _merged(bars: Sequence[Bar], gap: float) -> list[Bar]:
    """Join neighbours of a row and kind that are no more than `gap` apart."""
    found: list[Bar] = []
    for bar in sorted(bars, key=lambda bar: (bar.row, bar.low, bar.kind, bar.start)):
        last = found[-1] if found else None
        same = last is not None and (last.row, last.low, last.kind) == (bar.row, bar.low, bar.kind)
        if last is not None and same and bar.start - last.end <= gap:
            found[-1] = last._replace(end=max(last.end, bar.end), title="several")
        else:
            found.append(bar)
    return found


def _rows(labels: Sequence[str], bars: Sequence[Bar], scale: Scale, lines: Sequence[Line]) -> str:
    ends = [bar.end for bar in bars] + [line.at for line in lines if math.isfinite(line.at)]
    end = max(ends, default=0.0) or 1.0
    factor, bottom, top = _WIDTH / end, _ROW * len(labels) + 8, 6 + 14 * len(lines)
    body = [_axis(end, factor, scale, top, bottom)]
    for row, label in enumerate(labels):
        body.append(f'<text x="{_LEFT - 8}" y="{top + _ROW * row + 15}" text-anchor="end">{text(label, 10)}</text>')
    for bar in bars:
        inner = _ROW - 5
        y, height = top + _ROW * bar.row + 2 + inner * bar.low, inner * (bar.high - bar.low)
        fill = f'class="hair {bar.kind}"' if bar.kind.isalpha() else f'class="hair" fill="{bar.kind}"'
        place = f'x="{_LEFT + bar.start * factor:.1f}" y="{y:.0f}"'
        size = f'width="{max(0.5, (bar.end - bar.start) * factor):.1f}" height="{height:.0f}"'
        body.append(f"<rect {fill} {place} {size}><title>{text(bar.title, 200)}</title></rect>")
    for i, line in enumerate(line for line in lines if math.isfinite(line.at)):
        x = _LEFT + line.at * factor
        anchor = "end" if line.at > end / 2 else "start"
        body.append(f'<path class="{line.kind}" d="M{x:.1f} {top - 4}V{top + bottom}"/>')
        shift = -4 if anchor == "end" else 4
        body.append(f'<text x="{x + shift:.1f}" y="{12 + 14 * i}" text-anchor="{anchor}">{text(line.label)}</text>')
    return svg(_LEFT + _WIDTH + 40, top + bottom + 34, "".join(body))


def _axis(end: float, factor: float, scale: Scale, top: int, bottom: int) -> str:
    """Ticks at round numbers of the unit."""
    step = 10.0 ** math.floor(math.log10(end / scale.size / _TICKS))
    step *= next(size for size in (1, 2, 5, 10) if end / scale.size / (step * size) <= _TICKS)
    ticks = []
    for i in range(math.floor(end / scale.size / step * (1 + 1e-9)) + 1):
        x = _LEFT + i * step * scale.size * factor
        ticks.append(f'<path class="grid" d="M{x:.1f} {top}V{top + bottom}"/>')
        number = f"{i * step:.10g}"
        ticks.append(f'<text class="soft" x="{x:.1f}" y="{top + bottom + 15}" text-anchor="middle">{number}</text>')
    place = f'x="{_LEFT + _WIDTH}" y="{top + bottom + 30}"'
    return "".join(ticks) + f'<text class="soft" {place} text-anchor="end">[{text(scale.unit)}]</text>'
