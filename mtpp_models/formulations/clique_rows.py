"""Clique rows: few strong rows from pairs of nodes that cannot share a block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.cuts.pair_cuts import row_blocks

__all__ = ["CliqueRow", "cliques", "successions"]


class CliqueRow(NamedTuple):
    """Nodes of which (super)block `block` can hold at most `limit`."""

    block: int
    nodes: tuple[int, ...]
    limit: int


def successions(apart: BoolArray, reach: BoolArray, deadline: Deadline) -> IntArray:
    """(c, 2) pairs (u, v), u before v, that are apart and between which there is no other such pair.

    If u before a before v, and a and v are apart, then so are u and v, and the rows of (a, v) and of the edges from u
    to a are as strong together as that of (u, v). `apart`, (n, n) and symmetric, says which nodes cannot share a block;
    `reach`, (n, n), whether a path, maybe of no edge, leads from the row to the column. Soon after the deadline, what
    was found by then.
    """
    ordered = apart & reach
    strictly = (reach & ~np.eye(len(reach), dtype=bool)).astype(np.float32)
    pairs = ordered.astype(np.float32)
    immediate = np.zeros_like(ordered)
    for rows in row_blocks(len(reach), deadline):
        immediate[rows] = ordered[rows] & (strictly[rows] @ pairs == 0) & (pairs[rows] @ strictly == 0)
    return np.argwhere(immediate)


def cliques(apart: BoolArray, wanted: BoolArray, deadline: Deadline) -> list[tuple[int, ...]]:
    """Cliques that together hold the wanted pairs, as far as a greedy search of at most n cliques gets.

    Both matrices, (n, n), are symmetric; wanted pairs are apart. The nodes of a clique, two or more, are sorted. Soon
    after the deadline, what was found by then.
    """
    chosen: list[tuple[int, ...]] = []
    uncovered = wanted.copy()
    while uncovered.any() and len(chosen) < len(apart) and not deadline.passed:
        clique = [int(uncovered.sum(axis=1).argmax())]
        gain, fits = uncovered[clique[0]].astype(np.int64), apart[clique[0]].copy()
        degree = apart.sum(axis=1) / len(apart)
        while fits.any():
            v = int(np.where(fits, gain + degree, -1.0).argmax())
            clique.append(v)
            gain += uncovered[v]
            fits &= apart[v]
        uncovered[np.ix_(clique, clique)] = False
        chosen.append(tuple(sorted(clique)))
    return chosen
