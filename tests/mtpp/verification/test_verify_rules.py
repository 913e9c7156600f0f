"""`mtpp verify` and side constraints: each word is checked, and bounds may rest on what shares a block."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import pytest
from brute_force import allowed_partitions, obeys, optimum
from certificates import GRAPH, RULED, Document, answers, check, plain, settle
from exact import needed_optimum
from forging import write
from hypothesis import HealthCheck, assume, given, settings
from strategies import constrained, instances, questions

from instances import Bound, ComputationGraph, Instance, Partition, Platform, Result
from instances.partitioning.constraints import Constraints
from mtpp.cli.main import main
from mtpp.problems.checking import certificate_document
from mtpp.verification.partitioning.costs import find_breach
from mtpp.verification.partitioning.cuts import block_bound
from mtpp.verification.partitioning.exact_instance import ExactInstance, merge_groups, shared_blocks
from mtpp.verification.partitioning.ideals import fits_nowhere, ideals_bound
from mtpp.verification.verdict import Clock
from mtpp_models import SolveOptions, solve

Forgery = Callable[[Document], None]


def rules(document: Document) -> Document:
    found: Document = document["question"]["constraints"]
    return found


def test_what_is_true_is_accepted(tmp_path: Path) -> None:
    """Everything but a solver's word is proved again."""
    verdict = check(RULED, tmp_path)
    assert verdict.faults == ()
    assert {c.claim.method for c in verdict.checks if c.proved is None} == {"exact"}
    assert RULED["answer"]["block"][5] == 2
    assert RULED["question"]["fit"] is True


def no_fit(document: Document) -> None:
    del document["question"]["fit"]


def no_constraints(document: Document) -> None:
    del document["question"]["constraints"]


def no_groups(document: Document) -> None:
    del rules(document)["together"]


def no_windows(document: Document) -> None:
    del rules(document)["windows"]


def no_uncut(document: Document) -> None:
    del rules(document)["uncut"]


def no_least(document: Document) -> None:
    del rules(document)["at_least"]


def wider_window(document: Document) -> None:
    rules(document)["windows"][0][2] = 2


def other_node_in_window(document: Document) -> None:
    rules(document)["windows"][0][0] = 0


def other_node_in_group(document: Document) -> None:
    rules(document)["together"] = [[0, 1]]


def other_uncut(document: Document) -> None:
    rules(document)["uncut"] = [4]


def fewer_at_least(document: Document) -> None:
    rules(document)["at_least"][0][0] = 0


def twice_at_least(document: Document) -> None:
    rules(document)["at_least"][0][1].append(0)


@pytest.mark.parametrize(
    "forge",
    [
        no_fit, no_constraints, no_groups, no_windows, no_uncut, no_least, wider_window, other_node_in_window,
        other_node_in_group, other_uncut, fewer_at_least, twice_at_least,
    ],
)  # fmt: skip
def test_another_question_is_not_that_of_the_hash(forge: Forgery, tmp_path: Path) -> None:
    forged = copy.deepcopy(RULED)
    forge(forged)
    assert main(["verify", write(tmp_path, forged)]) == 1


