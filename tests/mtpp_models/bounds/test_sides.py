"""Bounds by what lies before a node and what lies behind it, against all partitions, and their check."""

from __future__ import annotations

import json
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
from mtpp.verification.partitioning.sides import holds_by_sides
from mtpp.verification.verdict import Clock
from mtpp_models import solve
from mtpp_models.bounds.cuts import best_side
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
    k, total = r.randint(2, 4), sum(params) + sum(x for x, _ in shared) + sum(x for _, x, _ in tensors)
    memory = total * r.uniform(0, 1) * r.choice((1, 0.5, 0.1)) / k
    work = [size() * r.choice((0, 0.1, 1)) for _ in range(n)]
    return Case(work, params, tensors, shared, k, r.choice((1.0, 0.5, 3.0, 1e-3)), memory, None)


def proved(instance: Instance, nodes: list[int], value: Fraction) -> bool:
    return holds_by_sides(ExactInstance.of(instance), nodes, value, Clock(60.0))


@pytest.mark.parametrize("seed", range(4))
def test_no_bound_is_above_the_optimum_and_each_is_proved_again(seed: int) -> None:
    for number in range(100):
        case = drawn(random.Random(f"{seed} {number}"))
        instance, best = build(case), Fraction(optimum(numbers(case, exact=True), orders=True))
        value, proof, finished = best_side(instance, one_block(instance).bottleneck, Deadline())
        assert finished
        assert Fraction(value) <= best * (1 + _ROUNDING)
        assert value == 0 or proved(instance, proof, Fraction(value) * (1 - _ROUNDING))
        every = [[v, *range(case.n)] for v in range(case.n)]  # more nodes never prove what is not so
        assert best == 0 or not any(proved(instance, nodes, best * (1 + _ROUNDING)) for nodes in every)


def test_what_both_passes_hold_counts_for_both_sides() -> None:
    """Three weights of 10 and two activations of 4, room for 12: one side has one block for 3 + 30 + 8 - 12."""
    instance = training(3, weight=10.0, saved=4.0, memory=12.0)
    value, proof, _ = best_side(instance, 1e3, Deadline())
    assert (value, proof[0]) == (pytest.approx(29.0, rel=1e-9), 2)
    assert value <= min(p.bottleneck for p in all_partitions(instance)) * (1 + 1e-9)


def test_a_parameter_is_held_by_each_block_with_one_of_its_users() -> None:
    """The first and the last of four layers are apart: with all between them they take 4 + 90 - 12."""
    free, tied = (training(4, weight=10.0, saved=0.0, memory=12.0, k=3, tied=x) for x in (0.0, 50.0))
    values = [best_side(instance, 1e3, Deadline())[0] for instance in (free, tied)]
    assert values == pytest.approx([12.0, (4 + 40 + 2 * 50 - 24) / 2])
    assert values[1] <= min(p.bottleneck for p in all_partitions(tied)) * (1 + 1e-9)


def test_blocks_with_much_to_save_have_their_own_peaks() -> None:
    """Of ten activations of 10 one block keeps few; the others are sent by blocks that needed 20 to make them."""
    n, edges = 20, [(v, v + 1, 0) for v in range(19)] + [(v, 19 - v, 1) for v in range(9)]
    sizes = [[0.0, 10.0] if v < 9 else [0.0] for v in range(n)]
    graph = ComputationGraph.from_edges(edges, [0.1] * n, sizes)
    value, proof, _ = best_side(Instance(graph, Platform(4, 1.0, memory=12.0)), 1e3, Deadline())
    # Of two blocks 1 + 90 - 24, and the peak of one of them besides.
    assert (value, proof[0]) == (pytest.approx((1 + 90 + 10 - 24) / 2), 9)


def test_nodes_far_apart_have_their_needs_in_blocks_of_their_own() -> None:
    """Of two blocks each holds one of the two tensors of 20 at the ends of a chain, with what its reader sends."""
    sizes = [20.0 if v in (0, 10) else 1.0 for v in range(12)]
    edges = [(v, v + 1) for v in range(11)]
    graph = ComputationGraph.from_edges(edges, [0.1] * 12, sizes, param_bytes=[5.0] * 12)
    instance = Instance(graph, Platform(2, 1.0, memory=30.0))
    value, proof, _ = best_side(instance, 1e3, Deadline())
    assert value == pytest.approx((1.2 + 60 + 2 * 21 - 60) / 2)
    assert {1, 10} <= set(proof)
    assert value <= min(p.bottleneck for p in all_partitions(instance))
    goal = Fraction(value) * (1 - _ROUNDING)
    assert proved(instance, proof, goal)
    assert not proved(instance, proof[:1], goal)


