"""Runs on disk: append-only JSON Lines, one finished run a line.

A line is written with one system call and synced, so a killed process loses at most the line that it was
writing; the next writer removes what is left of it. A key that occurs twice was tried again after a
failure: its last line counts. A line that is no run is reported, does not count and stays where it is.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from instances import InputError
from instances.json_files import check_readable, check_writable
from instances.system.file_lock import file_lock

__all__ = ["SCHEMA", "Run", "RunLog", "read_runs"]

SCHEMA = "mtpp-run/1"
# Windows changes ends of lines in other files.
_BINARY: int = getattr(os, "O_BINARY", 0)
_OPENING = f'{{"schema": "{SCHEMA}"'.encode()

#: One line of the file; missing values are None.
Run = dict[str, Any]


def read_runs(path: str | Path) -> list[Run]:
    """Read the runs of a file, the last line of each key, in the order of first appearance.

    Raises
    ------
    InputError
        If there is no such file, or it holds something else than runs.
    OSError
        If the file cannot be read.
    """
    check_readable(path)
    return list(_parse(Path(path).read_bytes(), path)[0].values())


class RunLog:
    """A file of runs that this process alone appends to; a context manager.

    Parameters
    ----------
    path : str or Path
        Made if missing, with its folder.

    Attributes
    ----------
    runs : dict of str to dict
        The last run of each key.

    Raises
    ------
    InputError
        If another process writes the file, or the file holds something else.
    OSError
        If the file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
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
            data = Path(path).read_bytes()
            self.runs, length = _parse(data, path)
            os.ftruncate(self._file, length)
            if length and data[length - 1 : length] != b"\n":  # a damaged line stays one by itself
                os.write(self._file, b"\n")
            self._opened = opened.pop_all()

    def append(self, run: Mapping[str, Any]) -> None:
        """Write one run, durably."""
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


def _parse(data: bytes, path: str | Path) -> tuple[dict[str, Run], int]:
    """Runs by key, and the length of the file up to the end of its last whole line."""
    *lines, torn = data.split(b"\n")
    # Only what we wrote ourselves is ever cut off: the beginning of one of our lines.
    if torn and not (torn.startswith(_OPENING) or _OPENING.startswith(torn)):
        lines.append(torn)
        torn = b""
    runs: dict[str, Run] = {}
    damaged = []
    for number, line in enumerate(lines, start=1):
        try:
            run = json.loads(line, parse_constant=_refuse)
            schema = run["schema"]
            if schema == SCHEMA and not _sound(run):
                raise ValueError("a field of another type")
        except (ValueError, KeyError, TypeError, RecursionError):
            damaged.append(number)
            continue
        if schema != SCHEMA:
            raise InputError(f"{path}, line {number} has schema {schema!r}, not {SCHEMA!r}; choose another file.")
        runs[run["key"]] = run
    if damaged and not runs:
        raise InputError(f"{path}, line {damaged[0]} is not a run; choose another file.")
    if damaged:
        more = f" and {len(damaged) - 1} more lines are no runs and do" if damaged[1:] else " is not a run and does"
        print(f"mtpp: {path}, line {damaged[0]}{more} not count; restore or remove what is damaged.", file=sys.stderr)
    return runs, len(data) - len(torn)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _sound(run: Run) -> bool:
    """Whether the key is there, and each field that is there and not missing has its type."""
    if not isinstance(run["key"], str):
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


#: Of the fields that several tables share.
_TYPES: dict[str, Any] = (
    dict.fromkeys(("instance", "question", "kind", "method", "time_unit", "error", "solver", "version"), str)
    | dict.fromkeys(("n", "m", "k", "seed"), int)
    | dict.fromkeys(("seconds", "bottleneck", "bound", "communication_over_work", "bandwidth", "memory"), int | float)
    | {"block": list, "order": list, "optimal": bool, "parameters": dict}
)
_GIVEN = ("instance", "question", "kind", "method", "n", "m", "k")
