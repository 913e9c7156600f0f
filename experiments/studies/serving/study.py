"""``mtpp table serving``: decoders in both phases by default rules of runtimes and at their best, and measured cuts."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.studies.report import Report, Section
from experiments.studies.serving.measurements import deployment_sections
from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.architectures import ARCHITECTURES
from instances.json_files import Value
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
from mtpp.plots.partitions import plot_rules
from mtpp.runs.job import Run, StudyJob
from mtpp.runs.workers import Workers
from mtpp.text.numbers import or_dash
from mtpp.versions import package_version
from mtpp_models.bounds.serving import serving_front

# Jobs: each decoder in both phases, by the default rules and at its best.


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


# Cuts whose capacity users measured, as questions.
#
# Unpublished parameters are calibrated on the first measurement; the second one is then a prediction.


_KEYS = 4096.0  # bytes a token in a layer with 8 heads of 128 keys and values, of 2 bytes each
_LINK = 32e9  # bytes/s
_VLLM_BLOCK = 16  # tokens

# Of llama3.2-vision:90b, 4.85 bits a weight and 6.56 in the output; every fifth layer attends to the picture alone.
_LAYER, _OUTPUT = 0.519e9, 0.862e9
_LAYERS, _PICTURE = 100, 5


@dataclass(frozen=True, eq=False)
class ReportedServing:
    """Published contexts of two cuts, the runtime's and a manual one, all sequences together [tokens]."""

    source: str
    question: ServingInstance
    default: tuple[int, ...]  # layers of each stage
    default_context: float
    by_hand: tuple[int, ...]
    by_hand_context: float


def vllm_6920() -> ReportedServing:
    """Contexts of Llama-3-70B in FP8 on eight L4 of 24 GB under vLLM: by ten layers a stage, and by a manual cut.

    The published contexts are 1,476 blocks of 16 tokens, and 3,078 blocks if the first and the last stage have fewer
    layers. Embedding and head have two bytes a weight. The memory for weights and caches is set such that ten layers a
    stage leave room for 1,476 blocks.
    """
    graph = ARCHITECTURES["llama-3-70b"].build(phase="decode", element_bytes=1, kv_bytes=2, context=1)
    loose = serving_chain(Instance(graph, Platform(8, _LINK, 1e12, fit=True)), RUNTIMES["vllm"], 1)
    ends = np.ones(loose.instance.graph.n)
    ends[[0, -1]] = 2
    chain = replace(loose.instance.graph, param_bytes=loose.instance.graph.param_bytes * ends)
    loose = replace(loose, instance=replace(loose.instance, graph=chain))
    even = served(loose, [10] * 8)
    context = 1476 * _VLLM_BLOCK
    memory = float((even.partition.param_bytes + even.cache_bytes(context) + even.partition.peaks).max())
    return ReportedServing(
        source="vLLM, pull request 6920",
        question=_with_memory(loose, memory),
        default=(10,) * 8,
        default_context=context,
        by_hand=(8, 11, 11, 11, 11, 10, 10, 8),
        by_hand_context=3078 * _VLLM_BLOCK,
    )


def ollama_12010() -> ReportedServing:
    """Contexts of llama3.2-vision:90b on four devices of 22 GB under Ollama: by its default cut, and by a manual one.

    The published contexts are 14,094 tokens, and 29,700 tokens with 24, 27, 27 and 23 layers. The output counts as a
    layer of the last device. The buffer of each device is set such that the reported 15.5 GB remain unused; the first
    device also holds as much as leaves room for 14,094 tokens beside 26 layers.
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
        in_flight=1,
    )  # fmt: skip
    return ReportedServing(
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


# ``mtpp table serving``: default rules over proved optima, in time and in context, and measurements of users.


_TIME = (
    "Bottleneck of each runtime's default rule over the least that it can express,\n"
    "which is proved. Best: of what vLLM can express."
)
_CONTEXT = (
    "Largest context that each runtime can express, which is proved, over that of\n"
    "its default rule, with a batch in flight for each stage. Tokens: the largest of\n"
    "vLLM, on devices of so many GB."
)
_HYBRID = (
    "Bottleneck of each rule over the least, and (ctx) the most context over that of\n"
    "the rule. Batches of 8 at a context of 32768 or the most that the type takes,\n"
    "one for each stage; sizes are the defaults of each type."
)
#: Rules that hybrid decoders are held against.
_BALANCED = ("sglang", "vllm")
_REPORTED = (
    "What is not published is calibrated on the default cut, the first number that\n"
    "was measured; all others are computed."
)


def make_serving_tables(workers: Workers, report: Report, networks: Sequence[str] | None = None) -> int:
    """Make missing runs, then print and write tables and pictures; 1 if a run failed, else 0.

    Raises
    ------
    InputError, OSError
        Before any run is made.
    """
    runs = report.make_runs(jobs_of(networks), workers)
    done = [run for run in runs if not ServingJob.failed(run)]
    report.publish(_sections(done), lambda: _pictures(done))
    return report.exit_code([ServingJob.failed(run) for run in runs])


def time_ratio(run: Run, runtime: str) -> float | None:
    """Bottleneck of the default cut over the optimum; None if that cut lacks room for the context."""
    ends = run["runtimes"].get(runtime)  # earlier runs know fewer rules
    if ends is None or ends["fastest"] is None or ends["rule"]["bottleneck"] is None:
        return None
    return float(ends["rule"]["bottleneck"] / ends["fastest"]["bottleneck"])


def context_ratio(run: Run, runtime: str) -> float | None:
    """Largest context over that of the default cut; None if that cut has room for none."""
    ends = run["runtimes"].get(runtime)
    if ends is None or ends["largest"] is None or ends["rule"]["context"] < 1:
        return None
    return float(ends["largest"]["context"] / ends["rule"]["context"])


def _parted(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """The runs of this project's decoders, and those of all other networks."""
    named = [run for run in runs if run["network"] in ARCHITECTURES]
    return named, [run for run in runs if run["network"] not in ARCHITECTURES]


