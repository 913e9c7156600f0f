"""Checks that make arrays of columns of numbers and lists of edges; errors name the place."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray, SharedParameter

_NON_NEGATIVE = "it must be a finite number, 0 or more."

_CYCLE_SHOWN = 8


def index_range(n: int) -> str:
    """End of an error message on an index out of range."""
    return f"does not exist; indices run from 0 to {n - 1}."


def numbers(values: ArrayLike, label: str) -> FloatArray:
    """Copy a plain list of numbers into an array."""
    for i in [i for i, value in enumerate(values) if value is None] if isinstance(values, list | tuple) else ():
        raise InputError(f"Node {i}: {label} is missing; give a number, 0 if there is none.")
    try:
        array = np.atleast_1d(np.array(values, dtype=np.float64)) + 0.0  # no negative zero: it would change hashes
    except (TypeError, ValueError):
        raise InputError(f"The {label} holds something that is not a number; give numbers.") from None
    if array.ndim > 1:
        raise InputError(f"The {label} has {array.ndim} dimensions; give a plain list.")
    return array


def check_weights(values: FloatArray, label: str, nodes: IntArray | Sequence[int], names: Sequence[str]) -> None:
    """Refuse a weight that is negative or not finite; the error names its node."""
    for i in np.flatnonzero(~(np.isfinite(values) & (values >= 0)))[:1]:
        raise InputError(f"Node {nodes[i]} ({names[nodes[i]]}): {label} is {values[i]}; {_NON_NEGATIVE}")


def check_edges(producer: IntArray, edges: IntArray, names: Sequence[str]) -> None:
    """Refuse an edge from or to a node that does not exist, or from a node to itself."""
    n = len(names)
    for t in np.flatnonzero(producer >= n)[:1]:
        raise InputError(f"Tensor {t}: producer {producer[t]} {index_range(n)}")
    for u, v in edges[((edges < 0) | (edges >= n)).any(axis=1)][:1]:
        raise InputError(f"Edge {u} -> {v}: node {u if not 0 <= u < n else v} {index_range(n)}")
    for u, _ in edges[edges[:, 0] == edges[:, 1]][:1]:
        raise InputError(f"Edge {u} -> {u} ({names[u]}) is a self-loop; remove it.")


def check_parameters(parameters: Iterable[SharedParameter], n: int) -> None:
    """Refuse a shared parameter whose size is invalid, or whose user does not exist."""
    for parameter in parameters:
        if not (np.isfinite(parameter.bytes) and parameter.bytes >= 0):
            raise InputError(f"Parameter {parameter.name}: bytes is {parameter.bytes}; {_NON_NEGATIVE}")
        for user in parameter.users:
            if not 0 <= user < n:
                raise InputError(f"Parameter {parameter.name}: user {user} {index_range(n)}")


def output_sizes(output_bytes: Sequence[float | Sequence[float]] | FloatArray) -> tuple[FloatArray, IntArray]:
    """Sizes of all outputs, and the index of the first one of each node."""
    if isinstance(output_bytes, np.ndarray) and output_bytes.ndim == 1:
        return numbers(output_bytes, "output_bytes"), np.arange(len(output_bytes) + 1)
    rows = [row if isinstance(row, list | tuple | np.ndarray) else (row,) for row in output_bytes]
    try:
        sizes = np.array([size for row in rows for size in row], dtype=np.float64) + 0.0
        counts = [len(row) for row in rows]
    except (TypeError, ValueError):
        sizes = np.zeros((0, 0))
    if sizes.ndim > 1:  # say which node is wrong
        each = [numbers(row, f"output_bytes of node {v}") for v, row in enumerate(output_bytes)]
        sizes, counts = np.concatenate(each), [len(row) for row in each]
    return sizes, np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def edge_keys(edges: Iterable[Sequence[int]], first: IntArray, n: int) -> IntArray:
    """Key of each edge: tensor · n + consumer."""
    rows = edges if isinstance(edges, np.ndarray) else list(edges)
    try:
        table = np.array(rows)
    except ValueError:  # of different lengths
        table = np.zeros(0)
    if table.dtype.kind == "i" and table.ndim == 2 and table.shape[1] in (2, 3):
        u, v = table[:, 0], table[:, 1]
        output = table[:, 2] if table.shape[1] == 3 else np.zeros_like(u)
        if ((table[:, :2] >= 0) & (table[:, :2] < n)).all() and ((output >= 0) & (output < np.diff(first)[u])).all():
            return (first[u] + output) * n + v
    pairs = [_tensor_and_consumer(edge, first, n) for edge in rows]  # finds what is wrong
    return np.array([tensor * n + consumer for tensor, consumer in pairs], dtype=np.int64)


def _tensor_and_consumer(edge: Sequence[int], first: IntArray, n: int) -> tuple[int, int]:
    try:
        u, v, output = map(operator.index, edge if len(edge) == 3 else (*edge, 0))
    except (TypeError, ValueError):
        raise InputError(f"Edge {edge} is not (u, v) or (u, v, output) in whole numbers.") from None
    if not (0 <= u < n and 0 <= v < n):
        raise InputError(f"Edge {u} -> {v}: node {u if not 0 <= u < n else v} {index_range(n)}")
    if not 0 <= output < first[u + 1] - first[u]:
        raise InputError(
            f"Edge {u} -> {v} reads output {output} of node {u}, which has {first[u + 1] - first[u]}; "
            "outputs are numbered from 0."
        )
    return int(first[u] + output), v


def describe_cycle(predecessors: tuple[IntArray, IntArray], sorted_nodes: IntArray, names: Sequence[str]) -> str:
    """Describe a cycle among the nodes that have no place in a topological order."""
    # Each of them has a predecessor that has none either: some walk backwards comes round.
    start, before = (rows.tolist() for rows in predecessors)
    unsorted = set(range(len(names))) - set(sorted_nodes.tolist())
    walk: list[int] = []
    place: dict[int, int] = {}
    u = min(unsorted)
    while u not in place:
        place[u] = len(walk)
        walk.append(u)
        u = next(p for p in before[start[u] : start[u + 1]] if p in unsorted)
    cycle = walk[place[u] :][::-1]
    first = cycle.index(min(cycle))
    cycle = cycle[first:] + cycle[:first]
    steps = [f"{u} ({names[u]})" for u in cycle[:_CYCLE_SHOWN]]
    if len(cycle) > _CYCLE_SHOWN:
        steps.append(f"… {len(cycle) - _CYCLE_SHOWN} more")
    return " -> ".join([*steps, steps[0]])
