"""Words of constraints from strangers and from people in a hurry: refused in one line, and nothing is exhausted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from instances import ComputationGraph, InputError, Instance, Platform
from instances.partitioning.constraints import BlockRules, Constraints

CHAIN = ComputationGraph.from_edges([(v, v + 1) for v in range(4)], work=[1] * 5, names=tuple("abcde"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"together": [0, 1]}, "together: 0 is no list; put it into one."),
        ({"together": 5}, "together: 5 is no list"),
        ({"together": [None]}, "together: None is no list"),
        ({"uncut": 7}, "uncut: 7 is no list"),
        ({"windows": "abc"}, "windows: 'abc' is no pair; give a list of pairs."),
        ({"windows": [5]}, "windows: 5 is no pair"),
        ({"windows": {0: None}}, "The window of 0: None is no whole number"),
        ({"at_least": (1, [0])}, "at_least: 1 is no pair"),
        ({"at_least": [(True, "*")]}, "at_least: True is no whole number"),
        ({"at_least": [(10**400, "*")]}, "At least 1000"),
        ({"windows": {0: 10**400}}, "Node 0 (a) has a window up to block 1000"),
        ({"uncut": [10**5000]}, "There is no node a number of so many digits; nodes run from 0 to 4."),
        ({"uncut": ["\x1b[2J\n"]}, r"There is no node '\x1b[2J\n'"),
        ({"uncut": ["f" * 10**6]}, "There is no node 'fff"),
    ],
)
def test_what_is_no_word_is_refused_in_one_line(words: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Instance(CHAIN, Platform(2, 1.0), **words)
    assert str(caught.value).startswith(message)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1100


def test_bug_one_text_was_taken_letter_by_letter() -> None:
    assert Constraints.of(CHAIN, together="[bd]", uncut="e") == Constraints(together=((1, 3),), uncut=(4,))


def test_arrays_are_lists() -> None:
    """Whether an array says anything at all is not asked."""
    rules = Instance(CHAIN, Platform(2, 1.0), together=np.array([[0, 1]]), windows=np.array([[4, 1]])).rules
    assert (rules.group[0] == rules.group[1], rules.first.tolist()) == (True, [0, 0, 0, 0, 1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"uncut": ["*"] * 5000}, "Names up to '[*]' stand for more than"),
        ({"uncut": ["a"] * 5000}, "Names up to 'a' stand for more than"),
        ({"at_least": [(0, [0])] * 10**5}, "There are 100000 least numbers"),
    ],
)
def test_bug_short_files_took_all_memory(words: dict[str, Any], message: str) -> None:
    """Many words, each of them for all nodes; a table with a row for each number."""
    graph = ComputationGraph.from_edges([], work=[1.0] * 4000, names=("a",) * 4000)
    with pytest.raises(InputError, match=message):
        Instance(graph, Platform(2, 1.0), **words)


def test_bug_uncut_nodes_that_are_named_often_took_all_memory() -> None:
    """Each time their readers were listed again."""
    star = ComputationGraph.from_edges([(0, v) for v in range(1, 3000)], work=[1.0] * 3000)
    assert not Instance(star, Platform(2, 1.0), uncut=[0] * 10**5).rules.group.any()


def test_bug_windows_against_the_order_took_forever() -> None:
    """Each node learnt of the next window, one after the other, from all nodes before it."""
    n = 20_000
    chain = ComputationGraph.from_edges([(v + 1, v) for v in range(n - 1)], work=[1.0] * n)
    rules = BlockRules.of(chain, n, Constraints(windows=tuple((v, v, n - 1) for v in range(n))))
    assert (rules.first == n - 1).all()
    rules = BlockRules.of(chain, n, Constraints(windows=tuple((v, 0, v) for v in range(n))))
    assert not rules.last.any()
