"""Limits of a check, set by the caller."""

from __future__ import annotations

import time
from dataclasses import dataclass

__all__ = ["Clock", "Limits", "OutOfTimeError"]


@dataclass(frozen=True)
class Limits:
    """Limits of a check, set by the caller, never by the file."""

    seconds: float


class OutOfTimeError(Exception):
    """End of a check at its time limit."""


class Clock:
    """Raises where time is up, so many seconds from now on."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def raise_if_late(self) -> None:
        """Raise `OutOfTimeError` where time is up."""
        if time.monotonic() > self._end:
            raise OutOfTimeError
