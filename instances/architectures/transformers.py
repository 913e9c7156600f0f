"""Transformers of one stack: BERT, XLNet, GPT-2, ViT."""

from __future__ import annotations

from functools import partial

from instances.architectures.architecture import Architecture
from instances.architectures.attention import (
    attention,
    causal_mask,
    feed_forward,
    last_token,
    positions,
    tokens,
)
from instances.architectures.builder import Tensor
from instances.architectures.encoders import Encoder, encode
from instances.architectures.operators import NetworkBuilder
from instances.architectures.serving import Cache

__all__ = ["TRANSFORMERS", "gpt2", "vit", "xlnet"]
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
    """Attention whose scores add up content, distance (of both signs, then shifted in place) and segment."""
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
    ),
    Architecture(
        "vit-b16",
        "Vision transformer, 12 layers of 768, patches of 16 by 16",
        partial(vit, patch=16, layers=12, hidden=768, heads=12),
        {"batch": 1, "image": 224},
        "Dosovitskiy et al., An image is worth 16x16 words, ICLR 2021",
    ),
)
