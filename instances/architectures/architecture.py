"""Architectures: networks by name, their settings, and how many layers they have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

from instances.architectures.builder import PARAMETER, NetworkBuilder, Operator, Tensor
from instances.devices import DEFAULT_DEVICE, Device
from instances.errors import InputError, assume, check_one_of, nearest
from instances.graph.graph import ComputationGraph
from instances.graph.views import merge_graph

# Merging of operators into layers: one node for all operators of a layer.


def merge_layers(graph: ComputationGraph, operators: Sequence[Operator]) -> ComputationGraph:
    """Merge the nodes of each layer; work and parameters of a layer are the sums of its operators'.

    The operators are the record that the graph was made from. The new nodes are called by their layers; tensors inside
    a layer are gone.

    Raises
    ------
    InputError
        If two layers read from each other.
    """
    layer = {operator.name: operator.layer for operator in operators}
    layers = list(dict.fromkeys(layer[name] for name in graph.names))
    number = {name: i for i, name in enumerate(layers)}
    group = np.array([number[layer[name]] for name in graph.names], dtype=np.int64)
    merged, _ = merge_graph(graph, group)
    return replace(merged, names=tuple(layers), attributes=graph.attributes)


# A named family of networks with free dimensions.


#: Levels of nodes.
LEVELS = ("operator", "layer")
#: How default dimensions are said, if not by name and value.
_DIMS = {"context": "{} tokens of context", "element_bytes": "numbers of {} bytes"}

_LARGEST_DIM = 2**31 - 1


@dataclass(frozen=True)
class Architecture:
    """Architecture with free dimensions: batch, and sequence or image."""

    name: str  # to ask for
    summary: str  # one line
    network: Callable[..., None]  # ``network(net, **sizes)`` records the operators in a `NetworkBuilder`
    sizes: Mapping[str, int]  # free dimensions of the network and their defaults
    reference: str  # where the network was published
    # Whether it is a decoder that can be served: `network` takes a `Cache`, and there are the dimensions phase, context
    # and kv_bytes of `served_dims`.
    served: bool = False
    longest: int | None = None  # tokens of a sequence that a decoder takes, as its reference states them

    @property
    def dims(self) -> dict[str, Dim]:
        """Defaults of the dimensions: those of the network, the width of an element [bytes], and a decoder's phase."""
        return {**self.sizes, "element_bytes": 4, **({"phase": FORWARD} if self.served else {})}

    @property
    def dim_names(self) -> tuple[str, ...]:
        """Names of all dimensions, also of those of a decoder's cache, which have no default of their own."""
        return *self.dims, *(("context", "kv_bytes") if self.served else ())

    def checked(self, dims: Mapping[str, Dim]) -> dict[str, Dim]:
        """The given dimensions, checked: each is a dimension of the network, a positive whole number or a phase.

        Raises
        ------
        InputError
            If a dimension is unknown or has another value.
        """
        names = self.dim_names
        for dim, value in dims.items():
            if dim not in names:
                end = nearest(names, dim, f"it has {', '.join(names)}")
                raise InputError(f"{self.name}: there is no dimension '{dim}'{end}")
            if dim == "phase":
                check_one_of(f"{self.name}: phase", value, PHASES)
            elif isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= value <= _LARGEST_DIM:
                raise InputError(
                    f"{self.name}: dimension {dim} is {value}; give a whole number from 1 to {_LARGEST_DIM} for each "
                    f"of {', '.join(name for name in names if name != 'phase')}."
                )
        return {dim: value if isinstance(value, str) else int(value) for dim, value in dims.items()}

    def build(
        self,
        *,
        level: str = "operator",
        training: bool = False,
        weights_as_nodes: bool = False,
        device: Device = DEFAULT_DEVICE,
        widths: Callable[[str], float] | None = None,
        **dims: Dim,
    ) -> ComputationGraph:
        """Make the computation graph.

        Parameters
        ----------
        level : {"operator", "layer"}
            Whether a node is an operator, or a layer: the operators of one outermost scope of the network.
        training : bool
            If true, the backward operators follow the forward ones; the rule is that of `backward_operators`.
        weights_as_nodes : bool
            If true, every parameter is a source node without work, as in published operator graphs.
        device : Device
            Turns operations and bytes into seconds.
        widths : function, optional
            From the name of a parameter to its own width [bytes]; by default that is `element_bytes`.
        **dims : int or str
            Dimensions that differ from their defaults.

        Returns
        -------
        ComputationGraph
            Its attributes hold `dims`, `level`, `training`, `flops`, `multiply_adds` and `parameter_count`, and those
            of a decoder in a phase `longest` where that is known.

        Raises
        ------
        InputError
            If the level is unknown, or a dimension is unknown, not a positive whole number, or does not suit the
            network.

        Examples
        --------
        >>> from instances.architectures import ARCHITECTURES
        >>> ARCHITECTURES["resnet50"].build(batch=8).attributes["parameter_count"]
        25557032
        """
        check_one_of(f"{self.name}: level", level, LEVELS)
        chosen = self._chosen(dims)
        cache = Cache(int(chosen["context"]), int(chosen["kv_bytes"])) if "phase" in chosen else None
        if training and cache is not None:
            raise InputError(f"{self.name}: phase is {chosen['phase']}, but training keeps no cache; leave out one.")
        net = NetworkBuilder(int(chosen["element_bytes"]), widths)
        try:
            if cache is not None:
                _check_positions("context", cache.context, self.longest)
            self.network(net, **{dim: chosen[dim] for dim in self.sizes}, **({"cache": cache} if self.served else {}))
        except ValueError as error:  # also of numpy, where the elements of a tensor are too many to count
            raise InputError(f"{self.name}: {error}") from None
        if training:
            net.operators += backward_operators(net.operators)
        listed = ", ".join(f"{dim}={value}" for dim, value in chosen.items())
        step = "forward and backward" if training else "forward"
        stated = {"longest": self.longest} if cache is not None and self.longest is not None else {}
        roofline = f"{device.peak_flops:g} flop/s and {device.memory_bandwidth:g} bytes/s"
        graph = net.graph(
            device,
            weights_as_nodes=weights_as_nodes,
            name=self.name,
            source=f"parametric architecture at {level} level, {step}, {listed}; roofline at {roofline}",
            attributes={"dims": chosen, "level": level, "training": training, **stated},
        )
        return merge_layers(graph, net.operators) if level == "layer" else graph

    def assume_defaults(self, graph: ComputationGraph, dims: Mapping[str, Dim]) -> None:
        """Note the default of each dimension that is missing in `dims`, for the line of assumptions that is printed."""
        sizes = {"phase": FORWARD} | graph.attributes["dims"]
        stated = {*dims, "phase"} if graph.attributes["training"] else dims  # a step of training has both passes
        for name in (*self.dims, *(["context"] if "context" in sizes else [])):
            # What follows from the phase is no default of its own.
            if name not in stated and (name != "sequence" or "context" not in sizes):
                assume(f"dims.{name}", _DIMS.get(name, f"{name} {{}}").format(sizes[name]))
        if graph.attributes["level"] == LEVELS[0]:
            assume("level", "a node for each operator")

    def _chosen(self, dims: Mapping[str, Dim]) -> dict[str, Dim]:
        """The dimensions of a graph, completed by their defaults."""
        chosen = self.checked(dims)
        if not self.served:
            return {**self.dims, **chosen}
        try:
            return served_dims({**self.sizes, "element_bytes": 4}, chosen)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None


