"""Reductions of a question that keep its optimum, and families of equal branches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.devices import Platform
from instances.graph.graph import ComputationGraph
from instances.graph.memory import held_alone
from instances.graph.tensors import FloatArray, IntArray, components, sums_by
from instances.graph.views import depths, merge_graph
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance

# Equal branches of a network: lists of nodes that can change places, such as experts or attention heads.
#
# Candidates are found by colours: numbers of nodes, refined by what they read and who reads them. From two nodes of one
# colour a map grows along the neighbours that only one of them has. Such a map is only a guess; each exchange is then
# checked tensor by tensor, and maps that fail are left out.


# Nodes of the longest branch; neighbours that are looked at in all, some tenths of a second of work; and as how many of
# them a pair of nodes counts besides.
_LONGEST, _MOST_LOOKED_AT, _PAIR = 64, 8_000_000, 200
_MOST_ROUNDS = 64

_Hashes = NDArray[np.uint64]


def families(instance: Instance) -> tuple[IntArray, ...]:
    """Families of equal branches: exchanging two branches, node by node, does not change the question.

    Nodes that change places have equal work, parameters, states, needs and constraints, and the tensors of each
    producer, as pairs of bytes and readers, become those of its image. Numbers that differ only in the last bit count
    as different. Families inside branches are not searched for.

    Parameters
    ----------
    instance : Instance
        Best after its reductions, as equal branches are then shorter.

    Returns
    -------
    tuple of (e, l) integers
        For each family a matrix with one row for each of its e branches of l nodes. No node occurs twice.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> edges = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)]
    >>> graph = ComputationGraph.from_edges(edges, work=[1, 2, 2, 3, 3, 1], output_bytes=[1, 4, 4, 5, 5, 0])
    >>> [family.tolist() for family in families(Instance(graph, Platform(2, bandwidth=1)))]
    [[[1, 3], [2, 4]]]
    """
    if instance.constraints and instance.rules.has_groups:
        return ()
    values = _values(instance)
    colour = _colours(instance, values)
    order = np.argsort(colour, kind="stable")
    classes = np.split(order, np.flatnonzero(np.diff(colour[order])) + 1)
    several = sorted((nodes.tolist() for nodes in classes if len(nodes) > 1), key=lambda nodes: nodes[0])
    return _Finder(instance, values, colour).find(several) if several else ()


def _values(instance: Instance) -> FloatArray:
    """(n, c) numbers that must be equal for two nodes to be exchangeable: work, bytes, windows."""
    graph, n = instance.graph, instance.graph.n
    need = instance.needs if instance.needs_peaks else np.zeros(n)
    columns: list[FloatArray | IntArray] = [graph.work, graph.param_bytes, graph.state_bytes, need]
    if instance.constraints:
        rules = instance.rules
        columns += [rules.first, rules.last, *rules.counted]
    return np.column_stack(columns).astype(np.float64)


def _colours(instance: Instance, values: FloatArray) -> IntArray:
    """(n,) colours of the nodes; nodes exchanged by an automorphism have the same."""
    graph, tensors = instance.graph, instance.graph.tensors
    order = graph.topological_order
    ends = depths(order, *graph.predecessors), depths(order[::-1], *graph.successors)
    colour = _numbered(np.column_stack((values, *ends)))
    size = _numbered(tensors.bytes[:, None]) if len(tensors.bytes) else np.zeros(0, dtype=np.int64)
    for _ in range(_MOST_ROUNDS):
        count = colour.max() + 1
        code = _mixed(colour, 1)
        of_tensor = _mixed(size, 2) + code[tensors.producer]
        np.add.at(of_tensor, graph.edge_tensor, _mixed(code[tensors.consumers], 3))
        of_node = _mixed(code, 4)
        np.add.at(of_node, tensors.producer, _mixed(of_tensor, 5))
        np.add.at(of_node, tensors.consumers, _mixed(of_tensor[graph.edge_tensor], 6))
        colour = _numbered(of_node[:, None])
        if colour.max() + 1 <= count or count == graph.n:
            break
    return colour


def _numbered(rows: NDArray[Any]) -> IntArray:
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _mixed(numbers: IntArray | _Hashes, salt: int) -> _Hashes:
    """Hash each number (the finalizer of splitmix64)."""
    x = numbers.astype(np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


class _Finder:
    """Search for families in an instance whose nodes have colours."""

    def __init__(self, instance: Instance, values: FloatArray, colour: IntArray) -> None:
        graph = instance.graph
        self._values, self._colour = values, colour.tolist()
        self._bytes, self._producer = graph.tensors.bytes.tolist(), graph.tensors.producer.tolist()
        self._readers = _lists(graph.tensors.start, graph.tensors.consumers)
        self._outputs = [range(a, b) for a, b in pairwise(graph.output_start.tolist())]
        self._inputs = _lists(*graph.inputs)
        self._near = [[set(nodes) for nodes in _lists(*rows)] for rows in (graph.predecessors, graph.successors)]
        self._shared = [(parameter.bytes, frozenset(parameter.users)) for parameter in graph.parameters]
        self._uses: dict[int, list[int]] = {}
        for g, (_, users) in enumerate(self._shared):
            for v in users:
                self._uses.setdefault(v, []).append(g)
        self._left = _MOST_LOOKED_AT

    def find(self, classes: Sequence[Sequence[int]]) -> tuple[IntArray, ...]:
        """Families of the nodes of each colour."""
        families, used = list[IntArray](), set[int]()
        for nodes in classes:
            for number, u in enumerate(nodes):
                if self._left < 0:
                    return tuple(families)
                if u in used:
                    continue
                rows = self._family(u, nodes[number + 1 :], used)
                if len(rows) > 1:
                    families.append(np.array(rows, dtype=np.int64))
                    used.update(*rows)
        return tuple(families)

    def _family(self, u: int, others: Sequence[int], used: set[int]) -> list[tuple[int, ...]]:
        """A branch of node u with all branches that can change places with it; of several the largest.

        If B_1 can change places with B_2 and with B_3, these can with one another: by way of B_1.
        """
        images: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for v in others:
            if v not in used and (image := self._grown(u, v)) is not None:
                branch = tuple(sorted(image))
                images.setdefault(branch, []).append(tuple(image[a] for a in branch))
        for branch in sorted(images, key=lambda branch: -len(branch) * len(images[branch])):
            rows, occupied = [branch], used | set(branch)
            if not used.isdisjoint(branch):
                continue
            for row in images[branch]:
                if occupied.isdisjoint(row) and self._can_exchange(branch, row):
                    rows.append(row)
                    occupied.update(row)
            if len(rows) > 1:
                return rows
        return []

    def _grown(self, u: int, v: int) -> dict[int, int] | None:
        """Extend the pair u, v to two branches along neighbours that they do not share; None if that fails."""
        image, moved, pairs = {u: v}, {u, v}, [(u, v)]
        for a, b in pairs:
            for near in self._near:
                self._left -= _PAIR + len(near[a]) + len(near[b])
                mine, other = near[a] - near[b], near[b] - near[a]
                mapped = {c for c in mine if image.get(c) in other}
                new, new_other = (
                    sorted(nodes, key=lambda c: (self._colour[c], c))
                    for nodes in (mine - mapped, other - {image[c] for c in mapped})
                )
                if [self._colour[c] for c in new] != [self._colour[c] for c in new_other]:
                    return None
                for c, d in zip(new, new_other, strict=True):
                    if self._left < 0 or len(image) == _LONGEST or c in moved or d in moved:
                        return None
                    image[c] = d
                    moved |= {c, d}
                    pairs.append((c, d))
        return image

    def _can_exchange(self, branch: Sequence[int], other: Sequence[int]) -> bool:
        """Whether exchanging two disjoint branches is an automorphism.

        A tensor that moves no reader out of its readers, and whose producer stays, becomes itself. All others together
        have to become one another, and so have the parameters of several users.
        """
        image = dict(zip((*branch, *other), (*other, *branch), strict=True))
        if not np.array_equal(self._values[list(branch)], self._values[list(other)]):
            return False
        read, used = dict[int, set[int]](), dict[int, set[int]]()
        for v in image:
            for t in self._inputs[v]:
                read.setdefault(t, set()).add(v)
            for g in self._uses.get(v, ()):
                used.setdefault(g, set()).add(v)
        self._left -= sum(len(nodes) for nodes in read.values())
        tensors = {t for t, nodes in read.items() if {image[v] for v in nodes} != nodes}
        tensors |= {t for v in image for t in self._outputs[v]}
        parameters = [g for g, nodes in used.items() if {image[v] for v in nodes} != nodes]
        before = Counter((self._producer[t], self._bytes[t], frozenset(self._readers[t])) for t in tensors)
        after = Counter(
            (image.get(self._producer[t], self._producer[t]), self._bytes[t], _image(self._readers[t], image))
            for t in tensors
        )
        return before == after and Counter(self._shared[g] for g in parameters) == Counter(
            (self._shared[g][0], _image(self._shared[g][1], image)) for g in parameters
        )


def _image(nodes: Sequence[int] | frozenset[int], image: dict[int, int]) -> frozenset[int]:
    return frozenset(image.get(v, v) for v in nodes)


def _lists(start: IntArray, values: IntArray) -> list[list[int]]:
    flat, ends = values.tolist(), start.tolist()
    return [flat[a:b] for a, b in pairwise(ends)]


# Merge nodes that some optimal partition keeps together, and map answers back.
#
# Two reductions are lossless:
#
# (a) A source without work whose tensors are read by one node alone joins that node. Wherever a partition puts
#     the source, moving it to its reader saves sending and receiving its tensors and adds no work.
# (b) A sink without work that reads from one node alone joins that node. Moving it there saves receiving, and
#     the producer's block sends no more than before.
#
# Operator graphs hold parameters and constants as such nodes. If the memory is finite, what the moved node holds
# (parameters and state) may overflow where it goes. That costs at most the bytes held over B, so the saving must be
# at least as large: for (a) the bytes of its tensors that are read, for (b) those of the tensors that it reads
# alone. Where all that is held and the buffer fit into one block nothing can overflow. If no activation buffer is
# fixed, peaks depend on single nodes, and nothing is merged unless the memory is infinite. Where the memory is a hard
# limit no saving pays for what does not fit: only nodes that hold nothing are moved.
#
# Over kinds of devices both hold where the node that moves has no work on any kind: what it saves and what may
# overflow, where it goes, take the same bandwidth, that of the device of that block; and where nothing can overflow on
# the smallest memory, nothing can on any. With a rate for each pair of kinds they do not: what a node reads may pass
# faster than what it makes.
#
# Nodes that have to share a block are merged before, whatever it costs. A node moves only to where it may be, and not
# if it counts for a least number.


@dataclass(frozen=True, eq=False)
class Contraction:
    """A smaller question, and the map of its answers to the original one.

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
    """(n,) order of the nodes that follows an order of their groups, and is topological within each group."""
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
        soft = instance.needs_peaks or instance.rates is not None
        return _over_kinds(instance, contract_groups if soft else reduce_instance)
    result = contract_groups(instance)
    if instance.needs_peaks:
        return result
    while True:
        moves = _moves(result.instance)
        if not moves:
            return result
        step = contract(result.instance, moves)
        result = Contraction(instance, step.instance, step.group[result.group], result.anchor[step.anchor])


