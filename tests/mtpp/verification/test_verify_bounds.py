"""`mtpp verify` and each kind of bound: what it proves again, refuses or trusts."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import numpy as np
import pytest
from brute_force import best_partition
from certificates import BUFFERED, GRAPH, PLAIN, Document, check, entry, settle, work_bound
from hypothesis import HealthCheck, example, given, settings
from strategies import heavy_overflows, instances

from heuristics import HEURISTICS
from instances import Bound, ComputationGraph, Instance, Partition, Platform, Result
from mtpp.cli.main import main
from mtpp.problems.checking import certificate_document
from mtpp.verification.partitioning.certificate import CHECKERS
from mtpp_models import MODELS, SolveOptions, solve
from mtpp_models.bounds.cuts import pinned


@pytest.mark.parametrize("method", ["simple", "pinned", "pigeonhole", "ideals", "carried"])
@pytest.mark.parametrize("factor", [1 + 1e-6, 1.5])
def test_a_bound_that_is_too_high_is_named(method: str, factor: float, tmp_path: Path) -> None:
    """With the claimed value; the check comes from the method, so the label "trusted" does not help."""
    forged = copy.deepcopy(PLAIN)
    bound = entry(forged, method)
    bound["value"] *= factor
    settle(forged)
    place = f"bounds[{forged['bounds'].index(bound)}] ({method}): "
    [fault] = [fault for fault in check(forged, tmp_path).faults if fault.startswith(place)]
    assert repr(bound["value"]) in fault
    bound |= {"recheck": "solver", "provenance": {"solver": "highs", "version": "1.0"}}
    assert any(fault.startswith(place) for fault in check(forged, tmp_path).faults)


@pytest.mark.parametrize(
    "method", [name for name in MODELS if name in {"simple", *CHECKERS} - {"priced", "priced-quick"}]
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(instance=instances(max_nodes=6, huge_ratio=False))
def test_what_a_bound_rests_on_proves_it_again(method: str, instance: Instance, tmp_path: Path) -> None:
    """Every method of the registry that has a checker, by its witness alone."""
    result = solve(instance, method)
    assert result.bound is not None
    verdict = check(certificate_document([result]), tmp_path)
    assert not verdict.faults
    assert verdict.proved_bound is not None
    assert verdict.proved_bound >= result.bound.value * (1 - 1e-9)


def test_a_stated_bound_above_the_cost_of_one_block_is_false(tmp_path: Path) -> None:
    """Also without a partition; below it, nothing is known of the bound."""
    instance = Instance(ComputationGraph.from_edges([(0, 1)], [3.0, 1.0], output_bytes=[1.0, 0.0]), Platform(2, 1.0))
    verdicts = {
        value: check(certificate_document([Result("stated", instance, bound=Bound(value, "stated"))]), tmp_path)
        for value in (3.5, 4.5)
    }
    assert not verdicts[3.5].faults
    assert [row.how for row in verdicts[3.5].checks] == ["stated, not proved"]
    assert any("all nodes in one block cost 4.0" in fault for fault in verdicts[4.5].faults)


def test_a_solver_cannot_be_trusted_beyond_the_partition(tmp_path: Path) -> None:
    """A bound above a bottleneck is false whoever says it."""
    forged = copy.deepcopy(PLAIN)
    entry(forged, "exact")["value"] = forged["cost"] * 1.01
    settle(forged)
    [fault] = check(forged, tmp_path).faults
    assert "above the bottleneck" in fault


def test_what_the_formula_proves_needs_no_trust(tmp_path: Path) -> None:
    """A solver, or ideals that were too many, that say no more than *simple* does."""
    weak = copy.deepcopy(PLAIN)
    for method in ("exact", "ideals", "carried"):
        entry(weak, method)["value"] = entry(weak, "simple")["value"]
    settle(weak)
    assert all(c.proved is not None for c in check(weak, tmp_path).checks)


@pytest.mark.parametrize("method", ["exact", "coarse-2+all"])
def test_nobody_is_not_trusted(method: str, tmp_path: Path) -> None:
    """A bound that nothing checks needs the name of a solver."""
    forged = copy.deepcopy(PLAIN)
    entry(forged, "exact").update(method=method, provenance={})
    [fault] = check(forged, tmp_path).faults
    assert "no solver" in fault


@pytest.mark.parametrize(
    ("method", "nodes", "reason"),
    [
        ("pinned", [5], "only"),
        ("pinned", [], "no node"),
        ("pinned", [6], "does not exist"),
        ("pigeonhole", [0, 2, 4], "it takes 4"),
        ("pigeonhole", [0, 0, 2, 4], "twice"),
        ("pigeonhole", [-1, 0, 2, 4], "does not exist"),
        ("pigeonhole", [0, 1, 4, 5], "only"),
    ],
)
def test_the_nodes_must_carry_the_bound(method: str, nodes: list[int], reason: str, tmp_path: Path) -> None:
    forged = copy.deepcopy(PLAIN)
    entry(forged, method)["parameters"]["nodes"] = nodes
    [fault] = check(forged, tmp_path).faults
    assert f"({method})" in fault
    assert reason in fault


@pytest.mark.parametrize(("value", "faults"), [(7.5, 0), (7.6, 1)])
def test_two_blocks_of_three_hold_two_at_most(value: float, faults: int, tmp_path: Path) -> None:
    """Of 3 blocks the first two are merged, so half of a bound for 2 blocks holds, not two thirds."""
    carried = copy.deepcopy(PLAIN)
    entry(carried, "carried").update(value=value, parameters={"from_k": 2, "value": 15.0})
    assert len(check(carried, tmp_path).faults) == faults


def test_no_bound_is_carried_to_more_blocks_with_finite_memory(tmp_path: Path) -> None:
    """Merged blocks would share the memory of one."""
    forged = copy.deepcopy(BUFFERED)
    forged["bounds"].append(entry(PLAIN, "carried") | {"value": 8.0, "parameters": {"from_k": 2, "value": 16.0}})
    [fault] = check(forged, tmp_path).faults
    assert "finite memory" in fault


def test_too_many_ideals_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not checked is neither true nor false."""
    monkeypatch.setattr("mtpp.verification.partitioning.ideals._TABLE", 2**10)
    verdict = check(PLAIN, tmp_path)
    [ideals] = [c for c in verdict.checks if c.claim.method == "ideals"]
    assert ideals.proved is None
    assert ideals.how.startswith("not re-checked: there are more than")
    assert verdict.faults == ()