@pytest.mark.parametrize("memory", [0.0, 29.0, 30.0, 1e9])
def test_any_memory_even_none_or_what_is_just_enough(memory: float) -> None:
    instance = training(3, weight=5.0, saved=2.0, memory=memory)
    best = min(partition.bottleneck for partition in all_partitions(instance))
    value, node, _ = best_side(instance, one_block(instance).bottleneck, Deadline())
    assert 0 < value <= best * (1 + 1e-9)
    assert proved(instance, node, Fraction(value) * (1 - _ROUNDING))


def test_hard_limits_that_are_just_met_and_missed_by_a_byte() -> None:
    """One block holds 3 weights of 5 and two activations of 2 at the middle, with 19 bytes."""
    for memory, possible in ((19.0, True), (18.0, False)):
        instance = training(3, weight=5.0, saved=2.0, memory=memory, k=1)
        hard = Instance(instance.graph, Platform(1, 1.0, memory=memory, fit=True))
        every = [partition.bottleneck for partition in all_partitions(hard)]
        assert bool(every) == possible
        bound = solve(hard, "pinned").bound
        assert not possible or (bound is not None and bound.value <= min(every) * (1 + 1e-9))


def test_what_is_proved_by_the_deadline_is_a_bound() -> None:
    """One node is looked at, and what takes long, copies of parameters, is left out."""
    instance = training(4, weight=10.0, saved=1.0, memory=12.0, k=3, tied=50.0)
    value, node, finished = best_side(instance, 1e3, Deadline.after(0.0))
    assert not finished
    assert 0 < value < best_side(instance, 1e3, Deadline())[0]
    assert proved(instance, node, Fraction(value) * (1 - _ROUNDING))


def test_a_fixed_buffer_and_memory_without_limit_prove_nothing() -> None:
    graph = training(3, 5.0, 2.0, 9.0).graph
    for platform in (Platform(2, 1.0, memory=9.0, activation_buffer=1.0), Platform(2, 1.0)):
        assert best_side(Instance(graph, platform), 1e3, Deadline())[0] == 0
        assert not proved(Instance(graph, platform), 2, Fraction(1))


def test_needs_and_groups_pass_no_tensors() -> None:
    """With the largest need as peak, and of nodes that share a block, what only passes a node is not live there."""
    instance = training(2, weight=5.0, saved=8.0, memory=6.0)
    by_need = Instance(instance.graph, instance.platform, by_need=True)
    grouped = Instance(instance.graph, instance.platform, together=[(1, 2)])
    for question in (by_need, grouped):
        best = min(partition.bottleneck for partition in all_partitions(question))
        bound = solve(question, "pinned").bound
        assert bound is not None
        assert bound.value <= best * (1 + 1e-9)
    assert not verify(as_value([solve(grouped, "pinned")])).faults


def test_over_kinds_the_best_of_all_counts() -> None:
    graph = training(3, weight=10.0, saved=4.0, memory=0.0).graph
    kinds = (Kind("a", 1, speed=2.0, memory=12.0), Kind("b", 1, speed=1.0, memory=9.0))
    instance = Instance(graph, Machines(kinds, bandwidth=1.0))
    best = min(partition.bottleneck for partition in all_partitions(instance))
    result = solve(instance, "pinned")
    assert result.bound is not None
    assert result.bound.value == pytest.approx(1.5 + 38 - 12)  # one block of the faster kind, with more memory
    assert result.bound.value <= best * (1 + 1e-9)
    verdict = verify(as_value([result]))
    assert not verdict.faults
    assert "before its node" in verdict.checks[0].how


def as_value(results: list[Result]) -> Value:
    return Value(json.loads(json.dumps(certificate_document(results))), "certificate")


def forged(result: Result, value: float, node: int) -> Value:
    document = json.loads(json.dumps(certificate_document([result])))
    document["bounds"][0] |= {"value": value, "parameters": {"nodes": [node]}}
    document |= {"bound": value, "ratio": document["cost"] / value}
    return Value(document, "forged")


def test_a_file_is_proved_again_and_forged_ones_are_refused() -> None:
    instance = training(3, weight=10.0, saved=4.0, memory=12.0)
    start = Partition(instance, [0, 0, 0, 1, 1, 1])
    result = solve(instance, "pinned", start=start)
    assert result.bound is not None
    assert result.bound.witness == {"nodes": [2]}
    verdict = verify(as_value([result]))
    assert not verdict.faults
    assert float(verdict.proved_bound or 0) == pytest.approx(29.0)
    for value, node in ((29.001, 2), (result.bound.value, 0), (result.bound.value, 5)):
        faults = verify(forged(result, value, node)).faults
        assert "only" in faults[0]