def _over_kinds(instance: Instance, reduce: Callable[[Instance], Contraction]) -> Contraction:
    """Reduce a question over kinds of devices by reducing one with alike devices, whose work is the sum over all kinds.

    What may be merged there may be merged on each kind, as a sum is 0 only if all works are.
    """
    least = min(kind.memory for kind in instance.machines.kinds)
    alike = Platform(instance.k, 1.0, least, instance.activation_buffer, instance.fit and least < math.inf)
    # A sum of works may lose a small one, but is 0 only where all are.
    summed = replace(instance.graph, work=instance.finite_works.sum(axis=0))
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
    if not instance.is_alike:
        return _over_kinds(instance, contract_groups)
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
    pairs = np.array(list(moves.items()), dtype=np.int64).reshape(-1, 2)
    sources = pairs[:, 0]
    # The node that does not move comes last and so becomes the anchor.
    precedence = np.append(sources, np.delete(np.arange(n), sources))
    return merge(instance, components(pairs, n, directed=False), precedence)


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
    """Windows and `at_least` rules, in the numbers of merged nodes; groups are merged already."""
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
    """For each node without work that can be merged, the node that it joins; some merges become possible only later."""
    graph = instance.graph
    fits = _fits(instance)
    params, read_bytes, alone_bytes = _bytes_at_stake(graph)
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
            if len(targets) == 1 and (fits or params[v] <= saved[v]):
                (target,) = targets
                if target not in goes and may_join(v, target):
                    goes[v] = target
                    stays.add(target)
    return goes


