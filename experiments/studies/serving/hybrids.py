"""Hybrid decoders: some layers keep all tokens, others a window or a state; in the default sizes of their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from instances.architectures.serving import Dim
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.json_files import Value
from instances.readers.huggingface import configured_architecture
from instances.readers.huggingface.configuration import decoder_of, model_types
from instances.readers.huggingface.network import other_caches
from instances.readers.huggingface.record import Attention, Decoder

__all__ = ["HYBRID_DIMS", "hybrid_graph", "hybrids"]

#: Dimensions of their questions.
HYBRID_DIMS: Mapping[str, Dim] = {"batch": 8, "context": 32768}


@cache
def hybrids() -> dict[str, Decoder]:
    """Model types whose defaults are a hybrid decoder without a table of positions."""
    decoders = {}
    for kind in model_types():
        try:
            record, _ = decoder_of(_defaults(kind))
        except InputError:  # the defaults of some types do not fit together
            continue
        caches = {
            tuple(mixer.window if isinstance(mixer, Attention) else type(mixer) for mixer in layer.mixers)
            for layer in record.layers
        }
        if len(caches) > 1 and not record.positions:
            decoders[kind] = record
    return decoders


def hybrid_graph(kind: str, dims: Mapping[str, Any]) -> ComputationGraph:
    """The operators of a hybrid decoder in a phase, with what its layers keep."""
    graph = configured_architecture(_defaults(kind), kind)[0].build(**dims)
    caches = other_caches(hybrids()[kind], graph.attributes["dims"])
    return replace(graph, attributes={**graph.attributes, "caches": caches})


def _defaults(kind: str) -> Value:
    return Value({"model_type": kind}, kind)
