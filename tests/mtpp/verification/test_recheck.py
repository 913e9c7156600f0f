"""The second opinions agree with the cost, with brute force and with the definition of a partition."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import pytest
from brute_force import best_partition
from certificates import least_cost, work_bound
from exact import exact_costs, exact_optimum, modelled, needed_optimum
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import instances, orders, partitions

from instances import ComputationGraph, InputError, Instance, Partition, Platform
from mtpp.verification.partitioning.costs import bottleneck, find_fault
from mtpp.verification.partitioning.cuts import block_bound
from mtpp.verification.partitioning.exact_instance import ExactInstance, KindQuestion, Output, Scale
from mtpp.verification.partitioning.ideals import ideals_bound, merge
from mtpp.verification.verdict import Clock, OutOfTimeError, UndecidedError
from mtpp_models import simple


@settings(max_examples=500)
@given(partitions())
def test_second_costs_are_the_definition(partition: Partition) -> None:
    """To the last digit, overflow with true peaks and with buffers included."""
    exact = ExactInstance.of(partition.instance)
    block, order = partition.block.tolist(), partition.order.tolist()
    assert find_fault(exact, block, order) is None
    assert bottleneck(exact, block, order, [0] * exact.k) == max(exact_costs(partition))


@settings(max_examples=500)
@given(partitions())
def test_both_costs_agree(partition: Partition) -> None:
    """Two programs, one cost, to the digits that sums of floats have."""
    exact = ExactInstance.of(partition.instance)
    slow = bottleneck(exact, partition.block.tolist(), partition.order.tolist(), [0] * exact.k)
    assert partition.bottleneck == pytest.approx(float(slow), rel=1e-12)


@given(st.data())
def test_faults_are_those_that_a_partition_refuses(data: st.DataObject) -> None:
    """Random blocks and orders, most of them infeasible."""
    instance = data.draw(instances(max_nodes=4))
    n = instance.graph.n
    block = data.draw(st.lists(st.integers(-1, instance.k), min_size=n - 1, max_size=n + 1))
    order = data.draw(st.one_of(orders(instance.graph), st.lists(st.integers(0, n), min_size=n, max_size=n)))
    try:
        Partition(instance, block, order)
        refused = False
    except InputError:
        refused = True
    assert (find_fault(ExactInstance.of(instance), block, order) is not None) == refused


@given(instances(max_nodes=5, max_k=3))
def test_work_bound_is_simple(instance: Instance) -> None:
    """Overflow may add to it; peaks of any order are in it."""
    assert simple(instance) * (1 - 1e-12) <= work_bound(instance)
    assert ExactInstance.of(instance).kinds[0].work_bound <= exact_optimum(instance)
    if not instance.has_overflow:
        assert work_bound(instance) == pytest.approx(simple(instance), rel=1e-12)


def cut_cost(instance: Instance, nodes: set[int]) -> float:
    """Work and cuts of any node set, eq. (3) without overflow."""
    graph, start = instance.graph, instance.graph.tensors.start
    terms = [float(graph.work[v]) for v in nodes]
    for t, producer in enumerate(graph.tensors.producer.tolist()):
        readers = set(graph.tensors.consumers[start[t] : start[t + 1]].tolist())
        if (readers - nodes) if producer in nodes else (readers & nodes):
            terms.append(float(instance.tensor_time[t]))
    return math.fsum(terms)


def least_overflow(instance: Instance, nodes: set[int]) -> float:
    """Of parameters and the largest need of a node, or the buffer."""
    graph, platform = instance.graph, instance.platform
    if not instance.has_overflow:
        return 0.0
    held = [float(graph.held_bytes[v]) for v in nodes] + [p.bytes for p in graph.parameters if set(p.users) & nodes]
    peak = max(float(instance.needs[v]) for v in nodes)
    held += [platform.activation_buffer if platform.activation_buffer is not None else peak, -platform.memory]
    return max(0.0, math.fsum(held)) / platform.bandwidth


def supersets(instance: Instance, pins: set[int]) -> list[set[int]]:
    """All node sets that hold the pins."""
    rest = sorted(set(range(instance.graph.n)) - pins)
    return [pins | set(more) for size in range(len(rest) + 1) for more in combinations(rest, size)]


def is_convex(instance: Instance, nodes: set[int]) -> bool:
    """Whether no path leaves the set and comes back."""
    left: set[int] = set()
    for u in instance.graph.topological_order.tolist():
        before = {p for p, v in instance.graph.edges.tolist() if v == u}
        if before & left or (before & nodes and u not in nodes):
            if u in nodes:
                return False
            left.add(u)
    return True


@settings(max_examples=300)
@given(instances(), st.data())
def test_minimum_cuts_are_as_brute_force(instance: Instance, data: st.DataObject) -> None:
    """Never above the cheapest convex set, and never below the cheapest of all sets."""
    pins = data.draw(st.sets(st.integers(0, instance.graph.n - 1), min_size=1, max_size=3))
    sets = supersets(instance, pins)
    convex = min(
        cut_cost(instance, nodes) + least_overflow(instance, nodes) for nodes in sets if is_convex(instance, nodes)
    )
    found = least_cost(instance, sorted(pins), 2 * convex)
    assert found <= convex * (1 + 1e-9)
    assert found >= min(cut_cost(instance, nodes) for nodes in sets) * (1 - 1e-9)


def test_a_minimum_cut_knows_that_blocks_are_convex() -> None:
    """Ends of a path come with its middle; a set with a gap would be cheaper."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [1.0, 5.0, 1.0], [0.5, 0.5, 0.0])
    instance = Instance(graph, Platform(2, 1.0))
    assert least_cost(instance, [0, 2], 100.0) == pytest.approx(7.0, rel=1e-9)
    assert least_cost(instance, [0], 100.0) == pytest.approx(1.5, rel=1e-9)


