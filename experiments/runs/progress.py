"""Progress on stderr: a live line on a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from instances.errors import printable

if TYPE_CHECKING:
    from experiments.runs.log import Run
    from mtpp_models import Progress

__all__ = ["LiveLine", "RunBar"]

_PLAIN_SECONDS = 10.0


class LiveLine:
    """What a search or a solver is doing, under a label, unless it is silent; a context manager."""

    def __init__(self, label: str, *, silent: bool = False, cost: str = "bottleneck") -> None:
        self._label, self._silent, self._cost = label, silent, cost
        self._moment: Progress | None = None
        self._begin = self._printed = time.monotonic()
        self._console = _console()
        self._live = Live(get_renderable=self._text, console=self._console, transient=True, refresh_per_second=4)

    def show(self, moment: Progress) -> None:
        """Take the newest state; may be called from another thread."""
        self._moment = moment
        if self._silent:
            return
        if not self._console.is_terminal and time.monotonic() - self._printed > _PLAIN_SECONDS:
            self._printed = time.monotonic()
            self._console.print(self._text(), soft_wrap=True)

    def __enter__(self) -> LiveLine:
        if self._console.is_terminal and not self._silent:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


def _console() -> Console:
    """A console on stderr that still speaks while Pyomo redirects the descriptors to read a solver's log."""
    try:
        stream = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8")
    except (OSError, ValueError):
        return Console(stderr=True)  # stderr is not a file, as in tests
    return Console(file=stream)


class RunBar:
    """How many of `total` runs of a table are made, unless it is silent, with the time left; a context manager."""

    def __init__(self, total: int, *, silent: bool = False) -> None:
        self._silent = silent
        self._total, self._done, self._failed = total, 0, 0
        self._begin = self._printed = time.monotonic()
        self._console = _console()
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeElapsedColumn(), TextColumn("left"))
        self._bar = Bar(
            *columns,
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            transient=True,
            disable=silent or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)

    def advance(self, run: Run) -> None:
        """Count a run; a failed one is told at once."""
        label = printable(f"{run['instance']}, k = {run['k']}, {run['method']}")
        self._done += 1
        if run["error"] is not None:
            self._failed += 1
            reason = printable(run["error"].splitlines()[0])
            self._console.print(f"failed: {label}: {reason}", markup=False, soft_wrap=True)
        self._bar.update(self._task, advance=1, description=escape(label))
        now = time.monotonic()
        if self._silent:
            return
        if not self._console.is_terminal and (now - self._printed > _PLAIN_SECONDS or self._done == self._total):
            self._printed = now
            left = (now - self._begin) / self._done * (self._total - self._done)
            self._console.print(f"{self._done} of {self._total} runs, about {left:.0f} s left", highlight=False)

    def __enter__(self) -> RunBar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
