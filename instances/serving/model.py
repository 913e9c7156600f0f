"""The inputs of serving: a decoder by the numbers that its layers hold, read and multiply for each token, and servers.

Servers are how many devices of which kind each one holds, how these are linked, and what a server costs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from instances.errors import InputError, WordError, printable, unknown
from instances.graph.tensors import IntArray
from instances.json_files import Value
from instances.machines import SHIPPED, Kind, device_named, listed_devices
from instances.records import Ints, Limit, read

#: Message about a model that is no decoder, or has another head.
NO_TOKENS = "it predicts no tokens one after the other; give a decoder with its head"


@dataclass(frozen=True)
class LayerShape:
    """Sizes of a layer, in numbers.

    Parameters
    ----------
    weights : int
        Weights that each token is multiplied with; a tensor degree divides them.
    whole : int
        Parameters that each device holds whole.
    expert, experts, chosen : int
        Weights of an expert, experts of the layer, and those that a token takes; 0 without experts.
    scores : int
        Widths of all queries and of all outputs of heads together; a token that attends to another one multiplies so
        many numbers.
    cache : int
        Numbers that a token keeps.
    heads, key_heads : int
        Heads of queries, which a tensor degree has to divide, and of keys; a device holds at least one of keys.
    inner : int
        Width within the networks that a token takes, all together.
    window : int
        The most tokens that a token attends to, and that are kept; 0 if there is no limit.
    stored : int
        Bytes of all parameters as a file has them; 0 where they follow from the width of weights.
    """

    weights: int
    whole: int
    expert: int
    experts: int
    chosen: int
    scores: int
    cache: int
    heads: int
    key_heads: int
    inner: int
    window: int = 0
    stored: int = 0

    @property
    def parameters(self) -> int:
        """Number of all parameters of the layer."""
        return self.weights + self.whole + self.experts * self.expert

    def __post_init__(self) -> None:
        least = {"weights": 1, "cache": 1, "heads": 1, "key_heads": 1}
        for name, value in vars(self).items():
            if value < least.get(name, 0):
                raise InputError(f"{name} of a layer is {value}; give {least.get(name, 0)} or more.")
            if value >= 2**40:
                raise InputError(f"{name} of a layer is {value}; give less than 2^40.")
        if self.experts > 4096:
            raise InputError(f"a layer has {self.experts} experts; give at most 4096.")
        if self.chosen > self.experts or (self.experts > 0) != (self.chosen > 0):
            raise InputError(f"A token takes {self.chosen} of {self.experts} experts of a layer; that cannot be.")


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A decoder: its layers in order, embedding and head.

    Parameters
    ----------
    name : str
    hidden : int
        Numbers of a token between layers.
    shapes : tuple of LayerShape
        Layers that differ.
    order : (L,) integers
        Shape of each layer.
    embedding, head : int
        Parameters before the layers, and behind them.
    logits : int
        Weights of the head that each token is multiplied with.
    tied : int
        Parameters of the embedding that the head uses as well; a stage with both holds them once.
    stored : (int, int)
        Bytes of embedding and of head as a file has them; 0 where they follow from the width of weights.

    Raises
    ------
    InputError
        If there is no layer, or a size is out of its range.
    """

    name: str
    hidden: int
    shapes: tuple[LayerShape, ...]
    order: Annotated[IntArray, Ints("L")]
    embedding: int
    head: int
    logits: int
    tied: int
    stored: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if not 1 <= len(self.order) <= 4096 or not self.shapes:
            raise InputError(f"{self.name}: there are {len(self.order)} layers; give 1 to 4096.")
        if len(self.shapes) > 256:
            raise InputError(f"{self.name}: {len(self.shapes)} shapes of layers are too many; give at most 256.")
        if min(self.order) < 0 or max(self.order) >= len(self.shapes):
            raise InputError(f"{self.name}: shapes of layers run from 0 to {len(self.shapes) - 1}.")
        for name in ("hidden", "embedding", "head", "logits", "tied"):
            if not 0 <= getattr(self, name) < 2**50:
                raise InputError(f"{self.name}: {name} is {getattr(self, name)}; give a number from 0 to 2^50.")
        for size in self.stored:
            if not 0 <= size < 2**50:
                raise InputError(f"{self.name}: stored is {size}; give a number from 0 to 2^50.")
        if self.parameters >= 2**50:
            raise InputError(f"{self.name}: it has {self.parameters} parameters; give less than 2^50.")
        if self.tied > min(self.embedding, self.head):
            raise InputError(f"{self.name}: {self.tied} shared parameters are more than embedding or head have.")

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.order)

    @property
    def parameters(self) -> int:
        """Number of parameters; a table shared by embedding and head counts once."""
        counts = [shape.parameters for shape in self.shapes]
        return sum(counts[shape] for shape in self.order.tolist()) + self.embedding + self.head - self.tied

    def check_degree(self, degree: int) -> None:
        """Refuse a tensor degree that does not divide the heads of each layer."""
        heads = sorted({shape.heads for shape in self.shapes})
        for count in heads:
            if count % degree:
                divisors = ", ".join(str(t) for t in (1, 2, 4, 8, 16, 32, 64) if all(h % t == 0 for h in heads))
                raise InputError(f"degree {degree} does not divide {count} heads; give {divisors}.")


_TEXT = re.compile(r"\s*([1-9]\d{0,5})\s*[x×*]\s*([1-9]\d{0,3})\s*[x×*]\s*([\w.+-]+)\s*")


