"""Processes: bounded calls, fresh interpreters, limits, programs and interrupts."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import SubprocessError as SubprocessError
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from instances.errors import InputWarning

# Limits of the memory and time of a process, where the system has them.


try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def limit_process(*, memory: int, cpu_seconds: int | None = None) -> bool:
    """Limit this process and those that it starts; return whether the system could.

    Parameters
    ----------
    memory : int
        Limit of its data [bytes]; an allocation beyond raises a `MemoryError`.
    cpu_seconds : int, optional
        Processor time after which the system ends the process [s].
    """
    if resource is None:
        return False
    limits = [(resource.RLIMIT_DATA, memory)]
    if cpu_seconds is not None:
        limits.append((resource.RLIMIT_CPU, cpu_seconds))
    try:
        for kind, value in limits:
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
    except (ValueError, OSError):  # some systems have limits that they refuse to set
        return False
    return True


def warn_if_unlimited() -> None:
    """Warn where `limit_process` can do nothing."""
    if resource is None:
        warnings.warn(
            "the memory of processes that open files cannot be limited on this system; open only files that you "
            "trust, or do it on Linux or macOS.",
            InputWarning,
            stacklevel=3,
        )


# Call of a function in a process of its own, with limits on time and memory; for untrusted files.
#
# Arguments and answer are objects. Where another package is at work, which may bring the process down or must not be
# loaded here, `instances.system.processes` runs a module in a fresh Python.


T = TypeVar("T")

# Of the process, beside its code.
_MEMORY = 4 * 2**30
# Seconds to end by itself.
_GRACE_OF_CALLS = 3.0


class NotBoundedError(Exception):
    """Call that was ended because it took too much time or memory."""


def run_bounded(function: Callable[..., T], *arguments: Any, seconds: float, **options: Any) -> T:
    """Call a function in a process that is ended after `seconds` of wall time; return its result.

    The function, its arguments and its result must be picklable. Where the system cannot limit its memory, an
    `InputWarning` says so.

    Raises
    ------
    NotBoundedError
        If the call took too much time or memory.
    Exception
        Any error of the function.
    """
    warn_if_unlimited()
    # Elsewhere a copy of a process with threads may hang; on Linux it starts at once.
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(sender, function, arguments, options))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise NotBoundedError(f"it did not end within {seconds:g} s and was stopped")
        succeeded, result = receiver.recv()
        process.join(_GRACE_OF_CALLS)
    except EOFError:
        raise NotBoundedError("it took too much memory, or was ended from outside") from None
    finally:
        process.terminate()
        process.join(_GRACE_OF_CALLS)
        process.kill()
        process.join()
    if not succeeded:
        raise result
    answer: T = result
    return answer


def _call(sender: Connection, function: Callable[..., T], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    limit_process(memory=_MEMORY)
    try:
        sender.send(_outcome(function, arguments, options))
    except KeyboardInterrupt:  # the one who asked has heard it too, or has told it
        os._exit(1)


def _outcome(function: Callable[..., T], arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[bool, Any]:
    try:
        return True, function(*arguments, **options)
    except MemoryError:
        return False, NotBoundedError(f"it needs more than {_MEMORY >> 30} GiB of memory")
    except Exception as error:
        return False, error


# Run of one module in a fresh Python process; other packages may crash, hang or take memory on untrusted files.
#
# What comes back is a file or bytes, and nothing of this process goes along. Where our own code works on such a file
# and its answer is an object, `instances.system.processes` calls the function in a copy of this process.


# Seconds between looks at a process that is asked.
_LOOK = 0.2


def run_module(
    module: str, *arguments: str | Path, folder: str | None = None, seconds: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a module of this project with the packages that this process has, and none of the working folder.

    The module limits its memory; an `InputWarning` says where it cannot.

    Parameters
    ----------
    module : str
        Full name of the module.
    folder : str, optional
        Working folder; by default that of this process.
    seconds : float, optional
        Time after which the process is killed [s].

    Raises
    ------
    subprocess.TimeoutExpired
        If the module was killed for taking too long.
    OSError
        If it cannot be started.
    """
    warn_if_unlimited()
    command, environment = module_command(module, *arguments)
    return subprocess.run(command, cwd=folder, env=environment, timeout=seconds, capture_output=True, check=False)


