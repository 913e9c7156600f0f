"""Rows of text as aligned text, Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from instances.errors import printable

__all__ = ["FORMATS", "aligned", "drawn", "left_aligned"]

Rows = Sequence[Sequence[str]]

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "$": r"\$",
    "–": "--",
    "∞": r"$\infty$",
}


def aligned(header: Sequence[str], rows: Rows) -> str:
    """Columns as wide as needed, the first to the left and the others to the right.

    Examples
    --------
    >>> print(aligned(["name", "n"], [["bert", "12"], ["a", "7"]]))
    name   n
    bert  12
    a      7
    """
    table = _cells((header, *rows))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def left_aligned(rows: Rows) -> str:
    """Columns of words, without a header."""
    rows = _cells(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def drawn(name: str) -> str:
    """A name as it can be drawn: printable, and no formula between dollars."""
    return printable(name).replace("$", r"\$")


def markdown(header: Sequence[str], rows: Rows) -> str:
    """A pipe table."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in _cells(lines))


def comma_separated(header: Sequence[str], rows: Rows) -> str:
    """CSV, quoted where needed."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(_cells((header, *rows)))
    return buffer.getvalue().rstrip("\n")


def latex(header: Sequence[str], rows: Rows) -> str:
    """A tabular for the package booktabs."""
    table = _cells((header, *rows))
    body = [" & ".join("".join(_LATEX.get(c, c) for c in cell) for cell in row) + r" \\" for row in table]
    columns = "l" + "r" * (len(header) - 1)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            body[0],
            r"\midrule",
            *body[1:],
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _cells(rows: Rows) -> list[list[str]]:
    """Cells as they can be printed: a name from a file ends no line and commands no terminal."""
    return [[printable(cell) for cell in row] for row in rows]


#: Suffix of a file to what writes it.
FORMATS: dict[str, Callable[[Sequence[str], Rows], str]] = {
    "txt": aligned,
    "md": markdown,
    "csv": comma_separated,
    "tex": latex,
}
