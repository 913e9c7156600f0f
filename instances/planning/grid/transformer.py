"""Transformers by name or from configurations: widths and numbers of their layers.

**Sizes of a layer of attention and a feed-forward network, as costs need them.**

A layer of width h has products whose outputs a tensor degree divides: with the queries, keys and values of attention,
or, of latent attention, from latent vectors to these; and one back to h. What makes the latent vectors is whole on each
device, as are norms and other vectors. A feed-forward network of inner width i has :math:`n h i` weights, n = 3 if it
is gated and 2 otherwise; beside routed experts there may be a network for all tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import Annotated, Any

from instances.architectures.transformers import Encoder
from instances.errors import InputError, UnknownLayersError, check_one_of
from instances.json_files import Value
from instances.planning.grid.configurations import MOST_LAYERS
from instances.readers.huggingface.record import Attention, Decoder, Experts, FeedForward, LatentAttention, Layer
from instances.records import By, read, written


def obstacle(layer: Layer) -> str | None:
    """The part of a layer whose costs are not known here, in words; None if there is none."""
    others = [mixer.kind for mixer in layer.mixers if not isinstance(mixer, Attention | LatentAttention)]
    if others:
        return f"{others[0]} in a layer"
    if len(layer.mixers) != 1 or layer.feed is None:
        return "a layer that is not attention and a feed-forward network"
    attention, experts = layer.mixers[0], layer.feed.experts
    if isinstance(attention, LatentAttention) and attention.indexer is not None:
        return "attention whose tokens an indexer chooses"
    if isinstance(attention, Attention) and attention.passes > 1:
        return f"attention that computes its scores {attention.passes} times"
    if experts is not None and experts.width:
        return "experts of another width than the layer"
    return None


@dataclass(frozen=True)
class LayerSizes:
    """Sizes of a layer; its parameters are either divided among devices or copied to each."""

    layer: Layer
    hidden: int  # width between layers, h
    norm: int  # parameters of a norm of this width

    @property
    def attention(self) -> Attention | LatentAttention:
        """The layer's mixer of tokens (attention or a recurrence)."""
        mixer = self.layer.mixers[0]
        assert isinstance(mixer, Attention | LatentAttention)
        return mixer

    @property
    def feed(self) -> FeedForward:
        """The feed-forward network."""
        assert self.layer.feed is not None
        return self.layer.feed

    @property
    def experts(self) -> Experts | None:
        """Routed experts, if there are any."""
        return self.feed.experts

    @property
    def key_heads(self) -> int:
        """Number of heads of keys and values; with latent attention as many as heads of queries."""
        attention = self.attention
        return attention.heads if isinstance(attention, LatentAttention) else attention.key_heads

    @property
    def queries(self) -> int:
        """Width of all queries together."""
        return self.attention.heads * self._key_width

    @property
    def keys(self) -> int:
        """Width of all keys together."""
        return self.key_heads * self._key_width

    @property
    def values(self) -> int:
        """Width of all values together."""
        return self.key_heads * self.attention.value_width

    @property
    def outputs(self) -> int:
        """Width of the outputs of all heads together."""
        return self.attention.heads * self.attention.value_width

    @property
    def gate(self) -> int:
        """Number of values that multiply the outputs of attention; 0 without a gate."""
        return 0 if isinstance(self.attention, LatentAttention) else self.attention.gate

    @property
    def normed_latents(self) -> int:
        """Total width of the latent vectors that are normalised before queries, keys and values are made."""
        attention = self.attention
        return attention.rank + (attention.query_rank or 0) if isinstance(attention, LatentAttention) else 0

    @property
    def latents(self) -> int:
        """Total width of the latent vectors made from the layer's input."""
        attention = self.attention
        return self.normed_latents + attention.rotary if isinstance(attention, LatentAttention) else 0

    @property
    def gathered(self) -> int:
        """Width of the vectors that devices gather before attention when each has a part of the tokens."""
        attention = self.attention
        from_latents = isinstance(attention, LatentAttention) and attention.query_rank
        return self.latents if from_latents else self.hidden + self.latents

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """(input width, output width) of the matrix products before attention that are divided among devices."""
        attention = self.attention
        if isinstance(attention, LatentAttention):
            expanded = attention.heads * (attention.plain + attention.value_width)
            return (attention.query_rank or self.hidden, self.queries), (attention.rank, expanded)
        return ((self.hidden, self.queries + self.keys + attention.separate_values * self.values + attention.gate),)

    @property
    def further_norms(self) -> int:
        """Number of norms in addition to the two of every layer."""
        return max(0, self.layer.norms - 2)

    @property
    def matrices(self) -> int:
        """Number of matrices of the feed-forward network: 3 with a gate, 2 without."""
        return 3 if self.feed.gated else 2

    @property
    def inner(self) -> int:
        """Inner width of the dense network; 0 without one."""
        return self.feed.inner if self.experts is None else self.experts.shared

    @property
    def routed(self) -> int:
        """Total inner width of the experts that a token takes."""
        return 0 if self.experts is None else self.experts.chosen * self.experts.inner

    @property
    def shared_gate(self) -> bool:
        """Whether the output of the shared expert has a gate."""
        return self.experts is not None and self.experts.shared > 0 and self.experts.shared_gate

    @property
    def weights(self) -> int:
        """Number of weights that a token is multiplied with."""
        attention = self._attention_weights + self.hidden * self.latents
        feed = self.matrices * self.hidden * (self.inner + self.routed) + self.shared_gate * self.hidden
        return attention + feed + self._router

    @property
    def divided_parameters(self) -> int:
        """Number of parameters, without experts, that are divided among tensor ranks."""
        attention, h = self.attention, self.hidden
        if isinstance(attention, LatentAttention):
            biases = attention.bias * h
        else:
            biases = attention.bias * (self.queries + self.keys + attention.separate_values * self.values)
            biases += attention.output_bias * h + attention.gate_bias * attention.gate
        dense = self._network(self.inner, biases=self.feed.bias) if self.inner else 0
        return self._attention_weights + biases + dense + self._router

    @property
    def whole_parameters(self) -> int:
        """Number of parameters that each tensor rank holds completely."""
        attention, count = self.attention, self.layer.norms * self.norm + self.layer.vectors + self.attention.vectors
        if isinstance(attention, LatentAttention):
            count += (self.hidden + attention.bias) * self.latents + self.normed_latents
        else:
            count += sum(attention.norms)
        count += self.feed.vectors + self.shared_gate * self.hidden
        return count + (0 if self.experts is None else self.experts.router_vectors)

    @property
    def expert_parameters(self) -> int:
        """Number of parameters of all routed experts, which an expert degree divides as well."""
        experts = self.experts
        return 0 if experts is None else experts.count * self._network(experts.inner, biases=experts.bias)

    @property
    def parameters(self) -> int:
        """Number of all parameters of the layer."""
        return self.divided_parameters + self.whole_parameters + self.expert_parameters

    def attended(self, sequence: int) -> float:
        """Mean number of tokens that a token attends to; a causal token counts half for itself."""
        attention = self.attention
        window = None if isinstance(attention, LatentAttention) else attention.window
        reach = min(sequence, window or sequence)
        if isinstance(attention, Attention) and attention.chunked:
            chunks, rest = divmod(sequence, reach)
            return (chunks * reach**2 + rest**2) / (2 * sequence)
        return reach - reach**2 / (2 * sequence)

    @property
    def _key_width(self) -> int:
        """Width of a query and of a key of one head."""
        attention = self.attention
        return attention.plain + attention.rotary if isinstance(attention, LatentAttention) else attention.width

    @property
    def _attention_weights(self) -> int:
        """Number of attention weights that are divided among tensor ranks."""
        return sum(inputs * outputs for inputs, outputs in self.products) + self.outputs * self.hidden

    @property
    def _router(self) -> int:
        """Number of weights of the router, 0 without experts."""
        return 0 if self.experts is None else self.hidden * self.experts.count

    def _network(self, inner: int, *, biases: bool) -> int:
        """Number of parameters of one feed-forward network."""
        n, h = self.matrices, self.hidden
        return n * h * inner + biases * ((n - 1) * inner + h)


