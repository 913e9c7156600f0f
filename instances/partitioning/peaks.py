"""Arrays of an instance for compiled kernels, and orders of least peak memory within blocks."""

from __future__ import annotations

import heapq
import math
import sys
from typing import NamedTuple

import numpy as np

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, IntArray, compressed_rows
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance

# An instance as plain arrays, for the kernels.


# Of what a block can hold, over the time that it takes beyond the memory at the most.
_LARGEST = 1e-300


class KernelArrays(NamedTuple):
    """An instance as plain arrays for the kernels; compressed rows are pairs (start, values).

    Bytes beyond the memory take a time of bytes / `overflow_bandwidth`. Where memory is a hard limit, this time plus
    `overflow_step`, which exceeds the cost of any block that fits, is a penalty that leads searches to partitions that
    fit. Constraints are those of `BlockRules`, without groups.
    """

    work: FloatArray
    tensor_time: FloatArray
    tensor_bytes: FloatArray
    readers: IntArray
    producer: IntArray
    output_start: IntArray
    input_start: IntArray
    input_tensor: IntArray
    successor_start: IntArray
    successor: IntArray
    indegree: IntArray
    held_bytes: FloatArray
    shared_bytes: FloatArray
    shared_start: IntArray
    shared: IntArray
    bandwidth: float
    memory: float
    activation_buffer: float
    needs_peaks: bool
    overflow_bandwidth: float
    overflow_step: float
    is_constrained: bool
    first: IntArray
    last: IntArray
    counted: IntArray
    least: IntArray

    @classmethod
    def of(cls, instance: Instance) -> KernelArrays:
        """Flatten `instance`."""
        graph, platform = instance.graph, instance.platform
        uses = [(user, g) for g, parameter in enumerate(graph.parameters) for user in set(parameter.users)]
        user, shared = np.array(uses, dtype=np.int64).reshape(-1, 2).T
        # What nobody uses lies in no block.
        shared_bytes = [parameter.bytes if parameter.users else 0.0 for parameter in graph.parameters]
        shared_start, shared = compressed_rows(user, shared, graph.n)
        input_start, input_tensor = graph.inputs
        successor_start, successor = graph.successors
        buffer, rules = platform.activation_buffer, instance.rules
        step = 2.0 * float(graph.work.sum() + 2.0 * instance.tensor_time.sum()) or 1.0
        # No overflow is infinite, however small the memory is.
        total = graph.held_total + float(graph.tensors.bytes.sum()) + (buffer or 0.0)
        least = max(_LARGEST * total, sys.float_info.min)
        return cls(
            work=graph.work,
            tensor_time=instance.tensor_time.copy(),  # that of a partition that was pickled is read-only, another type
            tensor_bytes=graph.tensors.bytes,
            readers=np.diff(graph.tensors.start),
            producer=graph.tensors.producer,
            output_start=graph.output_start,
            input_start=input_start,
            input_tensor=input_tensor,
            successor_start=successor_start,
            successor=successor,
            indegree=np.bincount(graph.edges[:, 1], minlength=graph.n),
            held_bytes=graph.held_bytes,
            shared_bytes=np.array(shared_bytes, dtype=np.float64),
            shared_start=shared_start,
            shared=shared,
            bandwidth=float(platform.bandwidth),
            memory=float(platform.memory) if instance.limits_memory else math.inf,
            activation_buffer=0.0 if buffer is None else float(buffer),
            needs_peaks=instance.needs_peaks,
            overflow_bandwidth=max((platform.memory or 1.0) / step, least)
            if platform.fit
            else float(platform.bandwidth),
            overflow_step=step if platform.fit else 0.0,
            is_constrained=rules.forbid(instance.k),
            first=rules.first,
            last=rules.last,
            counted=rules.counted,
            least=rules.least,
        )


# Orders of least peak memory within blocks.
#
# The peak of a block depends on the order in which it runs its nodes, and to find the least one is NP-hard. Here the
# sets of nodes that may have run are searched, from the empty one node by node, those with the least peak on the way
# first, so that the first way to the whole block is one of the least peak. Blocks of many branches have too many sets;
# they keep their order.


# Largest number of steps of the searches in all blocks: some tenths of a second.
_MOST_STEPS = 200_000


