"""A copy of this process that works beside it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess


@contextmanager
def run_beside(steps: Callable[[], Iterable[object]]) -> Iterator[BaseProcess | None]:
    """Run all steps in a silent copy of this process, which ends with the context.

    Elsewhere than on Linux a copy of a process with threads may hang: the context is None then, and nothing runs.
    """
    if sys.platform != "linux":
        yield None
        return
    process = multiprocessing.get_context("fork").Process(target=_work, args=(steps, os.getpid()), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _work(steps: Callable[[], Iterable[object]], parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, too, and ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    for _ in steps():
        if os.getppid() != parent:
            return