def _may_join(instance: Instance) -> Callable[[int, int], bool]:
    """Predicate of (v, target): whether v may be in every block of `target`, and no `at_least` rule counts v."""
    if not instance.constraints:
        return lambda v, target: True
    rules = instance.rules
    counts = rules.counted.sum(axis=0) > 0
    return lambda v, target: bool(
        rules.first[v] <= rules.first[target] and rules.last[target] <= rules.last[v] and not counts[v]
    )


def _fits(instance: Instance) -> bool:
    """Whether no partition can overflow the memory; rounding is taken into account."""
    graph, platform = instance.graph, instance.platform
    sizes = (*graph.param_bytes.tolist(), *graph.state_bytes.tolist(), *(p.bytes for p in graph.parameters))
    return not instance.limits_memory or math.fsum((*sizes, platform.activation_buffer or 0.0, -platform.memory)) <= 0


def _bytes_at_stake(graph: ComputationGraph) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bytes of each node's parameters and states, of its outputs, and of the tensors that only it reads."""
    tensors = graph.tensors
    readers = np.diff(tensors.start)
    alone = readers[graph.edge_tensor] == 1
    return (
        held_alone(graph),
        sums_by(tensors.producer, tensors.bytes * (readers > 0), graph.n),
        sums_by(tensors.consumers, tensors.bytes[graph.edge_tensor] * alone, graph.n),
    )
