r"""Blocks that a node can be in.

If node v lies in one of the first s blocks, these hold an ideal I, a set without edges into it, around v. Merging them
saves tensors, so that in a partition with a bottleneck below T

.. math:: \mathrm{work}(I) + \mathrm{out}(I) \le \sum_{b \le s} \mathrm{block}_b < s\, T,

where out(I) is the time of all tensors that leave I; overflow only adds to it. The least of the left sides over all
ideals around v is a minimum cut, and so is that over the sets without edges out of them, for the last s blocks. Of two
nodes that cannot share a block, the later one lies at least one block behind. Windows of the question's own are where
all this begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from instances import Instance
from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from mtpp_models.cuts.block_cuts import UNIT, BlockCuts
from mtpp_models.cuts.max_flow import augment

__all__ = ["BlockWindows", "allowed_windows", "windows"]

#: More than the rounding of a sum of floats.
_ROUNDING = 1e-12


class BlockWindows(NamedTuple):
    """First and last (super)block of each node, from 1; two (n,) arrays."""

    first: IntArray
    last: IntArray


def allowed_windows(instance: Instance, sizes: Sequence[int]) -> BlockWindows | None:
    """Superblocks that the constraints allow each node, for superblocks of these sizes; None if all are allowed."""
    if not instance.constraints:
        return None
    home = np.repeat(np.arange(1, len(sizes) + 1), sizes)
    return BlockWindows(home[instance.rules.first], home[instance.rules.last])


def windows(
    instance: Instance, cutoff: float, apart: IntArray | None = None, deadline: Deadline | None = None
) -> BlockWindows:
    """First and last block of each node in all partitions with a bottleneck below `cutoff`.

    Parameters
    ----------
    instance : Instance
        With any number of blocks up to its k, empty ones anywhere.
    cutoff : float
        T, positive.
    apart : (c, 2) integers, optional
        Pairs of nodes that cannot share a block; see `mtpp_models.cuts.conflicts`.
    deadline : Deadline, optional
        Behind it, work alone counts, which takes no cut.

    Returns
    -------
    BlockWindows
        The first block is behind the last one where there is no such partition.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 2, 2], output_bytes=[1, 1, 0])
    >>> first, last = windows(Instance(graph, Platform(k=3, bandwidth=1)), cutoff=4.9)
    >>> first.tolist(), last.tolist()
    ([1, 2, 2], [2, 2, 3])
    """
    n, k, work = instance.graph.n, instance.k, instance.graph.work
    deadline, cuts = deadline or Deadline(), BlockCuts(instance, k * cutoff)
    before = np.zeros((n, n), dtype=bool)
    if apart is not None:
        before[tuple(apart.T)] = before[tuple(apart.T[::-1])] = True
    before &= cuts.reach  # u before v, and not in one block
    first, last = allowed_windows(instance, (1,) * k) or (np.ones(n, dtype=np.int64), np.full(n, k))
    order = instance.graph.topological_order
    for v in order:
        ahead = max(float(work @ cuts.reach_back[v]), _least(cuts, v, deadline, ideal=True))
        first[v] = max(_blocks(ahead, cutoff), first[cuts.reach_back[v]].max(), first[before[:, v]].max(initial=0) + 1)
    for v in order[::-1]:
        behind = max(float(work @ cuts.reach[v]), _least(cuts, v, deadline, ideal=False))
        last[v] = min(
            k + 1 - _blocks(behind, cutoff), last[cuts.reach[v]].min(), last[before[v]].min(initial=k + 1) - 1
        )
    return BlockWindows(first, last)


def _blocks(cost: float, cutoff: float) -> int:
    """Fewest blocks that together can cost `cost` if each costs less than the cutoff."""
    return int(cost / cutoff * (1 - _ROUNDING)) + 1


def _least(cuts: BlockCuts, v: int, deadline: Deadline, *, ideal: bool) -> float:
    """Least cost [time unit] of an ideal with `v`, or, if not `ideal`, of a set without edges out of it.

    It is 0 if time is up.
    """
    if deadline.passed:
        return 0.0
    network, n = cuts.network, len(cuts.reach)
    every, none = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
    before, behind = (none, every) if ideal else (every, none)
    reached = np.zeros(len(network.drain), dtype=bool)
    flow = augment(network, network.capacity.copy(), network.drain.copy(), np.array([v]), before, behind, UNIT, reached)
    return float(cuts.scaled(flow))