# Language models as layers of attention and feed-forward networks, and how many parameters they have.
#
# Masks and angles of positions are no parameters; a table that embedding and head share counts once.


#: Parameters of a norm, as multiples of its width.
_NORMS = {"rms": 1, "plain": 1, "layer": 2, "none": 0}


def norm_parameters(norm: str, width: int) -> int:
    """Parameters of one norm: a scale, and a shift, or neither."""
    return _NORMS[norm] * width


def _layers_of_runs(value: Value) -> tuple[Layer, ...]:
    """Layers of a file, in which equal consecutive layers stand once with their number."""
    runs = read(value, tuple[tuple[int, Layer], ...])
    if any(count < 1 for count, _ in runs) or sum(count for count, _ in runs) > MOST_LAYERS:
        value.fail(f"its runs of equal layers must have 1 layer or more, and {MOST_LAYERS} together at most.")
    return tuple(layer for count, layer in runs for _ in range(count))


def _runs(layers: tuple[Layer, ...]) -> list[Any]:
    """Layers as JSON, with equal consecutive layers once, after their number."""
    return [[len([*run]), written(layer)] for layer, run in groupby(layers)]


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """A decoder or an encoder, layer by layer; `uniform` makes one of equal layers.

    Raises
    ------
    InputError
        If a size is absurd; an `UnknownLayersError` if no costs are known of a layer, whose message says why.
    """

    name: str
    hidden: int  # width between layers, h
    vocabulary: int
    layers: Annotated[tuple[Layer, ...], By(_layers_of_runs, _runs)]
    norm: str = "rms"  # rms, layer (scale and shift), plain (a scale alone) or none (no parameters)
    embedding: int | None = None  # width of the table of tokens, where a matrix makes it `hidden`
    positions: int = 0  # tokens of a sequence at most; 0 if nothing limits them
    before: int = 0  # parameters before the layers besides that table, such as a table of positions
    after: int = 0  # parameters after the layers besides the head, such as a norm
    dropout: bool = False  # whether training keeps masks of dropout
    causal: bool = True  # whether a token attends to those before it alone
    head: bool = True  # whether tokens are predicted after the layers
    pooled: bool = False  # whether there is a pooler after the layers
    tied: bool = False  # whether the head uses the table of the embedding
    rotary_base: float | None = None  # of rotary positions, which no cost reads; None if nothing states it

    @classmethod
    def uniform(
        cls,
        *,
        name: str,
        layers: int,
        hidden: int,
        heads: int,
        key_heads: int,
        inner: int,
        vocabulary: int,
        gated: bool = True,
        biases: bool = False,
        experts: int = 1,
        chosen: int = 1,
        positions: int = 0,
        segments: int = 0,
        dropout: bool = False,
        causal: bool = True,
        tied: bool = False,
        rotary_base: float | None = None,
    ) -> Transformer:
        """A decoder of equal layers; without causal attention an encoder with an embedding norm and a pooler.

        With biases, products have them, and norms have a shift. One expert is a dense network.
        """
        if heads < 1 or hidden % heads:
            raise InputError(f"{name}: {heads} heads do not divide a width of {hidden}.")
        width = hidden // heads
        routed = Experts(experts, chosen, inner, bias=biases) if experts != 1 or chosen != 1 else None
        layer = Layer(
            (Attention(heads, key_heads, width, width, bias=biases, output_bias=biases),),
            FeedForward(0 if routed else inner, gated, biases, experts=routed),
            norms=2,
        )
        norm = (1 + biases) * hidden
        return cls(
            name=name,
            hidden=hidden,
            vocabulary=vocabulary,
            layers=(layer,) * layers,
            norm="layer" if biases else "rms",
            positions=positions,
            before=(positions + segments) * hidden + (0 if causal else norm),
            after=norm if causal else 0,
            dropout=dropout,
            causal=causal,
            head=causal,
            pooled=not causal,
            tied=tied,
            rotary_base=rotary_base,
        )

    def __post_init__(self) -> None:
        sizes = {"hidden": self.hidden, "vocabulary": self.vocabulary, "layers": len(self.layers)}
        for name, size in {**sizes, "embedding": self.table_width}.items():
            if size < 1:
                raise InputError(f"{self.name}: {name} is {size}; it must be 1 or more.")
        check_one_of(f"{self.name}: norm", self.norm, _NORMS)
        for layer in dict.fromkeys(self.layers):
            if why := obstacle(layer):
                raise UnknownLayersError(f"{self.name}: no costs are known of {why}.")
            self._check(LayerSizes(layer, self.hidden, self._norm))

    def _check(self, layer: LayerSizes) -> None:
        """Refuse sizes of a layer below 1, heads that keys do not divide, and too many experts."""
        experts, heads = layer.experts, layer.attention.heads
        sizes = {"heads": heads, "key_heads": layer.key_heads, "width of a key": layer.keys}
        sizes |= {"width of a value": layer.values, "inner": layer.inner + layer.routed}
        if experts is not None:
            sizes |= {"experts": experts.count, "chosen": experts.chosen}
        for name, size in sizes.items():
            if size < 1:
                raise InputError(f"{self.name}: {name} is {size}; it must be 1 or more.")
        if heads % layer.key_heads:
            raise InputError(f"{self.name}: {heads} heads share {layer.key_heads} keys; one must divide the other.")
        if experts is not None and experts.chosen > experts.count:
            raise InputError(
                f"{self.name}: a token takes {experts.chosen} of {experts.count} experts; that is too many."
            )

    @property
    def sizes(self) -> list[LayerSizes]:
        """Sizes of each layer; equal layers share an object."""
        return [self.kinds[layer] for layer in self.layers]

    @cached_property
    def kinds(self) -> dict[Layer, LayerSizes]:
        """The distinct layers in order of appearance, with their sizes."""
        return {layer: LayerSizes(layer, self.hidden, self._norm) for layer in dict.fromkeys(self.layers)}

    @property
    def experts(self) -> tuple[int, ...]:
        """The distinct numbers of routed experts of layers."""
        return tuple(sorted({sizes.experts.count for sizes in self.kinds.values() if sizes.experts is not None}))

    @property
    def _norm(self) -> int:
        return norm_parameters(self.norm, self.hidden)

    @property
    def table_width(self) -> int:
        """Width of the token embeddings."""
        return self.hidden if self.embedding is None else self.embedding

    @property
    def widening(self) -> int:
        """Number of weights of the matrix between token embeddings and layers; 0 without one."""
        return self.table_width * self.hidden if self.table_width != self.hidden else 0

    @property
    def table_parameters(self) -> int:
        """Number of parameters of the token embeddings, which the head shares where they are tied."""
        return self.vocabulary * self.table_width

    @property
    def embedding_parameters(self) -> int:
        """Number of parameters before the layers."""
        return self.table_parameters + self.widening + self.before

    @property
    def head_parameters(self) -> int:
        """Number of parameters after the layers; tied token embeddings count here as well."""
        head = self.head * (self.table_parameters + self.widening)
        return head + self.pooled * (self.hidden**2 + self.hidden) + self.after

    @property
    def parameters(self) -> int:
        """Number of trained parameters; tied token embeddings count once.

        Examples
        --------
        >>> from instances.planning.grid.transformer import TRANSFORMERS
        >>> TRANSFORMERS["llama-3-8b"].parameters
        8030261248
        """
        ends = self.embedding_parameters + self.head_parameters - self.tied * self.head * self.table_parameters
        return sum(sizes.parameters for sizes in self.sizes) + ends

    def check_degree(self, tp: int) -> None:
        """Refuse a degree of tensor parallelism that does not divide heads, keys or inner widths of some layer.

        Raises
        ------
        InputError
            If the degree does not divide them; the vocabulary is padded, as runtimes do.
        """
        for layer in self.kinds.values():
            counts = {"heads": layer.attention.heads, "heads of keys": layer.key_heads, "inner width": layer.inner}
            counts["inner width of experts"] = 0 if layer.experts is None else layer.experts.inner
            for what, count in counts.items():
                if count % tp:
                    raise InputError(f"{self.name}: a tensor degree of {tp} does not divide {count}, its {what}.")


