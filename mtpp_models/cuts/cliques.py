"""Large cliques by a greedy method, compiled by numba."""

from __future__ import annotations

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import IntArray
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["core", "find_clique"]

# Nodes from which a search starts.
_SEEDS = 20


@compiled
def core(adjacent: BoolArray, degree: int) -> BoolArray:
    """(n,) the largest set of nodes that each have at least `degree` neighbours in it.

    `adjacent`, (n, n), is symmetric and without loops.
    """
    n = len(adjacent)
    inside = np.ones(n, dtype=np.bool_)
    neighbours = np.empty(n, dtype=np.int64)
    for v in range(n):
        neighbours[v] = adjacent[v].sum()
    queue = np.empty(n, dtype=np.int64)
    size = done = 0
    for v in range(n):
        if neighbours[v] < degree:
            inside[v], queue[size] = False, v
            size += 1
    while done < size:
        row = adjacent[queue[done]]
        done += 1
        for v in range(n):
            if row[v]:
                neighbours[v] -= 1
                if inside[v] and neighbours[v] < degree:
                    inside[v], queue[size] = False, v
                    size += 1
    return inside


@compiled
def find_clique(adjacent: BoolArray, size: int) -> IntArray | None:
    """(size,) a clique of `size` nodes, at least 1; None if none is found.

    From each of the nodes with most neighbours, add the node that leaves most candidates. `adjacent` is as for `core`.
    """
    n = len(adjacent)
    inside = core(adjacent, size - 1)
    neighbours = np.zeros(n, dtype=np.int64)
    for v in range(n):
        if inside[v]:
            neighbours[v] = (adjacent[v] & inside).sum()
    seeds = np.argsort(-neighbours, kind="mergesort")[: min(_SEEDS, inside.sum())]
    clique, among = np.empty(size, dtype=np.int64), np.empty(n, dtype=np.int64)
    for seed in seeds:
        clique[0], count = seed, 1
        candidates = adjacent[seed] & inside
        for v in range(n):
            among[v] = (adjacent[v] & candidates).sum() if candidates[v] else -1
        remaining = candidates.sum()
        while count < size and count + remaining >= size:
            chosen = np.argmax(among)
            clique[count] = chosen
            count += 1
            for w in range(n):
                if candidates[w] and not adjacent[chosen, w]:
                    candidates[w], among[w] = False, -1
                    remaining -= 1
                    for v in range(n):
                        if candidates[v] and adjacent[w, v]:
                            among[v] -= 1
        if count == size:
            return clique
    return None
