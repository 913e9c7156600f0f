"""Large language models: Llama and Mixtral, with rotary positions, grouped queries and gated feed-forward networks."""

from __future__ import annotations

from functools import partial

from instances.architectures.architecture import Architecture
from instances.architectures.attention import attention, causal_mask, last_token, tokens
from instances.architectures.builder import Tensor
from instances.architectures.operators import NetworkBuilder
from instances.architectures.serving import Cache

__all__ = ["DECODERS", "llama", "mixtral"]

_EXPERTS, _CHOSEN = 8, 2  # of Mixtral: in a layer, for a token
_ROTARY_FLOPS = 3  # two products and a sum
_HEAD = 128  # width of a head in all these models
_TEXT = {"batch": 1, "sequence": 128}
_LLAMA_3 = "Llama team, The Llama 3 herd of models, arXiv:2407.21783, 2024"


def llama(
    net: NetworkBuilder,
    *,
    batch: int,
    sequence: int,
    layers: int,
    hidden: int,
    key_heads: int,
    inner: int,
    vocabulary: int,
    cache: Cache | None = None,
) -> None:
    """Llama with its language-model head (Touvron et al. 2023), root-mean-square norm before each branch."""
    x = _embeddings(net, batch, sequence, hidden, vocabulary)
    angles, causal = _angles(net, sequence), causal_mask(net, sequence, cache)
    for layer in range(layers):
        with net.scope(f"decoder.{layer}"):
            x = _attend(net, x, key_heads, angles, causal, cache)
            with net.scope("feed_forward"):
                x = net.add(x, _gated_feed_forward(net, net.rms_norm(x), inner))
    _language_head(net, x, vocabulary, cache)


def mixtral(
    net: NetworkBuilder,
    *,
    batch: int,
    sequence: int,
    layers: int,
    hidden: int,
    key_heads: int,
    inner: int,
    vocabulary: int,
    cache: Cache | None = None,
) -> None:
    """Mixtral with its language-model head (Jiang et al. 2024).

    A router sends each token to two of eight experts, here an equal number to each. Less than four tokens keep less
    than eight experts busy, any of them with the same probability: an expert then costs what it costs on average, and
    the weights of the others are held, but not read. Each expert is a layer of its own at layer level, as are what
    comes before and after them.
    """
    x = _embeddings(net, batch, sequence, hidden, vocabulary)
    angles, causal = _angles(net, sequence), causal_mask(net, sequence, cache)
    for layer in range(layers):
        with net.scope(f"decoder.{layer}"):
            x = _attend(net, x, key_heads, angles, causal, cache)
            with net.scope("router"):
                chosen, parts = _route(net, net.rms_norm(x))
        outputs = []
        busy = min(_EXPERTS, _CHOSEN * batch * sequence)
        for expert, part in enumerate(parts):
            with net.scope(f"decoder.{layer}.expert{expert}"), net.occasional(busy, _EXPERTS):
                outputs.append(_gated_feed_forward(net, part, inner))
        with net.scope(f"decoder.{layer}.combine"):
            flops = 2 * _CHOSEN * x.elements
            x = net.add(x, net.operator("combine", [*outputs, chosen], [x.shape], flops=flops)[0])
    _language_head(net, x, vocabulary, cache)


def _embeddings(net: NetworkBuilder, batch: int, sequence: int, hidden: int, vocabulary: int) -> Tensor:
    text = tokens(net, batch, sequence)
    with net.scope("embeddings"):
        return net.embedding(text, net.parameter("words", vocabulary, hidden))


def _language_head(net: NetworkBuilder, x: Tensor, vocabulary: int, cache: Cache | None) -> None:
    with net.scope("head"):
        net.linear(net.rms_norm(last_token(net, x, cache)), vocabulary, bias=False)


def _angles(net: NetworkBuilder, sequence: int) -> Tensor:
    """Sines and cosines of the rotary positions (Su et al. 2021); the device holds them."""
    return net.parameter("angles", sequence, 1, _HEAD, trainable=False)


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


DECODERS = (
    Architecture(
        "llama-2-7b",
        "Llama 2, 32 layers of 4096",
        partial(llama, layers=32, hidden=4096, key_heads=32, inner=11008, vocabulary=32000),
        _TEXT,
        "Touvron et al., Llama 2: open foundation and fine-tuned chat models, arXiv:2307.09288, 2023",
        served=True,
    ),
    Architecture(
        "llama-3-8b",
        "Llama 3, 32 layers of 4096, 8 heads of keys",
        partial(llama, layers=32, hidden=4096, key_heads=8, inner=14336, vocabulary=128256),
        _TEXT,
        _LLAMA_3,
        served=True,
    ),
    Architecture(
        "llama-3-70b",
        "Llama 3, 80 layers of 8192, 8 heads of keys",
        partial(llama, layers=80, hidden=8192, key_heads=8, inner=28672, vocabulary=128256),
        _TEXT,
        _LLAMA_3,
        served=True,
    ),
    Architecture(
        "mixtral-8x7b",
        "Mixtral, 32 layers of 4096 with 8 experts, 2 for each token",
        partial(mixtral, layers=32, hidden=4096, key_heads=8, inner=14336, vocabulary=32000),
        _TEXT,
        "Jiang et al., Mixtral of experts, arXiv:2401.04088, 2024",
        served=True,
    ),
)
