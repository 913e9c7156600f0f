"""Unit of work of the engine: one run to be made."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from instances import InputError
from instances.deadline import Stopwatch, processor_seconds
from instances.errors import MethodError
from instances.json_files import check_readable, check_writable
from instances.system.files import file_lock
from instances.system.processes import run_program
from mtpp.runs.code_hash import sources_of
from mtpp.versions import package_version

#: Of an answer that another process has found: its seconds by clock and by processor, which are no field of the run.
MEASURED = "measured"


class Job(ABC):
    """One run to be made, perhaps in another process.

    A job can be pickled, as another process may run it. Its answer depends on its key alone: neither on where it runs,
    nor on what runs at the same time.
    """

    @property
    @abstractmethod
    def key(self) -> str:
        """Hash of everything on which the answer depends, including the code."""

    @property
    def old_key(self) -> str | None:
        """Key of the same question in files of earlier versions, without the code."""
        return None

    @property
    def waits_for(self) -> Sequence[str]:
        """Keys of the jobs whose runs are needed to start this one."""
        return ()

    @abstractmethod
    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """The run for the file; without arguments, only the fields of the question."""

    @abstractmethod
    def answer(self, start: Sequence[Run]) -> Run:
        """Do the work, and return the fields of the answer."""

    def chosen(self, start: Sequence[Run]) -> Sequence[Run]:
        """The runs, among those the job waited for, that the answer uses."""
        return start

    def refusal(self) -> str | None:
        """Reason why this process must not run the job, as its code differs; None if it may."""
        return None

    def run(self, start: Sequence[Run] = ()) -> Run:
        """Make the run from the runs that the job waited for; an error becomes a run with an error text.

        Raises
        ------
        KeyboardInterrupt
            If the run was interrupted; a part of a run is not a run.
        """
        circumstances = Circumstances()
        try:
            answer = self.answer(start)
        except Exception as error:
            message = str(error) if isinstance(error, MethodError) else f"{type(error).__name__}: {error}"
            return self.record(circumstances.watch.passed, message) | circumstances.fields()
        seconds, circumstances.more = answer.pop(MEASURED, (circumstances.watch.passed, 0.0))
        return self.record(seconds, **answer) | circumstances.fields()

    def failure(self, error: str) -> Run:
        """The run of a job whose process died."""
        return self.record(error=error) | NOTHING

    def line(self, about: Run, seconds: float | None, error: str | None, answer: Run) -> Run:
        """A run for the file: fields of job and answer, and fields that all runs have."""
        run = {"version": package_version(), "seconds": seconds, "error": error}
        return {"key": self.key, **about, **run, **answer}

    @staticmethod
    def failed(run: Run) -> bool:
        """Whether a run has no answer, so that it should be repeated."""
        return run["error"] is not None

    def is_done(self, run: Run | None) -> bool:
        """Whether a run answers the job; a failed or incomplete one does not."""
        return run is not None and run.keys() >= _fields(self) and not self.failed(run)

    def adopted(self, run: Run) -> Run | None:
        """A run of an earlier version as an answer to this job; None if it cannot be one.

        Fields on how the run was made that it lacks stay empty.
        """
        now = self.record()
        full = dict.fromkeys(now) | {name: now.get(name) for name in ("simple", "cluster") if name in now} | run
        full |= {"key": self.key, "schema": OLD_SCHEMA}
        return full if self.is_done(full) else None


class StudyJob(Job):
    """A job of a study, whose question is a list of plain values, and whose code is that of its class."""

    @property
    @abstractmethod
    def question(self) -> list[Any]:
        """All plain values on which the answer depends, without the code."""

    @cached_property
    def sources(self) -> str:
        """Hash of the code in the process that made the job."""
        return _sources(type(self))

    @cached_property
    def key(self) -> str:
        """Hash of the question and the code."""
        return key_of([*self.question, self.sources])

    @property
    def old_key(self) -> str | None:
        """Key of earlier versions, with the package version in place of the code."""
        return key_of([*self.question, package_version()])

    def refusal(self) -> str | None:
        """Reason why this process must not run the job, as its code differs from the caller's; None if it may."""
        return None if _sources(type(self)) == self.sources else other_code(type(self).__name__)

    def line(self, about: Run, seconds: float | None, error: str | None, answer: Run) -> Run:
        """The run with the fields of job and answer, and the hash of its code."""
        return super().line({"sources": self.sources, **about}, seconds, error, answer)


def key_of(question: Any) -> str:
    """Hash of a list of plain values."""
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


def other_code(name: str) -> str:
    """Sentence about a worker whose code or packages differ from the caller's."""
    return (
        f"the worker on {platform.node()} has other code of {name}, or other versions of packages, than the caller; "
        "install the same, and start both again."
    )


def _fields(job: Job) -> frozenset[str]:
    """Names of the fields of a run, equal for all jobs of a class."""
    kind = type(job)
    if kind not in _FIELDS:
        _FIELDS[kind] = frozenset(job.record())
    return _FIELDS[kind]


