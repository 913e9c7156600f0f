r"""Superblocks with capacities: fewer, larger blocks bound the bottleneck of many.

Merge consecutive blocks of a partition so that superblock b holds :math:`s_b` of them, :math:`s_1 + \\dots + s_j = k`.
Tensors inside a superblock vanish and shared ones merge, so it costs no more than its blocks together:

.. math::

    \min\; & \mathrm{bottleneck}                                                            \\
    & s_b \cdot \mathrm{bottleneck} \ge \mathrm{block}_b          & \forall b \le j             (6')

subject to (7) to (12) with j blocks is a lower bound on OPT for k blocks. Sizes (k) give the work per block, sizes
(1, …, 1) the exact model. The fast memory of a superblock is that of its blocks, :math:`s_b (M - \mathrm{buffer})`.

Equal sizes k / j give :math:`k \cdot \mathrm{OPT}_k \ge j \cdot \mathrm{OPT}_j` where the memory is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instances import InputError, Partition
from instances.graph.tensors import IntArray
from mtpp_models.formulations.exact import exact
from mtpp_models.formulations.formulation import Case, Formulation, ScaledInstance, block_ranks

__all__ = ["coarse", "equal_sizes", "merged"]


def equal_sizes(k: int, j: int) -> tuple[int, ...]:
    """Sizes of j superblocks that hold k blocks as evenly as possible, larger ones first.

    Examples
    --------
    >>> equal_sizes(8, 3)
    (3, 3, 2)
    """
    return tuple(k // j + (b < k % j) for b in range(j))


def coarse(j: int) -> Formulation:
    """The formulation with j superblocks of equal size.

    Parameters
    ----------
    j : int
        At least 1; with more than k superblocks it is the exact model.

    Returns
    -------
    Formulation

    Raises
    ------
    InputError
        If j is less than 1.
    """
    if j < 1:
        raise InputError(f"There are {j} superblocks; use 1 or more.")

    def sizes_of(k: int) -> tuple[int, ...]:
        return equal_sizes(k, min(j, k))

    def cases(data: ScaledInstance) -> tuple[Case, ...]:
        sizes = sizes_of(data.k)
        return (Case(str(sizes), lambda: exact(data, sizes), lambda partition: merged(partition, sizes)),)

    summary, reference = f"{j} superblocks with capacities", "this project, mtpp_models/formulations/superblocks.py"
    return Formulation(f"coarse-{j}", summary, reference, cases, sizes=sizes_of)


def merged(partition: Partition, sizes: Sequence[int]) -> IntArray:
    """Superblock of each node, counted from 1, when the blocks of a partition are merged in order."""
    home: IntArray = np.repeat(np.arange(1, len(sizes) + 1), sizes)
    return home[block_ranks(partition) - 1]
