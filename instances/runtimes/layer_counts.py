"""Runtimes that take the number of layers of each stage, and their defaults: vLLM, SGLang, TensorRT-LLM and others."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from instances.graph.graph import ComputationGraph
from instances.runtimes.layers import LayerCut, LayerStack
from instances.runtimes.runtime import LayerRuntime


def vllm_default(layers: int, k: int) -> tuple[int, ...]:
    """Default number of layers of each stage.

    All have the same number; what remains goes to the stages before the last, from the end to the beginning.

    Examples
    --------
    >>> vllm_default(61, 4), vllm_default(26, 4)
    ((15, 15, 16, 15), (6, 7, 7, 6))
    """
    counts = [layers // k] * k
    for i in range(2, layers % k + 2):
        counts[-i] += 1
    return tuple(counts)


def sglang_default(layers: int, k: int) -> tuple[int, ...]:
    """Default number of layers of each stage: the last stages have one more where they cannot be equal.

    Examples
    --------
    >>> sglang_default(61, 4)
    (15, 15, 15, 16)
    """
    return tensorrt_default(layers, k)[::-1]


def tensorrt_default(layers: int, k: int) -> tuple[int, ...]:
    """Default number of layers of each rank: the first ranks have one more where they cannot be equal.

    Examples
    --------
    >>> tensorrt_default(61, 4)
    (16, 15, 15, 15)
    """
    return tuple(layers // k + (rank < layers % k) for rank in range(k))


def _variable(name: str, variable: str, reference: str, version: str = "") -> LayerRuntime:
    """A runtime that reads the counts from an environment variable; embeddings come first, the head last."""
    summary = f"{variable}, an environment variable"
    return LayerRuntime(
        name, summary, reference, "#", lambda cut: f"{variable}={_listed(cut.counts)}\n", version=version
    )


def _tensorrt_llm(cut: LayerCut) -> str:
    return f"pipeline_parallel_size: {cut.k}\npp_partition: {list(cut.counts)}\n"


def _llama_cpp(cut: LayerCut) -> str:
    """Options of llama.cpp: the share of each device, the output counted as one more layer.

    Of n layers and the output, number i goes to the first device whose share, with those before it, is more than
    i / (n + 1). What comes before the layers stays on the host. Empty stages take no device.
    """
    counts = [count + (n == cut.last) for n, count in enumerate(cut.counts)]
    settings = f"-ngl 999 -sm layer -ts {_listed(filter(None, counts))}"
    if cut.ranks == tuple(range(cut.k)):
        return f"{settings}\n"
    devices = (f"CUDA{rank}" for count, rank in zip(counts, cut.ranks, strict=True) if count)
    return f"{settings} -dev {','.join(devices)}\n"


def _galvatron(cut: LayerCut) -> str:
    """A whole strategy, as its parser wants it: each layer on one device, data parallel over the replicas.

    The batch is one sample for each microbatch and replica, to be replaced by that of the training.
    """
    alike = {"tp_sizes_enc": 1, "tp_consecutive_flags": 1, "cp_sizes_enc": 1, "dp_types_enc": 0, "use_sp": 0}
    chunks = cut.microbatches or cut.k
    fields = {
        "pp_deg": cut.k,
        "pp_division": _listed(cut.counts),
        **{name: _listed([flag] * cut.layers) for name, flag in (alike | {"checkpoint": 0}).items()},
        "global_bsz": chunks * cut.replicas,
        "chunks": chunks,
    }
    return json.dumps(fields, indent=1) + "\n"


def _listed(counts: Iterable[int]) -> str:
    return ",".join(map(str, counts))


@dataclass(frozen=True)
class _LlamaCpp(LayerRuntime):
    """A runtime whose host has what comes before the layers."""

    def seen(self, graph: ComputationGraph) -> ComputationGraph:
        """The graph without work and parameters before the layers."""
        host = LayerStack.of(graph).unit == 0
        shared, param_bytes = [], np.where(host, 0.0, graph.param_bytes)
        for parameter in graph.parameters:
            users = tuple(user for user in parameter.users if not host[user])
            if len(users) > 1:
                shared.append(replace(parameter, users=users))
            elif users:
                param_bytes[users[0]] += parameter.bytes
        return replace(
            graph,
            work=np.where(host, 0.0, graph.work),
            param_bytes=param_bytes,
            parameters=tuple(shared),
            source=f"{graph.source}; {self.name} keeps what comes before the layers on the host",
        )


LAYER_COUNTS = (
    _variable("vllm", "VLLM_PP_LAYER_PARTITION", "vllm/distributed/utils.py"),
    _variable("sglang", "SGLANG_PP_LAYER_PARTITION", "sglang/srt/distributed/utils.py", "0.5"),
    LayerRuntime(
        "tensorrt-llm", "pp_partition in the YAML of extra options", "tensorrt_llm/mapping.py", "#", _tensorrt_llm
    ),
    _LlamaCpp(
        "llama-cpp",
        "-ts of llama-server and others, options",
        "llama.cpp/src/llama-model.cpp",
        None,
        _llama_cpp,
        every_stage=None,
        back_with_last=False,
        orders_devices=True,
    ),
    LayerRuntime(
        "galvatron",
        "its strategy with pp_deg and pp_division, JSON",
        "Hetu-Galvatron, galvatron_config_path",
        None,
        _galvatron,
    ),
)
