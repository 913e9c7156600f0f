"""Ctrl-C as a wish to stop soon with what is known."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from heuristics import Limits

__all__ = ["InterruptibleLimits", "catch_interrupt"]


@dataclass(frozen=True)
class InterruptibleLimits(Limits):
    """Limits that are also reached when `interrupted` is set."""

    interrupted: threading.Event = field(default_factory=threading.Event)

    def reached(self, bottleneck: float) -> bool:
        """Whether to stop with what is found."""
        return self.interrupted.is_set() or super().reached(bottleneck)


@contextmanager
def catch_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event; a second one raises. Outside the main thread nothing changes."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, previous)
