"""Fields of configurations, headers of weights, and what is read of both."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from instances.errors import InputError
from instances.json_files import Value, check_readable

# Numbers of a configuration: what it says, else the default of its model type; absurd ones are refused.


#: Largest width, vocabulary or number of experts, and largest number of layers.
_MOST, MOST_LAYERS = 2**28, 10_000


@dataclass(frozen=True)
class Fields:
    """Fields of a configuration.

    Parameters
    ----------
    members : mapping of str to Value
        Of the file.
    defaults : mapping
        Of the model type.
    aliases : mapping of str to str
        What the model type calls some fields.
    words : mapping
        What is fixed for the model type; `decoders.toml` explains them.
    whole_file : Value
        For messages.
    """

    members: Mapping[str, Value]
    defaults: Mapping[str, Any]
    aliases: Mapping[str, str]
    words: Mapping[str, Any]
    whole_file: Value
    warnings: list[str] = field(default_factory=list)

    def value(self, name: str) -> Value:
        """The value of a field, null where it is nowhere."""
        names = [
            self.aliases.get(name, name),
            name,
            *(alias for alias, target in self.aliases.items() if target == name),
        ]
        for candidate in names:
            if candidate in self.members:
                return self.members[candidate]
        default = next((self.defaults[candidate] for candidate in names if candidate in self.defaults), None)
        return Value(default, self.whole_file.file, name)

    def has(self, name: str) -> bool:
        """Whether the field has a value."""
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
        """True or false; false where nothing is said."""
        value = self.value(name)
        return False if value.data is None else value.truth()

    def word(self, name: str) -> Any:
        """A word of the model type."""
        return self.words.get(name)

    def says(self, name: str) -> bool:
        """A word that is true, false, or the field that decides."""
        word = self.words.get(name, False)
        return word if isinstance(word, bool) else self.truth(word)


# Headers of files of weights, safetensors and GGUF: names, elements and bytes of their tensors, no weight is read.


#: Bytes of the largest header that is read, and tensors of the longest list.
_MOST_BYTES, _MOST_TENSORS = 100 * 2**20, 1_000_000
#: Widths of elements in bits; types that pack several elements, or scales, are missing.
_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16}
_PACKED = ("I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4")
#: Elements and bytes of a block of each type of GGUF, by its number (ggml-common.h).
_BLOCKS = {
    **{0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292)},
    **{16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82)},
    **{23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2)},
    **{34: (256, 54), 35: (256, 66), 39: (32, 17)},
}
#: Bytes of a value of each type in the metadata of GGUF; 8 is a text, 9 a list.
_VALUES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class StoredTensor(NamedTuple):
    """A tensor of a file of weights."""

    name: str
    elements: int
    bytes: int
    plain: bool  # whether its elements are floating-point numbers, one after the other


def read_headers(file: Path) -> list[StoredTensor]:
    """The tensors of a file of weights.

    Raises
    ------
    InputError
        If its header is damaged or too large.
    """
    check_readable(file)
    read = _gguf if file.suffix == ".gguf" else _safetensors
    try:
        with file.open("rb") as stream:
            return read(stream, file, file.stat().st_size)
    except (struct.error, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file}: its header is damaged; get the file anew, or move it elsewhere.") from None


def _safetensors(stream: BinaryIO, file: Path, size: int) -> list[StoredTensor]:
    (length,) = struct.unpack("<Q", stream.read(8))
    if length > min(_MOST_BYTES, size - 8):
        raise InputError(f"{file}: its header would have {length} bytes; get the file anew, or move it elsewhere.")
    header = json.loads(stream.read(length))
    tensors = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        kind, elements = entry["dtype"], math.prod(_sizes(entry["shape"]))
        if not 0 <= begin <= end <= size - 8 - length or (
            kind in _BITS and 8 * (end - begin) != elements * _BITS[kind]
        ):
            raise InputError(f"{file}: tensor {name} has other bytes than its shape; get the file anew.")
        if kind not in _BITS and kind not in _PACKED:
            raise InputError(f"{file}: tensor {name} has the unknown type {kind}; move the file elsewhere.")
        tensors.append(StoredTensor(name, elements, end - begin, kind in _BITS))
    return tensors


def _sizes(shape: object) -> list[int]:
    if not isinstance(shape, list) or len(shape) > 8 or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
        raise ValueError
    return shape


def _gguf(stream: BinaryIO, file: Path, size: int) -> list[StoredTensor]:
    magic, version, tensors, values = struct.unpack("<4sIQQ", stream.read(24))
    if magic != b"GGUF" or version not in (2, 3) or max(tensors, values) > _MOST_TENSORS:
        raise InputError(f"{file}: this is no GGUF file of version 2 or 3; get the file anew, or move it elsewhere.")
    for _ in range(values):
        _text(stream)
        _skip(stream, _number(stream, "<I"))
    return list(_gguf_tensors(stream, file, tensors, size))


def _gguf_tensors(stream: BinaryIO, file: Path, count: int, size: int) -> Iterator[StoredTensor]:
    for _ in range(count):
        name, axes = _text(stream), _number(stream, "<I")
        if axes > 8:
            raise ValueError
        elements = math.prod(_sizes([_number(stream, "<Q") for _ in range(axes)]))
        kind, offset = _number(stream, "<I"), _number(stream, "<Q")
        if kind not in _BLOCKS:
            raise InputError(f"{file}: tensor {name} has the unknown type {kind}; move the file elsewhere.")
        block, width = _BLOCKS[kind]
        stored_bytes = -(-elements // block) * width
        if offset + stored_bytes > size:
            raise InputError(f"{file}: tensor {name} ends after the file; get the file anew.")
        yield StoredTensor(name, elements, stored_bytes, kind in (0, 1, 28, 30))


def _number(stream: BinaryIO, form: str) -> int:
    return int(struct.unpack(form, stream.read(struct.calcsize(form)))[0])


def _text(stream: BinaryIO) -> str:
    length = _number(stream, "<Q")
    if length > _MOST_BYTES or stream.tell() > _MOST_BYTES:
        raise ValueError
    text = stream.read(length)
    if len(text) < length:
        raise ValueError
    return text.decode()


def _skip(stream: BinaryIO, kind: int) -> None:
    if kind == 8:
        _text(stream)
    elif kind == 9:
        inner, count = _number(stream, "<I"), _number(stream, "<Q")
        if inner in _VALUES:
            stream.seek(_VALUES[inner] * min(count, _MOST_BYTES), 1)
        elif inner == 8:
            for _ in range(min(count, 10 * _MOST_TENSORS)):
                _text(stream)
        else:
            raise ValueError
    else:
        stream.seek(_VALUES[kind], 1)


# The record of a decoder: what its configuration means, in sizes alone.


@dataclass(frozen=True)
class Attention:
    """Attention whose keys and values are kept for each token."""

    heads: int  # of the queries
    key_heads: int  # of keys and values, each for several heads of the queries
    width: int  # of a query and a key
    value_width: int
    window: int | None = None  # tokens that are attended to, the newest included; None for all
    chunked: bool = False  # whether the window is one of parts of the sequence that attend to themselves alone
    bias: bool = False  # of queries, keys and values
    output_bias: bool = False
    norms: tuple[int, int] = (0, 0)  # parameters of the norms of queries and of keys
    gate: int = 0  # outputs of a product of the layer's input that multiplies the output: a head's, or all; 0 without
    gate_bias: bool = False
    vectors: int = 0  # other parameters, such as sinks
    passes: int = 1  # how often all scores are computed
    own_values: bool = True  # False: values are made of the product that makes keys

    @property
    def token_elements(self) -> int:
        """Elements that the cache keeps of a token."""
        return self.key_heads * (self.width + self.value_width)


@dataclass(frozen=True)
class Indexer:
    """Scores by which each token chooses those that it attends to; it keeps keys of its own."""

    heads: int
    width: int  # of a query and of the key that all heads share
    chosen: int


@dataclass(frozen=True)
class LatentAttention:
    """Attention that keeps a latent vector of each token, from which keys and values are made again in each step."""

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
        """Elements that the cache keeps of a token, those of an indexer apart."""
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
    """A layer: what mixes tokens, then a feed-forward network, either of which may be missing."""

    mixers: tuple[Attention | LatentAttention | Recurrence, ...]
    feed: FeedForward | None
    norms: int  # of the layer's width, with parameters
    vectors: int = 0


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

    @property
    def modules(self) -> dict[str, Any]:
        """Paths of the modules before the layers, of the layers without their number, and behind them."""
        return {"before": [*self.before], "layers": self.stack, "after": [*self.after]}
