"""Sizes of a language model from its configuration."""

from __future__ import annotations

from instances.architectures.encoders import Encoder
from instances.errors import UnknownLayersError
from instances.planning.grid.transformer import Transformer
from instances.readers.huggingface.record import Attention, Decoder, FeedForward

__all__ = ["transformer_of"]


def transformer_of(sizes: Decoder | Encoder, name: str) -> Transformer:
    """Sizes of an encoder, or of a decoder whose layers are equal.

    Raises
    ------
    UnknownLayersError
        If no costs are known of it; the message names what is in the way.
    """
    return _of_encoder(sizes, name) if isinstance(sizes, Encoder) else _of_decoder(sizes, name)


def _of_encoder(encoder: Encoder, name: str) -> Transformer:
    """An encoder with one norm beside those of its layers, be it before or behind them, and with a pooler."""
    if encoder.projected or not encoder.pooled:
        raise UnknownLayersError(f"{name}: an encoder without a pooler or with narrow embeddings has no costs here.")
    return Transformer(
        name=name,
        layers=encoder.layers,
        hidden=encoder.hidden,
        heads=encoder.heads,
        key_heads=encoder.heads,
        inner=encoder.inner,
        vocabulary=encoder.vocabulary,
        positions=encoder.positions,
        segments=encoder.segments + encoder.tasks,
        gated=False,
        biases=True,
        dropout=True,
        causal=False,
        head=False,
    )


def _of_decoder(decoder: Decoder, name: str) -> Transformer:
    """A decoder with plain attention and one feed-forward network or experts in each layer.

    Biases, norms of queries and other vectors count as parameters and take no time of their own; a window of attention
    does not count.
    """
    layer = decoder.layers[0]
    if any(other != layer for other in decoder.layers):
        raise UnknownLayersError(f"{name}: its layers differ; plans for a global batch need equal ones.")
    feed, experts = layer.feed, None if layer.feed is None else layer.feed.experts
    if len(layer.mixers) != 1 or not isinstance(layer.mixers[0], Attention) or feed is None:
        raise UnknownLayersError(
            f"{name}: a layer is not attention and a feed-forward network; no costs are known of others."
        )
    attention = layer.mixers[0]
    special = attention.gate or attention.width != attention.value_width or attention.passes > 1
    special = special or decoder.embedding != decoder.hidden or not attention.own_values
    if special or (experts is not None and (experts.shared or (feed.inner and experts.count < 1))):
        raise UnknownLayersError(
            f"{name}: gates, two passes, shared experts or other widths of values or words have no costs."
        )
    norm = decoder.hidden * {"rms": 1, "plain": 1, "layer": 2, "none": 0}[decoder.norm]
    return Transformer(
        name=name,
        layers=len(decoder.layers),
        hidden=decoder.hidden,
        heads=attention.heads,
        key_heads=attention.key_heads,
        head_width=attention.width,
        inner=feed.inner if experts is None else experts.inner,
        gated=feed.gated,
        vocabulary=decoder.vocabulary,
        positions=decoder.positions,
        experts=1 if experts is None else experts.count,
        chosen=1 if experts is None else experts.chosen,
        tied=decoder.tied,
        vectors=_biases(attention, feed, decoder.hidden) + layer.vectors + layer.norms * norm - 2 * decoder.hidden,
        end_vectors=decoder.final_norm * norm
        - decoder.hidden
        + decoder.embedding_norm * norm
        + decoder.head_bias * decoder.vocabulary,
    )


def _biases(attention: Attention, feed: FeedForward, hidden: int) -> int:
    """Parameters of a layer that are no matrices or norms of its width."""
    found = sum(attention.norms) + attention.vectors + feed.vectors + attention.output_bias * hidden
    found += attention.bias * (attention.heads + 2 * attention.key_heads) * attention.width
    inner = feed.inner if feed.experts is None else feed.experts.inner
    of_one = (1 + feed.gated) * inner + hidden
    if feed.experts is None:
        return found + feed.bias * of_one
    return found + feed.experts.count * feed.experts.bias * of_one + feed.experts.router_vectors
