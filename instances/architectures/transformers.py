"""Transformers: encoders, decoders and both together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from instances.architectures.architecture import (
    INDEX_BYTES,
    Architecture,
    Cache,
    attention,
    causal_mask,
    feed_forward,
    last_token,
    positions,
    tokens,
)
from instances.architectures.builder import NetworkBuilder, Tensor
from instances.errors import InputError

# Encoders of text of one stack: BERT and those that differ from it in sizes, norms and tables.


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Sizes of an encoder of text; all but the first four are those of BERT (Devlin et al. 2019) by default."""

    layers: int
    hidden: int
    heads: int
    inner: int  # width of the feed-forward networks
    vocabulary: int = 30522
    positions: int = 512  # rows of the learned table of positions
    unused_positions: int = 0  # of these rows, which no token takes
    segments: int = 2  # rows of the table of segments; 0 without one
    tasks: int = 0  # rows of the table of tasks; 0 without one
    embedding: int | None = None  # width of the tables, where a matrix makes it `hidden`
    embedding_norm: bool = True
    pooled: bool = True
    stack: str = "encoder"  # path of the layers
    # Path of a norm behind the last layer. With it norms stand before each branch, without it after each residual.
    final: str = ""

    @property
    def modules(self) -> dict[str, Any]:
        """Paths of the modules before the layers, of the layers without their number, and behind them."""
        behind = [self.final] * bool(self.final) + ["pooler"] * self.pooled
        before = ["embeddings"] + ["embeddings_project"] * self.projected
        return {"before": before, "layers": self.stack, "after": behind}

    @property
    def projected(self) -> bool:
        """Whether a matrix widens the embeddings."""
        return self.embedding not in (None, self.hidden)


def encode(net: NetworkBuilder, *, batch: int, sequence: int, sizes: Encoder) -> None:
    """Record the operators of an encoder with its embeddings and, where it has one, its pooler."""
    limit = sizes.positions - sizes.unused_positions
    if sequence > limit:
        raise InputError(f"sequence is {sequence}, but the network knows {limit} positions; give at most that.")
    words = tokens(net, batch, sequence)
    segments = tokens(net, batch, sequence, "segments") if sizes.segments else None
    tasks = tokens(net, batch, sequence, "tasks") if sizes.tasks else None
    attended = net.input("attention_mask", batch, 1, 1, sequence, element_bytes=INDEX_BYTES)
    width = sizes.embedding or sizes.hidden
    with net.scope("embeddings"):
        x = net.embedding(words, net.parameter("words", sizes.vocabulary, width))
        if segments is not None:
            x = net.add(x, net.embedding(segments, net.parameter("segments", sizes.segments, width)))
        x = net.add(x, positions(net, sizes.positions, sequence, width))
        if tasks is not None:
            x = net.add(x, net.embedding(tasks, net.parameter("tasks", sizes.tasks, width)))
        if sizes.embedding_norm:
            x = net.layer_norm(x)
        mask = net.elementwise("mask", attended)
    if sizes.projected:
        with net.scope("embeddings_project"):
            x = net.linear(x, sizes.hidden)
    for layer in range(sizes.layers):
        with net.scope(f"{sizes.stack}.{layer}"):
            x = _layer(net, x, mask, sizes)
    if sizes.final:
        with net.scope(sizes.final):
            x = net.layer_norm(x)
    if sizes.pooled:
        with net.scope("pooler"):
            first = net.slice(x, batch, sizes.hidden)
            net.tanh(net.linear(first, sizes.hidden))


def _layer(net: NetworkBuilder, x: Tensor, mask: Tensor, sizes: Encoder) -> Tensor:
    """Attention and a feed-forward network, each with its residual and its norm."""
    with net.scope("attention"):
        y = net.layer_norm(x) if sizes.final else x
        query, key, value = (net.linear(y, sizes.hidden, name) for name in ("query", "key", "value"))
        x = net.add(x, attention(net, query, key, value, sizes.heads, mask))
        x = x if sizes.final else net.layer_norm(x)
    with net.scope("feed_forward"):
        y = net.layer_norm(x) if sizes.final else x
        x = net.add(x, feed_forward(net, y, sizes.inner, net.gelu))
        return x if sizes.final else net.layer_norm(x)


# Transformers of one stack: BERT, XLNet, GPT-2, ViT.


