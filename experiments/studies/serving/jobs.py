"""Jobs of ``mtpp table serving``: each decoder in both phases, by the default rules and at its best."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from experiments.studies.serving.rules import DEFAULT_RULES, HYBRID_DIMS, hybrid_graph, hybrids, served
from instances import Platform
from instances.architectures import ARCHITECTURES
from instances.graph.graph import ComputationGraph
from instances.partitioning.serving import ServedPartition
from instances.runtimes import RUNTIMES
from instances.runtimes.layers import LayerCut
from instances.runtimes.runtime import LayerRuntime
from instances.runtimes.serving import DEFAULT_LINK, serving_chain
from mtpp.runs.job import StudyJob
from mtpp.runs.log import Run
from mtpp.versions import package_version
from mtpp_models.bounds.serving import serving_front

#: Numbers of stages, and the dimensions of each phase; GPT-2 knows 1024 positions.
STAGES = (2, 4, 8)
PHASES: dict[str, dict[str, int]] = {"prefill": {"context": 2048}, "decode": {"batch": 32}}
_POSITIONS = {"gpt2": 1024}

_KIND = "serving"
_ELEMENT = 2  # bytes
# Devices that are sold [bytes], and how much more than its share of the weights one has.
_MEMORIES = (8e9, 16e9, 24e9, 48e9, 80e9, 141e9, 192e9)
_ROOM = 1.3


@dataclass(frozen=True)
class ServingJob(StudyJob):
    """One decoder in one phase on k devices."""

    network: str
    phase: str
    k: int

    @cached_property
    def dims(self) -> dict[str, Any]:
        """Dimensions of the decoder."""
        if self.network not in ARCHITECTURES:
            return {"phase": self.phase, "element_bytes": _ELEMENT, **HYBRID_DIMS}
        chosen: dict[str, Any] = {"phase": self.phase, "element_bytes": _ELEMENT, **PHASES[self.phase]}
        if "context" in chosen:
            chosen["context"] = min(PHASES[self.phase]["context"], _POSITIONS.get(self.network, math.inf))
        return chosen

    @property
    def question(self) -> list[Any]:
        """Network, phase and devices."""
        return [_KIND, self.network, self.dims, self.k, DEFAULT_LINK, _MEMORIES, _ROOM]

    @property
    def old_key(self) -> str:
        """Key that counted the version of the package in place of the code, with dimensions in their order."""
        return hashlib.sha256(json.dumps([*self.question, package_version()]).encode()).hexdigest()

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """One line for the file of runs."""
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
        """Results by runtime: its default rule, and both ends of the front of the cuts that it can express."""
        named = ARCHITECTURES.get(self.network)
        graph = hybrid_graph(self.network, self.dims) if named is None else named.build(**self.dims)
        platform = Platform(self.k, DEFAULT_LINK, device_memory(graph, self.k), fit=True)
        return {
            "memory": platform.memory,
            "runtimes": {name: _compared(graph, platform, name) for name in DEFAULT_RULES},
        }


def device_memory(graph: ComputationGraph, k: int) -> float:
    """The smallest device that is sold with room for a share of weights, k batches' caches and some more [bytes]."""
    held = graph.held_total + (k - 1) * float(graph.state_bytes.sum())
    return next((size for size in _MEMORIES if size >= _ROOM * held / k), _MEMORIES[-1])


def jobs_of(networks: Sequence[str] | None = None) -> list[ServingJob]:
    """All decoders, or those named, on each number of devices: of the project in both phases, hybrid ones decoding."""
    if networks is None:
        networks = [*(name for name, network in ARCHITECTURES.items() if network.served), *hybrids()]
    return [
        ServingJob(name, phase, k)
        for name in networks
        for phase in (PHASES if name in ARCHITECTURES else ("decode",))
        for k in STAGES
    ]


def _compared(graph: ComputationGraph, platform: Platform, name: str) -> dict[str, Any]:
    runtime = RUNTIMES[name]
    if isinstance(runtime, LayerRuntime):  # what modules are called does not matter here
        runtime = replace(runtime, names=None)
    question = serving_chain(graph, platform, runtime, in_flight=platform.k)
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
