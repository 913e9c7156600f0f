"""Ctrl-C and, where a program handles it, SIGTERM as an event: work stops soon with the best result so far.

Inside `keeping_answers` no further signal is needed, and none does harm: the first one saves what is known and ends the
work, those behind it are left alone for as long as work takes to end. Compiled code and the writing of files are never
broken off.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

__all__ = ["Stop", "catch_interrupt", "keeping_answers", "terminate_as_interrupt"]

# Seconds in which work ends after the first signal; later signals break it off.
_GRACE = 10.0


@dataclass
class Stop:
    """Signals that a program has heard while it had answers to keep."""

    save: Callable[[], None]  # called once, at the first signal
    heard: bool = False
    _until: float = field(default=0.0, repr=False)  # until when signals are left alone
    _deferred: int = field(default=0, repr=False)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Let no signal break off what is inside, such as the writing and printing of an answer."""
        self._deferred += 1
        try:
            yield
        finally:
            self._deferred -= 1

    def hear(self) -> bool:
        """Take a signal; return whether the work that goes on has to be broken off if nothing else can end it."""
        if self.heard:
            return time.monotonic() > self._until
        self.heard, self._until = True, time.monotonic() + _GRACE
        self.save()
        return not self._deferred


_stop: Stop | None = None
_caught: threading.Event | None = None  # of the innermost `catch_interrupt`


@contextmanager
def keeping_answers(save: Callable[[], None] = lambda: None) -> Iterator[Stop]:
    """Have `save` called at the first Ctrl-C or SIGTERM; outside the main thread nothing changes.

    Where nothing has caught it, that signal raises `KeyboardInterrupt`, but for what is deferred. `save` may be called
    between any two steps of Python, and raises nothing.
    """
    global _stop
    stop, before = Stop(save), _stop

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.hear():
            raise KeyboardInterrupt

    _stop = stop
    try:
        with _handled_by(handle):
            yield stop
    finally:
        _stop = before


@contextmanager
def catch_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event; a second one raises. Outside the main thread nothing changes.

    SIGTERM counts as Ctrl-C inside `terminate_as_interrupt`, and wherever else the program handles it. A signal that
    is ignored, or ends the process at once, does so here too. Inside `keeping_answers` the event is there from the
    first signal on, and a second one raises only if the work does not end; inside another `catch_interrupt` it is there
    if that one has its own.
    """
    global _caught
    in_main = threading.current_thread() is threading.main_thread()
    event, stop, outer = threading.Event(), _stop, _caught if in_main else None

    def handle(number: int, frame: FrameType | None) -> None:
        if (stop.hear() if stop is not None else True) and event.is_set():
            raise KeyboardInterrupt
        event.set()

    if in_main:
        _caught = event
    try:
        with _handled_by(handle):
            # Behind `_handled_by`: a signal just before it is that of the outer one.
            if (stop is not None and stop.heard) or (outer is not None and outer.is_set()):
                event.set()
            yield event
    finally:
        if in_main:
            _caught = outer


@contextmanager
def _handled_by(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let `handle` take SIGINT and SIGTERM, unless the program ignores a signal or leaves it to the system."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(number))]
    previous = {number: signal.signal(number, handle) for number in handled}
    try:
        yield
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
