"""Reports of studies: tables, and what papers claim."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from instances.errors import WordError, one_of
from instances.graph.tensors import FloatArray
from instances.json_files import check_writable, json_text
from mtpp.plots.style import save_figure
from mtpp.runs.engine import RunBar, run_jobs, unfinished
from mtpp.runs.job import Job, Run, RunLog
from mtpp.runs.statistics import geometric_means
from mtpp.runs.workers import Workers
from mtpp.text.tables import FORMATS, fitted, records, terminal_width, wrapped

# Statements of papers or expectations, compared with measurements.


class Finding(StrEnum):
    """Outcome of a comparison."""

    HOLDS = "holds"
    FAILS = "fails"
    TIE = "tie"  # of an order: the two are equal on most networks
    UNDECIDED = "undecided"  # a number is missing, or its interval leaves both open
    NOT_COMPARABLE = "not comparable"

    @property
    def shown(self) -> str:
        """Text for tables, in which failures stand out."""
        return self.value.upper() if self is Finding.FAILS else self.value

    @classmethod
    def of(cls, holds: bool | None) -> Finding:
        """Finding on a statement that is true, false, or None if a number is missing."""
        return cls.UNDECIDED if holds is None else cls.HOLDS if holds else cls.FAILS

    @classmethod
    def all_of(cls, parts: Sequence[Finding]) -> Finding:
        """Finding on several statements together: the worst of fails, undecided and tie that occurs, else holds.

        Examples
        --------
        >>> Finding.all_of([Finding.HOLDS, Finding.UNDECIDED]).value
        'undecided'
        """
        return next(
            (finding for finding in (cls.FAILS, cls.UNDECIDED, cls.TIE) if finding in parts),
            cls.HOLDS if parts else cls.UNDECIDED,
        )


@dataclass(frozen=True)
class PaperClaim:
    """A statement of a paper, and whether it holds here."""

    source: str  # paper or figure
    text: str
    holds: bool | None  # None if it is undecided, because a number is missing
    measured: str  # the numbers that decide

    @property
    def finding(self) -> Finding:
        """Whether the claim holds, as a `Finding`."""
        return Finding.of(self.holds)


# Parts of all studies: a resumable file of runs, and sections of text and pictures.


#: Columns of sentences where there is no terminal.
_WIDTH = 120


class Section(NamedTuple):
    """A table as it is printed and written."""

    name: str  # of its files, without suffix
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""  # printed below it
    text: Collection[int] = ()  # columns of sentences, which are broken into lines where they are printed
    numbers: pd.DataFrame | None = None  # what CSV and JSON have in place of header and rows

    @property
    def document(self) -> dict[str, Any]:
        """The section as JSON members."""
        return self._asdict() | {"numbers": None if self.numbers is None else records(self.numbers)}

    def formatted(self, style: str) -> str:
        """Header and rows in a format; for CSV as plain numbers if there are any."""
        if style == "csv" and self.numbers is not None:
            return str(self.numbers.to_csv(index=False, lineterminator="\n")).rstrip("\n")
        return FORMATS[style](self.header, self.rows)


@dataclass(frozen=True)
class Report:
    """Output of a study: the file of its runs, and the form and folder of its tables.

    Raises
    ------
    InputError
        If there is no such format.
    """

    out: Path  # file of runs; those done are not repeated
    folder: Path | None = None  # where tables (.md, .csv, .tex) and pictures (.png, .svg) are written
    style: str = "txt"  # format of the printed tables
    json: bool = False  # whether one JSON document is printed instead of them
    quiet: bool = False  # whether no progress is shown
    accept_old: bool = False  # whether runs that do not know the code that made them are answers

    def __post_init__(self) -> None:
        if self.style not in FORMATS:
            raise WordError("style", self.style, one_of(FORMATS, self.style).removeprefix("; "))

    def make_runs(self, jobs: Iterable[Job], workers: Workers) -> list[Run]:
        """Make the runs that the file lacks, with a progress bar; return one run for each job, in order.

        Raises
        ------
        InputError, OSError
            If the folder cannot be made or the file cannot be written, before any run is made.
        KeyboardInterrupt
            After Ctrl-C, with a message that names the file of the runs.
        """
        wanted = {job.key: job for job in jobs}
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with RunLog(self.out, accept_old=self.accept_old) as log:
                missing = len(unfinished(wanted.values(), log))
                if missing < len(wanted) and not self.quiet:
                    print(f"{len(wanted) - missing} runs are done already.", file=sys.stderr)
                with RunBar(missing, silent=self.quiet) as bar:
                    return run_jobs(wanted.values(), log, workers, lambda run: bar.advance(_as_counted(wanted, run)))
        except KeyboardInterrupt:
            print(
                f"Stopped; {self.out} holds the runs that are done, and the same call makes the rest.", file=sys.stderr
            )
            raise

    def publish(self, sections: Sequence[Section], pictures: Callable[[], Mapping[str, Axes]]) -> None:
        """Print sections, each note once; if there is a folder, also write them and the pictures in all formats."""
        if self.json:
            sys.stdout.write(json_text({"tables": [section.document for section in sections]}, ascii_only=True))
        notes = {""}
        for section in () if self.json else sections:
            print(_printed(section._replace(note="") if section.note in notes else section, self.style))
            notes.add(section.note)
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_sections(sections, self.folder)
        for name, ax in pictures().items():
            for suffix in ("png", "svg"):
                save_figure(ax, self.folder / f"{name}.{suffix}")

    def exit_code(self, failed: Sequence[bool]) -> int:
        """0, or 1 if runs failed, after printing their number."""
        if any(failed):
            reasons = f"{self.out} has the reasons. The same call tries them again."
            print(f"{sum(failed)} of {len(failed)} runs failed; {reasons}", file=sys.stderr)
        return int(any(failed))


def errors_in_words(logs: FloatArray, clusters: Sequence[str], decimals: int = 3) -> list[str]:
    """Cells on prediction errors, from logarithms of predicted over measured numbers.

    They are the geometric mean, its interval over the clusters, and of the larger over the smaller number the mean, the
    90 % quantile and the largest.
    """
    mean, apart = geometric_means(np.exp(logs), clusters), np.abs(logs)
    low, high = mean.low[0], mean.high[0]
    interval = "–" if math.isnan(low) else f"[{low:.{decimals}f}, {high:.{decimals}f}]"
    worst = (apart.mean(), np.quantile(apart, 0.9), apart.max())
    return [f"{mean.value[0]:.3f}", interval, *(f"{math.exp(value):.3f}" for value in worst)]


def write_sections(sections: Iterable[Section], folder: Path) -> None:
    """Write tables as Markdown, CSV and LaTeX into a folder that is there."""
    for section in sections:
        for suffix in ("md", "csv", "tex"):
            file = folder / f"{section.name}.{suffix}"
            check_writable(file)
            file.write_text(section.formatted(suffix) + "\n", encoding="utf-8")


def _printed(section: Section, style: str) -> str:
    """A table as text, in the width of the terminal."""
    _, title, header, rows, note, text, _ = section
    width = terminal_width()
    if style != "txt":
        table = section.formatted(style)
    elif text:
        table = wrapped(header, rows, width or _WIDTH, text)
    else:
        table = FORMATS[style](header, rows) if width is None else fitted(header, rows, width)
    below = "\n".join(fill(line, width or _WIDTH) for line in note.splitlines()) if style == "txt" else note
    return f"{title}\n\n{table}\n" + (f"\n{below}\n" if note else "")


def _as_counted(wanted: Mapping[str, Job], run: Run) -> Run:
    """The run as the progress bar counts it: a planner that refuses an instance has answered, not failed."""
    return run if wanted[run["key"]].failed(run) else run | {"error": None}
