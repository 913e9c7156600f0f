"""Layers with all ways to run them: degrees of parallelism, and what is recomputed; as records and as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from functools import cached_property
from typing import Any

from instances.errors import InputError, check_one_of, printable
from instances.graph.display import Displayed, figures
from instances.json_files import Value
from instances.planning.problem import LARGEST

#: What a layer recomputes before its backward pass: nothing; norms and activations; attention; all operators on single
#: numbers and every other product; everything.
MODES = ("none", "act", "core", "half", "full")
NONE, FULL = MODES[0], MODES[-1]

#: Tensor, context and expert degree.
Degrees = tuple[int, int, int]
_NAMES = ("tp", "cp", "ep")


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One way to run a layer; all numbers are those of one device and one microbatch."""

    tp: int = 1  # devices that share each product
    cp: int = 1  # devices that share a sequence
    ep: int = 1  # devices among which experts are divided; they are also replicas or share a sequence
    recompute: str = NONE  # one of `MODES`
    forward: float  # [s]
    input_backward: float  # gradients of inputs, with what is recomputed [s]
    weight_backward: float  # gradients of weights [s]
    parameters: float  # trained numbers, without experts
    expert_parameters: float = 0.0  # trained numbers of experts
    tied_parameters: float = 0.0  # numbers of the last layer that the first one has as well
    stored_bytes: float  # kept from the forward to the backward pass
    working_bytes: float = 0.0  # held in addition while the layer recomputes
    output_bytes: float  # sent to the next stage, as many gradients come back

    def __post_init__(self) -> None:
        for name in _NAMES:
            if not (isinstance(getattr(self, name), int) and getattr(self, name) >= 1):
                raise InputError(f"{name} is {getattr(self, name)}; give a whole number, 1 or more.")
        check_one_of("recompute", self.recompute, MODES)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in (*_NAMES, "recompute"):
                if not 0 <= value <= LARGEST:
                    raise InputError(f"{field.name} is {value}; it must be from 0 to {LARGEST:g}.")
                object.__setattr__(self, field.name, float(value) + 0.0)
        if self.tied_parameters > self.parameters:
            raise InputError(
                f"tied_parameters is {self.tied_parameters:g}; it must be at most {self.parameters:g}, all parameters."
            )

    @property
    def degrees(self) -> Degrees:
        """Tensor, context and expert degree."""
        return self.tp, self.cp, self.ep

    @property
    def backward(self) -> float:
        """Time of the whole backward pass, for inputs and for weights [s]."""
        return self.input_backward + self.weight_backward


@dataclass(frozen=True)
class ConfiguredLayer:
    """A layer and the ways to run it."""

    name: str
    kind: str  # layers of one kind have the same configurations
    configurations: tuple[Configuration, ...]

    def __post_init__(self) -> None:
        seen: dict[tuple[Degrees, str], Configuration] = {}
        for way in self.configurations:
            if seen.setdefault((way.degrees, way.recompute), way) is not way:
                raise InputError(f"Layer {printable(self.name)}: {_named(way)} is there twice; leave one out.")
        for way in self.configurations:
            plain = seen.get((way.degrees, NONE))
            if plain is None:
                raise InputError(f"Layer {printable(self.name)}: {_named(way)} has none that recomputes nothing.")
            if way.forward != plain.forward or way.backward < plain.backward:
                raise InputError(
                    f"Layer {printable(self.name)}: {_named(way)} needs the forward time of the one that recomputes "
                    "nothing, and at least its backward time."
                )

    @property
    def recomputes(self) -> bool:
        """Whether some configuration recomputes the whole forward pass."""
        return any(way.recompute == FULL for way in self.configurations)

    def modes(self, degrees: Degrees) -> tuple[Configuration, ...]:
        """Configurations with these degrees, first the one without recomputation; empty if there are none."""
        return self._by_degrees.get(degrees, ())

    @cached_property
    def _by_degrees(self) -> dict[Degrees, tuple[Configuration, ...]]:
        by_degrees: dict[Degrees, tuple[Configuration, ...]] = {}
        for way in sorted(self.configurations, key=lambda way: MODES.index(way.recompute)):
            by_degrees[way.degrees] = (*by_degrees.get(way.degrees, ()), way)
        return by_degrees


