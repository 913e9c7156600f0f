"""Pieces of HTML: escaped text, tables, sections, the page around them.

Names come from files of strangers. `text` is the only way by which they get into a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from instances.errors import printable

__all__ = ["details", "facts", "page", "paragraph", "preformatted", "section", "table", "text"]

_LONGEST = 60
_MOST_ROWS = 64

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
    lines = [_row("th", header, longest), *(_row("td", row, longest) for row in rows[:_MOST_ROWS])]
    if len(rows) > _MOST_ROWS:
        lines.append(f'<tr><td colspan="{len(header)}">… {len(rows) - _MOST_ROWS} more</td></tr>')
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
