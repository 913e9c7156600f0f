"""Plans and placements that are true pass: sums of floats with ties are the same in exact numbers."""

from __future__ import annotations

import numpy as np
import pytest
from answer_files import check, placed
from hypothesis import given, settings
from planning_oracles import random_instance
from strategies import placements

from heuristics.planning import PLANNERS
from instances import ComputationGraph
from instances.machines import Machines
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.problem import PlacementInstance
from mtpp.certifying.methods import certify_plan
from mtpp.problems.checking import certificate_document


@pytest.mark.parametrize("planner", [name for name in PLANNERS if name != "improved"])
def test_what_planners_make_is_true(planner: str) -> None:
    """Times with many ties, in half and full duplex, are the same in exact numbers."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        sizes = [int(rng.integers(1, most)) for most in (9, 7, 9)]
        instance = random_instance(rng, *sizes, symmetric=bool(seed % 2), full_duplex=seed % 3 == 0)
        answer = certify_plan(instance, rng, planner) if planner != "pipedream-hierarchical" or sizes[1] > 1 else None
        if answer is None or answer.answer.plan is None:
            continue
        verdict = check(certificate_document([answer]))
        assert verdict.faults == ()
        assert float(verdict.cost) == pytest.approx(answer.cost, rel=1e-12)
        assert verdict.rests_on_trust


def test_even_layers_of_a_hundred_microbatches_are_true() -> None:
    """Where floats see ties that are none, and none that are."""
    from instances.planning.chains import simulation

    for full_duplex in (False, True):
        instance = simulation(0, servers=(4, 4), microbatches=100)
        instance = type(instance)(instance.chain, instance.cluster, 100, full_duplex)
        for planner in ("improved", "gpipe"):
            assert check(certificate_document([certify_plan(instance, np.random.default_rng(0), planner)])).faults == ()


def test_placements_with_ties_are_true() -> None:
    """Works of tenths, whose sums depend on their order."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(2, 25)), int(rng.integers(1, 5))
        edges = [(u, v, int(rng.integers(2))) for v in range(n) for u in range(v) if rng.random() < 0.2]
        sizes = [[0.1 * float(x) for x in rng.integers(0, 4, 2)] for _ in range(n)]
        graph = ComputationGraph.from_edges(edges, [0.1, *(0.1 * rng.integers(0, 3, n - 1))], sizes, rng.random(n))
        gaps = {"node_gap": 0.1 * (seed % 2), "transfer_gap": 0.3 * (seed % 3), "broadcast": seed % 5 == 0}
        instance = PlacementInstance(graph, Machines.alike(k, float(rng.choice([0.3, 7.7, np.inf])), 3.0), **gaps)
        placement = Placement(instance, rng.integers(0, k, n))
        for answer in (placement, OrderedPlacement.of(placement)):
            verdict = check(certificate_document([placed(answer)]))
            assert verdict.faults == ()
            assert not verdict.rests_on_trust


@settings(max_examples=60)
@given(placements())
def test_placements_of_unequal_devices_are_true(placement: Placement) -> None:
    """Also where nodes keep a state, which counts as their parameters do."""
    for answer in (placement, OrderedPlacement.of(placement)):
        verdict = check(certificate_document([placed(answer)]))
        assert verdict.faults == ()
        assert float(verdict.cost) == pytest.approx(placement.step_time, rel=1e-12)
