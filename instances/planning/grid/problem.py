"""Questions of training with degrees of parallelism: layers, servers, memory and what plans may do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Annotated, ClassVar

from instances.errors import InputError
from instances.graph.display import exact_figures, figures, how_many
from instances.graph.questions import QuestionRecord, digest_of, nameless
from instances.planning.grid.configurations import (
    MODES,
    Configuration,
    ConfiguredChain,
    ConfiguredLayer,
    Degrees,
    chain_document,
    configured_from_document,
)
from instances.planning.problem import LARGEST
from instances.records import By, Limit

# Question of training with degrees of parallelism: layers with configurations, equal servers, samples of a step.


_MOST_DEVICES, _MOST_SAMPLES = 32_768, 1_000_000


@dataclass(frozen=True)
class Servers:
    """Equal servers; each device has a fixed share of its server's network card."""

    count: int
    size: int  # devices of a server
    inner: float  # bandwidth of a device within its server [bytes/s]
    outer: float  # bandwidth of a device to other servers, its part of the card [bytes/s]
    reached: float = 1.0  # part of the bandwidths that transfers reach
    latency: float = 0.0  # of a transfer or an exchange between servers [s]

    def __post_init__(self) -> None:
        if self.count < 1 or self.size < 1 or self.devices > _MOST_DEVICES:
            raise InputError(f"{self.count} servers of {self.size} devices: give from 1 to {_MOST_DEVICES} devices.")
        for name in ("inner", "outer", "reached"):
            if not 1 / LARGEST <= getattr(self, name) <= LARGEST:
                raise InputError(
                    f"The servers' {name} is {getattr(self, name)}; it must be from {1 / LARGEST:g} to {LARGEST:g}."
                )
            object.__setattr__(self, name, float(getattr(self, name)))
        if not 0 <= self.latency <= LARGEST:
            raise InputError(f"The servers' latency is {self.latency}; it must be from 0 to {LARGEST:g}.")
        if self.count > 1 and self.outer > self.inner:
            raise InputError(f"The servers' outer is {self.outer}; it must be at most {self.inner}, their inner.")

    @property
    def devices(self) -> int:
        """Number of devices, V."""
        return self.count * self.size

    @property
    def name(self) -> str:
        """The servers as on the command line, such as 2x8."""
        return f"{self.count}x{self.size}"

    def rate(self, *, inside: bool) -> float:
        """Bytes a second that a device sends, within its server or to another."""
        return self.reached * (self.inner if inside else self.outer)

    def transfer(self, size: float, *, inside: bool) -> float:
        """Time of a transfer to another device [s]."""
        return size / self.rate(inside=inside) + (0.0 if inside or not size else self.latency)

    def ring(self, ranks: int) -> float:
        """Bandwidth of a ring through several servers with `ranks` devices in each, over all network cards [B/s]."""
        return min(self.inner, ranks * self.outer)

    def most_in_ring(self, width: int, tensor: int, pipelines: int) -> int:
        """Largest number of replicas of one tensor rank in a server; 0 if one server may hold all of them."""
        if width > self.size:
            return self.size // tensor
        beside = self.size // width
        return 0 if pipelines <= beside else width // tensor * (pipelines // -(-pipelines // beside))

    def has_room(self, tensor: int, context: int) -> bool:
        """Whether a stage fits into one server, or fills whole servers; each tensor group is in one server."""
        width = tensor * context
        return self.size % tensor == 0 and (width <= self.size or (width % self.size == 0 and width <= self.devices))


