"""Predicted steps of training beside published ones.

Sources of the rows: *dgxc*, NVIDIA/dgxc-benchmarking (llama3.1, nemotron, nemo_megatron, grok1 and deepseek_v3);
*bridge*, NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md; *NeMo*, NVIDIA/NeMo, its performance summary;
*llm-foundry*, mosaicml/llm-foundry, scripts/train/benchmarking; *torchtitan*, pytorch/torchtitan, benchmarks;
*Korthikanti*, MLSys 2023, Table 5. That a run recomputes nothing, or all of DeepSeek-V3, is assumed where its page is
silent. Half of the rows, in whole families of models, set the constants.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from experiments.studies.report import Report, Section, errors_in_words
from instances.json_files import parse_json
from instances.planning.grid.estimates import spread
from instances.planning.grid.plan import GridPlan
from instances.planning.grid.transformer import TRANSFORMERS, Transformer, transformer_of
from instances.readers.huggingface.configuration import decoder_of
from mtpp.api.training import asked, even_plan
from mtpp.plots.style import axes_of
from mtpp.questions.grid import GridQuestion

#: Published rows with their sources.
PUBLISHED = Path(__file__).with_suffix(".csv")

_GPT = {"vocabulary": 51200, "positions": 8192, "gated": False, "biases": True, "tied": True}
_MPT = {"vocabulary": 50368, "gated": False, "tied": True}


def _alike(layers: int, hidden: int, heads: int, **others: Any) -> dict[str, Any]:
    """Sizes of a transformer without grouped keys, whose inner width is four times the hidden width."""
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "key_heads": heads, "inner": 4 * hidden}
    return {**sizes, **others}


#: Models of the rows that have no name in this project.
_MODELS: dict[str, dict[str, Any]] = {
    "llama31-405b": _alike(126, 16384, 128, key_heads=8, inner=53248, vocabulary=128256),
    "llama2-13b": _alike(40, 5120, 40, inner=13824, vocabulary=32000),
    "llama2-70b": _alike(80, 8192, 64, key_heads=8, inner=28672, vocabulary=32000),
    "nemotron4-15b": _alike(32, 6144, 48, key_heads=8, vocabulary=256000, gated=False),
    "nemotron4-340b": _alike(96, 18432, 96, key_heads=8, vocabulary=256000, gated=False),
    "grok1-314b": _alike(64, 6144, 48, key_heads=8, inner=32768, vocabulary=131072, experts=8, chosen=2),
    "gpt3-5b": _alike(24, 4096, 32, **_GPT),
    "gpt3-175b": _alike(96, 12288, 96, **_GPT),
    "k22b": _alike(48, 6144, 64, dropout=True, **_GPT),
    "k530b": _alike(105, 20480, 128, dropout=True, **_GPT),
    "k1t": _alike(128, 25600, 160, dropout=True, **_GPT),
    "mpt-1b": _alike(24, 2048, 16, **_MPT),
    "mpt-7b": _alike(32, 4096, 32, **_MPT),
    "mpt-13b": _alike(40, 5120, 40, **_MPT),
    "mpt-30b": _alike(48, 7168, 64, **_MPT),
    "mpt-70b": _alike(80, 8192, 64, **_MPT),
}
#: The same as configurations of Hugging Face.
_CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "gpt-oss-120b": {"model_type": "gpt_oss"},
    "deepseek-v3": {"model_type": "deepseek_v3"},
    "qwen3-30b": {
        "model_type": "qwen3_moe",
        **{"hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4},
        **{"head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
        **{"vocab_size": 151936, "decoder_sparse_step": 1, "mlp_only_layers": [], "intermediate_size": 6144},
    },
}
_RUNTIMES = {"mega": "megatron", "mega-eager": "megatron", "fsdp": "fsdp", "titan": "torchtitan"}
_SERVERS = {"A100": ("A100-80", "300GB/s,25GB/s"), "H100": ("H100-80", "450GB/s,50GB/s")}
_SERVERS["H100-96"] = ("H100-96", _SERVERS["H100"][1])
_SERVER, _RECOMPUTED = 8, {"op": "half"}


@cache
def model_named(name: str) -> Transformer:
    """The model of a row."""
    if name in TRANSFORMERS:
        return TRANSFORMERS[name]
    if name in _CONFIGURATIONS:
        document = parse_json(json.dumps(_CONFIGURATIONS[name]), name)
        return transformer_of(decoder_of(document)[0], name)
    return Transformer.uniform(name=name, **_MODELS[name])


@dataclass(frozen=True)
class MeasuredStep:
    """A row of published measurements; fields are columns."""

    row: dict[str, str]

    @property
    def seconds(self) -> float:
        """Seconds of a step, as published."""
        return float(self.row["sec"])

    @property
    def devices(self) -> int:
        """Number of devices, V."""
        return int(self.row["V"])

    @cached_property
    def model(self) -> Transformer:
        """The model of the run, perhaps with its first layers alone."""
        model = model_named(self.row["model"])
        return replace(model, layers=model.layers[: int(self.row["layers"])]) if self.row["layers"] else model

    @property
    def family(self) -> str:
        """Group of runs that share constants."""
        if self.model.experts:
            return "experts"
        return "ZeRO 3" if self.row["zero"] == "3" else f"dense {self.row['dt']}"

    @cached_property
    def question(self) -> GridQuestion:
        """The question with all degrees fixed."""
        row, (device, rates) = self.row, _SERVERS[self.row["dev"]]
        size = min(_SERVER, self.devices)
        pipelines = self.devices // math.prod(int(row[name]) for name in ("pp", "tp", "cp"))
        fixed = {**{name: row[name] for name in ("pp", "tp", "cp", "ep")}, "dp": str(pipelines)}
        fixed |= {"v": row["v"]} if int(row["v"]) > 1 else {}
        return asked(
            self.model,
            f"{self.devices // size}x{size}",
            bandwidth=rates,
            nic="full" if size == 1 else f"{size * float(rates.split(',')[1][:-4]):g}GB/s",
            global_batch=int(row["G"]),
            sequence=int(row["seq"]),
            micro_batch=row["mb"],
            fix=",".join(f"{name}={value}" for name, value in fixed.items()),
            zero=row["zero"],
            dtype=row["dt"],
            runtime=_RUNTIMES[row["rt"]],
            attention="eager" if row["rt"] == "mega-eager" else "fused",
            checkpoint=_RECOMPUTED.get(row["rec"], row["rec"]),
            device=device,
            full_duplex=True,
        )

    @cached_property
    def plan(self) -> GridPlan:
        """The plan that ran, with equal layers in all stages."""
        return even_plan(self.question.instance)

    @property
    def is_in_range(self) -> bool:
        """Whether the measured time lies in the predicted range, which is meant to cover 80 % of measured steps."""
        assert self.question.estimate is not None
        return abs(math.log(self.plan.time / self.seconds)) <= math.log(spread(self.question.estimate, self.plan))


def measured_steps() -> list[MeasuredStep]:
    """The published steps of training, a row each."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return [MeasuredStep(row) for row in csv.DictReader(file)]


