"""Quantities as people write them: ``25GB/s``, ``200Gbps``, ``16GiB``, ``2,4,8``, ``batch=8``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from instances.errors import InputError

__all__ = ["parse_bandwidth", "parse_bytes", "parse_counts", "parse_dims", "parse_names"]

_PREFIXES = {
    "": 1.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}
_BYTES = {f"{prefix}B": factor for prefix, factor in _PREFIXES.items()}
_RATES = {f"{unit}/s": factor for unit, factor in _BYTES.items()} | {
    f"{prefix}bps": factor / 8 for prefix, factor in _PREFIXES.items()
}
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf)\s*(\D*)")


def parse_bandwidth(text: str, time_unit: str = "s") -> float:
    """Bytes per unit of work time.

    Parameters
    ----------
    text : str
        A bare number, or a number with a unit such as GB/s, GiB/s or Gbps (1 Gbps = 1.25e8 bytes/s).
    time_unit : str
        Unit of the graph's work; a rate per second fits seconds only.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If the text is no positive rate.

    Examples
    --------
    >>> parse_bandwidth("200Gbps") == parse_bandwidth("25GB/s") == parse_bandwidth("25e9")
    True
    """
    value, unit = _split(text, _RATES, "--bandwidth", "25e9, 25GB/s or 200Gbps")
    if unit and time_unit != "s":
        raise InputError(
            f"--bandwidth {text}: the work of this graph is in units of {time_unit!r}; "
            f"give a bare number, the bytes per {time_unit}."
        )
    if not value > 0:
        raise InputError(f"--bandwidth {text}: it must be positive.")
    return value * _RATES.get(unit, 1.0)


def parse_bytes(text: str, option: str) -> float:
    """Bytes of a number with an optional unit such as GB or GiB.

    Examples
    --------
    >>> parse_bytes("16GiB", "--memory")
    17179869184.0
    """
    value, unit = _split(text, _BYTES, option, "16e9, 16GB or 16GiB")
    if value < 0:
        raise InputError(f"{option} {text}: it must be 0 or more.")
    return value * _BYTES.get(unit, 1.0)


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
            raise InputError(f"-k {text}: {part.strip()!r} is not a whole number; give for example -k 2,4,8.")
        if int(part) < 1:
            raise InputError(f"-k {text}: the number of blocks must be 1 or more.")
        counts.append(int(part))
    return list(dict.fromkeys(counts))


def parse_names(text: str) -> list[str]:
    """Comma-separated names, without repetition."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def parse_dims(pairs: Iterable[str]) -> dict[str, int]:
    """Dimensions of an architecture from ``name=number`` pairs.

    Examples
    --------
    >>> parse_dims(["batch=8", "sequence=128"])
    {'batch': 8, 'sequence': 128}
    """
    dims = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name or not value.isascii() or not value.isdigit():
            raise InputError(f"--dim {pair}: give name=number, for example --dim batch=8.")
        dims[name] = int(value)
    return dims


def _split(text: str, units: dict[str, float], option: str, examples: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or (match[2] and match[2] not in units):
        raise InputError(f"{option} {text}: not understood; give for example {examples}.")
    value = float(match[1])
    if math.isinf(value) and match[1] != "inf":
        raise InputError(f"{option} {text}: the number is too large.")
    return value, match[2]
