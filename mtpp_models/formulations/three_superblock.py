r"""The three-superblock relaxation and its two relaxations (MTPP, Section 4.2).

Some block has work at least L of eq. (13). All blocks before it are merged into one superblock and all
behind it into another, and only the middle one pays:

.. math::

    \min\; & \mathrm{block}_2 \\
    & \sum_v \mathrm{work}(v)\, x_{v2} \ge L                               & (14)

subject to (7) and (9) to (10) for b = 2, (8), and (12) with k = 3. The variant *no-dag* drops (8), so that
edges may point backwards; *no-cut-io* drops the tensors.

Over kinds of devices there is one case a kind: for any weights :math:`\lambda` of `mtpp_models.simple` and
:math:`a(v) = \min_t \lambda_t w_t(v)` some block on some kind t has :math:`a(S) \ge \lambda_t\, a(V)`, since over all
devices both sides sum up to a(V) at most and at least. The cheapest block of that kind with so much is a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from instances import Partition
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.partition import IDLE
from mtpp_models.formulations.constraints import add_assignment, add_dag, add_overflow, add_tensor_cuts
from mtpp_models.formulations.formulation import Case, Formulation
from mtpp_models.formulations.scaled_instance import ScaledInstance, ScaledKinds
from mtpp_models.simple import speed_shares, work_bound
from mtpp_models.solvers.modeling import pyo

# Weights in (14) below this part of L.
_TINY = 1e-8


def bottleneck(
    name: str, data: ScaledInstance, *, dag: bool, cut_io: bool, weight: Sequence[float] | None = None
) -> pyo.ConcreteModel:
    """Build the three-superblock relaxation, or one of its two relaxations.

    Parameters
    ----------
    name : str
        Name of the model.
    data : ScaledInstance
        The instance in multiples of its unit.
    dag : bool
        Whether to keep (8).
    cut_io : bool
        Whether to keep the tensors.
    weight : sequence of float, optional
        Weight of each node; those in superblock 2 sum to 1 or more. By default work over L. If all are 0, there is no
        such row.
    """
    if weight is None:
        share = work_bound(data.instance) / data.unit
        weight = [work / share if share > 0 else 0.0 for work in data.work]
    m = pyo.ConcreteModel(name)
    add_assignment(m, data, k=3)
    m.middle = pyo.Set(initialize=[2], doc="the superblock that pays")
    if dag:
        add_dag(m, data)
    cut = add_tensor_cuts(m, data, m.middle)[2] if cut_io else 0.0
    overflow = add_overflow(m, data, m.middle)[2]
    work = sum(m.work[v] * m.x[v, 2] for v in m.V)
    m.block = pyo.Expression(expr=work + cut + overflow, doc="(7) cost of superblock 2")
    m.objective = pyo.Objective(expr=m.block)
    if any(weight):
        # Solvers drop coefficients that are next to nothing, so those count as if they always lay in the block.
        middle = sum(weight[v] * m.x[v, 2] for v in m.V if weight[v] >= _TINY)
        dropped = math.fsum(w for w in weight if w < _TINY)
        # Rounding must not cut off a block whose work is exactly L.
        m.share = pyo.Constraint(expr=middle >= 1 - 1e-7 - dropped, doc="(14), over L")
    return m


def _around_most_work(partition: Partition) -> IntArray:
    return 2 + np.sign(partition.block - partition.costs.work.argmax())


def _formulation(name: str, summary: str, reference: str, *, dag: bool = True, cut_io: bool = True) -> Formulation:
    build = partial(bottleneck, name, dag=dag, cut_io=cut_io)

    def cases(data: ScaledInstance) -> tuple[Case, ...]:
        if isinstance(data, ScaledKinds):
            return _cases_over_kinds(data, build)
        return (Case(name, partial(build, data), _around_most_work, blocks=3),)

    variables, rows = "2 n + t" if cut_io else "2 n", "n + 4 m + 1" if dag and cut_io else "n + 2 m + 1"
    return Formulation(name, summary, reference, cases, kinds="any", variables=variables, rows=rows)


def _cases_over_kinds(data: ScaledKinds, build: Callable[..., pyo.ConcreteModel]) -> tuple[Case, ...]:
    """A case for each kind of device: a block on it does at least the kind's share of the total work."""
    weights = _shares(data)

    def middle(partition: Partition) -> IntArray:
        """(n,) superblocks 1 to 3, where the block with the largest share of the work is superblock 2."""
        block, kind = partition.block, partition.kind
        shares = [weights[t, block == b].sum() if t != IDLE else 0.0 for b, t in enumerate(kind.tolist())]
        return 2 + np.sign(block - int(np.argmax(shares)))

    return tuple(
        Case(kind.name, partial(build, data.of_kinds[t], weight=weights[t].tolist()), middle, blocks=3)
        for t, kind in enumerate(data.instance.machines.kinds)
    )


def _shares(data: ScaledKinds) -> FloatArray:
    """(T, n) weighted work of each node, in multiples of the weighted work that some block on each kind must do."""
    shares = speed_shares(data.instance)
    least = (shares[:, None] * data.instance.finite_works).min(axis=0)
    needed = shares / float(np.array(data.instance.machines.counts) @ shares) * least.sum()
    return least / np.where(needed > 0, needed, np.inf)[:, None]


BOTTLENECK = _formulation("bottleneck", "cheapest block with its share of the work", "MTPP, Section 4.2, eq. (14)")
BOTTLENECK_NO_DAG = _formulation(
    "bottleneck-no-dag", "bottleneck, where edges may point backwards", "MTPP, Section 5.4", dag=False
)
BOTTLENECK_NO_CUT_IO = _formulation(
    "bottleneck-no-cut-io", "bottleneck, without communication", "MTPP, Section 5.4", cut_io=False
)
