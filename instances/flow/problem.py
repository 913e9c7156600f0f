"""Questions of flow, and their files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from instances.certificates import FLOW, Envelope, envelope, opened, stated_answer
from instances.errors import InputError, printable
from instances.graph.questions import QuestionRecord, digest_of, nameless
from instances.graph.tensors import FloatArray, IntArray, freeze
from instances.json_files import Value, read_json
from instances.records import Floats, Ints, read, written

# Question of flow: layers of a decoder, devices that hold some of them, and links between devices.
#
# A device that holds c layers serves a number of requests a second, and a link carries a number of them. Requests go
# from the source to devices that begin with the first layer, from each device to those that begin where it ends, and to
# the sink. More of them is better; as costs are minimised, the cost is the time for each request, 1 / flow.
#
# Of a decoder whose sequences wait for their next turn, the question has steps, and follows capacities from them: those
# of the fewest batches in flight that may hold all layers, with the best tick for each device, are the most it serves.


_MOST_DEVICES, _MOST_LAYERS = 256, 4096
# Range of numbers, whose sums and quotients do not overflow.
_LEAST, _LARGEST = 1e-30, 1e30
#: Terms of questions that state capacities.
WITHOUT_WAITING = "capacities without the caches of waiting sequences"
#: Where requests come from and go to, as rows and columns of rates behind those of the devices.
SOURCE, SINK = 0, 1


@dataclass(frozen=True, eq=False, repr=False)
class FlowInstance(QuestionRecord):
    """Question of flow: which layers each device of a network holds, so that most requests pass.

    Devices of one kind have the same capacities; each link between two devices, and from the source and to the sink,
    carries a number of requests.

    Parameters
    ----------
    name : str
    layers : int
        L, 1 to 4096.
    devices : tuple of str
        Their names, at most 256.
    kind : (n,) integers
        Kind of each device.
    capacity : (T, L + 1) floats
        Requests per second of a device of each kind, by number of layers; 0 for none, and where it cannot hold them.
        With `steps` they are the largest that the steps allow.
    rates : (n + 2, n + 2) floats
        Requests per second that each link carries, 0 without one; the last two rows and columns are source and sink.
    published : mapping of int to (int, int), optional
        Layers of devices in a published answer, from the first to behind the last.
    longest_path : int, optional
        Devices that a request may pass, at least 1; by default all.
    steps : Steps, optional
        Steps of a decoder whose sequences hold their caches between their turns.

    Raises
    ------
    InputError
        If sizes or numbers are out of their ranges; capacities and rates are 0, or from 1e-30 to 1e30.
    """

    problem: ClassVar[str] = "flow"

    name: str
    layers: int
    devices: tuple[str, ...]
    kind: IntArray
    capacity: FloatArray
    rates: FloatArray
    published: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    longest_path: int | None = None
    steps: Steps | None = None

    def __post_init__(self) -> None:
        n = len(self.devices)
        if not 1 <= self.layers <= _MOST_LAYERS:
            raise InputError(f"There are {self.layers} layers; give 1 to {_MOST_LAYERS}.")
        if not 1 <= n <= _MOST_DEVICES:
            raise InputError(f"There are {n} devices; give 1 to {_MOST_DEVICES}.")
        kind = np.array(self.kind, dtype=np.int64)
        if self.steps is not None:
            object.__setattr__(self, "capacity", self.steps.capacity(self.least_in_flight or n))
        capacity, rates = (np.array(array, dtype=np.float64) for array in (self.capacity, self.rates))
        if kind.shape != (n,) or capacity.ndim != 2 or capacity.shape[1] != self.layers + 1:
            raise InputError("Kinds and capacities do not fit devices and layers; give one a device, L + 1 a kind.")
        if rates.shape != (n + 2, n + 2):
            raise InputError(f"There are rates for {rates.shape}; give {n + 2} rows of {n + 2}.")
        for numbers in (capacity, rates):
            if not ((numbers == 0) | ((numbers >= _LEAST) & (numbers <= _LARGEST))).all():
                raise InputError(
                    f"A capacity or a rate is not 0, nor from {_LEAST:g} to {_LARGEST:g}; give such a number."
                )
        if kind.min() < 0 or kind.max() >= len(capacity):
            raise InputError(f"A device is of a kind that there is not; they run from 0 to {len(capacity) - 1}.")
        if self.longest_path is not None and self.longest_path < 1:
            raise InputError(f"A request may pass {self.longest_path} devices; give 1 or more.")
        capacity[:, 0] = 0.0
        for name, array in (("kind", kind), ("capacity", capacity), ("rates", rates)):
            freeze(array)
            object.__setattr__(self, name, array)

    @property
    def n(self) -> int:
        """Number of devices."""
        return len(self.devices)

    @property
    def counted(self) -> str:
        """The noun of what the flow counts: tokens where sequences take turns, each for its next one, or requests."""
        return "request" if self.steps is None else "token"

    @property
    def rate_unit(self) -> str:
        """Unit of the flow."""
        return f"{self.counted}s/s"

    @property
    def cost_name(self) -> str:
        """Noun of the costs, 1 / flow."""
        return f"time a {self.counted}"

    @property
    def longest(self) -> int:
        """Largest number of devices that a request may pass."""
        limits = (self.n, self.longest_path, None if self.steps is None else self.steps.in_flight)
        return min(limit for limit in limits if limit is not None)

    @cached_property
    def least_in_flight(self) -> int | None:
        """Fewest batches in flight with which the devices on a path can hold all layers; None if no number suffices."""
        return None if self.steps is None else self.steps.least_in_flight(self.n)

    @property
    def numbers_in_flight(self) -> range:
        """Numbers of batches in flight worth trying: at most the number of devices on a path."""
        assert self.steps is not None
        if self.steps.in_flight is not None:
            return range(self.steps.in_flight, self.steps.in_flight + 1)
        return range(self.least_in_flight or self.n, min(self.n, self.layers) + 1)

    def at(self, in_flight: int, low: float = 0.0, high: float = math.inf) -> FlowInstance:
        """The question with `in_flight` batches, and the largest capacities at any tick from `low` to `high` [s].

        A device with so few layers that the other devices on a path cannot hold all remaining layers has capacity 0.
        """
        assert self.steps is not None
        capacity, longest = self.steps.capacity(in_flight, low, high), min(self.longest, in_flight)
        reach = int((np.arange(self.layers + 1) * (capacity > 0).any(axis=0)).max())
        capacity[:, : max(0, self.layers - (longest - 1) * reach)] = 0.0
        return replace(self, capacity=capacity, longest_path=longest, steps=None, published={})

    @property
    def counts(self) -> IntArray:
        """(T,) number of devices of each kind."""
        return np.bincount(self.kind, minlength=len(self.capacity))

    @property
    def question_words(self) -> str:
        """The question in one line, with sizes and digests but no names of graph, nodes or devices."""
        links = int((self.rates > 0).sum())
        kinds = "+".join(map(str, self.counts.tolist()))
        digest = digest_of(nameless(self.document()))
        path = "" if self.longest_path is None else f", {self.longest_path} on a path"
        devices = f"{self.layers} layers on {self.n} devices ({kinds} of a kind){path}, {links} links"
        return f"{devices}, {self.terms} {digest}"

    @property
    def terms(self) -> str:
        """Text on the dimensions of steps and the batches in flight; without steps, that caches do not count."""
        if self.steps is None:
            return WITHOUT_WAITING
        dims, in_flight = ", ".join(f"{name} {size}" for name, size in self.steps.dims.items()), self.steps.in_flight
        turns = f"{'any number of' if in_flight is None else in_flight} batches in flight"
        return f"{dims}, layers without embeddings and head, {turns}"

    def of_devices(self, numbers: IntArray) -> FlowInstance:
        """The question of some of the devices."""
        place, devices = np.array([*numbers, self.n + SOURCE, self.n + SINK]), tuple(self.devices[i] for i in numbers)
        rates = self.rates[np.ix_(place, place)]
        return replace(self, devices=devices, kind=self.kind[numbers], rates=rates, published={})

    def document(self) -> dict[str, Any]:
        """The question as the member `question` of a file; links in the order of their ends."""
        names = [*self.devices, "source", "sink"]
        return {
            "name": self.name,
            "layers": self.layers,
            "kinds": [
                {
                    "devices": [self.devices[i] for i in np.flatnonzero(self.kind == t).tolist()],
                    "capacity_by_layers": {
                        str(c): row[c] for c in range(len(row)) if row[c] > 0 and self.steps is None
                    },
                }
                for t, row in enumerate(self.capacity.tolist())
            ],
            "links": sorted(
                [names[u], names[v], self.rates[u, v].item()] for u, v in np.argwhere(self.rates > 0).tolist()
            ),
            **({} if self.longest_path is None else {"longest_path": self.longest_path}),
            **({} if self.steps is None else {"steps": written(self.steps)}),
        }

    @classmethod
    def of_document(cls, value: Value) -> FlowInstance:
        """The question from the member `question` of a file; an `InputError` names the place of an error."""
        return question_from_members(value)

    @property
    def label(self) -> str:
        """Name, as messages and tables show it."""
        return f"{self.name}, {self.n} devices, {self.layers} layers"

    def unreachable(self) -> str | None:
        """Why no request can pass, in one line; None if no simple reason applies."""
        if self.capacity.max() <= 0:
            return "no device can hold a layer"
        if self.steps is not None and self.least_in_flight is None:
            return "no devices on a path have room for all layers and for the caches of a batch for each of them"
        if not self.rates[self.n + SOURCE, : self.n].any():
            return "no link leads from the source to a device"
        if not self.rates[: self.n, self.n + SINK].any():
            return "no link leads from a device to the sink"
        seen = self.rates[self.n + SOURCE, : self.n] > 0
        for _ in range(self.n):
            seen = seen | (self.rates[: self.n, : self.n][seen] > 0).any(axis=0)
        if not self.rates[: self.n, self.n + SINK][seen].any():
            return "no path of links leads from the source to the sink"
        longest = np.array([np.flatnonzero(row).max(initial=0) for row in self.capacity])[self.kind]
        if longest[seen].sum() < self.layers:
            layers = int(longest[seen].sum())
            return f"all devices that requests can reach hold {layers} layers together, and there are {self.layers}"
        return None

    def _facts(self) -> dict[str, str]:
        links = int((self.rates > 0).sum())
        return {
            "devices": str(self.n),
            "kinds": str(len(self.capacity)),
            "layers": str(self.layers),
            "links": str(links),
        }


def table_of(layers: int, rows: Sequence[Mapping[int, float]]) -> FloatArray:
    """(T, L + 1) capacities from a mapping of number of layers to capacity for each kind [requests/s].

    Raises
    ------
    InputError
        If a number of layers is out of range.
    """
    table = np.zeros((len(rows), layers + 1))
    for t, row in enumerate(rows):
        for count, rate in row.items():
            if not 1 <= count <= layers:
                raise InputError(f"kind {t}: there is a capacity for {count} layers of {layers}; leave it out.")
            table[t, count] = rate
    return table


def rates_of(devices: Sequence[str], links: Sequence[tuple[str, str, float]]) -> ArrayLike:
    """(n + 2, n + 2) rates from links between names, source and sink among them.

    Raises
    ------
    InputError
        If a link names no device, or is there twice.
    """
    n = len(devices)
    place = {name: i for i, name in enumerate(devices)} | {"source": n + SOURCE, "sink": n + SINK}
    rates = np.zeros((n + 2, n + 2))
    seen = set()
    for tail, head, rate in links:
        for end in (tail, head):
            if end not in place:
                raise InputError(f"a link ends at {printable(end)}, which is no device, nor source or sink.")
        if (tail, head) in seen:
            raise InputError(f"the link from {printable(tail)} to {printable(head)} is given twice; keep one.")
        seen.add((tail, head))
        rates[place[tail], place[head]] = rate
    return rates


# Questions of flow in files ``mtpp-flow-question/1``, published clusters, and answers.
#
# A question holds `name`, `layers`, `kinds`, a list of objects with `devices`, numbers or names, and
# `capacity_by_layers`, requests per second by number of layers, and `links`, a list of rows with two ends and requests
# per second; ends are devices, "source" or "sink". Published clusters have the same members, the format
# ``helix-instance``, and perhaps `published` intervals.


FLOW_QUESTION, PUBLISHED = "mtpp-flow-question/1", "helix-instance"

_MEMBERS = ("name", "layers", "kinds", "links")


class GroupMembers(NamedTuple):
    """Devices that step together."""

    in_flight: int  # number of batches in flight
    tick: float  # time from step to step [s]
    sequences: Mapping[str, int]  # by name of the device, the sequences that it takes in a step


class FlowMembers(NamedTuple):
    """The answer that a file states."""

    intervals: Mapping[str, tuple[int, int]]  # by name of the device, its first layer and the one behind its last
    flow: float  # [requests/s]
    groups: tuple[GroupMembers, ...] = ()  # groups of devices; empty if the question has no steps


@dataclass(frozen=True, kw_only=True)
class FlowCertificate(Envelope):
    """Certificate of a flow as its file states it."""

    instance: FlowInstance
    interval: tuple[tuple[int, int], ...] | None  # first layer of each device, and the one behind its last
    flow: float | None  # [requests/s]
    groups: tuple[GroupMembers, ...] = ()  # groups of devices; empty if the question has no steps

    answer_name: ClassVar[str] = "placement of layers"


def read_flow_question(path: str | Path) -> FlowInstance:
    """Read a question.

    Raises
    ------
    InputError
        If the file holds no question; the message names the place.
    """
    document = read_json(path)
    document.check_format(FLOW_QUESTION, PUBLISHED)
    return question_from_members(document, ("format",))


def question_from_members(document: Value, beside: tuple[str, ...] = ()) -> FlowInstance:
    """The question of a JSON object, which also has members `beside`; an `InputError` names the place of an error."""
    fields = document.members((*beside, *_MEMBERS), ("source", "published", "longest_path", "steps"))
    layers = fields["layers"].whole()
    devices: list[str] = []
    kind: list[int] = []
    rows: list[dict[int, float]] = []
    for t, item in enumerate(fields["kinds"].items()):
        members = item.members(("devices", "capacity_by_layers"))
        for device in members["devices"].items():
            devices.append(_name(device))
            kind.append(t)
        rows.append(
            {
                _count(text, value): value.number()
                for text, value in members["capacity_by_layers"].open_members(()).items()
            }
        )
    for name in devices:
        if devices.count(name) > 1 or name in ("source", "sink"):
            fields["kinds"].fail(f"two devices are called {name}, or one is called as an end; give each its own name.")
    links = [_link(row) for row in fields["links"].items()]
    steps = read(fields["steps"], Steps, T=len(rows), C=layers + 1) if "steps" in fields else None
    try:
        if not 1 <= layers <= 4096:
            raise InputError(f"There are {layers} layers; give 1 to 4096.")
        capacity, rates = table_of(layers, rows), rates_of(devices, links)
        published = _published(fields["published"], devices) if "published" in fields else {}
        if steps is not None and any(rows):
            raise InputError("there are both steps and capacities by layers; keep one.")
        return FlowInstance(
            fields["name"].text(),
            layers,
            tuple(devices),
            np.array(kind, dtype=np.int64),
            capacity,
            np.array(rates),
            published,
            fields["longest_path"].whole() if "longest_path" in fields else None,
            steps,
        )
    except InputError as error:
        document.fail(str(error))


def flow_from_document(document: Value) -> FlowCertificate:
    """The certificate of a file; an `InputError` if the file is no certificate of a flow."""
    fields = opened(document, FLOW)
    instance, interval, stated = FlowInstance.of_document(fields["question"]), None, FlowMembers({}, 0.0)
    if fields["answer"].data is not None:
        stated = stated_answer(fields, FlowMembers)
        if set(stated.intervals) != set(instance.devices):
            fields["answer"].fail("intervals: expected one for each device, by its name.")
        interval = tuple(stated.intervals[name] for name in instance.devices)
    return FlowCertificate(
        **envelope(fields, FLOW),
        instance=instance,
        interval=interval,
        flow=None if interval is None else stated.flow,
        groups=stated.groups,
    )


def _name(value: Value) -> str:
    return str(value.whole()) if isinstance(value.data, int) and not isinstance(value.data, bool) else value.text()


def _count(text: str, value: Value) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and str(int(text)) == text):
        value.fail("its name is no number of layers.")
    return int(text)


def _link(row: Value) -> tuple[str, str, float]:
    items = row.items()
    if len(items) != 3:
        row.fail("expected two ends and a rate.")
    return _name(items[0]), _name(items[1]), items[2].number()


def _published(value: Value, devices: list[str]) -> dict[int, tuple[int, int]]:
    intervals = {}
    for name, row in value.open_members(("intervals",))["intervals"].open_members(()).items():
        ends = row.whole_numbers()
        if name not in devices or len(ends) != 2:
            row.fail("expected the two ends of the layers of a device.")
        intervals[devices.index(name)] = (ends[0], ends[1])
    return intervals


# Steps of a decoder on kinds of devices: how long they take, and of how many sequences they may be.
#
# All devices step together, once a tick, and m batches of sequences are in flight. A device steps at one of them in
# each tick, and holds the caches of all. No request passes more than m devices, so that a sequence is back for its
# next token m ticks later. So a device with c layers and caches of s sequences has batches of b sequences, at most s
# / m, whose step takes no longer than a tick, and serves b sequences a tick. The next token of a sequence, and what
# passes between devices, take no time of a tick; links limit the sequences a second.


#: Largest number of sequences of a step, or of a device.
MOST_SEQUENCES = 10**9


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of the devices of each kind, T of them, with up to L layers.

    Parameters
    ----------
    dims : mapping of str to str
        Dimensions that times hold for, such as context and element_bytes.
    sizes : (B,) integers
        Sequences that a step may be of, ascending.
    slots : (T, L + 1) integers
        Sequences whose caches a device holds beside a number of layers.
    seconds : (T, L + 1, B) floats
        Time of a step; infinite where the device cannot make it.
    port : (T,) floats
        Sequences per second that can enter a device, and that can leave it.
    in_flight : int, optional
        Batches in flight; by default any number.

    Raises
    ------
    InputError
        If sizes or numbers are out of their ranges.
    """

    dims: Mapping[str, str]
    sizes: Annotated[IntArray, Ints("B")]
    slots: Annotated[IntArray, Ints("T", "C")]
    seconds: Annotated[FloatArray, Floats("T", "C", "B")]
    port: Annotated[FloatArray, Floats("T")]
    in_flight: int | None = None

    def __post_init__(self) -> None:
        shape = (len(self.port), self.slots.shape[1] if self.slots.ndim == 2 else 0, len(self.sizes))
        if self.seconds.shape != shape or self.slots.shape != shape[:2] or 0 in shape:
            raise InputError("Slots and seconds do not fit kinds, layers and sizes of steps; give one for each.")
        sizes = self.sizes.tolist()
        if sizes != sorted(set(sizes)) or not 1 <= sizes[0] <= sizes[-1] <= MOST_SEQUENCES:
            raise InputError(f"Sizes of steps do not ascend from 1 to {MOST_SEQUENCES}; give such numbers.")
        if self.slots.min() < 0 or self.slots.max() > MOST_SEQUENCES:
            raise InputError(f"Slots are not from 0 to {MOST_SEQUENCES}; give such numbers.")
        for numbers in (self.seconds[self.seconds < math.inf], self.port):
            if not ((numbers >= _LEAST) & (numbers <= _LARGEST)).all():
                raise InputError(f"Seconds or sequences a second are not from {_LEAST:g} to {_LARGEST:g}.")
        if self.in_flight is not None and not 1 <= self.in_flight <= MOST_SEQUENCES:
            raise InputError(f"in_flight is {self.in_flight}; give 1 or more batches.")

    def least_in_flight(self, devices: int) -> int | None:
        """Fewest batches in flight with which `devices` devices on a path can hold all layers; None if impossible."""
        numbers = range(1, devices + 1) if self.in_flight is None else (self.in_flight,)
        layers = np.arange(self.slots.shape[1])
        for m in numbers:
            reach = int((layers * (self.capacity(m) > 0).any(axis=0)).max())
            if min(m, devices) * reach >= layers[-1]:
                return m
        return None

    def capacity(self, in_flight: int, low: float = 0.0, high: float = math.inf) -> FloatArray:
        """(T, L + 1) largest sequences per second with `in_flight` batches and a tick from `low` to `high` [s]."""
        fits = (self.sizes <= (self.slots // in_flight)[:, :, None]) & (self.seconds <= min(high, _LARGEST))
        rates = np.where(fits, self.sizes / np.maximum(self.seconds, low), 0.0).max(axis=2)
        rates[:, 0] = 0.0
        capacity: FloatArray = np.minimum(rates, self.port[:, None])
        return capacity

    def batch(self, in_flight: int, tick: float) -> IntArray:
        """(T, L + 1) largest number of sequences whose step takes at most `tick` seconds."""
        fits = (self.sizes <= (self.slots // in_flight)[:, :, None]) & (self.seconds <= tick)
        largest: IntArray = np.where(fits, self.sizes, 0).max(axis=2)
        largest[:, 0] = 0
        return largest

    def ticks(self, in_flight: int) -> FloatArray:
        """Step intervals worth trying [s], ascending: the durations of all steps that fit into memory."""
        fits = (self.sizes <= (self.slots // in_flight)[:, :, None]) & (self.seconds < math.inf)
        return np.unique(self.seconds[:, 1:][fits[:, 1:]])
