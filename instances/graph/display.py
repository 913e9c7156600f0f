"""Display of questions and answers: one line for `repr`, a small table for a notebook."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from html import escape

from instances.errors import printable

#: Header and rows of a table.
Rows = tuple[Sequence[str], Sequence[Sequence[str]]]

# Unit to its prefixed forms, the largest first.
_PREFIXES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "bytes": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")),
    "bytes/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")),
}
_LONGEST_NAME = 80
_LONGEST_TEXT = 2000  # of a fact in a notebook
_MOST_ROWS = 20


def figures(value: float, unit: str = "") -> str:
    """A number with six digits and its unit; seconds and bytes have a prefix.

    Examples
    --------
    >>> figures(440e6, "bytes"), figures(0.000137401, "s"), figures(25e9, "bytes/s"), figures(3, "ms")
    ('440 MB', '137.401 µs', '25 GB/s', '3 ms')
    """
    for plain, prefixes in _PREFIXES.items():
        if unit == plain:
            fitting = [(size, name) for size, name in prefixes if abs(value) >= size]
            size, unit = fitting[0] if fitting and math.isfinite(value) else (1.0, plain)
            value /= size
    return f"{value:.6g} {unit}".rstrip()


def exact_figures(value: float, unit: str = "") -> str:
    """As `figures`, but with all digits and no prefix where six digits would change the number.

    Examples
    --------
    >>> exact_figures(80e9, "bytes"), exact_figures(18014398509482036.0, "bytes")
    ('80 GB', '1.8014398509482036e+16 bytes')
    """
    rounded = figures(value, unit)
    number, _, name = rounded.partition(" ")
    size = next((size for size, prefixed in _PREFIXES.get(unit, ()) if prefixed == name), 1.0)
    if not math.isfinite(value) or float(Fraction(number) * Fraction(f"{size:g}")) == value:
        return rounded
    return f"{float(value)!r} {unit}".rstrip()


def how_many(count: int, noun: str) -> str:
    """A number with its noun, in singular or plural.

    Examples
    --------
    >>> how_many(1, "device"), how_many(2, "microbatch")
    ('1 device', '2 microbatches')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{'es' if noun.endswith('ch') else 's'}"


class Displayed:
    """Base of records that are shown as a title, rows of label and text, and perhaps a table; arrays are not printed.

    Names come from files and may hold anything: they are escaped, and cut off where they are long. Facts in a notebook
    may be longer.
    """

    def _title(self) -> str:
        """Heading of the table: the name of the object; empty if it has none."""
        return str(getattr(self, "name", ""))

    def _facts(self) -> Mapping[str, str]:
        """Labels and texts to show."""
        raise NotImplementedError

    def _rows(self) -> Rows | None:
        """Rows of a table of the answer's parts; None if it has no parts."""
        return None

    def __repr__(self) -> str:
        title = self._title()
        head = f"{type(self).__name__} {_short(title)!r}" if title else type(self).__name__
        return f"<{head}: {', '.join(f'{label} {_short(text)}' for label, text in self._facts().items())}>"

    def _repr_html_(self) -> str:
        """HTML of a table for notebooks, with at most 20 rows of parts."""
        name = type(self).__name__
        title = f"{name} {_short(self._title())}".rstrip()
        facts = "".join(
            f"<tr><th>{_cell(label)}</th><td>{_cell(text, _LONGEST_TEXT)}</td></tr>"
            for label, text in self._facts().items()
        )
        facts_table = f"<table><caption>{_cell(title)}</caption>{facts}</table>"
        parts = self._rows()
        if parts is None:
            return facts_table
        header, rows = parts
        lines = [_row("th", header), *(_row("td", row) for row in rows[:_MOST_ROWS])]
        if len(rows) > _MOST_ROWS:
            lines.append(f'<tr><td colspan="{len(header)}">… {len(rows) - _MOST_ROWS} more</td></tr>')
        return f"{facts_table}<table>{''.join(lines)}</table>"


def _short(text: str, longest: int = _LONGEST_NAME) -> str:
    line = printable(text)
    return line if len(line) <= longest else f"{line[:longest]}…"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_cell(text)}</{tag}>' for text in cells)}</tr>"


def _cell(text: str, longest: int = _LONGEST_NAME) -> str:
    return escape(_short(text, longest))
