"""Jobs of ``mtpp table unlike``: decoders on clusters by rules of thumb and at their best, and published clusters."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from instances.architectures import ARCHITECTURES
from instances.devices import DEFAULT_DEVICE
from instances.flow.answer import FlowAnswer
from instances.flow.problem import read_flow_question
from instances.graph.graph import ComputationGraph
from instances.graph.views import merge_graph
from instances.machines import Kind, devices_of_text
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance
from instances.runtimes.layers import LayerStack
from instances.suites.named import DATA_VARIABLE
from mtpp.certifying.methods import answered, flow_methods
from mtpp.runs.job import Run, StudyJob
from mtpp_models import SolveOptions, solve

#: Architecture, and bytes of an element.
NETWORKS = {
    "gpt2": ("gpt2", 2),
    "llama-2-7b": ("llama-2-7b", 2),
    "llama-3-8b": ("llama-3-8b", 2),
    "mixtral-8x7b": ("mixtral-8x7b", 2),
    "llama-3-70b": ("llama-3-70b", 2),
    "llama-3-70b-8bit": ("llama-3-70b", 1),
}
CLUSTERS = (
    "1xA100,2xL4,1xT4",
    "2xRTX4090,2xRTX3090",
    "2xH100,2xA100",
    "4xA10,4xT4",
    "4xA100,6xL4,6xT4",
    "2xH200,4xA100-40GB,8xL4,8xV100",
)
PHASES: dict[str, dict[str, int]] = {
    "prefill": {"batch": 1, "context": 2048},
    "decode": {"batch": 32, "context": 4096},
}
_POSITIONS = {"gpt2": 1024}
#: Of the search and the bounds of a published cluster together.
SECONDS = 20.0
_SEED = 0
_FOLDER = "helix"


@dataclass(frozen=True)
class UnlikeJob(StudyJob):
    """Job that cuts one decoder in one phase for one cluster."""

    network: str
    cluster: str
    phase: str

    @property
    def question(self) -> list[Any]:
        """Network, devices and phase."""
        return ["unlike", self.network, self.cluster, self.phase, PHASES[self.phase], NETWORKS[self.network]]

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """The run as a row for the file of runs."""
        about = {
            "kind": "unlike",
            "instance": f"{self.network}, {self.phase}, {self.cluster}",
            "network": self.network,
            "cluster": self.cluster,
            "phase": self.phase,
            "k": sum(int(part.partition("x")[0]) for part in self.cluster.split(",")),
            "method": "ideals",
        }
        return self.line(about, seconds, error, dict.fromkeys(("best", "rules")) | answer)

    def answer(self, start: Sequence[Run]) -> Run:
        """The proved optimum, None if nothing fits, and the cut of each rule, without a bottleneck if infeasible."""
        instance = question_of(self.network, self.cluster, self.phase)
        best = solve(instance, "ideals")
        assert best.proved or best.impossible
        return {
            "best": None if best.partition is None else _summary_of(best.partition),
            "rules": {rule: _summary_of(shared_out(instance, rule)) for rule in RULES},
        }


@dataclass(frozen=True)
class FlowJob(StudyJob):
    """Job that searches for the largest flow through one published cluster."""

    file: str
    digest: str  # of the question
    devices: int
    limit: float | None  # seconds

    @property
    def question(self) -> list[Any]:
        """The cluster, and the time limit."""
        return ["flow", self.digest, self.limit, _SEED]

    def record(self, seconds: float | None = None, error: str | None = None, **answer: Any) -> Run:
        """The run as a row for the file of runs."""
        about = {"kind": "unlike", "instance": Path(self.file).stem, "k": self.devices, "method": "flow"}
        return self.line(about, seconds, error, dict.fromkeys(("published", "flow", "most", "by")) | answer)

    def answer(self, start: Sequence[Run]) -> Run:
        """Requests per second of the published layers and of the best found, and the proved maximum."""
        instance = read_flow_question(self.file)
        result = answered(instance, flow_methods(_SEED), SolveOptions(time_limit=self.limit, seed=_SEED))
        assert result.answer is not None
        assert result.bound is not None
        interval = [instance.published.get(i, (0, 0)) for i in range(instance.n)]
        return {
            "published": FlowAnswer(instance, np.array(interval)).flow,
            "flow": result.answer.flow,
            "most": 1 / result.bound.value,
            "by": result.bound.method,
        }


def unlike_jobs(networks: Sequence[str] | None = None) -> list[UnlikeJob]:
    """Jobs for all decoders, or those named, in both phases on each cluster."""
    names = list(NETWORKS) if networks is None else networks
    return [UnlikeJob(name, cluster, phase) for phase in PHASES for name in names for cluster in CLUSTERS]


def flow_jobs(limit: float | None = SECONDS) -> list[FlowJob] | str:
    """A job with this time limit for each published cluster, or why there are none."""
    folder = Path(os.environ.get(DATA_VARIABLE, ""), _FOLDER)
    if not os.environ.get(DATA_VARIABLE):
        return f"published clusters are left out, as {DATA_VARIABLE} does not name the folder with {_FOLDER}"
    files = sorted(folder.glob("*.json"))
    if not files:
        return f"published clusters are left out, as there are none in {folder}"
    questions = [(file, read_flow_question(file)) for file in files]
    return [FlowJob(str(file), question.question_hash, question.n, limit) for file, question in questions]


def question_of(network: str, cluster: str, phase: str) -> Instance:
    """The layers of a decoder on the devices of a cluster, with hard limits on memory.

    Its nodes are what comes before the layers, the layers, and what comes after them.
    """
    devices = devices_of_text(cluster)
    assert devices is not None
    architecture, element_bytes = NETWORKS[network]
    dims: dict[str, Any] = {"phase": phase, "element_bytes": element_bytes, **PHASES[phase]}
    dims["context"] = min(PHASES[phase]["context"], _POSITIONS.get(network, PHASES[phase]["context"]))
    build = ARCHITECTURES[architecture].build
    graphs = [_chain(build(level="layer", device=kind.roofline or DEFAULT_DEVICE, **dims)) for kind in devices.kinds]
    works = np.array([graph.work for graph in graphs])
    return Instance(graphs[0], devices, network, works=works, fit=True)


def _chain(graph: ComputationGraph) -> ComputationGraph:
    merged, _ = merge_graph(graph, LayerStack.of(graph).unit)
    return merged


def _summary_of(partition: Partition) -> dict[str, Any]:
    """Layers of each device in use, and the bottleneck; None if the partition does not fit."""
    layers = np.bincount(partition.block[1:-1], minlength=partition.instance.k).tolist()
    fits = partition.bottleneck < np.inf
    return {
        "layers": [[partition.kind_names[b], layers[b]] for b in np.unique(partition.block)],
        "bottleneck": partition.bottleneck if fits else None,
    }


# Rules of thumb by which layers are divided among devices that are not alike.


def _flops(kind: Kind, seconds: float) -> float:
    assert kind.roofline is not None
    return kind.roofline.peak_flops


#: Name to the weight of a device, of its kind and the seconds that a layer takes there.
RULES: dict[str, Callable[[Kind, float], float]] = {
    "even": lambda kind, seconds: 1.0,
    "memory": lambda kind, seconds: kind.memory,
    "flops": _flops,
    "speed": lambda kind, seconds: 1 / seconds,
}


def divided(layers: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers proportional to the weights with sum `layers`, by largest remainders.

    Examples
    --------
    >>> divided(32, [80, 24, 24, 16])
    [18, 5, 5, 4]
    """
    shares = [layers * weight / math.fsum(weights) for weight in weights]
    counts = [math.floor(share) for share in shares]
    remainders = sorted(range(len(shares)), key=lambda i: (counts[i] - shares[i], i))
    for i in remainders[: layers - sum(counts)]:
        counts[i] += 1
    return counts


def shared_out(instance: Instance, rule: str) -> Partition:
    """The cut of a chain of layers by a rule, on all devices in the order of their kinds.

    Nodes before the layers are on the device of the first layer, nodes after them on that of the last one. A device to
    which the rule gives no layer stays idle.
    """
    n, kinds = instance.graph.n, instance.machines.kinds
    weights = [RULES[rule](kind, float(instance.work[t, n // 2])) for t, kind in enumerate(kinds)]
    counts = divided(n - 2, [weights[t] for t in instance.machines.sequence])
    layers = np.repeat(np.arange(len(counts)), counts)
    block = np.array([layers[0], *layers, layers[-1]])
    return Partition(instance, block, kind=np.array(instance.machines.sequence))
