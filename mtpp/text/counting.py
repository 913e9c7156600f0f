"""Progress of work on a known number of things: a bar on a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from instances.errors import printable
from mtpp.text.live_line import PLAIN_SECONDS, stderr_console

__all__ = ["counted"]

T = TypeVar("T")


def counted(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Hand on the items, and show on stderr how many of `total` came and how long the others may take."""
    from rich import progress

    console = stderr_console()
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn())
    times = (progress.TimeElapsedColumn(), progress.TextColumn("left"), progress.TimeRemainingColumn())
    begin = printed = time.monotonic()
    with progress.Progress(*columns, *times, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(printable(what), total=total)
        for done, item in enumerate(items, start=1):
            yield item
            bar.advance(task)
            now = time.monotonic()
            if not console.is_terminal and now - printed > PLAIN_SECONDS:
                printed = now
                remaining = (now - begin) / done * (total - done)
                console.print(f"{what}: {done} of {total}, about {remaining:.0f} s left", markup=False, highlight=False)
