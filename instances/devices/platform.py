"""Platform: k equal devices in a row."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

from instances.errors import InputError

__all__ = ["MOST_BLOCKS", "Platform"]

#: The most blocks of a question.
MOST_BLOCKS = 10**6


@dataclass(frozen=True)
class Platform:
    """`k` equal devices in a row.

    Parameters
    ----------
    k : int
        Number of blocks, from 1 to a million; what is known of a block takes memory for each.
    bandwidth : float
        Bytes per unit of work time between any two blocks, positive; infinite makes communication free.
    memory : float
        Fast memory of each block [bytes]; infinite by default.
    activation_buffer : float, optional
        Part of `memory` reserved for activations [bytes]. If given, it stands for the peak memory of
        every non-empty block; otherwise the peak of the partition's own order counts.
    fit : bool
        Whether the memory is a hard limit: what does not fit is no answer, instead of taking time.

    Raises
    ------
    InputError
        If a value is out of its range.
    """

    k: int
    bandwidth: float
    memory: float = math.inf
    activation_buffer: float | None = None
    fit: bool = False

    def __post_init__(self) -> None:
        given = {"k": self.k, "bandwidth": self.bandwidth, "memory": self.memory}
        if self.activation_buffer is not None:
            given["activation_buffer"] = self.activation_buffer
        for name, value in given.items():  # one type for each, or equal platforms had different keys
            if not isinstance(value, numbers.Real):
                raise InputError(f"{name} is {value!r}; it must be a number.")
            try:
                object.__setattr__(self, name, float(value) + 0.0)
            except OverflowError:
                raise InputError(f"{name} is too large for a number; give a smaller one.") from None
        if not (math.isfinite(self.k) and self.k >= 1 and self.k == int(self.k)):
            raise InputError(f"k is {self.k}; the number of blocks must be a whole number, 1 or more.")
        if self.k > MOST_BLOCKS:
            raise InputError(f"k is {self.k:g}; the number of blocks must be {MOST_BLOCKS} or less.")
        object.__setattr__(self, "k", int(self.k))
        if not self.bandwidth > 0:
            raise InputError(f"bandwidth is {self.bandwidth}; it must be positive.")
        if not self.memory >= 0:
            raise InputError(f"memory is {self.memory}; it must be 0 or more.")
        if self.activation_buffer is not None and not 0 <= self.activation_buffer < math.inf:
            raise InputError(f"activation_buffer is {self.activation_buffer}; it must be finite, 0 or more.")
        if self.fit and not self.memory < math.inf:
            raise InputError("What shall fit needs a memory; give its size.")

    @property
    def key(self) -> str:
        """All parameters that costs depend on, in one line.

        Keys of runs contain it, so that its format never changes.
        """
        words = [f"{name}={getattr(self, name)!r}" for name in ("k", "bandwidth", "memory", "activation_buffer")]
        return f"Platform({', '.join(words)}{', fit=True' if self.fit else ''})"
