"""The table of default rules against optima: rules, runs that are not repeated, and what users measured."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.studies.report import Report
from experiments.studies.serving.study import (
    DEFAULT_RULES,
    ServingJob,
    context_ratio,
    hybrids,
    jobs_of,
    make_serving_tables,
    ollama_12010,
    served,
    time_ratio,
    vllm_6920,
)
from instances import Instance, Partition, Platform
from instances.architectures import ARCHITECTURES
from instances.runtimes import RUNTIMES
from instances.runtimes.layers import LayerStack
from mtpp.runs.workers import this_process
from mtpp_models import solve
from mtpp_models.bounds.serving import serving_front


@pytest.mark.parametrize("name", DEFAULT_RULES)
def test_rules_divide_all_layers(name: str) -> None:
    """For any numbers of layers and stages."""
    for layers in range(2, 70):
        for k in range(1, min(layers, 9) + 1):
            counts = DEFAULT_RULES[name](layers, k)
            assert (len(counts), sum(counts)) == (k, layers)
            assert max(counts) - min(counts) <= (2 if name == "torchtitan" else 1)


def test_rules_of_the_documents() -> None:
    """DeepSeek's 61 layers, as the documents of vLLM and TensorRT-LLM divide them; Llama's in torchtitan."""
    assert DEFAULT_RULES["vllm"](61, 4) == (15, 15, 16, 15)
    assert DEFAULT_RULES["sglang"](61, 4) == (15, 15, 15, 16)
    assert DEFAULT_RULES["tensorrt-llm"](61, 8) == (8, 8, 8, 8, 8, 7, 7, 7)
    assert DEFAULT_RULES["torchtitan"](32, 8) == (4, 5, 4, 4, 4, 4, 4, 3)


@pytest.mark.parametrize(
    ("name", "dims", "ratios"),
    [
        ("llama-3-8b", {"batch": 32, "sequence": 1}, (1.267, 1.267, 1.267, 1.068)),
        ("llama-3-8b", {"sequence": 2048}, (1.142, 1.142, 1.142, 1.008)),
        ("llama-3-70b", {"sequence": 2048}, (1.002, 1.002, 1.002, 1.002)),
        ("bert-large", {}, (1.0, 1.0, 1.0, 1.305)),
    ],
)
def test_rules_over_the_program_over_ideals(name: str, dims: dict[str, int], ratios: tuple[float, ...]) -> None:
    """Without a cache, on eight devices: what the rules lose against an optimum that another program proves."""
    graph = ARCHITECTURES[name].build(level="layer", **dims)
    stack = LayerStack.of(graph)
    best = solve(Instance(graph, Platform(8, 64e9), constraints=RUNTIMES["vllm"].rules(graph)), "ideals").bound
    assert best is not None
    for rule, ratio in zip(DEFAULT_RULES.values(), ratios, strict=True):
        stage = np.array([0, *np.repeat(range(8), rule(stack.layers, 8)), 7])
        cut = Partition(Instance(graph, Platform(8, 64e9)), stage[stack.unit])
        assert cut.bottleneck / best.value == pytest.approx(ratio, abs=5e-4)


def test_all_decoders_in_both_phases() -> None:
    """On two, four and eight devices, where there are as many layers; a context is one that the decoder takes."""
    decoders = [name for name, network in ARCHITECTURES.items() if network.served]
    jobs = jobs_of()
    mixed = [job for job in jobs if job.network in hybrids()]
    assert len(jobs) - len(mixed) == 6 * len(decoders)
    assert {job.network for job in mixed} == set(hybrids())
    assert {job.k for job in mixed if job.network == "nemotron_h"} == {2, 4}
    assert all(job.k <= len(hybrids()[job.network].layers) for job in mixed)
    assert all(job.dims["context"] <= (hybrids()[job.network].longest or math.inf) for job in mixed)
    assert len({job.key for job in jobs}) == len(jobs)


@pytest.mark.parametrize("name", ["gemma2", "gpt_oss", "qwen3_next", "jamba", "kolibri1"])
def test_no_rule_beats_the_optimum_of_a_hybrid_decoder(name: str) -> None:
    """Equal numbers of layers are not equal stages where layers keep different caches."""
    run = ServingJob(name, "decode", 4).run()
    assert run["error"] is None
    assert time_ratio(run, "sglang") is not None
    for rule in DEFAULT_RULES:
        for ratio in (time_ratio(run, rule), context_ratio(run, rule)):
            assert ratio is None or ratio >= 1 - 1e-12


def test_hybrid_decoders_have_a_table_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(tmp_path / "runs.jsonl", tmp_path / "tables", quiet=True)
    with this_process() as workers:
        assert make_serving_tables(workers, report, ["gpt2", "gemma3_text"]) == 0
    out = capsys.readouterr().out
    assert "Hybrid decoders: rules over proved optima" in out
    assert max(map(len, out.splitlines())) <= 80
    assert re.search(r"gemma3_text +4 +16 +1\.280 ", out)
    assert (tmp_path / "tables" / "serving-hybrid.png").exists()
    assert len(hybrids()) >= 20


def test_no_rule_beats_the_optimum() -> None:
    """Neither in time nor in context."""
    for phase in ("prefill", "decode"):
        run = ServingJob("gpt2", phase, 4).run()
        assert run["error"] is None
        for rule in DEFAULT_RULES:
            for ratio in (time_ratio(run, rule), context_ratio(run, rule)):
                assert ratio is not None
                assert ratio >= 1


@pytest.mark.parametrize(("context", "ratio"), [(2, 3.0), (1, 6.0), (0, None), (-1, None)])
def test_a_rule_with_room_for_one_token_has_a_ratio(context: int, ratio: float | None) -> None:
    """None where it has room for none, or no cut has."""
    found = {"rule": {"context": context}, "largest": {"context": 6}}
    assert context_ratio({"runtimes": {"vllm": found}}, "vllm") == ratio
    assert context_ratio({"runtimes": {"vllm": found | {"largest": None}}}, "vllm") is None


def test_tables_go_on_where_they_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second call makes no run; tables fit eighty columns, and there are pictures."""
    report = Report(tmp_path / "runs.jsonl", tmp_path / "tables", quiet=True)
    for _ in range(2):
        with this_process() as workers:
            assert make_serving_tables(workers, report, ["gpt2"]) == 0
        assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 6
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert {path.name for path in (tmp_path / "tables").glob("*.png")} == {"serving-time.png", "serving-context.png"}
    assert (pd.read_csv(tmp_path / "tables" / "serving-time.csv")["ratio"].dropna() >= 1).all()


def test_blocks_of_vllm() -> None:
    """Fewer layers at the ends give 3,078 blocks of 16 tokens instead of 1,476; no cut gives more than is proved."""
    report = vllm_6920()
    assert served(report.question, report.default).capacity // 16 == 1476
    by_hand = served(report.question, report.by_hand).capacity
    assert by_hand == pytest.approx(report.by_hand_context, rel=0.1)
    assert serving_front(report.question).points[-1].capacity >= by_hand


def test_context_of_ollama() -> None:
    """A context of 29,700 instead of 14,094 tokens by hand, and more with the cut that is proved."""
    report = ollama_12010()
    assert served(report.question, report.default).capacity == report.default_context
    by_hand = served(report.question, report.by_hand).capacity
    assert by_hand == pytest.approx(report.by_hand_context, rel=0.1)
    assert serving_front(report.question).points[-1].capacity > 1.5 * by_hand
