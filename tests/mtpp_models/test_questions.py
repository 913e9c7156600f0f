"""Bounds and models of the whole question: constraints, a memory that must hold everything, least peaks."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from brute_force import allowed_partitions, optimum
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from strategies import instances, questions

from heuristics import Limits, search
from instances import ComputationGraph, Instance, Partition, Platform, load_graph
from instances.partitioning.memory import proof_of_no_fit
from instances.results import Status
from mtpp_models import MODELS, solve
from mtpp_models.formulations.strengthening import ablation
from mtpp_models.simple import simple, work_bound

WITHOUT_SOLVER = ("simple", "pinned", "pigeonhole", "ideals", "bisection", "priced", "priced-quick")
# Memory is finite, and without a buffer the largest need counts.
PEAKS = instances(max_nodes=6, max_k=3, huge_ratio=False, overflow=True).map(
    lambda instance: Instance(instance.graph, replace(instance.platform, activation_buffer=None))
)
# Its peak is 1 or 2, by the order of nodes that do not depend on each other.
_TWO_PEAKS = ComputationGraph.from_edges([(0, 2)], [0] * 5, [1, 1, 0, 0, 0])
STRENGTHENED = (*ablation("exact")[1:], "coarse-2+all")


def check_bound(
    instance: Instance, name: str, best: float, start: Partition | None = None, reduce: bool = True
) -> None:
    """No bound above the optimum, no answer that is none, and nothing called impossible that is not."""
    result = solve(instance, name, start=start, reduce=reduce)
    if result.impossible is not None:
        assert best == math.inf, (name, result.impossible)
        assert result.status is Status.IMPOSSIBLE
        return
    assert result.bound is not None
    assert result.bound.value <= best * (1 + 1e-9), name
    if result.partition is not None:  # its order may be a better one than the default, by which the optimum is
        assert best * (1 - 1e-9) <= Partition(instance, result.partition.block).bottleneck
        assert result.bound.value * (1 - 1e-9) <= result.partition.bottleneck < math.inf


@settings(max_examples=100)
@given(questions(), st.booleans())
@example(Instance(_TWO_PEAKS, Platform(1, 1.0, 0.0)), False)
def test_no_bound_exceeds_the_optimum(instance: Instance, reduce: bool) -> None:
    best = optimum(instance)
    for name in MODELS:
        check_bound(instance, name, best, reduce=reduce)


@pytest.mark.slow
@settings(max_examples=60)
@given(questions(max_nodes=5), st.data())
def test_strengthened_models_keep_all_better_partitions(instance: Instance, data: st.DataObject) -> None:
    known = [partition for partition in allowed_partitions(instance) if partition.bottleneck < math.inf]
    assume(known)
    start = data.draw(st.sampled_from(known))
    best = min(partition.bottleneck for partition in known)
    for name in (*STRENGTHENED, *MODELS):
        check_bound(instance, name, best, start)


@settings(max_examples=200)
@given(questions(peaks=False))
def test_exact_and_ideals_are_the_optimum(instance: Instance) -> None:
    """Where nothing is left out: a buffer stands for the peak."""
    best = optimum(instance)
    exact = solve(instance, "exact")
    if best == math.inf:
        assert exact.status is Status.IMPOSSIBLE
    else:
        assert exact.partition is not None
        assert exact.bound is not None
        assert exact.partition.bottleneck == pytest.approx(best, rel=2e-6)
        assert exact.bound.value == pytest.approx(best, rel=2e-6)
    ideals = solve(instance, "ideals")
    if ideals.bound is not None and ideals.bound.optimal:
        assert ideals.bound.value == pytest.approx(best, rel=2e-6)
    if not instance.constraints:
        assert (ideals.status is Status.IMPOSSIBLE) == (best == math.inf)


@pytest.mark.slow
@settings(max_examples=600)
@given(PEAKS)
def test_least_peaks_exceed_no_peak(instance: Instance) -> None:
    modelled, best = optimum(instance.modelled()), optimum(instance)
    assert modelled <= best * (1 + 1e-9)
    for name in WITHOUT_SOLVER[:4]:
        bound = solve(instance, name).bound
        assert bound is not None
        assert bound.value <= (best if name == "ideals" else modelled) * (1 + 1e-9), name
    assert bound.value >= modelled * (1 - 2e-6)  # that of ideals, which counts more than needs


@pytest.mark.slow
@settings(max_examples=60)
@given(PEAKS)
def test_models_know_the_least_peak(instance: Instance) -> None:
    best = optimum(instance.modelled())
    for name in MODELS:
        bound = solve(instance, name).bound
        assert bound is not None
        assert bound.value <= (optimum(instance) if name == "ideals" else best) * (1 + 1e-9), name
    exact = solve(instance, "exact").bound
    assert exact is not None
    assert exact.value == pytest.approx(best, rel=2e-6)


@settings(max_examples=300)
@given(questions())
def test_what_is_said_to_fit_nowhere_does_not(instance: Instance) -> None:
    assert simple(instance) >= work_bound(instance) * (1 - 1e-12)
    if not instance.rules.has_groups and proof_of_no_fit(instance) is not None:
        assert optimum(instance) == math.inf


@pytest.mark.parametrize(("memory", "ratio"), [(8e6, 1.05), (4e6, 1.02)])
def test_memory_without_a_buffer_leaves_a_small_gap(data: Path, memory: float, ratio: float) -> None:
    """Peaks that count as 0 left a ratio of 2.78 and 1.32."""
    instance = Instance(load_graph(data / "shapes" / "gpt190.json"), Platform(4, 16e9, memory))
    start = search(instance, "local-search", np.random.default_rng(0), Limits(evaluations=3000)).partition
    assert start is not None
    result = solve(instance, "ideals", start=start)
    assert result.ratio is not None
    assert result.ratio <= ratio
