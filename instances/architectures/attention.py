"""Building blocks of transformers: attention, feed-forward networks, positions."""

from __future__ import annotations

from collections.abc import Callable

from instances.architectures.builder import NetworkBuilder, Tensor
from instances.architectures.phases import Cache
from instances.errors import InputError

#: Width of a token's index [bytes].
INDEX_BYTES = 8


def attention(
    net: NetworkBuilder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    heads: int,
    mask: Tensor | None = None,
    *,
    scaled: bool = True,
    bias: bool = True,
    cache: Cache | None = None,
) -> Tensor:
    """Dot-product attention with several heads and its output projection (Vaswani et al. 2017).

    Parameters
    ----------
    net : NetworkBuilder
        The network that is recorded.
    query, key, value : Tensor
        (batch, queries, hidden), and twice (batch, keys, hidden). If key and value are narrower, each of their heads
        serves several heads of the queries (grouped queries, Ainslie et al. 2023).
    heads : int
        Heads of the queries.
    mask : Tensor, optional
        Added to the scores; it broadcasts to (batch, heads, queries, keys).
    scaled : bool
        Whether the scores are divided by the root of a head's width.
    bias : bool
        Whether the output projection has one.
    cache : Cache, optional
        If given, keys and values are those of the newest tokens. They are appended to those that the two products keep,
        each its own, and all of these are attended to.

    Returns
    -------
    Tensor
        (batch, queries, hidden).
    """
    batch, queries, hidden = query.shape
    keys, width = key.shape[1] if cache is None else cache.context, hidden // heads
    shared = key.shape[2] // width
    rows = heads // shared * queries

    def product(x: Tensor, y: Tensor, name: str, *shape: int) -> Tensor:
        if cache is None:
            return net.matmul(x, y.view(batch, shared, *shape))
        return net.matmul(x, net.state(name, batch, shared, *shape, element_bytes=cache.element_bytes), y)

    scores = product(query.view(batch, shared, rows, width), key, "keys", width, keys)
    if scaled:
        scores = net.scale(scores)
    if mask is not None:
        scores = net.add(scores.view(batch, heads, queries, keys), mask)
    weights = net.softmax(scores).view(batch, shared, rows, keys)
    context = product(weights, value, "values", keys, width)
    return net.linear(context.view(batch, queries, hidden), hidden, "output", bias=bias)


def feed_forward(
    net: NetworkBuilder, x: Tensor, inner: int, activation: Callable[[Tensor], Tensor], *, bias: bool = True
) -> Tensor:
    """Two affine maps with an activation in between."""
    y = activation(net.linear(x, inner, "up", bias=bias))
    return net.linear(y, x.shape[-1], "down", bias=bias)


def positions(net: NetworkBuilder, available: int, sequence: int, hidden: int, cache: Cache | None = None) -> Tensor:
    """The rows of a learned table of positions that the sequence needs, the last ones of the cache if there is one."""
    if cache is not None and cache.context > available:
        raise InputError(f"context is {cache.context}, but the network knows {available} positions; give at most that.")
    if sequence > available:
        raise InputError(f"sequence is {sequence}, but the network knows {available} positions; give at most that.")
    return net.slice(net.parameter("positions", available, hidden), sequence, hidden)


def tokens(net: NetworkBuilder, batch: int, sequence: int, name: str = "tokens") -> Tensor:
    """An input of token indices."""
    return net.input(name, batch, sequence, element_bytes=INDEX_BYTES)


def causal_mask(net: NetworkBuilder, sequence: int, cache: Cache | None = None) -> Tensor:
    """A mask that hides what follows each token, among those of the cache if there is one; the device holds it."""
    return net.parameter("causal_mask", sequence, sequence if cache is None else cache.context, trainable=False)


def last_token(net: NetworkBuilder, x: Tensor, cache: Cache | None) -> Tensor:
    """Input of a decoder's head: all of `x`, or the last token of each sequence if there is a cache."""
    batch, sequence, hidden = x.shape
    return x if cache is None or sequence == 1 else net.slice(x, batch, 1, hidden)
