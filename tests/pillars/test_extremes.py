"""No false bound and no wrong cost on extreme platforms: fixed examples, which `make hunt` looks beyond."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from brute_force import best_partition
from brute_force import optimum as optimum_by_partitions
from extremes import build, random_case
from hunt import again, question_of, try_seeds, write_fault
from hunted_questions import Question
from hunting import GROUPS, Method, bound_method
from hypothesis import given, settings
from ruled_questions import RuledQuestion, random_ruled_case
from shrinking import minimised
from strategies import extreme_cases
from subset_oracle import Case, numbers, optimum

import mtpp
from instances import ComputationGraph, InputError, Instance, Partition, Platform, Result, SharedParameter
from instances.machines import Machines
from instances.partitioning.memory import proof_of_no_fit
from instances.placement.problem import PlacementInstance
from mtpp_models import MODELS, solve

# Questions that each group is asked here, after its methods.
_FEW = {
    "bounds": 150,
    "priced": 12,
    "models": 12,
    "ladder": 8,
    "heuristics": 25,
    "constraints": 12,
    "planners": 60,
    "shared": 12,
    "placers": 60,
    "placements": 12,
    "witnesses": 60,
}
METHODS = [(group, method) for group, methods in GROUPS("highs").items() for method in methods]


@pytest.mark.parametrize(("group", "method"), METHODS, ids=[f"{group}-{method.name}" for group, method in METHODS])
def test_nothing_is_false_on_extreme_questions(group: str, method: Method) -> None:
    """Bounds, claims, partitions and plans against brute force; no crash, no warning."""
    tally = try_seeds(group, [method], range(_FEW[group]))
    assert not tally.examples
    assert tally.tried[method.name] > _FEW[group] / 3


@settings(max_examples=60)
@given(extreme_cases())
def test_bounds_without_a_solver_hold(case: Case) -> None:
    """The same questions, as Hypothesis draws and shrinks them."""
    try:
        question = Question(case, 0)
        for method in GROUPS("highs")["bounds"]:
            method.check(question)
    except InputError:
        assert case.bandwidth < 1


@settings(max_examples=60)
@given(extreme_cases(most_nodes=4))
def test_the_oracle_agrees_with_all_partitions(case: Case) -> None:
    """In fractions and in floats."""
    case = replace(case, k=min(case.k, 3), buffer=case.buffer or 0.0)
    try:
        instance = build(case)
    except InputError:
        return
    value = best_partition(instance).bottleneck
    question = Question(case, 0)
    if not question.doubtful:
        assert value == pytest.approx(question.optimum, rel=1e-9, abs=1e-300)
        assert value == pytest.approx(float(optimum(numbers(case, exact=True))), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("exact", [False, True])
def test_the_oracle_of_rules_agrees_with_all_partitions(exact: bool) -> None:
    """Where a buffer stands for the peaks, which otherwise depend on the order."""
    for seed in range(150):
        case = random_ruled_case(random.Random(seed))
        question = RuledQuestion(replace(case, buffer=case.buffer or 0.0), seed)
        try:
            value = optimum_by_partitions(question.instance)
        except InputError:
            continue
        if value == math.inf:
            assert not question.allowed
        elif not question.doubtful:
            assert value == pytest.approx(float(question.exact if exact else question.optimum), rel=1e-9, abs=1e-300)


def test_bug_hard_memory_near_the_largest_number_overflowed() -> None:
    """What rounding may lose was added to the memory."""
    graph = ComputationGraph.from_edges([], [1.5, 1.0], [0.0, 0.5], [0.5, 0.5])
    for k in (1, 2, 3):
        with np.errstate(over="raise"):
            assert proof_of_no_fit(Instance(graph, Platform(k, 1.0, 1e308, fit=True))) is None


def test_bug_what_fits_by_the_tolerance_of_a_solver_was_called_the_optimum() -> None:
    """A buffer fills the memory, and parameters are a trillionth more."""
    graph = ComputationGraph.from_edges([], [8.0], [0.0], [1e-3])
    result = solve(Instance(graph, Platform(1, 1.0, 1e12, 1e12, fit=True)), "exact")
    assert result.partition is None
    assert result.impossible is not None  # in whole numbers
    assert result.bound is None


def test_bug_a_capped_time_was_called_the_optimum() -> None:
    """A block of their own for two nodes sends what takes longer than the times that solvers accept."""
    graph = ComputationGraph.from_edges([(0, 1)], [1.0, 3.0], [1e17, 0.0])
    result = solve(Instance(graph, Platform(2, 1.0), at_least=[(1, "*")]), "exact")
    assert result.bound is not None
    assert result.bound.value < 1e17
    assert not result.bound.optimal


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("bandwidth", [math.inf, 1e300, 1e-300])
def test_bug_infinite_bandwidth_pruned_everything(model: str, bandwidth: float) -> None:
    """Infinite over infinite is not a number, and compared so that each block seemed too dear: 4.75 above 3."""
    instance = Instance(ComputationGraph.from_edges([], [3, 2]), Platform(2, bandwidth))
    bound = solve(instance, model).bound
    assert bound is not None
    assert bound.value == pytest.approx(3, rel=2e-6)
    assert bound.value <= 3


def test_bug_huge_unread_tensors_swallowed_the_bound() -> None:
    """Nobody moves them, so that they are no part of what rounding can cost; it said "to its end" at 17.77."""
    graph = ComputationGraph.from_edges([], [7], [1.4e11], [1.217])
    bound = solve(Instance(graph, Platform(1, 0.1, 1, 1)), "ideals").bound
    assert bound is not None
    assert bound.value == pytest.approx(7 + 12.17, rel=1e-6)
    assert bound.optimal


def test_bug_a_parameter_without_users_was_streamed() -> None:
    """It lies in no block; the last one of a chain of ideals held it."""
    graph = ComputationGraph.from_edges(
        [(0, 1)], [1, 1], [1, 0], [2, 2], parameters=(SharedParameter("unused", 100.0, ()),)
    )
    instance = Instance(graph, Platform(2, 1.0, 2.0, 0.0))
    result = solve(instance, "ideals")
    assert result.bound is not None
    assert result.bound.value <= best_partition(instance).bottleneck == 2


def test_a_bad_start_does_not_make_ideals_stop_early() -> None:
    """Beside a start of 1e300 the optimum is lost in rounding; the better partition is a start for once more."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [2, 2, 1], [1, 1, 0])
    instance = Instance(graph, Platform(2, 1e-300))
    result = solve(instance, "ideals", start=Partition(instance, [0, 0, 1]))
    assert result.bound is not None
    assert (result.bound.value, result.bound.optimal) == (pytest.approx(5), True)


