"""Slow and plain second opinions on training pipelines: all plans, costs by the formulas, PE as its text reads."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from instances.planning import Cluster, LayerChain, Plan, TrainingInstance

Operation = tuple[int, str]  # microbatch and "F", "B", or "FB" for both at once


def random_chain(rng: np.random.Generator, layers: int, *ranges: tuple[int, int]) -> LayerChain:
    """Whole numbers in a range for each column of a chain, of which the third and the fourth lie between layers."""
    return LayerChain(*(rng.integers(*given, layers - (i in (2, 3))) for i, given in enumerate(ranges)))


def random_instance(
    rng: np.random.Generator, layers: int, devices: int, microbatches: int, *, symmetric: bool = True, **options: Any
) -> TrainingInstance:
    """Small whole numbers, so that ties are frequent, and bandwidths over two orders of magnitude."""
    bandwidth = 2.0 ** rng.uniform(0, 7, (devices, devices))
    if symmetric:
        bandwidth = np.minimum(bandwidth, bandwidth.T)
    chain = random_chain(rng, layers, (1, 40), (1, 80), (0, 200), (0, 200), (0, 400), (0, 100))
    return TrainingInstance(chain, Cluster(bandwidth), microbatches, **options)


def all_plans(instance: TrainingInstance, order: Sequence[int]) -> Iterator[Plan]:
    """Every way to cut the chain and to share out all devices of an order."""
    layers, devices = instance.chain.n, len(order)
    for stages in range(1, min(layers, devices) + 1):
        for inner in itertools.combinations(range(1, layers), stages - 1):
            for ends in itertools.combinations(range(1, devices), stages - 1):
                replicas = np.diff([0, *ends, devices])
                yield Plan.along(instance, (0, *inner, layers), replicas, order)


def workload(plan: Plan) -> float:
    """W from Section IV-B, layer by layer and link by link."""
    instance, chain = plan.instance, plan.instance.chain
    M, bandwidth = instance.microbatches, instance.cluster.bandwidth
    worst = 0.0
    for n, stage in enumerate(plan.devices):
        layers = range(plan.cuts[n], plan.cuts[n + 1])
        r = len(stage)
        time = M * sum(chain.forward[layer] + chain.backward[layer] for layer in layers) / r
        if r > 1:
            slowest = min(bandwidth[v, w] for v in stage for w in stage if v != w)
            time += _over(2 * (r - 1) * sum(chain.param_bytes[layer] for layer in layers), r * slowest)
        worst = max(worst, time)
        if n + 1 < plan.n_stages:
            after, pairs = plan.cuts[n + 1] - 1, list(itertools.product(stage, plan.devices[n + 1]))
            there = _over(chain.forward_bytes[after], min(bandwidth[v, w] for v, w in pairs))
            back = _over(chain.backward_bytes[after], min(bandwidth[w, v] for v, w in pairs))
            worst = max(worst, M * (there + back) / len(pairs))
    return worst


def _over(size: float, rate: float) -> float:
    return size / rate if size > 0 else 0.0


def queue_order(stages: int, microbatches: int) -> list[list[Operation]]:
    """U_s of Algorithm 1, lines 1 to 8: each pass goes through the queues that are not empty when it starts."""
    blocks = 4 * stages - 3
    waiting = [deque(range(microbatches)), *(deque() for _ in range(blocks - 1))]
    order: list[list[Operation]] = [[] for _ in range(stages)]
    while any(waiting):
        for j in [j for j in range(blocks) if waiting[j]]:
            m = waiting[j].popleft()
            if j + 1 < blocks:
                waiting[j + 1].append(m)
            if j == 2 * stages - 2:
                order[-1].append((m, "FB"))
            elif j % 2 == 0:
                stage = j // 2 if j < 2 * stages - 2 else (blocks - 1 - j) // 2
                order[stage].append((m, "F" if j < 2 * stages - 2 else "B"))
    return order


def queue_makespan(plan: Plan) -> float:
    """Makespan of Algorithm 1, lines 9 to 25, with a heap of events and explicit queues."""
    S, M = plan.n_stages, plan.instance.microbatches
    orders = [deque(operations) for operations in queue_order(S, M)]
    duration = {"F": plan.forward_time, "B": plan.backward_time, "FB": plan.forward_time + plan.backward_time}
    transfer = {"CF": plan.forward_transfer_time, "CB": plan.backward_transfer_time}
    ready = {("F", m, 0) for m in range(M)} | ({("FB", m, 0) for m in range(M)} if S == 1 else set())
    channels: dict[tuple[str, int], list[tuple[float, int, int, str]]] = {}
    busy: set[tuple[str, int]] = set()
    events: list[tuple[float, int, str, int, int]] = []
    count = itertools.count()
    left = [M] * S
    makespan = time = 0.0

    def channel(kind: str, n: int) -> tuple[str, int]:
        return (kind if plan.instance.full_duplex else "C", n)

    while True:
        for n in range(S):
            if ("S", n) not in busy and orders[n] and (orders[n][0][1], orders[n][0][0], n) in ready:
                m, kind = orders[n].popleft()
                busy.add(("S", n))
                heapq.heappush(events, (time + duration[kind][n], next(count), kind, m, n))
        for machine, queue in channels.items():
            if machine not in busy and queue:
                _, _, m, kind = heapq.heappop(queue)
                busy.add(machine)
                heapq.heappush(events, (time + transfer[kind][machine[1]], next(count), kind, m, machine[1]))
        if not events:
            return makespan
        time = events[0][0]
        while events and events[0][0] == time:
            _, _, kind, m, n = heapq.heappop(events)
            if kind in transfer:
                busy.remove(channel(kind, n))
                to = n + 1 if kind == "CF" else n
                ready.add((("FB" if to == S - 1 else "F") if kind == "CF" else "B", m, to))
                continue
            busy.remove(("S", n))
            if kind == "F":
                heapq.heappush(channels.setdefault(channel("CF", n), []), (time, 0, m, "CF"))
                continue
            if n > 0:
                heapq.heappush(channels.setdefault(channel("CB", n - 1), []), (time, 1, m, "CB"))
            left[n] -= 1
            if left[n] == 0:
                makespan = max(makespan, time + plan.allreduce_time[n])