_TEXT = {"batch": 1, "sequence": 128}
_DEVLIN = "Devlin et al., BERT: pre-training of deep bidirectional transformers, NAACL 2019"


def gpt2(
    net: NetworkBuilder,
    *,
    batch: int,
    sequence: int,
    layers: int,
    hidden: int,
    heads: int,
    cache: Cache | None = None,
) -> None:
    """GPT-2's decoder with its language-model head (Radford et al. 2019), layer norm before each branch.

    The head uses the table of word embeddings.
    """
    text, vocabulary = tokens(net, batch, sequence), 50257
    with net.scope("embeddings"):
        words = net.parameter("words", vocabulary, hidden)
        x = net.add(net.embedding(text, words), positions(net, 1024, sequence, hidden, cache))
    causal = causal_mask(net, sequence, cache)
    for layer in range(layers):
        with net.scope(f"decoder.{layer}"):
            x = _pre_norm_layer(net, x, heads, causal, cache)
    x = net.layer_norm(x)
    with net.scope("head"):
        net.matmul(last_token(net, x, cache), words.view(hidden, vocabulary))


def vit(net: NetworkBuilder, *, batch: int, image: int, patch: int, layers: int, hidden: int, heads: int) -> None:
    """Vision transformer with its classifier (Dosovitskiy et al. 2021), layer norm before each branch."""
    x = net.input("image", batch, 3, image, image)
    with net.scope("embeddings"):
        x = net.conv(x, hidden, kernel=patch, stride=patch, padding=0, bias=True)
        patches = x.shape[2] * x.shape[3]
        x = x.view(batch, patches, hidden)
        x = net.concat(net.parameter("class_token", 1, 1, hidden), x, axis=1)
        x = net.add(x, net.parameter("positions", 1, patches + 1, hidden))
    for layer in range(layers):
        with net.scope(f"encoder.{layer}"):
            x = _pre_norm_layer(net, x, heads)
    x = net.layer_norm(x)
    with net.scope("head"):
        net.linear(net.slice(x, batch, hidden), 1000)


def _pre_norm_layer(
    net: NetworkBuilder, x: Tensor, heads: int, mask: Tensor | None = None, cache: Cache | None = None
) -> Tensor:
    hidden = x.shape[-1]
    with net.scope("attention"):
        joint = net.linear(net.layer_norm(x), 3 * hidden, "query_key_value")
        query, key, value = net.split(joint, 3 * [hidden], axis=2)
        x = net.add(x, attention(net, query, key, value, heads, mask, cache=cache))
    with net.scope("feed_forward"):
        return net.add(x, feed_forward(net, net.layer_norm(x), 4 * hidden, net.gelu))


def xlnet(net: NetworkBuilder, *, batch: int, sequence: int, layers: int, hidden: int, heads: int) -> None:
    """XLNet as it is fine-tuned, with the content stream alone (Yang et al. 2019), layer norm after each residual."""
    text = tokens(net, batch, sequence)
    segments = tokens(net, batch, sequence, "segments")
    with net.scope("embeddings"):
        x = net.embedding(text, net.parameter("words", 32000, hidden))
        apart = net.operator("same_segment", [segments], [(batch, 1, sequence, sequence)], flops=segments.elements)[0]
    with net.scope("distances"):
        shape = (batch, 2 * sequence, hidden)
        distances = net.operator("sinusoids", [text], [shape], flops=2 * sequence * hidden)[0]
    for layer in range(layers):
        with net.scope(f"encoder.{layer}"):
            with net.scope("attention"):
                x = net.layer_norm(net.add(x, _relative_attention(net, x, distances, apart, heads)))
            with net.scope("feed_forward"):
                x = net.layer_norm(net.add(x, feed_forward(net, x, 4 * hidden, net.gelu)))


def _relative_attention(net: NetworkBuilder, x: Tensor, distances: Tensor, apart: Tensor, heads: int) -> Tensor:
    """Attention whose scores add up terms of content, relative distance and segment.

    Distances of both directions are computed, then shifted so that columns align.
    """
    batch, sequence, hidden = x.shape
    width = hidden // heads
    query, key, value = (net.linear(x, hidden, name, bias=False) for name in ("query", "key", "value"))
    distance = net.linear(distances, hidden, "distance", bias=False)
    of_content, of_distance, of_segment = (
        net.add(query, net.parameter(f"{name}_bias", hidden)).view(batch, heads, sequence, width)
        for name in ("content", "distance", "segment")
    )
    content = net.matmul(of_content, key.view(batch, heads, width, sequence))
    far = net.matmul(of_distance, distance.view(batch, heads, width, 2 * sequence))
    near = net.slice(far, batch, heads, sequence, sequence)
    segment = net.matmul(of_segment, net.parameter("segments", heads, width, 2))
    segment = net.operator("select", [segment, apart], [content.shape], flops=content.elements)[0]
    weights = net.softmax(net.scale(net.add(net.add(content, near), segment)))
    context = net.matmul(weights, value.view(batch, heads, sequence, width))
    return net.linear(context.view(batch, sequence, hidden), hidden, "output", bias=False)