# Phases of a network: its graph when it serves, and when it trains.


# Phases of a decoder: over a whole text at once, or served, with a cache of keys and values.
#
# In a served decoder each layer keeps the keys and values of every token that it has seen, so that they are computed
# once. *Prefill* computes the tokens of a prompt and fills the cache; *decode* computes one token after the other, of
# each sequence of the batch, and reads all weights and the whole cache for it.
#
# For each sequence a layer with `g` heads of keys of width `d` keeps ``2 g d context`` elements. A token that is
# computed is multiplied with each weight once, and with `context` keys and as many values in each head of the queries.
# As in a pass over a whole text, products that a causal mask hides count, too. Only the last token has its scores over
# the vocabulary computed, as only they say what comes next.


#: The value of a dimension: a number, or the name of a phase.
Dim = int | str

PHASES = FORWARD, PREFILL, DECODE = "forward", "prefill", "decode"
_OF_CACHES = ("context", "kv_bytes")


@dataclass(frozen=True)
class Cache:
    """Size of the cache of keys and values in each layer of a served decoder."""

    context: int  # tokens that are kept of each sequence, those that are being computed included
    element_bytes: int  # width of an element [bytes]


def served_dims(defaults: Mapping[str, Dim], stated: Mapping[str, Dim]) -> dict[str, Dim]:
    """All dimensions of a decoder in its phase, from stated ones and defaults.

    Parameters
    ----------
    defaults : mapping
        For batch, sequence and element_bytes.
    stated : mapping
        Dimensions of the caller: also ``phase``, ``context`` (tokens that the cache holds of each sequence, including
        those that are being computed) and ``kv_bytes`` (width of an element of the cache).

    Returns
    -------
    dict
        By default `sequence`, the tokens to compute, is the context in prefill and 1 in decode, and the context is
        `sequence` in prefill and the default of `sequence` in decode. Elements of the cache are as wide as others.
        The phase *forward* has no cache; then neither phase nor context is returned.

    Raises
    ------
    InputError
        If there is no such phase, the context is shorter than what is computed, or there is a context without a cache.
    """
    phase = stated.get("phase", FORWARD)
    check_one_of("phase", phase, PHASES)
    chosen = {**defaults, **stated}
    if phase == FORWARD:
        for dim in _OF_CACHES:
            if dim in stated:
                raise InputError(f"{dim} is {stated[dim]}, but only phase={PREFILL} and phase={DECODE} have a cache.")
        return {dim: value for dim, value in chosen.items() if dim != "phase"}
    length = defaults["sequence"]
    tokens = stated.get("sequence", stated.get("context", length) if phase == PREFILL else 1)
    context = stated.get("context", tokens if phase == PREFILL else max(int(tokens), int(length)))
    if int(context) < int(tokens):
        raise InputError(f"context is {context}, less than the sequence of {tokens} that it includes; give more.")
    kv_bytes = stated.get("kv_bytes", chosen["element_bytes"])
    return {**chosen, "sequence": tokens, "phase": phase, "context": context, "kv_bytes": kv_bytes}