@pytest.mark.parametrize(
    ("constraints", "block", "words"),
    [
        (Constraints(together=((1, 2),)), [0, 0, 1, 1, 1, 2], "nodes 1 (1), 2 (2) are in blocks 0 and 1"),
        (Constraints(windows=((5, 1, 1),)), [0, 0, 0, 0, 0, 2], "node 5 (5) is in block 2"),
        (Constraints(uncut=(1,)), [0, 0, 0, 1, 1, 2], "nodes 1 (1), 3 (3) are in blocks 0 and 1"),
        (Constraints(at_least=((1, (0, 5, 4)),)), [0, 0, 0, 1, 2, 2], "block 1 has 0 of the nodes 0 (0), 4 (4), 5 (5)"),
        (Constraints(at_least=((1, tuple(range(6))),)), [0, 0, 0, 0, 0, 2], "block 1 has 0 of the nodes 0 (0), 1 (1)"),
    ],
)
def test_a_broken_rule_is_named(
    constraints: Constraints, block: list[int], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with the nodes, exit code 1; the costs beside it are true."""
    free = Instance(GRAPH, Platform(3, 2.0))
    document = plain(certificate_document([Result("start", free, Partition(free, block), Bound(1.0, "simple"))]))
    document["question"] = Instance(GRAPH, Platform(3, 2.0), constraints=constraints).document()
    settle(document)
    assert main(["verify", write(tmp_path, document)]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert f"partition: {words}" in line


def test_what_does_not_fit_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Though with the time for the overflow the same numbers would be true."""
    free = Instance(GRAPH, Platform(3, 2.0, 28.0))
    document = plain(certificate_document([Result("start", free, Partition(free, [0] * 6), Bound(1.0, "simple"))]))
    document["question"]["fit"] = True
    settle(document)
    assert main(["verify", write(tmp_path, document)]) == 1
    assert "partition: block 0 does not fit into the memory; it holds the nodes 0 (0)," in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"constraints": {"together": [[0, 9]]}}, "There is no node 9"),
        ({"constraints": {"windows": [[0, 2, 2], [1, 0, 1]]}},
         "No block is left for node"),
        ({"constraints": {"windows": [[0, 0, 3]]}}, "blocks run from 0 to 2"),
        ({"constraints": {"at_least": [[2, [0]]]}}, "cannot be in each of 3 blocks"),
        ({"constraints": {"apart": [[0, 1]]}}, "unknown field 'apart'"),
        ({"constraints": []}, "expected an object"),
        ({"fit": 1}, "expected true or false"),
        ({"fit": True, "memory": None}, "needs a memory"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(
    change: Document, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with the place; the file makes no sense."""
    forged = copy.deepcopy(RULED)
    forged["question"] |= change
    assert main(["verify", write(tmp_path, forged)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert words in line
    assert "c.json, question" in line


@settings(max_examples=150)
@given(questions(max_nodes=4))
def test_each_word_is_checked(question: Instance) -> None:
    """Every assignment, against the words and against the sum of each block."""
    graph, exact = question.graph, ExactInstance.of(question)
    plain = Instance(graph, replace(question.platform, fit=False))
    edges = graph.edges.tolist()
    order = graph.topological_order.tolist()
    for block in product(range(question.k), repeat=graph.n):
        if any(block[u] > block[v] for u, v in edges):
            continue
        allowed = obeys(graph, question.constraints, block, question.k)
        allowed = allowed and (not question.platform.fit or Partition(plain, block).fits)
        assert (find_breach(question, exact, block, order, [0] * question.k) is None) == allowed


@settings(max_examples=150)
@given(constrained(max_nodes=4, max_k=2))
def test_groups_are_what_no_order_can_separate(case: tuple[ComputationGraph, int, Constraints]) -> None:
    """With as many blocks as nodes, against all assignments."""
    graph, _, found = case
    kept = Constraints(together=found.together, uncut=found.uncut)
    group = shared_blocks(ExactInstance.of(Instance(graph, Platform(2, 1.0))), kept)
    edges = graph.edges.tolist()
    allowed = [
        block
        for block in product(range(graph.n), repeat=graph.n)
        if all(block[u] <= block[v] for u, v in edges) and obeys(graph, kept, block, graph.n)
    ]
    for u, v in combinations(range(graph.n), 2):
        assert (group[u] == group[v]) == all(block[u] == block[v] for block in allowed)


@settings(max_examples=150)
@given(questions(max_nodes=5))
def test_bounds_of_merged_groups(question: Instance) -> None:
    """The ideals prove the optimum of all that keeps the groups and no more; formula and cuts do not exceed it."""
    kept = Constraints(together=question.constraints.together, uncut=question.constraints.uncut)
    question = replace(question, constraints=kept)
    exact = ExactInstance.of(question)
    group = shared_blocks(exact, kept)
    merged, clock = merge_groups(exact, group).kinds[0], Clock(60.0)
    best = needed_optimum(question)
    if best is None:
        assert merged.nothing_fits or fits_nowhere(merged, clock)
        return
    assert not merged.nothing_fits
    assert merged.work_bound <= best
    assert not fits_nowhere(merged, clock)
    if best:
        found = ideals_bound(merged, best, clock)
        assert found is not None
        assert best * (1 - Fraction(1, 10**11)) <= found <= best
        assert ideals_bound(merged, best * (1 + Fraction(1, 10**6)), clock) is None
    for v in range(merged.n) if best else ():
        assert block_bound(merged, best, [[v]], clock).least <= best * (1 + Fraction(1, 10**12))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=questions(max_nodes=5))
def test_no_true_certificate_is_refused(question: Instance, tmp_path: Path) -> None:
    """Constraints of all kinds, hard limits, peaks and buffers."""
    assume(optimum(question) < math.inf)
    assert check(certificate_document(answers(question)), tmp_path).faults == ()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=questions(max_nodes=5))
def test_what_the_bounds_prove_is_accepted(question: Instance, tmp_path: Path) -> None:
    """From the dearest partition, which leaves room for a false one; another search for blocks keeps to groups too."""
    start = max(allowed_partitions(question), key=lambda p: (p.bottleneck < math.inf, p.bottleneck), default=None)
    assume(start is not None and start.bottleneck < math.inf)
    methods = ("simple", "pinned", "levels", "pigeonhole", "ideals", "priced")
    found = [solve(question, method, SolveOptions(time_limit=2), start=start) for method in methods]
    assert check(certificate_document(found), tmp_path, again=True).faults == ()


@settings(max_examples=60)
@given(instances(max_nodes=5, max_k=3, huge_ratio=False))
def test_what_is_not_constrained_is_not_written(question: Instance) -> None:
    """Files of before and files of now are the same."""
    document = certificate_document([Result("start", question, Partition(question, [0] * question.graph.n))])
    assert not {"fit", "constraints"} & {*document["question"], *document["answer"]}


@pytest.mark.parametrize(("value", "true"), [(8.5, True), (8.6, False)])
def test_a_bound_may_rest_on_a_group(value: float, true: bool, tmp_path: Path) -> None:
    """Nodes 0, 1 and 2 take 8.5 of work; without the group 6.7 is what the work proves."""
    question = Instance(GRAPH, Platform(3, 2.0), constraints=Constraints(together=((0, 2),)))
    start = Partition(question, [0] * 6)
    document = certificate_document([Result("simple", question, start, Bound(value, "simple"))])
    assert (check(document, tmp_path).faults == ()) == true


def test_no_bound_is_carried_over_windows(tmp_path: Path) -> None:
    """A stage is another one where there are more of them."""
    forged = copy.deepcopy(RULED)
    proof = {"from_k": 4, "value": 9.0}
    forged["bounds"].append(forged["bounds"][0] | {"method": "carried", "value": 9.0, "parameters": proof})
    forged["bounds"][-1]["recheck"] = "trusted"
    settle(forged)
    [fault] = check(forged, tmp_path).faults
    assert "with windows or least numbers no bound holds for other k" in fault


def test_where_nothing_fits_every_bound_is_true(tmp_path: Path) -> None:
    """The parameters take 23 bytes, the memory of three blocks 21."""
    question = Instance(GRAPH, Platform(3, 2.0, 7.0, 0.0, fit=True))
    document = certificate_document([Result("simple", question, None, Bound(1e6, "simple"))])
    [found] = check(document, tmp_path).checks
    assert found.proved == 10**6