TRANSFORMERS = (
    Architecture(
        "bert-base",
        "BERT encoder, 12 layers of 768",
        partial(encode, sizes=Encoder(layers=12, hidden=768, heads=12, inner=3072)),
        _TEXT,
        _DEVLIN,
    ),
    Architecture(
        "bert-large",
        "BERT encoder, 24 layers of 1024",
        partial(encode, sizes=Encoder(layers=24, hidden=1024, heads=16, inner=4096)),
        _TEXT,
        _DEVLIN,
    ),
    Architecture(
        "bert-48",
        "BERT encoder, 48 layers of 1024",
        partial(encode, sizes=Encoder(layers=48, hidden=1024, heads=16, inner=4096)),
        _TEXT,
        "Li and Hoefler, Chimera: efficiently training large-scale neural networks, SC 2021",
    ),
    Architecture(
        "xlnet-large",
        "XLNet, 24 layers of 1024",
        partial(xlnet, layers=24, hidden=1024, heads=16),
        _TEXT,
        "Yang et al., XLNet: generalized autoregressive pretraining, NeurIPS 2019",
    ),
    Architecture(
        "gpt2",
        "GPT-2 decoder, 12 layers of 768, head tied to the embedding",
        partial(gpt2, layers=12, hidden=768, heads=12),
        _TEXT,
        "Radford et al., Language models are unsupervised multitask learners, 2019",
        served=True,
        longest=1024,
    ),
    Architecture(
        "vit-b16",
        "Vision transformer, 12 layers of 768, patches of 16 by 16",
        partial(vit, patch=16, layers=12, hidden=768, heads=12),
        {"batch": 1, "image": 224},
        "Dosovitskiy et al., An image is worth 16x16 words, ICLR 2021",
    ),
)


# Large language models: Llama and Mixtral, with rotary positions, grouped queries and gated feed-forward networks.


_EXPERTS, _CHOSEN = 8, 2  # of Mixtral: in a layer, for a token
_ROTARY_FLOPS = 3  # two products and a sum
_HEAD = 128  # width of a head in all these models
# Publications with the longest context that they state; that of Llama 3 is before it was extended to Llama 3.1.
_LLAMA_2 = "Touvron et al., Llama 2: open foundation and fine-tuned chat models, arXiv:2307.09288, 2023", 4096
_LLAMA_3 = "Llama team, The Llama 3 herd of models, arXiv:2407.21783, 2024", 8192
_SPARSE = "Mixtral, 32 layers of 4096 with 8 experts, 2 for each token"
_MIXTRAL = "Jiang et al., Mixtral of experts, arXiv:2401.04088, 2024", 32768


class Sizes(NamedTuple):
    """Sizes of a decoder."""

    layers: int
    hidden: int  # width between layers
    key_heads: int  # heads of keys and of values, each of them for several heads of queries
    inner: int  # width within a feed-forward network
    vocabulary: int


def llama(net: NetworkBuilder, *, batch: int, sequence: int, sizes: Sizes, cache: Cache | None = None) -> None:
    """Llama with its language-model head (Touvron et al. 2023), root-mean-square norm before each branch."""

    def feed(layer: int, x: Tensor) -> Tensor:
        with net.scope(f"decoder.{layer}"), net.scope("feed_forward"):
            return net.add(x, _gated_feed_forward(net, net.rms_norm(x), sizes.inner))

    _stack(net, batch, sequence, sizes, feed, cache)


