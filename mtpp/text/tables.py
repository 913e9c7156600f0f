"""Tables of text, and lines that change while work goes on."""

from __future__ import annotations

import csv
import io
import math
import os
import shutil
import sys
import textwrap
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live
from rich.text import Text

from instances.errors import printable

if TYPE_CHECKING:
    import pandas as pd

    from mtpp_models import Progress

# Progress on stderr: a live line on a terminal, now and then a plain line elsewhere.


#: Between plain lines, where stderr is no terminal.
PLAIN_SECONDS = 10.0


class LiveLine:
    """Line on stderr with the state of a search or a solver; a context manager."""

    def __init__(self, label: str, *, silent: bool = False, cost: str = "bottleneck") -> None:
        self._label, self._silent, self._cost = label, silent, cost
        self._moment: Progress | None = None
        self._begin = self._printed = time.monotonic()
        self._console = stderr_console()
        self._live = Live(get_renderable=self._text, console=self._console, transient=True, refresh_per_second=4)

    def show(self, moment: Progress) -> None:
        """Set the newest state; may be called from any thread."""
        self._moment = moment
        if self._silent:
            return
        if not self._console.is_terminal and time.monotonic() - self._printed > PLAIN_SECONDS:
            self._printed = time.monotonic()
            self._console.print(self._text(), soft_wrap=True)

    def __enter__(self) -> LiveLine:
        if self._console.is_terminal and not self._silent:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _text(self) -> Text:
        parts = [self._label, f"{time.monotonic() - self._begin:.0f} s"]
        moment = self._moment
        if moment is not None:
            parts.insert(1, moment.case)
            if moment.incumbent is not None:
                parts.append(f"{self._cost} {moment.incumbent:.6g}")
            if moment.bound is not None:
                parts.append(f"bound {moment.bound:.6g}")
            if moment.incumbent is not None and moment.bound is not None and moment.bound > 0:
                parts.append(f"gap {max(0.0, moment.incumbent / moment.bound - 1):.2%}")
            if moment.nodes is not None:
                parts.append(f"{moment.nodes} nodes")
        return Text(printable("  ".join(parts)), no_wrap=True, overflow="ellipsis")


class CountingBar:
    """Bar on stderr with the number of things done and the remaining time; a context manager."""

    #: Whether the end has a plain line even if none came before.
    ends_with_line = False

    def __init__(self, total: int, things: str, *, silent: bool = False) -> None:
        from rich import progress

        self._total, self._things, self._done, self._silent = total, printable(things), 0, silent
        self._begin = self._printed = time.monotonic()
        self.console = stderr_console()
        self._bar = progress.Progress(
            *(progress.BarColumn(), progress.MofNCompleteColumn()),
            progress.TextColumn("{task.fields[things]}", markup=False),
            *(progress.TimeElapsedColumn(), progress.TextColumn("left"), progress.TimeRemainingColumn()),
            progress.TextColumn("{task.description}", markup=False),
            console=self.console,
            transient=True,
            disable=silent or not self.console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total, things=self._things)

    def count(self, label: str = "") -> None:
        """Count a thing, and show its label; after a plain line, the end has one as well."""
        self._done += 1
        self._bar.update(self._task, advance=1, description=label)
        now, tells_end = time.monotonic(), self.ends_with_line or self._printed > self._begin
        is_last = tells_end and self._done == self._total
        if not (self._silent or self.console.is_terminal) and (is_last or now - self._printed > PLAIN_SECONDS):
            self._printed = now
            remaining = (now - self._begin) / self._done * (self._total - self._done)
            line = f"{self._done} of {self._total} {self._things}, about {remaining:.0f} s left"
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def stderr_console() -> Console:
    """Console on stderr that works while Pyomo redirects the descriptors to read a solver's log."""
    try:
        stream = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8")
    except (OSError, ValueError):
        return Console(stderr=True)  # stderr is not a file, as in tests
    console = Console(file=stream)
    weakref.finalize(console, _close, stream)  # its parts refer to each other, and go when Python looks for such
    return console


def _close(stream: TextIO) -> None:
    with suppress(OSError):  # nobody listens any more
        stream.close()


# Rows of text as aligned text, Markdown, CSV and LaTeX.


Rows = Sequence[Sequence[str]]

_GAP = 2
# Columns of words are not made narrower than this.
_NARROWEST = 12
# Columns of a word, whatever the width of the terminal.
_LONGEST_WORD = 60
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
    """A table with columns of minimal width, the first left-aligned and the others right-aligned.

    Examples
    --------
    >>> print(aligned(["name", "n"], [["bert", "12"], ["a", "7"]]))
    name   n
    bert  12
    a      7
    """
    return _lines(_cells((header, *rows)), words={0})


def frame_table(frame: pd.DataFrame) -> str:
    """A frame as an aligned table: numbers with six digits, a dash for missing values."""
    whole = frame.astype(object).where(frame.notna(), None)
    return aligned([str(name).replace("_", " ") for name in whole], [list(map(_cell, row)) for row in whole.to_numpy()])


