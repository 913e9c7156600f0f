"""Bounds on placements in files: what is true is proved again by separate code, each false number is named."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from certificates import plain
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_oracle import random_question

from instances import ComputationGraph
from instances.errors import InputError
from instances.json_files import Value
from instances.machines import Machines
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from mtpp.problems.checking import certificate_document, verify
from mtpp.verification.placement.step_time import Step
from mtpp.verification.verdict import Verdict
from mtpp_models.placement.registry import PLACEMENT_MODELS, BoundedPlacement, bound_placement

WITHOUT_SOLVER = ("heads", "windows", "energetic", "colocation")


def check(document: dict[str, Any]) -> Verdict:
    return verify(Value(json.loads(json.dumps(document)), "file.json", ""))


def all_results(instance: PlacementInstance) -> list[BoundedPlacement]:
    start = Placement(instance, np.arange(instance.graph.n) % instance.devices)
    return [bound_placement(start, model) for model in WITHOUT_SOLVER]


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_bounds_are_proved_again(seed: int) -> None:
    """With gaps, zeros, several outputs, broadcasts and unequal devices."""
    verdict = check(certificate_document(all_results(random_question(np.random.default_rng(seed), 8))))
    assert not verdict.faults
    assert not verdict.rests_on_trust
    for found in verdict.checks:
        assert found.proved is not None
        assert float(found.proved) == pytest.approx(found.claim.value, rel=3e-9)


@pytest.mark.parametrize("seed", [100140, 100159, 101402, 103046])
def test_bug_true_bounds_were_called_false(seed: int) -> None:
    """Windows and shares of the work lost their parts of a unit; described devices of equal speed had no intervals."""
    assert not check(certificate_document(all_results(random_question(np.random.default_rng(seed))))).faults


@pytest.fixture(params=[("nmt", 8000, 4), ("nmt", 8001, 4), ("cifar10", 8000, 2), ("nmt", 8000, 2)], ids=str)
def document(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Of real graphs, on which each method is the best once."""
    family, seed, k = request.param
    instance = PlacementInstance(PLACEMENT_FAMILIES[family].graph(seed), Machines.alike(k, BANDWIDTH))
    return certificate_document(all_results(instance))


def test_bounds_of_families_are_proved_again(document: dict[str, Any]) -> None:
    verdict = check(document)
    assert not verdict.faults
    assert all("re-proved by" in found.how and "simple" not in found.how for found in verdict.checks)


def test_a_raised_value_is_false(document: dict[str, Any]) -> None:
    for number, bound in enumerate(document["bounds"]):
        raised = {**bound, "value": bound["value"] * 1.001}
        if raised["value"] < document["cost"]:
            bounds = [*document["bounds"][:number], raised, *document["bounds"][number + 1 :]]
            verdict = check({**document, "bounds": bounds})
            assert any(f"bounds[{number}]" in fault for fault in verdict.faults), bound["method"]


def _head(bound: dict[str, Any]) -> None:
    v = int(np.argmax(bound["parameters"]["heads"]))
    bound["parameters"]["heads"][v] *= 1.001


def _tail(bound: dict[str, Any]) -> None:
    v = int(np.argmax(bound["parameters"]["tails"]))
    bound["parameters"]["tails"][v] *= 1.001


def _length(bound: dict[str, Any]) -> None:
    bound["parameters"]["heads"].pop()


def _raise_horizon(bound: dict[str, Any]) -> None:
    bound["parameters"]["horizon"] *= 1.2
    bound["value"] *= 1.001


@pytest.mark.parametrize(
    ("spoil", "word"), [(_head, "heads["), (_tail, "tails["), (_length, "numbers for"), (_raise_horizon, "horizon")]
)
def test_a_false_witness_is_named(spoil: Callable[[dict[str, Any]], None], word: str) -> None:
    instance = PlacementInstance(PLACEMENT_FAMILIES["nmt"].graph(8000), Machines.alike(4, BANDWIDTH))
    document = certificate_document(all_results(instance)[-1:])
    assert document["bounds"][0]["method"] == "colocation"
    spoil(document["bounds"][0])
    assert any(word in fault for fault in check(document).faults)


@pytest.mark.parametrize("interval", [[0.0, 1.0], [1.5, 2.5], [0.75, 1.75]])
def test_nodes_that_may_run_outside_an_interval_do_not_fill_it(interval: list[float]) -> None:
    """Three nodes of 1 s on two devices, of which nothing needs more than 2 s."""
    graph = ComputationGraph.from_edges([], [1.0] * 3, [0.0] * 3)
    start = Placement(PlacementInstance(graph, Machines.alike(2, 1.0)), [0, 0, 0])
    document = certificate_document([bound_placement(start, "energetic")])
    assert not check(document).faults
    (bound,) = document["bounds"]
    document["bound"] = bound["value"] = 2.49
    document["ratio"] = document["cost"] / 2.49
    bound["parameters"] |= {"horizon": 2.5, "interval": interval}
    assert check(document).faults == ("bounds[0] (energetic): parameters.interval does not refute 2.5",)


@pytest.mark.parametrize(("name", "value"), [("horizon", "soon"), ("interval", [1.0]), ("heads", 3), ("window", [])])
def test_a_witness_of_another_kind_is_refused(name: str, value: object) -> None:
    instance = PlacementInstance(PLACEMENT_FAMILIES["nmt"].graph(8000), Machines.alike(4, BANDWIDTH))
    document = certificate_document(all_results(instance)[-1:])
    document["bounds"][0]["parameters"][name] = value
    with pytest.raises(InputError, match=r"file\.json"):
        check(document)


def test_claims_of_solvers_are_trusted_not_proved() -> None:
    instance = random_question(np.random.default_rng(5), 4)
    start = Placement(instance, np.zeros(instance.graph.n, dtype=int))
    result = bound_placement(start, "place-exact")
    document = plain(certificate_document([result]))
    verdict = check(document)
    assert not verdict.faults
    (found,) = verdict.checks
    assert found.proved is not None or "trusted from highs" in found.how
    document["bounds"][0]["provenance"] = {}
    faults = check(document).faults
    assert found.proved is not None or any("no solver is named" in fault for fault in faults)


def test_every_model_has_words_for_what_checks_it() -> None:
    from instances.certificates import PLACE, recheck

    assert all(recheck(name, PLACE) for name in PLACEMENT_MODELS)


def test_what_crosses_without_a_limit_on_the_rate_takes_no_time() -> None:
    """Exactly none, as a stated time of a step is compared in whole numbers."""
    graph = ComputationGraph.from_edges([(0, 1)], [3, 5], [2.0**40, 0])
    step = Step.exact(PlacementInstance(graph, Machines.alike(2, math.inf)))
    assert [step.node_time(v, v) * step.unit for v in range(2)] == [3, 5]
    assert step.move_time(0, 0, 1) == 0
