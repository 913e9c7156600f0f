"""Tables of the study of serving, beside what runtimes report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.studies.report import Report, Section
from experiments.studies.serving.jobs import DEFAULT_RULES, ServingJob, jobs_of, served
from experiments.studies.serving.measurements import deployment_sections
from instances.architectures import ARCHITECTURES
from instances.devices import Platform
from instances.graph.graph import ComputationGraph
from instances.partitioning.problem import Instance
from instances.partitioning.serving import ServingInstance
from instances.runtimes import RUNTIMES
from instances.runtimes.layers import LayerCut
from instances.runtimes.serving import serving_chain
from mtpp.plots.partitions import plot_rules
from mtpp.runs.job import Run
from mtpp.runs.workers import Workers
from mtpp.text.numbers import or_dash
from mtpp_models.bounds.serving import serving_front

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
    """Llama-3-70B in FP8 on eight L4 of 24 GB, in blocks of 16 tokens: 1,476, and 3,078 with less at the ends.

    Embedding and head have two bytes a weight. The memory for weights and caches is set such that ten layers a stage
    leave room for 1,476 blocks.
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
    """llama3.2-vision:90b on four devices of 22 GB: a context of 14,094, and 29,700 by 24, 27, 27 and 23 layers.

    The output counts as a layer of the last device. The buffer of each device is set such that the reported 15.5 GB
    remain unused; the first device also holds as much as leaves room for 14,094 tokens beside 26 layers.
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
