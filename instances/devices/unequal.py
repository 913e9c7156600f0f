"""Unequal devices: a speed and a memory for each, and a rate for each pair, also from files ``mtpp-devices/1``.

A file holds an object with `speeds`, a list of k numbers, and, if wanted, `memories`, k numbers or null for no limit,
and `rates`, k rows of k numbers, null for free communication; what a row says of its own device is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instances.errors import InputError
from instances.json_files import Value, finite_or_none, read_json

__all__ = ["DEVICES_FORMAT", "DeviceTable", "devices_from_members", "read_devices"]

DEVICES_FORMAT = "mtpp-devices/1"

_MOST = 256


@dataclass(frozen=True)
class DeviceTable:
    """Speeds, memories and link rates of devices that differ.

    Parameters
    ----------
    speeds : k floats
        Work per unit of time, positive; 1 for a device on which the works of the graph were measured.
    memories : k floats
        Memory of each device [bytes], positive; infinite where there is no limit.
    rates : k rows of k floats
        ``rates[d][e]`` is the bytes per unit of work time on the bus out of device d to device e, positive; infinite
        makes communication free.

    Raises
    ------
    InputError
        If there are more than 256 devices, the lengths differ, or a number is out of its range.
    """

    speeds: tuple[float, ...]
    memories: tuple[float, ...]
    rates: tuple[tuple[float, ...], ...]

    def __init__(self, speeds: Sequence[float], memories: Sequence[float], rates: Sequence[Sequence[float]]) -> None:
        k = len(speeds)
        if not 1 <= k <= _MOST:
            raise InputError(f"There are {k} unequal devices; give 1 to {_MOST}.")
        if len(memories) != k or len(rates) != k or any(len(row) != k for row in rates):
            raise InputError(f"There are {k} speeds; give as many memories, and as many rows of as many rates.")
        for d, speed in enumerate(speeds):
            if not 0 < speed < math.inf:
                raise InputError(f"speeds[{d}] is {speed}; it must be positive and finite.")
            if not memories[d] > 0:
                raise InputError(f"memories[{d}] is {memories[d]}; it must be positive.")
            for e, rate in enumerate(rates[d]):
                if d != e and not rate > 0:
                    raise InputError(f"rates[{d}][{e}] is {rate}; it must be positive.")
        links = tuple(tuple(math.inf if d == e else float(x) for e, x in enumerate(row)) for d, row in enumerate(rates))
        object.__setattr__(self, "speeds", tuple(map(float, speeds)))
        object.__setattr__(self, "memories", tuple(map(float, memories)))
        object.__setattr__(self, "rates", links)

    @property
    def fastest_rate(self) -> float:
        """Largest rate of all pairs of devices; infinite for a single device."""
        return max((x for d, row in enumerate(self.rates) for e, x in enumerate(row) if d != e), default=math.inf)

    def document(self) -> dict[str, Any]:
        """Members of a file; infinite values are null."""
        return {
            "speeds": list(self.speeds),
            "memories": [finite_or_none(x) for x in self.memories],
            "rates": [[finite_or_none(x) for x in row] for row in self.rates],
        }


def read_devices(path: str | Path, bandwidth: float, memory: float) -> DeviceTable:
    """Read a file of devices; members that it lacks are taken from `bandwidth` and `memory`.

    Raises
    ------
    InputError
        If the file cannot be read, or does not hold what `DeviceTable` takes.
    """
    document = read_json(path)
    document.check_format(DEVICES_FORMAT)
    return devices_from_members(document, bandwidth, memory, ("format",))


def devices_from_members(
    document: Value, bandwidth: float = math.inf, memory: float = math.inf, beside: Sequence[str] = ()
) -> DeviceTable:
    """Read the devices of a part of a file, which may hold the members `beside`; as `read_devices`."""
    fields = document.members((*beside, "speeds"), ("memories", "rates"))
    speeds = fields["speeds"].numbers()
    memories, rates = [memory] * len(speeds), [[bandwidth] * len(speeds)] * len(speeds)
    if "memories" in fields:
        memories = _limits(fields["memories"])
    if "rates" in fields:
        rates = [_limits(row) for row in fields["rates"].items()]
    try:
        return DeviceTable(speeds, memories, rates)
    except InputError as error:
        document.fail(str(error))


def _limits(values: Value) -> list[float]:
    numbers = [value.optional_number() for value in values.items()]
    return [math.inf if number is None else number for number in numbers]