def test_digits_of_a_minimum_cut_are_not_lost_in_large_graphs() -> None:
    """Capacities with 32 bits would round a small cut beside 10^9 times larger ones to nothing."""
    n = 300
    edges = [(v, v + 1) for v in range(n - 1)]
    graph = ComputationGraph.from_edges(edges, [1.0, *[1e9] * (n - 1)], [1 / 3, *[1e9] * (n - 1)])
    assert least_cost(Instance(graph, Platform(2, 1.0)), [0], 2.0) == pytest.approx(4 / 3, rel=1e-9)


def proved(instance: Instance, value: float | Fraction) -> Fraction | None:
    return ideals_bound(ExactInstance.of(instance).kinds[0], Fraction(value), Clock(60.0))


@settings(max_examples=300)
@given(instances(max_nodes=5, max_k=3))
def test_chains_of_ideals_are_as_brute_force(instance: Instance) -> None:
    """No chain is below the optimum, and one is just above it; numbers of any size, memory of any kind."""
    optimum = needed_optimum(instance)
    assume(optimum is not None and optimum > 0)
    assert optimum is not None
    try:
        found = proved(instance, optimum)
        above = proved(instance, optimum * (1 + Fraction(1, 10**6)))
    except UndecidedError:
        return
    assert found is not None
    assert found <= optimum
    assert above is None or above <= optimum


@settings(max_examples=300)
@given(instances(max_nodes=5, max_k=3), st.integers(0, 31))
def test_merging_leaves_the_optimum(instance: Instance, idle: int) -> None:
    """Nodes without work join others only where that costs nothing, with finite memory too."""
    graph = instance.graph
    work = [0.0 if idle >> v & 1 else float(w) for v, w in enumerate(graph.work)]
    graph = ComputationGraph(work, graph.param_bytes, graph.tensors, parameters=graph.parameters)
    instance = modelled(Instance(graph, instance.platform))
    exact = ExactInstance.of(instance)
    merged, _ = merge(exact.kinds[0], Clock(60.0))
    assert merged.n <= exact.n
    assert brute_force(as_instance(merged, exact)) == brute_force(exact) == exact_optimum(instance)