def test_rerun_finds_what_only_a_solver_can(tmp_path: Path) -> None:
    """A poor partition leaves room for a false exact bound, which holds until a solver is asked again."""
    instance = Instance(GRAPH, Platform(3, 2.0))
    poor = Partition(instance, [0] * 6)
    proof = solve(instance, "exact", start=poor)
    assert proof.bound is not None
    true = certificate_document([Result("exact", instance, poor, proof.bound, {"solve": 1.0}, proof.solver)])
    [found] = check(true, tmp_path, again=True).checks
    assert proof.solver is not None
    assert found.how == f"trusted from {proof.solver}; confirmed by {proof.solver} on this machine"
    forged = copy.deepcopy(true)
    forged["bounds"][0]["value"] = forged["bound"] = proof.bound.value * 1.01
    forged["ratio"] = poor.bottleneck / forged["bound"]
    assert check(forged, tmp_path).faults == ()
    [fault] = check(forged, tmp_path, again=True).faults
    assert fault.startswith("bounds[0] (exact): ")


@pytest.fixture(scope="module")
def priced() -> Document:
    """A bound by prices without their tree, as in older files, beside a poor partition, which leaves room."""
    instance = Instance(GRAPH, Platform(3, 2.0))
    proof = solve(instance, "priced", start=best_partition(instance))
    poor = Partition(instance, [0] * 6)
    document = certificate_document([Result("priced", instance, poor, proof.bound, {"solve": 1.0}, proof.solver)])
    for name in ("tree", "multipliers", "apart"):
        del document["bounds"][0]["parameters"][name]
    document["bounds"][0]["recheck"] = "trusted"
    return document


def test_prices_are_trusted_until_somebody_searches_again(priced: Document, tmp_path: Path) -> None:
    [bound] = priced["bounds"]
    assert bound["value"] > 10.4  # where the work alone proves 6.7
    source = "trusted from a search for blocks"
    for again, how in ((False, source), (True, f"{source}; confirmed by another search")):
        verdict = check(priced, tmp_path, again=again)
        assert verdict.faults == ()
        assert [(found.proved, found.how) for found in verdict.checks] == [(None, how)]


@pytest.mark.parametrize("factor", [1 + 1e-3, 1.01, 1.5])
def test_prices_that_prove_less_are_found_out(factor: float, priced: Document, tmp_path: Path) -> None:
    """By a block that is worth its share and costs less; the search for prices is not repeated."""
    forged = copy.deepcopy(priced)
    value = forged["bounds"][0]["value"] = forged["bound"] = priced["bound"] * factor
    forged["ratio"] = forged["cost"] / value
    assert check(forged, tmp_path).faults == ()
    [fault] = check(forged, tmp_path, again=True).faults
    assert fault.startswith(f"bounds[0] (priced): value {value!r} is claimed, a block of ")
    assert fault.endswith("is worth its share")


def test_other_prices_do_not_carry_the_bound(priced: Document, tmp_path: Path) -> None:
    """All of the worth on one node, whose block is cheap; scaled prices are the same prices."""
    prices = priced["bounds"][0]["parameters"]["prices"]
    for other, faults in (
        ([1.0, 0, 0, 0, 0, 0], 1),
        ([1e300 * p for p in prices], 0),
        ([1e-300 * p for p in prices], 0),
    ):
        forged = copy.deepcopy(priced)
        forged["bounds"][0]["parameters"]["prices"] = other
        assert len(check(forged, tmp_path, again=True).faults) == faults