@dataclass(frozen=True)
class StateBytes:
    """Bytes for each trained parameter: weight, gradient and optimizer."""

    weights: float = 2.0
    gradients: float = 4.0
    optimizer: float = 12.0  # a copy in 32 bits and two moments

    def __post_init__(self) -> None:
        for name in ("weights", "gradients", "optimizer"):
            size = getattr(self, name)
            if not 0 <= size <= LARGEST:
                raise InputError(f"A parameter takes {size} bytes; give a number from 0 to {LARGEST:g}.")
            object.__setattr__(self, name, float(size))

    def kept(self, zero: int, shards: int) -> tuple[float, float, float]:
        """Bytes of weight, gradient and optimizer for each parameter on a device, with ZeRO over `shards` devices."""
        return (
            self.weights / (shards if zero >= 3 else 1),
            self.gradients / (shards if zero >= 2 else 1),
            self.optimizer / (shards if zero >= 1 else 1),
        )

    def summed(self, zero: int) -> float:
        """Bytes for each parameter that replicas exchange after the last backward pass."""
        return (2 * self.gradients, self.gradients + self.weights, self.weights, 0.0)[zero]


@dataclass(frozen=True)
class Fixed:
    """Prescribed degrees; a degree that is None is free."""

    pp: int | None = None  # stages that hold devices of their own
    tp: int | None = None  # devices that share each product
    dp: int | None = None  # equal pipelines
    v: int | None = None  # stages of each device, in turns
    recomputed: int | None = None  # first layers of each stage that recompute everything, while all others do nothing

    def __post_init__(self) -> None:
        for name in ("pp", "tp", "dp", "v", "recomputed"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; it must be 1 or more.")


@dataclass(frozen=True, eq=False, repr=False)
class GridInstance(QuestionRecord):
    """Question of training: the best numbers of stages, of devices that share a layer, and of equal pipelines.

    The servers are equal, and a step has a fixed number of samples. An answer is a `GridPlan`.

    Parameters
    ----------
    chains : sequence of ConfiguredChain
        The same layers for each number of samples of a microbatch that a plan may choose.
    servers : Servers
    global_batch : int
        Samples of a step, G.
    memory : float
        Memory of a device [bytes].
    state_bytes : StateBytes
    update_time : float
        Time of the optimizer for each number that a device updates [s].
    zero : tuple of int
        Stages of ZeRO that a plan may choose, 0 to 3.
    modes : tuple of str
        What layers may recompute, of `MODES`; a layer that has none of these recomputes nothing.
    fixed : Fixed
    full_duplex : bool
        Whether a channel carries activations and gradients at once.
    exposed : float
        Part of the time that ZeRO 2 and 3 send which passes do not hide; a pass takes at least as long as its sending.
    whole_experts : bool
        Whether a device has whole experts, which all devices of a stage divide, also those of a tensor degree.

    Raises
    ------
    InputError
        If a value is out of its range, or no plan can have the fixed degrees.
    """

    problem: ClassVar[str] = "train"

    chains: tuple[Annotated[ConfiguredChain, By(configured_from_document, chain_document)], ...]
    servers: Servers
    global_batch: int
    memory: Limit = math.inf
    state_bytes: StateBytes = StateBytes()
    update_time: float = 0.0
    zero: tuple[int, ...] = (1,)
    modes: tuple[str, ...] = MODES
    fixed: Fixed = Fixed()
    full_duplex: bool = False
    exposed: float = 0.0
    whole_experts: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "chains", tuple(self.chains))
        for name in ("memory", "update_time", "exposed"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if not self.chains or len({chain.micro_batch for chain in self.chains}) < len(self.chains):
            raise InputError("Give one chain for each number of samples of a microbatch.")
        if len({chain.n for chain in self.chains}) > 1:
            raise InputError("The chains have different numbers of layers; give the same layers for each microbatch.")
        if not 1 <= self.global_batch <= _MOST_SAMPLES:
            raise InputError(f"global_batch is {self.global_batch}; give from 1 to {_MOST_SAMPLES} samples.")
        if not self.memory > 0:
            raise InputError(f"memory is {self.memory}; it must be above 0.")
        if not 0 <= self.update_time <= LARGEST:
            raise InputError(f"update_time is {self.update_time}; it must be from 0 to {LARGEST:g}.")
        if not 0 <= self.exposed <= 1:
            raise InputError(f"exposed is {self.exposed}; it must be from 0 to 1.")
        if not self.zero or any(stage not in range(4) for stage in self.zero):
            raise InputError(f"zero is {self.zero}; give stages from 0 to 3.")
        if not self.modes or any(mode not in MODES for mode in self.modes):
            raise InputError(f"Layers may recompute {self.modes}; give one or more of {', '.join(MODES)}.")
        self._check_degrees()

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return self.chains[0].n

    def chain(self, micro_batch: int) -> ConfiguredChain:
        """The chain for microbatches of `micro_batch` samples."""
        for chain in self.chains:
            if chain.micro_batch == micro_batch:
                return chain
        raise InputError(f"There are no times for microbatches of {micro_batch} samples; choose one that there is.")

    def pipelines(self, chain: ConfiguredChain, context: int = 1) -> Sequence[int]:
        """Numbers of equal pipelines, d, that divide the step's microbatches evenly and have enough devices."""
        total, available = self.global_batch // chain.micro_batch, self.servers.devices // context
        if self.global_batch % chain.micro_batch:
            return []
        wanted = self.fixed.dp
        return [d for d in range(1, min(total, available) + 1) if total % d == 0 and wanted in (None, d)]

    def ways(self, layer: ConfiguredLayer, degrees: Degrees) -> tuple[Configuration, ...]:
        """Configurations of a layer that the question allows, in order of recomputation."""
        every = layer.modes(degrees)
        return tuple(way for way in every if way.recompute in self.modes) or every[:1]

    def shards(self, pipelines: int, degrees: Degrees) -> tuple[int, int]:
        """Numbers of devices with the same dense parameters, and with the same experts; 0 if impossible."""
        tp, cp, ep = degrees
        dense = pipelines * cp
        experts, rest = divmod(dense * (tp if self.whole_experts else 1), ep)
        return dense, 0 if rest else experts

    def ring_rates(self, ranks: int, degrees: Degrees) -> tuple[float, float]:
        """Rates in rings of devices with the same dense parameters, and with the same experts [bytes/s].

        `ranks` devices of a ring for dense parameters are in each server; 0 if all are in one server.
        """
        if not ranks:
            return (self.servers.rate(inside=True),) * 2
        tp, _, ep = degrees
        of_experts = max(1, ranks * (tp if self.whole_experts else 1) // ep)
        return self.servers.reached * self.servers.ring(ranks), self.servers.reached * self.servers.ring(of_experts)

    def kept_bytes(
        self, layers: Sequence[Configuration], zero: int, shards: tuple[int, int], *, whole: bool
    ) -> tuple[float, float, float]:
        """Bytes of weights, gradients and optimizer on a device with these layers; `whole` if they are all layers."""
        dense = sum(layer.parameters for layer in layers)
        if whole and len(layers) > 1:
            dense -= layers[-1].tied_parameters
        numbers = (dense, sum(layer.expert_parameters for layer in layers))
        parts = [self.state_bytes.kept(zero, count) for count in shards]
        weights, gradients, optimizer = (
            sum(number * part[i] for number, part in zip(numbers, parts, strict=True)) for i in range(3)
        )
        if zero == 3:  # two layers are gathered at a time
            largest = max(layer.parameters for layer in layers)
            weights += 2 * self.state_bytes.weights * largest * sum(count > 1 for count in shards)
        return weights, gradients, optimizer

    @property
    def label(self) -> str:
        """Names of chain and servers and the samples of a step, as messages show them."""
        return f"{self.chains[0].name} on {self.servers.name}, {self.global_batch} samples"

    @property
    def allowed(self) -> str:
        """Degrees, stages of ZeRO and recomputation from which plans choose, as a text."""
        columns = zip(*{way for chain in self.chains for way in chain.degrees}, strict=True)
        choices = dict(zip(("tp", "cp", "ep"), map(sorted, map(set, columns)), strict=True))
        fixed = {name: value for name, value in asdict(self.fixed).items() if value is not None}
        first = fixed.pop("recomputed", None)
        free = [name for name in ("pp", "dp", "v") if name not in fixed]
        words = [f"any {', '.join(free)}"] if free else []
        words += [f"{name} {value}" for name, value in fixed.items()]
        words += [
            f"{name} {', '.join(map(str, values))}"
            for name, values in choices.items()
            if name not in fixed and values != [1]
        ]
        layers = "layer" if first == 1 else f"{first} layers"
        recompute = ", ".join(self.modes) if first is None else f"full in the first {layers} of a stage"
        return "; ".join([*words, f"ZeRO {', '.join(map(str, self.zero))}", f"recompute {recompute}"])

    @property
    def question_words(self) -> str:
        """The question in one line, with sizes and digests but no names of graph, nodes or devices."""
        servers, state = self.servers, self.state_bytes
        words = [
            f"{self.global_batch} samples a step",
            f"{how_many(servers.count, 'server')} of {servers.size} devices",
        ]
        inner, outer = (figures(rate, "bytes/s") for rate in (servers.inner, servers.outer))
        words += [f"{inner} in a server, {outer} between servers", f"{self.layers} layers"]
        words += [f"memory {exact_figures(self.memory, 'bytes')}"] if math.isfinite(self.memory) else []
        words += [f"{name} {degree}" for name, degree in asdict(self.fixed).items() if degree is not None]
        words.append(f"{' + '.join(f'{size:g}' for size in astuple(state))} bytes a parameter")
        words += [f"ZeRO {' or '.join(map(str, self.zero))}", f"layers recompute {' or '.join(self.modes)}"]
        words += ["full duplex"] if self.full_duplex else []
        words += [f"{self.exposed:.0%} of what replicas send in passes exposed"] if self.exposed else []
        words += ["whole experts"] if self.whole_experts else []
        words += [f"{servers.latency * 1e6:g} µs a transfer"] if servers.latency else []
        return f"{', '.join(words)} {digest_of(nameless(self.document()))}"

    def _check_degrees(self) -> None:
        fixed, V = self.fixed, self.servers.devices
        needed = (fixed.pp or 1) * (fixed.tp or 1) * (fixed.dp or 1)
        if needed > V:
            raise InputError(f"The fixed degrees need {needed} devices, and there are {V}; lower one.")
        if (fixed.pp or 1) * (fixed.v or 1) > self.layers:
            raise InputError(f"There are {self.layers} layers; pp times v must be at most that.")
        if fixed.pp == 1 and (fixed.v or 1) > 1:
            raise InputError(f"pp is 1 and v is {fixed.v}; stages in turns need two groups of devices or more.")
        degrees = sorted({tp for chain in self.chains for tp, _, _ in chain.degrees})
        if fixed.tp is not None and fixed.tp not in degrees:
            raise InputError(f"tp is {fixed.tp}; there are configurations of {', '.join(map(str, degrees))}.")
        if fixed.tp is not None and self.servers.size % fixed.tp:
            raise InputError(f"tp is {fixed.tp}; it must divide {self.servers.size}, the devices of a server.")
        if not any(self.pipelines(chain) for chain in self.chains):
            sizes = ", ".join(str(chain.micro_batch) for chain in self.chains)
            pipelines = "any number of pipelines" if fixed.dp is None else f"{fixed.dp} pipelines"
            raise InputError(
                f"A step of {self.global_batch} samples has no whole microbatches of {sizes} samples for {pipelines}; "
                "choose degrees that divide it."
            )

    def _title(self) -> str:
        return self.chains[0].name

    def _facts(self) -> dict[str, str]:
        facts = {"layers": str(self.layers), "servers": self.servers.name, "samples": str(self.global_batch)}
        return facts | ({"memory": figures(self.memory, "bytes")} if math.isfinite(self.memory) else {})
