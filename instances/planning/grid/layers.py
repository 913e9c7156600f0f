"""Times and bytes of the layers of transformers in each configuration.

**Times of the operators of a layer, without a measurement.**

A product of m × k and k × n numbers is worked on in tiles of 128 × 256, w of them one after the other on each
multiprocessor, and runs at the part :math:`E_0 · k / (k + 256) · m n / (128 · 256 · w · p)` of the peak, p
multiprocessors: tiles at the borders and in the last turn work in vain, and short sums do not pay. Attention runs at
:math:`0.7 E_0`, unfused at :math:`0.5 E_0`; operators on single numbers and collectives at 0.8 of their bandwidth.

Source of the forms: Korthikanti et al., "Reducing activation recomputation in large transformer models", MLSys 2023,
for what is computed and moved; NVIDIA, "Matrix multiplication background user's guide", for tiles and waves.

**Time and memory of the layers of language models in each configuration.**

T tokens of a microbatch lie on each device before tensor parallelism, e bytes a number. With sequence parallelism
everything that a layer stores is divided by the tensor degree t (Korthikanti et al. 2023):

.. math:: [2 e T h + e T h + e T (q + k + v) + e T o + 4 a T + e T (h + n i) + x (e T h + n e T j)] / t,

inputs and output of the first norm and the input of the second, queries, keys and values, the output of attention,
statistics of fused attention for a heads, the input and n inner values of a network that all tokens take, and the same
for each of x experts of a token; 2 T h / t masks more with dropout. Unfused attention stores 2.5 e a s T / t instead of
its statistics. Further norms store their inputs, gates their values and what they multiply, latent attention the latent
vectors before and after their norms. As Megatron-LM does, a device makes the latent vectors of its own tokens with
whole matrices, and gathers these instead of the layer's input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from instances.errors import InputError
from instances.planning.grid.accelerators import MEASURED_FIRST, Accelerator, Constants, basis
from instances.planning.grid.configurations import Configuration, ConfiguredChain, ConfiguredLayer, Degrees
from instances.planning.grid.problem import Servers
from instances.planning.grid.transformer import LayerSizes, Transformer
from instances.records import written

_TILE = (128, 256)
_SHORT_SUM = 256
_UNFUSED = 0.5 / 0.7  # of what fused attention reaches
#: Part of bandwidths that transfers reach.
REACHED = 0.8
_LAUNCH = 1e-6


class Product(NamedTuple):
    """`number` matrix products of size m × k times k × n."""

    m: float
    n: float
    k: float
    number: float = 1.0
    eight: bool = True  # whether it has 8-bit inputs where the device computes with them


@dataclass(frozen=True)
class Clockwork:
    """Times of operators on one device [s].

    Parameters
    ----------
    device : Accelerator
    link : float
        Bandwidth to the other devices of its server [bytes/s].
    constants : Constants
        Constants for this number type; `gemm`, the reached fraction of the peak, is for 16-bit products.
    eight : float, optional
        Fraction of the 8-bit peak that products in layers reach; their inputs are cast from 16 bits before.
    longer : float
        Factor on all times, such as for a step on many devices.
    """

    device: Accelerator
    link: float
    constants: Constants = MEASURED_FIRST
    eight: float | None = None
    longer: float = 1.0

    def product(self, product: Product) -> float:
        """Time of matrix products whose inputs are ready [s]."""
        m, n, k, number, eight = product
        tiles = -(-m // _TILE[0]) * -(-n // _TILE[1])
        turns = -(-tiles // self.device.processors)
        useful = m * n / (_TILE[0] * _TILE[1] * turns * self.device.processors)
        peak = self.device.peak_flops * self.constants.gemm
        if eight and self.eight is not None:
            peak = self.device.peak_flops * self.device.eight * self.eight
        return self.longer * number * (2 * m * n * k / (peak * k / (k + _SHORT_SUM) * useful) + _LAUNCH)

    def cast(self, product: Product) -> float:
        """Time to cast the inputs of an 8-bit product, and their transposes, from 16 bits in the forward pass [s]."""
        if not product.eight or self.eight is None:
            return 0.0
        return self.moved(_CAST * product.number * product.m * product.k, 0)

    def attention(self, flops: float, *, fused: bool) -> float:
        """Time of the matrix products of attention, without the memory traffic of unfused attention [s]."""
        rate = self.device.peak_flops * self.constants.attention * (1.0 if fused else _UNFUSED)
        return self.longer * (flops / rate + _LAUNCH)

    def moved(self, size: float, kernels: int = 1) -> float:
        """Time to read and write `size` bytes of the device's memory [s]."""
        least = size * self.constants.vector / (REACHED * self.device.memory_bandwidth)
        return self.longer * (least + kernels * _LAUNCH)

    def sent(self, size: float, link: float | None = None) -> float:
        """Time of a collective in which each device sends `size` bytes [s]; 0 for 0 bytes."""
        rate = REACHED * (self.link if link is None else link)
        return self.longer * (size / rate + _LAUNCH) if size else 0.0


