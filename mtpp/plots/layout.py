"""Places of nodes in pictures of graphs: columns from left to right, and rows in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from instances import ComputationGraph, Partition

__all__ = ["block_columns", "depth_columns", "placed"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def block_columns(partition: Partition) -> tuple[FloatArray, list[tuple[float, float]]]:
    """(n,) column of each node: its depth in its block, blocks side by side; and the extent of each block."""
    graph, block = partition.instance.graph, partition.block
    start, successor = graph.successors
    depth = np.zeros(graph.n)
    for u in graph.topological_order:
        for v in successor[start[u] : start[u + 1]]:
            if block[u] == block[v]:
                depth[v] = max(depth[v], depth[u] + 1)
    bounds, left = [], 0.0
    for b in range(partition.instance.k):
        inside = block == b
        right = left + (depth[inside].max() + 1 if inside.any() else 0)
        depth[inside] += left
        bounds.append((left - 0.5, right - 0.5))
        left = right
    return depth, bounds


def depth_columns(graph: ComputationGraph) -> FloatArray:
    """(n,) column of each node: its depth; weights and inputs stand beside their first readers."""
    start, before = graph.predecessors
    column = np.zeros(graph.n, dtype=np.int64)
    for v in graph.topological_order:
        column[v] = 1 + column[before[start[v] : start[v + 1]]].max(initial=-1)
    after, successor = graph.successors
    for v in np.flatnonzero(column == 0):
        column[v] = max(0, column[successor[after[v] : after[v + 1]]].min(initial=column.max() + 1) - 1)
    return column.astype(float)


def placed(graph: ComputationGraph, column: FloatArray, *, sweeps: int, inertia: float) -> FloatArray:
    """(n, 2) column and row of each node: neighbours come near each other by repeated averaging within the columns.

    Inertia is the weight, from 0 to 1, of a node's own row against those of its neighbours.
    """
    by_column = np.argsort(column, kind="stable")
    columns = np.split(by_column, np.flatnonzero(np.diff(column[by_column])) + 1)
    height = _stacked(columns, np.zeros(graph.n))
    u, v = graph.edges.T
    degree = np.maximum(1, np.bincount(u, minlength=graph.n) + np.bincount(v, minlength=graph.n))
    for _ in range(sweeps):
        total = np.bincount(u, height[v], graph.n) + np.bincount(v, height[u], graph.n)
        height = _stacked(columns, inertia * height + (1 - inertia) * total / degree)
    return np.column_stack((column, height))


def _stacked(columns: Sequence[IntArray], wish: FloatArray) -> FloatArray:
    """Rows of the nodes, (n,): one apart in each column and centred, sorted by the rows wanted."""
    height = np.zeros(len(wish))
    for column in columns:
        by_wish = column[np.argsort(wish[column], kind="stable")]
        height[by_wish] = np.arange(len(column)) - (len(column) - 1) / 2
    return height
