"""Clock of all time limits, and deadlines: the end of the time, or an interrupt."""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import dataclass, field, replace
from numbers import Real

from instances.errors import WordError

#: The phase in which the clock stood still.
COMPILE = "compile"
#: Longest time that may be asked for [s]: eleven days. System calls wait for twice as much at most.
LONGEST_TIME = 1e6


class WorkClock:
    """Monotonic clock that does not advance while kernels are compiled or their machine code is loaded.

    Every time limit and every time that is reported is measured by `CLOCK`, so that the first run after an update does
    as much work in its time as all others. `instances.compiled` halts it.

    Examples
    --------
    >>> clock = WorkClock()
    >>> clock.halt()
    >>> clock.now() == clock.now()
    True
    >>> clock.resume()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._halts = 0
        # Since when it stands still, if it does, and how long it did before. One object: readers need no lock.
        self._state: tuple[float | None, float] = (None, 0.0)

    def now(self) -> float:
        """Seconds since an arbitrary moment; time during halts does not count."""
        since, still = self._state
        return (time.monotonic() if since is None else since) - still

    @property
    def still(self) -> float:
        """Total time of all halts so far [s]."""
        since, still = self._state
        return still if since is None else still + time.monotonic() - since

    def halt(self) -> None:
        """Halt the clock until `resume` has been called as many times as `halt`, from any thread."""
        with self._lock:
            self._halts += 1
            since, still = self._state
            self._state = (time.monotonic() if since is None else since, still)

    def resume(self) -> None:
        """Undo one `halt`."""
        with self._lock:
            self._halts -= 1
            if self._halts == 0:
                self._state = (None, self.still)


#: The clock of this process.
CLOCK = WorkClock()


def processor_seconds() -> float:
    """Processor time [s] of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Stopwatch:
    """Seconds since its creation by `CLOCK`, and seconds for which that clock stood still meanwhile."""

    def __init__(self) -> None:
        self._begin, self._still = CLOCK.now(), CLOCK.still

    @property
    def passed(self) -> float:
        """Seconds since its creation."""
        return CLOCK.now() - self._begin

    def seconds(self, **phases: float) -> dict[str, float]:
        """Return the seconds of each phase, with `COMPILE` added if the clock was halted meanwhile."""
        still = CLOCK.still - self._still
        return phases | ({COMPILE: still} if still > 0 else {})


def refuse_no_time(name: str, seconds: float) -> None:
    """Raise an `InputError` about the word `name` unless it is a time above 0 and up to `LONGEST_TIME` [s]."""
    if isinstance(seconds, bool) or not isinstance(seconds, Real):
        raise WordError(name, seconds, "give a number.")
    if not 0 < seconds <= LONGEST_TIME:
        raise WordError(name, seconds, f"give more than 0 and at most {LONGEST_TIME:,.0f} seconds.")


@dataclass(frozen=True)
class Deadline:
    """Moment of `CLOCK`, or Ctrl-C, whichever comes first.

    Parameters
    ----------
    end : float
        Moment of `CLOCK` [s]; infinite by default.
    interrupted : threading.Event
        Ends the work when it is set. Shares of a deadline have the event of the whole.
    """

    end: float = math.inf
    interrupted: threading.Event = field(default_factory=threading.Event, compare=False)

    @classmethod
    def after(cls, time_limit: float | None, interrupted: threading.Event | None = None) -> Deadline:
        """Deadline in `time_limit` seconds from now; None means no limit.

        Raises
        ------
        InputError
            If the limit is negative, more than `LONGEST_TIME`, or no number.
        """
        if time_limit:
            refuse_no_time("time_limit", time_limit)
        end = math.inf if time_limit is None else CLOCK.now() + time_limit
        return cls(end, interrupted or threading.Event())

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0; infinite without a limit."""
        return max(0.0, self.end - CLOCK.now())

    @property
    def time_limit(self) -> float | None:
        """Seconds that are left, in the form that solvers take; None without a limit."""
        return None if self.end == math.inf else self.left

    @property
    def passed(self) -> bool:
        """Whether work must end now."""
        return self.interrupted.is_set() or CLOCK.now() >= self.end

    def sooner(self, seconds: float) -> Deadline:
        """The deadline in `seconds` from now, or this one if it comes first."""
        return replace(self, end=min(self.end, CLOCK.now() + seconds))

    def share(self, part: float) -> Deadline:
        """An earlier deadline: after the fraction `part` (0 to 1) of the time that is left."""
        return self if self.end == math.inf else replace(self, end=CLOCK.now() + part * self.left)