def mixtral(net: NetworkBuilder, *, batch: int, sequence: int, sizes: Sizes, cache: Cache | None = None) -> None:
    """Mixtral with its language-model head (Jiang et al. 2024).

    A router sends each token to two of eight experts, here an equal number to each. Less than four tokens keep less
    than eight experts busy, any of them with the same probability: an expert then costs what it costs on average, and
    the weights of the others are held, but not read. Each expert is a layer of its own at layer level, as are what
    comes before and after them.
    """
    busy = min(_EXPERTS, _CHOSEN * batch * sequence)

    def feed(layer: int, x: Tensor) -> Tensor:
        with net.scope(f"decoder.{layer}"), net.scope("router"):
            chosen, parts = _route(net, net.rms_norm(x))
        outputs = []
        for expert, part in enumerate(parts):
            with net.scope(f"decoder.{layer}.expert{expert}"), net.occasional(busy, _EXPERTS):
                outputs.append(_gated_feed_forward(net, part, sizes.inner))
        with net.scope(f"decoder.{layer}.combine"):
            flops = 2 * _CHOSEN * x.elements
            return net.add(x, net.operator("combine", [*outputs, chosen], [x.shape], flops=flops)[0])

    _stack(net, batch, sequence, sizes, feed, cache)


def _stack(
    net: NetworkBuilder,
    batch: int,
    sequence: int,
    sizes: Sizes,
    feed: Callable[[int, Tensor], Tensor],
    cache: Cache | None,
) -> None:
    """Embeddings, layers of attention followed by `feed`, and the language-model head."""
    text = tokens(net, batch, sequence)
    with net.scope("embeddings"):
        x = net.embedding(text, net.parameter("words", sizes.vocabulary, sizes.hidden))
    # Sines and cosines of the rotary positions (Su et al. 2021); the device holds them.
    angles = net.parameter("angles", sequence, 1, _HEAD, trainable=False)
    causal = causal_mask(net, sequence, cache)
    for layer in range(sizes.layers):
        with net.scope(f"decoder.{layer}"):
            x = _attend(net, x, sizes.key_heads, angles, causal, cache)
        x = feed(layer, x)
    with net.scope("head"):
        net.linear(net.rms_norm(last_token(net, x, cache)), sizes.vocabulary, bias=False)


