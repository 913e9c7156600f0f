"""Progress on stderr: a live line on a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

import os
import sys
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from instances.errors import printable

if TYPE_CHECKING:
    from mtpp_models import Progress

__all__ = ["PLAIN_SECONDS", "LiveLine", "stderr_console"]

#: Between plain lines, where stderr is no terminal.
PLAIN_SECONDS = 10.0


class LiveLine:
    """Line that shows the state of a search or a solver, unless it is silent; a context manager."""

    def __init__(self, label: str, *, silent: bool = False, cost: str = "bottleneck") -> None:
        self._label, self._silent, self._cost = label, silent, cost
        self._moment: Progress | None = None
        self._begin = self._printed = time.monotonic()
        self._console = stderr_console()
        self._live = Live(get_renderable=self._text, console=self._console, transient=True, refresh_per_second=4)

    def show(self, moment: Progress) -> None:
        """Take the newest state; may be called from another thread."""
        self._moment = moment
        if self._silent:
            return
        if not self._console.is_terminal and time.monotonic() - self._printed > PLAIN_SECONDS:
            self._printed = time.monotonic()
            self._console.print(self._text(), soft_wrap=True)

    def tell(self, phase: str, cost: float) -> None:
        """Take the phase of a search that has ended, and the best cost by then."""
        from mtpp_models import Progress

        self.show(Progress(phase, 0.0, cost, None, None))

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
