r"""The exact model of max-throughput partitioning (MTPP, Section 4.1, Figure 3).

.. math::

    \min\; & \mathrm{bottleneck}                                            & (5) \\
    & \mathrm{bottleneck} \ge \mathrm{block}_b                & \forall b       (6)

subject to (7) to (12) of `mtpp_models.formulations.constraints`: the coarse model in which every superblock is one
block. Theorem 4.1: O(nk) variables, O(mk) constraints, O((n + m)k) nonzeros. More blocks than nodes never help, so k is
at most n here.
"""

from __future__ import annotations

import pyomo.environ as pyo

from mtpp_models.formulations.formulation import Case, Formulation, ScaledInstance, block_ranks
from mtpp_models.formulations.superblocks import superblocks

__all__ = ["EXACT", "exact"]


def exact(data: ScaledInstance) -> pyo.ConcreteModel:
    """Build the exact model.

    Parameters
    ----------
    data : ScaledInstance

    Returns
    -------
    pyomo.environ.ConcreteModel
        Its objective is the bottleneck in multiples of the unit of `data`.
    """
    return superblocks(data, [1] * data.k)


EXACT = Formulation(
    "exact",
    "the exact mixed-integer program; exact+all is strengthened",
    "MTPP, Section 4.1, eq. (5)-(12)",
    lambda data: (Case("exact", lambda: exact(data), block_ranks),),
    exact=True,
    sizes=lambda k: (1,) * k,
)
