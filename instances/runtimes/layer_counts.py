"""Runtimes that take the number of layers of each stage, and their defaults: vLLM, SGLang, TensorRT-LLM and others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, NamedTuple, Self

import numpy as np

from instances.errors import InputError, said
from instances.graph.graph import ComputationGraph
from instances.runtimes.layers import LayerCut, LayerStack
from instances.runtimes.runtime import LayerRuntime

#: Tokens by which llama.cpp rounds the cache of a sequence up.
_LLAMA_STEP = 256


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


class ServerStages(NamedTuple):
    """Stages in the form that servers of language models take; fields that are None are left to the server."""

    layers: tuple[int, ...]  # of each stage
    degrees: tuple[int, ...]  # devices that share each layer of a stage
    #: Numbers, or addresses on other hosts, of the devices of all stages in their order; None: as they are numbered.
    devices: tuple[int | str, ...] | None = None
    batch: int | None = None  # sequences that pass a stage together
    in_flight: int | None = None  # batches that are in stages at once
    length: int | None = None  # tokens of a sequence
    head: int = -1  # stage of what comes after the layers

    @classmethod
    def of(cls, cut: LayerCut) -> ServerStages:
        """The deployment of a cut with one device a stage; each host numbers its own devices."""
        devices: tuple[int | str, ...] | None = None
        remote = [cut.ranks[n] for n, address in enumerate(cut.addresses) if address is not None]
        if remote or cut.ranks != tuple(range(cut.k)):
            local = [rank - sum(other < rank for other in remote) for rank in cut.ranks]
            devices = tuple(address or number for address, number in zip_longest(cut.addresses, local))
        length = None if cut.batch is None else cut.context
        return cls(cut.counts, (1,) * cut.k, devices, cut.batch, cut.in_flight, length, cut.last)

    @property
    def sequences(self) -> int | None:
        """Number of sequences in all batches in flight."""
        return None if self.batch is None or self.in_flight is None else self.batch * self.in_flight

    def degree(self, runtime: str) -> int:
        """The tensor degree, if all stages have the same; else an `InputError`."""
        degrees = dict.fromkeys(self.degrees)
        if len(degrees) > 1:
            raise InputError(
                f"{runtime} has one tensor degree for all stages; this cut has {' and '.join(map(str, degrees))}."
            )
        return next(iter(degrees))

    def check_single_devices(self, runtime: str) -> None:
        """Raise an `InputError` if devices share the layers of a stage."""
        if set(self.degrees) != {1}:
            raise InputError(f"{runtime} has no stages with tensor degrees; this cut has {max(self.degrees)}.")


def _visible(deployment: ServerStages) -> str:
    """The environment variable that puts devices in the order of the stages; empty if it is not needed."""
    return "" if deployment.devices is None else f"CUDA_VISIBLE_DEVICES={_listed(deployment.devices)} "


def _options(**values: int | None) -> str:
    """Text of command-line options by name; options whose value is None are left out."""
    names = ((name.replace("_", "-"), value) for name, value in values.items())
    return " ".join(f"--{name} {value}" for name, value in names if value is not None)


def vllm_words(deployment: ServerStages) -> str:
    """The command that starts vLLM; its `max-num-seqs` counts the sequences of all batches in flight."""
    options = _options(
        tensor_parallel_size=deployment.degree("vllm"),
        pipeline_parallel_size=len(deployment.layers),
        max_num_seqs=deployment.sequences,
        max_model_len=deployment.length,
    )
    counts = f"VLLM_PP_LAYER_PARTITION={_listed(deployment.layers)}"
    return f'{_visible(deployment)}{counts} vllm serve "$MODEL" {options}\n'


def sglang_words(deployment: ServerStages) -> str:
    """The command that starts SGLang with these stages."""
    options = _options(
        tp_size=deployment.degree("sglang"),
        pp_size=len(deployment.layers),
        pp_max_micro_batch_size=deployment.batch,
        max_running_requests=deployment.sequences,
        context_length=deployment.length,
    )
    counts = f"SGLANG_PP_LAYER_PARTITION={_listed(deployment.layers)}"
    return f'{_visible(deployment)}{counts} python -m sglang.launch_server --model-path "$MODEL" {options}\n'


def tensorrt_words(deployment: ServerStages) -> str:
    """The YAML file of TensorRT-LLM, which keeps a batch in flight for each stage."""
    stages, in_flight = len(deployment.layers), deployment.in_flight
    if in_flight is not None and in_flight < stages:
        raise InputError(
            f"tensorrt-llm keeps a batch in flight for each of {stages} stages, and this cut has room for {in_flight}; "
            f"give {said('in_flight', stages)}."
        )
    fields = {
        "tensor_parallel_size": deployment.degree("tensorrt-llm"),
        "pipeline_parallel_size": stages,
        "pp_partition": list(deployment.layers),
        "max_batch_size": deployment.batch,
        "max_seq_len": deployment.length,
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value is not None)


def llama_words(deployment: ServerStages) -> str:
    """Options of llama.cpp for the layers of each device; the output counts as one more layer.

    Of n layers and the output, number i goes to the first device whose share, with those before it, is more than i / (n
    + 1). What comes before the layers stays on the host. Empty stages take no device. Devices of other hosts are
    numbered in the order of their servers. A cache has a multiple of 256 tokens for each sequence.
    """
    deployment.check_single_devices("llama-cpp")
    counts = list(deployment.layers)
    counts[deployment.head] += 1
    words = ["-ngl", "999", "-sm", "layer", "-ts", _listed(filter(None, counts))]
    if deployment.devices is not None:
        used = [place for place, count in zip(deployment.devices, counts, strict=True) if count]
        servers = [place for place in used if isinstance(place, str)]
        if len(set(servers)) < len(servers):
            raise InputError(f"llama-cpp: {servers[0]} is the address of one device; give each its own server.")
        names = (f"RPC{servers.index(place)}" if isinstance(place, str) else f"CUDA{place}" for place in used)
        words += [f"--rpc {_listed(servers)}"] if servers else []
        words += ["-dev", _listed(names)]
    if deployment.sequences is not None and deployment.length is not None:
        length = deployment.length // _LLAMA_STEP * _LLAMA_STEP
        if not length:
            raise InputError(
                f"llama-cpp keeps caches in steps of {_LLAMA_STEP} tokens of a sequence, and this cut has room for "
                f"{deployment.length}; give more memory or a smaller batch."
            )
        words += ["-c", str(deployment.sequences * length), "-np", str(deployment.sequences)]
    return f"{' '.join(words)}\n"


def exo_words(deployment: ServerStages) -> str:
    """Command for a running exo: it asks exo for a placement, and returns that to it with these layers.

    Stages are the nodes of its ring in their order. A placement on another number of nodes is refused.
    """
    deployment.check_single_devices("exo")
    stages = len(deployment.layers)
    layers = (
        f"[{_listed(deployment.layers)}] as $n | {{instance: map_values(.shardAssignments.runnerToShard |= "
        f'if length != {stages} then error("\\(length) nodes for {stages} stages") else map_values(map_values('
        ".deviceRank as $r | .startLayer = ($n[:$r] | add // 0) | .endLayer = ($n[:$r + 1] | add))) end)}"
    )
    ask = f'curl -fsG "$EXO/instance/placement" -d model_id="$MODEL" -d sharding=Pipeline -d min_nodes={stages}'
    return f"{ask} | jq '{layers}' | curl -fs \"$EXO/instance\" -H Content-Type:application/json -d @-\n"


def _galvatron(cut: LayerCut) -> str:
    """A strategy file of Galvatron: each layer on one device, data parallel over the replicas.

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