@pytest.mark.parametrize(
    ("prices", "reason"),
    [
        ([1.0] * 5, "parameters.prices has 5 prices for 6 nodes"),
        ([], "parameters.prices has 0 prices for 6 nodes"),
        ([1, 1, -1e-9, 1, 1, 1], "parameters.prices[2] is -1e-09; no price is below 0"),
        ([0.0] * 6, "parameters.prices are all 0"),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_what_cannot_be_prices_is_false(
    prices: list[float], reason: str, again: bool, priced: Document, tmp_path: Path
) -> None:
    """With another search and without."""
    forged = copy.deepcopy(priced)
    forged["bounds"][0]["parameters"]["prices"] = prices
    assert check(forged, tmp_path, again=again).faults == (f"bounds[0] (priced): {reason}",)


@pytest.mark.parametrize("price", ["NaN", "Infinity", "1e999", '"1"', "null", "true"])
def test_what_is_no_number_is_no_price(
    price: str, priced: Document, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then the file makes no sense: one line, exit code 2."""
    forged = copy.deepcopy(priced)
    forged["bounds"][0]["parameters"]["prices"][2] = "here"
    (tmp_path / "c.json").write_text(json.dumps(forged).replace('"here"', price))
    assert main(["verify", str(tmp_path / "c.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_bound_that_is_simple_needs_no_prices(tmp_path: Path) -> None:
    """One block, where prices cannot say more than the work does; the sums differ by rounding."""
    work = [0.1] * 3 + [0.7, 1e-17]
    instance = Instance(ComputationGraph.from_edges([], work, [0.0] * 5), Platform(1, 1.0))
    proof = solve(instance, "priced", SolveOptions(time_limit=60))
    assert proof.bound is not None
    assert not proof.bound.witness
    assert check(certificate_document([proof]), tmp_path, again=True).faults == ()


def test_prices_of_a_reduced_graph_are_proved_again_in_the_original(tmp_path: Path) -> None:
    """Constants in front and outputs behind, all merged away, and memory that overflows."""
    count = 8
    edges = [(v, count + v) for v in range(count)] + [(count + v, count + v + 1) for v in range(count - 1)]
    work = [0.0] * count + [1.0 + 0.1 * v for v in range(count)]
    graph = ComputationGraph.from_edges(edges, work, [0.3] * (2 * count), [0.3] * count + [1.0] * count)
    for memory in (math.inf, 4.0):
        instance = Instance(graph, Platform(3, 1.0, memory, 0.0))
        start = HEURISTICS["random-100"].run(instance, np.random.default_rng(0))
        proof = solve(instance, "priced", SolveOptions(time_limit=60), start=start)
        assert proof.bound is not None
        assert proof.bound.witness["prices"][:count] == [0.0] * count
        verdict = check(certificate_document([proof]), tmp_path, again=True)
        assert verdict.faults == ()
        assert verdict.checks[0].proved is not None


def thirds(total: float) -> Instance:
    """Parameters in three parts, of which one byte overflows; their sum depends on how it is rounded."""
    graph = ComputationGraph.from_edges([], [0.0] * 3, [0.0] * 3, [total / 3] * 3)
    return Instance(graph, Platform(1, 1.0, total - 1, 0.0))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=heavy_overflows())
@example(question=thirds(1.0e10))
@example(question=thirds(8.8e10))
@example(question=thirds(8.9e10))
def test_a_true_ratio_beside_a_huge_overflow_is_accepted(question: Instance, tmp_path: Path) -> None:
    """The bottleneck is a small difference of large numbers, so the two ways to compute it round differently."""
    best = best_partition(question)
    for value in (best.bottleneck, max(work_bound(question), best.bottleneck / 2)):
        answer = Result("exact", question, best, Bound(min(value, best.bottleneck), "exact"), {}, "highs 1.0")
        assert check(certificate_document([answer]), tmp_path).faults == ()


@pytest.mark.parametrize("send", [20.0, 200.0])
def test_bug_a_dear_tensor_beside_much_room_counts_in_full(send: float, tmp_path: Path) -> None:
    """Alone, node 0 moves a tensor and leaves room 15 s unused: no less than the claim, which is a fraction of both."""
    graph = ComputationGraph.from_edges([(1, 0)], [0.0, 1.0], [0.0, 2.0], [9.0, 3.0])
    result = pinned(best_partition(Instance(graph, Platform(2, 2.0 / send, 12.5))))
    assert result.bound is not None
    assert result.bound.value > 0
    assert check(certificate_document([result]), tmp_path).faults == ()
