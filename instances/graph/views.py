"""Graphs seen another way: layers, merged nodes, parts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, IntArray, SharedParameter, Tensors, sorted_unique, sums_by

# Depth of each node in the network.


def node_layers(graph: ComputationGraph) -> IntArray:
    """Depth of each node in the network, (n,); in training, a gradient has the depth of its forward node.

    It is the attribute ``layer`` if the graph has that. Else it is the number of edges on the longest path to a node
    or, with the attribute ``training``, on the longest path from the node to the end if that is shorter.
    """
    if "layer" in graph.attributes:
        return np.asarray(graph.attributes["layer"], dtype=np.int64)
    depth = depths(graph.topological_order, *graph.predecessors)
    if graph.attributes.get("training"):
        return np.minimum(depth, depths(graph.topological_order[::-1], *graph.successors))
    return depth


def depths(order: IntArray, start: IntArray, neighbour: IntArray) -> IntArray:
    """Number of edges on the longest path to each node, (n,); `neighbour` holds earlier nodes, in compressed rows."""
    depth = np.zeros(len(order), dtype=np.int64)
    for v in order:
        depth[v] = 1 + depth[neighbour[start[v] : start[v + 1]]].max(initial=-1)
    return depth


# Merging of groups of nodes into one node each.


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
        Order of all nodes; the last node of a group in it is its anchor, whose name the group gets.

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
    tensors, home = graph.tensors, group[graph.tensors.producer]
    tensor, reader = transfers(graph, group, count)
    read = sorted_unique(tensor)
    start, ends = np.searchsorted(tensor, read), np.searchsorted(tensor, read, side="right")
    numbers: dict[tuple[int, bytes], int] = {}
    number = np.empty(len(read), dtype=np.int64)
    for i, (at, begin, end) in enumerate(zip(home[read].tolist(), start.tolist(), ends.tolist(), strict=True)):
        number[i] = numbers.setdefault((at, reader[begin:end].tobytes()), len(numbers))
    _, first = np.unique(number, return_index=True)
    by_home = np.argsort(home[read[first]], kind="stable")
    merged = first[by_home]
    lengths = (ends - start)[merged]
    new_start = np.concatenate(([0], np.cumsum(lengths)))
    return Tensors(
        producer=home[read[merged]],
        bytes=sums_by(number, tensors.bytes[read], len(numbers))[by_home],
        start=new_start,
        consumers=reader[np.repeat(start[merged] - new_start[:-1], lengths) + np.arange(new_start[-1])],
    )


def transfers(graph: ComputationGraph, group: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Tensors that leave the group of their node, and the groups that they enter, each tensor once."""
    home, reader = group[graph.tensors.producer], group[graph.tensors.consumers]
    leaves = home[graph.edge_tensor] != reader
    tensor, entered = np.divmod(sorted_unique(graph.edge_tensor[leaves] * count + reader[leaves]), count)
    return tensor, entered


def parameters_by(graph: ComputationGraph, group: IntArray, count: int) -> FloatArray:
    """(count,) parameters of each group of nodes [bytes]; a shared one counts once in each group that uses it."""
    total = sums_by(group, graph.param_bytes, count)
    for parameter in graph.parameters:
        total[np.unique(group[list(parameter.users)])] += parameter.bytes
    return total


# Folding of views: nodes whose output is their input under another name or in another shape.


def fold_views(graph: ComputationGraph, views: Iterable[int]) -> ComputationGraph:
    """Replace each view of a tensor by the tensor itself in the inputs of all nodes.

    A tensor and its views are the same bytes, which a device receives once, whatever they are called.

    Parameters
    ----------
    graph : ComputationGraph
        The graph with views as nodes.
    views : iterable of int
        Nodes. One with work, parameters or state of its own, with several inputs or outputs, or with an output of
        another size than its input stays; so does everything if nothing else would be left.

    Returns
    -------
    ComputationGraph
        The remaining nodes keep their order; the attributes gain `views_folded` if there are any.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 0, 2], output_bytes=[8, 8, 0])
    >>> fold_views(graph, [1]).edges.tolist()
    [[0, 1]]
    """
    first, sizes = graph.output_start.tolist(), graph.tensors.bytes.tolist()
    input_start, inputs = (rows.tolist() for rows in graph.inputs)
    users = {v for parameter in graph.parameters for v in parameter.users}
    seen: dict[int, int | None] = {}  # what the tensor of a view is, None for an input of the network

    def views_one_tensor(v: int) -> bool:
        read = inputs[input_start[v] : input_start[v + 1]]
        outputs = sizes[first[v] : first[v + 1]]
        idle = graph.work[v] == 0 and graph.held_bytes[v] == 0 and v not in users
        same_size = not read or not outputs or sizes[read[0]] == outputs[0]
        return idle and len(read) <= 1 and len(outputs) <= 1 and same_size

    folded = {v for v in views if views_one_tensor(v)}
    if len(folded) in (0, graph.n):
        return graph
    for v in graph.topological_order.tolist():
        if v in folded:
            read = inputs[input_start[v] : input_start[v + 1]]
            source = seen.get(read[0], read[0]) if read else None
            seen |= dict.fromkeys(range(first[v], first[v + 1]), source)

    nodes = [v for v in range(graph.n) if v not in folded]
    node = {v: i for i, v in enumerate(nodes)}
    producer = graph.tensors.producer.tolist()
    edges = []
    for tensor, consumer in zip(graph.edge_tensor.tolist(), graph.tensors.consumers.tolist(), strict=True):
        source = seen.get(tensor, tensor)
        if source is not None and consumer in node:
            u = producer[source]
            edges.append((node[u], node[consumer], source - first[u]))
    return ComputationGraph.from_edges(
        edges,
        graph.work[nodes],
        [sizes[first[v] : first[v + 1]] for v in nodes],
        graph.param_bytes[nodes],
        names=tuple(graph.names[v] for v in nodes),
        parameters=tuple(SharedParameter(p.name, p.bytes, tuple(node[v] for v in p.users)) for p in graph.parameters),
        time_unit=graph.time_unit,
        name=graph.name,
        source=graph.source,
        attributes={**graph.attributes, "views_folded": len(folded)},
        state_bytes=graph.state_bytes[nodes],
    )
