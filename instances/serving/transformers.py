"""Transformers as decoders that are served."""

from __future__ import annotations

import numpy as np

from instances.errors import InputError
from instances.planning.grid.transformer import LayerSizes, Transformer
from instances.readers.huggingface.record import LatentAttention
from instances.serving.model import LayerShape, ServedModel


def served_model(model: Transformer) -> ServedModel:
    """The decoder of a transformer.

    Raises
    ------
    InputError
        If it predicts no tokens.
    """
    if not (model.causal and model.head):
        raise InputError(f"{model.name}: it predicts no tokens one after the other; give a decoder.")
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
