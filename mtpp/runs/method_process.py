"""Process in which a heuristic of a caller runs, and which is ended when it does not end.

It reads questions from stdin and writes a line of JSON for each; what the heuristic prints goes to stderr. It stays for
the next question, so that a file is loaded, and kernels are compiled, once.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import linecache
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NamedTuple

import numpy as np

from heuristics.method import Limits
from heuristics.registry import heuristic_of
from instances import Instance
from instances.deadline import CLOCK, Deadline, Stopwatch
from instances.system.processes import NotBoundedError, catch_interrupt, module_command, run_bounded
from mtpp.runs.job import MethodError
from mtpp.runs.workers import METHOD_PROCESS

#: A function: its module, or its file and the text of that, and its name there.
Place = tuple[str | None, str | None, str | None, str]

#: Beyond its time, which a heuristic may exceed by a tenth: seconds until it is ended, and those to load it.
GRACE, LOADING = 10.0, 120.0
_OVER = 1.1
_BEAT = 0.2
_FOREVER = 1e6


class MethodAnswer(NamedTuple):
    """Answer of a heuristic, seconds by clock without compiling, and by processor."""

    block: list[int]  # of each node
    order: list[int]  # of the nodes
    kind: list[int]  # of the device of each block
    seconds: float
    cpu_seconds: float


def end_processes() -> None:
    """End the processes that are kept for heuristics."""
    while _KEPT:
        _KEPT.popitem()[1].end()


def ask_here(
    function: Callable[..., Any], instance: Instance, seed: int, time_limit: float | None, patience: float | None
) -> MethodAnswer:
    """Run a function of this process in a copy of it; where the system makes none, in this process, to its end.

    Raises
    ------
    MethodError
        If it fails, or was ended.
    """
    if sys.platform != "linux":
        return _tried(function, instance, seed, time_limit)
    try:
        seconds = _FOREVER if patience is None else _OVER * patience + GRACE
        return run_bounded(_tried, function, instance, seed, time_limit, seconds=seconds)
    except NotBoundedError as error:
        raise MethodError(str(error)) from None


def ask_process(
    sources: str, place: Place, instance: Instance, seed: int, time_limit: float | None, patience: float | None
) -> MethodAnswer:
    """Run a function of a file or a module in a process that is kept for it.

    Raises
    ------
    MethodError
        If it cannot be loaded, fails, or was ended.
    KeyboardInterrupt
        At Ctrl-C.
    """
    with catch_interrupt() as interrupted:
        if sources not in _KEPT:
            end_processes()
            _KEPT[sources] = _Process(place)
        process = _KEPT[sources]
        try:
            answer = process.ask((instance, seed, time_limit), patience, interrupted)
        except BaseException:
            _KEPT.pop(sources).end()
            raise
    if "error" in answer:
        raise MethodError(answer["error"])
    return MethodAnswer(**answer)


class _Process:
    """A process that has loaded a function."""

    def __init__(self, place: Place) -> None:
        command, environment = module_command(__name__)
        self._process = subprocess.Popen(
            command,
            env=environment | {METHOD_PROCESS: "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # where Ctrl-C does not reach it
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._place: Place | None = place

    def ask(self, question: Any, patience: float | None, interrupted: threading.Event) -> dict[str, Any]:
        """Answer to a question; loads the function first if that is to be done."""
        if self._place is not None:
            place, self._place = self._place, None
            loaded = self._exchange(place, LOADING, interrupted, "it was not loaded")
            if "error" in loaded:
                self._place = place
                return loaded
        limit = None if patience is None else _OVER * patience + GRACE
        return self._exchange(question, limit, interrupted, "it did not end")

    def end(self) -> None:
        """End the process and all that it has started."""
        self._kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def _kill(self) -> int:
        """Kill the process and its group; return its exit code.

        This is done once only: when the process has ended, others may get its number.
        """
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()
        return self._process.wait()

    def _exchange(self, message: Any, limit: float | None, interrupted: threading.Event, late: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # a process that has died says nothing below
            pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()
        begin, still, first = time.monotonic(), 0.0, None
        while limit is None or time.monotonic() - begin - still < limit:
            if interrupted.is_set():
                raise KeyboardInterrupt
            try:
                line = self._lines.get(timeout=_BEAT)
            except queue.Empty:
                continue
            if not line:
                raise MethodError(f"its process died (exit code {self._kill()})")
            answer = json.loads(line)
            if "still" not in answer:
                return dict(answer)
            first = answer["still"] if first is None else first
            still = answer["still"] - first  # while kernels are compiled the clock stands still
        raise MethodError(f"{late} within {limit:g} s, and its process was ended")

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put(b"")


_KEPT: dict[str, _Process] = {}


def _tried(function: Callable[..., Any], instance: Instance, seed: int, time_limit: float | None) -> MethodAnswer:
    """Run a function; any failure of it is a `MethodError`."""
    watch, begin = Stopwatch(), time.process_time()
    try:
        limits = Limits(Deadline.after(time_limit))
        partition = heuristic_of(function).run(instance, np.random.default_rng(seed), limits)
        spent = time.process_time() - begin
        block, order, kind = partition.block.tolist(), partition.order.tolist(), partition.kind.tolist()
        return MethodAnswer(block, order, kind, watch.passed, spent)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also of code that wants to leave Python
        raise MethodError(f"{type(error).__name__}: {error}") from None


def _load(place: Place) -> Any:
    """The function of a place; a file is loaded as its text says, under a name of its own."""
    name, file, text, function = place
    if name is not None:
        module = importlib.import_module(name)
    else:
        assert file is not None
        assert text is not None
        module = ModuleType(f"mtpp_method_{sha256(text.encode()).hexdigest()[:16]}")
        module.__file__ = file
        sys.modules[module.__name__] = module
        if Path(file).parent.is_dir():
            sys.path.append(str(Path(file).parent))  # for what lies beside it
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec", dont_inherit=True), vars(module))
    value: Any = module
    for part in function.split("."):
        value = getattr(value, part)
    return value


def _serve(questions: queue.SimpleQueue[Any], answers: IO[str]) -> None:
    lock = threading.Lock()

    def say(answer: dict[str, Any]) -> None:
        with lock:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()

    def beat() -> None:
        while True:
            say({"still": CLOCK.still})
            time.sleep(1.0)

    threading.Thread(target=beat, daemon=True).start()
    function: Any = None
    while True:
        question = questions.get()
        try:
            if function is None:
                function = _load(question)
                say({})
            else:
                say(_tried(function, *question)._asdict())
        except MethodError as error:
            say({"error": str(error)})
        except BaseException as error:
            say({"error": str(MethodError(f"{type(error).__name__}: {error}"))})


def _listen(stream: IO[bytes], questions: queue.SimpleQueue[Any]) -> None:
    """Take in questions; end with the process that asks, whatever is being done."""
    try:
        while True:
            questions.put(pickle.load(stream))
    finally:
        os._exit(1)


def _main() -> None:
    """Keep the pipes to the caller from what the heuristic reads and prints."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    questions: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, questions), daemon=True).start()
    _serve(questions, answers)


if __name__ == "__main__":
    _main()
