"""Solvers that are programs: each runs in a process group of its own, and ends in time with all its children."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

__all__ = ["GRACE", "ProgramRun", "end_programs", "run_program", "signal_name"]

#: Seconds that a program has to end by itself once it is told to.
GRACE = 3.0

# Seconds between looks.
_HEARTBEAT = 0.02
# Each begins a process group, where the system has them.
_RUNNING: set[subprocess.Popen[bytes]] = set()


class ProgramRun(NamedTuple):
    """Outcome of a program that has ended."""

    code: int  # its exit code; minus a signal's number if that ended it
    text: str  # its output; undecodable bytes are replaced
    stopped: bool  # whether it was told to stop, by Ctrl-C or by force


def run_program(
    command: Sequence[str],
    seconds: float | None = None,
    interrupted: threading.Event | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> ProgramRun:
    """Run a program to its end, or stop it as Ctrl-C does, and with force if it does not listen.

    Parameters
    ----------
    command : sequence of str
        Never seen by a shell.
    seconds : float, optional
        When to stop it.
    interrupted : threading.Event, optional
        Stops it as well.
    environment : mapping, optional
        By default that of this process.
    folder : str, optional
        Where it runs.

    Raises
    ------
    OSError
        If the program cannot be started.
    """
    with tempfile.TemporaryFile() as output, _end_with_us():
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder,
            process_group=0,
        )  # fmt: skip
        _RUNNING.add(process)
        stop = math.inf if seconds is None else time.monotonic() + seconds
        kill = math.inf
        try:
            while process.poll() is None and time.monotonic() < kill:
                wished = interrupted is not None and interrupted.is_set()
                if kill == math.inf and (wished or time.monotonic() >= stop):
                    kill = time.monotonic() + GRACE
                    _stop(process)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_HEARTBEAT)
        finally:  # also when a second Ctrl-C raises; children that outlive the program end with it
            _kill(process)
            _RUNNING.discard(process)
            process.wait()
        output.seek(0)
        return ProgramRun(process.returncode, output.read().decode(errors="replace"), kill < math.inf)


def end_programs() -> None:
    """End all programs that run, for a process that is about to leave."""
    for process in tuple(_RUNNING):
        _kill(process)


def signal_name(number: int) -> str:
    """Name of a signal, as of one that ended a process; its number if it has none here."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


@contextmanager
def _end_with_us() -> Iterator[None]:
    """End running programs before Ctrl-C or SIGTERM ends this process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        end_programs()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    deadly = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is signal.SIG_DFL]
    for number in deadly:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in deadly:
            signal.signal(number, signal.SIG_DFL)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Do to a program what Ctrl-C does; without process groups, end it."""
    if hasattr(os, "killpg"):
        _signal(process, signal.SIGINT)
    else:
        process.terminate()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program, and all that it started where that can be found."""
    if hasattr(os, "killpg"):
        _signal(process, signal.SIGKILL)
    else:
        process.kill()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
