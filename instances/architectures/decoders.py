"""Large language models: Llama and Mixtral, with rotary positions, grouped queries and gated feed-forward networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from instances.architectures.architecture import Architecture
from instances.architectures.attention import attention, causal_mask, last_token, tokens
from instances.architectures.builder import Tensor
from instances.architectures.operators import NetworkBuilder
from instances.architectures.serving import Cache

__all__ = ["DECODERS", "Sizes", "llama", "mixtral"]

_EXPERTS, _CHOSEN = 8, 2  # of Mixtral: in a layer, for a token
_ROTARY_FLOPS = 3  # two products and a sum
_HEAD = 128  # width of a head in all these models
_TEXT = {"batch": 1, "sequence": 128}
_LLAMA_2 = "Touvron et al., Llama 2: open foundation and fine-tuned chat models, arXiv:2307.09288, 2023"
_LLAMA_3 = "Llama team, The Llama 3 herd of models, arXiv:2407.21783, 2024"
_SPARSE = "Mixtral, 32 layers of 4096 with 8 experts, 2 for each token"
_MIXTRAL = "Jiang et al., Mixtral of experts, arXiv:2401.04088, 2024"


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


def _decoder(name: str, summary: str, reference: str, network: Callable[..., None], *sizes: int) -> Architecture:
    """A published decoder; the numbers are its `Sizes`."""
    return Architecture(name, summary, partial(network, sizes=Sizes(*sizes)), _TEXT, reference, served=True)


DECODERS = (
    _decoder("llama-2-7b", "Llama 2, 32 layers of 4096", _LLAMA_2, llama, 32, 4096, 32, 11008, 32000),
    _decoder("llama-3-8b", "Llama 3, 32 layers of 4096, 8 heads of keys", _LLAMA_3, llama, 32, 4096, 8, 14336, 128256),
    _decoder("llama-3-70b", "Llama 3, 80 layers of 8192, 8 heads of keys", _LLAMA_3, llama, 80, 8192, 8, 28672, 128256),
    _decoder("mixtral-8x7b", _SPARSE, _MIXTRAL, mixtral, 32, 4096, 8, 14336, 32000),
)
