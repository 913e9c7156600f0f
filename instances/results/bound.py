"""Lower bounds on the cost of every answer to a question."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from instances.errors import FalseCertificateError

__all__ = ["STATED", "Bound", "exceeds"]

#: Method of a bound that somebody states and nothing here has proved; it makes no answer optimal.
STATED = "stated"
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Bound:
    """No answer to the question costs less than `value`."""

    value: float  # in the time unit of the question
    method: str  # that proved it, or `STATED`
    optimal: bool = True  # whether the method ran to its end, so that it cannot prove more
    # Data with which others check the bound again, such as the nodes it rests on.
    witness: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.value < math.inf:
            raise FalseCertificateError(f"{self.method} claims the bound {self.value}; please report this as a bug.")

    @property
    def proved(self) -> bool:
        """Whether something here has proved it."""
        return self.method != STATED


def exceeds(bound: float, cost: float) -> bool:
    """Whether a bound is above a cost, rounding aside; then it is no bound on it."""
    return bound > cost + _ROUNDING * max(cost, sys.float_info.min)  # smaller floats have fewer digits
