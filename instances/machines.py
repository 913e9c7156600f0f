"""Machines: how many devices of each kind there are, how fast they work, and what they hold.

They are read from texts such as ``4xA100,6xL4`` and files ``mtpp-devices/2`` and ``/1``. A file ``/2`` holds `kinds`, a
list of objects with `name`, `count`, either `speed` or both `peak_flops` and `memory_bandwidth`, and, if wanted,
`memory` and `bandwidth`, null for no limit, and `price`; and perhaps `order`, free or fixed, and `rates`, a row a kind
with the rate to each kind, null for no limit. A file ``/1`` is a table of k devices: it holds `speeds`, a list of k
numbers, and, if wanted, `memories`, k numbers or null for no limit, and `rates`, k rows of k numbers, null for free
communication; the entry of a row for its own device is ignored. Of these, devices with the same speed, memory and
rates become one kind.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from instances.devices import MOST_BLOCKS, Device, Platform
from instances.errors import InputError, WordError, check_one_of, printable, unknown
from instances.graph.display import figures
from instances.graph.tensors import FloatArray, freeze
from instances.json_files import Value, finite_or_none, read_json

#: Files of kinds of devices, and of tables of devices.
KINDS_FORMAT, TABLE_FORMAT = "mtpp-devices/2", "mtpp-devices/1"

_TEXT = re.compile(r"\s*(\d{1,99})\s*[x×*]\s*([\w.+-]+)\s*")
_MOST_KINDS = 256
#: Most devices of a question whose devices are not alike.
MOST_DEVICES = 4096
_ORDERS = ("free", "fixed")


@dataclass(frozen=True)
class Kind:
    """A kind of device: several equal devices.

    Parameters
    ----------
    name : str
    count : int
        Number of devices of this kind, 1 or more.
    speed : float, optional
        Work per unit of time, positive; 1 for the device on which the works of the graph were measured.
    roofline : Device, optional
        In place of the speed, what prices a graph that has no times of its own.
    memory : float
        Memory of a device [bytes]; infinite where there is no limit.
    bandwidth : float, optional
        Bytes per unit of work time in and out of a device, positive; by default the bandwidth of all devices.
    price : float, optional
        Price of a device, such as dollars an hour, 0 or more; no cost of a partition depends on it.

    Raises
    ------
    InputError
        If a value is out of its range, or there are both a speed and a roofline.
    """

    name: str
    count: int
    speed: float | None = None
    roofline: Device | None = None
    memory: float = math.inf
    bandwidth: float | None = None
    price: float | None = None

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InputError("A kind of devices has no name; give it one.")
        where = f"kind {printable(self.name)}"
        if not 1 <= self.count <= MOST_BLOCKS:
            raise InputError(f"{where}: count is {self.count}; give 1 to {MOST_DEVICES}, or leave the kind out.")
        if self.speed is not None and self.roofline is not None:
            raise InputError(f"{where}: it has a speed and a roofline; give one of them.")
        if self.speed is not None and not 0 < self.speed < math.inf:
            raise InputError(f"{where}: speed is {self.speed}; it must be positive and finite.")
        if not self.memory >= 0:
            raise InputError(f"{where}: memory is {self.memory}; it must be 0 or more.")
        if self.bandwidth is not None and not self.bandwidth > 0:
            raise InputError(f"{where}: bandwidth is {self.bandwidth}; it must be positive.")
        if self.price is not None and not 0 <= self.price < math.inf:
            raise InputError(f"{where}: price is {self.price}; it must be finite, 0 or more.")

    @property
    def traits(self) -> tuple[float | Device | None, ...]:
        """All numbers in which kinds can differ: speed, roofline, memory, bandwidth, price."""
        return self.speed, self.roofline, self.memory, self.bandwidth, self.price

    @property
    def rates(self) -> tuple[str, str, str]:
        """Texts of a kind known by name: its peak, the rate and size of its memory, and its rate to other devices."""
        assert self.roofline is not None
        assert self.bandwidth is not None
        to_memory = f"{figures(self.roofline.memory_bandwidth, 'bytes/s')} to {figures(self.memory, 'bytes')}"
        to_others = f"{figures(self.bandwidth, 'bytes/s')} to others"
        return f"{self.roofline.peak_flops / 1e12:g} TFLOP/s", to_memory, to_others


@dataclass(frozen=True)
class Machines:
    """All devices, by kind.

    Parameters
    ----------
    kinds : sequence of Kind
        With different names; kinds that differ in name and count alone become one.
    order : {"free", "fixed"}
        Whether any block may be on any device, or block i is on device i, the kinds in their order.
    rates : T rows of T floats, optional
        ``rates[s][t]`` is what passes from a device of kind s to one of kind t, in bytes per unit of work time,
        positive; never more than the bandwidth of either kind. By default a transfer takes its time by the bandwidth of
        each of both devices. Where there are rates no kinds become one.
    bandwidth : float
        Bandwidth of kinds that have none of their own [bytes per unit of work time].

    Raises
    ------
    InputError
        If there is no kind, a name appears twice with different devices, the order is unknown, or rates are of another
        size or not positive.
    """

    kinds: tuple[Kind, ...]
    order: str = "free"
    rates: tuple[tuple[float, ...], ...] | None = None
    bandwidth: float = math.inf

    def __init__(
        self,
        kinds: Sequence[Kind],
        order: str = "free",
        rates: Sequence[Sequence[float]] | None = None,
        bandwidth: float = math.inf,
    ) -> None:
        if not kinds:
            raise InputError("There are no devices; give at least one kind.")
        check_one_of("The order of devices", order, _ORDERS)
        merged: list[Kind] = []
        for kind in kinds:
            named = [other for other in merged if other.name == kind.name]
            near = merged[-1:] if order == "fixed" else merged  # a fixed order joins neighbours alone
            alike = next((i for i, other in enumerate(merged) if other in near and other.traits == kind.traits), None)
            if alike is not None and rates is None:
                merged[alike] = replace(merged[alike], count=merged[alike].count + kind.count)
                continue
            if any(rates is not None or other.traits != kind.traits for other in named):
                raise InputError(f"Two kinds of devices are called {printable(kind.name)}; give each its own name.")
            merged.append(kind)
        unpriced = [kind.name for kind in merged if kind.price is None]
        if 0 < len(unpriced) < len(merged):
            raise InputError(f"kind {printable(unpriced[0])} has no price, and others have; give all of them one.")
        object.__setattr__(self, "kinds", tuple(merged))
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "rates", None if rates is None else _checked_rates(rates, len(merged)))
        object.__setattr__(self, "bandwidth", bandwidth)
        if self.total > MOST_DEVICES and not self.are_alike:
            raise InputError(f"There are more than {MOST_DEVICES} devices; give fewer.")

    @classmethod
    def alike(cls, count: int, bandwidth: float, memory: float = math.inf, name: str = "device") -> Machines:
        """Devices of one kind; `bandwidth` and `memory` as for `Kind`."""
        return cls((Kind(name, count, memory=memory, bandwidth=bandwidth),))

    @cached_property
    def are_alike(self) -> bool:
        """Whether there is one kind, in free order, whose devices send and receive at one rate."""
        if len(self.kinds) > 1 or self.is_fixed:
            return False
        return self.between is None or self.kinds[0].bandwidth in (None, self.between[0, 0])

    def without_overflow(self, fit: bool) -> Machines:
        """The same devices, where a single kind without overflow keeps only its rate between two devices."""
        if self.between is None or len(self.kinds) > 1 or not (fit or math.isinf(self.kinds[0].memory)):
            return self
        return Machines([replace(self.kinds[0], bandwidth=None)], self.order, self.between.tolist(), self.bandwidth)

    @cached_property
    def kind_rates(self) -> tuple[float, ...]:
        """(T,) bytes per unit of work time into and out of a device of each kind."""
        if self.are_alike and self.between is not None:
            return (float(self.between[0, 0]),)
        return tuple(self.bandwidth if kind.bandwidth is None else kind.bandwidth for kind in self.kinds)

    def platform(self, k: int | None, activation_buffer: float | None, fit: bool) -> Platform:
        """The platform of k blocks, by default one for each device.

        For devices that are alike, bandwidth and memory are theirs; otherwise the bandwidth is that of kinds without
        one, and the memory the largest.

        Raises
        ------
        InputError
            If there are fewer devices, or in a fixed order more, or a number is out of its range.
        """
        k, limits = self.total if k is None else k, [kind.memory for kind in self.kinds if kind.memory < math.inf]
        if self.is_fixed and k != self.total:
            raise InputError(
                f"k is {k}, and in a fixed order each of the {self.total} devices has a block, which may be empty; "
                "leave k out, or give as many."
            )
        if k > self.total:
            raise InputError(f"k is {k}, but there are {self.total} devices; give no more.")
        memory = max(limits) if limits and (fit or len(limits) == len(self.kinds)) else math.inf
        return Platform(k, self.kind_rates[0] if self.are_alike else self.bandwidth, memory, activation_buffer, fit)

    @property
    def in_sequence(self) -> Machines:
        """The same devices in a fixed order; a kind without a bandwidth gets the common one."""
        kinds = zip(self.kinds, self.kind_rates, strict=True)
        with_rates = self.kinds if self.rates else [replace(kind, bandwidth=rate) for kind, rate in kinds]
        return Machines(with_rates, "fixed", self.rates)

    @cached_property
    def between(self) -> FloatArray | None:
        """(T, T) rates from kind to kind, no higher than the bandwidths of both; None unless pairs have rates."""
        return None if self.rates is None else self.pair_rates

    @cached_property
    def pair_rates(self) -> FloatArray:
        """(T, T) rates from kind to kind: the least of both bandwidths and the rate of the pair."""
        default = self.bandwidth if self.rates is None else math.inf
        rates = np.array([default if kind.bandwidth is None else kind.bandwidth for kind in self.kinds])
        between: FloatArray = np.minimum(rates, rates[:, None])
        if self.rates is not None:
            between = np.minimum(self.rates, between)
        for t in np.flatnonzero(np.array(self.counts) == 1).tolist() if len(rates) > 1 else ():
            between[t, t] = 0.0  # a device that is alone sends nothing to its like
            between[t, t] = max(between[t].max(), between[:, t].max())
        freeze(between)
        return between

    @cached_property
    def is_limited(self) -> bool:
        """Whether the memory of some kind is finite."""
        return any(kind.memory < math.inf for kind in self.kinds)

    @property
    def common_memory(self) -> float:
        """Memory of each device, where all have the same [bytes]; infinite otherwise."""
        memory, *others = {kind.memory for kind in self.kinds}
        return math.inf if others else memory

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of devices of each kind."""
        return tuple(kind.count for kind in self.kinds)

    @property
    def total(self) -> int:
        """Number of all devices."""
        return sum(self.counts)

    def subset(self, counts: Sequence[int]) -> Machines:
        """The first `counts` devices of each kind, at least one in all; kinds with none are left out."""
        kinds = [replace(kind, count=count) for kind, count in zip(self.kinds, counts, strict=True) if count]
        used = [t for t, count in enumerate(counts) if count]
        rates = self.rates and [[self.rates[s][t] for t in used] for s in used]
        return Machines(kinds, self.order, rates, self.bandwidth)

    @property
    def price(self) -> float | None:
        """Price of all devices together, in the unit of the kinds; None if none has a price."""
        prices = [kind.count * kind.price for kind in self.kinds if kind.price is not None]
        return sum(prices) if prices else None

    @property
    def is_fixed(self) -> bool:
        """Whether block i is on device i."""
        return self.order == "fixed"

    @property
    def sequence(self) -> tuple[int, ...]:
        """Kind of each device, in the order in which kinds are given."""
        return tuple(t for t, count in enumerate(self.counts) for _ in range(count))

    def __str__(self) -> str:
        return ",".join(f"{kind.count}x{kind.name}" for kind in self.kinds)


