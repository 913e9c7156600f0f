"""Circumstances of a run: when, on which machine, with which versions it was made, and how long it took."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from instances.deadline import Stopwatch
from instances.system.programs import run_program
from mtpp.versions import package_version

__all__ = ["NOTHING", "Circumstances"]

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("numpy", "scipy", "numba")
_GIT_SECONDS = 5.0

#: The fields of a run that nobody saw, as its process died.
NOTHING: dict[str, Any] = dict.fromkeys(
    ("commit", "host", "cpu", "cores", "load", "start", "cpu_seconds", "versions")
)  # fmt: skip


@dataclass
class Circumstances:
    """Circumstances of a run that begins now."""

    watch: Stopwatch = field(default_factory=Stopwatch)
    start: datetime = field(default_factory=lambda: datetime.now(UTC))
    load: float | None = field(default_factory=lambda: _load())
    used: float = field(default_factory=lambda: _processor_seconds())
    more: float = 0.0  # seconds of processes that outlive the run

    def fields(self) -> dict[str, Any]:
        """Fields of the run that has ended now."""
        return {
            **_machine(),
            "load": self.load,
            "start": self.start.isoformat(timespec="seconds"),
            "cpu_seconds": round(_processor_seconds() - self.used + self.more, 6),
        }


@cache
def _machine() -> dict[str, Any]:
    """Fields of a run that do not change while a process lives."""
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
    """Commit of the checkout that this code lies in, with "-dirty" if files were changed; None outside of one."""
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
    """Average number of processes that wanted to run in the last minute; None where the system does not say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _processor_seconds() -> float:
    """Processor time [s] of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
