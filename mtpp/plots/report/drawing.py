"""Pages: sections as HTML, in which pictures are SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

import numpy as np

from instances import ComputationGraph
from mtpp.plots.sections import (
    KINDS,
    Bar,
    Chart,
    GroupedGraph,
    IntArray,
    Kind,
    Row,
    Scatter,
    Section,
    Table,
    hue,
    placed,
    shortened,
)
from mtpp.text.numbers import Scale, bytes_in_words, time_in_words

# Pieces of HTML: escaped text, tables, sections, the page around them.
#
# Names come from files of strangers. `text` is the only way by which they get into a page.


_MOST_ROWS_OF_TABLE = 64

_STYLE = """
:root{--Back:#fff;--Card:#f6f7f9;--Ink:#1c2330;--Soft:#5d6677;--Line:#d5d9e0;--Good:#1a7f4b;--Warn:#9a6200;
--Bad:#b3261e;color-scheme:light dark}@media(prefers-color-scheme:dark){:root{--Back:#14171c;--Card:#1d2128;
--Ink:#e4e7ec;--Soft:#9aa3b2;--Line:#39404b;--Good:#58c48b;--Warn:#e0ac4c;--Bad:#f2776e}}body{margin:0 auto;
max-width:1180px;padding:24px;background:var(--Back);color:var(--Ink);font:15px/1.5 system-ui,sans-serif}h1{
font-size:24px;margin:0 0 4px}h2{font-size:20px;margin:40px 0 8px;border-bottom:1px solid var(--Line);
padding-bottom:4px}h3{font-size:16px;margin:26px 0 6px}p{margin:6px 0}.soft{color:var(--Soft)}.good{
color:var(--Good)}.warn{color:var(--Warn)}.bad{color:var(--Bad)}.headline{font-size:18px;background:var(--Card);
border-radius:8px;padding:12px 16px}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;
font-variant-numeric:tabular-nums}th,td{padding:3px 10px 3px 0;text-align:right;
border-bottom:1px solid var(--Line);white-space:nowrap}th{color:var(--Soft);font-weight:600;
white-space:normal}th:first-child,
td:first-child,.words td,.words th{text-align:left}.words td{white-space:normal}details{margin:8px 0}summary{
cursor:pointer;color:var(--Soft)}pre{background:var(--Card);border-radius:8px;padding:10px 14px;overflow-x:auto;
font-size:13px}svg{display:block;font:12px system-ui,sans-serif}svg text{fill:var(--Ink)}svg .soft{
fill:var(--Soft)}svg .grid{stroke:var(--Line);fill:none}svg .limit{stroke:var(--Ink);stroke-dasharray:2 3}
svg .bound{stroke:var(--Good);stroke-width:2}svg .inside{stroke:var(--Soft);stroke-width:.7;opacity:.45;
fill:none}svg .across{stroke:var(--Ink);stroke-width:.9;opacity:.7;fill:none}svg rect:hover,svg circle:hover{
stroke:var(--Ink);stroke-width:2}svg .hollow{fill:var(--Card)}svg .hair{stroke:var(--Back);stroke-width:.4}
.item{display:inline-block;
margin-left:14px}.key{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px}
@media print{body{max-width:none}}
"""
_STYLE += "".join(f".{kind}{{fill:{colour};background:{colour}}}" for kind, colour in KINDS.items())
_STYLE += """
.allreduce{fill:var(--Soft);background:var(--Soft)}.spare{fill:var(--Line);background:var(--Line)}
@media(prefers-color-scheme:dark){.work{fill:#6f97d8;background:#6f97d8}}
"""

_HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    '<meta name="viewport" content="width=device-width"><meta name="referrer" content="no-referrer">'
)


def text(words: str, longest: int | None = 60) -> str:
    r"""Escape a text for HTML; a text longer than `longest` loses its middle.

    Examples
    --------
    >>> text("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    return escape(shortened(words, longest))


def html(section: Section) -> str:
    """A section under its heading."""
    parts = [f"<h3>{text(section.title)}</h3>", _facts(section.facts) if section.facts else ""]
    parts += [paragraph(sentence, "soft") for sentence in section.sentences]
    if section.graph is not None:
        parts.append(_graph(section.graph))
    if section.scatter is not None:
        parts.append(_scatter(section.scatter))
    if section.chart is not None:
        parts.append(_chart(section.chart))
    if section.table is not None:
        parts.append(table(section.table))
    return "".join(parts)


def table(content: Table) -> str:
    """HTML of a table with at most 64 rows."""
    header, rows, words, longest, summary = content
    lines = [_row("th", header, longest), *(_row("td", row, longest) for row in rows[:_MOST_ROWS_OF_TABLE])]
    if len(rows) > _MOST_ROWS_OF_TABLE:
        lines.append(f'<tr><td colspan="{len(header)}">… {len(rows) - _MOST_ROWS_OF_TABLE} more</td></tr>')
    body = f'<div class="wide"><table{" class=words" if words else ""}>{"".join(lines)}</table></div>'
    return details(summary, body) if summary else body


def _facts(rows: Mapping[str, str]) -> str:
    """HTML of a table of labels and texts."""
    lines = (f"<tr><th>{text(label)}</th><td>{text(words, 400)}</td></tr>" for label, words in rows.items())
    return f'<table class="words">{"".join(lines)}</table>'


def paragraph(words: str, kind: str = "") -> str:
    """HTML of a paragraph of plain text; `kind` is a class of the style."""
    return f"<p class='{kind}'>{text(words, None)}</p>"


def preformatted(words: str) -> str:
    """HTML of preformatted lines, escaped."""
    lines = (text(line, None) for line in words.splitlines())
    return "<pre>" + "\n".join(lines) + "</pre>"


def details(summary: str, body: str) -> str:
    """HTML that opens on a click."""
    return f"<details><summary>{text(summary)}</summary>{body}</details>"


def page(title: str, subtitle: str, articles: Iterable[tuple[str, str]]) -> str:
    """HTML document of several answers, each given by its title (plain text) and HTML.

    It loads nothing and runs nothing, which its content security policy forbids, too.
    """
    several = list(articles)
    names = [f"<h2>{text(name, 200)}</h2>" if len(several) > 1 else "" for name, _ in several]
    body = "".join(f"<article>{name}{html}</article>" for name, (_, html) in zip(names, several, strict=True))
    head = f"<title>{text(title, 200)}</title><style>{_STYLE}</style></head>"
    return f"{_HEAD}{head}<body><h1>{text(title, 200)}</h1>{paragraph(subtitle, 'soft')}{body}</body></html>\n"


def _row(tag: str, cells: Sequence[str], longest: int | None) -> str:
    return f"<tr>{''.join(f'<{tag}>{text(cell, longest)}</{tag}>' for cell in cells)}</tr>"


# Pictures of a page as SVG: rows of bars, points; a name appears where the pointer is.


_LEFT, _WIDTH, _ROW = 70, 960, 22
_TICKS = 5
_MOST_BARS = 3000
_MOST_ROWS = 128


def _svg(width: float, height: float, body: str) -> str:
    """SVG picture of this size in pixels, which scrolls in a narrower window."""
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return f'<div class="wide"><svg {size} role="img">{body}</svg></div>'


def _colour(number: int) -> str:
    """Colour of a stage or device, in light and in dark."""
    return "hsl({} {}% {}%)".format(*hue(number))


def _look(kind: Kind, role: str, part: str) -> str:
    """HTML attributes for the colour of a mark: a class for a named kind, else the style `part`."""
    return f'class="{role} {kind}"' if isinstance(kind, str) else f'class="{role}" style="{part}:{_colour(kind)}"'


def _chart(chart: Chart) -> str:
    """Legend and rows of a chart; of very many rows the fullest, and neighbouring bars merged."""
    rows, notes = chart.rows, []
    if len(rows) > _MOST_ROWS:
        lengths = [sum(bar.end - bar.start for bar in row.bars) for row in rows]
        rows = [rows[i] for i in sorted(sorted(range(len(rows)), key=lambda i: -lengths[i])[:_MOST_ROWS])]
        notes.append(f"The {_MOST_ROWS} longest of {len(lengths)} rows.")
    count = sum(len(row.bars) for row in rows)
    if count > _MOST_BARS:
        notes.append(f"{count} intervals; neighbours of a kind are drawn as one.")
    gap = chart.end / _WIDTH / 4
    while sum(len(row.bars) for row in rows) > _MOST_BARS:
        rows, gap = [Row(row.label, _merged(row.bars, gap)) for row in rows], gap * 2
    keys = "".join(
        f'<span class="item"><span {_look(kind, "key", "background")}></span>{text(words)}</span>'
        for kind, words in chart.legend.items()
    )
    picture = _rows(chart._replace(rows=rows))
    return (f"<p>{keys}</p>" if keys else "") + picture + (f'<p class="soft">{" ".join(notes)}</p>' if notes else "")


def _merged(bars: Sequence[Bar], gap: float) -> list[Bar]:
    """Bars of a row, with neighbours of one kind merged if at most `gap` apart."""
    merged: list[Bar] = []
    for bar in sorted(bars, key=lambda bar: (bar.low, str(bar.kind), bar.start)):
        last = merged[-1] if merged else bar
        if merged and (last.low, last.kind) == (bar.low, bar.kind) and bar.start - last.end <= gap:
            merged[-1] = last._replace(end=max(last.end, bar.end), title="several")
        else:
            merged.append(bar)
    return merged


def _rows(chart: Chart) -> str:
    end, marks = chart.end, [mark for mark in chart.marks if math.isfinite(mark.at)]
    factor, bottom, top = _WIDTH / end, _ROW * len(chart.rows) + 8, 6 + 14 * len(chart.marks)
    body = [_axis(end, factor, chart.scale, top, bottom)]
    for i, row in enumerate(chart.rows):
        body.append(f'<text x="{_LEFT - 8}" y="{top + _ROW * i + 15}" text-anchor="end">{text(row.label, 10)}</text>')
    for i, row in enumerate(chart.rows):
        for bar in row.bars:
            inner = _ROW - 5
            y, height = top + _ROW * i + 2 + inner * bar.low, inner * (bar.high - bar.low)
            place = f'x="{_LEFT + bar.start * factor:.1f}" y="{y:.0f}"'
            size = f'width="{max(0.5, (bar.end - bar.start) * factor):.1f}" height="{height:.0f}"'
            body.append(
                f"<rect {_look(bar.kind, 'hair', 'fill')} {place} {size}><title>{text(bar.title, 200)}</title></rect>"
            )
    for i, mark in enumerate(marks):
        x = _LEFT + mark.at * factor
        anchor, shift = ("end", -4) if mark.at > end / 2 else ("start", 4)
        body.append(f'<path class="{mark.kind}" d="M{x:.1f} {top - 4}V{top + bottom}"/>')
        body.append(f'<text x="{x + shift:.1f}" y="{12 + 14 * i}" text-anchor="{anchor}">{text(mark.label)}</text>')
    return _svg(_LEFT + _WIDTH + 40, top + bottom + 34, "".join(body))


def _axis(end: float, factor: float, scale: Scale, top: int, bottom: int) -> str:
    """Ticks at round numbers."""
    step = 10.0 ** math.floor(math.log10(end / scale.size / _TICKS))
    step *= next(size for size in (1, 2, 5, 10) if end / scale.size / (step * size) <= _TICKS)
    ticks = []
    for i in range(math.floor(end / scale.size / step * (1 + 1e-9)) + 1):
        x = _LEFT + i * step * scale.size * factor
        ticks.append(f'<path class="grid" d="M{x:.1f} {top}V{top + bottom}"/>')
        number = f"{i * step:.10g}"
        ticks.append(f'<text class="soft" x="{x:.1f}" y="{top + bottom + 15}" text-anchor="middle">{number}</text>')
    place = f'x="{_LEFT}" y="{top + bottom + 30}"'  # at the left, where narrow windows show it, too
    return "".join(ticks) + f'<text class="soft" {place} text-anchor="middle">[{text(scale.unit)}]</text>'


_WIDTH_OF_FRONT, _HEIGHT_OF_FRONT, _LEFT_OF_FRONT = 640.0, 260.0, 90.0


def _scatter(scatter: Scatter) -> str:
    """SVG of points along a front; the chosen point is filled."""
    points, width, height, left = scatter.points, _WIDTH_OF_FRONT, _HEIGHT_OF_FRONT, _LEFT_OF_FRONT
    first, last = points[0], points[-1]
    circles = []
    for point in points:
        x = left + 20 + (point.x - first.x) / (last.x - first.x or 1) * (width - 60)
        y = height - 30 - (point.y - first.y) / (last.y - first.y or 1) * (height - 60)
        look = f'r="6" class="{"work" if point.chosen else "hollow"}" stroke="{KINDS["work"]}" stroke-width="2"'
        circles.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" {look}><title>{text(point.title)}</title></circle>')
    ends = [
        (left + 20, height - 4, "start", first.words[0]),
        (left + width - 40, height - 4, "end", f"{scatter.x} {last.words[0]}"),
        (left, height - 26, "end", first.words[1]),
        (left, 34.0, "end", last.words[1]),
        (left, 16.0, "end", scatter.y),
    ]
    axes = f'<path class="grid" d="M{left + 6:.0f} 20V{height - 18:.0f}H{left + width:.0f}"/>'
    labels = [
        f'<text class="soft" x="{x:.0f}" y="{y:.0f}" text-anchor="{side}">{text(words)}</text>'
        for x, y, side, words in ends
    ]
    return _svg(left + width + 20, height, "".join([axes, *labels, *circles]))


# Graphs of a page as SVG: nodes by stage from left to right; a node tells of itself where the pointer is.


#: Nodes and edges up to which each is drawn; of a larger graph a dot stands for a column.
_MOST_NODES, _MOST_EDGES = 2000, 8000
_MOST_DOTS = 500
_SWEEPS = 12
_WIDTH_OF_GRAPH, _NARROWEST, _TOP = 1040.0, 7.0, 26.0


def _graph(picture: GroupedGraph) -> str:
    """SVG of a graph with nodes coloured by group, and a caption."""
    graph, _, column, name, spans = picture
    width = float(column.max()) + 1
    step = _WIDTH_OF_GRAPH / max(width, 1)
    step = min(max(_NARROWEST, step) if graph.n <= _MOST_NODES else step, 60.0)
    whole = graph.n <= _MOST_NODES and graph.m <= _MOST_EDGES
    body, height = (_nodes if whole else _dots)(picture, step)
    bands = "".join(
        f'<rect x="{(left + 0.5) * step:.1f}" y="{_TOP - 6:.0f}" width="{(right - left) * step:.1f}" '
        f'height="{height - _TOP:.0f}" fill="{_colour(b)}" opacity=".12"><title>{text(name)} {b}</title></rect>'
        + (f'<text x="{(left + 0.5) * step + 2:.1f}" y="14">{b}</text>' if (right - left) * step > 18 else "")
        for b, (left, right) in enumerate(spans[:_MOST_DOTS])
        if right > left
    )
    sentence = f"Each dot is an operator in the colour of its {name}. Dark lines are tensors between {name}s."
    if not whole:
        sentence = f"Each dot stands for neighbouring operators, in the colour of the first {name} among them."
    words = paragraph(f"{sentence} Point at a dot to see what it is.", "soft")
    return words + _svg((width + 0.5) * step, height, bands + body)


def _nodes(picture: GroupedGraph, step: float) -> tuple[str, float]:
    """SVG of all nodes and edges, and its height."""
    graph, group, column, name, _ = picture
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
        f'<g fill="{_colour(b)}">{_circles(np.flatnonzero(group == b), x, y, radius, title)}</g>'
        for b in np.unique(group)
    ]
    return lines + "".join(circles), _TOP + (rows + 0.4) * gap + 8


def _curves(x: IntArray, y: IntArray, edges: IntArray) -> str:
    """SVG path of all edges, bent around nodes in columns between."""
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
        sized = "".join(f", {label} {bytes_in_words(size)}" for label, size in sizes.items() if size)
        work = time_in_words(float(graph.work[v]), graph.time_unit)
        return f"{shortened(graph.names[v])}, {name} {group[v]}, work {work}{sized}"

    return title


def _dots(picture: GroupedGraph, step: float) -> tuple[str, float]:
    """SVG of a large graph: a dot for each group and slice, sized by nodes; and its height."""
    graph, group, column, name, _ = picture
    parts = min(_MOST_DOTS, int(column.max()) + 1)
    place = np.minimum(parts - 1, (column * parts / (column.max() + 1)).astype(int))
    keys, first, counts = np.unique(place, return_index=True, return_counts=True)
    work = np.bincount(place, graph.work, parts)
    circles = []
    for key, v, count in zip(keys.tolist(), first.tolist(), counts.tolist(), strict=True):
        present = np.unique(group[place == key])
        groups = str(present[0]) if len(present) == 1 else f"{present[0]} to {present[-1]}"
        time = time_in_words(float(work[key]), graph.time_unit)
        title = text(f"{count} nodes, {name} {groups}, work {time}, {shortened(graph.names[v])} …", 200)
        x = (key + 0.75) * step * (column.max() + 1) / parts
        look = f'r="{min(24.0, 2 + count**0.5):.1f}" fill="{_colour(int(present[0]))}" opacity=".8"'
        circles.append(f'<circle cx="{x:.1f}" cy="60" {look}><title>{title}</title></circle>')
    return "".join(circles), 110.0