def _listed(items: Iterable[object]) -> str:
    return ",".join(map(str, items))


@dataclass(frozen=True)
class ServerRuntime(LayerRuntime):
    """A runtime that serves language models on stages, which may share their layers among devices."""

    words: Callable[[ServerStages], str] = field(kw_only=True)  # of a deployment; an `InputError` if it has none

    @classmethod
    def of_words(
        cls,
        name: str,
        summary: str,
        reference: str,
        comment: str | None,
        words: Callable[[ServerStages], str],
        **more: Any,
    ) -> Self:
        """A runtime with a function that writes its settings for a deployment; those of a cut follow from it."""
        return cls(name, summary, reference, comment, lambda cut: words(ServerStages.of(cut)), words=words, **more)


@dataclass(frozen=True)
class _LlamaCpp(ServerRuntime):
    """llama.cpp, which keeps the nodes before the layers on the host."""

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
    ServerRuntime.of_words(
        "vllm",
        "command with VLLM_PP_LAYER_PARTITION, parallel sizes and room",
        "vllm/distributed/utils.py",
        "#",
        vllm_words,
        orders_devices=True,
        without_bf16="--dtype half",
    ),
    ServerRuntime.of_words(
        "sglang",
        "command with SGLANG_PP_LAYER_PARTITION, parallel sizes and room",
        "sglang/srt/distributed/utils.py",
        "#",
        sglang_words,
        orders_devices=True,
        version="0.5",
    ),
    ServerRuntime.of_words(
        "tensorrt-llm",
        "pp_partition, parallel sizes and room in the YAML of extra options",
        "tensorrt_llm/mapping.py",
        "#",
        tensorrt_words,
    ),
    _LlamaCpp.of_words(
        "llama-cpp",
        "-ts and room for llama-server and others, options",
        "llama.cpp/src/llama-model.cpp",
        None,
        llama_words,
        every_stage=None,
        back_with_last=False,
        orders_devices=True,
        reaches_hosts=True,
        one_batch=True,
    ),
    ServerRuntime.of_words(
        "exo",
        "command that gives the nodes of a running exo their layers",
        "exo/src/exo/shared/types/worker/shards.py",
        "#",
        exo_words,
        one_batch=True,
        caveats=("each node of exo has what comes before and after the layers; here one stage counts it",),
    ),
    LayerRuntime(
        "galvatron",
        "its strategy with pp_deg and pp_division, JSON",
        "Hetu-Galvatron, galvatron_config_path",
        None,
        _galvatron,
    ),
)
