"""Bounds by what blocks hold up to each node of a path, against all partitions, and their check."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction

import pytest
from extremes import build
from subset_oracle import Case, numbers, optimum

from instances import ComputationGraph, Instance, Partition, Platform, Result, SharedParameter
from instances.deadline import Deadline
from instances.json_files import Value
from instances.machines import Kind, Machines
from mtpp.problems.checking import certificate_document, verify
from mtpp.runs.hunting import partitions as all_partitions
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.levels import MOST, holds_by_levels
from mtpp.verification.verdict import Clock
from mtpp_models import solve
from mtpp_models.bounds.levels import levels
from mtpp_models.simple import one_block

_ROUNDING = Fraction(1, 10**9)


def training(layers: int, weight: float, saved: float, memory: float, k: int = 2, tied: float = 0.0) -> Instance:
    """A chain of layers and their gradients: each pair shares a weight and passes an activation that is saved."""
    n = 2 * layers
    edges = [(v, v + 1, 0) for v in range(n - 1)] + [(v, n - 1 - v, 1) for v in range(layers - 1)]
    shared = [SharedParameter(f"w{v}", weight, (v, n - 1 - v)) for v in range(layers)]
    shared += [SharedParameter("tied", tied, (0, layers - 1))] if tied else []
    sizes = [[0.0, saved] if v < layers - 1 else [0.0] for v in range(n)]
    graph = ComputationGraph.from_edges(edges, [1.0] * n, sizes, parameters=tuple(shared))
    return Instance(graph, Platform(k, 1.0, memory=memory))


def drawn(r: random.Random) -> Case:
    """A small question of memory that binds: half of them are layers with their gradients."""
    half, wild = r.randint(1, 3), r.random() < 0.3
    mirrored = r.random() < 0.6
    n = 2 * half + r.randint(0, 1) if mirrored else r.randint(2, 6)

    def size() -> float:
        return 10.0 ** r.uniform(-3, 3) if wild else float(r.randint(0, 9))

    density, tensors, shared = r.random() / (4 if mirrored else 1), [], []
    for u in range(n):
        readers = {v for v in range(u + 1, n) if r.random() < density}
        if mirrored:
            readers |= {v for v in (u + 1, n - 1 - u) if u < v < n}
        tensors += [(u, size(), sorted(readers))] if r.random() < 0.6 else [(u, size(), [v]) for v in sorted(readers)]
        if mirrored and u < half:
            shared.append((size(), [u, n - 1 - u]))
    shared += [(size(), sorted(r.sample(range(n), r.randint(2, min(4, n))))) for _ in range(r.randint(0, 2))]
    params = [size() if r.random() < 0.5 else 0.0 for _ in range(n)]
    k, live, fit = r.randint(2, 4), sum(x for _, x, _ in tensors), r.random() < 0.4
    held = sum(params) + sum(x for x, _ in shared)
    memory = (held + live) * r.uniform(0, 1) * r.choice((1, 0.5, 0.1)) / k
    if fit:
        memory = r.choice((held * r.uniform(0.9, 1.6) / k, held * r.uniform(0.5, 1))) + live * r.uniform(0.3, 1)
    buffer = r.choice((0.0, memory * r.random(), size())) if r.random() < 0.3 else None
    work = [size() * r.choice((0, 0.1, 1)) for _ in range(n)]
    return Case(work, params, tensors, shared, k, r.choice((1.0, 0.5, 3.0, 1e-3)), memory, buffer, fit)


def proved(instance: Instance, path: list[int], turn: int, value: Fraction) -> bool:
    return holds_by_levels(ExactInstance.of(instance), path, turn, value, Clock(60.0))


def random_path(instance: Instance, r: random.Random) -> list[int]:
    """Some nodes of a path, in its order."""
    start, after = (rows.tolist() for rows in instance.graph.successors)
    path = [r.randrange(instance.graph.n)]
    while start[path[-1]] < start[path[-1] + 1]:
        path.append(r.choice(after[start[path[-1]] : start[path[-1] + 1]]))
    return [v for v in path if r.random() < 0.8] or path


@pytest.mark.parametrize("seed", range(4))
def test_no_bound_is_above_the_optimum_and_each_is_proved_again(seed: int) -> None:
    for number in range(100):
        r = random.Random(f"{seed} {number}")
        case = drawn(r)
        instance, best = build(case), optimum(numbers(case, exact=True), orders=True)
        bound = levels(one_block(instance)).bound
        assert bound is not None
        assert best == math.inf or Fraction(bound.value) <= best * (1 + _ROUNDING)
        if bound.method == "levels":
            assert bound.optimal
            nodes, (turn,) = bound.witness["nodes"], bound.witness["turn"]
            assert proved(instance, nodes, turn, Fraction(bound.value) * (1 - _ROUNDING))
        path = random_path(instance, r)  # another path never proves what is not so
        claim = 0 if best == math.inf else best * (1 + _ROUNDING)
        assert claim == 0 or not proved(instance, path, r.choice(path), claim)


def test_what_both_passes_hold_counts_for_the_blocks_of_both() -> None:
    """Three weights of 10 and two activations of 4 in two blocks with room for 12: it is optimal."""
    instance = training(3, weight=10.0, saved=4.0, memory=12.0)
    best = min(p.bottleneck for p in all_partitions(instance))
    assert best * (1 - 1e-5) <= value_of(levels(one_block(instance))) <= best * (1 + 1e-9)


def test_a_parameter_is_held_by_each_block_with_one_of_its_users() -> None:
    """The first and the last of four layers are apart: with all between them they take 4 + 90 - 12."""
    free, tied = (training(4, weight=10.0, saved=0.0, memory=12.0, k=3, tied=x) for x in (0.0, 50.0))
    values = [value_of(levels(one_block(instance))) for instance in (free, tied)]
    assert values[0] < (4 + 40 + 2 * 50 - 24) / 2 <= values[1] * (1 + 1e-6)
    assert values[1] <= min(p.bottleneck for p in all_partitions(tied)) * (1 + 1e-9)


def test_tensors_that_turn_are_paid_for_by_the_blocks_at_their_ends() -> None:
    """Of ten activations of 10 one block of four keeps few, and each other one sends or reads its share."""
    n, edges = 20, [(v, v + 1, 0) for v in range(19)] + [(v, 19 - v, 1) for v in range(9)]
    sizes = [[0.0, 10.0] if v < 9 else [0.0] for v in range(n)]
    graph = ComputationGraph.from_edges(edges, [0.1] * n, sizes)
    instance = Instance(graph, Platform(4, 1.0, memory=12.0))
    # Of two blocks up to the turn 1 + 90 - 24, and the peak of one of them besides.
    assert value_of(levels(one_block(instance))) >= (1 + 90 + 10 - 24) / 2


def test_each_end_of_a_path_needs_its_own_memory() -> None:
    """Of two blocks each holds one of the two tensors of 20 at the ends of a chain, with what its reader sends."""
    sizes = [20.0 if v in (0, 10) else 1.0 for v in range(12)]
    edges = [(v, v + 1) for v in range(11)]
    graph = ComputationGraph.from_edges(edges, [0.1] * 12, sizes, param_bytes=[5.0] * 12)
    instance = Instance(graph, Platform(2, 1.0, memory=30.0))
    result = levels(one_block(instance))
    best = min(p.bottleneck for p in all_partitions(instance))
    assert (1.2 + 60 + 2 * 21 - 60) / 2 <= value_of(result) <= best * (1 + 1e-9)
    assert value_of(result) == pytest.approx(best, rel=1e-4)  # in a chain each front is one of its levels


@pytest.mark.parametrize("memory", [0.0, 29.0, 30.0, 1e9])
def test_any_memory_even_none_or_what_is_just_enough(memory: float) -> None:
    instance = training(3, weight=5.0, saved=2.0, memory=memory)
    best = min(partition.bottleneck for partition in all_partitions(instance))
    result = levels(one_block(instance))
    assert 0 < value_of(result) <= best * (1 + 1e-9)
    assert not verify(as_value([result])).faults


@pytest.mark.parametrize("fit", [False, True])
@pytest.mark.parametrize("memory", [18.0, 19.0])
def test_hard_limits_that_are_just_met_and_missed_by_a_byte(memory: float, *, fit: bool) -> None:
    """One block holds 3 weights of 5 and two activations of 2 at the middle, with 19 bytes."""
    instance = training(3, weight=5.0, saved=2.0, memory=memory, k=1)
    question = Instance(instance.graph, Platform(1, 1.0, memory=memory, fit=fit))
    every = [partition.bottleneck for partition in all_partitions(question)]
    assert bool(every) == (not fit or memory == 19.0)
    bound = solve(question, "levels").bound
    assert bound is not None
    assert all(bound.value <= cost * (1 + 1e-9) for cost in every)


def test_what_is_proved_by_the_deadline_is_a_bound() -> None:
    """Tensors that would be cut do not count then, and it is not the last word of the method."""
    instance = training(4, weight=10.0, saved=1.0, memory=12.0, k=3, tied=50.0)
    late, whole = levels(one_block(instance), Deadline.after(0.0)), levels(one_block(instance))
    assert late.bound is not None
    assert not late.bound.optimal
    assert 0 < value_of(late) <= value_of(whole)
    assert not verify(as_value([late])).faults


def test_memory_without_limit_proves_nothing() -> None:
    graph = training(3, 5.0, 2.0, 9.0).graph
    for platform in (Platform(2, 1.0), Platform(2, math.inf, 1.0)):
        instance = Instance(graph, platform)
        bound = levels(one_block(instance)).bound
        assert bound is not None
        assert bound.method == "simple"
        assert not proved(instance, [0, 1, 2], 1, Fraction(1, 10**9))


def test_a_fixed_buffer_is_the_peak_of_each_block_of_the_graph_without_reductions() -> None:
    """Two blocks hold 30 bytes and buffers of 3 in 2 x 10; reductions merge a part of the chain."""
    edges = [(v, v + 1) for v in range(5)]
    graph = ComputationGraph.from_edges(edges, [1.0, 0.0, 0.0, 0.0, 0.0, 1.0], [1.0] * 6, param_bytes=[5.0] * 6)
    instance = Instance(graph, Platform(2, 1.0, memory=10.0, activation_buffer=3.0))
    best = min(p.bottleneck for p in all_partitions(instance))
    result = solve(instance, "levels")
    assert (2 + 30 + 2 * (1 + 3) - 20) / 2 <= value_of(result) * (1 + 1e-5) <= best * (1 + 2e-5)
    assert not verify(as_value([result])).faults


def test_a_hard_limit_leaves_out_blocks_that_do_not_fit() -> None:
    """Of six nodes of 4 bytes at most two fit into 13 bytes with the peak of 4: three blocks hold two each."""
    edges = [(v, v + 1) for v in range(5)]
    graph = ComputationGraph.from_edges(edges, [9.0, 1.0, 1.0, 1.0, 1.0, 9.0], [2.0] * 6, param_bytes=[4.0] * 6)
    soft, hard = (Instance(graph, Platform(3, 1e3, memory=13.0, fit=fit)) for fit in (False, True))
    start = Partition(hard, [0, 0, 1, 1, 2, 2])
    assert value_of(levels(start.under(soft))) < value_of(levels(start)) == pytest.approx(start.bottleneck, rel=1e-4)
    assert not verify(as_value([solve(hard, "levels", start=start)])).faults


def test_needs_and_groups_pass_no_tensors() -> None:
    """With the largest need as peak, and of nodes that share a block, what only passes a node is not live there."""
    instance = training(2, weight=5.0, saved=8.0, memory=6.0)
    by_need = Instance(instance.graph, instance.platform, by_need=True)
    grouped = Instance(instance.graph, instance.platform, together=[(1, 2)])
    for question in (by_need, grouped):
        best = min(partition.bottleneck for partition in all_partitions(question))
        result = solve(question, "levels")
        assert value_of(result) <= best * (1 + 1e-9)
    assert not verify(as_value([solve(grouped, "levels")])).faults


def test_over_kinds_the_best_of_all_counts() -> None:
    graph = training(3, weight=10.0, saved=4.0, memory=0.0).graph
    kinds = (Kind("a", 1, speed=2.0, memory=12.0), Kind("b", 1, speed=1.0, memory=9.0))
    instance = Instance(graph, Machines(kinds, bandwidth=1.0))
    best = min(partition.bottleneck for partition in all_partitions(instance))
    result = solve(instance, "levels")
    assert 1.5 + 38 - 12 <= value_of(result) * (1 + 1e-9) <= best * (1 + 1e-9)  # one block of the faster kind
    verdict = verify(as_value([result]))
    assert not verdict.faults
    assert "levels of a path" in verdict.checks[0].how


def value_of(result: Result) -> float:
    assert result.bound is not None
    return result.bound.value


def as_value(results: list[Result]) -> Value:
    return Value(json.loads(json.dumps(certificate_document(results))), "certificate")


def forged(result: Result, value: float, nodes: list[int], turn: int = 2) -> Value:
    document = json.loads(json.dumps(certificate_document([result])))
    document["bounds"][0] |= {"value": value, "parameters": {"nodes": nodes, "turn": [turn]}}
    document |= {"bound": value, "ratio": document["cost"] / value}
    return Value(document, "forged")


def test_a_file_is_proved_again_and_forged_ones_are_refused() -> None:
    instance = training(3, weight=10.0, saved=4.0, memory=12.0)
    result = solve(instance, "levels", start=Partition(instance, [0, 0, 0, 1, 1, 1]))
    assert result.bound is not None
    assert result.bound.witness == {"nodes": [0, 1, 2, 3, 4, 5], "turn": [1]}
    value = result.bound.value
    verdict = verify(as_value([result]))
    assert not verdict.faults
    assert float(verdict.proved_bound or 0) == pytest.approx(value)
    for nodes, fault in (
        ([0, 1, 2, 3, 4, 5], "do not prove it"),
        ([5, 4, 3, 2, 1, 0], "do not prove it"),
        ([], "turn is not one of"),
        ([1], "turn is not one of"),
        ([6], "does not exist"),
        ([2, 2], "twice"),
    ):
        assert fault in verify(forged(result, value * (1.001 if len(nodes) > 2 else 1), nodes)).faults[0]
    assert "do not prove it" in verify(forged(result, value, [5, 4, 3, 2, 1, 0])).faults[0]


def test_a_path_of_a_stranger_may_be_too_long() -> None:
    n = MOST + 1
    graph = ComputationGraph.from_edges([(v, v + 1) for v in range(n - 1)], [1.0] * n, [1.0] * n)
    instance = Instance(graph, Platform(2, 1.0, memory=1.0))
    result = solve(instance, "levels", start=one_block(instance))
    assert result.bound is not None
    assert 0 < len(result.bound.witness["nodes"]) <= MOST
    assert "at most" in verify(forged(result, value_of(result), list(range(n)))).faults[0]