_NOTE = (
    "Geometric mean of predicted over measured steps with its 95 % interval over\n"
    "models on devices; of the larger of both over the smaller the mean, 90 % and the\n"
    "worst; and the part of the steps inside of the stated range of 80 %."
)


def families_section(steps: Iterable[MeasuredStep]) -> Section:
    """Table of predictions and measurements by family."""
    groups: dict[str, list[MeasuredStep]] = {}
    for step in steps:
        groups.setdefault(step.family, []).append(step)
    lines = []
    for family, members in groups.items():
        logs = np.array([math.log(step.plan.time / step.seconds) for step in members])
        errors = errors_in_words(logs, [f"{step.row['model']} {step.row['dev']}" for step in members])
        inside = sum(step.is_in_range for step in members) / len(members)
        lines.append([family, str(len(members)), *errors, f"{inside:.0%}"])
    header = ["family", "rows", "mean", "interval", "apart", "90 %", "worst", "in range"]
    return Section("train-measured", "Predicted steps beside published ones", header, lines, _NOTE)


def steps_section(steps: Iterable[MeasuredStep]) -> Section:
    """Table of all rows with their predictions."""
    lines = [
        [
            step.row["id"],
            step.row["dev"],
            str(step.devices),
            step.row["rt"],
            f"{step.seconds:.4g}",
            f"{step.plan.time:.4g}",
            f"{step.plan.time / step.seconds:.3f}",
            step.row["src"],
        ]
        for step in steps
    ]
    header = ["run", "device", "V", "runtime", "measured [s]", "predicted", "ratio", "source"]
    return Section("train-steps", "Each published step", header, lines, "")


def plot_steps(steps: Iterable[MeasuredStep]) -> Axes:
    """Predicted over measured steps by family, with lines at 1 and at 10 % error."""
    axes = axes_of(None, 6.0, 4.5)
    groups: dict[str, list[tuple[float, float]]] = {}
    for step in steps:
        groups.setdefault(step.family, []).append((step.seconds, step.plan.time))
    for family, points in groups.items():
        measured, predicted = zip(*points, strict=True)
        axes.scatter(measured, predicted, s=14, label=f"{family} ({len(points)})")
    ends = np.array([min(min(pair) for points in groups.values() for pair in points), 200.0])
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.fill_between(ends, ends / 1.1, ends * 1.1, color="black", alpha=0.12, linewidth=0, label="within 10 %")
    axes.set(xscale="log", yscale="log", xlabel="measured step [s]", ylabel="predicted step [s]")
    axes.legend()
    return axes


def make_measured_tables(report: Report) -> int:
    """Print and write tables and picture; the exit code."""
    steps = measured_steps()
    report.publish([families_section(steps), steps_section(steps)], lambda: {"train-steps": plot_steps(steps)})
    return report.exit_code([])
