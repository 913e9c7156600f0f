"""Bounds on placements: never above the best of all devices and orders, and tight where their idea says so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_oracle import best_ordered, random_question
from strategies import placements

from instances import Bound, ComputationGraph
from instances.deadline import Deadline
from instances.machines import Kind, Machines
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES, group_nodes
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.problem import PlacementInstance
from mtpp_models.placement.bounds import (
    colocation_bound,
    energetic_bound,
    heads_bound,
    heads_of,
    share_devices,
    window_bound,
)
from mtpp_models.placement.cp import probe_sharing


def all_bounds(instance: PlacementInstance, ceiling: float) -> list[Bound]:
    heads = heads_of(instance)
    found = [heads_bound(heads), window_bound(heads)]
    least = max(found, key=lambda bound: bound.value)
    found.append(energetic_bound(heads, least, ceiling, Deadline()))
    return [*found, colocation_bound(heads, found[-1], ceiling, Deadline())]


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_no_bound_is_above_the_optimum(seed: int) -> None:
    instance = random_question(np.random.default_rng(seed), most_nodes=4)
    best = best_ordered(instance)
    for bound in all_bounds(instance, 2 * best.time):
        assert bound.value <= best.time, (bound.method, bound.value, best.time)


@settings(max_examples=200)
@given(placements())
def test_every_placement_keeps_heads_and_tails(placement: Placement) -> None:
    """Whatever the devices and the order, no node starts before its head, and its tail is left at its end."""
    heads, timeline = heads_of(placement.instance), placement.timeline
    assert (heads.head <= timeline.start).all()
    assert (heads.tail <= placement.step_time - timeline.end).all()
    for bound in all_bounds(placement.instance, placement.step_time):
        assert bound.value <= placement.step_time


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_the_oracle_and_ordered_placements_agree(seed: int) -> None:
    """What the oracle finds is an ordered placement of this time, and no worse than the first order that comes."""
    instance = random_question(np.random.default_rng(seed), most_nodes=4)
    best, devices = best_ordered(instance), range(instance.devices)
    nodes = [[op[1] for op in best.operations if len(op) == 2 and op[0] == d] for d in devices]
    moves = [[(op[1], *op[2]) for op in best.operations if len(op) == 3 and op[0] == d] for d in devices]
    assert OrderedPlacement(instance, best.device, nodes, moves).step_time == best.time
    assert best.time <= Placement(instance, [v % instance.devices for v in range(instance.graph.n)]).step_time


def question(edges: list[tuple[int, int]], work: list[float], sizes: list[float], k: int = 2) -> PlacementInstance:
    return PlacementInstance(ComputationGraph.from_edges(edges, work, sizes), Machines.alike(k, 1))


def test_heads_know_that_apart_takes_a_transfer() -> None:
    """Nodes 0 and 1 run one after the other, or node 2 waits for one of their tensors."""
    instance = question([(0, 2), (1, 2)], [4, 5, 1], [3, 2, 0])
    assert heads_of(instance).head.tolist() == pytest.approx([0, 0, 7])  # 1 elsewhere; both here take 9, 0 elsewhere 7
    assert heads_bound(heads_of(instance)).value == pytest.approx(8)


def test_transfers_of_one_pair_come_one_after_the_other() -> None:
    graph = ComputationGraph.from_edges([(0, 3, 0), (0, 3, 1), (1, 3), (2, 3)], [3, 3, 3, 1], [[2, 2], [9], [9], [0]])
    instance = PlacementInstance(graph, Machines.alike(2, 1), transfer_gap=0.5)
    assert heads_of(instance).head[3] == pytest.approx(3 + 2 + 0.5 + 2)


def test_a_path_between_has_a_transfer_somewhere() -> None:
    """Whoever is apart pays for the cheapest place to cross: node 0 of work 5 reaches node 2 at 5 + 1 + 2."""
    instance = question([(0, 1), (1, 2), (3, 2)], [5, 1, 1, 7], [8, 2, 0, 9])
    assert heads_of(instance).head[2] == pytest.approx(8)


def test_nodes_before_share_the_devices() -> None:
    """Six nodes of work 2 on three devices without communication."""
    instance = question([(v, 6) for v in range(6)], [2.0] * 6 + [1.0], [0.0] * 7, k=3)
    assert heads_of(instance).head[6] == pytest.approx(4)


def test_rests_count() -> None:
    """On one device three nodes rest twice."""
    graph = ComputationGraph.from_edges([], [2, 2, 2])
    instance = PlacementInstance(graph, Machines.alike(1, 1), node_gap=1)
    assert window_bound(heads_of(instance)).value == pytest.approx(8)


def test_a_window_adds_what_is_before_and_after() -> None:
    """Four nodes of work 2 between a source and a sink."""
    edges = [*((0, v) for v in range(1, 5)), *((v, 5) for v in range(1, 5))]
    bound = window_bound(heads_of(question(edges, [3, 2, 2, 2, 2, 3], [0] * 6)))
    assert bound.value == pytest.approx(3 + 4 + 3)
    assert bound.witness["window"] == pytest.approx([3, 3])


def test_energetic_reasoning_sees_more() -> None:
    """Of nmt-8001 on four devices the windows know no more than 0.317 of the work."""
    graph = PLACEMENT_FAMILIES["nmt"].graph(8001)
    instance = PlacementInstance(graph, Machines.alike(4, BANDWIDTH))
    bounds = [bound.value / instance.total_work for bound in all_bounds(instance, instance.total_work)]
    assert bounds[0] < bounds[1] + 1e-9 < 0.32
    assert bounds[2] == pytest.approx(0.341, abs=2e-4)


def test_nodes_that_must_share_a_device_run_one_after_the_other() -> None:
    """Nodes 1 to 4 read 9 bytes from node 0, and node 5 from them: in less than 12, all are on one device."""
    edges = [*((0, v) for v in range(1, 5)), *((v, 5) for v in range(1, 5))]
    instance = question(edges, [1, 2, 2, 2, 2, 1], [9, 9, 9, 9, 9, 0], k=4)
    shared = share_devices(heads_of(instance), 10.0, Deadline())
    assert not shared.refuted
    assert len(set(shared.device.tolist())) == 1
    assert share_devices(heads_of(instance), 9.99, Deadline()).refuted


def test_what_is_proved_already_is_not_proved_again() -> None:
    """A bound that meets the ceiling stays what it is; a smaller number would take its place."""
    heads, least = heads_of(question([(0, 1)], [1, 2], [9, 0], k=2)), Bound(2.0, "heads", False)
    assert colocation_bound(heads, least, 2.0, Deadline()) is least
    assert energetic_bound(heads, least, 2.0, Deadline()) is least
    assert colocation_bound(heads, least, 2.5, Deadline()).value > 2


def test_a_bound_is_below_the_time_that_is_refuted() -> None:
    """The search halves until it nearly meets the optimum of 10, which a bound that is rounded up would exceed."""
    edges = [*((0, v) for v in range(1, 5)), *((v, 5) for v in range(1, 5))]
    heads = heads_of(question(edges, [1, 2, 2, 2, 2, 1], [9, 9, 9, 9, 9, 0], k=4))
    bound = colocation_bound(heads, Bound(2.0, "heads", False), 12.0, Deadline())
    assert 9.9 < bound.value < bound.witness["horizon"] <= 10


def test_the_energetic_bound_is_for_equal_devices_alone() -> None:
    """Speeds 1 and 0.9 do works 10 and 9 in 10; as if devices were equal, an interval would refute that."""
    graph = ComputationGraph.from_edges([], [10, 9])
    instance = PlacementInstance(graph, Machines([Kind("fast", 1), Kind("slow", 1, speed=0.9)], bandwidth=1.0))
    assert Placement(instance, [0, 1]).step_time == 10
    assert [bound.value for bound in all_bounds(instance, 20)] == pytest.approx([10] * 4)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_nodes_that_share_a_device_do_so_in_the_best_placement(seed: int) -> None:
    instance = random_question(np.random.default_rng(seed), most_nodes=4)
    best = best_ordered(instance)
    shared = share_devices(heads_of(instance), best.time, Deadline())
    assert not shared.refuted
    for u, v in itertools.combinations(range(instance.graph.n), 2):
        assert shared.device[u] != shared.device[v] or best.device[u] == best.device[v]


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_trials_show_what_holds_of_the_best_placement(seed: int) -> None:
    """Who shares a device, who does not, and heads and tails, of a step as short as the optimum."""
    instance = random_question(np.random.default_rng(seed), most_nodes=4)
    best = best_ordered(instance)
    known = probe_sharing(share_devices(heads_of(instance), best.time, Deadline()), Deadline())
    assert not known.refuted
    for u, v in itertools.combinations(range(instance.graph.n), 2):
        assert known.device[u] != known.device[v] or best.device[u] == best.device[v]
        assert not known.apart[u, v] or best.device[u] != best.device[v]


def test_what_is_left_is_derived_after_trials_too() -> None:
    """In a step of 8 all nodes share a device, so that behind node 0 there are 5 of work, wherever trials began."""
    instance = question([(0, 1), (0, 2), (1, 3), (2, 3)], [3, 3, 1, 1], [1, 8, 9, 6], k=3)
    shared = probe_sharing(share_devices(heads_of(instance), 8.0, Deadline()), Deadline())
    assert len(set(shared.device.tolist())) == 1
    assert shared.heads.head.tolist() == pytest.approx([0, 3, 3, 7])
    assert shared.heads.tail.tolist() == pytest.approx([5, 1, 1, 0])


def test_trials_join_what_passes_do_not() -> None:
    """Of 24 groups of cifar10-8000 in the optimum, 0.886 of the work, passes leave 20 devices open, and trials 15."""
    graph = group_nodes(PLACEMENT_FAMILIES["cifar10"].graph(8000), 24).graph
    instance = PlacementInstance(graph, Machines.alike(4, BANDWIDTH))
    known = share_devices(heads_of(instance), 0.8861 * instance.total_work, Deadline())
    assert len(set(probe_sharing(known, Deadline()).device.tolist())) < len(set(known.device.tolist()))