def test_ideals_end_where_nothing_takes_time() -> None:
    """A partition that costs nothing is no better start than itself."""
    graph = ComputationGraph.from_edges([(0, 1)], [0, 0], [1, 0], [1, 1])
    instance = Instance(graph, Platform(2, 1e-300, 0.0, 0.0))
    free = Instance(graph, Platform(2, 1e-300, 2.0, 0.0))
    for question, value in ((instance, best_partition(instance).bottleneck), (free, 0)):
        result = solve(question, "ideals", start=Partition(question, [0, 1]), reduce=False)
        assert result.bound is not None
        assert (result.bound.value, result.bound.optimal) == (pytest.approx(value), True)


def test_pinned_says_to_its_end_only_where_rounding_is_small() -> None:
    """Cuts are whole parts of the start; beside a huge one they are coarse, and more could be proved."""
    graph = ComputationGraph.from_edges([(0, 1)], [1, 1], [1e15, 0])
    instance = Instance(graph, Platform(2, 1.0))
    for start, closed in (([0, 0], True), ([0, 1], False)):
        bound = solve(instance, "pinned", start=Partition(instance, start)).bound
        assert bound is not None
        assert bound.optimal == closed
        assert bound.value <= 2


def test_costs_beyond_the_largest_number_are_refused() -> None:
    """Whether tensors, parameters, a buffer or the number of blocks takes them there."""
    graph = ComputationGraph.from_edges([(0, 1)], [1, 1], [1e10, 0], [1e10, 0])
    for platform in (
        Platform(2, 1e-300),
        Platform(2, 1e-298, 0.0, 1e10),
        Platform(2, 1e-298, 0.0),
        Platform(10**6, 1e-295),
    ):
        with pytest.raises(InputError, match="largest number"):
            Instance(graph, platform)
    with pytest.raises(InputError, match="largest number"):
        PlacementInstance(graph, Machines.alike(2, 1e-300))


