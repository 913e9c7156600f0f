"""Transformers as decoders that are served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from instances.errors import InputError
from instances.planning.grid.transformer import LayerSizes, Transformer
from instances.readers.huggingface.record import Decoder, LatentAttention
from instances.readers.huggingface.weights import AFTER, BEFORE, Parts, Stored, other_sizes, stored_sizes
from instances.serving.model import NO_TOKENS, LayerShape, ServedModel

#: Bytes of a weight that is stored as it is multiplied, in 16 bits.
_PLAIN = 2


def served_model(model: Transformer) -> ServedModel:
    """The decoder of a transformer.

    Raises
    ------
    InputError
        If it predicts no tokens.
    """
    if not (model.causal and model.head):
        raise InputError(f"{model.name}: {NO_TOKENS}.")
    kinds = {layer: i for i, layer in enumerate(model.kinds)}
    return ServedModel(
        name=model.name,
        hidden=model.hidden,
        shapes=tuple(map(_shape, model.kinds.values())),
        order=np.array([kinds[layer] for layer in model.layers], dtype=np.int64),
        embedding=model.embedding_parameters,
        head=model.head_parameters,
        logits=model.head_parameters - model.after,
        tied=model.table_parameters if model.tied else 0,
    )


def with_stored(model: ServedModel, record: Decoder, stored: Stored) -> tuple[ServedModel, list[str]]:
    """The decoder with the bytes that its weight files state, unless all numbers have 16 bits; and sentences on doubts.

    Raises
    ------
    InputError
        If these are weights of another model.
    """
    parts, after = Parts.of(record, stored), model.head - model.tied
    shapes = [model.shapes[number] for number in model.order.tolist()]
    elements = {layer: shape.parameters for layer, shape in enumerate(shapes)}
    sizes = stored_sizes({**elements, BEFORE: model.embedding, AFTER: after}, parts, stored)
    towers, heads, doubts = other_sizes(parts, stored)
    if towers + heads == 0 and all(size == _PLAIN * count for size, count in sizes.values()):
        return model, doubts
    kinds: dict[LayerShape, int] = {}
    for layer, shape in enumerate(shapes):
        kinds.setdefault(replace(shape, stored=sizes[layer][0]), len(kinds))
    order = [kinds[replace(shape, stored=sizes[layer][0])] for layer, shape in enumerate(shapes)]
    ends = _ends(model, sizes, after)
    ends_with_others = (ends[0] + towers, ends[1] + heads)
    return replace(model, shapes=tuple(kinds), order=np.array(order), stored=ends_with_others), doubts


def _ends(model: ServedModel, sizes: Mapping[int, tuple[int, int]], after: int) -> tuple[int, int]:
    """Stored bytes of embedding and head; a shared table counts at both."""
    size, count = sizes[BEFORE]
    first = size * model.embedding // count if count else 0
    behind = sizes[AFTER][0] if AFTER in sizes else size - first
    return first, behind + (first * (model.head - after) // model.embedding if model.tied else 0)


def _shape(sizes: LayerSizes) -> LayerShape:
    """Sizes of a layer of attention and a feed-forward network."""
    attention, experts, scores = sizes.attention, sizes.experts, sizes.queries + sizes.outputs
    if isinstance(attention, LatentAttention):
        # A step attends to the latent vectors, which all heads share and each device holds.
        cache, key_heads, window = attention.rank + attention.rotary, 1, 0
        scores = attention.heads * (2 * attention.rank + attention.rotary)
    else:
        cache, key_heads, window = sizes.keys + sizes.values, sizes.key_heads, attention.window or 0
    count, chosen = (0, 0) if experts is None else (experts.count, experts.chosen)
    return LayerShape(
        weights=sizes.divided_parameters,
        whole=sizes.whole_parameters,
        expert=sizes.expert_parameters // count if count else 0,
        experts=count,
        chosen=chosen,
        scores=scores,
        cache=cache,
        heads=attention.heads,
        key_heads=key_heads,
        inner=sizes.inner + sizes.routed,
        window=window,
    )
