"""Limits of a check, set by the caller."""

from __future__ import annotations

from dataclasses import dataclass

from instances.deadline import CLOCK

__all__ = ["Clock", "Limits", "OutOfTimeError"]


@dataclass(frozen=True)
class Limits:
    """Limits of a check, set by the caller, never by the file."""

    seconds: float


class OutOfTimeError(Exception):
    """End of a check at its time limit."""


class Clock:
    """Raises where time is up, so many seconds from now on, without those in which kernels are compiled."""

    def __init__(self, seconds: float) -> None:
        self._end = CLOCK.now() + seconds

    def raise_if_late(self) -> None:
        """Raise `OutOfTimeError` where time is up."""
        if CLOCK.now() > self._end:
            raise OutOfTimeError