# Language models by name, with the sizes of their publications.


_llama = partial(Transformer.uniform, vocabulary=128256, rotary_base=500_000.0)
_gpt = partial(Transformer.uniform, vocabulary=50257, positions=1024, gated=False, biases=True, dropout=True, tied=True)
_bert = partial(
    Transformer.uniform,
    vocabulary=30522,
    positions=512,
    segments=2,
    gated=False,
    biases=True,
    dropout=True,
    causal=False,
)

_PUBLISHED = (
    _gpt(name="gpt2", layers=12, hidden=768, heads=12, key_heads=12, inner=3072),
    _bert(name="bert-base", layers=12, hidden=768, heads=12, key_heads=12, inner=3072),
    _bert(name="bert-large", layers=24, hidden=1024, heads=16, key_heads=16, inner=4096),
    _bert(name="bert-48", layers=48, hidden=1024, heads=16, key_heads=16, inner=4096),
    _llama(
        name="llama-2-7b",
        layers=32,
        hidden=4096,
        heads=32,
        key_heads=32,
        inner=11008,
        vocabulary=32000,
        rotary_base=10_000.0,
    ),
    _llama(name="llama-3-8b", layers=32, hidden=4096, heads=32, key_heads=8, inner=14336),
    _llama(name="llama-3-70b", layers=80, hidden=8192, heads=64, key_heads=8, inner=28672),
    _llama(
        name="mixtral-8x7b",
        layers=32,
        hidden=4096,
        heads=32,
        key_heads=8,
        inner=14336,
        vocabulary=32000,
        experts=8,
        chosen=2,
        rotary_base=1e6,
    ),
)

