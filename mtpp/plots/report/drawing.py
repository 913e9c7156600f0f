"""Markup and drawings of a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import ComputationGraph
from instances.errors import printable
from mtpp.plots.partitions import placed
from mtpp.text.numbers import Scale, bytes_in_words, time_in_words

# Pieces of HTML: escaped text, tables, sections, the page around them.
#
# Names come from files of strangers. `text` is the only way by which they get into a page.


_LONGEST = 60
_MOST_ROWS_OF_TABLE = 64

_STYLE = """
:root{--Back:#fff;--Card:#f6f7f9;--Ink:#1c2330;--Soft:#5d6677;--Line:#d5d9e0;--Good:#1a7f4b;--Warn:#9a6200;
--Bad:#b3261e;--Receive:#6aa9d6;--Work:#3f67a8;--Overflow:#c94c54;--Send:#e2a03f;--Params:#5a7fb8;
--States:#58a08a;--Peak:#c98fbd;--Forward:#4f8ac9;--Backward:#dd8a3c;--Weights:#5a9f68;--Move:#9b7fc0;
color-scheme:light dark}@media(prefers-color-scheme:dark){:root{--Back:#14171c;--Card:#1d2128;--Ink:#e4e7ec;
--Soft:#9aa3b2;--Line:#39404b;--Good:#58c48b;--Warn:#e0ac4c;--Bad:#f2776e;--Work:#6f97d8}}body{margin:0 auto;
max-width:1180px;padding:24px;background:var(--Back);color:var(--Ink);font:15px/1.5 system-ui,sans-serif}h1{
font-size:24px;margin:0 0 4px}h2{font-size:20px;margin:40px 0 8px;border-bottom:1px solid var(--Line);
padding-bottom:4px}h3{font-size:16px;margin:26px 0 6px}p{margin:6px 0}.soft{color:var(--Soft)}.good{
color:var(--Good)}.warn{color:var(--Warn)}.bad{color:var(--Bad)}.headline{font-size:18px;background:var(--Card);
border-radius:8px;padding:12px 16px}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;
font-variant-numeric:tabular-nums}th,td{padding:3px 10px 3px 0;text-align:right;
border-bottom:1px solid var(--Line);white-space:nowrap}th{color:var(--Soft);font-weight:600}th:first-child,
td:first-child,.words td,.words th{text-align:left}.words td{white-space:normal}details{margin:8px 0}summary{
cursor:pointer;color:var(--Soft)}pre{background:var(--Card);border-radius:8px;padding:10px 14px;overflow-x:auto;
font-size:13px}svg{display:block;font:12px system-ui,sans-serif}svg text{fill:var(--Ink)}svg .soft{
fill:var(--Soft)}svg .grid{stroke:var(--Line);fill:none}svg .limit{stroke:var(--Ink);stroke-dasharray:2 3}
svg .bound{stroke:var(--Good);stroke-width:2}svg .inside{stroke:var(--Soft);stroke-width:.7;opacity:.45;
fill:none}svg .across{stroke:var(--Ink);stroke-width:.9;opacity:.7;fill:none}svg rect:hover,svg circle:hover{
stroke:var(--Ink);stroke-width:2}svg .hair{stroke:var(--Back);stroke-width:.4}.receive,.stored{fill:var(--Receive);
background:var(--Receive)}.work{fill:var(--Work);background:var(--Work)}.overflow{fill:var(--Overflow);
background:var(--Overflow)}.send{fill:var(--Send);background:var(--Send)}.parameters{fill:var(--Params);
background:var(--Params)}.states{fill:var(--States);background:var(--States)}.activations,.working{fill:var(--Peak);
background:var(--Peak)}.forward{fill:var(--Forward);background:var(--Forward)}.backward,.gradients{fill:var(--Backward);
background:var(--Backward)}.weights{fill:var(--Weights);background:var(--Weights)}.transfer,.optimizer{fill:var(--Move);
background:var(--Move)}.allreduce{fill:var(--Soft);background:var(--Soft)}.spare{fill:var(--Line);
background:var(--Line)}.key{display:inline-block;width:11px;
height:11px;border-radius:2px;margin:0 5px 0 14px}@media print{body{max-width:none}}
"""

_HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    '<meta name="viewport" content="width=device-width"><meta name="referrer" content="no-referrer">'
)


def text(words: str, longest: int | None = _LONGEST) -> str:
    r"""Escape a text, so that it is read as text alone; the middle of one that is longer than `longest` is left out.

    Examples
    --------
    >>> text("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    shown = printable(words)
    if longest is not None and len(shown) > longest:
        shown = f"{shown[: longest // 2]}…{shown[-((longest - 1) // 2) :]}"
    return escape(shown)


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, words: bool = False, longest: int | None = _LONGEST
) -> str:
    """A table of texts, of which at most 64 rows are shown, and `longest` characters of each.

    One of `words` is aligned to the left.
    """
    lines = [_row("th", header, longest), *(_row("td", row, longest) for row in rows[:_MOST_ROWS_OF_TABLE])]
    if len(rows) > _MOST_ROWS_OF_TABLE:
        lines.append(f'<tr><td colspan="{len(header)}">… {len(rows) - _MOST_ROWS_OF_TABLE} more</td></tr>')
    return f'<div class="wide"><table{" class=words" if words else ""}>{"".join(lines)}</table></div>'


