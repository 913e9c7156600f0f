"""Side constraints: what follows from them is what they say, and what contradicts itself is refused by name."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from brute_force import obeys
from hypothesis import given, settings
from strategies import constrained

from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.partitioning.constraints import BlockRules, Constraints

PATH = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4)], work=[1] * 5, names=tuple("abcde"))


@settings(max_examples=300)
@given(constrained())
def test_rules_allow_what_the_constraints_allow(case: tuple[ComputationGraph, int, Constraints]) -> None:
    """No assignment more, none less; and a contradiction is one."""
    graph, k, constraints = case
    edges = graph.edges.tolist()
    assignments = [
        block
        for block in product(range(k), repeat=graph.n)
        if all(block[u] <= block[v] for u, v in edges) and obeys(graph, constraints, block, k)
    ]
    try:
        rules = BlockRules.of(graph, k, constraints)
    except InputError:
        assert assignments == []
        return
    allowed = []
    for block in product(range(k), repeat=graph.n):
        if all(block[u] <= block[v] for u, v in edges):
            try:
                rules.check(graph, np.array(block), k)
            except InputError:
                continue
            allowed.append(block)
    assert allowed == assignments
    for u, v in edges:
        assert rules.first[u] <= rules.first[v]
        assert rules.last[u] <= rules.last[v]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            {"windows": {"a": [1, 1], "b": 0}},
            "No block is left for node 1 (b): by node 0 (a) it is in block 1 or later",
        ),
        ({"together": [["a", "c"]], "windows": {"a": 0, "b": 1}}, "No block is left for node 0 (a)"),
        ({"together": [["a", "x"]]}, "There is no node 'x'"),
        ({"together": [["a", 5]]}, "There is no node 5; nodes run from 0 to 4."),
        ({"together": [["a", None]]}, "A node is a name, a pattern or a number, not None."),
        ({"windows": {"a": 2}}, "Node 0 (a) has a window up to block 2; blocks run from 0 to 1."),
        ({"windows": {"a": (1, 0)}}, "The window of 'a' begins with block 1 and ends with 0"),
        ({"windows": {"a": [0, 1, 1]}}, "The window of 'a' is [0, 1, 1]; give a block, or"),
        ({"windows": {"a": 0.5}}, "The window of 'a': 0.5 is no whole number"),
        ({"windows": {"a": float("nan")}}, "The window of 'a': nan is no whole number"),
        ({"at_least": [(3, "*")]}, "At least 3 of 5 nodes (a, b, c, …) cannot be in each of 2 blocks"),
        ({"at_least": [(-1, "*")]}, "at_least: -1 is no whole number"),
        ({"uncut": ["z*"]}, "There is no node 'z*'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(words: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Instance(PATH, Platform(2, 1.0), **words)
    assert str(caught.value).startswith(message)


def test_words_are_names_patterns_and_numbers() -> None:
    graph = ComputationGraph.from_edges(
        [(0, 1), (1, 2), (2, 3)], work=[1] * 4, names=("/embed", "/layers.0/a", "/layers.0/b", "/layers.1/[x]")
    )
    words = Constraints.of(graph, together=["/layers.0/*"], windows={"/layers.1/[x]": 1, 0: (0, 1)}, uncut=["/embed"])
    assert words == Constraints(together=((1, 2),), windows=((3, 1, 1), (0, 0, 1)), uncut=(0,))
    assert Constraints.of(graph, at_least=[(1, "*")]).at_least == ((1, (0, 1, 2, 3)),)


def test_a_partition_that_breaks_a_rule_is_refused() -> None:
    instance = Instance(PATH, Platform(2, 1.0), together=[["b", "d"]], windows={"e": 1}, at_least=[(1, "*")])
    assert Partition(instance, [0, 1, 1, 1, 1]).bottleneck == 4
    for block, message in (
        ([0, 0, 1, 1, 1], r"Nodes 1 \(b\) and 3 \(d\) are in blocks 0 and 1"),
        ([0, 0, 0, 0, 0], r"Node 4 \(e\) is in block 0; it may be in blocks 1 to 1"),
        ([1, 1, 1, 1, 1], "Block 0 has 0 of the nodes of which each needs at least 1"),
    ):
        with pytest.raises(InputError, match=message):
            Partition(instance, block)


def test_what_is_not_constrained_has_the_key_of_before() -> None:
    """Runs and certificates of before find their questions again."""
    graph = ComputationGraph.from_edges([(0, 1)], work=[1, 2], output_bytes=[3, 0])
    keys = {
        Platform(2, 5): "1e546b3229e0177c6075ca2e3c41d9cd0302a9eedc653edbac896e6597c1fc78",
        Platform(3, 0.5, 7.0, 2.0): "87fee4de2fbe6f1d7bfa1e8b7853bb55fea9f7ad7cffa326611b3a081b71617e",
    }
    for platform, key in keys.items():
        assert Instance(graph, platform).key == key
        assert Instance(graph, platform, windows={0: (0, platform.k - 1)}, together=[[0]]).key == key
        assert Instance(graph, platform, windows={0: 0}).key != key


def test_what_does_not_fit_costs_more_than_anything() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], work=[1, 2], output_bytes=[3, 0], param_bytes=[4, 4])
    tight = Instance(graph, Platform(2, 1.0, memory=7.0, fit=True))
    assert Partition(tight, [0, 1]).bottleneck == 5
    assert Partition(tight, [0, 1]).fits
    one = Partition(tight, [0, 0])
    assert one.excess.tolist() == [4.0, 0.0]
    assert one.bottleneck == float("inf")
    assert not one.fits
    # Without a limit on bandwidth too, where overflow would cost nothing.
    assert Partition(Instance(graph, Platform(2, float("inf"), memory=7.0, fit=True)), [0, 0]).bottleneck == float(
        "inf"
    )
