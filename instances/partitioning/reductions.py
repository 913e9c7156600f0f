r"""Merge nodes that some optimal partition keeps together, and map answers back.

Two reductions are lossless:

(a) A source without work whose tensors are read by one node alone joins that node. Wherever a partition puts
    the source, moving it to its reader saves sending and receiving its tensors and adds no work.
(b) A sink without work that reads from one node alone joins that node. Moving it there saves receiving, and
    the producer's block sends no more than before.

Operator graphs hold parameters and constants as such nodes. If the memory is finite, what the moved node holds
(parameters and state) may overflow where it goes. That costs at most the bytes held over B, so the saving must be
at least as large: for (a) the bytes of its tensors that are read, for (b) those of the tensors that it reads
alone. Where all that is held and the buffer fit into one block nothing can overflow. If no activation buffer is
fixed, peaks depend on single nodes, and nothing is merged unless the memory is infinite. Where the memory is a hard
limit no saving pays for what does not fit: only nodes that hold nothing are moved.

Over kinds of devices both hold where the node that moves has no work on any kind: what it saves and what may overflow,
where it goes, take the same bandwidth, that of the device of that block; and where nothing can overflow on the smallest
memory, nothing can on any. With a rate for each pair of kinds they do not: what a node reads may pass faster than what
it makes.

Nodes that have to share a block are merged before, whatever it costs. A node moves only to where it may be, and not if
it counts for a least number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from instances.devices.platform import Platform
from instances.graph.graph import ComputationGraph
from instances.graph.memory import held_alone
from instances.graph.merging import merge_graph
from instances.graph.tensors import FloatArray, IntArray, sums_by
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance

__all__ = ["Contraction", "contract", "contract_groups", "expanded_order", "merge", "reduce_instance"]


@dataclass(frozen=True, eq=False)
class Contraction:
    """A smaller question, and how its answers read in the original one.

    Parameters
    ----------
    original, instance : Instance
        Before and after.
    group : (n,) integers
        Node of `instance` that holds each node of `original`.
    anchor : (n',) integers
        For each node of `instance`, the node of `original` that the others of its group were moved to.
    """

    original: Instance
    instance: Instance
    group: IntArray
    anchor: IntArray

    def expand(self, partition: Partition) -> Partition:
        """The same partition of the original graph; the cost is the same."""
        if self.instance is self.original:
            return partition
        order = expanded_order(self.original.graph, partition.order, self.group)
        original = self.original.with_k(partition.instance.k)
        return Partition(original, partition.block[self.group], order, partition.kind)

    def restrict(self, partition: Partition) -> Partition:
        """Restrict a partition to the smaller graph, at no higher cost: each group takes the block of its anchor."""
        if self.instance is self.original:
            return partition
        instance = self.instance.with_k(partition.instance.k)
        return Partition(instance, partition.block[self.anchor], kind=partition.kind)


def expanded_order(graph: ComputationGraph, order: IntArray, group: IntArray) -> IntArray:
    """The nodes of a graph as an order of its groups lists them, topological within each."""
    topological = graph.topological_order
    position = np.argsort(order)[group[topological]]
    return topological[np.argsort(position, kind="stable")]


def reduce_instance(instance: Instance) -> Contraction:
    """Merge what has to share a block, then apply the reductions (a) and (b) until none applies.

    Returns
    -------
    Contraction
        With the same optimal bottleneck for the instance's k.

    References
    ----------
    Proved above; tried by brute force in the tests.
    """
    if not instance.is_alike:
        return _reduce_kinds(instance)
    result = contract_groups(instance)
    if instance.needs_peaks:
        return result
    while True:
        moves = _moves(result.instance)
        if not moves:
            return result
        step = contract(result.instance, moves)
        result = Contraction(instance, step.instance, step.group[result.group], result.anchor[step.anchor])


def _reduce_kinds(instance: Instance) -> Contraction:
    """Merge what has to be together, and, unless there are peaks of nodes or rates of pairs, what may as well be."""
    least = min(kind.memory for kind in instance.machines.kinds)
    alike = Platform(instance.k, 1.0, least, instance.activation_buffer, instance.fit and least < math.inf)
    # A sum of works may lose a small one, but is 0 only where all are.
    summed = replace(instance.graph, work=instance.finite_works.sum(axis=0))
    reduce = contract_groups if instance.needs_peaks or instance.rates is not None else reduce_instance
    merged = reduce(Instance(summed, alike, constraints=instance.constraints, need=instance.need))
    if merged.instance is merged.original:
        return Contraction(instance, instance, merged.group, merged.anchor)
    smaller = merged.instance.graph
    works = np.array([sums_by(merged.group, row, smaller.n) for row in instance.work])
    need = merged.instance.need if instance.needs_peaks else None
    rules = Constraints(windows=merged.instance.constraints.windows) if instance.has_windows else NO_CONSTRAINTS
    question = replace(instance, graph=smaller, works=works, constraints=rules, need=need)
    return Contraction(instance, question, merged.group, merged.anchor)


def contract_groups(instance: Instance) -> Contraction:
    """Merge the nodes that have to share a block.

    Returns
    -------
    Contraction
        Its instance has no groups; windows and least numbers are those of the merged nodes. Where no activation buffer
        is fixed, peaks are those of the merged nodes, each of which reads and writes all at once.
    """
    nodes = np.arange(instance.graph.n)
    if not instance.constraints or not instance.rules.has_groups:
        return Contraction(instance, instance, nodes, nodes)
    return merge(instance, instance.rules.group)


def contract(instance: Instance, moves: dict[int, int]) -> Contraction:
    """Merge each key of `moves` with its value.

    Parameters
    ----------
    moves : dict of int to int
        From a node to the node that it joins; together they form a forest of directed trees or pairs.

    Raises
    ------
    InputError
        If the merged graph has a cycle.
    """
    n = instance.graph.n
    sources, targets = np.array(list(moves.items()), dtype=np.int64).reshape(-1, 2).T
    links = coo_array((np.ones(len(sources)), (sources, targets)), shape=(n, n))
    _, labels = connected_components(links, directed=False)
    # The node that does not move comes last and so becomes the anchor.
    return merge(instance, np.asarray(labels, dtype=np.int64), np.append(sources, np.delete(np.arange(n), sources)))


def merge(instance: Instance, group: IntArray, precedence: IntArray | None = None) -> Contraction:
    """Merge the nodes of each group; see `merge_graph`.

    Raises
    ------
    InputError
        If the merged graph has a cycle.
    """
    smaller, anchor = merge_graph(instance.graph, group, precedence)
    need = None
    if instance.needs_peaks:
        need = np.zeros(smaller.n)
        np.maximum.at(need, group, instance.needs)
    constraints = _merged_constraints(instance, group, smaller.n) if instance.constraints else NO_CONSTRAINTS
    merged = replace(instance, graph=smaller, constraints=constraints, need=need)
    return Contraction(instance, merged, group, anchor)


def _merged_constraints(instance: Instance, group: IntArray, count: int) -> Constraints:
    """Windows and least numbers of merged nodes; nodes that must be together are already merged."""
    rules = instance.rules
    first, last = np.zeros(count, dtype=np.int64), np.full(count, instance.k - 1)
    np.maximum.at(first, group, rules.first)
    np.minimum.at(last, group, rules.last)
    nodes = np.arange(count)
    return Constraints(
        windows=tuple(zip(nodes.tolist(), first.tolist(), last.tolist(), strict=True)),
        at_least=tuple(
            (int(least), tuple(np.repeat(nodes, np.bincount(group, row, count).astype(np.int64)).tolist()))
            for row, least in zip(rules.counted, rules.least, strict=True)
        ),
    )


def _moves(instance: Instance) -> dict[int, int]:
    """Target of each node that the reductions merge now and, if nothing can overflow, after these."""
    graph = instance.graph
    fits = _fits(instance)
    held, read_bytes, alone_bytes = _bytes_at_stake(graph)
    if instance.platform.fit:
        read_bytes = alone_bytes = np.zeros(graph.n)
    may_join = _may_join(instance)
    goes: dict[int, int] = {}
    stays: set[int] = set()
    forward = graph.topological_order[graph.work[graph.topological_order] == 0].tolist()
    directions = (
        (forward, graph.predecessors, graph.successors, read_bytes.tolist()),
        (forward[::-1], graph.successors, graph.predecessors, alone_bytes.tolist()),
    )
    for nodes, behind, ahead, saved in directions:
        (start, before), (end, after) = ([array.tolist() for array in rows] for rows in (behind, ahead))
        for v in nodes:
            if v in goes or (not fits and v in stays):
                continue
            if any(goes.get(u) != v for u in before[start[v] : start[v + 1]]):
                continue
            targets = {u for u in after[end[v] : end[v + 1]] if goes.get(u) != v}
            if len(targets) == 1 and (fits or held[v] <= saved[v]):
                (target,) = targets
                if target not in goes and may_join(v, target):
                    goes[v] = target
                    stays.add(target)
    return goes


def _may_join(instance: Instance) -> Callable[[int, int], bool]:
    """Whether a node may be wherever another one may be, without being missed where it was."""
    if not instance.constraints:
        return lambda v, target: True
    rules = instance.rules
    counts = rules.counted.sum(axis=0) > 0
    return lambda v, target: bool(
        rules.first[v] <= rules.first[target] and rules.last[target] <= rules.last[v] and not counts[v]
    )


def _fits(instance: Instance) -> bool:
    """Whether nothing can overflow, beyond doubt: the sum has the sign that it would have without rounding."""
    graph, platform = instance.graph, instance.platform
    held = (*graph.param_bytes.tolist(), *graph.state_bytes.tolist(), *(p.bytes for p in graph.parameters))
    return not instance.limits_memory or math.fsum((*held, platform.activation_buffer or 0.0, -platform.memory)) <= 0


def _bytes_at_stake(graph: ComputationGraph) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bytes that each node holds, of its tensors that are read, and of those that it reads alone."""
    tensors = graph.tensors
    readers = np.diff(tensors.start)
    alone = readers[graph.edge_tensor] == 1
    return (
        held_alone(graph),
        sums_by(tensors.producer, tensors.bytes * (readers > 0), graph.n),
        sums_by(tensors.consumers, tensors.bytes[graph.edge_tensor] * alone, graph.n),
    )
