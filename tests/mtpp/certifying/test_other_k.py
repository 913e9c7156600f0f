"""What follows for one number of blocks from others holds, and certify uses it."""

from __future__ import annotations

import math

from brute_force import allowed_partitions, best_partition, optimum
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import instances, questions

from instances import Bound, ComputationGraph, InputError, Instance, Platform, Result
from mtpp.certifying.certify import certify, from_other_k
from mtpp_models import solve


@given(instances(max_nodes=6, overflow=True), st.integers(1, 7))
def test_what_follows_from_other_k_holds(instance: Instance, k: int) -> None:
    """Bounds are not above the optimum of the other k, and partitions belong to it."""
    known = [solve(instance, "ideals"), solve(instance, "simple")]
    target = instance.with_k(k)
    for result in from_other_k(known, target):
        assert result.instance.key == target.key
        if result.bound is not None:
            assert result.bound.value <= best_partition(target).bottleneck * (1 + 1e-9)
        if result.partition is not None:
            assert result.partition.instance.key == target.key


def test_two_blocks_prove_four() -> None:
    """k OPT_k >= j OPT_j where j divides k: two blocks cost 8 each, so four cost at least 4."""
    graph = ComputationGraph.from_edges([], work=[4.0] * 4, output_bytes=[0.0] * 4)
    two, four = (Instance(graph, Platform(k, bandwidth=1.0)) for k in (2, 4))
    [bound] = [result.bound for result in from_other_k([certify(two)], four)]
    assert bound is not None
    assert (bound.value, bound.method, bound.witness["from_k"]) == (4.0, "carried", 2)


def test_nothing_follows_for_another_graph() -> None:
    a, b = (ComputationGraph.from_edges([], work=[w], output_bytes=[0.0]) for w in (1.0, 2.0))
    known: list[Result] = [solve(Instance(a, Platform(2, bandwidth=1.0)), "simple")]
    assert from_other_k(known, Instance(b, Platform(4, bandwidth=1.0))) == []


@given(questions(max_nodes=4), st.integers(1, 4))
def test_what_follows_from_other_k_obeys(instance: Instance, k: int) -> None:
    """Constraints and hard limits included; where the other k contradicts them there is no question."""
    try:
        target = instance.with_k(k)
    except InputError:
        return
    for result in from_other_k(
        [Result("start", instance, found) for found in allowed_partitions(instance)][:3], target
    ):
        assert result.partition is not None
        assert result.partition.block.max() < min(k, instance.k)
    assume(optimum(instance) < math.inf)
    for result in from_other_k([Result("simple", instance, bound=Bound(optimum(instance), "simple"))], target):
        assert result.bound is not None
        assert result.bound.value <= optimum(target) * (1 + 1e-9)