# The backward half of a training step, derived from the record of the forward half.


#: Kinds whose gradient does not depend on the values that they read.
_LINEAR = frozenset({"add", "adaptive_average_pool", "average_pool", "concat", "scale", "slice", "split", "upsample"})


def backward_operators(operators: Sequence[Operator]) -> list[Operator]:
    """Operators that compute the gradients of all parameters, to be recorded after the forward ones.

    Each operator that depends on a parameter gets one backward operator, named ``backward.`` and its name, in the
    layer ``backward.`` and its layer:

    - It reads the gradients of its outputs, one from each reader of each output; an operator that ends the network
      has none, and its outputs are read instead, from which the loss follows. It also reads the parameters and,
      unless the operator is linear, whatever else the forward operator read: the saved activations.
    - It outputs a gradient of the same size for each activation that depends on a parameter. Gradients of
      parameters stay where they are computed.
    - It costs (multiply-adds, other operations, bytes moved) as much as the forward operator for each such
      activation, and as much again for the parameters, but at most twice as much. So a product with a weight or of
      two activations costs twice its forward multiply-adds, but once if it reads the input of the network, and an
      activation function costs once. Adding up the gradients of one tensor is not counted.

    Both records are in topological order; the new tensors are numbered as if appended to `operators`.
    """
    trained = _depends_on_parameters(operators)
    gradients: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
    result: list[Operator] = []
    for v, operator in reversed(list(enumerate(operators))):
        if operator.kind == PARAMETER or not trained[v]:
            continue
        parameters = [tensor for tensor in operator.inputs if operators[tensor.operator].kind == PARAMETER]
        operands = [x for x in operator.inputs if trained[x.operator] and x not in parameters]
        received = [gradient for output in operator.outputs for gradient in gradients[_key(output)]]
        saved = parameters if operator.kind in _LINEAR else operator.inputs
        wanted = {_key(tensor): tensor for tensor in operands}
        number = len(operators) + len(result)
        sent = tuple(replace(x, operator=number, output=i) for i, x in enumerate(wanted.values()))
        for key, gradient in zip(wanted, sent, strict=True):
            gradients[key].append(gradient)
        passes = min(2, len(operands) + bool(parameters))
        result.append(
            Operator(
                name=f"backward.{operator.name}",
                kind=operator.kind,
                layer=f"backward.{operator.layer}",
                inputs=(*(received or operator.outputs), *saved),
                outputs=sent,
                multiply_adds=passes * operator.multiply_adds,
                flops=passes * operator.flops,
                bytes_moved=passes * operator.bytes_moved,
            )
        )
    return result


