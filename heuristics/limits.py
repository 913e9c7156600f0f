"""When a search stops."""

from __future__ import annotations

import copy
import math
import threading
import time
from dataclasses import dataclass, field

from instances import InputError

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """A search stops at the first limit it reaches; the clock starts when this object is made.

    Parameters
    ----------
    seconds : float, optional
        Wall time.
    evaluations : int, optional
        Number of partitions evaluated. The same seed and evaluations give the same answer.
    target : float, optional
        A bottleneck that is good enough, such as a proved bound.
    interrupted : threading.Event, optional
        Ends the search when it is set.

    Raises
    ------
    InputError
        If a limit is negative or infinite, or `evaluations` is 0.
    """

    seconds: float | None = None
    evaluations: int | None = None
    target: float | None = None
    interrupted: threading.Event | None = None
    _started: float = field(default_factory=time.monotonic, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 <= self.seconds < math.inf:
            raise InputError(f"The time limit is {self.seconds}; it must be finite, 0 seconds or more.")
        if self.evaluations is not None and not (self.evaluations >= 1 and self.evaluations == int(self.evaluations)):
            raise InputError(f"The limit is {self.evaluations} evaluations; allow a whole number, at least 1.")

    def reached(self, bottleneck: float) -> bool:
        """Whether to stop with what is found: time is up, `bottleneck` is good enough, or somebody asked to."""
        if self.interrupted is not None and self.interrupted.is_set():
            return True
        if self.seconds_left <= 0:
            return True
        return self.target is not None and bottleneck <= self.target

    @property
    def seconds_left(self) -> float:
        """Wall time until the limit, which is negative when that is passed; infinite without one."""
        return math.inf if self.seconds is None else self.seconds - (time.monotonic() - self._started)

    def without_target(self) -> Limits:
        """The same limits and clock, for a search that minimises something else."""
        limits = copy.copy(self)
        object.__setattr__(limits, "target", None)
        return limits

    def allow(self, evaluations: int) -> int:
        """Cap a number of evaluations."""
        return evaluations if self.evaluations is None else min(evaluations, self.evaluations)