def _checked_rates(rates: Sequence[Sequence[float]], size: int) -> tuple[tuple[float, ...], ...]:
    if len(rates) != size or any(len(row) != size for row in rates):
        raise InputError(f"Rates between {size} kinds of devices are {size} rows of {size} numbers; give as many.")
    for s, row in enumerate(rates):
        for t, rate in enumerate(row):
            if not rate > 0:
                raise InputError(f"rates[{s}][{t}] is {rate}; it must be positive.")
    return tuple(tuple(map(float, row)) for row in rates)


@dataclass(frozen=True)
class ListedDevice:
    """A device of ``catalogue.json``, with the figures of its data sheet."""

    name: str
    training: str  # its name for training, with the size of its memory
    peak_tflops: float  # of dense products of 16 bits
    eight: float  # peak of products of 8 bits, as a multiple of that; 1 where there is none
    four: float  # the same for 4 bits
    memory_bandwidth: float  # [GB/s]
    memory: float  # [GB]
    binary: bool  # whether the device has as many GiB
    slot: float  # what a slot of its PCI Express generation carries, about 80 % of its rate [GB/s]
    link: float | None  # to other devices of its server by a switch of their own, one direction [GB/s]
    processors: int  # multiprocessors, which share the tiles of a product
    generation: str  # of which training times were measured, the nearest one
    source: str
    half: str | None = None  # its only type of 16-bit products; None if it has bf16 and fp16


