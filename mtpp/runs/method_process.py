"""Process in which a method of a caller runs, and which is ended after a time limit.

It reads questions from stdin and writes a line of JSON for each; what the method prints goes to stderr. It stays for
the next question, so that a file is loaded, and kernels are compiled, once.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
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
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heuristics.method import Limits, Method
from heuristics.registry import heuristic_of
from instances import FalseCertificateError, InputError, Instance, Partition
from instances.deadline import CLOCK, Deadline, Stopwatch
from instances.errors import MethodError
from instances.system.processes import NotBoundedError, catch_interrupt, module_command, run_bounded
from mtpp.runs.workers import METHOD_PROCESS

if TYPE_CHECKING:
    from mtpp_models import SolveOptions

#: A method: its module, or its file and the text of that, and its name there.
Place = tuple[str | None, str | None, str | None, str]

#: Beyond its time, which a method may exceed by a tenth: seconds until it is ended, and those to load it.
GRACE, LOADING = 10.0, 120.0
_OVER = 1.1
_BEAT = 0.2
_FOREVER = 1e6
# Processes that are kept, each with what Python and numba take.
_MOST = 4


class ModelKind(NamedTuple):
    """Properties of a caller's model."""

    exact: bool  # whether what it finds are partitions of its own
    by_solver: bool
    any_kinds: bool  # whether it answers questions over several kinds of devices


class Task(NamedTuple):
    """A question for a method, with its options."""

    instance: Instance
    options: SolveOptions  # a search takes seed and time limit from it
    start: Partition | None = None  # of a bound


class MethodAnswer(NamedTuple):
    """Answer of a method (partition, bound, or both), with clock and processor seconds."""

    block: list[int] | None  # of each node
    order: list[int] | None  # of the nodes
    kind: list[int] | None  # of the device of each block
    bound: float | None
    seconds: float
    cpu_seconds: float


def end_processes() -> None:
    """End the processes kept for methods."""
    while _KEPT:
        _KEPT.popitem()[1].end()


def ask_here(method: Any, task: Task, patience: float | None, grace: float | None) -> MethodAnswer:
    """Run a method of this process in a fork or, where forks are not possible, here.

    Parameters
    ----------
    patience, grace : float
        As for `mtpp.runs.user_methods.UserMethod.answer`.

    Raises
    ------
    MethodError
        If the method fails, or was ended.
    """
    if sys.platform != "linux":
        return _tried(method, task)
    try:
        return run_bounded(_tried, method, task, seconds=_limit(patience, grace) or _FOREVER)
    except NotBoundedError as error:
        raise MethodError(str(error)) from None


def _limit(patience: float | None, grace: float | None) -> float | None:
    """Seconds after which a method is ended; None for never."""
    return None if patience is None else _OVER * patience + (GRACE if grace is None else grace)


def ask_process(
    sources: str, place: Place, task: Task | None, patience: float | None = None, grace: float | None = None
) -> dict[str, Any]:
    """Run a method of a file or a module in a process kept for it; without a task, return its kind.

    Raises
    ------
    MethodError
        If the method cannot be loaded, fails, or was ended.
    KeyboardInterrupt
        At Ctrl-C.
    """
    with catch_interrupt() as interrupted:
        if sources not in _KEPT:
            while len(_KEPT) >= _MOST:
                _KEPT.pop(next(iter(_KEPT))).end()
            _KEPT[sources] = _Process(place)
        process = _KEPT[sources]
        try:
            answer = process.ask(task, _limit(patience, grace), interrupted)
        except BaseException:
            _KEPT.pop(sources).end()
            raise
    if "error" in answer:
        raise MethodError(answer["error"])
    return answer