def _depends_on_parameters(operators: Sequence[Operator]) -> list[bool]:
    """Whether each operator is a parameter or reads, directly or not, one."""
    trained: list[bool] = []
    for operator in operators:
        trained.append(operator.kind == PARAMETER or any(trained[tensor.operator] for tensor in operator.inputs))
    return trained


def _key(tensor: Tensor) -> tuple[int, int]:
    return tensor.operator, tensor.output


# Building blocks of transformers: attention, feed-forward networks, positions.


#: Width of a token's index [bytes].
INDEX_BYTES = 8


def attention(
    net: NetworkBuilder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    heads: int,
    mask: Tensor | None = None,
    *,
    scaled: bool = True,
    bias: bool = True,
    cache: Cache | None = None,
) -> Tensor:
    """Dot-product attention with several heads and its output projection (Vaswani et al. 2017).

    Parameters
    ----------
    net : NetworkBuilder
        The network that is recorded.
    query, key, value : Tensor
        (batch, queries, hidden), and twice (batch, keys, hidden). If key and value are narrower, each of their heads
        serves several heads of the queries (grouped queries, Ainslie et al. 2023).
    heads : int
        Heads of the queries.
    mask : Tensor, optional
        Added to the scores; it broadcasts to (batch, heads, queries, keys).
    scaled : bool
        Whether the scores are divided by the root of a head's width.
    bias : bool
        Whether the output projection has one.
    cache : Cache, optional
        If given, keys and values are those of the newest tokens. They are appended to the cached keys and values, which
        the two matrix products hold as state, and all of them are attended to.

    Returns
    -------
    Tensor
        (batch, queries, hidden).
    """
    batch, queries, hidden = query.shape
    keys, width = key.shape[1] if cache is None else cache.context, hidden // heads
    shared = key.shape[2] // width
    rows = heads // shared * queries

    def product(x: Tensor, y: Tensor, name: str, *shape: int) -> Tensor:
        if cache is None:
            return net.matmul(x, y.view(batch, shared, *shape))
        return net.matmul(x, net.state(name, batch, shared, *shape, element_bytes=cache.element_bytes), y)

    scores = product(query.view(batch, shared, rows, width), key, "keys", width, keys)
    if scaled:
        scores = net.scale(scores)
    if mask is not None:
        scores = net.add(scores.view(batch, heads, queries, keys), mask)
    weights = net.softmax(scores).view(batch, shared, rows, keys)
    context = product(weights, value, "values", keys, width)
    return net.linear(context.view(batch, queries, hidden), hidden, "output", bias=bias)


def feed_forward(
    net: NetworkBuilder, x: Tensor, inner: int, activation: Callable[[Tensor], Tensor], *, bias: bool = True
) -> Tensor:
    """Two affine maps with an activation in between."""
    y = activation(net.linear(x, inner, "up", bias=bias))
    return net.linear(y, x.shape[-1], "down", bias=bias)


def positions(net: NetworkBuilder, available: int, sequence: int, hidden: int, cache: Cache | None = None) -> Tensor:
    """The rows of a learned table of positions that the sequence needs; with a cache, the last ones."""
    _check_positions("context", 0 if cache is None else cache.context, available)
    _check_positions("sequence", sequence, available)
    return net.slice(net.parameter("positions", available, hidden), sequence, hidden)


def tokens(net: NetworkBuilder, batch: int, sequence: int, name: str = "tokens") -> Tensor:
    """Record an input of token indices."""
    return net.input(name, batch, sequence, element_bytes=INDEX_BYTES)


def causal_mask(net: NetworkBuilder, sequence: int, cache: Cache | None = None) -> Tensor:
    """Record a mask that hides later tokens; it covers the tokens of the cache if there is one."""
    return net.parameter("causal_mask", sequence, sequence if cache is None else cache.context, trainable=False)


def last_token(net: NetworkBuilder, x: Tensor, cache: Cache | None) -> Tensor:
    """Input of a decoder's head: all of `x`, or, with a cache, only the last token of each sequence."""
    batch, sequence, hidden = x.shape
    return x if cache is None or sequence == 1 else net.slice(x, batch, 1, hidden)


def _check_positions(dim: str, tokens: int, available: int | None) -> None:
    """Refuse more tokens than a network has positions; `available` is None if their number is not known."""
    if available is not None and tokens > available:
        raise InputError(f"{dim} is {tokens}, but the network knows {available} positions; give at most that.")
