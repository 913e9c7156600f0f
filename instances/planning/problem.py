"""A question of pipelined training: chain of layers, cluster, microbatches; its arrays for kernels."""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from instances.devices import Cluster, NetworkCards, Ports, cluster_document, cluster_from_document, memory_in_words
from instances.errors import InputError, NothingFitsError, check_one_of
from instances.graph.display import Displayed, exact_figures, figures
from instances.graph.graph import numbers
from instances.graph.questions import QuestionRecord, digest_of, nameless
from instances.graph.tensors import FloatArray, freeze
from instances.json_files import CHAIN_FORMAT, Value, nested_numbers
from instances.records import By, Limit

# Networks as chains of layers, the unit in which training pipelines are cut.


#: Largest number in a question, so that products of several are finite floats.
LARGEST = 1e70

#: Between the first and the last of what a name stands for.
_TO = " … "
_PER_LAYER = ("forward", "backward", "param_bytes")
_PER_BOUNDARY = ("forward_bytes", "backward_bytes")


@dataclass(frozen=True, eq=False, repr=False)
class LayerChain(Displayed):
    """Layers in the order of the forward pass; all numbers are for one microbatch on one device.

    Parameters
    ----------
    forward, backward : (L,) floats
        Time of each layer in the two passes, p^f and p^b [s].
    forward_bytes, backward_bytes : (L - 1,) floats
        Activations from layer l to l + 1, d^f, and gradients from l + 1 to l, d^b [bytes].
    param_bytes : (L,) floats
        Parameters of each layer, as many bytes as their gradients, alpha [bytes].
    stored_bytes : (L,) floats, optional
        Bytes that a layer keeps from its forward to its backward pass. By default its input, as far as it comes from
        the layer before.
    names : tuple of str, optional
        One name a layer; by default their indices.
    name, source : str
        What the network is called and where the numbers come from.
    input_backward : (L,) floats, optional
        The part of the backward time that yields the gradient of the input; the rest yields those of the weights, and
        may run later. By default half of it [s].

    Raises
    ------
    InputError
        If there is no layer, the lengths differ, or a number is negative or not finite.

    Examples
    --------
    >>> chain = LayerChain([1, 1], [2, 2], forward_bytes=[8], backward_bytes=[8], param_bytes=[4, 4])
    >>> chain.n, chain.time
    (2, 6.0)
    """

    forward: FloatArray
    backward: FloatArray
    forward_bytes: FloatArray
    backward_bytes: FloatArray
    param_bytes: FloatArray
    stored_bytes: FloatArray | None = None
    names: tuple[str, ...] = ()
    name: str = "chain"
    source: str = ""
    input_backward: FloatArray | None = None

    def __post_init__(self) -> None:
        columns = {label: numbers(getattr(self, label), label) for label in _PER_LAYER + _PER_BOUNDARY}
        if self.stored_bytes is None:
            columns["stored_bytes"] = np.concatenate(([0.0], columns["forward_bytes"]))
        else:
            columns["stored_bytes"] = numbers(self.stored_bytes, "stored_bytes")
        if self.input_backward is not None:
            columns["input_backward"] = numbers(self.input_backward, "input_backward")
        n = len(columns["forward"])
        if n == 0:
            raise InputError("The chain has no layer; give at least one.")
        for label, values in columns.items():
            expected = n - 1 if label in _PER_BOUNDARY else n
            if len(values) != expected:
                raise InputError(f"There are {n} layers but {len(values)} values of {label}; give {expected}.")
            for layer in np.flatnonzero(~((values >= 0) & (values <= LARGEST)))[:1]:
                raise InputError(f"Layer {layer}: {label} is {values[layer]}; it must be from 0 to {LARGEST:g}.")
            freeze(values)
            object.__setattr__(self, label, values)
        if self.input_backward is not None:
            for layer in np.flatnonzero(self.input_backward > self.backward)[:1]:
                raise InputError(f"Layer {layer}: input_backward is more than its backward time; give a part of it.")
        object.__setattr__(self, "names", tuple(self.names) or tuple(map(str, range(n))))
        if len(self.names) != n:
            raise InputError(f"There are {n} layers but {len(self.names)} names; give one a layer.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        freeze(*(value for value in state.values() if isinstance(value, np.ndarray)))  # pickling forgets it

    @property
    def n(self) -> int:
        """Number of layers, L."""
        return len(self.forward)

    @property
    def stored(self) -> FloatArray:
        """(L,) bytes that each layer keeps from its forward to its backward pass."""
        assert self.stored_bytes is not None
        return self.stored_bytes

    @cached_property
    def input_time(self) -> FloatArray:
        """(L,) `input_backward`, half of the backward time where it is missing [s]."""
        return self.backward / 2 if self.input_backward is None else self.input_backward

    @property
    def time(self) -> float:
        """Time of one microbatch through all layers and back on one device [s]."""
        return float(self.forward.sum() + self.backward.sum())

    def merged(self, starts: Sequence[int]) -> LayerChain:
        """Merge layers: each new layer goes from one of `starts`, which begin with 0 and rise, to before the next.

        Examples
        --------
        >>> chain = LayerChain([1, 2, 3], [2, 4, 6], forward_bytes=[8, 9], backward_bytes=[8, 9], param_bytes=[4, 0, 4])
        >>> chain.merged([0, 2]).forward.tolist(), chain.merged([0, 2]).forward_bytes.tolist()
        ([3.0, 3.0], [9.0])
        """
        firsts, between = np.array(starts), np.array(starts[1:], dtype=np.int64) - 1
        columns: dict[str, Any] = {name: np.add.reduceat(getattr(self, name), firsts) for name in _PER_LAYER}
        columns |= {name: getattr(self, name)[between] for name in _PER_BOUNDARY}
        ends = zip(starts, [*between.tolist(), self.n - 1], strict=True)
        return replace(
            self,
            **columns,
            stored_bytes=np.add.reduceat(self.stored, firsts),
            names=tuple(self.names[i] if i == j else _from_to(self.names[i], self.names[j]) for i, j in ends),
            input_backward=None if self.input_backward is None else np.add.reduceat(self.input_backward, firsts),
        )

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of everything that costs depend on; names do not count."""
        digest = hashlib.sha256()
        for label in (*_PER_LAYER, *_PER_BOUNDARY, "stored_bytes"):
            digest.update(np.ascontiguousarray(getattr(self, label)).tobytes() + b"|")
        if self.input_backward is not None:
            digest.update(self.input_backward.tobytes() + b"input")
        return digest.hexdigest()

    def _facts(self) -> dict[str, str]:
        parameters = figures(self.param_bytes.sum(), "bytes")
        return {"layers": str(self.n), "time": figures(self.time, "s"), "parameters": parameters}


def _from_to(first: str, last: str) -> str:
    """Name of merged layers, from the beginning of the first name to the end of the last one."""
    return f"{first.split(_TO)[0]}{_TO}{last.split(_TO)[-1]}"


# A training instance as plain arrays, for the kernels.


class TrainingArrays(NamedTuple):
    """A chain of L layers and a cluster of V devices; sums are those before each layer.

    The sums of times for r replicas stand in row r - 1. A stage of the layers i … j - 1 on r replicas takes
    ``(forward[r - 1, j] - forward[r - 1, i]) / r``: with a share of 1/r the sums are the same in all rows, so that
    equal times stay equal after rounding.
    """

    forward: FloatArray  # (V, L + 1): sums [s]
    backward: FloatArray  # (V, L + 1): sums [s]
    params: FloatArray  # (L + 1,): sums of parameters [bytes]
    stored: FloatArray  # (L + 1,): sums of what is stored [bytes]
    forward_bytes: FloatArray  # (L,): transfer before each layer; 0 before the first [bytes]
    backward_bytes: FloatArray  # (L,): the same backward
    bandwidth: FloatArray  # (V, V)
    microbatches: int
    full_duplex: bool
    memory: float  # as `TrainingInstance.memory`
    copies: float  # as `TrainingInstance.parameter_copies`


# Chains as JSON, ``mtpp-chain/1``.


_LAYER = ("forward", "backward")
_LAYER_OPTIONAL = ("name", "param_bytes", "stored_bytes", "input_backward", *_PER_BOUNDARY)


def chain_document(chain: LayerChain) -> dict[str, Any]:
    """The chain as the JSON document of its file."""
    columns = {
        "name": chain.names,
        "forward": chain.forward.tolist(),
        "backward": chain.backward.tolist(),
        "param_bytes": chain.param_bytes.tolist(),
        "stored_bytes": chain.stored.tolist(),
        "forward_bytes": [*chain.forward_bytes.tolist(), 0.0],
        "backward_bytes": [*chain.backward_bytes.tolist(), 0.0],
    }
    if chain.input_backward is not None:
        columns["input_backward"] = chain.input_backward.tolist()
    layers = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"format": CHAIN_FORMAT, "name": chain.name, "source": chain.source, "layers": layers}


def chain_from_document(document: Value, name: str = "chain") -> LayerChain:
    """Build a chain from its JSON document; `name` is used if the document has none.

    Each entry of ``layers`` has ``forward`` and ``backward`` [s], and may have ``name``, ``param_bytes``,
    ``stored_bytes``, ``input_backward``, and ``forward_bytes`` and ``backward_bytes`` between it and the next layer;
    sizes default to 0, ``stored_bytes`` to the activations of the layer before, ``input_backward``, the part of
    ``backward`` that yields gradients of inputs, to half of it.

    Raises
    ------
    InputError
        If it is not a chain; the message names the place.
    """
    document.check_format(CHAIN_FORMAT)
    fields = document.members(("format", "layers"), ("name", "source"))
    layers = [layer.members(_LAYER, _LAYER_OPTIONAL) for layer in fields["layers"].items()]
    for label in _PER_BOUNDARY:
        if layers and label in layers[-1] and layers[-1][label].number() != 0:
            layers[-1][label].fail("there is no layer after the last one; leave it out.")

    def column(label: str) -> FloatArray:
        return np.array([layer[label].number() if label in layer else 0.0 for layer in layers])

    forward_bytes, backward_bytes = (column(label)[:-1] for label in _PER_BOUNDARY)
    stored = np.concatenate(([0.0], forward_bytes))
    for index, layer in enumerate(layers):
        if "stored_bytes" in layer:
            stored[index] = layer["stored_bytes"].number()
    first = None
    if any("input_backward" in layer for layer in layers):
        first = column("backward") / 2
        for index, layer in enumerate(layers):
            if "input_backward" in layer:
                first[index] = layer["input_backward"].number()
    try:
        return LayerChain(
            forward=column("forward"),
            backward=column("backward"),
            forward_bytes=forward_bytes,
            backward_bytes=backward_bytes,
            param_bytes=column("param_bytes"),
            stored_bytes=stored[: len(layers)],
            names=tuple(layer["name"].text() if "name" in layer else str(index) for index, layer in enumerate(layers)),
            name=fields["name"].text() if "name" in fields else name,
            source=fields["source"].text() if "source" in fields else "",
            input_backward=first,
        )
    except InputError as error:
        document.fail(str(error))


# Short descriptions of parts of planning questions.


def cluster_in_words(cluster: Cluster) -> list[str]:
    """Texts for the number of devices, and their slowest and fastest link."""
    rates, sizes = cluster.bandwidth[~np.eye(cluster.n, dtype=bool)], cluster.servers
    extremes = (
        sorted({figures(rate, "bytes/s") for rate in {float(rates.min()), float(rates.max())}}) if len(rates) else []
    )
    servers = str(sizes[0]) if len(set(sizes)) == 1 else "+".join(map(str, sizes))
    links = " and ".join(extremes) or "no links"
    return [
        f"{cluster.n} devices in servers of {servers}",
        f"{links} {digest_of((cluster.servers, cluster.names, cluster.bandwidth.tolist()))}",
    ]


def _network_in_words(network: NetworkCards | None) -> str:
    """Text on how links share network cards, and the rates of these."""
    if network is None:
        return "paper's network"
    rates = "" if network.rates is None else f" {digest_of(network.rates)}"
    return f"shared cards{', half duplex' if network.half else ''}{rates}"


# Question of planning: a chain, a cluster, and the number of microbatches of an iteration.


#: Bytes of a number of each type.
ELEMENT_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}

_MOST_MICROBATCHES = 100_000
#: Relative rounding error of sums of bytes, as a part of the memory.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class TrainingInstance(QuestionRecord):
    """Question of planning: how to train a chain of layers on a cluster in synchronous iterations.

    An answer is an `Iteration`: stages, the devices of each, and the order of their passes.

    Parameters
    ----------
    chain : LayerChain
    cluster : Cluster
    microbatches : int
        Microbatches of one iteration, M, at most 100,000: a schedule has tasks for each.
    full_duplex : bool
        Whether a channel carries activations and gradients at the same time. By default it does not, as in the
        paper (c^f + c^b in its Lemma 1).
    memory : float
        Memory of a device [bytes]; infinite by default.
    parameter_copies : float
        Bytes on a device per byte of parameters of its stage; by default 4: parameters, gradients, and the two
        moments of Adam.
    replica_share : (V,) or (L, V) floats, optional
        ``replica_share[..., r - 1]`` is the part of a layer's time that each of r replicas takes; 1/r by default
        (footnote 2 of the paper).
    network : NetworkCards, optional
        Network cards that servers share; by default, as in the paper, links share nothing.
    samples : int, optional
        Samples of a microbatch, q, if replicas only take whole ones: each of r replicas takes the part
        ``ceil(q / r) / q`` of the time. One stage on all devices takes the samples of all microbatches at once.
    recomputation : bool
        Whether a stage that does not fit otherwise may keep its input alone and run forward again before its backward
        pass.
    dtype : str, optional
        Element type of the chain's bytes, one of `ELEMENT_BYTES`; for display and for parameters in numbers.
    sequence : int, optional
        Tokens of a sample that the chain is priced for; for display.

    Raises
    ------
    InputError
        If a value is out of its range.
    """

    problem: ClassVar[str] = "plan"

    chain: Annotated[LayerChain, By(chain_from_document, chain_document)]
    cluster: Annotated[Cluster, By(cluster_from_document, cluster_document)]
    microbatches: int
    full_duplex: bool = False
    memory: Limit = math.inf
    parameter_copies: float = 4.0
    replica_share: Annotated[FloatArray, By(nested_numbers, np.ndarray.tolist)] | None = None
    network: NetworkCards | None = None
    samples: int | None = None
    recomputation: bool = False
    dtype: str | None = None
    sequence: int | None = None

    def __post_init__(self) -> None:
        try:
            microbatches = operator.index(self.microbatches)
        except TypeError:
            microbatches = 0
        if not 1 <= microbatches <= _MOST_MICROBATCHES:
            raise InputError(
                f"microbatches is {self.microbatches}; it must be a whole number from 1 to {_MOST_MICROBATCHES}."
            )
        object.__setattr__(self, "microbatches", microbatches)
        if not self.memory >= 0:
            raise InputError(f"memory is {self.memory}; it must be 0 or more.")
        if not 0 <= self.parameter_copies <= LARGEST:
            raise InputError(f"parameter_copies is {self.parameter_copies}; it must be from 0 to {LARGEST:g}.")
        if self.replica_share is not None:
            object.__setattr__(self, "replica_share", _share(self.replica_share, self.chain.n, self.cluster.n))
        self._check_shared()

    def _check_shared(self) -> None:
        if self.samples is not None and not (self.samples >= 1 and self.samples == int(self.samples)):
            raise InputError(f"samples is {self.samples}; a microbatch has a whole number of them, 1 or more.")
        if self.samples is not None and self.replica_share is not None:
            raise InputError("Give samples or a replica_share, not both: whole samples say what a replica takes.")
        if self.network is None and (self.samples is not None or self.recomputation):
            raise InputError("The paper's network knows neither whole samples nor recomputation; give a network.")
        if self.dtype is not None:
            check_one_of("dtype", self.dtype, ELEMENT_BYTES)
        if self.sequence is not None and self.sequence < 1:
            raise InputError(f"sequence is {self.sequence}; it must be 1 or more.")
        if self.network is not None:
            self.network.ports(self.cluster)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in ("arrays", "input_sums", "ports"):
            self.__dict__.pop(name, None)  # made anew, read-only: kernels are compiled for that
        if self.replica_share is not None:
            freeze(self.replica_share)  # pickling forgets it

    @cached_property
    def arrays(self) -> TrainingArrays:
        """Question as plain arrays for kernels, with cumulative sums."""
        chain, rows = self.chain, self._factors
        return TrainingArrays(
            forward=_after_zero(np.cumsum(rows * chain.forward, axis=1)),
            backward=_after_zero(np.cumsum(rows * chain.backward, axis=1)),
            params=_after_zero(np.cumsum(chain.param_bytes)),
            stored=_after_zero(np.cumsum(chain.stored)),
            forward_bytes=_after_zero(chain.forward_bytes),
            backward_bytes=_after_zero(chain.backward_bytes),
            bandwidth=self.cluster.bandwidth,
            microbatches=self.microbatches,
            full_duplex=self.full_duplex,
            memory=float(self.memory),
            copies=float(self.parameter_copies),
        )

    @cached_property
    def input_sums(self) -> FloatArray:
        """(V, L + 1) sums as in `TrainingArrays.backward`, but only of the time for gradients of inputs [s]."""
        return _after_zero(np.cumsum(self._factors * self.chain.input_time, axis=1))

    @cached_property
    def _factors(self) -> FloatArray:
        """(V, L) total time of a layer on r replicas over its time on one device, in row r - 1."""
        counts = np.arange(1, self.cluster.n + 1)
        factor = np.ones((1, self.cluster.n))
        if self.samples is not None:
            factor = np.atleast_2d(-(-self.samples // counts) * counts / self.samples)
        elif self.replica_share is not None:
            factor = np.atleast_2d(self.replica_share) * counts
        return np.broadcast_to(factor, (self.chain.n, self.cluster.n)).T

    @cached_property
    def ports(self) -> Ports | None:
        """The ports of the cluster, None where links share nothing."""
        return None if self.network is None else self.network.ports(self.cluster)

    @property
    def at_once(self) -> float:
        """Time of a microbatch in one stage on all V devices, over its time by the formula for r = V.

        All samples of the iteration run at once: ``ceil(M q / V) / (M q)`` replaces ``ceil(q / V) / q``. It is 1 with
        even shares.
        """
        if self.samples is None:
            return 1.0
        total, V = self.microbatches * self.samples, self.cluster.n
        return -(-total // V) / total / (-(-self.samples // V) / self.samples)

    @property
    def no_plan(self) -> InputError:
        """Error that says why there is no plan: a layer fits on no device, all layers do not fit, or a link is missing.

        It checks one stage on all devices, which keeps the fewest bytes of a microbatch for each layer, and even shares
        of all layers.
        """
        chain, V = self.chain, self.cluster.n
        fixed, stored = self.parameter_copies * chain.param_bytes, chain.stored / V
        layer = int((fixed + stored).argmax())
        needed, total = float((fixed + stored)[layer]), float((fixed / V + stored).sum())
        shares = f"{figures(total, 'bytes')} on each of {V}, with one microbatch on its way"
        if needed > self.memory:
            why = f"layer {layer} ({chain.names[layer]}) alone needs {figures(needed, 'bytes')} on each"
        elif total > self.memory:
            why = f"all layers, divided evenly, need {shares}"
        elif (self.cluster.bandwidth + np.eye(V) > 0).all():
            why = f"each layer fits alone, and all of them need {shares}, but only if divided evenly"
        else:
            return InputError(
                "No plan was found: devices that would have to exchange data have no link, and stages that need none "
                "do not fit into memory; give the links of the cluster a bandwidth above 0."
            )
        return NothingFitsError(
            f"{self.label}: nothing fits into {figures(self.memory, 'bytes')} a device: {why}; give more memory, "
            "devices or microbatches.",
            proved=max(needed, total) > self.memory * (1 + _ROUNDING),
        )

    @property
    def in_paper(self) -> TrainingInstance:
        """The question in the paper's setting: links do not share network cards, and shares of samples are even."""
        return replace(self, network=None, samples=None, recomputation=False)

    @property
    def label(self) -> str:
        """Names of chain and cluster and number of microbatches, as messages and tables show them."""
        return f"{self.chain.name} on {self.cluster.name}, {self.microbatches} microbatches"

    @cached_property
    def key(self) -> str:
        """Hash of everything that costs depend on."""
        share = b"" if self.replica_share is None else self.replica_share.tobytes()
        text = f"{self.chain.content_hash}{self.cluster.content_hash}{self.microbatches}{self.full_duplex}"
        text += f"{self.memory!r}{self.parameter_copies!r}"
        if self.network is not None:
            text += f"{self.network!r}{self.samples}{self.recomputation}"
        return hashlib.sha256(text.encode() + share).hexdigest()

    @property
    def question_words(self) -> str:
        """The question in one line, with sizes and digests but no names of graph, nodes or devices."""
        words = [f"{self.microbatches} microbatches", *cluster_in_words(self.cluster)]
        words += [_network_in_words(self.network), memory_in_words(self.memory)]
        words += [f"{exact_figures(self.parameter_copies)} copies of parameters"]
        words += [self.dtype] if self.dtype else []
        words += [f"sequence {self.sequence}"] if self.sequence else []
        words += [f"{self.samples} samples"] if self.samples else []
        words += ["recomputation"] if self.recomputation else []
        words += ["full duplex"] if self.full_duplex else []
        if self.replica_share is not None:
            words.append(f"uneven shares of replicas {digest_of(self.replica_share.tolist())}")
        time = f"{figures(self.chain.time, 's')} a microbatch {digest_of(nameless(chain_document(self.chain)))}"
        return f"{', '.join(words)}; {self.chain.n} layers, {time}"

    def _title(self) -> str:
        return self.chain.name

    def _facts(self) -> dict[str, str]:
        facts = {"layers": str(self.chain.n), "cluster": self.cluster.name, "devices": str(self.cluster.n)}
        facts["microbatches"] = str(self.microbatches)
        return facts | ({"memory": figures(self.memory, "bytes")} if math.isfinite(self.memory) else {})


def _after_zero(values: FloatArray) -> FloatArray:
    """The values with a zero before the first of each row."""
    longer = np.insert(values, 0, 0.0, axis=-1)
    freeze(longer)
    return longer


def _share(values: FloatArray, layers: int, devices: int) -> FloatArray:
    """The replica_share as a read-only array; refused unless it has the right shape and positive numbers."""
    try:
        share = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("The replica_share holds something that is not a number; give numbers.") from None
    if share.shape not in ((devices,), (layers, devices)):
        raise InputError(f"The replica_share has the shape {share.shape}; give ({devices},) or ({layers}, {devices}).")
    if not ((share > 0) & (share <= LARGEST)).all():
        raise InputError(
            f"A replica_share is not positive, or above {LARGEST:g}; give the part of the time that a replica takes."
        )
    freeze(share)
    return share
