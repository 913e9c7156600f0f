"""`mtpp verify` and the claim that nothing fits: proved again by the proof that the file names, or false."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

import pytest
from brute_force import optimum
from certificates import Document, check
from exact import needed_optimum
from hypothesis import HealthCheck, given, settings
from strategies import questions

from instances import ComputationGraph, InputError, Instance, Platform, Result
from instances.deadline import CLOCK
from instances.json_files import write_json
from instances.partitioning.constraints import Constraints
from mtpp.cli.main import main
from mtpp.problems.checking import certificate_document
from mtpp.verification.partitioning.exact_instance import ExactInstance, merge_groups, shared_blocks
from mtpp.verification.partitioning.ideals import fits_nowhere
from mtpp.verification.verdict import Clock, OutOfTimeError


def impossible(memory: float, k: int = 2, constraints: Constraints | None = None, **proof: Any) -> Document:
    """Three nodes in a path with parameters of ten bytes each."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [1.0] * 3, [0.0] * 3, [10.0] * 3)
    rules = {} if constraints is None else {"constraints": constraints}
    instance = Instance(graph, Platform(k, 1.0, memory, 0.0, fit=True), **rules)
    document = certificate_document([Result("ideals", instance, impossible="does not fit")])
    if proof:
        document["impossible"]["proof"] = proof
    return document


WINDOWS = Constraints(windows=((0, 0, 1), (1, 1, 1), (2, 0, 1)))


@pytest.mark.parametrize(
    ("memory", "k", "constraints", "proof"),
    [
        (9, 2, None, {"kind": "sum"}),
        (9, 4, None, {"kind": "node", "node": 0}),
        (19, 3, Constraints(together=((0, 2),)), {"kind": "node", "node": 2}),
        (14, 3, WINDOWS, {"kind": "windows", "first": 0, "last": 1}),
        (19, 2, None, {"kind": "ideals"}),
    ],
)
def test_each_proof_is_written_and_proved_again(
    memory: float, k: int, constraints: Constraints | None, proof: Document, tmp_path: Path
) -> None:
    document = impossible(memory, k, constraints)
    assert document["impossible"]["proof"] == proof
    verdict = check(document, tmp_path)
    assert verdict.faults == ()
    assert not verdict.rests_on_trust
    assert verdict.no_answer is not None
    assert verdict.no_answer.how.startswith("re-proved")


@pytest.mark.parametrize(
    "proof",
    [
        {"kind": "sum"},
        {"kind": "node", "node": 2},
        {"kind": "windows", "first": 0, "last": 0},
        {"kind": "windows", "first": 1, "last": 0},
        {"kind": "ideals"},
    ],
)
def test_what_fits_is_not_impossible(proof: Document, tmp_path: Path) -> None:
    """Two blocks of twenty bytes."""
    write_json(tmp_path / "c.json", impossible(20, 2, None, **proof))
    assert main(["verify", str(tmp_path / "c.json")]) == 1


def test_without_a_proof_it_is_trusted(tmp_path: Path) -> None:
    """A solver says it: exit code 4."""
    document = impossible(19)
    document["impossible"]["proof"] = None
    write_json(tmp_path / "c.json", document)
    assert main(["verify", str(tmp_path / "c.json")]) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "magic"},
        {"kind": "node"},
        {"kind": "node", "node": 3},
        {"kind": "node", "node": -1},
        {"kind": "sum", "node": 1},
        {"kind": "windows", "first": 0, "last": 2},
        [],
    ],
)
def test_what_is_no_proof_is_refused(change: Any, tmp_path: Path) -> None:
    forged = copy.deepcopy(impossible(9))
    forged["impossible"]["proof"] = change
    with pytest.raises(InputError, match=r"impossible\.proof"):
        check(forged, tmp_path)


def test_bug_windows_are_pushed_along_edges(tmp_path: Path) -> None:
    """The second node may be in no block before the first; the checker looked at the first alone."""
    graph = ComputationGraph.from_edges([(0, 1)], [1.0] * 2, [0.0] * 2, [3.0] * 2)
    instance = Instance(graph, Platform(2, 1.0, 5.0, 0.0, fit=True), windows={0: 1})
    document = certificate_document([Result("ideals", instance, impossible="does not fit")])
    assert document["impossible"]["proof"] == {"kind": "windows", "first": 1, "last": 1}
    verdict = check(document, tmp_path)
    assert verdict.faults == ()
    assert not verdict.rests_on_trust


def test_bug_the_clock_of_a_check_stands_still_while_kernels_are_compiled() -> None:
    """Compiling took all the time of the check."""
    CLOCK.halt()
    try:
        clock = Clock(0.001)
        time.sleep(0.01)
        clock.raise_if_late()
    finally:
        CLOCK.resume()
    time.sleep(0.01)
    with pytest.raises(OutOfTimeError):
        clock.raise_if_late()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=questions(max_nodes=5))
def test_nothing_is_called_impossible_that_is_not(question: Instance, tmp_path: Path) -> None:
    """By its groups alone the ideals find out exactly, and no true claim is refused."""
    rules = question.constraints
    kept = Constraints(together=rules.together, uncut=rules.uncut)
    exact = ExactInstance.of(question)
    merged = merge_groups(exact, shared_blocks(exact, kept)).kinds[0]
    free = Instance(question.graph, question.platform, constraints=kept)
    nothing = question.platform.fit and needed_optimum(free) is None
    assert (question.platform.fit and (merged.nothing_fits or fits_nowhere(merged, Clock(60.0)))) == nothing
    document = certificate_document([Result("ideals", question, impossible="does not fit")])
    verdict = check(document, tmp_path)
    if not verdict.rests_on_trust:
        assert optimum(question) == float("inf")
