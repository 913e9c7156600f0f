"""Limits of the memory and time of a process, where the system has them."""

from __future__ import annotations

import warnings

from instances.errors import InputWarning

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

__all__ = ["limit_process", "warn_if_unlimited"]


def limit_process(*, memory: int, cpu_seconds: int | None = None) -> bool:
    """Limit this process and those that it starts; return whether the system could.

    Parameters
    ----------
    memory : int
        Of its data [bytes]; more of it is a `MemoryError`.
    cpu_seconds : int, optional
        After so many seconds of a processor the system ends it.
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
