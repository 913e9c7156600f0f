"""Costs and optima of tiny instances in rational numbers, from the definition alone."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

from brute_force import obeys

from instances import Instance, Partition, Platform


def exact_costs(partition: Partition) -> list[Fraction]:
    """The definition in rational numbers, by sets and sums alone."""
    graph, platform = partition.instance.graph, partition.instance.platform
    block, start = partition.block.tolist(), graph.tensors.start
    rate = 1 / Fraction(platform.bandwidth)
    costs = []
    for b in range(platform.k):
        inside = [v for v in partition.order.tolist() if block[v] == b]
        cost = sum((Fraction(float(graph.work[v])) for v in inside), Fraction(0))
        live = [Fraction(0)] * len(inside)
        for t, producer in enumerate(graph.tensors.producer.tolist()):
            size = Fraction(float(graph.tensors.bytes[t]))
            readers = graph.tensors.consumers[start[t] : start[t + 1]].tolist()
            if (producer in inside) != all(v in inside for v in readers) or (
                producer not in inside and any(v in inside for v in readers)
            ):
                touches = producer in inside or any(v in inside for v in readers)
                cost += size * rate if touches and readers else 0
            steps = [i for i, v in enumerate(inside) if v == producer or v in readers]
            for i in range(min(steps), max(steps) + 1) if steps else ():
                live[i] += size
        if inside and math.isfinite(platform.memory):
            held = sum((Fraction(float(graph.param_bytes[v])) for v in inside), Fraction(0))
            held += sum((Fraction(float(graph.state_bytes[v])) for v in inside), Fraction(0))
            held += sum(Fraction(p.bytes) for p in graph.parameters if set(p.users) & set(inside))
            buffer = platform.activation_buffer
            held += max(live) if buffer is None else Fraction(buffer)
            cost += max(Fraction(0), held - Fraction(platform.memory)) * rate
        costs.append(cost)
    return costs


def all_partitions(instance: Instance) -> list[Partition]:
    edges = instance.graph.edges.tolist()
    blocks = product(range(instance.k), repeat=instance.graph.n)
    return [
        Partition(instance, block)
        for block in blocks
        if all(block[u] <= block[v] for u, v in edges)
        and obeys(instance.graph, instance.constraints, block, instance.k)
    ]


def exact_optimum(instance: Instance) -> Fraction:
    """By trying every partition, each with the default order."""
    return min(max(exact_costs(partition)) for partition in all_partitions(instance))


def needed_costs(partition: Partition) -> list[Fraction] | None:
    """As `exact_costs`, but the peak of a block is the largest sum that one of its nodes reads and writes.

    None where the memory is a hard limit that is exceeded even so.
    """
    instance, graph = partition.instance, partition.instance.graph
    platform, block, start = instance.platform, partition.block.tolist(), graph.tensors.start
    needs = [Fraction(0)] * graph.n
    for t, producer in enumerate(graph.tensors.producer.tolist()):
        for v in {producer, *graph.tensors.consumers[start[t] : start[t + 1]].tolist()}:
            needs[v] += Fraction(float(graph.tensors.bytes[t]))
    costs = exact_costs(Partition(Instance(graph, Platform(instance.k, platform.bandwidth)), block))
    for b in set(block) if math.isfinite(platform.memory) else ():
        inside = {v for v in range(graph.n) if block[v] == b}
        buffer = platform.activation_buffer
        held = max(needs[v] for v in inside) if buffer is None else Fraction(buffer)
        held += sum((Fraction(float(graph.param_bytes[v])) for v in inside), Fraction(0))
        held += sum((Fraction(float(graph.state_bytes[v])) for v in inside), Fraction(0))
        held += sum(Fraction(p.bytes) for p in graph.parameters if set(p.users) & inside)
        over = max(Fraction(0), held - Fraction(platform.memory))
        if over and platform.fit:
            return None
        costs[b] += over / Fraction(platform.bandwidth)
    return costs


def needed_optimum(instance: Instance) -> Fraction | None:
    """What bounds may prove: no order has a smaller peak. None if nothing fits."""
    all_costs = (needed_costs(partition) for partition in all_partitions(instance))
    return min((max(costs) for costs in all_costs if costs is not None), default=None)


def modelled(instance: Instance) -> Instance:
    """Without a buffer the peak counts as 0."""
    buffer = instance.platform.activation_buffer or 0.0
    return replace(instance, activation_buffer=buffer)
