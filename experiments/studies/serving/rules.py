"""Rules of thumb that the study of serving tries, and hybrids of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from instances.architectures.phases import Dim
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.json_files import Value
from instances.partitioning.partition import Partition
from instances.partitioning.serving import ServedPartition, ServingInstance
from instances.readers.huggingface import configured_architecture
from instances.readers.huggingface.configuration import decoder_of, model_types
from instances.readers.huggingface.network import other_caches
from instances.readers.huggingface.record import Attention, Decoder
from instances.runtimes.layer_counts import sglang_default, tensorrt_default, vllm_default
from instances.runtimes.modules import torchtitan_default

# Default rules by which runtimes divide layers, and the partitions that follow.


#: Runtime to the layers of each stage, of the number of layers and of stages.
DEFAULT_RULES: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "vllm": vllm_default,
    "sglang": sglang_default,
    "tensorrt-llm": tensorrt_default,
    "torchtitan": torchtitan_default,
}


def served(question: ServingInstance, counts: Sequence[int], back: int | None = None) -> ServedPartition:
    """The answer with so many layers in each stage, whether the constraints of the question allow it or not.

    Parameters
    ----------
    question : ServingInstance
        Its nodes are what comes before the layers, the layers, and what comes after them.
    counts : sequence of int
        Of each stage.
    back : int, optional
        Stage of what comes after the layers; by default the last one.
    """
    layers = np.repeat(np.arange(len(counts)), counts)
    block = np.array([0, *layers, len(counts) - 1 if back is None else back])
    free = replace(question, instance=question.instance.without_constraints())
    return ServedPartition(free, Partition(free.instance, block))


# Hybrid decoders: some layers keep all tokens, others a window or a state; in the default sizes of their types.


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