def facts(rows: Mapping[str, str]) -> str:
    """A table of labels and texts."""
    lines = (f"<tr><th>{text(label)}</th><td>{text(words, 400)}</td></tr>" for label, words in rows.items())
    return f'<table class="words">{"".join(lines)}</table>'


def paragraph(words: str, kind: str = "") -> str:
    """A paragraph of plain text; `kind` is a class of the style."""
    return f"<p class='{kind}'>{text(words, None)}</p>"


def preformatted(words: str) -> str:
    """Lines as they are; each is escaped."""
    lines = (text(line, None) for line in words.splitlines())
    return "<pre>" + "\n".join(lines) + "</pre>"


def details(summary: str, body: str) -> str:
    """HTML that is shown on a click."""
    return f"<details><summary>{text(summary)}</summary>{body}</details>"


def section(title: str, *parts: str) -> str:
    """HTML under a heading."""
    return f"<h3>{text(title)}</h3>{''.join(parts)}"


def page(title: str, subtitle: str, articles: Iterable[tuple[str, str]]) -> str:
    """The document of some answers, each with a title, in plain text, and HTML.

    It loads nothing and runs nothing, which its content security policy forbids, too.
    """
    several = list(articles)
    names = [f"<h2>{text(name, 200)}</h2>" if len(several) > 1 else "" for name, _ in several]
    body = "".join(f"<article>{name}{html}</article>" for name, (_, html) in zip(names, several, strict=True))
    head = f"<title>{text(title, 200)}</title><style>{_STYLE}</style></head>"
    return f"{_HEAD}{head}<body><h1>{text(title, 200)}</h1>{paragraph(subtitle, 'soft')}{body}</body></html>\n"


def _row(tag: str, cells: Sequence[str], longest: int | None) -> str:
    return f"<tr>{''.join(f'<{tag}>{text(cell, longest)}</{tag}>' for cell in cells)}</tr>"


# Pictures of a page as SVG: stacked bars, timelines, points; a name appears where the pointer is.


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


# Graphs of a page as SVG: nodes by stage from left to right; a node tells of itself where the pointer is.


FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Nodes and edges up to which each is drawn; of a larger graph a dot stands for a column.
_MOST_NODES, _MOST_EDGES = 2000, 8000
_MOST_DOTS = 500
_SWEEPS = 12
_WIDTH_OF_GRAPH, _NARROWEST, _TOP = 1040.0, 7.0, 26.0


def graph_picture(
    graph: ComputationGraph,
    group: IntArray,
    column: FloatArray,
    name: str,
    spans: Sequence[tuple[float, float]] = (),
) -> str:
    """A graph with the colour of its group for each node, and a sentence that says so.

    Parameters
    ----------
    group, column : (n,) integers, (n,) floats
        Stage or device, and column, of each node.
    name : str
        What a group is.
    spans : sequence of (float, float)
        First and last column of each group, where groups are side by side.
    """
    width = float(column.max()) + 1
    step = _WIDTH_OF_GRAPH / max(width, 1)
    step = min(max(_NARROWEST, step) if graph.n <= _MOST_NODES else step, 60.0)
    bands = "".join(
        f'<rect x="{(left + 0.5) * step:.1f}" y="{_TOP - 6:.0f}" width="{(right - left) * step:.1f}" height="HEIGHT" '
        f'fill="{hue(b)}" opacity=".12"><title>{text(name)} {b}</title></rect>'
        + (f'<text x="{(left + 0.5) * step + 2:.1f}" y="14">{b}</text>' if (right - left) * step > 18 else "")
        for b, (left, right) in enumerate(spans[:_MOST_DOTS])
        if right > left
    )
    whole = graph.n <= _MOST_NODES and graph.m <= _MOST_EDGES
    drawn, height = (_nodes if whole else _dots)(graph, group, column, step, name)
    told = f"Each dot is an operator in the colour of its {name}. Dark lines are tensors between {name}s."
    if not whole:
        told = f"Each dot stands for neighbouring operators, in the colour of the first {name} among them."
    return paragraph(f"{told} Point at a dot to see what it is.", "soft") + svg(
        (width + 0.5) * step, height, bands.replace("HEIGHT", f"{height - _TOP:.0f}") + drawn
    )


