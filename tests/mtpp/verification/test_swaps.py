"""Equal branches of a certificate: checked one by one, and nothing is lost where they change places."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import pytest
from branch_cases import fork_and_join, random_branch_case
from extremes import build
from subset_oracle import numbers, optimum

from instances import ComputationGraph, InputError, Instance, Partition, Platform, SharedParameter
from instances.json_files import Value, json_text
from instances.partitioning.symmetry import families
from instances.random_graphs import moe
from mtpp.problems.checking import certificate_document, verify
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.ideals import FalseSwapError, Swaps, ideals_bound
from mtpp.verification.verdict import Clock
from mtpp_models.bounds.ideals import ideals as ideals_module
from mtpp_models.bounds.ideals.ideals import ideals


@pytest.mark.parametrize("block", range(4))
def test_a_goal_is_decided_as_without_exchanges(block: int) -> None:
    """At the optimum there is no chain, a little above there is one."""
    count = 0
    for seed in range(100 + 20 * block, 120 + 20 * block):
        r = random.Random(seed)
        case = random_branch_case(r, 8) if seed % 2 else fork_and_join(r)
        instance, best = build(case), optimum(numbers(case, exact=True))
        exact, equal = ExactInstance.of(instance).kinds[0], [rows.tolist() for rows in families(instance)]
        count += bool(equal)
        if best > 0:
            swaps = Swaps(equal, range(exact.n))
            assert ideals_bound(exact, best, Clock(60.0), swaps) is not None
            assert ideals_bound(exact, best * (1 + Fraction(1, 10**7)), Clock(60.0), swaps) is None
    assert count > 12


@pytest.fixture
def document(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Certificate of three experts in two layers, nodes 4 to 6 and 11 to 13, with another graph's sum beside it."""
    monkeypatch.setattr(ideals_module, "_FEW_IDEALS", 0)
    result = ideals(Partition(Instance(moe(2, 3), Platform(3, 1.0)), [0] * 15))
    parsed: dict[str, Any] = json.loads(json_text(certificate_document([result])))
    assert parsed["bounds"][0]["parameters"]["swaps"] == [[[4], [5], [6]], [[11], [12], [13]]]
    return parsed


@pytest.mark.parametrize(
    ("swaps", "problem"),
    [
        ([[[4], [5]], [[6], [4]]], "family 1 names node 4, which is named before"),
        ([[[4], [15]]], "family 0 names node 15; there are 15"),
        ([[[4], [-1]]], "family 0 names node -1"),
        ([[[4, 5], [6]]], "family 0 has branches of 2, 1 nodes"),
        ([[]], "family 0 has branches of"),
        ([[4, 5]], "expected a list"),
    ],
)
def test_what_is_no_family_is_refused(document: dict[str, Any], swaps: Any, problem: str) -> None:
    document["bounds"][0]["parameters"]["swaps"] = swaps
    with pytest.raises(InputError, match=problem):
        verify(Value(document, "file"))


@pytest.mark.parametrize(
    ("swaps", "fault"),
    [
        ([[[4], [5]], [[2], [6]]], "family 1, branch 1: nodes 2 and 6 differ in work"),
        ([[[4], [5], [11]]], "family 0, branch 2: what its nodes read or make differs from the first branch"),
    ],
)
def test_a_false_family_refutes_the_bound(document: dict[str, Any], swaps: Any, fault: str) -> None:
    document["bounds"][0]["parameters"]["swaps"] = swaps
    assert [text for text in verify(Value(document, "file")).faults if fault in text]


def test_a_higher_bound_is_false(document: dict[str, Any]) -> None:
    assert verify(Value(document, "file")).proved_ratio == pytest.approx(1)
    document["bounds"][0]["value"] *= 1 + 1e-6
    assert verify(Value(document, "file")).faults


def test_needs_and_shared_parameters_tell_branches_apart() -> None:
    """The second of two equal nodes reads more, or uses a parameter alone."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 3)]
    graph = ComputationGraph.from_edges(
        edges, [1] * 4, [1] * 4, [1] * 4, parameters=(SharedParameter("p", 4.0, (0, 1)),)
    )
    exact = ExactInstance.of(Instance(graph, Platform(2, 1.0, memory=3.0))).kinds[0]
    with pytest.raises(FalseSwapError, match="its nodes use other shared parameters"):
        ideals_bound(exact, Fraction(1), Clock(9.0), Swaps([[[1], [2]]], range(4)))
