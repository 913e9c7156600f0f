"""Ctrl-C and, where a program handles it, SIGTERM as an event: work stops soon with the best result so far."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["catch_interrupt", "terminate_as_interrupt"]


@contextmanager
def catch_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event; a second one raises. Outside the main thread nothing changes.

    SIGTERM counts as Ctrl-C inside `terminate_as_interrupt`, and wherever else the program handles it. A signal that
    is ignored, or ends the process at once, does so here too.
    """
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(number))]
    previous = {number: signal.signal(number, handle) for number in handled}
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Let SIGTERM raise `KeyboardInterrupt`, as Ctrl-C does. Outside the main thread nothing changes."""
    ignored = signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
