"""Encoders with decoders: Transformer, T5, Whisper; as they run in training, on a whole target sequence at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from instances.architectures.architecture import Architecture
from instances.architectures.attention import attention, causal_mask, feed_forward, positions, tokens
from instances.architectures.builder import Tensor
from instances.architectures.operators import NetworkBuilder

__all__ = ["ENCODER_DECODERS", "t5", "transformer", "whisper"]

_WINDOW = 1500  # positions of Whisper's encoder: 30 seconds
_MELS = 80
_TEXT = {"batch": 1, "sequence": 128}
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
    x = _stack(net, "encoder", layers, x, net.rms_norm, partial(attend, mask=bias), feed)
    with net.scope("encoder.norm"):
        memory = net.rms_norm(x)
    with net.scope("decoder.embeddings"):
        x = net.embedding(target, words)
        bias = net.add(_distance_bias(net, sequence, heads), causal_mask(net, sequence))
    x = _stack(
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
    x = _stack(net, "encoder", layers, x, net.layer_norm, attend, feed)
    with net.scope("encoder.norm"):
        memory = net.layer_norm(x)
    with net.scope("decoder.embeddings"):
        words = net.parameter("words", vocabulary, hidden)
        x = net.add(net.embedding(text, words), positions(net, 448, sequence, hidden))
    masked = partial(attend, mask=causal_mask(net, sequence))
    x = _stack(net, "decoder", layers, x, net.layer_norm, masked, feed, partial(attend, memory=memory))
    with net.scope("head"):
        net.matmul(net.layer_norm(x), words.view(hidden, vocabulary))


def _stack(
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