def ask_module(
    module: str, question: str, *, interrupted: threading.Event, is_late: Callable[[], bool], patience: float
) -> subprocess.CompletedProcess[str]:
    """Run a module that reads a question from stdin and answers on stdout.

    Parameters
    ----------
    module : str
        Full name of the module, which at Ctrl-C answers with its best results so far.
    question : str
        Written to its stdin.
    interrupted : threading.Event
        When it is set, the process gets a Ctrl-C.
    is_late : callable
        Whether the answer is overdue.
    patience : float
        Seconds from when the answer is overdue until the process is killed.

    Raises
    ------
    OSError
        If it cannot be started.
    """
    command, environment = module_command(module)
    pipe, end = subprocess.PIPE, None
    with tempfile.TemporaryFile("w+", encoding="utf-8") as stdin:
        stdin.write(question)
        stdin.seek(0)
        process = subprocess.Popen(command, env=environment, text=True, stdin=stdin, stdout=pipe, stderr=pipe)
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    out, err = process.communicate(timeout=_LOOK)
                    return subprocess.CompletedProcess(command, process.returncode, out, err)
                if interrupted.is_set():
                    with contextlib.suppress(ValueError):  # Windows, whose Ctrl-C all programs of a console hear
                        process.send_signal(signal.SIGINT)
                if end is None and is_late():
                    end = time.monotonic() + patience
                if end is not None and time.monotonic() >= end:
                    process.kill()
        finally:
            process.kill()
            process.wait()


@contextmanager
def module_beside(module: str) -> Iterator[None]:
    """Run a module of this project, silent, beside the body of the context, whose end ends the module's processes.

    Raises
    ------
    OSError
        If it cannot be started.
    """
    command, environment = module_command(module)
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, env=environment, process_group=0)
    try:
        yield
    finally:
        _kill(process)
        process.wait()


def module_command(module: str, *arguments: str | Path) -> tuple[list[str], dict[str, str]]:
    """Command and environment that run a module as `run_module` does, for callers that start the process themselves."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # each takes memory
    environment = os.environ | one_thread | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return [sys.executable, "-P", "-m", module, *map(str, arguments)], environment


# Solvers that are programs: each runs in a process group of its own, and ends in time with all its children.


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
        Time after which it is stopped [s].
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
                    _terminate(process)
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
    """Name of a signal, such as SIGKILL; ``signal NUMBER`` if this system has no name for it."""
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


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a program as Ctrl-C does; without process groups, end it."""
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


# Ctrl-C and, where a program handles it, SIGTERM as an event: work stops soon with the best result so far.
#
# Inside `keeping_answers` no further signal is needed, and none does harm: the first one saves what is known and ends
# the work, those behind it are left alone for as long as work takes to end. Compiled code and the writing of files are
# never broken off.


# Seconds in which work ends after the first signal; later signals break it off.
_GRACE = 10.0


@dataclass
class Stop:
    """State of a program that saves its answers at the first signal."""

    save: Callable[[], None]  # called once, at the first signal
    heard: bool = False
    _until: float = field(default=0.0, repr=False)  # until when signals are left alone
    _deferred: int = field(default=0, repr=False)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Let no signal interrupt the body of the context, such as the writing and printing of an answer."""
        self._deferred += 1
        try:
            yield
        finally:
            self._deferred -= 1

    def hear(self) -> bool:
        """Handle a signal: save at the first one; return whether the current work must be interrupted by force."""
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

    If no `catch_interrupt` handles the signal, it then raises `KeyboardInterrupt`, unless inside `Stop.deferred`.
    `save` may be called between any two steps of Python, and must raise nothing.
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
    """Let `handle` handle SIGINT and SIGTERM, except signals that the program ignores or leaves to the system."""
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


# Copies of this process that work beside it.


def processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def run_beside(
    groups: Sequence[Callable[[], Iterable[T]]], count: int
) -> Iterator[tuple[Iterator[T], list[BaseProcess]]]:
    """Share groups of steps among this process and `count` silent copies of it, which end with the context.

    Each process takes the next group as long as any is left. Yields an iterator over the steps of this process's
    groups, and the copies. There are copies on Linux only: elsewhere a copy of a process with threads may hang.
    """
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    taken = context.Value("i", 0)

    def steps() -> Iterator[T]:
        while True:
            with taken.get_lock():
                turn, taken.value = taken.value, taken.value + 1
            if turn >= len(groups):
                return
            yield from groups[turn]()

    copies: list[BaseProcess] = [
        context.Process(target=_work, args=(steps, os.getpid()), daemon=True)
        for _ in range(count if sys.platform == "linux" else 0)
    ]
    try:
        for process in copies:
            process.start()
        yield steps(), copies
    finally:
        for process in copies:
            if process.pid is not None:
                process.kill()
                process.join()


def _work(steps: Callable[[], Iterable[object]], parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, too, and ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    for _ in steps():
        if os.getppid() != parent:
            return