def records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """Rows of a frame as JSON objects, None for missing and for infinite values."""
    finite = frame.replace([math.inf, -math.inf], math.nan)
    return finite.astype(object).where(finite.notna(), None).to_dict("records")


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def left_aligned(rows: Rows) -> str:
    """Left-aligned columns without a header."""
    return _lines(_cells(rows), words=range(len(rows[0]) if rows else 0))


def fitted(header: Sequence[str], rows: Rows, width: int | None, words: Collection[int] = (0,)) -> str:
    """A table that fits a width: long words lose their middle, and excess columns go below.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequence of str
    width : int, optional
        Width of the terminal [characters]; None for no limit.
    words : collection of int
        Columns that are left-aligned and can be shortened.

    Returns
    -------
    str

    Examples
    --------
    >>> print(fitted(["name", "n"], [["a-very-long-name-of-a-network", "12"]], 20))
    name               n
    a-very-l…network  12
    """
    table = [
        [shortened(cell, _LONGEST_WORD) if i in words else cell for i, cell in enumerate(row)]
        for row in _cells((header, *rows))
    ]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    if width is None:
        return _lines(table, words)
    least = [min(wide, _NARROWEST) if i in words else wide for i, wide in enumerate(widths)]
    bands: list[list[int]] = [[0]]
    for i in range(1, len(widths)):
        if sum(least[j] + _GAP for j in bands[-1]) + least[i] > width and bands[-1] != [0]:
            bands.append([0] if len(rows) > 1 else [])
        bands[-1].append(i)
    return "\n\n".join(_band(table, band, least, widths, width, words) for band in bands)


def _band(
    table: list[list[str]], band: list[int], least: list[int], widths: list[int], width: int, words: Collection[int]
) -> str:
    """Some columns of a table as text; words share the width that numbers leave."""
    room = {i: least[i] for i in band}
    spare = width - sum(room.values()) - _GAP * (len(band) - 1)
    while spare > 0 and (narrow := [i for i in band if room[i] < widths[i]]):
        for i in narrow[:spare]:
            room[i] += 1
        spare -= len(narrow[:spare])
    rows = [[shortened(row[i], room[i]) if i in words else row[i] for i in band] for row in table]
    return _lines(rows, {place for place, i in enumerate(band) if i in words})


def wrapped(header: Sequence[str], rows: Rows, width: int, text: Collection[int]) -> str:
    """A table in which the `text` columns wrap to share the remaining width.

    Examples
    --------
    >>> print(wrapped(["", "claim", "here"], [["Fig. 6", "faster than all", "no"]], 22, {1}))
            claim        here
    Fig. 6  faster than  no
            all
    """
    table = _cells((header, *rows))
    widest = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    remaining = width - _GAP * (len(widest) - 1) - sum(wide for i, wide in enumerate(widest) if i not in text)
    for i in sorted(text, key=lambda i: widest[i]):
        share = remaining // sum(widest[j] >= widest[i] for j in text)
        widest[i] = max(_NARROWEST if widest[i] > _NARROWEST else widest[i], min(widest[i], share))
        remaining -= widest[i]
    lines = []
    for row in table:
        broken = [textwrap.wrap(cell, widest[i]) if i in text else [cell] for i, cell in enumerate(row)]
        for place in range(max(map(len, broken))):
            lines.append([cell[place] if place < len(cell) else "" for cell in broken])
    return _lines(lines, words=range(len(header)))


def shortened(text: str, width: int) -> str:
    """A text of at most `width` columns, with its middle left out if needed.

    Examples
    --------
    >>> shortened("decoder.layers.11.attention", 15)
    'decoder…tention'
    """
    if cell_len(text) <= width:
        return text
    head, tail = width // 2, (width - 1) // 2
    return f"{set_cell_size(text, head).rstrip()}…{set_cell_size(text[::-1], tail)[::-1].lstrip()}"


def terminal_width() -> int | None:
    """Width of the terminal behind stdout; None if stdout is a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _lines(table: list[list[str]], words: Collection[int]) -> str:
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = []
        for i, (cell, wide) in enumerate(zip(row, widths, strict=True)):
            blank = " " * (wide - cell_len(cell))
            cells.append(cell + blank if i in words else blank + cell)
        lines.append((" " * _GAP).join(cells).rstrip())
    return "\n".join(lines)


def drawn(name: str) -> str:
    """A name for pictures of matplotlib: printable, with escaped dollar signs."""
    return printable(name).replace("$", r"\$")


def markdown(header: Sequence[str], rows: Rows) -> str:
    """A table in Markdown."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in _cells(lines))


def comma_separated(header: Sequence[str], rows: Rows) -> str:
    """A table as CSV, quoted where needed."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(_cells((header, *rows)))
    return buffer.getvalue().rstrip("\n")


def latex(header: Sequence[str], rows: Rows) -> str:
    """A LaTeX tabular for the package booktabs."""
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
    """Cells without control characters, which names from files may contain."""
    return [[printable(cell) for cell in row] for row in rows]


#: Suffix of a file to what writes it.
FORMATS: dict[str, Callable[[Sequence[str], Rows], str]] = {
    "txt": aligned,
    "md": markdown,
    "csv": comma_separated,
    "tex": latex,
}