@dataclass(frozen=True)
class Servers:
    """A type of server: several equal servers.

    Parameters
    ----------
    kind : str
        Name of the kind of their devices.
    devices, count : int
        Devices of a server, and servers.
    peak_flops : float
        Peak rate of 16-bit products of a device [1/s].
    memory_bandwidth, memory : float
        Memory bandwidth [bytes/s] and memory [bytes] of a device.
    within : float
        Rate between two devices of the server, one direction [bytes/s].
    switched : bool
        Whether devices are linked by a switch of their own, such as NVLink, and not by the slots of the server.
    eight, four : float
        Peak rates of 8-bit and 4-bit products as multiples of `peak_flops`.
    price : float, optional
        Price of a server for an hour.

    Raises
    ------
    InputError
        If a number is out of its range.
    """

    kind: str
    devices: int
    count: int
    peak_flops: float
    memory_bandwidth: float
    memory: float
    within: float
    switched: bool = False
    eight: float = 1.0
    four: float = 1.0
    price: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.kind) <= 64 or not self.kind.isprintable():
            raise InputError("a kind of devices has no name of 1 to 64 characters in one line; give one.")
        where = f"servers of {self.kind}"
        for name, limit in (("devices", 1024), ("count", 1024)):
            if not 1 <= getattr(self, name) <= limit:
                raise InputError(f"{where}: {name} is {getattr(self, name)}; give 1 to {limit}.")
        for name, top in (("peak_flops", 1e30), ("memory_bandwidth", 1e30), ("memory", 1e13), ("within", 1e30)):
            if not 0 < getattr(self, name) <= top:
                raise InputError(f"{where}: {name} is {getattr(self, name)}; give a positive number up to {top:g}.")
        for name in ("eight", "four"):
            if not 1 <= getattr(self, name) <= 64:
                raise InputError(f"{where}: {name} is {getattr(self, name)}; give 1 to 64.")
        if self.price is not None and not 0 <= self.price <= 1e12:
            raise InputError(f"{where}: price is {self.price}; give 0 to 1e12.")

    @property
    def label(self) -> str:
        """Count and kind, such as 2x8xH100."""
        return f"{self.count}x{self.devices}x{self.kind}"


@dataclass(frozen=True)
class StatedServers:
    """Servers of a file ``mtpp-servers/1``; missing fields are those of the named kind of device."""

    kind: str
    devices: int
    count: int = 1
    peak_flops: float | None = None
    memory_bandwidth: float | None = None
    memory: Limit | None = None
    within: float | None = None
    eight: float | None = None
    four: float | None = None
    price: float | None = None

    def servers(self) -> Servers:
        """The servers; an `InputError` names fields missing of a device that is not in the catalogue."""
        device = device_named(self.kind)
        shipped = None if device is None else SHIPPED[device.name]
        slot = None if shipped is None else shipped.bandwidth
        fields = {} if shipped is None else _of_kind(shipped)
        fields |= {name: value for name, value in vars(self).items() if value is not None and name != "kind"}
        fields["kind"] = self.kind if shipped is None else shipped.name
        if self.within is not None:
            fields["switched"] = slot is not None and self.within > slot
        for name in ("peak_flops", "memory_bandwidth", "memory"):
            if name not in fields:
                raise InputError(f"kind {printable(self.kind)} is not known by name and has no {name}; give it.")
        if "within" not in fields:
            if self.devices > 1:
                raise InputError(f'kind {printable(self.kind)} has no link within its server; give "within".')
            fields["within"] = 1.0  # a device alone sends nothing to others
        return Servers(**fields)


def _of_kind(kind: Kind) -> dict[str, Any]:
    """Fields of servers, from the catalogue's figures for their kind of device."""
    assert kind.roofline is not None
    assert kind.bandwidth is not None
    listed = listed_devices()[kind.name]
    return {
        "peak_flops": kind.roofline.peak_flops,
        "memory_bandwidth": kind.roofline.memory_bandwidth,
        "memory": kind.memory,
        "within": kind.bandwidth if listed.link is None else listed.link * 1e9,
        "switched": listed.link is not None,
        "eight": listed.eight,
        "four": listed.four,
    }


#: Files of servers.
SERVERS_FORMAT = "mtpp-servers/1"


def servers_of_text(text: str) -> tuple[Servers, ...] | None:
    """Servers of a text such as ``2x8xH100,1x4xL4``; None if the text has another form.

    Raises
    ------
    InputError
        If a kind is not known by name.
    """
    parts = [_TEXT.fullmatch(part) for part in text.split(",")]
    if not all(parts):
        return None
    servers = []
    for part in parts:
        assert part is not None
        if device_named(part[3]) is None:
            raise WordError("servers", text, unknown(SHIPPED, part[3], "kind of devices"))
        servers.append(StatedServers(part[3], int(part[2]), int(part[1])).servers())
    return tuple(servers)


def servers_of_document(document: Value) -> tuple[Servers, ...]:
    """Read servers from a list ``servers`` in a file; an `InputError` names the place of an error."""
    document.check_format(SERVERS_FORMAT)
    fields = document.members(("format", "servers"))
    servers = []
    for value in fields["servers"].items():
        stated = read(value, StatedServers)
        with value.refusing():
            servers.append(stated.servers())
    if not servers:
        fields["servers"].fail("there are none; give at least one.")
    return tuple(servers)
