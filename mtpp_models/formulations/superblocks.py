r"""Models of superblocks.

**Rows that bound the cost of a superblock from above, by the value of (7) for its nodes.**

The models bound c and the overflow from below alone: a solution may pay for tensors that do not cross. With (8) no
reader of a tensor lies before its producer u, so what does not cross superblock 2 of three has neither u nor a reader v
in it, or has u and all readers in it:

.. math::

    c_{t2} &\le x_{u2} + \sum_v x_{v2}            & \forall t                                      \\
    c_{t2} &\le y_{u1} + \sum_v (1 - y_{v2})      & \forall t                                      \\
    z_{g2} &\le \sum_v x_{v2}                     & \forall g                                      \\
    \mathrm{overflow}_2 &\le \mathrm{load}_2 - \mathrm{spare} + \max(0, \mathrm{spare}) (1 - o)      \\
    \mathrm{overflow}_2 &\le \mathrm{most} \cdot o, \qquad o \in \{0, 1\}                            &

Beside (9) and (10), the first two make c 1 where a tensor enters or leaves and 0 elsewhere. The load is what the
superblock holds and its peak, spare is the memory less the buffer, and most is the overflow of all nodes together; the
last two rows make the overflow :math:`\max(0, \mathrm{load}_2 - \mathrm{spare})`. Without a buffer the peak may be
anything from the largest need in the superblock to that of all nodes.

**Superblocks with capacities: fewer, larger blocks bound the bottleneck of many.**

Merge consecutive blocks of a partition so that superblock b holds :math:`s_b` of them, :math:`s_1 + \\dots + s_j = k`.
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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from mtpp_models.formulations.exact import exact
from mtpp_models.formulations.formulation import Case, Formulation, PreparedModel, block_ranks
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.formulations.strengthening import Strengthening, build, collect_facts, contract, restrict
from mtpp_models.simple import simple
from mtpp_models.solvers.modeling import NumericExpression, pyo

#: In units: by how much a row may be loosened so that rounding cuts off no partition.
ROUNDING = 1e-7


def add_true_cost(m: pyo.ConcreteModel, data: ScaledInstance) -> None:
    """Rows that bound crossings and overflow of the middle superblock from above, so that these are exact."""
    producer = {t: u for t, u, _ in data.reads}
    readers: dict[int, list[int]] = {t: [] for t in data.tensors}
    for t, _, v in data.reads:
        readers[t].append(v)

    @m.Constraint(m.T, doc="a tensor of no node of superblock 2 does not cross it")
    def elsewhere(m: pyo.ConcreteModel, t: int) -> NumericExpression:
        return m.c[t, 2] <= m.x[producer[t], 2] + sum(m.x[v, 2] for v in readers[t])

    @m.Constraint(m.T, doc="a tensor that superblock 2 makes and alone reads does not cross it")
    def inside(m: pyo.ConcreteModel, t: int) -> NumericExpression:
        return m.c[t, 2] <= m.y[producer[t], 1] + sum(1 - m.y[v, 2] for v in readers[t])

    if data.has_overflow:
        _add_true_overflow(m, data)


def _add_true_overflow(m: pyo.ConcreteModel, data: ScaledInstance) -> None:
    users: dict[int, list[int]] = {g: [] for g in m.G}
    for g, v in data.uses:
        users[g].append(v)

    @m.Constraint(m.G, doc="superblock 2 holds no more than what its nodes use")
    def unused(m: pyo.ConcreteModel, g: int) -> NumericExpression:
        return m.z[g, 2] <= sum(m.x[v, 2] for v in users[g])

    need, spare = max(data.need_time), data.spare_time
    largest_overflow = sum(data.held_time) + sum(data.shared_time) + need - spare
    m.peak[2].setub(need)
    m.over = pyo.Var(domain=pyo.Binary, doc="o: superblock 2 holds more than its memory")
    room = max(0.0, spare)
    m.no_more = pyo.Constraint(
        expr=m.overflow[2] <= m.loaded[2] - spare + room * (1 - m.over) + ROUNDING, doc="what is over"
    )
    m.none = pyo.Constraint(expr=m.overflow[2] <= largest_overflow * m.over + ROUNDING, doc="nothing where all fits")


# Of the time for what strengthens a model, at most.
_FOR_JOINS = 0.5


@dataclass(frozen=True, kw_only=True)
class SuperblockFormulation(Formulation):
    """Formulation with one case: the model of superblocks of given sizes."""

    sizes: Callable[[int], tuple[int, ...]]  # maps the number of blocks to the sizes
    parts: Strengthening | None = None  # strengthening; without it the model is as published

    def strengthened(self, parts: Strengthening) -> SuperblockFormulation:
        """The same formulation with these parts, called "exact+all" or alike.

        Examples
        --------
        >>> EXACT.strengthened(Strengthening(cutoff=False)).name
        'exact+all-cutoff'
        """
        return replace(self, name=f"{self.name}+{parts}", parts=parts, kinds="one")

    def prepare(self, instance: Instance, start: Partition | None, margin: float, deadline: Deadline) -> PreparedModel:
        """Contract the instance, collect facts that hold below the start, and build; see `Formulation.prepare`."""
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
    """The formulation with j superblocks of equal size; with more than k it is the exact model.

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
