"""Merging of groups of nodes into one node each."""

from __future__ import annotations

import numpy as np

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import IntArray, SharedParameter, Tensors, sorted_unique, sums_by

__all__ = ["merge_graph"]


def merge_graph(
    graph: ComputationGraph, group: IntArray, precedence: IntArray | None = None
) -> tuple[ComputationGraph, IntArray]:
    """Merge the nodes of each group; raise `InputError` if that makes a cycle.

    Work, parameters and states are summed; tensors with the same producer and the same readers become one, and those
    inside a group are gone. Attributes are dropped.

    Parameters
    ----------
    graph : ComputationGraph
        The graph whose nodes are merged.
    group : (n,) integers
        Number of each node's group, from 0 without a gap.
    precedence : (n,) integers, optional
        All nodes; the last one of a group is its anchor, after which the group is called.

    Returns
    -------
    merged : ComputationGraph
        Node i is group i.
    anchor : (n',) integers
        A node of each group.

    Examples
    --------
    >>> path = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 2, 3], output_bytes=[4, 5, 0])
    >>> merged, anchor = merge_graph(path, np.array([0, 0, 1]))
    >>> merged.work.tolist(), merged.tensors.bytes.tolist(), anchor.tolist()
    ([3.0, 3.0], [5.0], [1, 2])
    """
    nodes = np.arange(graph.n) if precedence is None else precedence
    count = int(group.max()) + 1
    anchor = np.zeros(count, dtype=np.int64)
    anchor[group[nodes]] = nodes
    param_bytes = sums_by(group, graph.param_bytes, count)
    shared = []
    for parameter in graph.parameters:
        users = tuple(sorted({int(group[v]) for v in parameter.users}))
        if len(users) == 1:
            param_bytes[users[0]] += parameter.bytes
        elif users:
            shared.append(SharedParameter(parameter.name, parameter.bytes, users))
    try:
        merged = ComputationGraph(
            work=sums_by(group, graph.work, count),
            param_bytes=param_bytes,
            tensors=_merged_tensors(graph, group, count),
            names=tuple(graph.names[v] for v in anchor),
            parameters=tuple(shared),
            time_unit=graph.time_unit,
            name=graph.name,
            source=graph.source,
            state_bytes=sums_by(group, graph.state_bytes, count),
        )
    except InputError as error:
        raise InputError(f"The merged nodes do not form a pipeline: {error}") from error
    return merged, anchor


def _merged_tensors(graph: ComputationGraph, group: IntArray, count: int) -> Tensors:
    tensors = graph.tensors
    home, reader = group[tensors.producer], group[tensors.consumers]
    leaves = home[graph.edge_tensor] != reader
    tensor, reader = np.divmod(sorted_unique(graph.edge_tensor[leaves] * count + reader[leaves]), count)
    read = sorted_unique(tensor)
    start, ends = np.searchsorted(tensor, read), np.searchsorted(tensor, read, side="right")
    numbers: dict[tuple[int, bytes], int] = {}
    number = np.empty(len(read), dtype=np.int64)
    for i, (at, begin, end) in enumerate(zip(home[read].tolist(), start.tolist(), ends.tolist(), strict=True)):
        number[i] = numbers.setdefault((at, reader[begin:end].tobytes()), len(numbers))
    _, first = np.unique(number, return_index=True)
    by_home = np.argsort(home[read[first]], kind="stable")
    kept = first[by_home]
    lengths = (ends - start)[kept]
    new_start = np.concatenate(([0], np.cumsum(lengths)))
    return Tensors(
        producer=home[read[kept]],
        bytes=sums_by(number, tensors.bytes[read], len(numbers))[by_home],
        start=new_start,
        consumers=reader[np.repeat(start[kept] - new_start[:-1], lengths) + np.arange(new_start[-1])],
    )
