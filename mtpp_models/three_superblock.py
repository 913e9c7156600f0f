r"""The three-superblock relaxation and its two relaxations (MTPP, Section 4.2).

Some block has work at least L of eq. (13). All blocks before it are merged into one superblock and all
behind it into another, and only the middle one pays:

.. math::

    \min\; & \mathrm{block}_2 \\
    & \sum_v \mathrm{work}(v)\, x_{v2} \ge L                               & (14)

subject to (7) and (9) to (10) for b = 2, (8), and (12) with k = 3. The variant *no-dag* drops (8), so that
edges may point backwards; *no-cut-io* drops the tensors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyomo.environ as pyo

from instances import Partition
from instances.tensors import IntArray
from mtpp_models.constraints import add_assignment, add_block_costs, add_dag, add_overflow, add_tensor_cuts, x
from mtpp_models.formulation import Case, Formulation, ScaledInstance
from mtpp_models.simple import simple

__all__ = ["BOTTLENECK", "BOTTLENECK_NO_CUT_IO", "BOTTLENECK_NO_DAG", "around"]

_REFERENCE = "MTPP, Section 4.2, eq. (14)"


def bottleneck(data: ScaledInstance) -> pyo.ConcreteModel:
    """Build the three-superblock relaxation, "bottleneck" in the tables."""
    m = pyo.ConcreteModel("bottleneck")
    add_assignment(m, data, k=3)
    add_dag(m, data)
    add_tensor_cuts(m, data, [2])
    _minimise_middle(m, data)
    return m


def bottleneck_no_dag(data: ScaledInstance) -> pyo.ConcreteModel:
    """Build the relaxation without (8)."""
    m = pyo.ConcreteModel("bottleneck-no-dag")
    add_assignment(m, data, k=3)
    add_tensor_cuts(m, data, [2])
    _minimise_middle(m, data)
    return m


def bottleneck_no_cut_io(data: ScaledInstance) -> pyo.ConcreteModel:
    """Build the relaxation without tensors."""
    m = pyo.ConcreteModel("bottleneck-no-cut-io")
    add_assignment(m, data, k=3)
    add_dag(m, data)
    _minimise_middle(m, data)
    return m


def around(partition: Partition, middle: int) -> IntArray:
    """Superblock 1, 2 or 3 of each node, where block `middle` of the partition is superblock 2."""
    return 2 + np.sign(partition.block - middle)


def _minimise_middle(m: pyo.ConcreteModel, data: ScaledInstance) -> None:
    add_overflow(m, data, [2])
    add_block_costs(m, data, [2])
    m.objective = pyo.Objective(expr=m.block[2])
    middle_work = sum(data.work[v] * x(m, v, 2) for v in m.V)
    # Rounding must not cut off a block whose work is exactly L.
    m.share = pyo.Constraint(expr=middle_work >= simple(data.instance) / data.unit * (1 - 1e-9), doc="(14)")


def _around_most_work(partition: Partition) -> IntArray:
    return around(partition, int(partition.costs.work.argmax()))


def _formulation(
    name: str, summary: str, build: Callable[[ScaledInstance], pyo.ConcreteModel], reference: str = _REFERENCE
) -> Formulation:
    return Formulation(name, summary, reference, lambda data: (Case(name, lambda: build(data), _around_most_work),))


BOTTLENECK = _formulation("bottleneck", "cheapest block with its share of the work", bottleneck)
BOTTLENECK_NO_DAG = _formulation(
    "bottleneck-no-dag", "the same, where edges may point backwards", bottleneck_no_dag, "MTPP, Section 5.4"
)
BOTTLENECK_NO_CUT_IO = _formulation(
    "bottleneck-no-cut-io", "the same, without communication", bottleneck_no_cut_io, "MTPP, Section 5.4"
)
