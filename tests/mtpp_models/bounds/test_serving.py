"""The front of a serving question is what brute force finds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from serving_oracle import cost, cuts, holds, legal, serving_questions

from instances import ComputationGraph, InputError, Instance, Platform
from instances.architectures import ARCHITECTURES
from instances.partitioning.serving import ServingInstance
from instances.runtimes import RUNTIMES
from instances.runtimes.layers import LayerCut
from instances.runtimes.serving import serving_chain
from mtpp_models import solve
from mtpp_models.bounds.serving import serving_front

_MOST = 70  # tokens that brute force looks at; more are any number, as memories are at most 60


def chain(works: list[float], **changes: object) -> ServingInstance:
    n = len(works)
    graph = ComputationGraph.from_edges(
        [(v, v + 1) for v in range(n - 1)], work=works, output_bytes=[0.0] * n, param_bytes=[10.0] * n
    )
    question = ServingInstance(
        instance=Instance(graph, Platform(2, 1.0, 100.0, fit=True), by_need=True),
        token_bytes=np.ones(n),
        window=np.full(n, math.inf),
        context=1,
        batch=1,
    )
    return replace(question, **changes)  # type: ignore[arg-type]


def test_bug_huge_contexts_are_refused() -> None:
    """Beyond 2^53 a context and one token more are the same number, and the front never ended."""
    huge = Instance(chain([1.0, 3.0]).instance.graph, Platform(2, 1.0, 2.0**60, fit=True), by_need=True)
    with pytest.raises(InputError, match="has room for more than"):
        serving_front(chain([1.0, 3.0], instance=huge))


@given(serving_questions())
def test_the_front_is_that_of_brute_force(question: ServingInstance) -> None:
    """Both numbers of each point, the largest context, and nothing between the points."""
    n, k = question.instance.graph.n, question.instance.k
    found = []
    for block in cuts(n, k):
        if legal(question, block):
            first = next((context for context in range(_MOST) if not holds(question, block, context)), math.inf)
            found.append((cost(question, block), first - 1))
    able = [(time, context) for time, context in found if context >= question.context]
    best = sorted({p for p in able if not any(q != p and q[0] <= p[0] and q[1] >= p[1] for q in able)})
    front = serving_front(question)
    assert front.largest == max((context for _, context in found), default=-math.inf)
    assert [p.capacity for p in front.points] == [context for _, context in best]
    assert [p.cost for p in front.points] == pytest.approx([float(time) for time, _ in best], rel=1e-12)
    for point in front.points:
        assert legal(question, point.partition.block.tolist())
        if point.capacity < math.inf:
            at = (question.in_flight or 1) * question.token_bytes[point.partition.block == 0]
            assert point.cache_bytes(point.capacity)[0] <= at.sum() * point.capacity


def test_a_stage_receives_what_it_reads_not_what_the_next_one_does() -> None:
    """Behind the first cut node 3 alone reads the first tensor; node 2 works for 20 s and receives nothing."""
    graph = ComputationGraph.from_edges(
        [(0, 1), (0, 3), (1, 2), (2, 3)], work=[1.0, 1.0, 20.0, 1.0], output_bytes=[10.0, 0.0, 0.0, 0.0]
    )
    instance = Instance(graph, Platform(3, 1.0, 100.0, fit=True), by_need=True)
    (point,) = serving_front(chain([0.0] * 4, instance=instance)).points
    assert point.bottleneck == 20.0
    assert point.partition.block.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("name", [name for name, network in ARCHITECTURES.items() if network.served])
@pytest.mark.parametrize("runtime", ["vllm", "megatron", "llama-cpp"])
def test_decoders_agree_with_the_program_over_ideals(name: str, runtime: str) -> None:
    """The first point is the optimum that another program proves of the same question without a limit of memory."""
    graph = ARCHITECTURES[name].build(phase="decode", batch=32)
    question = serving_chain(Instance(graph, Platform(4, 64e9, 1e13, fit=True)), RUNTIMES[runtime])
    best = serving_front(question).points[0]
    answer = solve(question.instance.with_platform(Platform(4, 64e9)), "ideals")
    assert answer.bound is not None
    assert best.bottleneck == pytest.approx(answer.bound.value, rel=1e-12)
    assert sum(LayerCut.of(best.partition).counts) == len(question.instance.graph.names) - 2


def test_windows_of_attention() -> None:
    """A cache with a window stops to grow; without any that grows, all contexts fit."""
    question = chain([1.0, 1.0], window=np.array([5.0, math.inf]))
    (point,) = serving_front(question).points
    assert point.stage_capacity == (math.inf, 90.0)
    (point,) = serving_front(replace(question, window=np.array([5.0, 0.0]))).points
    assert point.capacity == math.inf


def test_nothing_fits() -> None:
    """No cut has room for the weights, or for a single token more than them; the largest context says which."""
    tight = chain([1.0, 1.0], instance=chain([1.0, 1.0]).instance.with_platform(Platform(2, 1.0, 9.0, fit=True)))
    assert (serving_front(tight).points, serving_front(tight).largest) == ((), -1)
    full = replace(tight, instance=tight.instance.with_platform(Platform(2, 1.0, 10.0, fit=True)))
    assert (serving_front(full).points, serving_front(full).largest) == ((), 0)


def test_what_is_no_serving_question_is_refused() -> None:
    """A graph that is no chain, no limit of memory, and numbers out of their range."""
    good = chain([1.0, 1.0])
    apart = ComputationGraph.from_edges([], work=[1.0, 1.0])
    with pytest.raises(InputError, match="give a chain"):
        replace(good, instance=Instance(apart, Platform(2, 1.0, 9.0, fit=True)))
    with pytest.raises(InputError, match="give memory"):
        replace(good, instance=Instance(good.instance.graph, Platform(2, 1.0)))
    with pytest.raises(InputError, match="token_bytes"):
        replace(good, token_bytes=np.array([1.0]))
    with pytest.raises(InputError, match="context and batch"):
        replace(good, context=0)
    with pytest.raises(InputError, match="no cache"):
        serving_chain(Instance(ARCHITECTURES["bert-base"].build(), Platform(2, 1.0, 1.0)), RUNTIMES["vllm"])