def _attend(
    net: NetworkBuilder, x: Tensor, key_heads: int, angles: Tensor, causal: Tensor, cache: Cache | None
) -> Tensor:
    hidden = x.shape[-1]
    with net.scope("attention"):
        y = net.rms_norm(x)
        query = _rotated(net, net.linear(y, hidden, "query", bias=False), angles)
        key = _rotated(net, net.linear(y, key_heads * _HEAD, "key", bias=False), angles)
        value = net.linear(y, key_heads * _HEAD, "value", bias=False)
        return net.add(x, attention(net, query, key, value, hidden // _HEAD, causal, bias=False, cache=cache))


def _rotated(net: NetworkBuilder, x: Tensor, angles: Tensor) -> Tensor:
    batch, sequence, width = x.shape
    by_head = x.view(batch, sequence, width // _HEAD, _HEAD)
    return net.elementwise("rotary", by_head, angles, flops_per_element=_ROTARY_FLOPS).view(*x.shape)


def _gated_feed_forward(net: NetworkBuilder, x: Tensor, inner: int) -> Tensor:
    """Feed-forward network whose inner values are gated (SwiGLU, Shazeer 2020)."""
    gate = net.silu(net.linear(x, inner, "gate", bias=False))
    return net.linear(net.multiply(gate, net.linear(x, inner, "up", bias=False)), x.shape[-1], "down", bias=False)


def _route(net: NetworkBuilder, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Weight and number of the experts of each token, and each expert's equal share of the tokens."""
    batch, sequence, hidden = x.shape
    share = -(-batch * sequence * _CHOSEN // _EXPERTS)
    scores = net.softmax(net.linear(x, _EXPERTS, bias=False))
    chosen = net.operator("top_k", [scores], [(batch, sequence, _CHOSEN)], flops=scores.elements)[0]
    return chosen, net.operator("dispatch", [x, chosen], _EXPERTS * [(share, hidden)])


def _decoder(
    name: str, summary: str, published: tuple[str, int], network: Callable[..., None], *sizes: int
) -> Architecture:
    """A published decoder, by its reference and longest context; the numbers are its `Sizes`."""
    sized = partial(network, sizes=Sizes(*sizes))
    return Architecture(name, summary, sized, _TEXT, published[0], served=True, longest=published[1])


DECODERS = (
    _decoder("llama-2-7b", "Llama 2, 32 layers of 4096", _LLAMA_2, llama, 32, 4096, 32, 11008, 32000),
    _decoder("llama-3-8b", "Llama 3, 32 layers of 4096, 8 heads of keys", _LLAMA_3, llama, 32, 4096, 8, 14336, 128256),
    _decoder("llama-3-70b", "Llama 3, 80 layers of 8192, 8 heads of keys", _LLAMA_3, llama, 80, 8192, 8, 28672, 128256),
    _decoder("mixtral-8x7b", _SPARSE, _MIXTRAL, mixtral, 32, 4096, 8, 14336, 32000),
)


# Encoders with decoders: Transformer, T5, Whisper; as they run in training, on a whole target sequence at once.


_WINDOW = 1500  # positions of Whisper's encoder: 30 seconds
_MELS = 80
_VASWANI = "Vaswani et al., Attention is all you need, NeurIPS 2017"
_RAFFEL = "Raffel et al., Exploring the limits of transfer learning with a unified text-to-text transformer, JMLR 2020"


def transformer(net: NetworkBuilder, *, batch: int, sequence: int, layers: int, hidden: int, heads: int) -> None:
    """The translation model of Vaswani et al. (2017), layer norm after each residual, all embeddings tied.

    Source and target have the same length; both stacks have the same number of layers.
    """
    vocabulary = 37000
    words = net.parameter("words", vocabulary, hidden)
    sinusoids = net.parameter("sinusoids", sequence, hidden, trainable=False)
    causal = causal_mask(net, sequence)
    source, target = (tokens(net, batch, sequence, name) for name in ("source", "target"))
    with net.scope("encoder.embeddings"):
        x = net.add(net.scale(net.embedding(source, words)), sinusoids)
    for layer in range(layers):
        with net.scope(f"encoder.{layer}"):
            with net.scope("attention"):
                x = net.layer_norm(net.add(x, _projected(net, x, x, heads, bias=False)))
            with net.scope("feed_forward"):
                x = net.layer_norm(net.add(x, feed_forward(net, x, 4 * hidden, net.relu)))
    memory = x
    with net.scope("decoder.embeddings"):
        x = net.add(net.scale(net.embedding(target, words)), sinusoids)
    for layer in range(layers):
        with net.scope(f"decoder.{layer}"):
            with net.scope("attention"):
                x = net.layer_norm(net.add(x, _projected(net, x, x, heads, causal, bias=False)))
            with net.scope("cross_attention"):
                x = net.layer_norm(net.add(x, _projected(net, x, memory, heads, bias=False)))
            with net.scope("feed_forward"):
                x = net.layer_norm(net.add(x, feed_forward(net, x, 4 * hidden, net.relu)))
    with net.scope("head"):
        net.softmax(net.matmul(x, words.view(hidden, vocabulary)))


def t5(net: NetworkBuilder, *, batch: int, sequence: int, layers: int, hidden: int, heads: int) -> None:
    """T5 (Raffel et al. 2020), root-mean-square norm before each branch, no biases, all embeddings tied.

    The first layer of each stack learns a bias for each head and distance, which all its layers add to their scores.
    Source and target have the same length; both stacks have the same number of layers.
    """
    vocabulary = 32128
    words = net.parameter("words", vocabulary, hidden)
    source, target = (tokens(net, batch, sequence, name) for name in ("source", "target"))
    attend = partial(_projected, net, heads=heads, scaled=False, bias=False)
    feed = partial(feed_forward, net, inner=4 * hidden, activation=net.relu, bias=False)
    with net.scope("encoder.embeddings"):
        x = net.embedding(source, words)
        bias = _distance_bias(net, sequence, heads)
    x = _layers(net, "encoder", layers, x, net.rms_norm, partial(attend, mask=bias), feed)
    with net.scope("encoder.norm"):
        memory = net.rms_norm(x)
    with net.scope("decoder.embeddings"):
        x = net.embedding(target, words)
        bias = net.add(_distance_bias(net, sequence, heads), causal_mask(net, sequence))
    x = _layers(
        net, "decoder", layers, x, net.rms_norm, partial(attend, mask=bias), feed, partial(attend, memory=memory)
    )
    with net.scope("head"):
        net.matmul(net.scale(net.rms_norm(x)), words.view(hidden, vocabulary))


def whisper(net: NetworkBuilder, *, batch: int, sequence: int, layers: int, hidden: int, heads: int) -> None:
    """Whisper (Radford et al. 2023), layer norm before each branch, head tied to the embedding.

    The input of the encoder is 30 seconds: 3000 frames of 80 frequencies; `sequence` counts the tokens of the decoder.
    """
    vocabulary = 51865
    sound = net.input("spectrogram", batch, _MELS, 1, 2 * _WINDOW)
    text = tokens(net, batch, sequence)
    with net.scope("encoder.embeddings"):
        x = net.gelu(net.conv(sound, hidden, kernel=(1, 3), bias=True))
        x = net.gelu(net.conv(x, hidden, kernel=(1, 3), stride=2, bias=True))
        sinusoids = net.parameter("sinusoids", _WINDOW, hidden, trainable=False)
        x = net.add(x.view(batch, _WINDOW, hidden), sinusoids)
    attend = partial(_projected, net, heads=heads, key_bias=False)
    feed = partial(feed_forward, net, inner=4 * hidden, activation=net.gelu)
    x = _layers(net, "encoder", layers, x, net.layer_norm, attend, feed)
    with net.scope("encoder.norm"):
        memory = net.layer_norm(x)
    with net.scope("decoder.embeddings"):
        words = net.parameter("words", vocabulary, hidden)
        x = net.add(net.embedding(text, words), positions(net, 448, sequence, hidden))
    masked = partial(attend, mask=causal_mask(net, sequence))
    x = _layers(net, "decoder", layers, x, net.layer_norm, masked, feed, partial(attend, memory=memory))
    with net.scope("head"):
        net.matmul(net.layer_norm(x), words.view(hidden, vocabulary))


def _layers(
    net: NetworkBuilder,
    name: str,
    layers: int,
    x: Tensor,
    norm: Callable[[Tensor], Tensor],
    attend: Callable[..., Tensor],
    feed: Callable[[Tensor], Tensor],
    cross: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Layers with a norm before each branch: attention of `x` to itself, to the encoder by `cross`, feed-forward."""
    for layer in range(layers):
        with net.scope(f"{name}.{layer}"):
            with net.scope("attention"):
                y = norm(x)
                x = net.add(x, attend(y, memory=y))
            if cross is not None:
                with net.scope("cross_attention"):
                    x = net.add(x, cross(norm(x)))
            with net.scope("feed_forward"):
                x = net.add(x, feed(norm(x)))
    return x


def _projected(
    net: NetworkBuilder,
    x: Tensor,
    memory: Tensor,
    heads: int,
    mask: Tensor | None = None,
    *,
    scaled: bool = True,
    bias: bool = True,
    key_bias: bool | None = None,
) -> Tensor:
    """Attention of `x` to `memory`, with the projections of query, key and value."""
    hidden = x.shape[-1]
    query = net.linear(x, hidden, "query", bias=bias)
    key = net.linear(memory, hidden, "key", bias=bias if key_bias is None else key_bias)
    value = net.linear(memory, hidden, "value", bias=bias)
    return attention(net, query, key, value, heads, mask, scaled=scaled, bias=bias)


def _distance_bias(net: NetworkBuilder, sequence: int, heads: int) -> Tensor:
    """A learned bias for each of 32 buckets of distances and each head, looked up for all pairs of positions."""
    table = net.parameter("distances", 32, heads)
    return net.operator("distance_bias", [table], [(1, heads, sequence, sequence)])[0]


ENCODER_DECODERS = (
    Architecture(
        "transformer-base",
        "Transformer for translation, 6 and 6 layers of 512",
        partial(transformer, layers=6, hidden=512, heads=8),
        _TEXT,
        _VASWANI,
    ),
    Architecture(
        "transformer-big",
        "Transformer for translation, 6 and 6 layers of 1024",
        partial(transformer, layers=6, hidden=1024, heads=16),
        _TEXT,
        _VASWANI,
    ),
    Architecture("t5-small", "T5, 6 and 6 layers of 512", partial(t5, layers=6, hidden=512, heads=8), _TEXT, _RAFFEL),
    Architecture(
        "t5-base", "T5, 12 and 12 layers of 768", partial(t5, layers=12, hidden=768, heads=12), _TEXT, _RAFFEL
    ),
    Architecture(
        "whisper-base",
        "Whisper, 30 seconds of speech to text, 6 and 6 layers of 512",
        partial(whisper, layers=6, hidden=512, heads=8),
        _TEXT,
        "Radford et al., Robust speech recognition via large-scale weak supervision, ICML 2023",
    ),
)
