"""Parsing of quantities: ``25GB/s``, ``200Gbps``, ``16GiB``, ``312TFLOP/s``, ``2,4,8``, ``batch=8``.

Prefixes count in any case: k, M, G, T, P are powers of 1000, Ki, Mi, Gi, Ti, Pi powers of 1024. A size is in bytes. In
a rate B is a byte and b is a bit, unless all its letters have one case, which says nothing: then ``gb/s`` is in bytes
and ``GBPS`` in bits. Where others may read it otherwise, the reading is an `InputWarning`.

A bare number is in bytes, bytes per second or operations per second. One that is too small to be meant so, such as
16 for a memory, is an `InputWarning`; with a unit, as in ``16B``, it is none. Numbers count as bare texts do.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from instances.errors import InputWarning, WordError, said

if TYPE_CHECKING:
    from instances.architectures import Dim

__all__ = [
    "Quantity",
    "parse_bandwidth",
    "parse_bytes",
    "parse_counts",
    "parse_dims",
    "parse_flops",
    "parse_names",
    "parse_throughput",
]

#: A number, or a text such as "25GB/s" or "16GiB".
Quantity = float | str

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf)\s*(\D*)", re.ASCII | re.IGNORECASE)
_UNIT = re.compile(r"(?:([kmgtp])(i?))?(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
_PREFIXES = "kmgtp"
# Units of time [s].
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
# Bare numbers below this are rarely meant.
_SMALL = 1e6


class _Kind(NamedTuple):
    """Kind of quantity.

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


class _Quantity(NamedTuple):
    """A number times its prefix, and prefix and unit as they were written."""

    value: float
    unit: str


def parse_bandwidth(
    given: Quantity, time_unit: str = "s", *, word: str = "bandwidth", plausible: float = _SMALL
) -> float:
    """Bytes per unit of work time.

    Parameters
    ----------
    given : float or str
        A bare number, or a number with a unit such as GB/s, GiB/s or Gbps (1 Gbps = 1.25e8 bytes/s).
    time_unit : str
        Unit of the graph's work; a rate per second fits seconds only.
    word : str
        The word that it is the value of.
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
    rate = _parse(given, word, _RATE)
    if rate.unit and time_unit != "s":
        raise WordError(
            word,
            given,
            f"the work of this graph is in units of {time_unit!r}; give a bare number, the bytes per {time_unit}.",
        )
    if not rate.value > 0:
        raise WordError(word, given, "it must be positive.")
    if time_unit == "s" and rate.value < plausible:
        _not_small(rate, given, word, _RATE)
    in_bits, doubtful = _reading(rate.unit)
    if doubtful:
        taken = "bits, not bytes" if in_bits else "bytes, not bits"
        _doubt(f"{said(word, given)} is taken as {taken}; write GB/s or Gbps.")
    return rate.value / 8 if in_bits else rate.value


def parse_bytes(given: Quantity, word: str) -> float:
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
    size = _parse(given, word, _SIZE)
    if size.value < 0:
        raise WordError(word, given, "it must be 0 or more.")
    if size.unit.endswith("b") and not size.unit.islower():
        _doubt(f"{said(word, given)} is taken as bytes, not bits; write GB.")
    return _not_small(size, given, word, _SIZE)


def parse_flops(given: Quantity, word: str) -> float:
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
    return _not_small(_parse(given, word, _SPEED), given, word, _SPEED)


def parse_throughput(given: Quantity, time_unit: str) -> float:
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
    number, slash, unit = str(given).partition("/")
    match = _NUMBER.fullmatch(number.strip())
    value = float(match[1]) if match and not match[2] else math.nan
    if not 0 < value < math.inf:
        raise WordError("throughput", given, "give a positive number, such as 250/s.")
    if not slash:
        return value
    if unit not in _SECONDS or time_unit not in _SECONDS:
        units = f"a bare number, the runs per {time_unit}" if time_unit not in _SECONDS else "/s, /ms or /us"
        raise WordError("throughput", given, f"{unit!r} is no unit here; give {units}.")
    return value * _SECONDS[time_unit] / _SECONDS[unit]


def parse_counts(text: str) -> list[int]:
    """Numbers of blocks, comma-separated, without repetition.

    Examples
    --------
    >>> parse_counts("2,4,8")
    [2, 4, 8]
    """
    counts = []
    for part in text.split(","):
        if not re.fullmatch(r"\s*[+-]?\d+\s*", part):
            raise WordError(
                "k", text, f"{part.strip()!r} is not a whole number; give for example {said('k', '2,4,8')}."
            )
        if int(part) < 1:
            raise WordError("k", text, "the number of blocks must be 1 or more.")
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
        if value.isascii() and value.isdigit() and name:
            dims[name] = int(value)
        elif name == "phase" and value:
            dims[name] = value
        else:
            raise WordError("dims", pair, f"give name=number, for example {said('dims', 'batch=8')}.")
    return dims


def _parse(given: Quantity, word: str, kind: _Kind) -> _Quantity:
    match = _NUMBER.fullmatch(str(given).strip())
    unit = _UNIT.fullmatch(match[2]) if match else None
    if match is None or unit is None:
        raise WordError(word, given, f"not understood; give for example {kind.examples}.")
    prefix, binary, rest = unit.groups("")
    if match[2] and (rest.lower() not in kind.units or (binary and kind is _SPEED)):
        raise WordError(word, given, f"not understood; {_proposal(match[1], prefix, binary, kind)}")
    power = 1 + _PREFIXES.index(prefix.lower()) if prefix else 0
    value = float(match[1]) * (1024.0 if binary else 1000.0) ** power
    if math.isinf(value) and match[1].lower() != "inf":
        raise WordError(word, given, "the number is too large.")
    return _Quantity(value, match[2])


def _proposal(number: str, prefix: str, binary: str, kind: _Kind) -> str:
    """Advice on a number with an unknown unit."""
    if not prefix:
        return f"give for example {kind.examples}."
    shown = f"{prefix.upper()}i" if binary and kind is not _SPEED else prefix.upper().replace("K", "k")
    return f"did you mean {' or '.join(f'{number}{shown}{unit}' for unit in kind.proposals)}?"


def _reading(unit: str) -> tuple[bool, bool]:
    """Whether the unit of a rate means bits, and whether others may read it otherwise."""
    if not unit or "bit" in unit.lower():
        return bool(unit), False
    named_bits, shaped_bits = "B" not in unit, unit.lower().endswith("ps")
    if unit.islower() or unit.isupper():
        return shaped_bits, named_bits != shaped_bits
    return named_bits, shaped_bits and not named_bits  # Gb/s is what standards write


def _not_small(quantity: _Quantity, given: Quantity, word: str, kind: _Kind) -> float:
    """The value of the quantity; a bare number that is suspiciously small is warned about."""
    if not quantity.unit and 0 < quantity.value < _SMALL:
        more = f"{str(given).strip()}{kind.usual_prefix}{kind.proposals[0]}"
        _doubt(f"{said(word, given)} is {quantity.value:g} {kind.bare}; write {more} if that is meant.")
    return quantity.value


def _doubt(message: str) -> None:
    warnings.warn(message, InputWarning, stacklevel=3)