def as_instance(merged: KindQuestion, exact: ExactInstance) -> ExactInstance:
    """The question of merged nodes, whose bytes count as the time to move them if that takes any."""
    pace = 1 if exact.scales[0].bytes else 0
    return replace(
        exact,
        n=merged.n,
        work=[merged.work],
        tensors=[Output(producer, readers, size) for producer, readers, _, size in merged.tensors],
        params=merged.params,
        shared=merged.shared,
        need=merged.need,
        memory=[merged.memory],
        buffer=merged.buffer,
        scales=[Scale(1, pace, merged.unit)],
        sending=[[pace * merged.unit]],
        receiving=[[pace * merged.unit]],
    )


def brute_force(exact: ExactInstance) -> Fraction:
    order = topological(exact)
    blocks = product(range(exact.k), repeat=exact.n)
    return min(bottleneck(exact, b, order, [0] * exact.k) for b in blocks if find_fault(exact, b, order) is None)


def topological(exact: ExactInstance) -> list[int]:
    order: list[int] = []
    while len(order) < exact.n:
        order += [v for v in range(exact.n) if v not in order and set(exact.before[v]) <= set(order)][:1]
    return order


def test_without_a_buffer_a_peak_is_what_one_node_needs() -> None:
    """What is proved holds for every order: a tensor of 4 bytes is live when either of its ends runs."""
    graph = ComputationGraph.from_edges([(0, 1)], [1.0, 1.0], [4.0, 0.0], [1.0, 1.0])
    instance = Instance(graph, Platform(1, 1.0, memory=1.0))
    assert best_partition(instance).bottleneck == 7  # work 2, parameters 2 and a peak of 4 in a memory of 1
    assert proved(instance, 7.01) is None
    assert proved(instance, 7.0) == pytest.approx(7.0, rel=1e-11)


def test_too_many_ideals_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent nodes have 2^n ideals; the table has the size that a check may take."""
    monkeypatch.setattr("mtpp.verification.partitioning.ideals._TABLE", 2**20)
    graph = ComputationGraph.from_edges([], [1.0 + 0.01 * v for v in range(30)])
    with pytest.raises(UndecidedError, match="there are more than 16384 ideals"):
        proved(Instance(graph, Platform(5, 1.0)), 7.0)


@pytest.mark.parametrize(("work", "k", "value"), [([1.0] * 30, 3, 9.9), ([9.0] + [1.0] * 29, 5, 8.9)])
def test_an_even_share_and_a_large_node_are_proved_without_ideals(
    work: list[float], k: int, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which there are too many."""
    monkeypatch.setattr("mtpp.verification.partitioning.ideals._TABLE", 2**20)
    assert proved(Instance(ComputationGraph.from_edges([], work), Platform(k, 1.0)), value) is not None


def test_bug_a_tiny_claim_beside_a_large_memory_overflowed() -> None:
    """The overflow says nothing where the claim has no digits beside it; the work does."""
    graph = ComputationGraph.from_edges([(0, 1)], [1.0, 1.0], [4.0, 0.0], [1e9, 1e9])
    exact = ExactInstance.of(Instance(graph, Platform(2, 1.0, memory=1e9))).kinds[0]
    for value in (Fraction(1, 10**300), Fraction(1, 10**9)):
        assert block_bound(exact, value, [[0]], Clock(60.0)).least == value


def test_a_second_opinion_ends_when_its_time_is_up() -> None:
    """However wide the graph is, and however many pairs of nodes a bound names."""
    graph = ComputationGraph.from_edges([], [1.0] * 300)
    exact = ExactInstance.of(Instance(graph, Platform(15, 1.0))).kinds[0]
    with pytest.raises(OutOfTimeError):
        ideals_bound(exact, Fraction(30), Clock(0.2))
    with pytest.raises(OutOfTimeError):
        block_bound(exact, Fraction(2), [[0, 1]], Clock(0.0))