@cache
def catalogue() -> dict[str, list[dict[str, Any]]]:
    """Devices and servers of ``catalogue.json``, with the sources of their numbers."""
    document: dict[str, list[dict[str, Any]]] = json.loads(
        files("instances").joinpath("catalogue.json").read_text(encoding="utf-8")
    )
    return document


@cache
def listed_devices() -> dict[str, ListedDevice]:
    """Devices of the catalogue by name."""
    return {row["name"]: ListedDevice(**row) for row in catalogue()["devices"]}


def device_named(name: str) -> ListedDevice | None:
    """The device of the catalogue of a name in any case, with or without the size of its memory."""
    names = {key.lower(): device for device in listed_devices().values() for key in (device.training, device.name)}
    return names.get(name.lower()) or names.get(name.lower().removesuffix("gb"))


#: Kinds that are known by name, with dense half precision, own memory, its size, and what their slot carries.
SHIPPED: dict[str, Kind] = {
    device.name: Kind(
        device.name,
        1,
        roofline=Device(device.peak_tflops * 1e12, device.memory_bandwidth * 1e9),
        memory=device.memory * 1e9,
        bandwidth=device.slot * 1e9,
    )
    for device in listed_devices().values()
}


def devices_of_text(text: str) -> Machines | None:
    """Devices of a text such as ``4xA100,6xL4``; None if the text has another form.

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
        device = device_named(name)
        if device is None:
            raise WordError("devices", text, unknown(SHIPPED, name, "kind of devices"))
        kinds.append(replace(SHIPPED[device.name], count=count))
    return Machines(kinds)


def read_kinds(path: str | Path, memory: float = math.inf, order: str = "free") -> Machines:
    """Read a file of devices.

    A kind without a memory gets `memory` [bytes]; devices of a table are in `order`, "free" or "fixed".

    Raises
    ------
    InputError
        If the file cannot be read, or does not hold devices.
    """
    document = read_json(path)
    if document.check_format(KINDS_FORMAT, TABLE_FORMAT) == TABLE_FORMAT:
        return devices_of_table(document, memory, order, ("format",))
    return devices_from_document(document, memory, ("format",))


def devices_from_document(document: Value, memory: float = math.inf, beside: tuple[str, ...] = ()) -> Machines:
    """The devices of an object with `kinds` and perhaps `order`; it may hold the members `beside`.

    Raises
    ------
    InputError
        If the object holds no devices; the message names the place.
    """
    fields = document.members((*beside, "kinds"), ("order", "rates"))
    values = fields["kinds"].items()
    if len(values) > _MOST_KINDS:
        fields["kinds"].fail(f"there are {len(values)} kinds; {_MOST_KINDS} are the most.")
    kinds = [_kind(value, memory) for value in values]
    order = fields["order"].text() if "order" in fields else "free"
    rates = rates_of(fields["rates"]) if "rates" in fields else None
    try:
        return Machines(kinds, order, rates)
    except InputError as error:
        document.fail(str(error))


def devices_document(devices: Machines) -> dict[str, object]:
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


def _kind_document(kind: Kind) -> dict[str, object]:
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


def _kind(value: Value, memory: float) -> Kind:
    optional = ("count", "speed", "peak_flops", "memory_bandwidth", "memory", "bandwidth", "price")
    fields = value.members(("name",), optional)
    roofs = [fields[name].number() for name in ("peak_flops", "memory_bandwidth") if name in fields]
    if len(roofs) == 1:
        value.fail("give both 'peak_flops' and 'memory_bandwidth', or neither.")
    limit, rate = (fields[name].optional_number() if name in fields else None for name in ("memory", "bandwidth"))
    speed, price = (fields[name].number() if name in fields else None for name in ("speed", "price"))
    name, count = fields["name"].text(), fields["count"].whole() if "count" in fields else 1
    try:
        return Kind(
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


def devices_of_table(
    document: Value, memory: float = math.inf, order: str = "free", beside: tuple[str, ...] = ()
) -> Machines:
    """Read devices from an object with `speeds`, perhaps `memories` and `rates`, and the members `beside`.

    Where all rates are equal, they become the bandwidth; else there is a rate for each pair of kinds. In free order
    devices are of one kind where speeds, memories and all rates agree.

    Raises
    ------
    InputError
        If the object holds no devices; the message names the place.
    """
    fields = document.members((*beside, "speeds"), ("memories", "rates"))
    speeds = fields["speeds"].numbers()
    count, devices = len(speeds), range(len(speeds))
    if count > _MOST_KINDS:
        fields["speeds"].fail(f"there are {count} devices; {_MOST_KINDS} are the most.")
    memories = [item.limit() for item in fields["memories"].items()] if "memories" in fields else [memory] * count
    rates = rates_of(fields["rates"]) if "rates" in fields else [[math.inf] * count] * count
    if len(memories) != count or len(rates) != count or any(len(row) != count for row in rates):
        document.fail(f"there are {count} speeds; give as many memories, and as many rows of as many rates.")
    rates = [[math.inf if d == e else rates[d][e] for e in devices] for d in devices]
    links = {rates[d][e] for d in devices for e in devices if d != e} if "rates" in fields else set()
    rate = links.pop() if len(links) == 1 else None
    try:
        kinds = [Kind(f"device {d}", 1, speeds[d], memory=memories[d], bandwidth=rate) for d in devices]
        if not links:
            return Machines(kinds, order)
        groups: list[list[int]] = []
        for d in devices:
            alike = (g for g in groups if kinds[g[0]].traits == kinds[d].traits and _exchangeable(rates, d, g[0]))
            group = next(alike, None) if order == "free" else None
            if group is None:
                groups.append([d])
            else:
                group.append(d)
        table = [[rates[group[0]][other[-1]] for other in groups] for group in groups]
        return Machines([replace(kinds[group[0]], count=len(group)) for group in groups], order, table)
    except InputError as error:
        document.fail(str(error))


def _exchangeable(rates: Sequence[Sequence[float]], d: int, e: int) -> bool:
    """Whether two devices have the same rates to all others."""
    others = [f for f in range(len(rates)) if f not in (d, e)]
    return rates[d][e] == rates[e][d] and all(rates[d][f] == rates[e][f] and rates[f][d] == rates[f][e] for f in others)
