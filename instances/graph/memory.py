"""Figures of a graph: bytes that its nodes touch, and its summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, sorted_unique

# Memory of single nodes: the bytes that a device must hold to run one of them alone.


def held_alone(graph: ComputationGraph) -> FloatArray:
    """Parameters and states of each node, (n,), shared parameters included [bytes]."""
    resident_bytes = graph.held_bytes.copy()
    for parameter in graph.parameters:
        resident_bytes[list(parameter.users)] += parameter.bytes
    return resident_bytes


def touched_bytes(graph: ComputationGraph) -> FloatArray:
    """Tensors that each node reads or writes, (n,), which are live while it runs [bytes]."""
    tensors = graph.tensors
    touched = np.bincount(tensors.producer, tensors.bytes, graph.n)
    touched += np.bincount(tensors.consumers, tensors.bytes[graph.edge_tensor], graph.n)
    return touched.astype(np.float64)


# Summary of a graph: sizes, work, width and heaviest node.


# Largest graph whose width is computed; a flow through more takes too long.
_MOST_NODES = 20_000


@dataclass(frozen=True)
class Summary:
    """Summary of a graph, as `mtpp import` prints it."""

    name: str
    source: str
    nodes: int
    edges: int  # pairs (tensor, consumer)
    work: float  # of all nodes [`time_unit`]
    time_unit: str
    param_bytes: float  # of all parameters, shared ones once [bytes]
    state_bytes: float  # of all that nodes keep [bytes]
    tensor_bytes: float  # of all tensors that are read [bytes]
    # Size of the widest antichain, that is of the largest set of nodes none of which waits for another; None for a
    # graph of more than 20 000 nodes.
    width: int | None
    heaviest_node: str  # name of a node with the most work
    heaviest_work: float  # its work, below which no bottleneck goes
    attributes: dict[str, Any]  # those of the graph: what its reader could not price, among others


def summarise(graph: ComputationGraph) -> Summary:
    """Describe a graph.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2)], work=[1, 2, 3], output_bytes=[10, 0, 0])
    >>> summary = summarise(graph)
    >>> summary.work, summary.width, summary.heaviest_node
    (6.0, 2, '2')
    """
    heaviest = int(graph.work.argmax())
    read = np.diff(graph.tensors.start) > 0
    return Summary(
        name=graph.name,
        source=graph.source,
        nodes=graph.n,
        edges=graph.m,
        work=float(graph.work.sum()),
        time_unit=graph.time_unit,
        param_bytes=graph.parameter_total,
        state_bytes=float(graph.state_bytes.sum()),
        tensor_bytes=float(graph.tensors.bytes[read].sum()),
        width=width(graph) if graph.n <= _MOST_NODES else None,
        heaviest_node=graph.names[heaviest],
        heaviest_work=float(graph.work[heaviest]),
        attributes=dict(graph.attributes),
    )


def width(graph: ComputationGraph) -> int:
    """Number of nodes in the largest antichain.

    By Dilworth's theorem this is the least number of paths that together visit every node; paths may share nodes. It is
    computed as a minimum flow with at least one unit through each node.
    """
    import scipy

    n = graph.n
    enter, leave = 2 * np.arange(n), 2 * np.arange(n) + 1  # each node is an edge of the network of flows
    source, sink = 2 * n, 2 * n + 1
    start, before = (rows.tolist() for rows in graph.predecessors)
    demand = np.zeros(n, dtype=np.int64)  # what the nodes behind take; each takes all from one node before it
    parent = np.array([before[start[v]] if start[v] < start[v + 1] else -1 for v in range(n)])
    for v in graph.topological_order[::-1].tolist():
        if parent[v] >= 0:
            demand[parent[v]] += max(1, demand[v])
    flow = np.maximum(1, demand)

    edges = sorted_unique(graph.edges[:, 0] * n + graph.edges[:, 1])
    back = (  # from, to, and by how much the flow the other way can be changed
        (leave, enter, flow - 1),
        (enter, leave, np.full(n, n)),
        (np.full(n, sink), leave, flow - demand),
        (enter, np.where(parent < 0, source, 2 * parent + 1), flow),
        (2 * (edges // n) + 1, 2 * (edges % n), np.full(len(edges), n)),
    )
    rows, columns, room = (np.concatenate(column) for column in zip(*back, strict=True))
    shape = (2 * n + 2, 2 * n + 2)
    network = scipy.sparse.coo_array((room.astype(np.int32), (rows, columns)), shape=shape).tocsr()
    return int(flow[parent < 0].sum()) - int(scipy.sparse.csgraph.maximum_flow(network, sink, source).flow_value)
