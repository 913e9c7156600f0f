"""m-TOPO, m-ETF and m-SCT on graphs that can be worked out by hand."""

from __future__ import annotations

import numpy as np

from heuristics.placement.rivals import ListSchedule, favourite_children, m_etf, m_sct, m_topo
from instances import ComputationGraph
from instances.machines import Machines
from instances.placement.problem import PlacementInstance

RNG = np.random.default_rng(0)


def test_m_topo_fills_one_device_after_the_other() -> None:
    """Twelve bytes in all, at most four a node: ten fit on the first device."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], [1] * 4, [4, 4, 2, 2])
    assert m_topo(PlacementInstance(graph, Machines.alike(2, 1.0)), RNG).device.tolist() == [0, 0, 0, 1]
    assert m_topo(PlacementInstance(graph, Machines.alike(2, 1.0, memory=8.0)), RNG).device.tolist() == [0, 0, 1, 1]
    assert m_topo(PlacementInstance(graph, Machines.alike(2, 1.0, memory=4.0)), RNG).device.tolist() == [0, 1, 0, 1]


def test_m_etf_starts_what_can_start_first() -> None:
    """Nodes 1 and 2 are ready together; the one that is placed second waits less for a transfer than for the first."""
    graph = ComputationGraph.from_edges([(0, 1), (0, 2)], [1, 5, 5], [2, 0, 0])
    placement = m_etf(PlacementInstance(graph, Machines.alike(2, 1.0)), RNG)
    assert placement.device.tolist() == [0, 0, 1]
    assert placement.step_time == 8
    slow = m_etf(PlacementInstance(graph, Machines.alike(2, 0.1)), RNG)
    assert slow.device.tolist() == [0, 0, 0]


def test_nodes_without_work_let_a_device_not_rest() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [0, 1], [0, 0])
    schedule = ListSchedule(PlacementInstance(graph, Machines.alike(1, 1.0), node_gap=2.0))
    schedule.place(0, 0)
    assert schedule.span(1, 0) == (0, 1)
    schedule.place(1, 0)
    assert schedule.device_free == [3]


def test_m_etf_keeps_within_the_memory() -> None:
    graph = ComputationGraph.from_edges([], [1, 1, 1, 1], param_bytes=[3, 3, 3, 3])
    placement = m_etf(PlacementInstance(graph, Machines.alike(4, 1.0, memory=6.0)), RNG)
    assert placement.fits
    assert m_etf(PlacementInstance(graph, Machines.alike(2, 1.0, memory=2.0)), RNG).fits is False


def test_favourite_children_are_those_whose_data_are_late() -> None:
    """Of two children the longer way has the favourite one; each has one parent that it is the favourite of."""
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (2, 3), (1, 3)], [1, 1, 6, 1], [1, 1, 1, 0])
    favourite = favourite_children(PlacementInstance(graph, Machines.alike(2, 1.0)))
    assert favourite == {0: 2, 2: 3}


def test_m_sct_lets_a_device_wait_for_a_favourite_child() -> None:
    """A chain keeps its device; what is beside it goes to the other one."""
    edges = [(0, 2), (2, 4), (4, 6), (1, 3), (3, 5), (5, 7), (0, 3)]
    graph = ComputationGraph.from_edges(edges, [2] * 8, [4] * 8)
    placement = m_sct(PlacementInstance(graph, Machines.alike(2, 1.0)), RNG)
    assert len({int(placement.device[v]) for v in (0, 2, 4, 6)}) == 1
    assert sorted(placement.device.tolist()) != [0] * 8
