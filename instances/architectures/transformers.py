"""Transformers: BERT, GPT-2, ViT."""

from __future__ import annotations

from functools import partial

from instances.architectures.architecture import Architecture
from instances.architectures.builder import Tensor
from instances.architectures.operators import NetworkBuilder
from instances.errors import InputError

__all__ = ["TRANSFORMERS", "bert", "gpt2", "vit"]

_INDEX_BYTES = 8


def bert(net: NetworkBuilder, *, batch: int, sequence: int, layers: int, hidden: int, heads: int) -> None:
    """BERT's encoder with embeddings and pooler (Devlin et al. 2019), layer norm after each residual."""
    tokens = net.input("tokens", batch, sequence, element_bytes=_INDEX_BYTES)
    segments = net.input("segments", batch, sequence, element_bytes=_INDEX_BYTES)
    attended = net.input("attention_mask", batch, 1, 1, sequence, element_bytes=_INDEX_BYTES)
    with net.scope("embeddings"):
        x = net.embedding(tokens, net.parameter("words", 30522, hidden))
        x = net.add(x, net.embedding(segments, net.parameter("segments", 2, hidden)))
        x = net.add(x, _positions(net, 512, sequence, hidden))
        x = net.layer_norm(x)
        mask = net.elementwise("mask", attended)
    for layer in range(layers):
        with net.scope(f"encoder.{layer}"):
            with net.scope("attention"):
                query, key, value = (net.linear(x, hidden, name) for name in ("query", "key", "value"))
                x = net.layer_norm(net.add(x, _attention(net, query, key, value, heads, mask)))
            with net.scope("feed_forward"):
                x = net.layer_norm(net.add(x, _feed_forward(net, x)))
    with net.scope("pooler"):
        first = net.slice(x, batch, hidden)
        net.tanh(net.linear(first, hidden))


def gpt2(net: NetworkBuilder, *, batch: int, sequence: int, layers: int, hidden: int, heads: int) -> None:
    """GPT-2's decoder with its language-model head (Radford et al. 2019), layer norm before each branch.

    The head uses the table of word embeddings.
    """
    tokens = net.input("tokens", batch, sequence, element_bytes=_INDEX_BYTES)
    vocabulary = 50257
    with net.scope("embeddings"):
        words = net.parameter("words", vocabulary, hidden)
        x = net.add(net.embedding(tokens, words), _positions(net, 1024, sequence, hidden))
    causal = net.parameter("causal_mask", sequence, sequence, trainable=False)
    for layer in range(layers):
        with net.scope(f"decoder.{layer}"):
            x = _pre_norm_layer(net, x, heads, causal)
    x = net.layer_norm(x)
    with net.scope("head"):
        net.matmul(x, words.view(hidden, vocabulary))


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


def _pre_norm_layer(net: NetworkBuilder, x: Tensor, heads: int, mask: Tensor | None = None) -> Tensor:
    hidden = x.shape[-1]
    with net.scope("attention"):
        joint = net.linear(net.layer_norm(x), 3 * hidden, "query_key_value")
        query, key, value = net.split(joint, 3 * [hidden], axis=2)
        x = net.add(x, _attention(net, query, key, value, heads, mask))
    with net.scope("feed_forward"):
        return net.add(x, _feed_forward(net, net.layer_norm(x)))


def _attention(
    net: NetworkBuilder, query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor | None
) -> Tensor:
    """Scaled dot-product attention with several heads and its output projection (Vaswani et al. 2017)."""
    batch, queries, hidden = query.shape
    keys, width = key.shape[1], hidden // heads
    scores = net.matmul(query.view(batch, heads, queries, width), key.view(batch, heads, width, keys))
    scores = net.scale(scores)
    if mask is not None:
        scores = net.add(scores, mask)
    context = net.matmul(net.softmax(scores), value.view(batch, heads, keys, width))
    return net.linear(context.view(batch, queries, hidden), hidden, "output")


def _feed_forward(net: NetworkBuilder, x: Tensor) -> Tensor:
    hidden = x.shape[-1]
    return net.linear(net.gelu(net.linear(x, 4 * hidden, "up")), hidden, "down")


def _positions(net: NetworkBuilder, available: int, sequence: int, hidden: int) -> Tensor:
    if sequence > available:
        raise InputError(f"sequence is {sequence}, but the network knows {available} positions; give at most that.")
    return net.slice(net.parameter("positions", available, hidden), sequence, hidden)


_TEXT = {"batch": 1, "sequence": 128}
_DEVLIN = "Devlin et al., BERT: pre-training of deep bidirectional transformers, NAACL 2019"

TRANSFORMERS = (
    Architecture(
        "bert-base",
        "BERT encoder, 12 layers of 768",
        partial(bert, layers=12, hidden=768, heads=12),
        _TEXT,
        _DEVLIN,
    ),
    Architecture(
        "bert-large",
        "BERT encoder, 24 layers of 1024",
        partial(bert, layers=24, hidden=1024, heads=16),
        _TEXT,
        _DEVLIN,
    ),
    Architecture(
        "gpt2",
        "GPT-2 decoder, 12 layers of 768, head tied to the embedding",
        partial(gpt2, layers=12, hidden=768, heads=12),
        _TEXT,
        "Radford et al., Language models are unsupervised multitask learners, 2019",
    ),
    Architecture(
        "vit-b16",
        "Vision transformer, 12 layers of 768, patches of 16 by 16",
        partial(vit, patch=16, layers=12, hidden=768, heads=12),
        {"batch": 1, "image": 224},
        "Dosovitskiy et al., An image is worth 16x16 words, ICLR 2021",
    ),
)
