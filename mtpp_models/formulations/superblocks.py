r"""Superblocks: consecutive blocks merged bound the bottleneck of all.

**The three-superblock relaxation and its two relaxations (MTPP, Section 4.2).**

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

**Superblocks with capacities: fewer, larger blocks bound the bottleneck of many.**

Merge consecutive blocks of a partition so that superblock b holds :math:`s_b` of them, :math:`s_1 + \dots + s_j = k`.
Tensors inside a superblock vanish and shared ones merge, so it costs no more than its blocks together:

.. math::

    \min\; & \mathrm{bottleneck}                                                            \\
    & s_b \cdot \mathrm{bottleneck} \ge \mathrm{block}_b          & \forall b \le j             (6')

subject to (7) to (12) with j blocks is a lower bound on OPT for k blocks. Sizes (k) give the work per block, sizes
(1, …, 1) the exact model. The fast memory of a superblock is that of its blocks, :math:`s_b (M - \mathrm{buffer})`, and
a window of blocks becomes one of the superblocks that hold them.

Equal sizes k / j give :math:`k \cdot \mathrm{OPT}_k \ge j \cdot \mathrm{OPT}_j` where the memory is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.partition import IDLE
from mtpp_models.formulations.constraints import add_assignment, add_dag, add_overflow, add_tensor_cuts
from mtpp_models.formulations.exact import exact
from mtpp_models.formulations.formulation import Case, Formulation, PreparedModel, block_ranks
from mtpp_models.formulations.scaled_instance import ScaledInstance, ScaledKinds
from mtpp_models.formulations.strengthening import Strengthening, build, collect_facts, contract, restrict
from mtpp_models.simple import simple, speed_shares, work_bound
from mtpp_models.solvers.modeling import pyo

# Weights in (14) below this part of L.
_TINY = 1e-8


def three_superblocks(
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
    build = partial(three_superblocks, name, dag=dag, cut_io=cut_io)

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


# Of the time for what strengthens a model, at most.
_FOR_JOINS = 0.5


@dataclass(frozen=True, kw_only=True)
class SuperblockFormulation(Formulation):
    """A formulation with one case: the model of superblocks of given sizes."""

    sizes: Callable[[int], tuple[int, ...]]  # maps the number of blocks to the sizes
    parts: Strengthening | None = None  # strengthening; without it the model is as published

    def strengthened(self, parts: Strengthening) -> SuperblockFormulation:
        """The same formulation with these parts; its name gets a suffix such as "+all".

        Examples
        --------
        >>> EXACT.strengthened(Strengthening(cutoff=False)).name
        'exact+all-cutoff'
        """
        return replace(self, name=f"{self.name}+{parts}", parts=parts, kinds="one")

    def prepare(self, instance: Instance, start: Partition | None, margin: float, deadline: Deadline) -> PreparedModel:
        """Contract the instance, compute windows and conflicts below the start, and list the one case.

        See `Formulation.prepare`.
        """
        if self.parts is None:
            return super().prepare(instance, start, margin, deadline)
        if start is None:
            raise InputError(f"The model {self.name} needs a partition to start from; give one.")
        modelled, parts = instance.modelled(), self.parts
        start = start.under(modelled)
        cutoff, unit = start.bottleneck * (1 - margin), start.bottleneck or 1.0
        if simple(instance) >= cutoff:
            return PreparedModel(ScaledInstance(modelled, unit), (), None, np.arange(instance.graph.n), cutoff)
        contraction = contract(modelled, cutoff, parts, deadline.share(_FOR_JOINS))
        if contraction is None:
            return PreparedModel(ScaledInstance(modelled, unit), (), None, np.arange(instance.graph.n), cutoff)
        data = ScaledInstance(contraction.instance, unit)
        data = ScaledInstance(contraction.instance.with_k(data.k), unit)
        sizes = self.sizes(data.k)
        facts = collect_facts(data.instance, sizes, cutoff, parts, deadline)
        if facts is None:
            return PreparedModel(data, (), None, contraction.group, cutoff)
        case = Case(
            self.name, lambda: build(data, sizes, facts, parts), lambda partition: merged(partition, sizes), len(sizes)
        )
        restricted = restrict(start, contraction, data.instance, case, facts.windows)
        return PreparedModel(data, (case,), restricted, contraction.group, cutoff)


def equal_sizes(k: int, j: int) -> tuple[int, ...]:
    """Sizes of j superblocks that hold k blocks as evenly as possible, larger ones first.

    Examples
    --------
    >>> equal_sizes(8, 3)
    (3, 3, 2)
    """
    return tuple(k // j + (b < k % j) for b in range(j))


def coarse(j: int) -> SuperblockFormulation:
    """The formulation with j superblocks of equal size; for j > k the exact model.

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
        return (Case(str(sizes), lambda: exact(data, sizes), lambda partition: merged(partition, sizes), len(sizes)),)

    return SuperblockFormulation(
        name=f"coarse-{j}",
        summary=f"{j} superblocks with capacities",
        reference="this project, mtpp_models/formulations/superblocks.py",
        cases=cases,
        sizes=sizes_of,
        variables=f"{j - 1} n + {j} t + 1",
        rows=f"{j - 2} n + {3 * (j - 1)} m + {j}",
    )


def merged(partition: Partition, sizes: Sequence[int]) -> IntArray:
    """Superblock of each node, counted from 1, when the blocks of a partition are merged in order."""
    home: IntArray = np.repeat(np.arange(1, len(sizes) + 1), sizes)
    return home[block_ranks(partition) - 1]


EXACT = SuperblockFormulation(
    name="exact",
    summary="the exact mixed-integer program; exact+all is strengthened",
    reference="MTPP, Section 4.1, eq. (5)-(12)",
    cases=lambda data: (Case("exact", lambda: exact(data), block_ranks, data.k * data.instance.kinds),),
    exact=True,
    kinds="any",
    sizes=lambda k: (1,) * k,
    variables="n (k - 1) + t k + 1",
    rows="n (k - 2) + 3 m (k - 1) + k",
)
