"""The least number of blocks against all partitions into all numbers of blocks."""

from __future__ import annotations

import math
import signal
from dataclasses import replace

import pytest
from brute_force import optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import questions

from instances import ComputationGraph, InputError, Instance, Platform
from mtpp.certifying.least_k import LeastK, find_least
from mtpp_models import SolveOptions


def optima(question: Instance) -> dict[int, float]:
    """By k; infinite where nothing fits or the constraints contradict one another."""
    found = {}
    for k in range(1, question.graph.n + 1):
        try:
            found[k] = optimum(question.with_k(k))
        except InputError:
            found[k] = math.inf
    return found


@settings(max_examples=25, deadline=None)
@given(questions(max_nodes=4), st.floats(0.3, 1.5))
def test_the_least_number_is_that_of_brute_force(question: Instance, part: float) -> None:
    true = optima(question)
    finite = [cost for cost in true.values() if cost < math.inf]
    enough = math.inf if question.platform.fit and part > 1.2 else part * max(finite, default=1.0)
    good = [k for k, cost in true.items() if cost <= enough and cost < math.inf]
    least = find_least(question, enough, SolveOptions(time_limit=4))
    assert least.k is None or least.k in good
    if not least.open:
        assert least.k == min(good, default=None)


def chain(**platform: float | bool) -> Instance:
    """Six nodes with work 1 and 4 bytes each."""
    edges = [(v, v + 1) for v in range(5)]
    graph = ComputationGraph.from_edges(edges, [1.0] * 6, [0.0] * 6, [4.0] * 6, name="chain")
    return Instance(graph, Platform(1, 1.0, **platform))  # type: ignore[arg-type]


def test_a_throughput_is_reached_with_the_least_blocks_and_one_less_is_excluded() -> None:
    least = find_least(chain(), 2.0, SolveOptions(time_limit=60))
    assert (least.k, least.open) == (3, [])
    goal = "with a bottleneck of 2 s or less (0.5 per s)"
    assert least.sentence().startswith(f"k = 3 is the least {goal}: 2 will not do.")


def test_what_fits_needs_no_throughput() -> None:
    """Two nodes a block: three blocks hold them, and sums exclude two; the first answer ends the search."""
    least = find_least(chain(memory=9.0, activation_buffer=0.0, fit=True), math.inf, SolveOptions(time_limit=1e6))
    assert (least.k, least.open) == (3, [])
    assert "does not fit" in least.sentence()


def test_what_no_number_of_blocks_can_do_is_proved() -> None:
    least = find_least(chain(), 0.5, SolveOptions(time_limit=60))
    assert (least.k, least.open) == (None, [])
    assert least.sentence().endswith("every bottleneck is at least 1 s (simple).")


@pytest.mark.parametrize("prove", [True, False])
def test_a_search_alone_leaves_fewer_blocks_open(prove: bool) -> None:
    """Three works of 2 in a chain with two of 1 around: 2 blocks reach 4, sums say 3.5."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], [2.0, 2.0, 2.0, 1.0], [0.0] * 4)
    least = find_least(Instance(graph, Platform(1, 1.0)), 3.75, SolveOptions(time_limit=4), prove=prove)
    assert (least.k, least.open) == (3, [] if prove else [2])
    assert ("is open" in least.sentence()) == (not prove)


def test_bug_windows_behind_as_many_blocks_as_nodes_were_called_impossible() -> None:
    """The one node has to be in the fourth block."""
    graph = ComputationGraph.from_edges([], [1.0])
    least = find_least(Instance(graph, Platform(4, 1.0), windows={0: 3}), 2.0, SolveOptions(time_limit=60))
    assert (least.k, least.open) == (4, [])


def test_every_smaller_number_is_open_where_nothing_follows_from_one_for_another() -> None:
    """With a window each number of blocks is a question of its own; without one, what excludes 3 excludes fewer."""
    pinned = LeastK(replace(chain(), windows={5: 0}), 2.0)
    assert (pinned.k, pinned.open) == (None, [1, 2, 3, 4, 5, 6])
    pinned.refused = {2: "a contradiction", 6: "a contradiction"}
    assert pinned.open == [1, 3, 4, 5]
    assert LeastK(chain(), 2.0).open == [6]
    assert LeastK(chain(), 2.0, refused={6: "a contradiction"}).open == []


def test_all_numbers_are_excluded_one_by_one() -> None:
    """The first three blocks stay empty, so 6 are needed; sums exclude neither 4 nor 5, each of which is refuted."""
    question = Instance(chain().graph, Platform(4, 1.0), windows={0: 3})
    least = find_least(question, 2.0, SolveOptions(time_limit=20))  # a fifth of it for a search in vain
    assert (least.k, least.open) == (6, [])


@pytest.mark.parametrize("after", range(1, 12))
def test_ctrl_c_at_each_step_keeps_what_is_known(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes while the question for another number of blocks is made."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], [2.0, 2.0, 2.0, 1.0], [0.0] * 4)
    question, asked, ask = Instance(graph, Platform(2, 1.0), windows={3: 1}), 0, Instance.with_k

    def interrupted(self: Instance, k: int) -> Instance:
        nonlocal asked
        asked += 1
        if asked == after:
            signal.raise_signal(signal.SIGINT)
        return ask(self, k)

    monkeypatch.setattr(Instance, "with_k", interrupted)
    least = find_least(question, 3.75, SolveOptions(time_limit=1))
    assert least.interrupted == (asked >= after)
    assert least.sentence()
    assert least.k in (None, 3, 4)
