"""Language models from their configurations."""

from __future__ import annotations

from instances.architectures.encoders import Encoder
from instances.planning.grid.transformer import Transformer, norm_parameters
from instances.readers.huggingface.record import Attention, Decoder, FeedForward, Layer

__all__ = ["transformer_of"]


def transformer_of(sizes: Decoder | Encoder, name: str) -> Transformer:
    """The model of a decoder or an encoder.

    Raises
    ------
    UnknownLayersError
        If no costs are known of one of its layers; the message names what is in the way.
    """
    return _of_encoder(sizes, name) if isinstance(sizes, Encoder) else _of_decoder(sizes, name)


def _of_encoder(encoder: Encoder, name: str) -> Transformer:
    width, hidden = encoder.hidden // encoder.heads, encoder.hidden
    attention = Attention(encoder.heads, encoder.heads, width, width, bias=True, output_bias=True)
    layer = Layer((attention,), FeedForward(encoder.inner, gated=False, bias=True), norms=2)
    table = encoder.embedding or hidden
    rows = encoder.positions + encoder.segments + encoder.tasks
    norm = norm_parameters("layer", table) if encoder.embedding_norm else 0
    return Transformer(
        name=name,
        hidden=hidden,
        vocabulary=encoder.vocabulary,
        layers=(layer,) * encoder.layers,
        norm="layer",
        embedding=table,
        positions=encoder.positions - encoder.unused_positions,
        before=rows * table + norm + encoder.projected * hidden,
        after=norm_parameters("layer", hidden) if encoder.final else 0,
        dropout=True,
        causal=False,
        head=False,
        pooled=encoder.pooled,
    )


def _of_decoder(decoder: Decoder, name: str) -> Transformer:
    norm = norm_parameters(decoder.norm, decoder.hidden)
    return Transformer(
        name=name,
        hidden=decoder.hidden,
        vocabulary=decoder.vocabulary,
        layers=decoder.layers,
        norm=decoder.norm,
        embedding=decoder.embedding,
        positions=decoder.positions,
        before=decoder.positions * decoder.hidden + decoder.embedding_norm * norm,
        after=decoder.final_norm * norm + decoder.head_bias * decoder.vocabulary,
        tied=decoder.tied,
    )