_FIELDS: dict[type[Job], frozenset[str]] = {}


@cache
def _sources(kind: type[StudyJob]) -> str:
    return sources_of(kind)


# Files of runs, and where their answers come from.


# Circumstances of a run: when, on which machine, with which versions it was made, and how long it took.


_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("numpy", "scipy", "numba", "networkx", "pyomo", "highspy")
_GIT_SECONDS = 5.0

#: The fields of a run that nobody saw, as its process died.
NOTHING: dict[str, Any] = dict.fromkeys(
    ("commit", "host", "cpu", "cores", "load", "start", "cpu_seconds", "versions")
)  # fmt: skip


@dataclass
class Circumstances:
    """Measures time, machine and load of a run, from its start on."""

    watch: Stopwatch = field(default_factory=Stopwatch)
    start: datetime = field(default_factory=lambda: datetime.now(UTC))
    load: float | None = field(default_factory=lambda: _load())
    used: float = field(default_factory=processor_seconds)
    more: float = 0.0  # seconds of processes that outlive the run

    def fields(self) -> dict[str, Any]:
        """Fields of the run, at its end."""
        return {
            **_machine(),
            "load": self.load,
            "start": self.start.isoformat(timespec="seconds"),
            "cpu_seconds": round(processor_seconds() - self.used + self.more, 6),
        }


@cache
def _machine() -> dict[str, Any]:
    """Fields of a run that are constant in a process."""
    versions = {"python": platform.python_version(), **{name: package_version(name) for name in _PACKAGES}}
    return {
        "commit": _commit(),
        "host": platform.node() or None,
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "load": None,
        "start": None,
        "cpu_seconds": None,
        "versions": versions,
    }


def _commit() -> str | None:
    """Commit of the checkout with this code, with "-dirty" after changes; None without a checkout."""
    if not (_ROOT / ".git").exists():
        return None
    commit = _git("rev-parse", "HEAD")
    if commit is None or not re.fullmatch("[0-9a-f]{40,64}", commit):
        return None
    return commit + ("-dirty" if _git("status", "-s", "-uno") else "")


def _git(*words: str) -> str | None:
    try:
        unlocked = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}  # others may be at work there
        done = run_program(["git", *words], _GIT_SECONDS, environment=unlocked, folder=str(_ROOT))
    except OSError:
        return None
    return done.text.strip() if done.code == 0 else None


def _processor() -> str | None:
    """Model of the processor."""
    try:
        match = re.search(
            r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), flags=re.MULTILINE
        )
    except OSError:
        match = None
    return match[1] if match else platform.processor() or platform.machine() or None


def _load() -> float | None:
    """Load average of the last minute; None where the system does not say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


# Runs on disk: append-only JSON Lines, one finished run a line.
#
# A line is written with one system call and synced, so a killed process loses at most the line that it was
# writing; the next writer removes what is left of it. A key that occurs twice was tried again after a
# failure: its last line counts. A line that is no run is reported, does not count and stays where it is.
#
# Runs of the version before are read, too. Their keys do not know the code that made them, so no question takes its
# answer from one of them unless the caller accepts that.


SCHEMA, OLD_SCHEMA = "mtpp-run/2", "mtpp-run/1"
# Windows changes ends of lines in other files.
_BINARY: int = getattr(os, "O_BINARY", 0)
_OPENINGS = tuple(f'{{"schema": "{schema}"'.encode() for schema in (SCHEMA, OLD_SCHEMA))

#: Part of its time that a heuristic may take.
_ROUNDING = 1e-9
_OVER = 1.1

#: One line of the file; missing values are None.
Run = dict[str, Any]


def read_runs(path: str | Path) -> list[Run]:
    """Read the runs of a file; of several with one key the last counts.

    Raises
    ------
    InputError
        If there is no such file, or it holds something else than runs.
    OSError
        If the file cannot be read.
    """
    check_readable(path)
    return list(_parse(path)[0].values())


def remarks(run: Run) -> list[str]:
    """Doubts about a heuristic's run: "late" beyond 1.1 of its time, "not repeatable" if answers differ."""
    limit = run.get("time_limit") if run.get("kind") == "heuristic" else None
    doubts = ["late"] if limit is not None and (run["seconds"] or 0.0) > _OVER * limit else []
    return doubts + ["not repeatable"] * (run.get("repeatable") is False)