@dataclass(frozen=True, eq=False, repr=False)
class ConfiguredChain(Displayed):
    """Layers in the order of the forward pass, each with its configurations, for microbatches of one size.

    Parameters
    ----------
    layers : sequence of ConfiguredLayer
    micro_batch : int
        Samples of a microbatch.
    sequence : int, optional
        Tokens of a sample.
    flops : float, optional
        Operations of the forward pass of a sample.
    name, source, dtype, device : str
        What it is called, where the numbers come from, and for which type of numbers and device they hold.
    attention, overlap : str, optional
        How the layers attend, "fused" or "eager", and whether passes hide tensor collectives, "tp" or "none".
    model : mapping, optional
        Sizes of the model whose layers these are, a `Transformer` as it stands in files; no cost reads it.

    Raises
    ------
    InputError
        If there is no layer, two layers of one kind differ, a layer lacks degrees that others have, or a number is
        out of its range.
    """

    layers: tuple[ConfiguredLayer, ...]
    micro_batch: int = 1
    sequence: int | None = None
    flops: float | None = None
    name: str = "chain"
    source: str = ""
    dtype: str = "bf16"
    device: str = ""
    attention: str = ""
    overlap: str = ""
    model: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        if self.micro_batch < 1:
            raise InputError(f"micro_batch is {self.micro_batch}; give a whole number, 1 or more.")
        if self.sequence is not None and self.sequence < 1:
            raise InputError(f"sequence is {self.sequence}; give a whole number, 1 or more.")
        if self.flops is not None:
            if not 0 < self.flops <= LARGEST:
                raise InputError(f"flops is {self.flops}; it must be above 0 and at most {LARGEST:g}.")
            object.__setattr__(self, "flops", float(self.flops))  # as it is read from a file
        if not self.layers:
            raise InputError("The chain has no layer; give at least one.")
        if not self.degrees:
            raise InputError("The layers have no configuration; give each at least one.")
        kinds: dict[str, ConfiguredLayer] = {}
        for layer in self.layers:
            first = kinds.setdefault(layer.kind, layer)
            if first.configurations != layer.configurations:
                raise InputError(
                    f"Layers {printable(first.name)} and {printable(layer.name)} are of one kind, "
                    f"{printable(layer.kind)}, but have other configurations; give them other kinds."
                )
            if first is not layer:
                vars(layer)["_by_degrees"] = first._by_degrees  # computed once for many layers
                continue
            for degrees in self.degrees:
                if not layer.modes(degrees):
                    words = ", ".join(f"{name} {degree}" for name, degree in zip(_NAMES, degrees, strict=True))
                    raise InputError(f"Layer {printable(layer.name)} has no configuration of {words}, as others have.")

    @property
    def n(self) -> int:
        """Number of layers, L."""
        return len(self.layers)

    @cached_property
    def kinds(self) -> dict[str, ConfiguredLayer]:
        """One layer of each kind, by its name."""
        return {layer.kind: layer for layer in self.layers}

    @cached_property
    def degrees(self) -> tuple[Degrees, ...]:
        """(tensor, context, expert) degrees of the configurations, in rising order."""
        return tuple(sorted({way.degrees for layer in self.kinds.values() for way in layer.configurations}))

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of all configurations, layer by layer."""
        texts = {kind: repr([astuple(way) for way in layer.configurations]) for kind, layer in self.kinds.items()}
        text = ", ".join(texts[layer.kind] for layer in self.layers)
        return hashlib.sha256(f"{self.micro_batch}[{text}]".encode()).hexdigest()

    def plain(self, degrees: Degrees) -> Sequence[Configuration]:
        """(L,) the configuration of each layer with these degrees and without recomputation."""
        return [layer.modes(degrees)[0] for layer in self.layers]

    @property
    def parameters(self) -> float:
        """Number of trained parameters of all layers; those shared by the first and the last layer count once.

        Without a tensor degree of 1, these are the parameters on all devices at the smallest degree: a few more, as
        each device has copies of some, such as those of norms.
        """
        tp = min(self.degrees)
        layers = self.plain(tp)
        whole = sum(layer.parameters * tp[0] + layer.expert_parameters * tp[0] * tp[2] for layer in layers)
        return whole - layers[-1].tied_parameters * tp[0] * (self.n > 1)

    def _facts(self) -> dict[str, str]:
        degrees = ", ".join("×".join(map(str, triple)) for triple in self.degrees)
        return {"layers": str(self.n), "parameters": figures(self.parameters), "degrees": degrees}


def _named(way: Configuration) -> str:
    return f"the configuration tp {way.tp}, cp {way.cp}, ep {way.ep}, recompute {way.recompute}"


# Chains of configured layers as JSON, ``mtpp-chain/2``.


CONFIGURED_FORMAT = "mtpp-chain/2"
#: Members of a chain besides its layers.
CHAIN = ("name", "source", "micro_batch", "sequence", "dtype", "device", "flops")
#: Members for runtimes, which no cost reads, and their values.
_RUN = {"attention": ("fused", "eager"), "overlap": ("tp", "none")}
_NUMBERS = tuple(field.name for field in fields(Configuration) if field.name not in (*_NAMES, "recompute"))
MOST_LAYERS = 10_000


def chain_document(chain: ConfiguredChain) -> dict[str, Any]:
    """The chain as JSON; layers of one kind have their configurations once."""
    return {
        "format": CONFIGURED_FORMAT,
        **{name: getattr(chain, name) for name in CHAIN},
        **{name: getattr(chain, name) for name in _RUN if getattr(chain, name)},
        **({} if chain.model is None else {"model": chain.model}),
        "kinds": {kind: [asdict(way) for way in layer.configurations] for kind, layer in chain.kinds.items()},
        "layers": [{"name": layer.name, "kind": layer.kind} for layer in chain.layers],
    }


def configured_from_document(document: Value) -> ConfiguredChain:
    """Build a chain from its JSON document.

    ``layers`` have a ``name``, a ``kind`` whose ``configurations`` stand in ``kinds``, or ``configurations`` of their
    own, and then may have ``forward_bytes``, which each device sends on unless a configuration says otherwise.

    Raises
    ------
    InputError
        If it is not a chain; the message names the place.
    """
    document.check_format(CONFIGURED_FORMAT)
    members = document.members(("format", "layers"), ("kinds", "model", *CHAIN, *_RUN))
    kinds = (
        {kind: _ways(value, None) for kind, value in members["kinds"].open_members(()).items()}
        if "kinds" in members
        else {}
    )
    items = members["layers"].items()
    if len(items) > MOST_LAYERS:
        members["layers"].fail(f"there are {len(items)} layers; give at most {MOST_LAYERS}.")
    layers = []
    for number, item in enumerate(items):
        layer = item.members((), ("name", "kind", "configurations", "forward_bytes", "backward_bytes"))
        name = layer["name"].text() if "name" in layer else str(number)
        kind = layer["kind"].text() if "kind" in layer else f"layer {number}"
        if "configurations" in layer:
            ways = _ways(layer["configurations"], layer.get("forward_bytes"))
        elif kind in kinds:
            ways = kinds[kind]
        else:
            item.fail("it has neither configurations nor a kind that has some.")
        layers.append(_layer(item, name, kind, ways))
    facts = _facts(members)
    try:
        return ConfiguredChain(tuple(layers), **facts)
    except InputError as error:
        document.fail(str(error))


def _facts(members: dict[str, Value]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    facts |= {name: members[name].one_of(values) for name, values in _RUN.items() if name in members}
    for name in CHAIN:
        if name in members and members[name].data is not None:
            value = members[name]
            read = (
                value.whole if name in ("micro_batch", "sequence") else value.number if name == "flops" else value.text
            )
            facts[name] = read()
    how, _, rest = facts.get("source", "").partition(" attention, ")
    if not _RUN.keys() & members.keys() and rest:  # files of 0.3 say both in their source alone
        facts |= {
            "attention": "fused" if how == "fused" else "eager",
            "overlap": "tp" if rest.startswith("hidden tensor collectives, ") else "none",
        }
    if "model" in members and members["model"].data is not None:
        members["model"].open_members(())
        facts["model"] = members["model"].data
    return facts


def _ways(value: Value, sent: Value | None) -> tuple[Configuration, ...]:
    configurations = []
    for item in value.items():
        members = item.members(
            ("forward", "parameters", "stored_bytes"),
            ("tp", "cp", "ep", "recompute", *(name for name in _NUMBERS if name != "forward")),
        )
        values: dict[str, Any] = {name: members[name].whole() for name in ("tp", "cp", "ep") if name in members}
        values["recompute"] = members["recompute"].text() if "recompute" in members else NONE
        values |= {name: members[name].number() for name in _NUMBERS if name in members}
        values.setdefault("output_bytes", 0.0 if sent is None else sent.number())
        for name in ("input_backward", "weight_backward"):
            values.setdefault(name, values["forward"])
        try:
            configurations.append(Configuration(**values))
        except InputError as error:
            item.fail(str(error))
    return tuple(configurations)


def _layer(item: Value, name: str, kind: str, ways: tuple[Configuration, ...]) -> ConfiguredLayer:
    try:
        return ConfiguredLayer(name, kind, ways)
    except InputError as error:
        item.fail(str(error))
