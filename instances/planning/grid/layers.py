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

from dataclasses import dataclass, replace

from instances.errors import InputError
from instances.planning.grid.configurations import Configuration, ConfiguredChain, ConfiguredLayer, Degrees
from instances.planning.grid.transformer import Accelerator, LayerSizes, Transformer
from instances.records import written

_TILE = (128, 256)
_SHORT_SUM = 256
_FUSED, _UNFUSED = 0.7, 0.5
_REACHED = 0.8
_LAUNCH = 1e-6


@dataclass(frozen=True)
class Clockwork:
    """Times of operators on one device [s]."""

    device: Accelerator
    link: float  # bandwidth to the other devices of its server [bytes/s]

    def product(self, m: float, n: float, k: float) -> float:
        """Time of a product of an m × k and a k × n matrix."""
        tiles = -(-m // _TILE[0]) * -(-n // _TILE[1])
        turns = -(-tiles // self.device.processors)
        useful = m * n / (_TILE[0] * _TILE[1] * turns * self.device.processors)
        rate = self.device.peak_flops * self.device.efficiency * k / (k + _SHORT_SUM) * useful
        return 2 * m * n * k / rate + _LAUNCH

    def attention(self, flops: float, *, fused: bool) -> float:
        """Time of the products within attention, without what unfused attention moves."""
        return flops / (self.device.peak_flops * self.device.efficiency * (_FUSED if fused else _UNFUSED)) + _LAUNCH

    def moved(self, size: float, kernels: int = 1) -> float:
        """Time to read and write so many bytes of its own memory."""
        return size / (_REACHED * self.device.memory_bandwidth) + kernels * _LAUNCH

    def sent(self, size: float, link: float | None = None) -> float:
        """Time of a collective in which each device sends so many bytes; none if there is nothing to send."""
        return size / (_REACHED * (self.link if link is None else link)) + _LAUNCH if size else 0.0


#: Attention in one kernel that keeps no scores, or in several that keep them.
ATTENTIONS = ("fused", "eager")

# Bytes that each norm, sums and transposes of a layer move for each number of its output; masks, kept bytes a number.
_NORM, _SUMS, _TRANSPOSES, _KERNELS = 4, 2 * 7, 12, 5
_TWO_NORMS = 2 * _NORM
_SCORES = 2.5
# Bytes that unfused attention moves for each score; those of a logit. Collectives of a layer of its width, forward and
# backward, and those of what is gathered before attention.
_SCORE_MOVES, _LOGIT = 9, 4
_COLLECTIVES, _GATHERED = (3, 4), (1, 2)


@dataclass(frozen=True)
class LayerCosts:
    """Costs of the layers of one model for microbatches of one size."""

    model: Transformer
    clock: Clockwork
    micro_batch: int
    sequence: int
    width: int  # bytes of a number, e
    fused: bool = True
    outer_link: float = 0.0  # bandwidth to devices of other servers [bytes/s]
    server: int = 1  # devices of a server

    def layer(self, sizes: LayerSizes, degrees: Degrees) -> tuple[Configuration, ...]:
        """All ways to run a layer with these degrees."""
        (t, cp, ep), e, h = degrees, self.width, sizes.hidden
        tokens = self._tokens(cp)
        attended = self._attention(sizes, tokens, t, cp)
        forward, backward = self._times(sizes, degrees, attended)
        stored, scores = self._stored(sizes, tokens) / t, self._scores(sizes, tokens) / t
        plain = Configuration(
            tp=t,
            cp=cp,
            ep=ep,
            forward=forward,
            input_backward=backward[0],
            weight_backward=backward[1],
            parameters=sizes.divided_parameters / t + sizes.whole_parameters,
            expert_parameters=sizes.expert_parameters / (t * ep),
            stored_bytes=stored + scores,
            output_bytes=e * tokens * h / t,
        )
        inner = e * tokens * (sizes.inner + sizes.routed) / t
        normed = 2 * e * tokens * h / t + inner
        again = self.clock.moved(_TWO_NORMS * tokens * h / t, 2) + self.clock.moved(2 * inner)
        ways = [plain, _recomputed(plain, "act", plain.stored_bytes - normed, normed, again)]
        if not self.fused:
            ways.append(_recomputed(plain, "core", stored, scores, attended[0]))
        return (*ways, _recomputed(plain, "full", e * tokens * h / t, plain.stored_bytes, forward))

    def embedding(self, degrees: Degrees) -> tuple[Configuration, ...]:
        """The only way to run what comes before the layers."""
        (t, cp, ep), model = degrees, self.model
        size = self.width * self._tokens(cp) * model.hidden
        widened, narrow = self._widened(cp, t)
        time = self.clock.moved(2 * size / t) + self.clock.sent(size * (t - 1) / t) + widened
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
        """The only way to run what comes after the layers: the head with its loss, a pooler, or nothing."""
        (t, cp, ep), model = degrees, self.model
        tokens, h = self._tokens(cp), model.hidden
        size = self.width * tokens * h
        if model.head:
            widened, narrow = self._widened(cp, t)
            product = self.clock.product(tokens, -(-model.vocabulary // t), model.table_width) + widened
            logits = _LOGIT * tokens * model.vocabulary / t
            rest = self.clock.moved(4 * tokens * h / t + 2 * logits, 3) + self.clock.sent(size * (t - 1) / t)
            stored = 2 * size / t + narrow + logits
        elif model.pooled:
            product, rest, stored = self.clock.product(self.micro_batch, -(-h // t), h), 0.0, size / t
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
        """Time of the product between a table of another width and the layers, and bytes of its narrow side, if any."""
        model, tokens = self.model, self._tokens(cp) / t
        if not model.widening:
            return 0.0, 0.0
        return self.clock.product(tokens, model.hidden, model.table_width), self.width * tokens * model.table_width

    def _stored(self, sizes: LayerSizes, tokens: float) -> float:
        """Bytes that all devices of a tensor degree keep, but for scores or their statistics."""
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
        """The same for scores, or for the statistics of attention that keeps none."""
        each = _LOGIT if self.fused else _SCORES * self.width * self.sequence
        return each * sizes.attention.heads * tokens

    def _attention(self, sizes: LayerSizes, tokens: float, t: int, cp: int) -> tuple[float, float]:
        """Forward and backward time of attention without its linear maps; with a context degree keys go round."""
        clock, s = self.clock, self.sequence
        flops = 2 * tokens * (sizes.queries + sizes.outputs) / t
        if self.fused:
            forward = clock.attention(flops * self._attended(sizes), fused=True)
            backward = 2.5 * forward
        else:
            moved = clock.moved(_SCORE_MOVES * sizes.attention.heads * s * tokens / t, 3)
            forward = clock.attention(flops * s, fused=False) + moved
            backward = 2 * forward
        ring = clock.sent(self.width * tokens * (sizes.keys + sizes.values) / t * (cp - 1))
        return max(forward, ring), max(backward, 2 * ring)

    def _attended(self, sizes: LayerSizes) -> float:
        """Tokens that a token attends to in the mean."""
        return sizes.attended(self.sequence) if self.model.causal else self.sequence

    def _times(
        self, sizes: LayerSizes, degrees: Degrees, attended: tuple[float, float]
    ) -> tuple[float, tuple[float, float]]:
        """Forward time of a layer, and both parts of its backward time."""
        (t, cp, ep), clock, e = degrees, self.clock, self.width
        tokens, h = self._tokens(cp), sizes.hidden
        products = self._projections(sizes, tokens, t) + self._networks(sizes, tokens, t, ep)
        norms = _TWO_NORMS + _NORM * sizes.further_norms
        kernels = _KERNELS + sizes.further_norms
        moved = clock.moved((norms + _SUMS + _TRANSPOSES) * tokens * h / t, kernels)
        moved += clock.moved(2 * e * tokens * (sizes.inner + sizes.routed) / t)
        if sizes.gate:
            moved += clock.moved(e * tokens * (sizes.gate + 2 * sizes.outputs) / t)
        if sizes.latents:
            moved += clock.moved(_NORM * tokens * sizes.normed_latents / t, 2)
        full_width, gathered = (clock.sent(e * tokens * width * (t - 1) / t) for width in (h, sizes.gathered))
        sent = [_COLLECTIVES[i] * full_width + _GATHERED[i] * gathered for i in range(2)]
        link = clock.link if t * cp * ep <= self.server else self.outer_link
        chosen = 0 if sizes.experts is None else sizes.experts.chosen
        exchange = 2 * clock.sent(chosen * e * tokens * h / t * (ep - 1) / ep, link)
        forward = products + attended[0] + moved + sent[0] + exchange
        inputs = products + attended[1] + 2 * moved + sent[1] + exchange
        return forward, (inputs, products)

    def _projections(self, sizes: LayerSizes, tokens: float, t: int) -> float:
        """Time of the products around attention."""
        time = sum(self.clock.product(tokens, outputs / t, inputs) for inputs, outputs in sizes.products)
        if sizes.latents:
            time += self.clock.product(tokens / t, sizes.latents, sizes.hidden)
        return time + self.clock.product(tokens, sizes.hidden, sizes.outputs / t)

    def _networks(self, sizes: LayerSizes, tokens: float, t: int, ep: int) -> float:
        """Time of the products of a network for all tokens, and of experts with their router."""
        experts, h, time = sizes.experts, sizes.hidden, 0.0
        if sizes.inner:
            time += self._network(sizes, tokens, sizes.inner / t)
        if experts is not None:
            rows = experts.chosen * tokens * ep / experts.count
            time += experts.count / ep * self._network(sizes, rows, experts.inner / t)
            time += self.clock.product(tokens, experts.count, h)
        if sizes.shared_gate:
            time += self.clock.product(tokens / t, 1, h)
        return time

    def _network(self, sizes: LayerSizes, rows: float, inner: float) -> float:
        """Time of the products of one feed-forward network on so many rows."""
        h, product = sizes.hidden, self.clock.product
        return product(rows, (sizes.matrices - 1) * inner, h) + product(rows, h, inner)


def configured(costs: LayerCosts, degrees: tuple[Degrees, ...], dtype: str) -> ConfiguredChain:
    """Chain of embedding, layers and head, for all degrees.

    Layers with the same costs are of one kind, such as those whose windows no sequence fills.

    Raises
    ------
    InputError
        If a degree divides something that it cannot.
    """
    model, device = costs.model, costs.clock.device
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
        source=f"{'fused' if costs.fused else 'unfused'} attention, estimated for {device.name}",
        dtype=dtype,
        device=device.name,
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
    """The configuration with what it stores and works with when it runs forward again for so many seconds."""
    return replace(
        plain,
        recompute=mode,
        input_backward=plain.input_backward + again,
        stored_bytes=stored,
        working_bytes=working,
    )
