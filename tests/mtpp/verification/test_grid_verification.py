"""`mtpp verify` of plans in a grid: proved bounds, and faults that it finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from certificates import hashed

from instances.errors import InputError
from instances.json_files import Value
from instances.planning.grid import Configuration, ConfiguredChain, ConfiguredLayer, GridInstance, Servers
from instances.planning.grid.configurations import MODES
from instances.planning.grid.problem import Fixed, StateBytes
from mtpp.certifying.methods import certify_grid
from mtpp.problems.checking import result_document, verify
from mtpp.verification.planning.grid.plan import proved_bound
from mtpp.verification.verdict import Clock, Verdict
from tests.helpers.grid_cases import equal_question, random_question, with_ends


def document_of(memory: float = 8, v: int | None = 1) -> dict[str, Any]:
    question = replace(equal_question(4, 4, memory), fixed=Fixed(v=v))
    return _document(question)


def _document(question: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(result_document(certify_grid(question))))
    return made


def verdict_of(document: dict[str, Any]) -> Verdict:
    return verify(Value(hashed(document), "plan.json"))


def test_plans_and_all_bounds_are_proved_again() -> None:
    rng, seen = np.random.default_rng(3), 0
    for _ in range(40):
        try:
            document = _document(random_question(rng))
        except InputError:
            continue
        verdict = verdict_of(document)
        assert not verdict.faults
        assert all(check.proved is not None for check in verdict.checks)
        assert not verdict.rests_on_trust
        seen += 1
    assert seen > 15


def _forge(*path: Any, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def forge(document: dict[str, Any]) -> None:
        place: Any = document
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = change(place[path[-1]])

    return forge


FAULTS = {
    "a bound too high": _forge("bounds", 0, "value", change=lambda x: 1.01 * x),
    "the time": _forge("cost", change=lambda x: 0.99 * x),
    "the ratio": _forge("ratio", change=lambda x: 0.99 * x),
    "another batch": _forge("question", "global_batch", change=lambda x: 2 * x),
    "another question": _forge("question", "memory", change=lambda x: 100.0),
    "faster layers": _forge(
        "question", "chains", 0, "kinds", "layer", change=lambda ways: [{**way, "forward": 1.0} for way in ways]
    ),
    "the memory of a group": _forge("answer", "memory", 0, 3, change=lambda x: x / 2),
    "a layer that recomputes no more": _forge("answer", "modes", 0, change=lambda x: "none"),
    "a device twice": _forge("answer", "ranks", 1, "gpu", change=lambda x: 0),
    "a device that is not there": _forge("answer", "ranks", 0, "server", change=lambda x: 7),
    "a degree": _forge("answer", "grid", "tp", change=lambda x: [1, 1]),
    "the turns": _forge("answer", "grid", "v", change=lambda x: 2),
    "a cut": _forge("answer", "cuts", 1, change=lambda x: 3),
    "ZeRO": _forge("answer", "zero", change=lambda x: 3),
    "a pass too early": _forge("answer", "starts", 2, 1, change=lambda x: 0.0),
    "a transfer too early": _forge("answer", "sent", 0, 1, change=lambda x: 0.0),
    "a pass less": _forge("answer", "starts", 0, change=lambda row: row[:-1]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name: str) -> None:
    document = document_of()
    assert not verdict_of(document).faults
    FAULTS[name](document)
    try:
        verdict = verdict_of(document)
    except InputError:
        return  # refused as a file
    assert verdict.faults


def test_bounds_hold_for_their_own_class_alone() -> None:
    document = document_of(memory=100, v=2)
    assert document["answer"]["grid"]["v"] == 2
    assert [bound["method"] for bound in document["bounds"]] == ["turns-grid", "work-grid"]
    assert not verdict_of(document).rests_on_trust
    document["bounds"][0]["method"] = "z-grid"
    assert any("one stage a device" in fault for fault in verdict_of(document).faults)


def test_bounds_for_turns_are_proved_again() -> None:
    rng, seen = np.random.default_rng(23), 0
    for _ in range(15):
        try:
            document = _document(replace(with_ends(rng, 4), fixed=Fixed(v=2)))
        except InputError:
            continue
        verdict = verdict_of(document)
        assert not verdict.faults
        assert verdict.checks[0].claim.method == "turns-grid"
        assert not verdict.rests_on_trust
        document["bounds"][0]["value"] *= 1.05
        assert verdict_of(document).faults
        seen += 1
    assert seen > 5


def test_a_file_without_its_question_is_refused() -> None:
    document = document_of()
    del document["question"]
    with pytest.raises(InputError, match="missing field 'question'"):
        verdict_of(document)


def test_bug_too_many_ways_of_layers_in_turns_ended_the_check() -> None:
    """Numbers of 40 layers that run five ways each are not listed, so that the bound is trusted."""
    ways = tuple(
        Configuration(
            forward=1.0,
            input_backward=1.0 + again,
            weight_backward=1.0,
            parameters=1.0,
            stored_bytes=4.0 - again,
            working_bytes=again,
            output_bytes=1.0,
            recompute=mode,
        )
        for again, mode in enumerate(MODES)
    )
    layers = tuple(ConfiguredLayer(str(n), "end" if n in (0, 41) else "layer", ways) for n in range(42))
    servers = Servers(1, 4, 8.0, 1.0)
    question = GridInstance((ConfiguredChain(layers),), servers, 4, memory=150.0, state_bytes=StateBytes(0, 0, 0))
    assert proved_bound(question, "turns-grid", 400.0, Clock(60.0)) is None


@pytest.mark.parametrize("whole", [False, True], ids=["split experts", "whole experts"])
@pytest.mark.parametrize("zero", [1, 3])
def test_devices_that_share_a_sequence_hold_the_same_weights(zero: int, whole: bool) -> None:
    """Each part of a sequence needs all of them, so that ZeRO divides the state among pipelines and parts."""
    layers = tuple(
        replace(layer, configurations=tuple(replace(way, cp=2, expert_parameters=1.0) for way in layer.configurations))
        for layer in equal_question(4, 4).chains[0].layers
    )
    question = replace(equal_question(4, 4, 24, zero), chains=(ConfiguredChain(layers),), whole_experts=whole)
    document = _document(question)
    assert document["answer"]["grid"]["cp"] == 2
    verdict = verdict_of(document)
    assert not verdict.faults
    assert not verdict.rests_on_trust