# Bytes that each norm, sums and transposes of a layer move for each number of its output; masks, kept bytes a number.
_NORM, _SUMS, _TRANSPOSES, _KERNELS = 4, 2 * 7, 12, 5
_TWO_NORMS = 2 * _NORM
_SCORES = 2.5
_CAST = 4  # read 2, write 1 and its transpose
# Bytes that unfused attention moves for each score; those of a logit. Collectives of attention of a layer's width,
# forward and backward, those of what is gathered before it, and those of a feed-forward network.
_SCORE_MOVES, _LOGIT = 9, 4
_COLLECTIVES, _GATHERED, _FEED = (1, 1), (1, 2), (2, 3)
# Exchanges of a pass with the devices that have the experts of a token: there and back.
_EXCHANGES = 2


@dataclass(frozen=True)
class Routing:
    """Distribution of tokens to experts.

    Parameters
    ----------
    whole : bool
        Whether devices have whole experts, which all devices of a stage divide, also those of a tensor degree.
    imbalance : float
        Tokens of the busiest device, as a multiple of an even share.
    copies : bool
        Whether a token goes to a server once for each of its experts there, not once for all of them.
    """

    whole: bool = False
    imbalance: float = 1.0
    copies: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.imbalance <= 1000:
            raise InputError(f"The imbalance of experts is {self.imbalance}; it must be from 1 to 1000.")

    def sent_far(self, chosen: int, servers: int, groups: tuple[int, int] = (1, 1)) -> float:
        """Mean number of copies of a token that leave its server when experts are spread over servers.

        Examples
        --------
        >>> round(Routing().sent_far(8, 4), 3), Routing(copies=True).sent_far(8, 4), Routing().sent_far(8, 8, (4, 8))
        (2.7, 6.0, 3.5)
        """
        outside = (servers - 1) / servers
        if self.copies:
            return chosen * outside
        reached = servers if groups == (1, 1) else min(servers, max(groups[0], servers * groups[0] / groups[1]))
        return min((servers - 1) * (1 - (1 - 1 / servers) ** chosen), reached * outside)


#: Experts of which each device of a tensor degree has its part.
DIVIDED = Routing()


class _LayerTimes(NamedTuple):
    """Times of a layer [s]."""

    forward: float
    backward: float  # gradients of inputs
    products: float  # also those of the gradients of weights
    vectors: float  # operators on single numbers of the forward pass