class RunLog:
    """A file of runs that only this process appends to; a context manager.

    Parameters
    ----------
    path : str or Path
        Made if missing, with its folder.
    accept_old : bool
        Whether runs of the version before answer questions.

    Attributes
    ----------
    runs : dict of str to dict
        The last run of each key.
    accept_old : bool

    Raises
    ------
    InputError
        If another process writes the file, or the file holds something else.
    OSError
        If the file cannot be written.
    """

    def __init__(self, path: str | Path, *, accept_old: bool = False) -> None:
        self.accept_old = accept_old
        check_writable(path)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._path = str(path)
        with ExitStack() as opened:
            try:
                opened.enter_context(file_lock(path, wait=False))
            except BlockingIOError:
                raise InputError(
                    f"{path} is being written by another process; wait for it or choose another file."
                ) from None
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, 0o666)
            opened.callback(os.close, self._file)
            self.runs, torn, is_ended = _parse(path)
            os.ftruncate(self._file, os.fstat(self._file).st_size - torn)
            if not is_ended:  # a damaged line stays one by itself
                os.write(self._file, b"\n")
            self._opened = opened.pop_all()

    def append(self, run: Mapping[str, Any]) -> None:
        """Write a run durably.

        Raises
        ------
        TypeError, ValueError
            If JSON cannot hold it; nothing is written.
        OSError
            If there is no room.
        """
        data = json.dumps({"schema": SCHEMA, **run}, allow_nan=False).encode() + b"\n"
        try:
            written = os.write(self._file, data)
            if written < len(data):
                raise OSError(errno.ENOSPC, f"{written} of {len(data)} bytes of a run could be written; make room")
            os.fsync(self._file)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from None
        self.runs[run["key"]] = dict(run)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()


def _parse(path: str | Path) -> tuple[dict[str, Run], int, bool]:
    """Runs by key, and how an incomplete last line must be repaired.

    Only an incomplete line that this program has written is ever cut off.
    """
    runs: dict[str, Run] = {}
    shared: dict[Any, Any] = {}
    damaged, torn, line = [], 0, b"\n"
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n") and any(line.startswith(o) or o.startswith(line) for o in _OPENINGS):
                torn, line = len(line), b"\n"
                break
            try:
                run = json.loads(line, parse_constant=_refuse)
                schema = run["schema"]
                if schema in (SCHEMA, OLD_SCHEMA) and not _sound(run):
                    raise ValueError("a field of another type")
            except (ValueError, KeyError, TypeError, RecursionError):
                damaged.append(number)
                continue
            if schema not in (SCHEMA, OLD_SCHEMA):
                raise InputError(f"{path}, line {number} has schema {schema!r}, not {SCHEMA!r}; choose another file.")
            runs[run["key"]] = _compact(run, shared)
    if damaged and not runs:
        raise InputError(f"{path}, line {damaged[0]} is not a run; choose another file.")
    if damaged:
        more = f" and {len(damaged) - 1} more lines are no runs and do" if damaged[1:] else " is not a run and does"
        print(f"mtpp: {path}, line {damaged[0]}{more} not count; restore or remove what is damaged.", file=sys.stderr)
    return runs, torn, line.endswith(b"\n")


def _compact(run: Run, shared: dict[Any, Any]) -> Run:
    """The run with repeated texts and versions shared with earlier runs."""
    compact = {}
    for name, value in run.items():
        if isinstance(value, str):
            value = shared.setdefault(value, value)
        elif isinstance(value, dict):
            value = shared.setdefault(json.dumps(value), value)
        compact[shared.setdefault(name, name)] = value
    return compact


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _sound(run: Run) -> bool:
    """Whether the run has a key, and every field has its type."""
    if not isinstance(run["key"], str) or not _is_trace(run.get("trace", _A_MOMENT)):
        return False
    for name, value in run.items():
        kind = _TYPES.get(name)
        if kind is None or (value is None and name not in _GIVEN):
            continue
        items = value if kind is list and isinstance(value, list) else ()
        wrong = not isinstance(value, kind) or any(type(item) is not int for item in items)
        if wrong or isinstance(value, bool) != (kind is bool):
            return False
    return True


def _is_trace(value: Any) -> bool:
    """Whether a value is a list of (seconds, cost, bound), the last two perhaps missing."""
    points = value if isinstance(value, list) and value else [()]
    return all(
        isinstance(point, list)
        and len(point) == len(_A_MOMENT[0])
        and type(point[0]) in (int, float)
        and all(number is None or type(number) in (int, float) for number in point[1:])
        for point in points
    )


_A_MOMENT: list[list[float | None]] = [[0.0, None, None]]

#: Of the fields that several tables share.
_TYPES: dict[str, Any] = (
    dict.fromkeys(("instance", "question", "kind", "method", "time_unit", "error", "solver", "version"), str)
    | dict.fromkeys(("commit", "sources", "cluster", "host", "cpu", "start", "solver_version", "profile"), str)
    | dict.fromkeys(("n", "m", "k", "seed", "cores"), int)
    | dict.fromkeys(("seconds", "bottleneck", "bound", "communication_over_work", "bandwidth", "memory"), int | float)
    | dict.fromkeys(("simple", "load", "cpu_seconds", "time_limit"), int | float)
    | {
        "block": list,
        "order": list,
        "devices": list,
        "optimal": bool,
        "repeatable": bool,
        "parameters": dict,
        "versions": dict,
    }
)
_GIVEN = ("instance", "question", "kind", "method", "n", "m", "k")
