"""Progress of a table on stderr: a bar on a terminal, now and then a plain line elsewhere; in a notebook one line."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from typing import Any, Protocol

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from instances.errors import printable
from mtpp.runs.log import Run, remarks
from mtpp.text.live_line import PLAIN_SECONDS, stderr_console

__all__ = ["RunBar", "own_bar"]

#: Seconds between two changes of the line in a notebook, which comes when the first have passed.
_NOTEBOOK_SECONDS = 2.0


class Bar(Protocol):
    """Something that is told of each run."""

    def advance(self, run: Run) -> None:
        """Count a run."""


def own_bar(total: int) -> AbstractContextManager[Bar]:
    """Progress of a call from Python: a bar on a terminal, a line in a notebook, elsewhere nothing."""
    if "IPython" in sys.modules and hasattr(sys.modules["IPython"].get_ipython(), "kernel"):
        return NotebookLine(total)
    return RunBar(total) if sys.stderr.isatty() else _Silence()


class _Silence:
    def advance(self, run: Run) -> None:
        """Say nothing."""

    def __enter__(self) -> _Silence:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class NotebookLine(_Silence):
    """One line below a cell of a notebook, which changes while runs are made; short calls show none."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._failed = total, 0, 0
        self._begin = self._shown = time.monotonic()
        self._handle: Any = None

    def advance(self, run: Run) -> None:
        """Count a run."""
        self._done += 1
        self._failed += run["error"] is not None
        now = time.monotonic()
        if now - self._shown < _NOTEBOOK_SECONDS and (self._handle is None or self._done < self._total):
            return
        self._shown = now
        remaining = (now - self._begin) / self._done * (self._total - self._done)
        failed = f", {self._failed} failed" if self._failed else ""
        text = {"text/plain": f"{self._done} of {self._total} runs, about {remaining:.0f} s left{failed}"}
        if self._handle is None:
            self._handle = sys.modules["IPython"].display.display(text, raw=True, display_id=True)
        else:
            self._handle.update(text, raw=True)


class RunBar:
    """Progress bar for the `total` runs of a table, with the time left, unless it is silent; a context manager."""

    def __init__(self, total: int, *, silent: bool = False) -> None:
        self._silent = silent
        self._total, self._done, self._failed = total, 0, 0
        self._begin = self._printed = time.monotonic()
        self._console = stderr_console()
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeElapsedColumn(), TextColumn("left"))
        self._bar = Progress(
            *columns,
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            transient=True,
            disable=silent or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)

    def advance(self, run: Run) -> None:
        """Count a run; report a failed or doubtful one at once."""
        label = printable(f"{run['instance']}, k = {run['k']}, {run['method']}")
        self._done += 1
        if run["error"] is not None:
            self._failed += 1
            reason = printable(run["error"].splitlines()[0])
            self._console.print(f"failed: {label}: {reason}", markup=False, soft_wrap=True)
        for remark in remarks(run):
            self._console.print(f"{remark}: {label}", markup=False, soft_wrap=True)
        self._bar.update(self._task, advance=1, description=escape(label))
        now = time.monotonic()
        if self._silent:
            return
        if not self._console.is_terminal and (now - self._printed > PLAIN_SECONDS or self._done == self._total):
            self._printed = now
            remaining = (now - self._begin) / self._done * (self._total - self._done)
            self._console.print(f"{self._done} of {self._total} runs, about {remaining:.0f} s left", highlight=False)

    def __enter__(self) -> RunBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
