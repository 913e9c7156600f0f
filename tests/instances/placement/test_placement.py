"""Placements: the golden values, what every timeline obeys, and the compiled simulator against the definition."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import placements

from heuristics.placement.simulator import (
    SimulatorArrays,
    peak_memory,
    penalised,
    penalised_times,
    simulate,
    step_times,
    workspace,
)
from instances import ComputationGraph, InputError, Instance, Partition, Platform, SharedParameter
from instances.machines import Machines
from instances.placement.placement import Placement
from instances.placement.problem import MEASURED_GAPS, PlacementInstance

EXACT = pytest.approx


def placed(
    edges: list[tuple[int, int]], work: list[float], sizes: list[float], device: list[int], **options: Any
) -> Placement:
    graph = ComputationGraph.from_edges(edges, work, sizes)
    return Placement(question(graph, **{"count": max(device) + 1, "bandwidth": 3.0} | options), device)


def question(graph: ComputationGraph, count: int = 2, bandwidth: float = 1.0, **options: Any) -> PlacementInstance:
    machines = Machines.alike(count, bandwidth, options.pop("memory", math.inf))
    return PlacementInstance(graph, machines, **options)


CHAIN = ([(0, 1), (1, 2)], [2, 3, 4], [6, 6, 0])
FAN = ([(0, 1), (0, 2), (0, 3)], [1, 2, 3, 4], [3, 0, 0, 0])
DIAMOND = ([(0, 1), (0, 2), (1, 3), (2, 3)], [1, 2, 2, 1], [3, 3, 3, 0])


@pytest.mark.parametrize(
    ("graph", "device", "options", "expected"),
    [
        (CHAIN, [0, 0, 0], {}, 9.0),
        (CHAIN, [0, 1, 0], {}, 13.0),
        (CHAIN, [0, 1, 0], {"node_gap": 1.0}, 13.0),  # the device rests while the tensor is on its way
        (CHAIN, [0, 0, 0], {"node_gap": 1.0}, 11.0),  # no rest after the last node
        (FAN, [0, 1, 1, 2], {"transfer_gap": 0.5}, 7.5),
        (FAN, [0, 1, 1, 2], {"transfer_gap": 0.5, "broadcast": True}, 7.0),
        (DIAMOND, [0, 0, 1, 0], {}, 6.0),
        (([(0, 2), (1, 3)], [1, 2, 5, 1], [1, 1, 0, 0]), [0, 1, 2, 2], {"bandwidth": 1.0}, 8.0),
        (FAN, [0, 1, 2, 3], {"bandwidth": math.inf}, 5.0),
    ],
)
def test_golden_step_times(graph: Any, device: list[int], options: dict[str, Any], expected: float) -> None:
    """Values worked out by hand; the simulator gives the same."""
    placement = placed(*graph, device, **options)
    assert placement.step_time == expected
    assert step_times(placement.instance, device) == expected


def test_golden_starts() -> None:
    """There and back again: the tensors take two units each."""
    assert placed(*CHAIN, [0, 1, 0]).timeline.start.tolist() == [0.0, 4.0, 9.0]


def test_ready_first_is_served_first() -> None:
    """Among nodes that are ready at once the topological order decides, in whatever order they became so."""
    late, early = placed([(0, 2), (1, 3)], [1, 2, 5, 1], [1, 1, 0, 0], [0, 1, 2, 2]), placed([], [3, 1], [0, 0], [0, 0])
    assert late.timeline.start[2] < late.timeline.start[3]
    assert early.timeline.start.tolist() == [0.0, 3.0]


def test_bug_ties_of_nodes_without_work() -> None:
    """Node 4 has no work: what it makes ready in no time comes after what was ready already."""
    work, sizes = [2, 1, 1, 1, 0], [1, 0, 2, 1, 0]
    placement = placed([(4, 1), (1, 3), (2, 3)], work, sizes, [0, 0, 0, 1, 1], bandwidth=1.0)
    assert placement.step_time == step_times(placement.instance, placement.device) == 6


def test_control_dependencies_wait_for_the_bus() -> None:
    """A tensor without bytes queues like any other."""
    placement = placed([(0, 1), (0, 2)], [1, 1, 1], [0, 0, 0], [0, 1, 2], transfer_gap=2.0)
    assert placement.timeline.start.tolist() == [0.0, 1.0, 3.0]


def test_golden_peak_memory() -> None:
    """Nine bytes leave device 0 at 1 and stay there until 4; the copy is on device 1 from 1 to 6."""
    placement = placed([(0, 1), (0, 2)], [1, 2, 2], [9, 4, 2], [0, 1, 0])
    assert placement.timeline.end.tolist() == [1.0, 6.0, 3.0]
    # The output of node 2 is held while it runs, from 1 to 3; that of node 1 from 4 to 6.
    assert placement.peak_memory.tolist() == [11.0, 13.0]
    assert placed([(0, 1), (0, 2)], [1, 2, 2], [9, 4, 2], [0, 0, 0], count=2).peak_memory.tolist() == [13.0, 0.0]


def test_what_ends_makes_room_for_what_begins() -> None:
    """In a chain of three, the first tensor is gone when the third begins."""
    assert placed([(0, 1), (1, 2)], [1, 1, 1], [5, 7, 6], [0, 0, 0]).peak_memory.tolist() == [13.0]


def test_shared_parameters_count_once_a_device() -> None:
    graph = ComputationGraph.from_edges(
        [], [1, 1, 1], param_bytes=[1, 2, 4], parameters=(SharedParameter("p", 8, (0, 1, 2)),)
    )
    assert Placement(PlacementInstance(graph, Machines.alike(3, 1.0)), [0, 0, 1]).param_bytes.tolist() == [
        11.0,
        12.0,
        0.0,
    ]


def test_penalty() -> None:
    """Twice the memory costs two steps on one device."""
    placement = placed([], [1, 1], [4, 4], [0, 0], count=2, memory=2.0)
    assert not placement.fits
    assert placement.penalised_time == 1.0 + 2.0 * (4.0 / 2.0 - 1.0)
    assert placed([], [1, 1], [4, 4], [0, 1], count=2, memory=4.0).penalised_time == 0.5


@settings(max_examples=60)
@given(placements())
def test_timelines_obey_the_rules(placement: Placement) -> None:
    """Inputs first, one node a device and one transfer a bus at a time, no transfer twice or in vain."""
    instance, graph, device, line = placement.instance, placement.instance.graph, placement.device, placement.timeline
    there = {(t, int(device[u])): line.end[u] for t, u in enumerate(graph.tensors.producer)}
    for transfer in line.transfers:
        assert transfer.start >= there[transfer.tensor, transfer.source]
        assert transfer.end == transfer.start + instance.transfer_time(*transfer[:3])
        there |= {(transfer.tensor, target): transfer.end for target in transfer.targets}
    pairs = zip(graph.edge_tensor.tolist(), device[graph.edges[:, 1]].tolist(), strict=True)
    needed = {(t, d) for t, d in pairs if d != device[graph.tensors.producer[t]]}
    assert Counter((x.tensor, d) for x in line.transfers for d in x.targets) == Counter(needed)
    for (_, v), t in zip(graph.edges, graph.edge_tensor, strict=True):
        assert line.start[v] >= there[t, int(device[v])]
    for d in range(instance.devices):
        gaps = np.where(graph.work > 0, instance.node_gap, 0.0)
        apart([(line.start[v], line.end[v], gaps[v]) for v in np.flatnonzero(device == d)])
        apart([(x.start, x.end, instance.transfer_gap) for x in line.transfers if x.source == d])
    assert placement.step_time >= instance.lower_bound


def apart(boxes: list[tuple[float, float, float]]) -> None:
    """Boxes (start, end, rest) in the order of time do not overlap."""
    boxes = sorted(boxes)
    assert all(end + rest <= start for (_, end, rest), (start, *_) in pairwise(boxes))


@settings(max_examples=60)
@given(placements(is_symmetric=True), st.randoms(use_true_random=False))
def test_names_of_devices_do_not_matter(placement: Placement, random: Any) -> None:
    names = list(range(placement.instance.devices))
    random.shuffle(names)
    other = Placement(placement.instance, [names[d] for d in placement.device])
    assert other.timeline.start.tolist() == placement.timeline.start.tolist()
    assert other.peak_memory[names].tolist() == EXACT(placement.peak_memory.tolist())


@settings(max_examples=60)
@given(placements(max_nodes=6))
def test_peak_memory_by_looking_at_every_instant(placement: Placement) -> None:
    """At the start of each node and transfer, add up what is there."""
    instance, graph, line = placement.instance, placement.instance.graph, placement.timeline
    tensors, device = graph.tensors, placement.device
    stays = []
    for t, u in enumerate(tensors.producer):
        readers = tensors.consumers[tensors.start[t] : tensors.start[t + 1]]
        moves = [x for x in line.transfers if x.tensor == t]
        local = [line.end[v] for v in readers if device[v] == device[u]]
        stays.append((device[u], line.start[u], max([line.end[u], *local, *(x.end for x in moves)]), tensors.bytes[t]))
        for move in moves:
            for d in move.targets:
                stays.append((d, move.start, max(line.end[v] for v in readers if device[v] == d), tensors.bytes[t]))
    instants = [*line.start, *(x.start for x in line.transfers)]
    for d in range(instance.devices):
        peak = max(sum(size for place, a, b, size in stays if place == d and a <= now < b) for now in instants)
        assert placement.peak_memory[d] == EXACT(placement.param_bytes[d] + placement.state_bytes[d] + peak)


@settings(max_examples=60)
@given(placements())
def test_simulator_agrees_with_the_definition(placement: Placement) -> None:
    check_simulator(placement)


def test_simulator_agrees_on_a_thousand_random_placements() -> None:
    """Up to 25 nodes, with many ties in half of them."""
    rng = np.random.default_rng(0)
    for number in range(1000):
        check_simulator(random_placement(rng, ties=number % 2 == 0))


def random_placement(rng: np.random.Generator, ties: bool) -> Placement:
    n, k = int(rng.integers(2, 26)), int(rng.integers(1, 6))

    def draw(count: int) -> Any:
        return rng.integers(0, 4, count).astype(float) if ties else rng.random(count) * (rng.random(count) < 0.8)

    sizes = [draw(int(rng.integers(0, 3))).tolist() for _ in range(n)]
    edges = [
        (u, v, output)
        for u in range(n)
        for v in range(u + 1, n)
        for output in range(len(sizes[u]))
        if rng.random() < 3 / n
    ]
    index = rng.permutation(n)
    graph = ComputationGraph.from_edges(
        [(index[u], index[v], output) for u, v, output in edges],
        1e-3 + draw(n),
        [sizes[u] for u in np.argsort(index)],
        draw(n),
        parameters=(SharedParameter("p", 2.0, tuple(rng.integers(0, n, 3).tolist())),),
    )
    gaps = rng.choice((0.0, 0.5), 2).tolist()
    machines = Machines.alike(k, float(rng.integers(1, 4)), float(rng.integers(4, 40)))
    instance = PlacementInstance(graph, machines, *gaps, bool(rng.integers(2)))
    return Placement(instance, rng.integers(k, size=n))


def check_simulator(placement: Placement) -> None:
    """Equal to the last bit in time, up to rounding in memory."""
    arrays = SimulatorArrays.of(placement.instance)
    space, device = workspace(arrays), placement.device.copy()  # as searches have it, not read-only, another type
    assert simulate(arrays, device, space) == placement.step_time
    assert space.start.tolist() == placement.timeline.start.tolist()
    assert space.end.tolist() == placement.timeline.end.tolist()
    for transfer in placement.timeline.transfers:
        for d in transfer.targets:
            assert space.sent[transfer.tensor, d] == transfer.start
            assert space.arrived[transfer.tensor, d] == transfer.end
    peak_memory(arrays, device, space)
    assert space.peak.tolist() == EXACT(placement.peak_memory.tolist())
    assert penalised(arrays, device, space) == EXACT(placement.penalised_time)


def test_many_placements_at_once() -> None:
    """A simulation leaves nothing behind for the next one; the shape is that of the placements."""
    rng = np.random.default_rng(1)
    instance = random_placement(rng, ties=False).instance
    rows = rng.integers(instance.devices, size=(3, 4, instance.graph.n))
    expected = [[Placement(instance, device) for device in row] for row in rows]
    assert step_times(instance, rows).tolist() == [[p.step_time for p in row] for row in expected]
    for values, row in zip(penalised_times(instance, rows), expected, strict=True):
        assert values.tolist() == EXACT([p.penalised_time for p in row])


def test_bug_a_placement_behind_a_partition_of_its_graph_compiled_for_half_a_minute() -> None:
    """The partition had made the graph's order read-only, for numba an array of another type."""
    instance = random_placement(np.random.default_rng(1), ties=False).instance
    before = SimulatorArrays.of(instance)
    Partition(Instance(instance.graph, Platform(1, 1.0)), [0] * instance.graph.n)
    for first, second in zip(before, SimulatorArrays.of(instance), strict=True):
        assert numba.typeof(first) == numba.typeof(second)


