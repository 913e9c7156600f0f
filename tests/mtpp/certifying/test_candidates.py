"""Which method has the next turn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from instances import Bound, ComputationGraph, Instance, Partition, Platform, Result
from instances.deadline import Deadline
from instances.random_graphs import regal_style
from mtpp.certifying.certify import methods_for
from mtpp.certifying.loop import Candidate, Method, best_of_each_method, next_candidate
from mtpp.certifying.methods import answered
from mtpp_models import SolveOptions
from mtpp_models.solvers.interface import Controls


def arm(name: str, share: float, *, least: float = 0.0, once: bool = False, **state: float) -> Candidate[Any, Any]:
    """A method that nobody runs, and what is known of its turns."""
    return Candidate(Method(name, lambda best, controls: None, share, least=least, once=once), **state)


def path(n: int) -> ComputationGraph:
    """Nodes in a row."""
    nodes = np.arange(n)
    return ComputationGraph.from_edges(np.column_stack((nodes[:-1], nodes[1:])), np.ones(n), np.ones(n))


def test_who_had_no_turn_yet_comes_first_in_order() -> None:
    """However much others gain."""
    candidates = [arm("a", 0.5, spent=1.0, gain=9.0), arm("b", 0.5), arm("c", 0.5)]
    assert next_candidate(candidates) is candidates[1]


def test_then_who_gained_most_and_of_equals_who_had_least() -> None:
    """Gain is the fall of the logarithm of the ratio per second in the last turn."""
    candidates = [
        arm("a", 0.5, spent=1.0, gain=0.1),
        arm("b", 0.5, spent=9.0, gain=0.3),
        arm("c", 0.5, spent=5.0, gain=0.3),
    ]
    assert next_candidate(candidates) is candidates[2]
    candidates[2].learn(seconds=2.0, before=math.log(1.5), behind=math.log(1.5), at_its_end=False)
    assert next_candidate(candidates) is candidates[1]


def test_nobody_begins_what_the_time_left_is_too_short_for() -> None:
    """A model that cannot be built in time leaves its turn to others; None if nobody is left."""
    candidates = [arm("model", 0.5, least=3.0), arm("search", 0.5, spent=1.0, gain=0.0)]
    assert next_candidate(candidates, remaining=4.0) is candidates[0]
    assert next_candidate(candidates, remaining=2.0) is candidates[1]
    assert next_candidate(candidates[:1], remaining=2.0) is None


def test_what_would_begin_anew_has_one_turn() -> None:
    """Whatever it gained."""
    candidate = arm("a", 0.25, once=True)
    candidate.deadline(Deadline.after(1000.0))
    candidate.learn(250.0, 1.0, 0.5, False)
    assert candidate.over


def test_turns_double_and_the_last_takes_all() -> None:
    """What would be too short for another turn is no longer divided."""
    candidate, whole = arm("a", 0.25), Deadline.after(1000.0)
    assert candidate.deadline(whole).left == pytest.approx(250.0, rel=1e-3)
    candidate.learn(seconds=250.0, before=1.0, behind=0.5, at_its_end=False)
    assert candidate.gain == pytest.approx(0.5 / 250.0)
    assert candidate.deadline(whole).left == pytest.approx(500.0, rel=1e-3)
    candidate.learn(seconds=500.0, before=0.5, behind=0.5, at_its_end=False)
    assert candidate.deadline(whole).left == pytest.approx(1000.0, rel=1e-3)
    assert not candidate.over


@pytest.mark.parametrize(("seconds", "behind", "at_its_end", "over"), [
    (100.0, 1.0, False, False),  # the first turn of all may end early
    (100.0, 1.0, True, True),
    (250.0, 1.0, False, False),
])  # fmt: skip
def test_the_first_turn_ends_an_arm_only_at_its_end(
    seconds: float, behind: float, at_its_end: bool, over: bool
) -> None:
    """A method that has proved all it can has no further turn."""
    candidate = arm("a", 0.25)
    candidate.deadline(Deadline.after(1000.0))
    candidate.learn(seconds, 1.0, behind, at_its_end)
    assert candidate.over == over


def test_who_stops_early_again_and_gains_nothing_is_done() -> None:
    """It has nothing more to say."""
    candidate = arm("a", 0.25)
    for _ in range(2):
        candidate.deadline(Deadline.after(1000.0))
        candidate.learn(1.0, 1.0, 1.0, False)
    assert candidate.over


def test_measures_of_the_question_choose_and_order_the_arms() -> None:
    """Narrow graphs begin with ideals; exact comes early where it is small; two blocks need no prices."""
    narrow = Instance(path(30), Platform(k=2, bandwidth=1.0))
    wide = Instance(regal_style("erdos-renyi", 300, seed=1), Platform(k=8, bandwidth=1.0))
    names = [method.name for method in methods_for(narrow).turns]
    assert names[0] == "ideals"
    assert "exact" in names
    assert not {"priced", "priced-quick", "coarse-2+all"} & set(names)
    names = [method.name for method in methods_for(wide).turns]
    assert names.index("ideals") > names.index("portfolio")
    assert {"priced", "priced-quick", "coarse-2+all", "exact+all"} <= set(names)
    assert "exact" not in names


@pytest.mark.parametrize(("n", "first"), [(40, "exact+all"), (90, "priced")])
def test_small_models_come_before_prices(n: int, first: str) -> None:
    """Of few nodes times blocks the exact model comes to its end sooner."""
    methods = methods_for(Instance(regal_style("erdos-renyi", n, seed=1), Platform(k=4, bandwidth=1.0))).turns
    names = [method.name for method in methods if method.name in ("exact+all", "priced")]
    assert names == [first, *({"exact+all", "priced"} - {first})]


def test_bug_a_narrow_grid_was_left_to_guessed_prices() -> None:
    """Of 10 by 30 nodes, with too many ideals to list; sweeps, which bound wider grids well, had no turn before."""
    rows, columns = 10, 30
    edges = [(columns * i + j, columns * i + j + 1) for i in range(rows) for j in range(columns - 1)]
    edges += [(v, v + columns) for v in range(columns * (rows - 1))]
    graph = ComputationGraph.from_edges(edges, np.ones(300), np.ones(300))
    names = [method.name for method in methods_for(Instance(graph, Platform(k=8, bandwidth=1.0))).turns]
    assert names.index("ideals") < names.index("priced") < names.index("priced-quick")


def test_bug_large_graphs_get_no_matrices_of_pairs() -> None:
    """Pigeonhole and prices took half a minute and gigabytes for 10,000 nodes, whatever the time limit."""
    names = {method.name for method in methods_for(Instance(path(6_000), Platform(k=8, bandwidth=1.0))).turns}
    assert not names & {"pigeonhole", "priced", "priced-quick"}
    assert "portfolio" in names


def test_no_edges() -> None:
    """Measures of a graph without edges."""
    graph = ComputationGraph.from_edges([], np.ones(5), np.ones(5))
    assert methods_for(Instance(graph, Platform(k=3, bandwidth=1.0))).turns


@pytest.mark.parametrize(("again", "calls"), [(False, 1), (True, 4)])
def test_bug_a_flow_ended_while_there_were_time_and_a_gap(again: bool, calls: int) -> None:
    """Its search had one more turn, however much time was left; a step with turns has them until nothing is open."""
    instance = Instance(path(5), Platform(k=2, bandwidth=1.0))
    cuts, called = [1, 4, 2, 3], 0

    def run(_: Result[Instance, Partition], controls: Controls) -> Result[Instance, Partition]:
        nonlocal called
        partition = Partition(instance, np.array(np.arange(5) >= cuts[called], dtype=np.int64))
        called += 1
        bound = Bound(partition.bottleneck if called == len(cuts) else called, "test", optimal=False)
        return Result("test", instance, partition, bound)

    answer = answered(instance, [Method("test", run, 0.1, again=again)], SolveOptions(time_limit=1000.0))
    assert (called, answer.proved) == (calls, again)


def test_bug_a_bound_that_several_methods_return_was_listed_for_each() -> None:
    """The best one is, and no partition is lost."""
    instance = Instance(path(3), Platform(2, 1.0))
    answers = [Partition(instance, block) for block in ([0, 0, 0], [0, 0, 1], [0, 1, 1])]
    rows = [("simple", "simple", 1.5), ("bisection", "simple", 1.0), ("bisection", "bisection", 2.0)]
    results = [
        Result(method, instance, answer, Bound(value, by, optimal=False))
        for answer, (method, by, value) in zip(answers, rows, strict=True)
    ]
    best = best_of_each_method(results)
    assert [part.by for part in best] == ["simple", "–", "bisection"]
    assert [part.answer for part in best] == answers