def _nodes(graph: ComputationGraph, group: IntArray, column: FloatArray, step: float, name: str) -> tuple[str, float]:
    """All nodes and edges, and the height of the picture."""
    points = placed(graph, column, sweeps=_SWEEPS, inertia=0.5)
    rows = float(np.ptp(points[:, 1])) + 1
    gap = float(np.clip(420 / rows, _NARROWEST, 30))
    radius = float(np.clip(0.32 * min(step, gap), 2, 8))
    x = np.round((points[:, 0] + 0.75) * step).astype(int)
    y = np.round(_TOP + (points[:, 1] - points[:, 1].min() + 0.7) * gap).astype(int)
    edges = np.unique(graph.edges, axis=0)
    inside = group[edges[:, 0]] == group[edges[:, 1]]
    lines = "".join(
        f'<path class="{kind}" d="{_curves(x, y, edges[mask])}"/>'
        for kind, mask in (("inside", inside), ("across", ~inside))
    )
    title = _titles(graph, group, name)
    circles = [
        f'<g fill="{hue(b)}">{_circles(np.flatnonzero(group == b), x, y, radius, title)}</g>' for b in np.unique(group)
    ]
    return lines + "".join(circles), _TOP + (rows + 0.4) * gap + 8


def _curves(x: IntArray, y: IntArray, edges: IntArray) -> str:
    """One path with all edges; one that passes columns bends around their nodes."""
    parts = []
    for u, v in edges.tolist():
        bend = 0 if abs(x[v] - x[u]) <= 60 else (14 if u % 2 else -14)
        middle = f"Q{(x[u] + x[v]) // 2} {(y[u] + y[v]) // 2 + bend} " if bend else "L"
        parts.append(f"M{x[u]} {y[u]}{middle}{x[v]} {y[v]}")
    return "".join(parts)


def _circles(nodes: IntArray, x: IntArray, y: IntArray, radius: float, title: Callable[[int], str]) -> str:
    return "".join(
        f'<circle cx="{x[v]}" cy="{y[v]}" r="{radius:.1f}"><title>{text(title(v), 200)}</title></circle>'
        for v in nodes.tolist()
    )


def _titles(graph: ComputationGraph, group: IntArray, name: str) -> Callable[[int], str]:
    out = np.bincount(graph.tensors.producer, graph.tensors.bytes, graph.n)

    def title(v: int) -> str:
        sizes = {"parameters": graph.param_bytes[v], "states": graph.state_bytes[v], "output": out[v]}
        told = "".join(f", {label} {bytes_in_words(size)}" for label, size in sizes.items() if size)
        work = time_in_words(float(graph.work[v]), graph.time_unit)
        return f"{_short(graph.names[v])}, {name} {group[v]}, work {work}{told}"

    return title


def _short(node: str) -> str:
    return node if len(node) <= 60 else f"{node[:30]}…{node[-29:]}"


def _dots(graph: ComputationGraph, group: IntArray, column: FloatArray, step: float, name: str) -> tuple[str, float]:
    """A dot for each group in each part of the picture's width, the larger the more nodes, and the picture's height."""
    parts = min(_MOST_DOTS, int(column.max()) + 1)
    place = np.minimum(parts - 1, (column * parts / (column.max() + 1)).astype(int))
    keys, first, counts = np.unique(place, return_index=True, return_counts=True)
    work = np.bincount(place, graph.work, parts)
    circles = []
    for key, v, count in zip(keys.tolist(), first.tolist(), counts.tolist(), strict=True):
        held = np.unique(group[place == key])
        groups = str(held[0]) if len(held) == 1 else f"{held[0]} to {held[-1]}"
        time = time_in_words(float(work[key]), graph.time_unit)
        told = text(f"{count} nodes, {name} {groups}, work {time}, {_short(graph.names[v])} …", 200)
        x = (key + 0.75) * step * (column.max() + 1) / parts
        look = f'r="{min(24.0, 2 + count**0.5):.1f}" fill="{hue(int(held[0]))}" opacity=".8"'
        circles.append(f'<circle cx="{x:.1f}" cy="60" {look}><title>{told}</title></circle>')
    return "".join(circles), 110.0
