r"""Superblocks with capacities: fewer, larger blocks bound the bottleneck of many.

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
