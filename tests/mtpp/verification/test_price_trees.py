"""Bounds by prices and the trees that prove them: exact values, no false claim, and what is refused."""

from __future__ import annotations

import copy
import json
import math
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from certificates import GRAPH, Document, check
from exact import needed_optimum
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_trees import mutated_tree, random_prices, random_tree
from strategies import heavy_overflows, instances, questions

from instances import Bound, ComputationGraph, InputError, Instance, Partition, Platform, Result
from instances.certificates import recheck
from instances.json_files import parse_json
from instances.partitioning.constraints import Constraints
from instances.random_graphs import regal_style
from mtpp.cli.main import main
from mtpp.problems.checking import certificate_document
from mtpp.verification.partitioning.cut_kernels import SHARE
from mtpp.verification.partitioning.cuts import UNIT, BlockCuts, PriceTree, read_tree, tree_bound
from mtpp.verification.partitioning.exact_instance import ExactInstance, merge_groups, shared_blocks, with_ends
from mtpp.verification.verdict import Clock, OutOfTimeError
from mtpp_models import SolveOptions, solve

PATH = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], [1.0] * 4, [1.0, 1.0, 1.0, 0.0])
QUESTION = Instance(PATH, Platform(2, 1.0))


def proved(
    question: Instance, prices: list[float], tree: PriceTree, value: float | Fraction, seconds: float = 60.0
) -> Fraction:
    exact = ExactInstance.of(question)
    rules = Constraints(together=question.constraints.together, uncut=question.constraints.uncut)
    group = shared_blocks(exact, rules)
    merged = merge_groups(exact, group).kinds[0]
    if len(prices) > len(group):
        merged, group = with_ends(merged), [*group, merged.n, merged.n + 1]
    shares = [Fraction(0)] * merged.n
    for g, price in zip(group, prices, strict=True):
        shares[g] += Fraction(price)
    return tree_bound(merged, group, shares, tree, Fraction(value), Clock(seconds)).least


@pytest.mark.parametrize(
    ("value", "entries", "multipliers", "bound"),
    [
        (3, [1, -1, -1], [0.0, 1.0], 3),
        (3, [1, -1, -1], [1.0, 0.0], 0),
        (3, [-1], [2 / 3], 2),
        (3, [-1], [1.0], 1),
        (4, [1, -1, -1], [0.0, 1.0], 3),
    ],
)
def test_values_of_a_path(value: int, entries: list[int], multipliers: list[float], bound: int) -> None:
    """Four nodes of work 1 in two blocks, each moving 1 byte to the next; the optimum is 3."""
    found = proved(QUESTION, [1.0] * 4, PriceTree(entries, multipliers, []), value)
    assert found == pytest.approx(bound, rel=1e-12)
    assert found <= bound


@pytest.mark.parametrize("work", [0.25, 1 / 3])
def test_bug_bytes_that_have_to_fit_weigh_less_where_works_have_more_digits(work: float) -> None:
    """Two nodes hold a byte more than the memory; moving takes no time, so that nothing else gives a byte a weight."""
    graph = ComputationGraph.from_edges([(0, 1)], [work] * 2, [0.0] * 2, [1.0] * 2)
    exact = ExactInstance.of(Instance(graph, Platform(2, math.inf, memory=1.0, fit=True))).kinds[0]
    assert BlockCuts(exact, Fraction(8)).least([0, 1]) * 8 / UNIT == pytest.approx(2 * work + 1)


def test_nodes_of_a_pair_share_no_block() -> None:
    """With the multiplier 1 all four nodes seem to cost 1; whoever holds node 1 is in no pair, which cost 4."""
    for pairs, bound in (([], 1), ([(1, 2), (1, 3)], 3)):
        found = proved(QUESTION, [1.0] * 4, PriceTree([1, -1, -1], [1.0, 1.0], pairs), 3)
        assert found == pytest.approx(bound, rel=1e-12)
    cuts = BlockCuts(ExactInstance.of(QUESTION).kinds[0], Fraction(8))
    assert cuts.least([0, 3]) * 8 == 4 * UNIT
    assert cuts.least([0], [1]) * 8 == 2 * UNIT
    assert cuts.least([0, 3], [1]) == cuts.least([1], [1]) == UNIT  # no such set
    assert BlockCuts(ExactInstance.of(QUESTION).kinds[0], Fraction(8), [SHARE - 1] * 4).least([1], [0, 2, 3]) == UNIT


def test_bug_a_group_that_is_decided_twice_lost_a_leaf() -> None:
    """Nodes 0 and 1 are one: behind both decisions on them the leaf without node 2 is still looked at."""
    together = Instance(PATH, Platform(2, 1.0), constraints=Constraints(together=((0, 1),)))
    for last, bound in ((0.0, 0), (1.0, 3)):
        tree = PriceTree([2, 0, -1, 1, -1, -1, -1], [0.0, 0.0, 0.0, last], [])
        assert proved(together, [1.0, 1.0, 0.0, 0.0], tree, 4) == pytest.approx(bound, abs=1e-12)