class _Process:
    """A process that has loaded a method."""

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
        self._place, self._kind = place, dict[str, Any]()

    def ask(self, task: Task | None, limit: float | None, interrupted: threading.Event) -> dict[str, Any]:
        """Send a question, or ask for the kind of the method; load the method first if needed."""
        if not self._kind:
            reply = self._exchange(self._place, LOADING, interrupted, "it was not loaded")
            if "error" in reply:
                return reply
            self._kind = reply
        if task is None:
            return self._kind
        return self._exchange(task, limit, interrupted, "it did not end")

    def end(self) -> None:
        """End the process and its children."""
        self._kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def _kill(self) -> int:
        """Kill the process and its group; return its exit code.

        This is done only once: when the process has ended, another one may get its number.
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
        begin, still = time.monotonic(), None
        while limit is None or time.monotonic() - begin < limit:
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
            if still is not None:
                begin += answer["still"] - still  # while kernels are compiled the clock stands still
            still = answer["still"]
        raise MethodError(f"{late} within {limit:g} s, and its process was ended")

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put(b"")


_KEPT: dict[str, _Process] = {}
_OF_PARENT: list[_Process] = []  # kept, as to close their pipes would wait for a thread that reads them


def _begin_anew() -> None:
    """Forget the parent's processes in a fork, which lacks the threads that read their answers."""
    _OF_PARENT.extend(_KEPT.values())
    _KEPT.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def _tried(method: Any, task: Task) -> MethodAnswer:
    """Run a method; every failure is a `MethodError`."""
    watch, begin = Stopwatch(), time.process_time()
    try:
        partition, bound = _proved(method, task) if is_model(method) else (_searched(method, task), None)
        spent = time.process_time() - begin
        block, order, kind = (
            None if partition is None else getattr(partition, name).tolist() for name in ("block", "order", "kind")
        )
        return MethodAnswer(block, order, kind, bound, watch.passed, spent)
    except KeyboardInterrupt:
        raise
    except FalseCertificateError as error:  # its bug, not ours
        raise MethodError(str(error).partition("; please report")[0]) from None
    except BaseException as error:  # also of code that wants to leave Python
        raise MethodError(f"{type(error).__name__}: {error}") from None


def is_model(method: Any) -> bool:
    """Whether a method is a formulation or an algorithm, which proves bounds, rather than a search."""
    from mtpp_models.formulations.formulation import Formulation
    from mtpp_models.registry import Algorithm

    return isinstance(method, Formulation | Algorithm)


def kind_of(model: Any) -> ModelKind:
    """The kind of a model."""
    return ModelKind(bool(model.exact), hasattr(model, "cases"), model.kinds == "any")


def _searched(method: Callable[..., Any], task: Task) -> Partition:
    limits = Limits(Deadline.after(task.options.time_limit))
    return heuristic_of(method).run(task.instance, np.random.default_rng(task.options.seed), limits)


def _proved(model: Any, task: Task) -> tuple[Partition | None, float | None]:
    """The partition and the bound of a model."""
    from mtpp_models import solve

    result = solve(task.instance, model, task.options, start=task.start)
    if result.interrupted:
        raise KeyboardInterrupt
    if result.impossible is not None:
        raise InputError(f"it says that no partition is possible ({result.impossible}), which counts for nothing here.")
    return result.partition, None if result.bound is None else result.bound.value


def _load(place: Place) -> Any:
    """Load the method at a place; a file is loaded as a module of its text, under a unique name."""
    module_name, file, text, name = place
    if module_name is not None:
        module = importlib.import_module(module_name)
    else:
        assert file is not None
        assert text is not None
        module = ModuleType(f"mtpp_method_{sha256(text.encode()).hexdigest()[:16]}")
        module.__file__ = file
        sys.modules[module.__name__] = module
        if Path(file).parent.is_dir():
            sys.path.append(str(Path(file).parent))  # for what lies beside it
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        try:
            exec(compile(text, file, "exec", dont_inherit=True), vars(module))
        except ImportError as error:
            if "relative import" not in str(error):
                raise
            raise MethodError(
                f"{error}; a file alone has no package: import without the dot, or name it package.module:{name}"
            ) from None
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    if not (is_model(value) or callable(value) or isinstance(value, Method)):
        raise MethodError(
            f"{name} is of type {type(value).__name__}; a method is a function, a Formulation or an Algorithm"
        )
    if inspect.isfunction(value):
        try:
            inspect.signature(value).bind("instance", "rng", "limits")
        except TypeError:
            raise MethodError(
                f"{name} is a function, which searches, but does not take instance, rng and limits; "
                "a bound is a Formulation or an Algorithm"
            ) from None
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
    method: Any = None
    while True:
        question = questions.get()
        try:
            if method is None:
                method = _load(question)
                say({"model": kind_of(method) if is_model(method) else None})
            else:
                say(_tried(method, question)._asdict())
        except MethodError as error:
            say({"error": str(error)})
        except BaseException as error:
            say({"error": str(MethodError(f"{type(error).__name__}: {error}"))})


def _listen(stream: IO[bytes], questions: queue.SimpleQueue[Any]) -> None:
    """Receive questions; end this process when the caller ends, whatever it is doing."""
    try:
        while True:
            questions.put(pickle.load(stream))
    finally:
        os._exit(1)


def _main() -> None:
    """Serve questions, with the caller's pipes protected from what the method reads and prints."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    questions: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, questions), daemon=True).start()
    _serve(questions, answers)


if __name__ == "__main__":
    _main()
