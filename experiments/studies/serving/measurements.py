"""Predicted rates of deployments beside measurements that others have published, and beside rules of thumb."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from experiments.studies.report import Section, errors_in_words
from instances.deadline import Deadline
from instances.planning.grid.transformer import TRANSFORMERS, Transformer
from instances.serving.answer import Chain, ServedChain, Stage
from instances.serving.model import StatedServers, servers_of_text
from instances.serving.problem import MOST_BATCH, DeploymentInstance
from instances.serving.transformers import served_model
from mtpp_models.flow.deployments import deployed

#: Published rows with their sources; a row is a model on tp x pp devices of a server.
PUBLISHED = Path(__file__).parent / "published.csv"

#: Models of the rows that have no name in this project.
_MODELS: dict[str, dict[str, Any]] = {
    "llama-3.1-405b": {"layers": 126, "hidden": 16384, "heads": 128, "inner": 53248, "vocabulary": 128256},
    "mistral-7b": {"layers": 32, "hidden": 4096, "heads": 32, "inner": 14336, "vocabulary": 32000},
    "mixtral-8x22b": {
        **{"layers": 56, "hidden": 6144, "heads": 48, "inner": 16384, "vocabulary": 32768},
        **{"experts": 8, "chosen": 2},
    },
}
_WEIGHTS = {2.0: "bf16", 1.0: "fp8", 0.5625: "fp4"}
_DEVICES = {"RTX6000": "RTX-PRO-6000"}
RATE, TOKEN, FIRST = "output tokens/s", "mean ITL ms", "mean TTFT ms"
_METRICS = {RATE: "rate", TOKEN: "tpot", FIRST: "ttft"}
_PAPER = re.compile(r",? ?(docs/source/performance/|docs )?perf-overview\.md")


@dataclass(frozen=True)
class Measurement:
    """A row of published measurements."""

    source: str
    model: str
    device: str
    weights: str
    tp: int
    pp: int
    input: int
    output: int
    load: float  # requests of an offline run, or those that arrive in a second
    metric: str
    value: float

    @cached_property
    def question(self) -> DeploymentInstance:
        """Question of deployment for the measured devices, as one server."""
        servers = StatedServers(self.device, self.tp * self.pp).servers()
        kv = "bf16" if self.weights == "bf16" else "fp8"
        return DeploymentInstance(
            served_model(model_named(self.model)),
            (servers,),
            between=servers.within,
            input=self.input,
            output=self.output,
            weights=self.weights,
            kv=kv,
            degrees=(self.tp,),
            batch=MOST_BATCH,
        )

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Numbers of layers as even as possible, with one more in the first stages."""
        layers = self.question.model.layers
        ends = [math.ceil(layers * n / self.pp) for n in range(self.pp + 1)]
        return tuple(Stage(0, 0, self.tp, first, end) for first, end in pairwise(ends))

    @property
    def predicted(self) -> float | None:
        """The cost model's prediction of the measured number; None if no sequence fits."""
        question = self.question
        if self.metric == RATE:
            return self._rate(question)
        batch = next((b for b in range(1, 4097) if self._chain(question, 1, b).rate >= self.load * self.output), 4096)
        chain = self._chain(question, 1, batch)
        return chain.tpot * 1e3 if self.metric == TOKEN else chain.ttft * 1e3

    def _chain(self, question: DeploymentInstance, batches: int, batch: int) -> ServedChain:
        return ServedChain(question, Chain(self.stages, batches, batch))

    def _rate(self, question: DeploymentInstance) -> float | None:
        """Predicted tokens a second with as many sequences as fit; None if none fits.

        More than the run sends never count.
        """
        low, high = 0, int(self.load)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._chain(question, 1, middle).fits else (low, middle - 1)
        chains = [self._chain(question, m, low // m) for m in range(1, self.pp + 1) if low // m >= 1]
        return max((float(chain.rate) for chain in chains), default=None)


def model_named(name: str) -> Transformer:
    """The model of a row."""
    if name in TRANSFORMERS:
        return TRANSFORMERS[name]
    return Transformer.uniform(name=name, key_heads=8, **_MODELS[name])


def measurements() -> list[Measurement]:
    """The published measurements, in the order of their file."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return [
            Measurement(
                source=row["source"],
                model=row["model"],
                device=_DEVICES.get(row["device"], row["device"]),
                weights=_WEIGHTS[float(row["weight_bytes"])],
                tp=int(row["tp"]),
                pp=int(row["pp"]),
                input=int(row["input"]),
                output=int(row["output"]),
                load=float(row["requests_or_per_s"]),
                metric=row["metric"],
                value=float(row["value"]),
            )
            for row in csv.DictReader(file)
        ]


def factors(rows: list[Measurement]) -> np.ndarray:
    """Logarithms of predicted over measured numbers; infinite without a prediction."""
    pairs = [(row.predicted, row.value) for row in rows]
    return np.array([math.inf if predicted is None else math.log(predicted / value) for predicted, value in pairs])


_MEASURED = (
    "Geometric mean of predicted over measured, with its 95 % interval over models on\n"
    "devices, and of the larger of both over the smaller: mean, 90 % and the worst.\n"
    "Constants were fitted on half of the rows of release 0.14."
)
_RULES = (
    "Best: tokens/s, proved, and the tensor degrees of its stages; then how many\n"
    "times slower a chain of one degree is: a server's (tp), 1 (pp), 2 (tp2). ms: the\n"
    "longest time of a token. Prompts and outputs of 1000 tokens; 405b in FP8."
)


def measured_section() -> Section:
    """Table of predictions and measurements by source and metric."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for row in measurements():
        groups.setdefault((row.source, row.metric), []).append(row)
    lines = []
    for (source, metric), members in groups.items():
        errors = errors_in_words(factors(members), [f"{row.model} {row.device}" for row in members], 2)
        name = _PAPER.sub("", source).removeprefix("TensorRT-LLM ")
        lines.append([name, _METRICS[metric], str(len(members)), *errors])
    header = ["TensorRT-LLM", "of", "rows", "mean", "interval", "apart", "90 %", "worst"]
    return Section("serving-measured", "Predictions beside measurements", header, lines, _MEASURED)


#: Questions of the table of rules: model, servers, weights.
RULES = (
    ("llama-3-70b", "1x4xA100", "bf16"),
    ("llama-3-70b", "1x8xA100", "bf16"),
    ("llama-3-70b", "1x8xA100-PCIe", "bf16"),
    ("llama-3-70b", "1x4xH100", "bf16"),
    ("llama-3-70b", "1x8xH100", "bf16"),
    ("mixtral-8x7b", "1x8xA100-PCIe", "bf16"),
    ("llama-3.1-405b", "1x8xH100", "fp8"),
    ("llama-3.1-405b", "2x8xH100", "fp8"),
)
TARGETS = (math.inf, 0.05)


def rules_section() -> Section:
    """Table of rules of thumb over proved optima, with and without a limit on token times."""
    lines = [
        [model, servers, _milliseconds(tpot), *_against_rules(model, servers, weights, tpot)]
        for tpot in TARGETS
        for model, servers, weights in RULES
    ]
    header = ["model", "servers", "ms", "best", "degrees", "tp", "pp", "tp2"]
    return Section("serving-thumb", "Rules of thumb over proved optima", header, lines, _RULES)


def _milliseconds(seconds: float) -> str:
    return "–" if seconds == math.inf else f"{seconds * 1e3:g}"


def _degrees(chain: ServedChain, count: int) -> str:
    """Tensor degrees of the stages of a chain, run-length coded, and the number of equal chains."""
    runs = [(degree, len(list(row))) for degree, row in groupby(stage.degree for stage in chain.chain.stages)]
    degrees = ",".join(f"{degree}" if times == 1 else f"{degree}x{times}" for degree, times in runs)
    return degrees if count == 1 else f"{count} of {degrees}"


@cache
def _against_rules(model: str, servers: str, weights: str, tpot: float) -> tuple[str, ...]:
    fleet = servers_of_text(servers)
    assert fleet is not None
    fields: dict[str, Any] = {"input": 1000, "output": 1000, "weights": weights, "tpot": tpot}
    fields["kv"] = "bf16" if weights == "bf16" else "fp8"
    decoder = served_model(model_named(model))
    best, _, _ = deployed(DeploymentInstance(decoder, fleet, 50e9, **fields), Deadline())
    if best is None:
        return "–", "none", "–", "–", "–"
    size = fleet[0].devices
    chains = "; ".join(_degrees(chain, count) for chain, count in best.chains)
    ratios = list[str]()
    for degree in (size, 1, 2):
        restricted = DeploymentInstance(decoder, fleet, 50e9, degrees=(degree,), topology="chain", **fields)
        other, _, _ = deployed(restricted, Deadline())
        ratios.append("–" if other is None else f"{best.rate / other.rate:.3f}")
    return f"{best.rate:.0f}", chains, *ratios


def deployment_sections() -> Iterator[Section]:
    """Sections of `mtpp table serving` about deployments."""
    yield rules_section()
    yield measured_section()
