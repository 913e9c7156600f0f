"""What cannot fit, against all placements of small graphs."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from strategies import placements

from instances import Bound, ComputationGraph, Result, combine
from instances.machines import Machines
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance, proof_of_no_fit


def test_the_sum_and_the_largest_node() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [1, 1], [3, 4], [10, 12])
    assert proof_of_no_fit(PlacementInstance(graph, Machines.alike(2, 1.0, 10.5))) == (
        "parameters and states need 22 bytes, all devices together have 21"
    )
    assert proof_of_no_fit(PlacementInstance(graph, Machines.alike(4, 1.0, 18.0))) == (
        "node 1 (1) needs 19 bytes with what it reads and makes, the largest device has 18"
    )
    fits = PlacementInstance(graph, Machines.alike(2, 1.0, 19.0))
    assert proof_of_no_fit(fits) is None
    assert Placement(fits, [0, 1]).fits


@settings(max_examples=40)
@given(placements(max_nodes=4))
def test_what_is_said_not_to_fit_does_not(placement: Placement) -> None:
    instance = placement.instance
    if proof_of_no_fit(instance) is not None:
        for device in product(range(instance.devices), repeat=instance.graph.n):
            assert not Placement(instance, list(device)).fits


def test_bug_what_fits_is_better_than_what_is_fast() -> None:
    """A placement beyond the memory may be below bounds on those that fit, and is the answer if there is no other."""
    graph = ComputationGraph.from_edges([(0, 1)], work=[1, 1], output_bytes=[10, 0], param_bytes=[6, 6])
    instance = PlacementInstance(graph, Machines.alike(2, 1.0, memory=17.0))
    fast, fitting = Placement(instance, [0, 0]), Placement(instance, [0, 1])
    bound = Result("by hand", instance, bound=Bound(12.0, "by hand"))
    assert (fast.cost, fitting.cost) == (2, 12)
    assert combine(fast, bound).ratio is None
    assert not combine(fast, bound).proved
    assert combine(fast, fitting, bound).answer is fitting
    assert combine(fast, fitting, bound).proved
