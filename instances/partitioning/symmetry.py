"""Equal branches of a network: lists of nodes that can change places, such as experts or attention heads.

Candidates are found by colours: numbers of nodes, refined by what they read and who reads them. From two nodes of one
colour a map grows along the neighbours that only one of them has. What is found is only a guess; each exchange is then
checked tensor by tensor, and what fails is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.graph.layers import depths
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.problem import Instance

__all__ = ["families"]

# Nodes of the longest branch; neighbours that are looked at in all, some tenths of a second of work; and as how many of
# them a pair of nodes counts besides.
_LONGEST, _MOST_LOOKED_AT, _PAIR = 64, 8_000_000, 200
_MOST_ROUNDS = 64

_Hashes = NDArray[np.uint64]


def families(instance: Instance) -> tuple[IntArray, ...]:
    """Families of equal branches: an exchange of two branches, node by node, leaves the question as it is.

    Nodes that change places have equal work, parameters, states, needs and constraints, and the tensors of each
    producer, as pairs of bytes and readers, become those of its image. Numbers that differ in the last bit differ.
    Families inside of branches are not looked for.

    Parameters
    ----------
    instance : Instance
        Best after its reductions, as equal branches are then shorter.

    Returns
    -------
    tuple of (e, l) integers
        Of each family e branches of l nodes, a row a branch; no node is named twice. Empty where there are none.

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
    """Numbers of each node that have to be the same in all branches, (n, c)."""
    graph, n = instance.graph, instance.graph.n
    need = instance.needs if instance.needs_peaks else np.zeros(n)
    columns: list[FloatArray | IntArray] = [graph.work, graph.param_bytes, graph.state_bytes, need]
    if instance.constraints:
        rules = instance.rules
        columns += [rules.first, rules.last, *rules.counted]
    return np.column_stack(columns).astype(np.float64)


def _colours(instance: Instance, values: FloatArray) -> IntArray:
    """Colours of the nodes, (n,), the same for those that an automorphism exchanges."""
    graph, tensors = instance.graph, instance.graph.tensors
    order = graph.topological_order
    ends = depths(order, *graph.predecessors), depths(order[::-1], *graph.successors)
    colour = _numbered(np.column_stack((values, *ends)))
    size = _numbered(tensors.bytes[:, None]) if len(tensors.bytes) else np.zeros(0, dtype=np.int64)
    for _ in range(_MOST_ROUNDS):
        count = colour.max() + 1
        own = _mixed(colour, 1)
        of_tensor = _mixed(size, 2) + own[tensors.producer]
        np.add.at(of_tensor, graph.edge_tensor, _mixed(own[tensors.consumers], 3))
        of_node = _mixed(own, 4)
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
        found, used = list[IntArray](), set[int]()
        for nodes in classes:
            for number, u in enumerate(nodes):
                if self._left < 0:
                    return tuple(found)
                if u in used:
                    continue
                rows = self._family(u, nodes[number + 1 :], used)
                if len(rows) > 1:
                    found.append(np.array(rows, dtype=np.int64))
                    used.update(*rows)
        return tuple(found)

    def _family(self, u: int, others: Sequence[int], used: set[int]) -> list[tuple[int, ...]]:
        """The branch of u and those that can change places with it; of several branches of u the one that moves most.

        If B_1 can change places with B_2 and with B_3, these can with one another: by way of B_1.
        """
        images: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for v in others:
            if v not in used and (image := self._grown(u, v)) is not None:
                branch = tuple(sorted(image))
                images.setdefault(branch, []).append(tuple(image[a] for a in branch))
        for branch in sorted(images, key=lambda branch: -len(branch) * len(images[branch])):
            rows, taken = [branch], used | set(branch)
            if not used.isdisjoint(branch):
                continue
            for row in images[branch]:
                if taken.isdisjoint(row) and self._can_exchange(branch, row):
                    rows.append(row)
                    taken.update(row)
            if len(rows) > 1:
                return rows
        return []

    def _grown(self, u: int, v: int) -> dict[int, int] | None:
        """Map from the branch of u to that of v, along neighbours that only one of a pair has; None without one."""
        image, moved, pairs = {u: v}, {u, v}, [(u, v)]
        for a, b in pairs:
            for near in self._near:
                self._left -= _PAIR + len(near[a]) + len(near[b])
                mine, other = near[a] - near[b], near[b] - near[a]
                known = {c for c in mine if image.get(c) in other}
                new, new_other = (
                    sorted(nodes, key=lambda c: (self._colour[c], c))
                    for nodes in (mine - known, other - {image[c] for c in known})
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
        """Whether the exchange of two disjoint branches is an automorphism: the check on which all rests.

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
