"""Cuts whose capacity users measured, as questions.

Unpublished parameters are calibrated on the first measurement; the second one is then a prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from experiments.studies.serving.rules import served
from instances.architectures import ARCHITECTURES
from instances.devices.platform import Platform
from instances.graph.graph import ComputationGraph
from instances.partitioning.problem import Instance
from instances.partitioning.serving import ServingInstance
from instances.runtimes import RUNTIMES
from instances.runtimes.serving_chain import serving_chain

__all__ = ["REPORTS", "Report", "ollama_12010", "vllm_6920"]

_KEYS = 4096.0  # bytes a token in a layer with 8 heads of 128 keys and values, of 2 bytes each
_LINK = 32e9  # bytes/s
_VLLM_BLOCK = 16  # tokens

# Of llama3.2-vision:90b, 4.85 bits a weight and 6.56 in the output; every fifth layer attends to the picture alone.
_LAYER, _OUTPUT = 0.519e9, 0.862e9
_LAYERS, _PICTURE = 100, 5


@dataclass(frozen=True, eq=False)
class Report:
    """Measured contexts of two cuts, the runtime's own and one by hand [tokens]."""

    source: str
    question: ServingInstance
    default: tuple[int, ...]  # layers of each stage
    default_context: float
    by_hand: tuple[int, ...]
    by_hand_context: float


def vllm_6920() -> Report:
    """Llama-3-70B in FP8 on eight L4 of 24 GB, in blocks of 16 tokens: 1,476, and 3,078 with less at the ends.

    The table of words and the head have two bytes a weight. The memory that is free for weights and caches is the one
    with which ten layers a stage have room for 1,476 blocks.
    """
    graph = ARCHITECTURES["llama-3-70b"].build(phase="decode", element_bytes=1, kv_bytes=2, context=1)
    loose = serving_chain(graph, Platform(8, _LINK, 1e12, fit=True), RUNTIMES["vllm"])
    ends = np.ones(loose.instance.graph.n)
    ends[[0, -1]] = 2
    chain = replace(loose.instance.graph, param_bytes=loose.instance.graph.param_bytes * ends)
    loose = replace(loose, instance=replace(loose.instance, graph=chain))
    even = served(loose, [10] * 8)
    context = 1476 * _VLLM_BLOCK
    memory = float((even.partition.param_bytes + even.cache_bytes(context) + even.partition.peaks).max())
    return Report(
        source="vLLM, pull request 6920",
        question=_with_memory(loose, memory),
        default=(10,) * 8,
        default_context=context,
        by_hand=(8, 11, 11, 11, 11, 10, 10, 8),
        by_hand_context=3078 * _VLLM_BLOCK,
    )


def ollama_12010() -> Report:
    """llama3.2-vision:90b on four devices of 22 GB: a context of 14,094, and 29,700 by 24, 27, 27 and 23 layers.

    The output counts as a layer of the last device. Each device keeps as much for its work as leaves the 15.5 GB unused
    that were reported; the first one also holds what makes 26 layers have room for 14,094 tokens.
    """
    counts, context, memory = (26, 25, 25, 24), 14094.0, 22e9
    grows = np.array([0.0, *(_KEYS * (i % _PICTURE != 3) for i in range(_LAYERS)), 0.0])
    weights = np.array([0.0, *[_LAYER] * _LAYERS, _OUTPUT])
    stage = np.array([0, *np.repeat(np.arange(4), counts), 3])
    used = np.bincount(stage, weights + context * grows)
    work = (3 * memory - used[1:].sum() - 15.5e9) / 3
    weights[0] = memory - work - used[0]
    graph = ComputationGraph.from_edges(
        [(v, v + 1) for v in range(_LAYERS + 1)],
        work=weights / 300e9,  # read once a token
        output_bytes=[16384.0] * (_LAYERS + 2),
        param_bytes=weights,
        names=("before", *(f"decoder.{i}" for i in range(_LAYERS)), "after"),
        name="llama3.2-vision-90b",
    )
    question = ServingInstance(
        instance=Instance(
            graph, Platform(4, _LINK, memory, activation_buffer=work, fit=True),
            constraints=RUNTIMES["llama-cpp"].rules(graph),
        ),
        token_bytes=grows,
        window=np.full(graph.n, math.inf),
        context=1,
        batch=1,
    )  # fmt: skip
    return Report(
        source="ollama, issue 12010",
        question=question,
        default=counts,
        default_context=context,
        by_hand=(24, 27, 27, 22),
        by_hand_context=29700,
    )


#: Makers of the reports.
REPORTS = (vllm_6920, ollama_12010)


def _with_memory(question: ServingInstance, memory: float) -> ServingInstance:
    platform = replace(question.instance.platform, memory=memory)
    return replace(question, instance=question.instance.with_platform(platform))
