"""Placements with sequences: golden values, what FIFO runs become, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import placements

from instances import ComputationGraph, InputError
from instances.machines import Machines
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.problem import PlacementInstance

GRAPH = ComputationGraph.from_edges([(0, 2), (1, 3)], work=[3, 1, 1, 6], output_bytes=[1, 1, 0, 0])
INSTANCE = PlacementInstance(GRAPH, Machines.alike(2, 1))
DEVICE = [0, 0, 1, 1]
NODES, MOVES = [[1, 0], [3, 2]], [[(1, 1), (0, 1)], []]


def test_a_bus_that_serves_the_long_way_first() -> None:
    ordered = OrderedPlacement(INSTANCE, DEVICE, NODES, MOVES)
    assert Placement(INSTANCE, DEVICE).step_time == 11
    assert ordered.step_time == ordered.cost == 9
    assert ordered.timeline.start.tolist() == [1, 0, 8, 2]
    assert ordered.timeline.sequence == (1, 0, 3, 2)
    assert pickle.loads(pickle.dumps(ordered)).step_time == 9


def test_two_tensors_of_one_node_in_the_other_order() -> None:
    graph = ComputationGraph.from_edges([(0, 1, 0), (0, 2, 1), (2, 3, 0)], [1, 1, 2, 4], [[6, 2], [], [1], []])
    instance = PlacementInstance(graph, Machines.alike(2, 1))
    device = [0, 1, 1, 1]
    assert Placement(instance, device).step_time == 15
    first, second = graph.output_start[0], graph.output_start[0] + 1
    ordered = OrderedPlacement(instance, device, [[0], [2, 3, 1]], [[(second, 1), (first, 1)], []])
    assert ordered.step_time == 10
    assert ordered.timeline.start.tolist() == [0, 9, 3, 5]


def test_crossed_sequences_name_the_first_node_that_waits() -> None:
    graph = ComputationGraph.from_edges([(0, 1), (2, 3)], work=[1, 1, 1, 1], output_bytes=[1, 1, 1, 1])
    instance = PlacementInstance(graph, Machines.alike(2, 1))
    with pytest.raises(InputError, match=r"^deadlock: node 3 \(3\), next on device 0, waits for ever for tensor \d of"):
        OrderedPlacement(instance, [0, 1, 1, 0], [[3, 0], [1, 2]], [[(0, 1)], [(2, 0)]])


@pytest.mark.parametrize(
    ("nodes", "moves", "message"),
    [
        ([[1, 0]], MOVES, "device_order has 1 sequences for 2 devices"),
        ([[1, 0], [3]], MOVES, "node 2 .* of this device is missing"),
        ([[1, 0], [3, 3, 2]], MOVES, "node 3 .* is there twice"),
        ([[1, 0, 3], [3, 2]], MOVES, "node 3 .* is on device 1"),
        ([[1, 0, 9], [3, 2]], MOVES, "there is no node 9"),
        ([[1, 0.5], [3, 2]], MOVES, "must be lists of whole numbers"),
        ([[1, None], [3, 2]], MOVES, "must be lists of whole numbers"),
        (NODES, [[(1, 1), (0, 1)]], "bus_order has 1 sequences for 2 devices"),
        (NODES, [[(1, 1)], []], "tensor 0 to device 1 is missing"),
        (NODES, [[(1, 1), (0, 1), (0, 1)], []], "tensor 0 to device 1 is there twice"),
        (NODES, [[(1, 1), (0, 1)], [(1, 0)]], "tensor 1 to device 0 is not a transfer that the devices require"),
        (NODES, [[(1, 1), (0, 1), ()], []], "is not a transfer"),
        (NODES, [[(1, 1), (0, 1)], 3], "must be lists of whole numbers"),
    ],
)
def test_what_is_no_order_is_refused(nodes: Any, moves: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        OrderedPlacement(INSTANCE, DEVICE, nodes, moves)


@given(placements())
def test_a_run_first_come_first_served_is_an_order_with_the_same_times(placement: Placement) -> None:
    ordered = OrderedPlacement.of(placement)
    assert np.array_equal(ordered.timeline.start, placement.timeline.start)
    assert np.array_equal(ordered.timeline.end, placement.timeline.end)
    assert np.array_equal(ordered.peak_memory, placement.peak_memory)
    assert {t[:3] for t in ordered.timeline.transfers} == {
        (t.tensor, t.source, tuple(sorted(t.targets))) for t in placement.timeline.transfers
    }


@given(placements(), st.randoms())
def test_any_order_is_refused_or_keeps_the_definition(placement: Placement, random: Any) -> None:
    """Shuffled sequences: starts are as early as the sequences allow, and nothing starts before what it waits for."""
    instance, base = placement.instance, OrderedPlacement.of(placement)
    nodes, moves = [list(row) for row in base.device_order], [list(row) for row in base.bus_order]
    for row in (*nodes, *moves):
        random.shuffle(row)
    try:
        ordered = OrderedPlacement(instance, placement.device, nodes, moves)
    except InputError as error:
        if not str(error).startswith("deadlock: node "):
            raise
        return
    timeline, producer = ordered.timeline, instance.graph.tensors.producer
    arrival = {(t.tensor, target): t.end for t in timeline.transfers for target in t.targets}
    first, read = instance.graph.inputs
    for d, row in enumerate(ordered.device_order):
        free = 0.0
        for v in row:
            inputs = read[first[v] : first[v + 1]].tolist()
            arrivals = [arrival.get((t, d), timeline.end[producer[t]]) for t in inputs]
            assert timeline.start[v] == max([free, *arrivals])
            work = instance.node_time(v, d)
            assert timeline.end[v] == timeline.start[v] + work
            free = timeline.end[v] + (instance.node_gap if work > 0 else 0)
    for d, bus in enumerate(ordered.bus_order):
        free = 0.0
        when = {(t.tensor, *t.targets): t for t in timeline.transfers if t.source == d}
        for move in bus:
            assert when[move].start == max(free, timeline.end[producer[move[0]]])
            free = when[move].end + instance.transfer_gap