def _hybrid_section(runs: Sequence[Run]) -> Section:
    rows = [
        [
            run["network"],
            str(run["k"]),
            f"{run['memory'] / 1e9:g}",
            *(or_dash(ratio(run, name), ".3f") for ratio in (time_ratio, context_ratio) for name in _BALANCED),
            _layers(run["runtimes"]["sglang"]["fastest"]),
        ]
        for run in runs
    ]
    header = ["decoder", "k", "GB", *_BALANCED, *(f"ctx {name}" for name in _BALANCED), "fastest"]
    return Section("serving-hybrid", "Hybrid decoders: rules over proved optima", header, rows, _HYBRID)


def _sections(runs: Sequence[Run]) -> list[Section]:
    runs, mixed = _parted(runs)
    rules = list(DEFAULT_RULES)
    question = ["decoder", "phase", "k"]
    times = [
        [
            *_question(run),
            _number(run, "fastest", "bottleneck", 1e3),
            *(or_dash(time_ratio(run, name), ".3f") for name in rules),
        ]
        for run in runs
    ]
    contexts = [
        [
            *_question(run),
            f"{run['memory'] / 1e9:g}",
            _number(run, "largest", "context", 1),
            *(or_dash(context_ratio(run, name), ".3f") for name in rules),
        ]
        for run in runs
    ]
    cuts = [
        [*_question(run), *(_layers(run["runtimes"]["vllm"][name]) for name in ("rule", "fastest", "largest"))]
        for run in runs
    ]
    return [
        Section(
            "serving-time",
            "Default rule over proved optimum",
            [*question, "best [ms]", *rules],
            times,
            _TIME,
            numbers=_ratios(runs, time_ratio),
        ),
        Section(
            "serving-context",
            "Largest context over that of the default rule",
            [*question, "GB", "tokens", *rules],
            contexts,
            _CONTEXT,
            numbers=_ratios(runs, context_ratio),
        ),
        Section("serving-layers", "Layers of each stage of vLLM", [*question, "rule", "fastest", "most context"], cuts),
        *([_hybrid_section(mixed)] if mixed else []),
        Section("serving-reported", "What users measured [tokens]", _REPORTED_HEADER, _reported_rows(), _REPORTED),
        *deployment_sections(),
    ]


_REPORTED_HEADER = ("", "cut", "layers", "reported", "here")


def _reported_rows() -> list[list[str]]:
    rows = []
    for make in REPORTS:
        report = make()
        for cut, counts, tokens in (
            ("default", report.default, report.default_context),
            ("by hand", report.by_hand, report.by_hand_context),
        ):
            capacity = served(report.question, counts).capacity
            rows.append([report.source, cut, _joined(counts), f"{tokens:.0f}", f"{capacity:.0f}"])
        best = serving_front(report.question).points[-1]
        counts = LayerCut.of(best.partition).counts
        rows.append([report.source, "most, proved", _joined(counts), "–", f"{best.capacity:.0f}"])
    return rows


def _pictures(runs: Sequence[Run]) -> dict[str, Axes]:
    runs, mixed = _parted(runs)
    labels = [f"{run['network']}, {run['phase']}, k = {run['k']}" for run in runs]
    quantities = {
        "serving-time": (time_ratio, "bottleneck of the default rule over the proved optimum"),
        "serving-context": (context_ratio, "largest context, proved, over that of the default rule"),
    }
    drawn = {
        name: plot_rules(labels, {rule: [ratio(run, rule) for run in runs] for rule in DEFAULT_RULES}, quantity)
        for name, (ratio, quantity) in quantities.items()
    }
    if mixed:
        values = {
            f"sglang, k = {k}": [time_ratio(run, "sglang") for run in mixed if run["k"] == k]
            for k in sorted({run["k"] for run in mixed})
        }
        names = list(dict.fromkeys(run["network"] for run in mixed))
        drawn["serving-hybrid"] = plot_rules(names, values, quantities["serving-time"][1])
    return drawn


def _ratios(runs: Sequence[Run], ratio: Callable[[Run, str], float | None]) -> pd.DataFrame:
    rows = [(run["network"], run["phase"], run["k"], rule, ratio(run, rule)) for run in runs for rule in DEFAULT_RULES]
    return pd.DataFrame(rows, columns=["decoder", "phase", "k", "runtime", "ratio"]).astype({"ratio": float})


def _question(run: Run) -> list[str]:
    return [run["network"], run["phase"], str(run["k"])]


def _number(run: Run, end: str, name: str, scale: float) -> str:
    """A number of one end of vLLM's front as text, times `scale`; a dash where it is missing."""
    value = run["runtimes"]["vllm"][end]
    return "–" if value is None else f"{value[name] * scale:.4g}" if scale != 1 else f"{value[name]:.0f}"


def _layers(cut: dict[str, Any] | None) -> str:
    return "–" if cut is None else _joined(cut["layers"])


def _joined(counts: Sequence[int]) -> str:
    """Layer counts with equal neighbours as a product, such as 10×8."""
    runs = [(count, len(list(same))) for count, same in groupby(counts)]
    return ",".join(f"{count}x{times}" if times > 2 else ",".join([str(count)] * times) for count, times in runs)
