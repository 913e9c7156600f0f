r"""Merge nodes that some optimal partition keeps together, and map answers back.

Two reductions are lossless:

(a) A source without work whose tensors are read by one node alone joins that node. Wherever a partition puts
    the source, moving it to its reader saves sending and receiving its tensors and adds no work.
(b) A sink without work that reads from one node alone joins that node. Moving it there saves receiving, and
    the producer's block sends no more than before.

Operator graphs hold parameters and constants as such nodes. If the memory is finite, the moved node's
parameters may overflow where it goes. That costs at most its parameter bytes over B, so the saving must be at
least as large: for (a) the bytes of its tensors that are read, for (b) those of the tensors that it reads
alone. Where all parameters and the buffer fit into one block nothing can overflow. If no activation buffer is
fixed, peaks depend on single nodes, and nothing is merged unless the memory is infinite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from instances.errors import InputError
from instances.graph import ComputationGraph
from instances.partition import Partition
from instances.problem import Instance
from instances.tensors import IntArray, SharedParameter

__all__ = ["Contraction", "contract", "merge", "reduce_instance"]


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
        topological = self.original.graph.topological_order
        position = np.argsort(partition.order)[self.group[topological]]
        order = topological[np.argsort(position, kind="stable")]
        return Partition(self.original.with_k(partition.instance.k), partition.block[self.group], order)

    def restrict(self, partition: Partition) -> Partition:
        """A partition of the smaller graph that costs no more: each group goes where its anchor is."""
        if self.instance is self.original:
            return partition
        return Partition(self.instance.with_k(partition.instance.k), partition.block[self.anchor])


def reduce_instance(instance: Instance) -> Contraction:
    """Apply the reductions (a) and (b) until none applies.

    Parameters
    ----------
    instance : Instance

    Returns
    -------
    Contraction
        With the same optimal bottleneck for the instance's k.

    References
    ----------
    Proved above; tried by brute force in the tests.
    """
    n = instance.graph.n
    result = Contraction(instance, instance, np.arange(n), np.arange(n))
    if instance.has_overflow and instance.platform.activation_buffer is None:
        return result
    while True:
        moves = dict(_moves(result.instance))
        if not moves:
            return result
        step = contract(result.instance, moves)
        result = Contraction(instance, step.instance, step.group[result.group], result.anchor[step.anchor])


def contract(instance: Instance, moves: dict[int, int]) -> Contraction:
    """Merge each key of `moves` with its value.

    Parameters
    ----------
    instance : Instance
    moves : dict of int to int
        From a node to the node that it joins; together they form a forest of directed trees or pairs.

    Returns
    -------
    Contraction

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
    return merge(instance, np.asarray(labels, dtype=np.int64), np.append(sources, np.setdiff1d(np.arange(n), sources)))


def merge(instance: Instance, group: IntArray, precedence: IntArray | None = None) -> Contraction:
    """Merge the nodes of each group.

    Parameters
    ----------
    instance : Instance
    group : (n,) integers
        Number of each node's group, from 0 without a gap.
    precedence : (n,) integers, optional
        All nodes; the last one of a group is its anchor.

    Returns
    -------
    Contraction

    Raises
    ------
    InputError
        If the merged graph has a cycle.
    """
    nodes = np.arange(instance.graph.n) if precedence is None else precedence
    anchor = np.zeros(int(group.max()) + 1, dtype=np.int64)
    anchor[group[nodes]] = nodes
    smaller = _merged_graph(instance.graph, group, anchor)
    return Contraction(instance, replace(instance, graph=smaller), group, anchor)


def _moves(instance: Instance) -> Iterator[tuple[int, int]]:
    """Pairs (node, where it goes) of the reductions that apply now; none of them goes to a node that moves."""
    graph, tensors = instance.graph, instance.graph.tensors
    fits = graph.parameter_total + (instance.platform.activation_buffer or 0.0) <= instance.platform.memory
    held = graph.param_bytes.copy()
    for parameter in graph.parameters:
        held[list(parameter.users)] += parameter.bytes
    readers = np.diff(tensors.start)
    read_bytes = np.bincount(tensors.producer, tensors.bytes * (readers > 0), minlength=graph.n)
    alone = readers[graph.edge_tensor] == 1
    alone_bytes = np.bincount(tensors.consumers, tensors.bytes[graph.edge_tensor] * alone, minlength=graph.n)
    moved: set[int] = set()
    for v in np.flatnonzero(graph.work == 0).tolist():
        before, after = (rows[1][rows[0][v] : rows[0][v + 1]] for rows in (graph.predecessors, graph.successors))
        if len(before) == 0 and len(after) > 0 and (after == after[0]).all():
            target, saved = int(after[0]), read_bytes[v]
        elif len(after) == 0 and len(before) > 0 and (before == before[0]).all():
            target, saved = int(before[0]), alone_bytes[v]
        else:
            continue
        if (fits or held[v] <= saved) and target not in moved:
            moved.add(v)
            yield v, target


def _merged_graph(graph: ComputationGraph, group: IntArray, anchor: IntArray) -> ComputationGraph:
    """Sum what is merged; tensors with the same producer and the same readers become one."""
    count = len(anchor)
    readers: dict[tuple[int, tuple[int, ...]], float] = {}
    for t, producer in enumerate(graph.tensors.producer):
        home = int(group[producer])
        consumers = graph.tensors.consumers[graph.tensors.start[t] : graph.tensors.start[t + 1]]
        outside = tuple(sorted({int(group[v]) for v in consumers} - {home}))
        if outside:
            readers[home, outside] = readers.get((home, outside), 0.0) + float(graph.tensors.bytes[t])
    outputs: list[list[float]] = [[] for _ in range(count)]
    edges = []
    for (home, outside), size in readers.items():
        edges += [(home, v, len(outputs[home])) for v in outside]
        outputs[home].append(size)
    held = np.bincount(group, graph.param_bytes, minlength=count)
    shared = []
    for parameter in graph.parameters:
        users = tuple(sorted({int(group[v]) for v in parameter.users}))
        if len(users) == 1:
            held[users[0]] += parameter.bytes
        elif users:
            shared.append(SharedParameter(parameter.name, parameter.bytes, users))
    try:
        return ComputationGraph.from_edges(
            edges,
            np.bincount(group, graph.work, minlength=count),
            outputs,
            held,
            names=tuple(graph.names[v] for v in anchor),
            parameters=tuple(shared),
            time_unit=graph.time_unit,
            name=graph.name,
            source=graph.source,
        )
    except InputError as error:
        raise InputError(f"The merged nodes do not form a pipeline: {error}") from error
