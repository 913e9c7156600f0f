"""Numbers with units: parsing of texts, and formats for display."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from instances.architectures import Dim
from instances.errors import InputWarning, WordError, said

# Times and sizes as text, in the unit that fits, with its name; and numbers of things.


_DIGITS, _MOST_DECIMALS = 4, 9
# Numbers from here on are written with an exponent.
_HUGE = 1e7
_BYTES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
_SECONDS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
# Time units of graphs whose size is known [s]; others are used as they are.
_KNOWN = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


class Scale(NamedTuple):
    """Unit and number of decimals of a column of numbers.

    Parameters
    ----------
    unit : str
    size : float
        Size of the unit, in the unit in which the numbers are given.
    decimals : int
    """

    unit: str
    size: float
    decimals: int

    @classmethod
    def of_times(cls, times: Iterable[float], time_unit: str) -> Scale:
        """Scale for times in a graph's time unit, with four digits for the largest.

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
        """Scale for numbers in a unit without prefixes, with four digits for the largest."""
        return cls._fitting(values, ((unit, 1.0),), (unit, 1.0))

    @classmethod
    def of_bytes(cls, sizes: Iterable[float]) -> Scale:
        """Scale for sizes in bytes, with four digits for the largest."""
        return cls._fitting(sizes, _BYTES, ("B", 1.0))

    @classmethod
    def _fitting(cls, values: Iterable[float], units: tuple[tuple[str, float], ...], plain: tuple[str, float]) -> Scale:
        largest = max((value for value in values if math.isfinite(value)), default=0.0)
        fitting = (unit for unit in units if largest >= unit[1])
        unit, size = next(fitting, units[-1]) if largest > 0 else plain
        power = math.floor(math.log10(largest / size)) if largest > 0 else 0
        return cls(unit, size, 0 if unit == "B" else min(max(0, _DIGITS - 1 - power), _MOST_DECIMALS))

    def cell(self, value: float) -> str:
        """A number without its unit; one that would round to 0 is written like "<0.01", with the column's decimals."""
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


def or_dash(value: float | None, style: str = ".6g") -> str:
    """A number as text; a dash where it is missing."""
    return "–" if value is None else format(value, style)


def tokens_in_words(count: float) -> str:
    """A number of tokens; "any" where there is no limit."""
    return "any" if count == math.inf else f"{count:.0f}"


# Parsing of quantities: ``25GB/s``, ``200Gbps``, ``16GiB``, ``312TFLOP/s``, ``2,4,8``, ``batch=8``.
#
# Prefixes count in any case: k, M, G, T, P are powers of 1000, Ki, Mi, Gi, Ti, Pi powers of 1024. A size is in bytes.
# In a rate B is a byte and b is a bit, unless all its letters have one case, which says nothing: then ``gb/s`` is in
# bytes and ``GBPS`` in bits. Where others may read it otherwise, the reading is an `InputWarning`.
#
# A bare number is in bytes, bytes per second or operations per second. One that is too small to be meant so, such as
# 16 for a memory, is an `InputWarning`; with a unit, as in ``16B``, it is none. Numbers count as bare texts do.


