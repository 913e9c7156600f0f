"""Devices by kind from files ``mtpp-devices/2`` and ``/1``, and from texts such as ``4xA100,6xL4``.

A file ``/2`` holds `kinds`, a list of objects with `name`, `count`, either `speed` or both `peak_flops` and
`memory_bandwidth`, and, if wanted, `memory` and `bandwidth`, null for no limit, and `price`; and perhaps `order`, free
or fixed, and `rates`, a row a kind with the rate to each kind, null for no limit. Of a file ``/1`` devices with the
same speed, memory and rates become one kind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from instances.devices.kinds import SHIPPED, DeviceKind, Devices
from instances.devices.roofline import Device
from instances.devices.unequal import DEVICES_FORMAT, DeviceTable, devices_from_members
from instances.errors import InputError, WordError
from instances.json_files import Value, finite_or_none, read_json
from instances.registry import unknown

__all__ = [
    "KINDS_FORMAT",
    "devices_document",
    "devices_from_document",
    "devices_of_text",
    "rates_document",
    "rates_of",
    "read_kinds",
]

KINDS_FORMAT = "mtpp-devices/2"

_TEXT = re.compile(r"\s*(\d{1,99})\s*[x×*]\s*([\w.+-]+)\s*")
_MOST_KINDS = 256


def devices_of_text(text: str) -> Devices | None:
    """Devices of a text such as ``4xA100,6xL4``; None if it is none.

    Raises
    ------
    InputError
        If a kind is not known by name, or a count is 0.
    """
    parts = [_TEXT.fullmatch(part) for part in text.split(",")]
    if not all(parts):
        return None
    kinds = []
    for part in parts:
        assert part is not None
        count, name = int(part[1]), part[2]
        known = next((kind for kind in SHIPPED.values() if kind.name.lower() == name.lower()), None)
        if known is None:
            raise WordError("devices", text, unknown(SHIPPED, name, "kind of devices"))
        kinds.append(replace(known, count=count))
    return Devices(kinds)


def read_kinds(path: str | Path, bandwidth: float | None = None, memory: float = math.inf) -> Devices:
    """Read a file of devices; what it does not say is taken from `bandwidth` and `memory`.

    Raises
    ------
    InputError
        If the file cannot be read, or does not hold devices.
    """
    document = read_json(path)
    if document.check_format(KINDS_FORMAT, DEVICES_FORMAT) == DEVICES_FORMAT:
        return _kinds_of_table(document, bandwidth, memory)
    return devices_from_document(document, memory, ("format",))


def devices_from_document(document: Value, memory: float = math.inf, beside: tuple[str, ...] = ()) -> Devices:
    """The devices of an object with `kinds` and perhaps `order`; it may hold the members `beside`.

    Raises
    ------
    InputError
        If it holds none; the message names the place.
    """
    fields = document.members((*beside, "kinds"), ("order", "rates"))
    values = fields["kinds"].items()
    if len(values) > _MOST_KINDS:
        fields["kinds"].fail(f"there are {len(values)} kinds; {_MOST_KINDS} are the most.")
    kinds = [_kind(value, memory) for value in values]
    order = fields["order"].text() if "order" in fields else "free"
    rates = rates_of(fields["rates"]) if "rates" in fields else None
    try:
        return Devices(kinds, order, rates)
    except InputError as error:
        document.fail(str(error))


def devices_document(devices: Devices) -> dict[str, object]:
    """Members `kinds`, `order` and `rates` of a file."""
    rates = {} if devices.rates is None else {"rates": rates_document(devices.rates)}
    return {"order": devices.order, "kinds": [_kind_document(kind) for kind in devices.kinds], **rates}


def rates_document(rates: Iterable[Iterable[float]]) -> list[list[float | None]]:
    """Rates as rows of a file, null for no limit."""
    return [[finite_or_none(rate) for rate in row] for row in rates]


def rates_of(value: Value) -> list[list[float]]:
    """Rates of rows of a file, infinite where there is no limit."""
    rows = [[rate.optional_number() for rate in row.items()] for row in value.items()]
    return [[math.inf if rate is None else rate for rate in row] for row in rows]


def _kind_document(kind: DeviceKind) -> dict[str, object]:
    roofline = kind.roofline
    priced = (
        {} if roofline is None else {"peak_flops": roofline.peak_flops, "memory_bandwidth": roofline.memory_bandwidth}
    )
    return {
        "name": kind.name,
        "count": kind.count,
        **({} if kind.speed is None else {"speed": kind.speed}),
        **priced,
        "memory": finite_or_none(kind.memory),
        **({} if kind.bandwidth is None else {"bandwidth": finite_or_none(kind.bandwidth)}),
        **({} if kind.price is None else {"price": kind.price}),
    }


def _kind(value: Value, memory: float) -> DeviceKind:
    optional = ("count", "speed", "peak_flops", "memory_bandwidth", "memory", "bandwidth", "price")
    fields = value.members(("name",), optional)
    roofs = [fields[name].number() for name in ("peak_flops", "memory_bandwidth") if name in fields]
    if len(roofs) == 1:
        value.fail("give both 'peak_flops' and 'memory_bandwidth', or neither.")
    limit, rate = (fields[name].optional_number() if name in fields else None for name in ("memory", "bandwidth"))
    speed, price = (fields[name].number() if name in fields else None for name in ("speed", "price"))
    name, count = fields["name"].text(), fields["count"].whole() if "count" in fields else 1
    try:
        return DeviceKind(
            name,
            count,
            speed=speed,
            roofline=Device(*roofs) if roofs else None,
            memory=(math.inf if limit is None else limit) if "memory" in fields else memory,
            bandwidth=(math.inf if rate is None else rate) if "bandwidth" in fields else None,
            price=price,
        )
    except InputError as error:
        value.fail(str(error))


def _kinds_of_table(document: Value, bandwidth: float | None, memory: float) -> Devices:
    """Devices of a table with a speed, a memory and rates for each.

    Where all rates of each device agree, that is its bandwidth; else there is a rate for each pair of kinds.
    """
    table = devices_from_members(document, math.inf if bandwidth is None else bandwidth, memory, ("format",))
    given = "rates" in document.open_members(())
    kinds = []
    for d, speed in enumerate(table.speeds):
        out = {rate for e, rate in enumerate(table.rates[d]) if e != d}
        into = {row[d] for e, row in enumerate(table.rates) if e != d}
        if given and len(out | into) > 1:
            return _with_rates(table)
        rate = next(iter(out)) if given and out else None
        kinds.append(DeviceKind(f"device {d}", 1, speed=speed, memory=table.memories[d], bandwidth=rate))
    return Devices(kinds)


def _with_rates(table: DeviceTable) -> Devices:
    """Devices are of one kind where speeds, memories and all rates agree."""
    groups: list[list[int]] = []
    for d in range(len(table.speeds)):
        group = next((group for group in groups if _alike(table, d, group[0])), None)
        if group is None:
            groups.append([d])
        else:
            group.append(d)
    kinds = [
        DeviceKind(f"device {g[0]}", len(g), speed=table.speeds[g[0]], memory=table.memories[g[0]]) for g in groups
    ]
    return Devices(kinds, "free", [[table.rates[one[0]][other[-1]] for other in groups] for one in groups])


def _alike(table: DeviceTable, d: int, e: int) -> bool:
    if (table.speeds[d], table.memories[d], table.rates[d][e]) != (
        table.speeds[e],
        table.memories[e],
        table.rates[e][d],
    ):
        return False
    others = [f for f in range(len(table.speeds)) if f not in (d, e)]
    return all(table.rates[d][f] == table.rates[e][f] and table.rates[f][d] == table.rates[f][e] for f in others)