def test_measured_gaps_are_options() -> None:
    """One rest of the device between two nodes."""
    graph = ComputationGraph.from_edges([(0, 1)], [1e-3, 1e-3])
    assert Placement(PlacementInstance(graph, Machines.alike(1, 1.0), **MEASURED_GAPS), [0, 0]).step_time == EXACT(
        2e-3 + 5.7e-6
    )


def test_lower_bound() -> None:
    """The longest path, or an even share."""
    assert placed(*FAN, [0, 0, 0, 0], count=4).instance.lower_bound == EXACT(5.0)
    assert placed(*FAN, [0, 0, 0, 0]).instance.lower_bound == EXACT(10.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"count": 0}, "count is 0"),
        ({"count": 5000}, "more than 4096 devices"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"bandwidth": math.nan}, "bandwidth"),
        ({"memory": 0.0}, "memory is 0"),
        ({"memory": math.nan}, "memory"),
        ({"node_gap": -1.0}, "node_gap"),
        ({"transfer_gap": math.inf}, "transfer_gap"),
    ],
)
def test_bad_questions_are_refused(changes: dict[str, Any], words: str) -> None:
    graph = ComputationGraph.from_edges([], [1.0])
    with pytest.raises(InputError, match=words):
        question(graph, **changes)


def test_a_graph_without_work_is_refused() -> None:
    with pytest.raises(InputError, match="no node has work"):
        PlacementInstance(ComputationGraph.from_edges([], [0.0]), Machines.alike(2, 1.0))


@pytest.mark.parametrize("device", [[0], [0, 2], [0, -1], [0, 0.5], [0, None], [[0, 1]], 3, "01"])
def test_bad_answers_are_refused(device: Any) -> None:
    instance = PlacementInstance(ComputationGraph.from_edges([], [1.0, 1.0]), Machines.alike(2, 1.0))
    with pytest.raises(InputError):
        Placement(instance, device)


def test_placements_survive_pickling_and_stay_read_only() -> None:
    again = pickle.loads(pickle.dumps(placed(*DIAMOND, [0, 0, 1, 0])))
    assert again.step_time == 6.0
    with pytest.raises(ValueError, match="read-only"):
        again.device[0] = 1
