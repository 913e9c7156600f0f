"""Encoders of text of one stack: BERT and those that differ from it in sizes, norms and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from instances.architectures.attention import INDEX_BYTES, attention, feed_forward, positions, tokens
from instances.architectures.builder import Tensor
from instances.architectures.operators import NetworkBuilder
from instances.errors import InputError

__all__ = ["Encoder", "encode"]


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