@settings(max_examples=500)
@given(instances(max_nodes=6, max_k=3) | heavy_overflows() | questions(max_nodes=5), st.randoms(use_true_random=False))
@pytest.mark.slow
def test_no_tree_proves_more_than_the_optimum(question: Instance, r: Random) -> None:
    """Trees out of the air and changed ones, memory and groups of all kinds, goals below and above what is true."""
    optimum = needed_optimum(question)
    assume(optimum is not None and optimum > 0)
    assert optimum is not None
    n = question.graph.n + r.choice((0, 2))  # with the nodes before and behind all
    tree, prices = random_tree(r, n), random_prices(r, n)
    for value in (optimum, optimum * (1 + Fraction(1, 10**6)), 2 * optimum):
        assert proved(question, prices, tree, value) <= optimum


@pytest.mark.slow
@pytest.mark.parametrize("method", ["priced", "priced-quick"])
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(instance=instances(max_nodes=7, max_k=3, huge_ratio=False), r=st.randoms(use_true_random=False))
def test_trees_that_were_made_prove_the_bound(method: str, instance: Instance, r: Random, tmp_path: Path) -> None:
    """At its full value; changed ones prove nothing false."""
    result = solve(instance, method)
    assert result.bound is not None
    witness, value = result.bound.witness, result.bound.value
    assume("multipliers" in witness)  # of a forest the tree is an order of its nodes
    [found] = check(certificate_document([result]), tmp_path).checks
    assert found.proved is not None
    assert found.proved >= value * (1 - 1e-9)
    optimum = needed_optimum(instance)
    assert optimum is not None
    tree = PriceTree(witness["tree"], witness["multipliers"], [(u, v) for u, v in witness["apart"]])
    for _ in range(3):
        tree = mutated_tree(r, tree, len(witness["prices"]))
        assert proved(instance, witness["prices"], tree, optimum * (1 + Fraction(1, 10**6))) <= optimum


@pytest.fixture(scope="module")
def made() -> Document:
    """A bound that needs some leaves and pairs, beside a poor partition."""
    instance = Instance(regal_style("watts-strogatz", 16, seed=2), Platform(4, 1.0))
    start = Partition(instance, np.argsort(instance.graph.topological_order) * 4 // 16)
    proof = solve(instance, "priced-quick", SolveOptions(time_limit=20), start=start)
    poor = Partition(instance, [0] * 16)
    document = certificate_document([Result("priced-quick", instance, poor, proof.bound)])
    assert len(document["bounds"][0]["parameters"]["tree"]) > 3
    return document


def forged(made: Document, **parameters: Any) -> Document:
    other = copy.deepcopy(made)
    other["bounds"][0]["parameters"] |= parameters
    return other


def test_the_bound_is_proved_by_default(made: Document, tmp_path: Path) -> None:
    verdict = check(made, tmp_path)
    assert verdict.faults == ()
    assert not verdict.rests_on_trust
    assert "re-proved by prices and a tree of" in verdict.checks[0].how
    assert made["bounds"][0]["recheck"] == recheck("priced-quick", witness=("tree",)) == "price tree"


@pytest.mark.parametrize("factor", [1.01, 1.5])
def test_a_bound_that_is_too_high_is_false(factor: float, made: Document, tmp_path: Path) -> None:
    """The tree proves less."""
    other = copy.deepcopy(made)
    other["bounds"][0]["value"] = other["bound"] = made["bound"] * factor
    other["ratio"] = other["cost"] / other["bound"]
    [fault] = check(other, tmp_path).faults
    assert "only" in fault


def test_a_tree_of_another_graph_is_false(made: Document, tmp_path: Path) -> None:
    """As are prices of it, and multipliers in another order."""
    bound = made["bounds"][0]["parameters"]
    for other in ({"tree": [-1], "multipliers": [1.0]}, {"prices": bound["prices"][::-1]}):
        assert len(check(forged(made, **other), tmp_path).faults) == 1


def test_without_a_tree_prices_are_trusted(made: Document, tmp_path: Path) -> None:
    """As in files of before."""
    older = copy.deepcopy(made)
    for name in ("tree", "multipliers", "apart"):
        del older["bounds"][0]["parameters"][name]
    older["bounds"][0]["recheck"] = "trusted"
    verdict = check(older, tmp_path)
    assert verdict.faults == ()
    assert verdict.checks[0].how == "trusted from a search for blocks"


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"tree": []}, "parameters.tree: 0 leaves"),
        ({"tree": [0, -1]}, "parameters.tree: 1 leaves among 2 entries"),
        ({"tree": [-1, 0, -1], "multipliers": [1, 1]}, "parameters.tree: the tree ends before entry 1"),
        ({"tree": [0, 0, -1, -1, -1], "multipliers": [1, 1, 1]}, "parameters.tree: node 0 of entry 1 is decided above"),
        ({"tree": [16, -1, -1], "multipliers": [1, 1]}, "parameters.tree: there is no node 16"),
        ({"tree": [-2, -1, -1], "multipliers": [1, 1]}, "parameters.tree: there is no node -2"),
        ({"tree": [-1] * 10**6}, "parameters.tree: it has 1000000 leaves; 50000 are the most"),
        ({"tree": [-1], "multipliers": []}, "parameters.multipliers: there are 0 for 1 leaves"),
        ({"tree": [-1], "multipliers": [-1e-9]}, "parameters.multipliers: number 0 is -1e-09"),
        ({"tree": [-1], "multipliers": [2048.0]}, "parameters.multipliers: number 0 is 2048.0"),
        ({"tree": [-1], "multipliers": [None]}, "parameters.multipliers[0]: expected a number"),
        ({"tree": [0.5]}, "parameters.tree[0]: expected a whole number"),
        ({"tree": [10**400]}, "parameters.tree[0]: the whole number is too large"),
        ({"tree": {}}, "parameters.tree: expected a list"),
        ({"apart": [[0]]}, "parameters.apart: an item has not two nodes"),
        ({"apart": [[0, 16]]}, "parameters.apart: there is no node 16"),
        ({"apart": [0]}, "parameters.apart[0]: expected a list"),
    ],
)
def test_what_is_no_tree_is_refused(parameters: Document, place: str, made: Document, tmp_path: Path) -> None:
    """In one line with its place."""
    with pytest.raises(InputError) as refused:
        check(forged(made, **parameters), tmp_path)
    assert place in str(refused.value)


