"""Folding of views: nodes whose output is their input under another name or in another shape."""

from __future__ import annotations

from collections.abc import Iterable

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import SharedParameter

__all__ = ["fold_views"]


def fold_views(graph: ComputationGraph, views: Iterable[int]) -> ComputationGraph:
    """Let the readers of a view read what it views.

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
        made = sizes[first[v] : first[v + 1]]
        idle = graph.work[v] == 0 and graph.held_bytes[v] == 0 and v not in users
        return idle and len(read) <= 1 and len(made) <= 1 and (not read or not made or sizes[read[0]] == made[0])

    folded = {v for v in views if views_one_tensor(v)}
    if len(folded) in (0, graph.n):
        return graph
    for v in graph.topological_order.tolist():
        if v in folded:
            read = inputs[input_start[v] : input_start[v + 1]]
            source = seen.get(read[0], read[0]) if read else None
            seen |= dict.fromkeys(range(first[v], first[v + 1]), source)

    kept = [v for v in range(graph.n) if v not in folded]
    node = {v: i for i, v in enumerate(kept)}
    producer = graph.tensors.producer.tolist()
    edges = []
    for tensor, consumer in zip(graph.edge_tensor.tolist(), graph.tensors.consumers.tolist(), strict=True):
        source = seen.get(tensor, tensor)
        if source is not None and consumer in node:
            u = producer[source]
            edges.append((node[u], node[consumer], source - first[u]))
    return ComputationGraph.from_edges(
        edges,
        graph.work[kept],
        [sizes[first[v] : first[v + 1]] for v in kept],
        graph.param_bytes[kept],
        names=tuple(graph.names[v] for v in kept),
        parameters=tuple(SharedParameter(p.name, p.bytes, tuple(node[v] for v in p.users)) for p in graph.parameters),
        time_unit=graph.time_unit,
        name=graph.name,
        source=graph.source,
        attributes={**graph.attributes, "views_folded": len(folded)},
        state_bytes=graph.state_bytes[kept],
    )
