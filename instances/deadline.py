"""A moment at which work stops: when time is up, or somebody asks for it."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field, replace

from instances.errors import InputError

__all__ = ["Deadline"]


@dataclass(frozen=True)
class Deadline:
    """A moment of the monotonic clock, or Ctrl-C, whichever comes first.

    Parameters
    ----------
    end : float
        Of `time.monotonic`; infinite by default.
    interrupted : threading.Event
        Ends the work when it is set. Shares of a deadline have the event of the whole.
    """

    end: float = math.inf
    interrupted: threading.Event = field(default_factory=threading.Event, compare=False)

    @classmethod
    def after(cls, time_limit: float | None, interrupted: threading.Event | None = None) -> Deadline:
        """The deadline in `time_limit` seconds from now; None means no limit.

        Raises
        ------
        InputError
            If the limit is negative, infinite or no number.
        """
        if time_limit is not None and not 0 <= time_limit < math.inf:
            raise InputError(f"The time limit is {time_limit}; it must be finite, 0 seconds or more.")
        end = math.inf if time_limit is None else time.monotonic() + time_limit
        return cls(end, interrupted or threading.Event())

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0; infinite without a limit."""
        return max(0.0, self.end - time.monotonic())

    @property
    def time_limit(self) -> float | None:
        """Seconds that are left, as programs take them: None without a limit."""
        return None if self.end == math.inf else self.left

    @property
    def passed(self) -> bool:
        """Whether to stop with what is known."""
        return self.interrupted.is_set() or time.monotonic() >= self.end

    def share(self, part: float) -> Deadline:
        """An earlier deadline: after `part`, from 0 to 1, of the time that is left."""
        return self if self.end == math.inf else replace(self, end=time.monotonic() + part * self.left)