class LeastPeak(NamedTuple):
    """Order of least peak memory, the peak [bytes], and the steps of the search; no order if it ran out of steps."""

    order: list[int] | None
    peak: float
    steps: int


def with_least_peaks(partition: Partition) -> Partition:
    """The same blocks, with orders of less peak memory for the most expensive blocks that exceed their memory.

    A short search is made; if it does not lower the bottleneck, the partition is returned unchanged.
    """
    instance = partition.instance
    if not instance.needs_peaks or instance.by_need or not partition.excess.any():
        return partition
    by_block = partition.order[np.argsort(partition.block[partition.order], kind="stable")]
    runs = np.split(by_block, np.cumsum(np.bincount(partition.block, minlength=instance.k))[:-1])
    steps = _MOST_STEPS
    for b in np.argsort(-partition.block_costs, kind="stable").tolist():
        if partition.excess[b] == 0:
            break
        search = least_peak_order(instance.graph, runs[b].tolist(), steps)
        if search.order is None or search.peak >= partition.peaks[b]:
            break  # the bottleneck stays as it is
        steps -= search.steps
        runs[b] = np.array(search.order, dtype=np.int64)
    if steps == _MOST_STEPS:
        return partition
    better = Partition(instance, partition.block, np.concatenate(runs), partition.kind)
    return better if better.bottleneck < partition.bottleneck else partition


def least_peak_order(graph: ComputationGraph, nodes: list[int], max_steps: int = _MOST_STEPS) -> LeastPeak:
    """Order of a block's nodes with the least peak memory, by a search of at most `max_steps` steps.

    A step is a node that may join a set, or a tensor that the node touches; a scan of all nodes counts as steps, too.
    """
    scan = 1 + len(nodes) // 8
    if scan * len(nodes) > max_steps:  # even one way to the whole block takes more
        return LeastPeak(None, math.inf, 0)
    place, (start, previous) = {v: i for i, v in enumerate(nodes)}, graph.predecessors
    touched, size, near = _touched_tensors(graph, place)
    before = [sum(1 << place[u] for u in set(previous[start[v] : start[v + 1]].tolist()) if u in place) for v in nodes]
    everything, looked, steps = (1 << len(nodes)) - 1, set[int](), 0
    peak, last = {0: 0.0}, dict[int, int]()  # least peak on the way to each set, and the last node there
    waiting = [(0.0, 0, 0, 0.0)]  # least peak on the way, minus the number of nodes, set, live behind it
    while waiting and steps <= max_steps:
        highest, fewer, done, live = heapq.heappop(waiting)
        if done == everything:
            order = []
            while done:
                order.append(last[done])
                done ^= 1 << last[done]
            return LeastPeak([nodes[i] for i in reversed(order)], highest, steps)
        if done in looked:
            continue
        looked.add(done)
        steps += scan
        for i in range(len(nodes)):
            now = done | 1 << i
            if now == done or before[i] & ~done or now in looked:
                continue
            steps += 1 + len(near[i])
            rise = live + sum(size[t] for t in near[i] if not touched[t] & done)
            reached = max(highest, rise)
            if reached < peak.get(now, math.inf):
                peak[now], last[now] = reached, i
                gone = sum(size[t] for t in near[i] if not touched[t] & ~now)
                heapq.heappush(waiting, (reached, fewer - 1, now, rise - gone))
    return LeastPeak(None, math.inf, steps)


def _touched_tensors(graph: ComputationGraph, place: dict[int, int]) -> tuple[list[int], list[float], list[list[int]]]:
    """Tensors that nodes touch: for each, the places of its nodes as bits, and its bytes; and tensors by place."""
    (start, inputs), outputs = graph.inputs, graph.output_start
    users: dict[int, list[int]] = {}
    for v, i in place.items():
        for t in (*inputs[start[v] : start[v + 1]].tolist(), *range(outputs[v], outputs[v + 1])):
            users.setdefault(t, []).append(i)
    near: list[list[int]] = [[] for _ in place]
    for t, places in enumerate(users.values()):
        for i in places:
            near[i].append(t)
    touched = [sum(1 << i for i in places) for places in users.values()]
    return touched, graph.tensors.bytes[list(users)].tolist(), near
