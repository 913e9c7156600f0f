"""The program over ideals up to exchanges of equal branches: exact, and no pair of ideals is lost."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from typing import TypeVar

import numpy as np
import pytest
from branch_cases import fork_and_join, random_branch_case
from extremes import build
from subset_oracle import Case, numbers, optimum

from instances import ComputationGraph, Instance, Partition, Platform
from instances.deadline import Deadline
from instances.json_files import Value, json_text
from instances.random_graphs import moe
from mtpp.problems.checking import certificate_document, verify
from mtpp_models import solve
from mtpp_models.bounds.ideals import ideals as ideals_module
from mtpp_models.bounds.ideals.ideals import _chains_below, ideals

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _no_graph_has_few_ideals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ideals_module, "_FEW_IDEALS", 0)


def one_block(instance: Instance) -> Partition:
    return Partition(instance, np.zeros(instance.graph.n, dtype=int))


def at_once(steps: ideals_module.InTurns[T]) -> T:
    """The answer of a procedure that needs one turn."""
    with pytest.raises(StopIteration) as end:
        next(steps)
    answer: T = end.value.value
    return answer


def check(case: Case) -> bool:
    """Hold the bound and the partition against brute force; whether branches were equal."""
    instance = build(case).modelled()
    true = optimum(numbers(case, exact=True))
    if true == 0:
        return False
    result = ideals(one_block(instance))
    assert result.bound is not None
    assert result.partition is not None
    assert result.bound.value <= true * (1 + Fraction(1, 10**9))
    assert result.partition.bottleneck == pytest.approx(float(true), rel=1e-9)
    assert result.proved
    # Where blocks are full, none may be lost by rounding.
    goal = float(true) * (1 + 1e-7)
    turns = ideals_module.Turns(Deadline(), Deadline())
    listed = at_once(ideals_module.list_ideals(instance, goal, turns))
    assert listed is not None
    chains = at_once(_chains_below(goal, goal, listed, listed.passing, turns))
    assert chains.bottleneck[-1] < goal
    return listed.is_up_to_exchange


@pytest.mark.parametrize("block", range(4))
def test_equal_branches_against_brute_force(block: int) -> None:
    assert sum(check(random_branch_case(random.Random(seed), 8)) for seed in range(12 * block, 12 * block + 12)) > 5


@pytest.mark.parametrize("block", range(4))
def test_forks_and_joins_against_brute_force(block: int) -> None:
    assert all(check(fork_and_join(random.Random(seed))) for seed in range(15 * block, 15 * block + 15))


def test_branches_are_matched_at_the_best_cost() -> None:
    """A fork, two branches of two nodes, a join: branches matched by how far they are would cost 16."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)]
    graph = ComputationGraph.from_edges(edges, [4, 4, 4, 5, 5, 6], [2, 2, 2, 2, 2, 0])
    result = ideals(one_block(Instance(graph, Platform(3, 1.0))))
    assert result.bound is not None
    assert result.bound.witness == {"swaps": [[[1, 3], [2, 4]]]}
    assert result.cost == 15
    assert result.proved


GOLDEN = {math.inf: (6.2, 6.0, 5.0), 1.05: (7.795, 10.08, 7.5475), 1.3: (6.2, 6.5, 6.05)}


@pytest.mark.parametrize("share", GOLDEN)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_three_experts_in_two_layers(share: float, k: int) -> None:
    """With room for this part of the parameters over k in each block, where the peak is the largest need."""
    graph = moe(2, 3)
    platform = Platform(k, 1.0, memory=share * graph.parameter_total / k)
    result = ideals(one_block(Instance(graph, platform).modelled()))
    assert result.proved
    assert result.cost == pytest.approx(GOLDEN[share][k - 2], abs=1e-9)


def test_many_experts(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^64 ideals a layer, 410 up to exchange; `mtpp verify` proves it again."""
    monkeypatch.undo()
    instance = Instance(moe(6, 64), Platform(8, 1.0))
    result = solve(instance, "ideals")
    assert result.proved
    assert result.cost == pytest.approx(35.25)
    document = json.loads(json_text(certificate_document([result])))
    assert not verify(Value(document, "certificate")).faults
    document["bounds"][0]["value"] *= 1 + 1e-6
    document["bound"], document["ratio"] = document["bounds"][0]["value"], 1 / (1 + 1e-6)
    assert verify(Value(document, "certificate")).faults


@pytest.mark.parametrize("seed", range(30))
def test_certificates_of_equal_branches_are_proved_again(seed: int) -> None:
    instance = build(random_branch_case(random.Random(seed), 8))
    result = solve(instance, "ideals")
    document = json.loads(json_text(certificate_document([result])))
    verdict = verify(Value(document, "certificate"))
    assert not verdict.faults
    assert not verdict.rests_on_trust