#: Name to sizes.
TRANSFORMERS = {model.name: model for model in _PUBLISHED}


# Language models from their configurations.


def transformer_of(sizes: Decoder | Encoder, name: str) -> Transformer:
    """The model of a decoder or an encoder.

    Raises
    ------
    UnknownLayersError
        If no costs are known of one of its layers; the message names what is in the way.
    """
    return _of_encoder(sizes, name) if isinstance(sizes, Encoder) else _of_decoder(sizes, name)


def _of_encoder(encoder: Encoder, name: str) -> Transformer:
    width, hidden = encoder.hidden // encoder.heads, encoder.hidden
    attention = Attention(encoder.heads, encoder.heads, width, width, bias=True, output_bias=True)
    layer = Layer((attention,), FeedForward(encoder.inner, gated=False, bias=True), norms=2)
    table = encoder.embedding or hidden
    rows = encoder.positions + encoder.segments + encoder.tasks
    norm = norm_parameters("layer", table) if encoder.embedding_norm else 0
    return Transformer(
        name=name,
        hidden=hidden,
        vocabulary=encoder.vocabulary,
        layers=(layer,) * encoder.layers,
        norm="layer",
        embedding=table,
        positions=encoder.positions - encoder.unused_positions,
        before=rows * table + norm + encoder.projected * hidden,
        after=norm_parameters("layer", hidden) if encoder.final else 0,
        dropout=True,
        causal=False,
        head=False,
        pooled=encoder.pooled,
    )


def _of_decoder(decoder: Decoder, name: str) -> Transformer:
    """The model of a decoder; a head without words counts with its parameters, not with its work."""
    norm = norm_parameters(decoder.norm, decoder.hidden)
    headed, table, after = decoder.labels is None, decoder.embedding, decoder.final_norm * norm
    if decoder.labels is None:
        after += decoder.head_bias * decoder.vocabulary
    else:
        narrowed = decoder.hidden * table if table != decoder.hidden else 0
        after += narrowed + decoder.labels * (table + decoder.head_bias)
    return Transformer(
        name=name,
        hidden=decoder.hidden,
        vocabulary=decoder.vocabulary,
        layers=decoder.layers,
        norm=decoder.norm,
        embedding=table,
        positions=decoder.positions,
        before=decoder.positions * decoder.hidden + decoder.embedding_norm * norm,
        after=after,
        head=headed,
        tied=decoder.tied and headed,
        rotary_base=decoder.rotary_base,
    )
