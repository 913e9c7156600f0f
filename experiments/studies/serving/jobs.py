"""Jobs of ``mtpp table serving``: each decoder in both phases, by the default rules and at its best."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from instances import Instance, Platform
from instances.architectures import ARCHITECTURES
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.json_files import Value
from instances.partitioning.partition import Partition
from instances.partitioning.serving import ServedPartition, ServingInstance
from instances.readers.huggingface import configured_architecture
from instances.readers.huggingface.configuration import decoder_of, model_types
from instances.readers.huggingface.network import other_caches
from instances.readers.huggingface.record import Attention, Decoder
from instances.runtimes import RUNTIMES
from instances.runtimes.layer_counts import sglang_default, tensorrt_default, vllm_default
from instances.runtimes.layers import LayerCut
from instances.runtimes.modules import torchtitan_default
from instances.runtimes.runtime import LayerRuntime
from instances.runtimes.serving import DEFAULT_LINK, serving_chain
from mtpp.runs.job import Run, StudyJob
from mtpp.versions import package_version
from mtpp_models.bounds.serving import serving_front

#: Numbers of stages, and the dimensions of each phase; GPT-2 knows 1024 positions.
STAGES = (2, 4, 8)
PHASES: dict[str, dict[str, int]] = {"prefill": {"context": 2048}, "decode": {"batch": 32}}

_KIND = "serving"
_ELEMENT = 2  # bytes
# Devices that are sold [bytes], and how much more than its share of the weights one has.
_MEMORIES = (8e9, 16e9, 24e9, 48e9, 80e9, 141e9, 192e9)
_ROOM = 1.3


@dataclass(frozen=True)
class ServingJob(StudyJob):
    """Job that cuts one decoder in one phase for k devices."""

    network: str
    phase: str
    k: int

    @cached_property
    def dims(self) -> dict[str, Any]:
        """Dimensions of the decoder."""
        if self.network not in ARCHITECTURES:
            context = min(HYBRID_DIMS["context"], hybrids()[self.network].longest or math.inf)
            return {"phase": self.phase, "element_bytes": _ELEMENT, **HYBRID_DIMS, "context": context}
        chosen: dict[str, Any] = {"phase": self.phase, "element_bytes": _ELEMENT, **PHASES[self.phase]}
        if "context" in chosen:
            chosen["context"] = min(PHASES[self.phase]["context"], ARCHITECTURES[self.network].longest or math.inf)
        return chosen

    @property
    def question(self) -> list[Any]:
        """Network, phase and devices."""
        return [_KIND, self.network, self.dims, self.k, DEFAULT_LINK, _MEMORIES, _ROOM]

    @property
    def old_key(self) -> str:
        """Key of earlier versions, which contained the package version in place of the code's hash."""
        return hashlib.sha256(json.dumps([*self.question, package_version()]).encode()).hexdigest()

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """The run as a row for the file of runs."""
        about = {
            "kind": _KIND,
            "instance": f"{self.network}, {self.phase}",
            "network": self.network,
            "phase": self.phase,
            "k": self.k,
            "method": "serving",
        }
        return self.line(about, seconds, error, dict.fromkeys(("memory", "runtimes")) | answer)

    def answer(self, start: Sequence[Run]) -> Run:
        """Results by runtime: its default cut, and both ends of the front of cuts that it can express."""
        named = ARCHITECTURES.get(self.network)
        graph = hybrid_graph(self.network, self.dims) if named is None else named.build(**self.dims)
        platform = Platform(self.k, DEFAULT_LINK, device_memory(graph, self.k), fit=True)
        return {
            "memory": platform.memory,
            "runtimes": {name: _compared(graph, platform, name) for name in DEFAULT_RULES},
        }


def device_memory(graph: ComputationGraph, k: int) -> float:
    """Memory of the smallest commercial device that holds an even share of the model [bytes]."""
    resident = graph.held_total + (k - 1) * float(graph.state_bytes.sum())
    return next((size for size in _MEMORIES if size >= _ROOM * resident / k), _MEMORIES[-1])


def jobs_of(networks: Sequence[str] | None = None) -> list[ServingJob]:
    """Jobs for all decoders, or those named, on each number of devices.

    Each device has a layer at least.
    """
    if networks is None:
        networks = [*(name for name, network in ARCHITECTURES.items() if network.served), *hybrids()]
    return [
        ServingJob(name, phase, k)
        for name in networks
        for phase in (PHASES if name in ARCHITECTURES else ("decode",))
        for k in STAGES
        if name in ARCHITECTURES or k <= len(hybrids()[name].layers)
    ]


def _compared(graph: ComputationGraph, platform: Platform, name: str) -> dict[str, Any]:
    runtime = RUNTIMES[name]
    if isinstance(runtime, LayerRuntime):  # what modules are called does not matter here
        runtime = replace(runtime, names=None)
    question = serving_chain(Instance(graph, platform), runtime, platform.k)
    front = serving_front(question)
    rule = served(question, DEFAULT_RULES[name](question.instance.graph.n - 2, platform.k))
    holds = rule.capacity >= question.context
    return {
        "rule": _answer(rule) | ({} if holds else {"bottleneck": None}),
        "fastest": _answer(front.points[0]) if front.points else None,
        "largest": _answer(front.points[-1]) if front.points else None,
        "points": len(front.points),
    }


def _answer(point: ServedPartition) -> dict[str, Any]:
    return {
        "layers": list(LayerCut.of(point.partition).counts),
        "bottleneck": point.bottleneck,
        "context": point.capacity,
    }


# Rules of thumb that the study of serving tries, and hybrids of them.


# Default rules by which runtimes divide layers, and the partitions that follow.


#: Runtime to the layers of each stage, of the number of layers and of stages.
DEFAULT_RULES: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "vllm": vllm_default,
    "sglang": sglang_default,
    "tensorrt-llm": tensorrt_default,
    "torchtitan": torchtitan_default,
}


def served(question: ServingInstance, counts: Sequence[int], back: int | None = None) -> ServedPartition:
    """The answer with these numbers of layers in the stages, legal or not.

    Parameters
    ----------
    question : ServingInstance
        Its nodes are what comes before the layers, the layers, and what comes after them.
    counts : sequence of int
        Number of layers of each stage.
    back : int, optional
        Stage of what comes after the layers; by default the last one.
    """
    layers = np.repeat(np.arange(len(counts)), counts)
    block = np.array([0, *layers, len(counts) - 1 if back is None else back])
    free = replace(question, instance=question.instance.without_constraints())
    return ServedPartition(free, Partition(free.instance, block))


# Hybrid decoders: some layers keep all tokens, others a window or a state; in the default sizes of their types.


#: Dimensions of their questions; the context is no more than the type takes.
HYBRID_DIMS: Mapping[str, int] = {"batch": 8, "context": 32768}


@cache
def hybrids() -> dict[str, Decoder]:
    """Model types whose default configuration is a hybrid decoder without a table of positions."""
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
    """The graph of a hybrid decoder in a phase."""
    graph = configured_architecture(_defaults(kind), kind)[0].build(**dims)
    caches = other_caches(hybrids()[kind], graph.attributes["dims"])
    return replace(graph, attributes={**graph.attributes, "caches": caches})


def _defaults(kind: str) -> Value:
    return Value({"model_type": kind}, kind)
