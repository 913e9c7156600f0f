"""Plans that a runtime can express: what --for finds is what export says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import assert_misuse, mtpp
from runtime_readers import READERS

from instances.runtimes.layers import LayerCut
from mtpp.api.answers import read

QUESTION = "--cluster 2x2 --bandwidth 300GB/s,25GB/s --microbatches 4 --dim batch=2 --effort 0"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("runtime", ["megatron", "torch", "vllm", "galvatron", "deepspeed"])
@pytest.mark.slow
def test_a_plan_for_a_runtime_is_exported(runtime: str, capsys: pytest.CaptureFixture[str]) -> None:
    """At operator level, where free plans cut layers: here they are whole, and replicas equal."""
    assert mtpp(f"plan bert-base {QUESTION} --for {runtime} --out plan.json --quiet") == 0
    assert mtpp("verify plan.json --quiet") in (0, 4)
    capsys.readouterr()
    assert mtpp(f"export plan.json --for {runtime} --json") == 0
    words = json.loads(capsys.readouterr().out)["words"]
    plan = read("plan.json").answer.plan  # type: ignore[union-attr]
    cut = LayerCut.of(plan)
    assert len(set(plan.replicas.tolist())) == 1
    if runtime in ("megatron", "galvatron"):
        assert READERS[runtime](words, 12, cut.k) == list(cut.unit_stage)


def test_refusals_of_plans_for_runtimes(capsys: pytest.CaptureFixture[str]) -> None:
    assert_misuse(
        capsys,
        {
            f"plan inception-v3 {QUESTION} --for megatron": "tell of no layers",
            f"plan bert-base {QUESTION} --for openvino": "not layers of a plan",
            f"plan bert-base {QUESTION} --for torchtitan": "nothing tells the names of its modules",
            f"plan bert-base {QUESTION} --for megatrom": "megatron",
        },
    )