def test_a_tree_without_its_multipliers_is_refused(
    made: Document, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a number of more digits than any reader takes."""
    cut = copy.deepcopy(made)
    del cut["bounds"][0]["parameters"]["multipliers"]
    (tmp_path / "c.json").write_text(json.dumps(cut))
    assert main(["verify", str(tmp_path / "c.json")]) == 2
    assert "missing field 'multipliers'" in capsys.readouterr().err
    text = json.dumps(forged(made, tree=["here"])).replace('"here"', "9" * 10_000)
    (tmp_path / "c.json").write_text(text)
    assert main(["verify", str(tmp_path / "c.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_check_ends_when_its_time_is_up(made: Document) -> None:
    """What is not checked is neither true nor false."""
    with pytest.raises(OutOfTimeError):
        proved(QUESTION, [1.0] * 4, PriceTree([-1], [1.0], []), 3, seconds=0.0)
    text = parse_json(json.dumps(made["bounds"][0]["parameters"]), "c.json")
    assert len(read_tree(text, 16).multipliers) == made["bounds"][0]["parameters"]["tree"].count(-1)


@pytest.mark.slow
def test_a_tree_of_a_reduced_graph_is_proved_in_the_original(tmp_path: Path) -> None:
    """Constants in front, all merged away, groups, and memory that overflows or is a hard limit."""
    count = 8
    edges = [(v, count + v) for v in range(count)] + [(count + v, count + v + 1) for v in range(count - 1)]
    edges.append((count + 2, count + 5))  # in a forest there is no tree to prove
    work = [0.0] * count + [1.0 + 0.1 * v for v in range(count)]
    graph = ComputationGraph.from_edges(edges, work, [0.3] * (2 * count), [0.3] * count + [1.0] * count)
    rules = Constraints(together=((count, count + 1),))
    for platform in (Platform(3, 1.0), Platform(3, 1.0, 4.0, 0.0), Platform(3, 1.0, 6.0, 0.0, fit=True)):
        for instance in (Instance(graph, platform), Instance(graph, platform, constraints=rules)):
            proof = solve(instance, "priced", SolveOptions(time_limit=60))
            assert proof.bound is not None
            assert "tree" in proof.bound.witness
            verdict = check(certificate_document([proof]), tmp_path)
            assert verdict.faults == ()
            assert verdict.proved_bound is not None
            assert verdict.proved_bound >= proof.bound.value * (1 - 1e-9)


def test_prices_of_the_file_are_those_that_count(tmp_path: Path) -> None:
    """Scaled by anything they are the same."""
    instance = Instance(GRAPH, Platform(3, 2.0))
    proof = solve(instance, "priced")
    assert proof.bound is not None
    for factor in (1e-300, 1.0, 1e300):
        prices = [factor * price for price in proof.bound.witness["prices"]]
        bound = Bound(proof.bound.value, "priced", witness={**proof.bound.witness, "prices": prices})
        [found] = check(certificate_document([Result("priced", instance, None, bound)]), tmp_path).checks
        assert found.proved == pytest.approx(proof.bound.value, rel=1e-9)
