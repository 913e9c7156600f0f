"""Conversion of exact rational numbers to floats, for display."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["as_float"]


def as_float(value: Fraction) -> float:
    """Convert to the nearest float, infinite beyond the largest; for display."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
