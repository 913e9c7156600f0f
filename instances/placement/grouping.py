"""Grouping of operators into single nodes, which makes a graph small enough to place.

First, a node whose tensors are all read by one node joins it (the co-location of Mirhoseini et al., "Device placement
optimization with reinforcement learning", ICML 2017), while the group stays light. Then small groups join a
neighbour, from the smallest up, until as few are left as are wanted. Placeto does both; its thresholds are not known.

The graph of the groups has no cycle. In the first step the only way out of a node leads to the node that it joins. In
the second one, u and v are merged where v is one edge deeper than u; then no other way leads from u to v. As for
pairs that are merged at the same time: each edge leads at least one edge deeper, and only a pair leads back, by one.
So a cycle could only run through pairs of the same depth and from the upper node of one to the lower node of the
next, and such pairs are never chosen together.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from instances.graph.graph import ComputationGraph
from instances.graph.layers import depths, node_layers
from instances.graph.merging import merge_graph
from instances.graph.tensors import IntArray

__all__ = ["GROUPS", "Grouping", "group_nodes"]

#: About as many groups as the graphs of Placeto have.
GROUPS = 150

#: Attributes with a number per node; a group takes that of its heaviest node.
_PER_NODE = ("lane", "layer")


@dataclass(frozen=True, eq=False)
class Grouping:
    """A graph of groups, and which group holds each node."""

    original: ComputationGraph
    graph: ComputationGraph  # of the groups; a group is called by the heaviest of its nodes
    group: IntArray  # (n,): node of `graph` that holds each node of `original`


def group_nodes(graph: ComputationGraph, groups: int = GROUPS) -> Grouping:
    """Merge nodes until at most `groups`, 1 or more, are left, or none has a neighbour.

    The attributes ``lane`` and ``layer`` (see `node_layers`) of a group are those of its heaviest node; other
    attributes are kept.
    """
    if graph.n <= groups:
        return Grouping(graph, graph, np.arange(graph.n))
    layered = replace(graph, attributes={**graph.attributes, "layer": node_layers(graph).tolist()})
    grouping = Grouping(graph, layered, np.arange(graph.n))
    share = float(graph.work.sum()) / groups
    for choose in (_only_readers, _light_neighbours):
        while grouping.graph.n > groups:
            joins = choose(grouping.graph, grouping.graph.n - groups, share)
            if not joins:
                break
            grouping = _join(grouping, joins)
    return grouping


def _only_readers(graph: ComputationGraph, most: int, share: float) -> dict[int, int]:
    """Nodes with a single reader, and this reader, as long as both together have at most `share` of work."""
    start, successor = graph.successors
    work = graph.work
    joins: dict[int, int] = {}
    taken: set[int] = set()
    for u in graph.topological_order[::-1].tolist():
        readers = set(successor[start[u] : start[u + 1]].tolist())
        if len(readers) == 1 and len(joins) < most:
            (v,) = readers
            if v not in taken and u not in taken and work[u] + work[v] <= share:
                joins[u] = v
                taken |= {u, v}
    return joins


def _light_neighbours(graph: ComputationGraph, most: int, _share: float) -> dict[int, int]:
    """The lightest nodes, and for each the neighbour one edge away to or from which it has most bytes."""
    depth = depths(graph.topological_order, *graph.predecessors)
    edges, first = np.unique(graph.edges, axis=0, return_inverse=True)
    size = np.bincount(first.ravel(), graph.tensors.bytes[graph.edge_tensor], minlength=len(edges))
    upper: dict[int, list[int]] = defaultdict(list)
    lower: dict[int, list[int]] = defaultdict(list)
    near: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
    for (u, v), bytes_between in zip(edges.tolist(), size.tolist(), strict=True):
        if depth[v] == depth[u] + 1:
            upper[v].append(u)
            lower[u].append(v)
            near[u].append((-bytes_between, graph.work[v], v))
            near[v].append((-bytes_between, graph.work[u], u))
    joins: dict[int, int] = {}
    chosen_upper, chosen_lower = set[int](), set[int]()
    lightest = [v for v in np.argsort(graph.work, kind="stable").tolist() if near[v]]
    for v in lightest[: len(lightest) // 2]:  # what is merged comes back in the next round, with its new work
        if len(joins) == most:
            break
        for _, _, w in sorted(near[v]):
            above, below = (v, w) if depth[v] < depth[w] else (w, v)
            free = not {above, below} & (chosen_upper | chosen_lower)
            if free and chosen_lower.isdisjoint(lower[above]) and chosen_upper.isdisjoint(upper[below]):
                joins[v] = w
                chosen_upper.add(above)
                chosen_lower.add(below)
                break
    return joins


def _join(grouping: Grouping, joins: dict[int, int]) -> Grouping:
    """Merge each key of `joins` with its value."""
    graph = grouping.graph
    label = np.arange(graph.n)
    label[list(joins)] = list(joins.values())
    _, label = np.unique(label, return_inverse=True)
    heaviest_last = np.argsort(graph.work, kind="stable")
    merged, heaviest = merge_graph(graph, label, heaviest_last)
    attributes = dict(graph.attributes)
    for name in attributes.keys() & _PER_NODE:
        attributes[name] = [attributes[name][v] for v in heaviest.tolist()]
    smaller = replace(merged, attributes=attributes)
    return Grouping(grouping.original, smaller, label[grouping.group])
