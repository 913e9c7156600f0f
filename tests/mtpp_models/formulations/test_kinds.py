"""Models over kinds of devices against brute force, and against each partition."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest
from hunt_kinds import instance_of
from kinds_cases import GOLDEN, U1, devices, question
from kinds_oracle import draw_case

from heuristics import Limits, search
from instances import InputError
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance
from mtpp_models import SolveOptions, solve
from mtpp_models.formulations.exact import exact
from mtpp_models.formulations.scaled_instance import ScaledKinds
from mtpp_models.solvers.highs import run_highs
from mtpp_models.solvers.interface import Controls


@pytest.mark.parametrize("name", GOLDEN)
def test_the_exact_model_finds_and_proves_golden_values(name: str, solver: str) -> None:
    """With each solver, from nothing."""
    instance, optimum = GOLDEN[name]
    result = solve(instance, "exact", SolveOptions(solver, time_limit=20.0))
    assert result.cost == pytest.approx(optimum, abs=1e-9)
    assert result.bound is not None
    assert result.bound.value == pytest.approx(optimum, rel=1e-5)
    assert result.bound.optimal
    assert result.status.value == "optimal"


@pytest.mark.parametrize("name", ["bottleneck", "bottleneck-no-dag", "bottleneck-no-cut-io"])
def test_relaxations_lie_between_their_floor_and_the_optimum(name: str) -> None:
    """Of the golden graph; with the cut, more than the speed alone proves."""
    instance, optimum = GOLDEN["graph"]
    bounds = [solve(instance, name, SolveOptions(time_limit=20.0), relaxation=lp).bound for lp in (True, False)]
    assert bounds[0] is not None
    assert bounds[1] is not None
    assert 5.5 * (1 - 1e-6) <= bounds[0].value <= bounds[1].value * (1 + 1e-6)
    assert bounds[1].value <= optimum * (1 + 1e-6)
    if name == "bottleneck":
        assert bounds[1].value > 6


def _random_partition(instance: Instance, rng: random.Random) -> Partition | None:
    """Random blocks along a topological order, on random devices."""
    n, devices_ = instance.graph.n, list(instance.machines.sequence)
    ends = sorted(rng.randint(0, n) for _ in range(instance.k - 1))
    block = np.zeros(n, dtype=np.int64)
    block[instance.graph.topological_order] = np.searchsorted(ends, np.arange(n), side="right")
    if not instance.machines.is_fixed:
        rng.shuffle(devices_)
    with suppress(InputError):  # of windows
        found = Partition(instance, block, kind=devices_[: instance.k])
        return found if found.bottleneck < np.inf else None
    return None


@pytest.mark.parametrize("seed", range(8))
def test_each_partition_is_a_solution_that_costs_as_much(seed: int) -> None:
    """No row cuts off a partition or makes it dearer, as too small a weight would: with y and o fixed, both agree."""
    rng, tried = random.Random(seed), 0
    while tried < 6:
        case = draw_case(rng, chain=seed % 2 == 0, most=6, rated=seed >= 4, windowed=seed >= 6)
        try:
            instance = instance_of(case).modelled()
        except InputError:  # windows that contradict
            continue
        partition = _random_partition(instance, rng) if not instance.is_alike else None
        if partition is None or not partition.bottleneck > 0:
            continue
        data = ScaledKinds.near(instance, None)
        if partition.bottleneck > 1.9 * data.unit or data.leaves_out_overflow:
            continue  # what is far from the optimum may be capped
        m, kinds = exact(data), [t for t in partition.kind.tolist() if t >= 0]
        home = np.unique(partition.block, return_inverse=True)[1]
        if instance.machines.is_fixed or instance.has_windows:
            home, kinds = partition.block, partition.kind.tolist()
        for v in m.V:
            for b in m.B_before_last:
                m.y[v, b].fix(int(home[v] < b))
        for b, t in m.places:
            m.on[b, t].fix(int(b <= len(kinds) and kinds[b - 1] == t))
        outcome = run_highs(m, Controls())
        assert outcome.objective is not None, instance
        assert outcome.objective * data.unit == pytest.approx(partition.bottleneck, rel=1e-6)
        tried += 1


def test_a_start_is_kept_and_improved() -> None:
    """What is worse than the start may be lost, and nothing else."""
    instance, optimum = GOLDEN["two kinds"]
    worse = Partition(instance, [0, 0, 0, 1, 1, 1], kind=[1, 0, 1])
    best = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=500)).partition
    for start in (worse, best):
        result = solve(instance, "exact", SolveOptions(time_limit=20.0), start=start)
        assert result.cost == pytest.approx(optimum)
        assert result.proved


def test_a_hard_memory_that_nothing_fits_is_impossible() -> None:
    """Three units on each of two devices, and six nodes of one unit with needs: what the sums alone do not show."""
    graph = question(U1, devices([(1, 1, 1), (2, 1, 1)])).graph
    held = type(graph).from_edges(
        graph.edges.tolist(), work=graph.work, output_bytes=[0.0] * 6, param_bytes=[2, 2, 2, 2, 2, 2]
    )
    small = question(held, devices([(1, 1, 1), (2, 1, 1)], [5, 7]), fit=True, activation_buffer=0.0)
    result = solve(small, "exact", SolveOptions(time_limit=20.0))
    assert result.impossible is not None
    assert result.bound is None


def test_strengthened_models_are_for_devices_that_are_alike() -> None:
    """In one line, that names what there is."""
    with pytest.raises(InputError, match=r"There is no model for several kinds of devices 'exact\+all'"):
        solve(GOLDEN["graph"][0], "exact+all")
