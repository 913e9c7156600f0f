"""Fields of configurations, and the record of a decoder that is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from instances.json_files import Value

# Numbers of a configuration: what it says, else the default of its model type; absurd ones are refused.


#: Largest width, vocabulary or number of experts, and largest number of layers, of which graphs of operators are made.
_MOST, MOST_LAYERS = 2**28, 1000


@dataclass(frozen=True)
class Fields:
    """Fields of a configuration.

    Parameters
    ----------
    members : mapping of str to Value
        Fields of the file.
    defaults : mapping
        Defaults of the model type.
    aliases : mapping of str to str
        Alias to field, in the model type.
    words : mapping
        The entries of `decoders.toml` for the model type.
    whole_file : Value
        The whole configuration, for messages.
    """

    members: Mapping[str, Value]
    defaults: Mapping[str, Any]
    aliases: Mapping[str, str]
    words: Mapping[str, Any]
    whole_file: Value
    warnings: list[str] = field(default_factory=list)

    def value(self, name: str) -> Value:
        """The value of a field; null if it is missing."""
        field_name = self.aliases.get(name, name)
        names = [*(alias for alias, target in self.aliases.items() if target == field_name), field_name]
        stated = [candidate for candidate in self.members if candidate in names]
        if stated:  # what is no field of its type is set last, in the order of the file
            return self.members[max(reversed(stated), key=lambda candidate: candidate not in self.defaults)]
        default = next((self.defaults[candidate] for candidate in names if candidate in self.defaults), None)
        return Value(default, self.whole_file.file, name)

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.value(name).data is not None

    def whole(self, name: str, least: int = 1, largest: int = _MOST) -> int:
        """A whole number in its range."""
        value = self.value(name)
        if value.data is None:
            value.fail("it is missing; add this field, which the model needs.")
        number = value.data if isinstance(value.data, float) and value.data.is_integer() else value.whole()
        if not least <= number <= largest:
            value.fail(f"the number is {number:.10g}; it must be from {least} to {largest}.")
        return int(number)

    def whole_or(self, name: str, default: int, least: int = 1) -> int:
        """A whole number, or the default where there is none."""
        return self.whole(name, least) if self.has(name) else default

    def truth(self, name: str) -> bool:
        """The value of a boolean field; false if it is missing."""
        value = self.value(name)
        return False if value.data is None else value.truth()

    def word(self, name: str) -> Any:
        """The entry `name` of `decoders.toml` for the model type; None if there is none."""
        return self.words.get(name)

    def says(self, name: str) -> bool:
        """Whether an entry of `decoders.toml` holds: true, false, or the name of the field that decides."""
        word = self.words.get(name, False)
        return word if isinstance(word, bool) else self.truth(word)


# The record of a decoder: what its configuration means, in sizes alone.


@dataclass(frozen=True)
class Attention:
    """Attention whose keys and values are kept for each token."""

    heads: int  # heads of the queries
    key_heads: int  # heads of keys and values, each for several heads of the queries
    width: int  # elements of a query, and of a key
    value_width: int
    window: int | None = None  # tokens that are attended to, the newest included; None for all
    chunked: bool = False  # whether the window is one of parts of the sequence that attend to themselves alone
    bias: bool = False  # whether the products for queries, keys and values have biases
    output_bias: bool = False
    norms: tuple[int, int] = (0, 0)  # parameters of the norms of queries and of keys
    gate: int = 0  # outputs of a product of the layer's input that multiplies the output: a head's, or all; 0 without
    gate_bias: bool = False
    vectors: int = 0  # other parameters, such as sinks
    passes: int = 1  # how often all scores are computed
    separate_values: bool = True  # False: values are made of the product that makes keys

    @property
    def token_elements(self) -> int:
        """Elements that the cache keeps of a token."""
        return self.key_heads * (self.width + self.value_width)


@dataclass(frozen=True)
class Indexer:
    """Indexer of sparse attention: its scores choose the tokens to attend to; it has a key cache of its own."""

    heads: int
    width: int  # of a query and of the key that all heads share
    chosen: int


@dataclass(frozen=True)
class LatentAttention:
    """Attention that caches a latent vector of each token, from which each step computes keys and values anew."""

    heads: int
    rank: int  # width of the latent vector
    rotary: int  # width of the part of a key that all heads share
    plain: int  # width of the rest of a key
    value_width: int
    query_rank: int | None  # None: queries are made of the layer's input
    bias: bool = False
    vectors: int = 0
    indexer: Indexer | None = None

    @property
    def token_elements(self) -> int:
        """Elements that the cache keeps of a token, without those of an indexer."""
        return self.rank + self.rotary


@dataclass(frozen=True)
class Linear:
    """A matrix with its bias, or two of them with a narrow width between."""

    inputs: int
    outputs: int
    bias: bool = False
    between: int = 0


@dataclass(frozen=True)
class Recurrence:
    """A layer whose state does not grow with the context: state spaces, linear attention, short convolutions."""

    kind: str  # name of its operator
    before: tuple[Linear, ...]  # products with the layer's input
    channels: int  # of the causal convolution; 0 without one
    kernel: int  # its length
    conv_bias: bool
    inner: tuple[Linear, ...]  # products with what the convolution gives
    after: Linear
    multiply_adds: int  # of the recurrence for a token
    state: int  # elements that are kept of a sequence, those of the convolution included
    vectors: int = 0  # other parameters


@dataclass(frozen=True)
class Experts:
    """Experts of a feed-forward network, of which a router chooses some for each token."""

    count: int
    chosen: int
    inner: int
    shared: int = 0  # inner width of the expert that all tokens take; 0 without one
    shared_gate: bool = False
    bias: bool = False  # of each expert
    router_vectors: int = 0  # parameters of the router besides its matrix
    width: int = 0  # of what they read and give, where matrices of all experts change the layer's width to it
    groups: tuple[int, int] = (1, 1)  # groups of experts from which those of a token come, at most, and all groups


@dataclass(frozen=True)
class FeedForward:
    """Feed-forward network: dense, or with experts."""

    inner: int
    gated: bool
    bias: bool = False
    vectors: int = 0
    experts: Experts | None = None


@dataclass(frozen=True)
class Layer:
    """A layer: mixers of tokens, such as attention, then a feed-forward network; either may be missing."""

    mixers: tuple[Attention | LatentAttention | Recurrence, ...]
    feed: FeedForward | None
    norms: int  # number of norms of the layer's width that have parameters
    vectors: int = 0  # parameters of other vectors


@dataclass(frozen=True)
class Decoder:
    """A decoder of a configuration."""

    kind: str  # model type
    hidden: int
    vocabulary: int
    tied: bool  # whether the head is the table of words
    norm: str  # rms, layer, plain (a scale alone) or none
    layers: tuple[Layer, ...]
    embedding: int  # width of the table of words; a matrix makes it `hidden`
    positions: int  # rows of the learned table of positions
    embedding_norm: bool
    final_norm: bool
    head_bias: bool
    stack: str  # path of the layers
    before: tuple[str, ...]  # modules before them
    after: tuple[str, ...]  # modules after them
    rotary_base: float | None = None  # of rotary positions; None if nothing states it
    longest: int | None = None  # most tokens of a sequence; None if nothing states it
    quantized: str | None = None  # fp8, int8, fp4 or int4, in which weights of layers are; "" in others, None if not
    labels: int | None = None  # outputs of a classifier in place of the head that yields words; 0 without any head

    @property
    def modules(self) -> dict[str, Any]:
        """Paths of the modules before the layers, of the layers without their number, and behind them."""
        head = [self.after[-1]] if self.labels is None else ["score"] * bool(self.labels)
        return {"before": [*self.before], "layers": self.stack, "after": [*self.after[:-1], *head]}
