"""Bounds by two halves: right on all small questions, the optimum of two blocks, proved again by their trees."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from brute_force import best_partition
from certificates import GRAPH, check
from exact import needed_optimum
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_trees import mutated_tree, random_tree
from strategies import heavy_overflows, instances, questions

from instances import ComputationGraph, Instance, Partition, Platform, Result
from instances.certificates import recheck
from instances.random_graphs import regal_style
from mtpp.problems.checking import certificate_document
from mtpp.verification.partitioning.cuts import PriceTree, halves_bound
from mtpp.verification.partitioning.exact_instance import ENDS, ExactInstance, merge_groups, shared_blocks
from mtpp.verification.verdict import Clock
from mtpp_models import SolveOptions, solve


def proved(question: Instance, tree: PriceTree, value: Fraction) -> Fraction:
    exact = ExactInstance.of(question)
    group = shared_blocks(exact, question.constraints)
    return halves_bound(merge_groups(exact, group).kinds[0], group, tree, value, Clock(60.0)).least


SMALL = instances(max_nodes=5, max_k=3, huge_ratio=False) | instances(max_nodes=4, max_k=4) | heavy_overflows()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(instance=SMALL, r=st.randoms(use_true_random=False))
def test_no_bound_is_above_the_optimum_and_all_are_proved_again(instance: Instance, r: Random, tmp_path: Path) -> None:
    """Memory that overflows, reserved parts of it that are larger than all of it, one block and several."""
    result, optimum = solve(instance, "bisection"), needed_optimum(instance)
    assert result.bound is not None
    assert optimum is not None
    value, witness = result.bound.value, result.bound.witness
    assert value <= optimum * (1 + Fraction(1, 10**12))
    if instance.k == 2 and not instance.limits_memory:
        assert value >= optimum * (1 - Fraction(2, 10**7))
    [found] = check(certificate_document([result]), tmp_path).checks
    assert found.proved is not None
    assert found.proved >= value * (1 - 1e-9)
    if "tree" in witness:
        tree = PriceTree(witness["tree"], witness["multipliers"], [(u, v) for u, v in witness["apart"]])
        tree = mutated_tree(r, tree, instance.graph.n + ENDS)
        assert proved(instance, tree, optimum * (1 + Fraction(1, 10**7))) <= optimum


@settings(max_examples=100)
@given(SMALL | questions(max_nodes=4), st.randoms(use_true_random=False))
def test_no_tree_proves_more_than_the_optimum(question: Instance, r: Random) -> None:
    """Trees out of the air, memory and groups of all kinds, goals of any height."""
    optimum = needed_optimum(question)
    assume(optimum is not None and optimum > 0)
    assert optimum is not None
    tree = random_tree(r, question.graph.n + ENDS)
    for value in (optimum, optimum * (1 + Fraction(1, 10**7)), 2 * optimum):
        assert proved(question, tree, value) <= optimum


@pytest.mark.parametrize("kind", ["erdos-renyi", "barabasi-albert", "watts-strogatz", "stochastic-block"])
def test_two_blocks_of_wide_graphs_are_solved_and_proved_by_small_trees(kind: str, tmp_path: Path) -> None:
    """Where a program over ideals does not end, and a solver takes long."""
    instance = Instance(regal_style(kind, 60, seed=4), Platform(2, 1.0))
    start = Partition(instance, [0] * 60)
    result = solve(instance, "bisection", start=start)
    assert result.bound is not None
    assert result.bound.optimal
    assert result.ratio == pytest.approx(1.0, abs=2e-7)
    assert result.cost is not None
    assert result.cost < start.bottleneck
    document = certificate_document([result])
    assert len(json.dumps(document["bounds"])) < 50_000
    verdict = check(document, tmp_path)
    assert verdict.faults == ()
    assert not verdict.rests_on_trust
    assert document["bounds"][0]["recheck"] == recheck("bisection", witness=("tree",)) == "price tree"


def test_an_answer_of_two_blocks_is_found() -> None:
    """The optimum of brute force, from no start."""
    instance = Instance(GRAPH, Platform(2, 2.0))
    start = Partition(instance, [0] * GRAPH.n)
    assert solve(instance, "bisection", start=start).cost == best_partition(instance).bottleneck


@pytest.mark.parametrize(("k", "halves"), [(3, 2), (4, 2), (8, 4)])
def test_more_blocks_are_two_halves(k: int, halves: int) -> None:
    """A h-th of the optimum of two blocks, which have h times the memory."""
    graph = regal_style("watts-strogatz", 30, seed=1)
    two, more = (solve(Instance(graph, Platform(blocks, 1.0)), "bisection").bound for blocks in (2, k))
    assert two is not None
    assert more is not None
    if k == 3:  # two of three blocks are not worth half of the work
        assert more.value == pytest.approx(graph.work.sum() / 3)
    else:
        assert more.value == pytest.approx(two.value / halves, rel=1e-6)


def test_a_search_that_is_stopped_proves_what_it_can(tmp_path: Path) -> None:
    """Whatever the time was enough for is no more than the optimum, and holds."""
    instance = Instance(regal_style("watts-strogatz", 50, seed=3), Platform(2, 1.0))
    best = solve(instance, "bisection").bound
    assert best is not None
    for seconds in (0.02, 0.06):
        result = solve(instance, "bisection", SolveOptions(time_limit=seconds))
        assert result.bound is not None
        assert result.bound.value <= best.value * (1 + 1e-6)
        assert check(certificate_document([result]), tmp_path).faults == ()


def test_forged_halves_are_false(tmp_path: Path) -> None:
    """A higher value, a tree without its branches, and one of other nodes; without a tree the bound is trusted."""
    instance = Instance(GRAPH, Platform(2, 2.0))
    proof = solve(instance, "bisection")
    assert proof.bound is not None
    text = json.dumps(certificate_document([Result("bisection", instance, Partition(instance, [0] * 6), proof.bound)]))
    [bound] = json.loads(text)["bounds"]
    witness = bound["parameters"]
    others = [v if v < 0 else (v + 1) % 8 for v in witness["tree"]]
    for parameters in ({"tree": [-1], "multipliers": [1.0]}, {"tree": others}):
        document = json.loads(text)
        document["bounds"][0]["parameters"] |= parameters
        [fault] = check(document, tmp_path).faults
        assert "only" in fault
    document = json.loads(text)
    document["bounds"][0]["value"] = document["bound"] = bound["value"] * 1.001
    document["ratio"] = document["cost"] / document["bound"]
    [fault] = check(document, tmp_path).faults
    assert "only" in fault
    document = json.loads(text)
    document["bounds"][0] |= {"parameters": {}, "recheck": "trusted"}
    verdict = check(document, tmp_path)
    assert verdict.faults == ()
    assert verdict.rests_on_trust
    again = check(document, tmp_path, again=True)
    assert again.checks[0].confirmed


def test_nothing_is_cut_where_there_is_no_work() -> None:
    """Nodes without work are worth nothing; what remains is *simple*."""
    graph = ComputationGraph.from_edges([(0, 1)], [0.0, 0.0], [3.0, 0.0], [5.0, 5.0])
    for platform in (Platform(2, 1.0), Platform(2, 1.0, 4.0, 0.0), Platform(2, math.inf, 4.0, 0.0)):
        bound = solve(Instance(graph, platform), "bisection").bound
        assert bound is not None
        assert bound.method == "simple"
