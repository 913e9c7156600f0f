"""Times and sizes as text, in the unit that fits, with its name; and numbers of things."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Scale", "bytes_in_words", "how_many", "time_in_words"]

_DIGITS, _MOST_DECIMALS = 4, 9
# Numbers from here on are written with an exponent.
_HUGE = 1e7
_BYTES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
_SECONDS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
# Time units of graphs whose size is known [s]; others are used as they are.
_KNOWN = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


class Scale(NamedTuple):
    """A unit for the numbers of a column, and how many decimals they have.

    Parameters
    ----------
    unit : str
    size : float
        Of the unit, in what the numbers are given in.
    decimals : int
    """

    unit: str
    size: float
    decimals: int

    @classmethod
    def of_times(cls, times: Iterable[float], time_unit: str) -> Scale:
        """Scale for times in the time unit of a graph: the largest has four digits.

        Examples
        --------
        >>> scale = Scale.of_times([0.00123456, 0.0005], "s")
        >>> scale.unit, scale.cell(0.00123456), scale.cell(0.0005)
        ('ms', '1.235', '0.500')
        """
        seconds = _KNOWN.get(time_unit)
        units = ((time_unit, 1.0),) if seconds is None else tuple((unit, size / seconds) for unit, size in _SECONDS)
        return cls._fitting(times, units, ("µs" if time_unit == "us" else time_unit, 1.0))

    @classmethod
    def of_numbers(cls, values: Iterable[float], unit: str) -> Scale:
        """Scale for numbers in a unit without prefixes: the largest has four digits."""
        return cls._fitting(values, ((unit, 1.0),), (unit, 1.0))

    @classmethod
    def of_bytes(cls, sizes: Iterable[float]) -> Scale:
        """Scale for sizes in bytes: the largest has four digits."""
        return cls._fitting(sizes, _BYTES, ("B", 1.0))

    @classmethod
    def _fitting(cls, values: Iterable[float], units: tuple[tuple[str, float], ...], plain: tuple[str, float]) -> Scale:
        largest = max((value for value in values if math.isfinite(value)), default=0.0)
        fitting = (unit for unit in units if largest >= unit[1])
        unit, size = next(fitting, units[-1]) if largest > 0 else plain
        power = math.floor(math.log10(largest / size)) if largest > 0 else 0
        return cls(unit, size, 0 if unit == "B" else min(max(0, _DIGITS - 1 - power), _MOST_DECIMALS))

    def cell(self, value: float) -> str:
        """Format a number without its unit; one that would be rounded to 0 is shown as below the last digit."""
        number = value / self.size
        if value == 0:
            return "0"
        if not math.isfinite(number):
            return "∞"
        if abs(number) >= _HUGE:
            return f"{number:.{_DIGITS}g}"
        text = f"{number:.{self.decimals}f}"
        return text if float(text) else f"<{10.0**-self.decimals:.{self.decimals}f}"


def time_in_words(time: float, time_unit: str) -> str:
    """A time with its unit.

    Examples
    --------
    >>> time_in_words(0.0000123456, "s")
    '12.35 µs'
    """
    return _in_words(time, Scale.of_times([time], time_unit))


def bytes_in_words(size: float) -> str:
    """A size with its unit.

    Examples
    --------
    >>> bytes_in_words(141e9), bytes_in_words(12)
    ('141.0 GB', '12 B')
    """
    return _in_words(size, Scale.of_bytes([size]))


def _in_words(value: float, scale: Scale) -> str:
    return f"{scale.cell(value)} {scale.unit}"


def how_many(count: int, noun: str) -> str:
    """A number of things.

    Examples
    --------
    >>> how_many(1, "device"), how_many(2, "microbatch")
    ('1 device', '2 microbatches')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{'es' if noun.endswith('ch') else 's'}"
