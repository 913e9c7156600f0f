"""Certificates of deployments: what is true is proved again, what is changed is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from certificates import hashed

import mtpp
from instances.errors import InputError
from instances.json_files import parse_json
from mtpp.problems.checking import result_document
from mtpp.questions.serving import model_of
from mtpp.verification.serving.deployment import verify_deployment
from mtpp.verification.verdict import Limits, Verdict

_QUESTIONS: dict[str, dict[str, Any]] = {
    "with a limit": {"servers": "1x4xH100", "tpot": "40ms", "ttft": "400ms", "weights": "fp8"},
    "two types": {"servers": "1x2xL4,1x1xA100", "input": 200, "output": 300, "batch": 64},
    "one degree": {"servers": "1x4xA100", "runtime": "vllm", "batch": 32},
    "price": {"servers": "1x2xA100,1x2xH100", "objective": "cost", "price": "8,19", "batch": 128},
    "pools": {"servers": "1x4xA100,1x2xH100", "prefill": "pools", "ttft": "2s", "input": 3000, "batch": 128},
    "one sequence": {"servers": "1x4xA100", "objective": "latency"},
    "stored bytes": {"servers": "1x2xL4,1x1xA100", "batch": 16},
}


def document(name: str) -> dict[str, Any]:
    model = model_of("llama-3-8b")
    if name == "stored bytes":
        shapes = tuple(replace(shape, stored=shape.parameters * 4 // 7) for shape in model.shapes)
        model = replace(model, shapes=shapes, stored=(model.embedding // 2 + 5, model.head * 4 // 5))
    result = mtpp.serve(model, time_limit=None, **_QUESTIONS[name])
    return json.loads(json.dumps(result_document(result)))  # type: ignore[no-any-return]


def check(data: dict[str, Any]) -> Verdict:
    return verify_deployment(parse_json(json.dumps(data), "file.json"), Limits(60))


@pytest.fixture(scope="module", params=list(_QUESTIONS))
def true(request: pytest.FixtureRequest) -> dict[str, Any]:
    return document(request.param)


def test_what_is_true_is_proved(true: dict[str, Any]) -> None:
    verdict = check(true)
    assert not verdict.faults
    assert not verdict.rests_on_trust
    assert verdict.proved_ratio == pytest.approx(1, rel=1e-8)


def _proof(data: dict[str, Any]) -> dict[str, Any]:
    """The bound with boxes."""
    return next(bound for bound in data["bounds"] if bound["method"] == "chains")


def mutants(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The file with one number changed so that it says something else, or loses a part of its proof."""

    def changed(name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        other = deepcopy(data)
        chain = other["answer"]["sites"][0]["chains"][0]
        return other, chain, _proof(other)

    for name in ("batches", "batch"):
        other, chain, _ = changed(name)
        chain[name] += 1
        yield name, other
    for name in ("weight_bytes", "cache_bytes"):
        other, chain, _ = changed(name)
        chain[name][0] += 1
        yield name, other
    for name in ("tpot", "ttft", "rate"):
        other, chain, _ = changed(name)
        chain[name] *= 1.001
        yield name, other
    other, *_ = changed("rate of all")
    other["answer"]["rate"] *= 1.001
    yield "rate of all", other
    other, *_ = changed("price")
    other["answer"]["price"] = 1.0 if other["answer"]["price"] is None else other["answer"]["price"] * 1.001
    yield "price", other
    other, chain, _ = changed("layers")
    chain["stages"][-1][4] -= 1
    yield "layers", other
    other, *_ = changed("count")
    other["answer"]["sites"][0]["count"] += 1
    yield "count", other
    for change in (0.999, 1.001):
        other, _, proof = changed("value")
        proof["value"] *= 1.001
        proof["parameters"]["chains"][0]["rate"][0] = int(proof["parameters"]["chains"][0]["rate"][0] * change)
        yield f"value with rate {change}", other
    for n in {0, len(_proof(data)["parameters"]["chains"]) - 1}:
        other, _, proof = changed("chain")
        del proof["parameters"]["chains"][n]
        yield f"no proof {n}", other
        other, _, proof = changed("box")
        del proof["parameters"]["chains"][n]["boxes"][-1]
        yield f"a box of {n} is gone", other
        if proof["parameters"]["chains"][n]["rate"][0] > 1:
            other, _, proof = changed("rate")
            row = proof["parameters"]["chains"][n]
            row["rate"] = [1, row["rate"][1]]
            yield f"rate of {n}", other


def test_what_is_changed_is_refused(true: dict[str, Any]) -> None:
    for name, other in mutants(true):
        try:
            verdict = check(other)
        except InputError:
            continue
        assert verdict.faults, name


def test_bug_devices_of_a_proof_were_not_those_of_the_question() -> None:
    data = document("two types")
    for row in ([10**9, 2], [1, 10**9], [2, 2]):
        other = deepcopy(data)
        _proof(other)["parameters"]["chains"][0]["devices"][0] = row
        with pytest.raises(InputError, match="expected servers of the question"):
            check(other)


def test_verify_reads_the_file(tmp_path: Any) -> None:
    path = tmp_path / "deployment.json"
    path.write_text(json.dumps(document("with a limit")))
    assert not mtpp.verify(path).faults
    assert "tokens/s" in str(mtpp.explain(path))


def test_a_proof_that_no_chain_fits_bounds_no_answer() -> None:
    """A rate of nothing gives no time for a token, and no answer stands beside it."""
    words: dict[str, Any] = {"servers": "1x1xL4", "batch": 8, "time_limit": None}
    data = json.loads(json.dumps(result_document(mtpp.serve("llama-3-8b", **words))))
    data["question"]["servers"][0]["memory"] = 1e9
    proof = _proof(data)["parameters"]["chains"][0]
    proof["rate"], proof["boxes"] = [0, 1], [[1, 1, 1, 8, 0]]
    verdict = check(hashed(data))
    claim = next(row for row in verdict.checks if row.claim.method == "chains")
    assert claim.fault is not None
    assert claim.fault.endswith("only 0.0 is proved")