@dataclass(frozen=True)
class LayerCosts:
    """Costs of the layers of one model for microbatches of one size."""

    model: Transformer
    clock: Clockwork
    micro_batch: int
    sequence: int
    width: int  # bytes of a number, e
    servers: Servers
    fused: bool = True
    routing: Routing = DIVIDED
    modes: tuple[str, ...] = ()  # what layers may recompute; none are all that pay

    def layer(self, sizes: LayerSizes, degrees: Degrees) -> tuple[Configuration, ...]:
        """All configurations of a layer with these degrees."""
        (t, cp, ep), e, h = degrees, self.width, sizes.hidden
        tokens = self._tokens(cp)
        attended = self._attention(sizes, tokens, t, cp)
        times = self._times(sizes, degrees, attended)
        stored, scores = self._stored(sizes, tokens) / t, self._scores(sizes, tokens) / t
        plain = Configuration(
            tp=t,
            cp=cp,
            ep=ep,
            forward=times.forward,
            input_backward=times.backward,
            weight_backward=times.products,
            parameters=sizes.divided_parameters / t + sizes.whole_parameters,
            expert_parameters=sizes.expert_parameters / (ep if self.routing.whole else t * ep),
            stored_bytes=stored + scores,
            output_bytes=e * tokens * h / t,
        )
        inner = e * tokens * (sizes.inner + sizes.routed) / t
        normed = 2 * e * tokens * h / t + inner
        again = self.clock.moved(_TWO_NORMS * tokens * h / t, 2) + self.clock.moved(2 * inner)
        entering, half = e * tokens * h / t, (plain.stored_bytes - normed) / 2
        ways = (
            plain,
            _recomputed(plain, "act", plain.stored_bytes - normed, normed, again),
            _recomputed(plain, "core", stored, scores, attended[0]),
            _recomputed(plain, "half", half, plain.stored_bytes - half, times.vectors + times.products / 2),
            _recomputed(plain, "full", entering, plain.stored_bytes, times.forward),
        )
        modes = self.modes or ("none", "act", *(() if self.fused else ("core",)), "full")
        return tuple(way for way in ways if way.recompute in {"none", *modes})

    def embedding(self, degrees: Degrees) -> tuple[Configuration, ...]:
        """The configuration of the part before the layers."""
        (t, cp, ep), model = degrees, self.model
        size = self.width * self._tokens(cp) * model.hidden
        widened, narrow = self._widened(cp, t)
        time = self.clock.moved(2 * size / t) + self._joined(size * (t - 1) / t) + widened
        return (
            Configuration(
                tp=t,
                cp=cp,
                ep=ep,
                forward=time,
                input_backward=0.0,
                weight_backward=2 * time,
                parameters=model.embedding_parameters / t,
                stored_bytes=narrow + (size / t if model.dropout else 0.0),
                output_bytes=size / t,
            ),
        )

    def head(self, degrees: Degrees) -> tuple[Configuration, ...]:
        """The configuration of the part after the layers: the head with its loss, a pooler, or nothing."""
        (t, cp, ep), model = degrees, self.model
        tokens, h = self._tokens(cp), model.hidden
        size = self.width * tokens * h
        if model.head:
            widened, narrow = self._widened(cp, t)
            product = self._product(tokens, -(-model.vocabulary // t), model.table_width) + widened
            logits = _LOGIT * tokens * model.vocabulary / t
            rest = self.clock.moved(4 * tokens * h / t + 2 * logits, 3) + self._joined(size * (t - 1) / t)
            stored = 2 * size / t + narrow + logits
        elif model.pooled:
            product, rest, stored = self._product(self.micro_batch, -(-h // t), h), 0.0, size / t
        else:
            product, rest, stored = 0.0, 0.0, 0.0
        return (
            Configuration(
                tp=t,
                cp=cp,
                ep=ep,
                forward=product + rest,
                input_backward=product + 2 * rest,
                weight_backward=product,
                parameters=model.head_parameters / t,
                tied_parameters=model.tied * model.head * model.table_parameters / t,
                stored_bytes=stored,
                output_bytes=0.0,
            ),
        )

    @property
    def operations(self) -> float:
        """Operations of the products of a forward pass of a sample."""
        model, s = self.model, self.sequence
        layers = sum(2 * s * (n.weights + (n.queries + n.outputs) * self._attended(n)) for n in model.sizes)
        ends = (1 + model.head) * model.widening + model.head * model.table_parameters
        return float(layers + 2 * s * ends + 2 * model.pooled * model.hidden**2)

    def _tokens(self, cp: int) -> float:
        """Tokens of a microbatch on a device, before tensor parallelism."""
        return self.micro_batch * self.sequence / cp

    def _widened(self, cp: int, t: int) -> tuple[float, float]:
        """Seconds to map token embeddings to the width of layers, and bytes read; (0, 0) if the widths are equal."""
        model, tokens = self.model, self._tokens(cp) / t
        if not model.widening:
            return 0.0, 0.0
        return self._product(tokens, model.hidden, model.table_width), self.width * tokens * model.table_width

    def _product(self, m: float, n: float, k: float) -> float:
        """Time of a 16-bit matrix product outside the layers [s]."""
        return self.clock.product(Product(m, n, k, eight=False))

    def _joined(self, size: float) -> float:
        """Seconds that a collective of `size` bytes among tensor ranks adds to a pass, after overlap."""
        return self.clock.constants.tp_exposed * self.clock.sent(size)

    def _stored(self, sizes: LayerSizes, tokens: float) -> float:
        """Bytes of a layer's activations on all devices of a tensor group, without attention scores."""
        e, h, n = self.width, sizes.hidden, sizes.matrices
        wide = sizes.queries + sizes.keys + sizes.values + sizes.outputs + 2 * sizes.normed_latents
        wide += sizes.gate + (sizes.outputs if sizes.gate else 0)
        numbers = (3 + sizes.further_norms) * h + wide
        if sizes.inner:
            numbers += h + n * sizes.inner
        if sizes.experts is not None:
            numbers += sizes.experts.chosen * h + n * sizes.routed + (h if sizes.shared_gate else 0)
        return e * tokens * numbers + self.model.dropout * 2 * tokens * h

    def _scores(self, sizes: LayerSizes, tokens: float) -> float:
        """Bytes of attention scores, or of the statistics of fused attention, on all devices of a tensor group."""
        each = _LOGIT if self.fused else _SCORES * self.width * self.sequence
        return each * sizes.attention.heads * tokens

    def _attention(self, sizes: LayerSizes, tokens: float, t: int, cp: int) -> tuple[float, float]:
        """Forward and backward time of attention without linear maps; with a context degree keys travel in a ring."""
        clock, s = self.clock, self.sequence
        flops = 2 * tokens * (sizes.queries + sizes.outputs) / t
        if self.fused:
            forward = clock.attention(flops * self._attended(sizes), fused=True)
            backward = 2.5 * forward
        else:
            moved = clock.moved(_SCORE_MOVES * sizes.attention.heads * s * tokens / t, 3)
            forward = clock.attention(flops * s, fused=False) + moved
            backward = 2 * forward
        link = None if t * cp <= self.servers.size else self.servers.ring(max(1, self.servers.size // t))
        ring = clock.sent(self.width * tokens * (sizes.keys + sizes.values) / t * (cp - 1), link)
        return max(forward, ring), max(backward, 2 * ring)

    def _attended(self, sizes: LayerSizes) -> float:
        """Mean number of tokens that a token attends to."""
        return sizes.attended(self.sequence) if self.model.causal else self.sequence

    def _times(self, sizes: LayerSizes, degrees: Degrees, attended: tuple[float, float]) -> _LayerTimes:
        """Times of a layer."""
        (t, cp, ep), clock, e = degrees, self.clock, self.width
        tokens, h = self._tokens(cp), sizes.hidden
        shapes = [*self._projections(sizes, tokens, t), *self._networks(sizes, tokens, t, ep)]
        products, cast = sum(map(clock.product, shapes)), sum(map(clock.cast, shapes))
        norms = _TWO_NORMS + _NORM * sizes.further_norms
        kernels = _KERNELS + sizes.further_norms
        moved = clock.moved((norms + _SUMS + _TRANSPOSES) * tokens * h / t, kernels) + cast
        moved += clock.moved(2 * e * tokens * (sizes.inner + sizes.routed) / t)
        if sizes.gate:
            moved += clock.moved(e * tokens * (sizes.gate + 2 * sizes.outputs) / t)
        if sizes.latents:
            moved += clock.moved(_NORM * tokens * sizes.normed_latents / t, 2)
        full_width, gathered = (self._joined(e * tokens * width * (t - 1) / t) for width in (h, sizes.gathered))
        feed = 0 if self.routing.whole and not sizes.inner else 1
        sent = [(_COLLECTIVES[i] + feed * _FEED[i]) * full_width + _GATHERED[i] * gathered for i in range(2)]
        exchange, routed = self._routed(sizes, tokens / t, degrees)
        forward = products + attended[0] + moved + sent[0] + exchange + routed / 3
        inputs = products + attended[1] + 2 * moved + sent[1] + exchange + routed * 2 / 3
        return _LayerTimes(forward, inputs, products, moved)

    def _routed(self, sizes: LayerSizes, tokens: float, degrees: Degrees) -> tuple[float, float]:
        """Time to send the tokens of a device to their experts and back, and time of the router, in both passes."""
        (t, _, ep), experts, routing, servers = degrees, sizes.experts, self.routing, self.servers
        if experts is None:
            return 0.0, 0.0
        rows = experts.chosen * tokens * routing.imbalance * (1 if routing.whole else t)
        routed = self.clock.longer * self.clock.constants.row * rows
        devices, size = ep * (1 if routing.whole else t), self.width * tokens * sizes.hidden
        if devices <= servers.size:
            return _EXCHANGES * self.clock.sent(routing.imbalance * experts.chosen * size * (ep - 1) / ep), routed
        far = routing.sent_far(experts.chosen, -(-devices // servers.size), experts.groups)
        sizes_sent = (far * size, servers.outer), (experts.chosen * size, servers.inner)
        longest = max(self.clock.sent(routing.imbalance * sent, link) for sent, link in sizes_sent)
        return _EXCHANGES * (longest + servers.latency), routed

    def _projections(self, sizes: LayerSizes, tokens: float, t: int) -> Iterator[Product]:
        """Matrix products before and after attention."""
        for inputs, outputs in sizes.products:
            yield Product(tokens, outputs / t, inputs)
        if sizes.latents:
            yield Product(tokens / t, sizes.latents, sizes.hidden)
        yield Product(tokens, sizes.hidden, sizes.outputs / t)

    def _networks(self, sizes: LayerSizes, tokens: float, t: int, ep: int) -> Iterator[Product]:
        """Matrix products of the dense network, and of the experts with their router."""
        experts, h, n, whole = sizes.experts, sizes.hidden, sizes.matrices, self.routing.whole
        if sizes.inner:
            yield Product(tokens, (n - 1) * sizes.inner / t, h)
            yield Product(tokens, h, sizes.inner / t)
        if experts is not None:
            share = 1 if whole else t
            rows = self.routing.imbalance * experts.chosen * tokens / (t / share) * ep / experts.count
            inner, count = experts.inner / share, experts.count / ep
            yield Product(rows, (n - 1) * inner, h, count)
            yield Product(rows, h, inner, count)
            yield Product(tokens / (t if whole else 1), experts.count, h, eight=False)
        if sizes.shared_gate:
            yield Product(tokens / t, 1, h, eight=False)


def configured(costs: LayerCosts, degrees: tuple[Degrees, ...], dtype: str) -> ConfiguredChain:
    """Chain of embedding, layers and head, for all degrees.

    Layers with the same costs are of one kind, such as those whose windows no sequence fills.

    Raises
    ------
    InputError
        If a degree divides something that it cannot.
    """
    model, device = costs.model, costs.clock.device
    attention, overlap = "fused" if costs.fused else "eager", "none" if costs.clock.constants.tp_exposed else "tp"
    _check_degrees(costs, degrees)
    parts = [
        ConfiguredLayer("embedding", "embedding", tuple(way for triple in degrees for way in costs.embedding(triple))),
        *_layers(costs, degrees),
        ConfiguredLayer("head", "head", tuple(way for triple in degrees for way in costs.head(triple))),
    ]
    return ConfiguredChain(
        layers=tuple(parts),
        micro_batch=costs.micro_batch,
        sequence=costs.sequence,
        flops=costs.operations,
        name=model.name,
        source=f"{attention} attention, {'hidden tensor collectives, ' * (overlap == 'tp')}{basis(device)}",
        dtype=dtype,
        device=device.name,
        attention=attention,
        overlap=overlap,
        model=written(model),
    )


def _check_degrees(costs: LayerCosts, degrees: tuple[Degrees, ...]) -> None:
    model = costs.model
    for t, cp, ep in degrees:
        model.check_degree(t)
        if costs.sequence % cp:
            raise InputError(f"{model.name}: a context degree of {cp} does not divide {costs.sequence} tokens.")
        for count in model.experts or (1,):
            if count % ep:
                raise InputError(f"{model.name}: an expert degree of {ep} does not divide {count}, its experts.")


def _layers(costs: LayerCosts, degrees: tuple[Degrees, ...]) -> list[ConfiguredLayer]:
    """The layers between embedding and head; those with the same configurations are of one kind."""
    ways = {
        layer: tuple(way for triple in degrees for way in costs.layer(sizes, triple))
        for layer, sizes in costs.model.kinds.items()
    }
    kinds = {menu: f"layer {number}" for number, menu in enumerate(dict.fromkeys(ways.values()))}
    if len(kinds) == 1:
        kinds = dict.fromkeys(kinds, "layer")
    return [
        ConfiguredLayer(f"layer.{number}", kinds[ways[layer]], ways[layer])
        for number, layer in enumerate(costs.model.layers)
    ]


def _recomputed(plain: Configuration, mode: str, stored: float, working: float, again: float) -> Configuration:
    """The configuration under a mode of recomputation, which changes its bytes and adds `again` seconds."""
    return replace(
        plain,
        recompute=mode,
        input_backward=plain.input_backward + again,
        stored_bytes=stored,
        working_bytes=working,
    )
