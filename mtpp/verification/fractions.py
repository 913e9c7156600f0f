"""Exact rational numbers as floats, for people to read."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["as_float"]


def as_float(value: Fraction) -> float:
    """The nearest float, infinite beyond the largest; for people to read."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
