"""What questions and answers show of themselves: one line, small tables, nothing that a name could smuggle in."""

from __future__ import annotations

import math

import numpy as np
import pytest

from instances import ComputationGraph, Instance, Partition, Platform
from instances.graph.display import Displayed
from instances.machines import Machines
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.planning import Cluster, LayerChain, Plan, TrainingInstance

EVIL = "<script>alert('x')</script>\n\x1b[2J" + "long" * 100


def shown(n: int = 4) -> list[Displayed]:
    """One of each, of a path of n nodes whose names are markup."""
    names = tuple(f"{EVIL}{v}" for v in range(n))
    edges = [(v, v + 1) for v in range(n - 1)]
    graph = ComputationGraph.from_edges(edges, np.ones(n), np.ones(n), names=names, name=EVIL, time_unit="<b>")
    instance = Instance(graph, Platform(min(n, 64), 2.0, memory=3.0, activation_buffer=1.0))
    step = PlacementInstance(graph, Machines.alike(2, math.inf, memory=5.0))
    halves = np.ones(n - 1)
    chain = LayerChain(np.ones(n), np.ones(n), halves, halves, np.ones(n), names=names, name=EVIL)
    training = TrainingInstance(chain, Cluster.of_servers([n], 1.0, name=EVIL), 2)
    plan = Plan(training, tuple(range(n + 1)), tuple((v,) for v in range(n)))
    blocks = np.arange(n) * min(n, 64) // n
    return [
        graph, graph.tensors, instance, Partition(instance, blocks), step, Placement(step, np.arange(n) % 2),
        chain, training.cluster, training, plan,
    ]  # fmt: skip


@pytest.mark.parametrize("n", [1, 4, 300])
def test_everything_is_shown_in_one_line_and_in_small_tables(n: int) -> None:
    for value in shown(n):
        line, table = repr(value), value._repr_html_()
        assert line.startswith(f"<{type(value).__name__}")
        assert line.isprintable()
        assert len(line) < 500
        assert "array(" not in line
        assert "<script" not in table
        assert "<b>" not in table
        assert table.isprintable()
        assert table.count("<tr>") <= 30
        assert len(table) < 20_000


def test_the_parts_of_a_partition_are_its_blocks() -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [2, 3], [4, 0], name="pair")
    partition = Partition(Instance(graph, Platform(2, 2.0)), [0, 1])
    assert repr(graph) == "<ComputationGraph 'pair': nodes 2, edges 1, work 5 s, parameters 0 bytes>"
    assert repr(partition) == "<Partition 'pair': k 2, bottleneck 5 s, throughput 0.2 per s>"
    assert "<tr><td>1</td><td>1</td><td>5</td><td>2</td><td>3</td><td>0</td><td>0</td></tr>" in partition._repr_html_()


def test_the_key_of_a_question_is_what_it_was() -> None:
    """It is made of a text of the platform that does not change with new fields."""
    assert Platform(2, 1.0).key == "Platform(k=2, bandwidth=1.0, memory=inf, activation_buffer=None)"