@pytest.mark.filterwarnings("error")
def test_work_beyond_the_largest_number_is_refused_without_a_warning() -> None:
    """The sum of all work, which a rate is compared with, was infinite with a warning of numpy."""
    graph = ComputationGraph.from_edges([(0, 1)], [1e308, 1e308], [1.0, 0.0], [0.0, 0.0])
    with pytest.raises(InputError, match="largest number"):
        mtpp.certify(graph, 2, bandwidth=1.0)


def test_a_huge_tensor_does_not_round_the_peak_of_another_block() -> None:
    """Peaks were one running sum over all blocks."""
    graph = ComputationGraph.from_edges([(0, 1), (2, 3)], [1] * 4, [1e300, 0, 3, 0])
    partition = Partition(Instance(graph, Platform(2, 1.0, 1e300)), [0, 0, 1, 1])
    assert partition.peaks.tolist() == [1e300, 3]


def test_costs_are_exact_beside_a_huge_memory_that_a_buffer_fills() -> None:
    """The overflow is what the parameters exceed the rest by; the sum of all three was rounded."""
    graph = ComputationGraph.from_edges([], [0.0], None, [3.0])
    assert Partition(Instance(graph, Platform(1, 1.0, 1e30, 1e30)), [0]).bottleneck == 3


def _dearer(question: Question) -> Result:
    result = solve(question.instance, "exact", start=question.start)
    assert result.bound is not None
    return replace(result, answer=None, bound=replace(result.bound, value=result.bound.value * 1.01))


def test_the_hunter_finds_a_planted_fault(tmp_path: Path) -> None:
    """A bound of one hundredth too much; the file holds a question of one node."""
    method = bound_method("exact", _dearer)
    tally = try_seeds("models", [method], range(40))
    assert tally.faults["exact"] > 10
    assert "exact" in tally.table()
    path = write_fault(tally.examples[0], method, tmp_path)
    written = json.loads(path.read_text())
    assert len(written["case"]["work"]) == 1
    assert len(written["graph"]["nodes"]) == 1
    assert again(path, "highs") == 0  # the method of that name is right


def test_the_hunter_finds_a_broken_rule() -> None:
    """Of a model that leaves constraints out."""
    method = bound_method("careless", lambda question: solve(question.instance.without_constraints(), "ideals"))
    tally = try_seeds("constraints", [method], range(60))
    assert any("breaks a rule" in fault.message for fault in tally.examples)


def test_a_case_with_rules_is_made_small() -> None:
    """Nodes that are left out move up in the rules, too."""
    for seed in range(40):
        case = random_ruled_case(random.Random(seed))
        if case.windows:
            small = minimised(case, lambda case: bool(case.windows))
            assert (small.n, len(small.windows), small.windows[0][0]) == (1, 1, 0)
            assert (small.together, small.uncut, small.at_least, small.fit) == ([], [], [], False)


def test_the_hunter_counts_what_it_tries(tmp_path: Path) -> None:
    """From the command line, for a moment; and it refuses names that it does not know."""
    program = [
        sys.executable,
        str(Path(__file__).parents[1] / "helpers" / "hunt.py"),
        "--seed",
        "1",
        "--out",
        str(tmp_path),
    ]
    run = subprocess.run([*program, "--seconds", "0.5", "--methods", "simple,spp"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "seed 1" in run.stdout
    assert "simple" in run.stdout
    assert not list(tmp_path.iterdir())
    wrong = subprocess.run([*program, "--methods", "simpel"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "simpel" in wrong.stderr


def test_the_same_seed_asks_the_same_question() -> None:
    """So that a printed seed is enough."""
    for group in GROUPS("highs"):
        first, second = (question_of(group, 7) for _ in range(2))
        assert getattr(first, "case", first) == getattr(second, "case", second)
    assert random_case(random.Random(7)) != random_case(random.Random(8))
    assert np.isfinite(build(random_case(random.Random(7))).tensor_time).all()
