r"""Pairs of nodes that no cheap partition puts into one block.

A block that holds u and v is a convex set around both, so it costs at least :math:`L(\{u, v\})`, the minimum cut of
`mtpp_models.cuts.block_cuts` around u, v and all nodes between them. If that is T or more, u and v lie in different
blocks of every partition with a bottleneck below T.

A convex set S that holds u and v and has f(S) < T shows that :math:`L(\{u, v\}) < T`: it satisfies whatever the cut
asks for. So one such set clears all its pairs, and most pairs need no cut; see `mtpp_models.cuts.pair_cuts`.
"""

from __future__ import annotations

import numpy as np

from instances import Instance
from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from mtpp_models.cuts.block_cuts import UNIT, BlockCuts
from mtpp_models.cuts.pair_cuts import PairCuts

__all__ = ["conflicts"]


def conflicts(instance: Instance, cutoff: float, deadline: Deadline | None = None) -> IntArray:
    """All pairs of nodes that partitions with a bottleneck below `cutoff` put into different blocks by this proof.

    Pairs (u, v), the rows of (c, 2) integers, have u < v and are sorted.

    Parameters
    ----------
    instance : Instance
        The question; its constraints do not count.
    cutoff : float
        T, positive.
    deadline : Deadline, optional
        Soon after it, return the pairs that were found.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 1, 3], output_bytes=[1, 1, 0])
    >>> conflicts(Instance(graph, Platform(k=2, bandwidth=1)), cutoff=4.5).tolist()
    [[0, 2], [1, 2]]
    """
    deadline = deadline or Deadline()
    pairs = PairCuts(BlockCuts(instance, cutoff), UNIT - 1, deadline)
    for u in range(instance.graph.n):
        if not pairs.resolve(u, deadline):
            break
    return np.argwhere(np.triu(pairs.cost) > 0)