#: A number, or a text such as "25GB/s" or "16GiB".
Quantity = float | str

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf)\s*(\D*)", re.ASCII | re.IGNORECASE)
_UNIT = re.compile(r"(?:([kmgtp])(i?))?(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
_PREFIXES = "kmgtp"
# Units of time [s].
_SECONDS_OF_UNITS = {"s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6)}
# Bare numbers below this are rarely meant.
_SMALL = 1e6


class _Kind(NamedTuple):
    """Kind of quantity: its units and prefixes, and proposals for messages.

    Fields: unit of a bare number; units allowed after a prefix, in lower case; proposed units and prefix; examples.
    """

    bare: str
    units: tuple[str, ...]
    proposals: tuple[str, ...]
    usual_prefix: str
    examples: str


_SIZE = _Kind("bytes", ("", "b"), ("B",), "G", "16e9, 16GB or 16GiB")
_RATE = _Kind("bytes per second", ("b/s", "bps", "bit/s"), ("B/s", "bps"), "G", "25e9, 25GB/s or 200Gbps")
_SPEED = _Kind(
    "operations per second", ("", "flop/s", "flops", "flops/s"), ("FLOP/s",), "T", "100e12, 100T or 312TFLOP/s"
)


_MOST_DIGITS = 30  # of a count


class _Quantity(NamedTuple):
    """A parsed quantity: a number times its prefix, with prefix and unit as written."""

    value: float
    unit: str


def parse_bandwidth(
    quantity: Quantity, time_unit: str = "s", *, word: str = "bandwidth", plausible: float = _SMALL
) -> float:
    """Bytes per unit of work time.

    Parameters
    ----------
    quantity : float or str
        A bare number, or a number with a unit such as GB/s, GiB/s or Gbps (1 Gbps = 1.25e8 bytes/s).
    time_unit : str
        Unit of the graph's work; a rate per second fits seconds only.
    word : str
        The keyword argument whose value is parsed, for messages.
    plausible : float
        Where the work is in seconds, a bare number below this and below 1e6 is an `InputWarning` [bytes/s].

    Returns
    -------
    float

    Raises
    ------
    InputError
        If it is no positive rate.

    Examples
    --------
    >>> parse_bandwidth("200Gbps") == parse_bandwidth("25 GB/s") == parse_bandwidth("25e9")
    True
    """
    rate = _parse(quantity, word, _RATE)
    if rate.unit and time_unit != "s":
        raise WordError(
            word,
            quantity,
            f"the work of this graph is in units of {time_unit!r}; give a bare number, the bytes per {time_unit}.",
        )
    if not rate.value > 0:
        raise WordError(word, quantity, "it must be positive.")
    if time_unit == "s" and rate.value < plausible:
        _not_small(rate, quantity, word, _RATE)
    in_bits, doubtful = _reading(rate.unit)
    if doubtful:
        unit = "bits, not bytes" if in_bits else "bytes, not bits"
        _doubt(f"{said(word, quantity)} is taken as {unit}; write GB/s or Gbps.")
    return rate.value / 8 if in_bits else rate.value


def parse_bytes(quantity: Quantity, word: str) -> float:
    """Bytes of a number with an optional unit such as G, GB or GiB; a small bare number is an `InputWarning`.

    Raises
    ------
    InputError
        If it is no size.

    Examples
    --------
    >>> parse_bytes("16GiB", "memory")
    17179869184.0
    """
    size = _parse(quantity, word, _SIZE)
    if size.value < 0:
        raise WordError(word, quantity, "it must be 0 or more.")
    if size.unit.endswith("b") and not size.unit.islower():
        _doubt(f"{said(word, quantity)} is taken as bytes, not bits; write GB.")
    return _not_small(size, quantity, word, _SIZE)


def parse_flops(quantity: Quantity, word: str) -> float:
    """Operations per second, with an optional unit such as T or TFLOP/s; a small bare number is an `InputWarning`.

    Raises
    ------
    InputError
        If it is no such speed.

    Examples
    --------
    >>> parse_flops("312TFLOP/s", "peak_flops")
    312000000000000.0
    """
    speed = _parse(quantity, word, _SPEED)
    if not speed.value > 0:
        raise WordError(word, quantity, "it must be positive.")
    return _not_small(speed, quantity, word, _SPEED)


def parse_seconds(quantity: Quantity, word: str) -> float:
    """Seconds of a number with an optional unit s, ms or us.

    Raises
    ------
    InputError
        If it is no positive time.

    Examples
    --------
    >>> parse_seconds("7.48ms", "tpot")
    0.00748
    """
    match = _NUMBER.fullmatch(str(quantity).strip())
    value = float(match[1]) if match and (match[2] or "s") in _SECONDS_OF_UNITS else math.nan
    if not 0 < value < math.inf:
        raise WordError(word, quantity, "give a positive time, such as 0.05, 50ms or 1s.")
    assert match is not None
    return float(Fraction(match[1]) * _SECONDS_OF_UNITS[match[2] or "s"])


def parse_throughput(quantity: Quantity, time_unit: str) -> float:
    """Runs per unit of work time, from a bare number or one with /s, /ms or /us.

    Raises
    ------
    InputError
        If it is no positive number, or has another unit.

    Examples
    --------
    >>> parse_throughput("250/s", "ms")
    0.25
    """
    number, slash, unit = str(quantity).partition("/")
    match = _NUMBER.fullmatch(number.strip())
    value = float(match[1]) if match and not match[2] else math.nan
    if not 0 < value < math.inf:
        raise WordError("throughput", quantity, "give a positive number, such as 250/s.")
    if not slash:
        return value
    if unit not in _SECONDS_OF_UNITS or time_unit not in _SECONDS_OF_UNITS:
        units = f"a bare number, the runs per {time_unit}" if time_unit not in _SECONDS_OF_UNITS else "/s, /ms or /us"
        raise WordError("throughput", quantity, f"{unit!r} is no unit here; give {units}.")
    return value * _SECONDS_OF_UNITS[time_unit] / _SECONDS_OF_UNITS[unit]


def parse_counts(text: str, name: str = "k") -> list[int]:
    """Comma-separated whole numbers from a keyword argument, by default k, without repetition.

    Examples
    --------
    >>> parse_counts("2,4,8")
    [2, 4, 8]
    """
    counts = []
    for part in text.split(","):
        if not re.fullmatch(r"\s*[+-]?\d+\s*", part):
            raise WordError(
                name, text, f"{part.strip()!r} is not a whole number; give for example {said(name, '2,4,8')}."
            )
        if len(part.strip()) > _MOST_DIGITS:
            raise WordError(name, f"{part[:20]}…", "the number is too large.")
        if int(part) < 1:
            raise WordError(name, text, "each number must be 1 or more.")
        counts.append(int(part))
    return list(dict.fromkeys(counts))


def parse_names(text: str) -> list[str]:
    """Comma-separated names, without repetition."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def parse_dims(pairs: Iterable[str]) -> dict[str, Dim]:
    """Dimensions of an architecture from ``name=number`` pairs; a phase is a word.

    Examples
    --------
    >>> parse_dims(["batch=8", "phase=decode"])
    {'batch': 8, 'phase': 'decode'}
    """
    dims: dict[str, Dim] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name in dims:
            raise WordError("dims", pair, "give each name once.")
        if value.isascii() and value.isdigit() and name:
            dims[name] = int(value)
        elif name == "phase" and value:
            dims[name] = value
        else:
            raise WordError("dims", pair, f"give name=number, for example {said('dims', 'batch=8')}.")
    return dims


def parse_options(pairs: Iterable[str]) -> dict[str, str | bool]:
    """Solver options from ``name=value`` pairs; values are texts, true or false.

    Examples
    --------
    >>> parse_options(["mip_max_nodes=100", "mip_detect_symmetry=false"])
    {'mip_max_nodes': '100', 'mip_detect_symmetry': False}
    """
    options: dict[str, str | bool] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name or not value or name in options:
            raise WordError("solver_options", pair, "give each name once, as name=value.")
        options[name] = value == "true" if value in ("true", "false") else value
    return options


def _parse(quantity: Quantity, word: str, kind: _Kind) -> _Quantity:
    match = _NUMBER.fullmatch(str(quantity).strip())
    unit = _UNIT.fullmatch(match[2]) if match else None
    if match is None or unit is None:
        raise WordError(word, quantity, f"not understood; give for example {kind.examples}.")
    prefix, binary, rest = unit.groups("")
    if match[2] and (rest.lower() not in kind.units or (binary and kind is _SPEED)):
        raise WordError(word, quantity, f"not understood; {_proposal(match[1], prefix, binary, kind)}")
    power = 1 + _PREFIXES.index(prefix.lower()) if prefix else 0
    value = float(match[1]) * (1024.0 if binary else 1000.0) ** power
    if math.isinf(value) and match[1].lower() != "inf":
        raise WordError(word, quantity, "the number is too large.")
    return _Quantity(value, match[2])


def _proposal(number: str, prefix: str, binary: str, kind: _Kind) -> str:
    """Advice for an error message about a number with an unknown unit."""
    if not prefix:
        return f"give for example {kind.examples}."
    written = f"{prefix.upper()}i" if binary and kind is not _SPEED else prefix.upper().replace("K", "k")
    return f"did you mean {' or '.join(f'{number}{written}{unit}' for unit in kind.proposals)}?"


def _reading(unit: str) -> tuple[bool, bool]:
    """Whether a rate's unit means bits, and whether it is ambiguous."""
    if not unit or "bit" in unit.lower():
        return bool(unit), False
    named_bits, shaped_bits = "B" not in unit, unit.lower().endswith("ps")
    if unit.islower() or unit.isupper():
        return shaped_bits, named_bits != shaped_bits
    return named_bits, shaped_bits and not named_bits  # Gb/s is what standards write


def _not_small(number: _Quantity, quantity: Quantity, word: str, kind: _Kind) -> float:
    """The value of a quantity, with a warning if a bare number is suspiciously small."""
    if not number.unit and 0 < number.value < _SMALL:
        more = f"{str(quantity).strip()}{kind.usual_prefix}{kind.proposals[0]}"
        _doubt(f"{said(word, quantity)} is {number.value:g} {kind.bare}; write {more} if that is meant.")
    return number.value


def _doubt(message: str) -> None:
    warnings.warn(message, InputWarning, stacklevel=3)
