"""``mtpp table unlike``: rules of thumb over proved optima, and published clusters beside ours."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.studies.report import Report, Section
from instances import ComputationGraph, Instance, Partition
from instances.architectures import ARCHITECTURES
from instances.devices import DEFAULT_DEVICE
from instances.flow.answer import FlowAnswer
from instances.flow.problem import read_flow_question
from instances.graph.views import merge_graph
from instances.machines import Kind, devices_of_text
from instances.runtimes.layers import LayerStack
from instances.suites.named import DATA_VARIABLE
from mtpp.certifying.methods import answered, flow_methods
from mtpp.plots.partitions import plot_rules
from mtpp.plots.plans import plot_flows
from mtpp.runs.job import Run, StudyJob
from mtpp.runs.workers import Workers
from mtpp_models import SolveOptions, solve

# Jobs: decoders on clusters by rules of thumb and at their best, and published clusters.


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


# ``mtpp table unlike``: all tables and pictures.


#: Gap [%] and seconds of a solver with 20 threads, as its logs in the artifact of Helix (Mei et al., ASPLOS 2025) say.
_SOLVER = {
    "10-nodes-30b": (0, 3803),
    "24-nodes-one-cluster-70b": (5953, 600),
    "42-nodes-70b": (5523, 4382),
    "42-nodes-pruned-70b": (2122, None),
    "24-nodes-three-sites-70b": (7211, None),
    "24-nodes-three-sites-pruned-70b": (3670, None),
}
_RATIOS = (
    "Bottleneck of each rule over the proved optimum on the same devices; – where the rule's cut does not fit into\n"
    "their memories. Layers in proportion to: nothing, memory, peak rate, and the speed of a layer on that device.\n"
    "The devices stand in the order in which the cluster names them; the optimum may order them otherwise, and\n"
    "leave some out."
)
_WORST = "Over all questions that have an answer. Fits: how many of the rule's cuts do."
_FLOWS = (
    "Requests per second. Published: the layers of the published answer, its gap as the solver proved it with 20\n"
    "threads, and its seconds. Here: twenty seconds on one thread for search and proof together."
)


def make_unlike_tables(
    workers: Workers, report: Report, networks: Sequence[str] | None = None, limit: float | None = SECONDS
) -> int:
    """Make missing runs, then print and write tables and pictures; 1 if a run failed, else 0.

    Raises
    ------
    InputError, OSError
        Before any run is made.
    """
    published = flow_jobs(limit)
    if isinstance(published, str):
        print(f"unlike: {published}.", file=sys.stderr)
        published = []
    runs = report.make_runs([*unlike_jobs(networks), *published], workers)
    done = [run for run in runs if not UnlikeJob.failed(run)]
    flows = [run for run in done if run["method"] == "flow"]
    cuts = [run for run in done if run["method"] != "flow" and run["best"] is not None]
    sections = [_ratios(cuts), _summary(cuts), _cuts(cuts), *([_published(flows)] if flows else [])]
    report.publish(sections, lambda: _pictures(cuts, flows))
    return report.exit_code([UnlikeJob.failed(run) for run in runs])


def ratio_of(run: Run, rule: str) -> float | None:
    """Bottleneck of the rule over the optimum; None if the rule's cut does not fit."""
    bottleneck = run["rules"][rule]["bottleneck"]
    return None if bottleneck is None else float(bottleneck / run["best"]["bottleneck"])


def _ratios(runs: Sequence[Run]) -> Section:
    rows = [
        [
            *_question(run),
            f"{run['best']['bottleneck'] * 1e3:.4g}",
            *("–" if (ratio := ratio_of(run, rule)) is None else f"{ratio:.3f}" for rule in RULES),
        ]
        for run in runs
    ]
    numbers = pd.DataFrame(
        [(*_question(run), rule, run["best"]["bottleneck"], ratio_of(run, rule)) for run in runs for rule in RULES],
        columns=[*_QUESTION, "rule", "best", "ratio"],
    ).astype({"ratio": float})
    title = "Rules of thumb over the proved optimum"
    return Section("unlike-rules", title, [*_QUESTION, "best [ms]", *RULES], rows, _RATIOS, numbers=numbers)


def _summary(runs: Sequence[Run]) -> Section:
    rows = []
    for phase in PHASES:
        for rule in RULES:
            ratios = [ratio_of(run, rule) for run in runs if run["phase"] == phase]
            fitting = [ratio for ratio in ratios if ratio is not None]
            mean = f"{np.exp(np.mean(np.log(fitting))):.3f}" if fitting else "–"
            worst = f"{max(fitting):.3f}" if fitting else "–"
            rows.append([phase, rule, f"{len(fitting)} of {len(ratios)}", mean, worst])
    header = ["phase", "rule", "fits", "geometric mean", "worst"]
    return Section("unlike-summary", "What each rule costs", header, rows, _WORST)


def _cuts(runs: Sequence[Run]) -> Section:
    rows = [[*_question(run), _layers(run["best"])] for run in runs]
    return Section("unlike-layers", "Layers of the best cut, in order", [*_QUESTION, "layers"], rows, text={3})


def _published(runs: Sequence[Run]) -> Section:
    rows = []
    for run in runs:
        gap, seconds = _SOLVER.get(run["instance"], (None, None))
        rows.append(
            [
                run["instance"],
                f"{run['published']:,.1f}",
                "–" if gap is None else f"{gap:,} %",
                "–" if seconds is None else f"{seconds:,}",
                f"{run['flow']:,.1f}",
                f"{run['most']:,.1f}",
                f"{(run['most'] / run['flow'] - 1) * 100:.3f} %",
                run["by"],
            ]
        )
    header = ["cluster", "published", "its gap", "its s", "here", "at most", "gap", "by"]
    numbers = pd.DataFrame(runs)[["instance", "published", "flow", "most", "by"]]
    return Section("unlike-flow", "Published clusters [requests/s]", header, rows, _FLOWS, numbers=numbers)


def _pictures(runs: Sequence[Run], flows: Sequence[Run]) -> dict[str, Axes]:
    pictures = {}
    for phase in PHASES:
        of_phase = [run for run in runs if run["phase"] == phase]
        labels = [f"{run['network']}, {run['cluster']}" for run in of_phase]
        ratios = {rule: [ratio_of(run, rule) for run in of_phase] for rule in RULES}
        quantity = f"bottleneck of the rule over the proved optimum, {phase}"
        pictures[f"unlike-{phase}"] = plot_rules(labels, ratios, quantity)
    if flows:
        columns = {
            "published": [run["published"] for run in flows],
            "here": [run["flow"] for run in flows],
            "proved to be the most": [run["most"] for run in flows],
        }
        pictures["unlike-flow"] = plot_flows([run["instance"] for run in flows], columns)
    return pictures


_QUESTION = ("decoder", "phase", "devices")


def _question(run: Run) -> list[str]:
    return [run["network"], run["phase"], run["cluster"]]


def _layers(run: dict[str, Any]) -> str:
    """The devices with their numbers of layers, as text; equal neighbours are one item."""
    rows = [(*item, len(list(same))) for item, same in groupby(run["layers"])]
    return ", ".join(f"{name}: {count}" + (f" (x{times})" if times > 1 else "") for name, count, times in rows)
