r"""Models of superblocks that need to hold only below a known bottleneck.

A partition of bottleneck T is known and kept outside. Whatever every partition with a bottleneck below T satisfies may
be added; the bound of the instance is then :math:`\min(T, \mathrm{bound\ of\ the\ model})`, and T where the model is
infeasible. Partitions of bottleneck T itself may be lost, so nothing may be concluded from the model alone.

To leave room for rounding, T is here the known bottleneck less the tolerance of the solver. Facts about sets S of
consecutive blocks hold for superblocks as well: one of s blocks costs less than s T. In the models peaks of activations
count as 0 unless a buffer is fixed, and what a partition costs there is no more than what it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyomo.environ as pyo

from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from instances.partitioning.reductions import Contraction
from mtpp_models.cuts.conflicts import conflicts
from mtpp_models.cuts.joins import join
from mtpp_models.cuts.max_flow import BoolArray, reachability
from mtpp_models.cuts.windows import BlockWindows, windows
from mtpp_models.formulations.clique_rows import cliques, successions
from mtpp_models.formulations.constraints import Crowd, add_conflicts
from mtpp_models.formulations.exact import exact
from mtpp_models.formulations.formulation import Algorithm, Case, Formulation, ScaledInstance, block_ranks
from mtpp_models.formulations.parts import Strengthening
from mtpp_models.formulations.superblocks import merged
from mtpp_models.simple import simple

__all__ = ["Question", "pose", "strengthened"]


class Question(NamedTuple):
    """What solvers shall do.

    Parameters
    ----------
    data : ScaledInstance
    cases : sequence of Case
        None of them where all is proved.
    start : Partition, optional
        Of the instance of `data`.
    group : (n,) integers
        The node of that instance which holds each node of the original one.
    ceiling : float
        What the cases prove is min(ceiling, their bounds); infinite if the models are as published.
    """

    data: ScaledInstance
    cases: Sequence[Case]
    start: Partition | None
    group: IntArray
    ceiling: float


def strengthened(model: Algorithm | Formulation, strengthening: Strengthening) -> Algorithm | Formulation:
    """The same formulation with these parts, called "exact+all" or alike; without any part it is as published.

    Raises
    ------
    InputError
        If the formulation is not one of superblocks.

    Examples
    --------
    >>> from mtpp_models.formulations.exact import EXACT
    >>> strengthened(EXACT, Strengthening(cutoff=False)).name
    'exact+all-cutoff'
    """
    if not any(vars(strengthening).values()):
        return model
    if isinstance(model, Algorithm) or model.sizes is None or not model.is_bound:
        raise InputError(f"The model {model.name} cannot be strengthened; exact and coarse-J can.")
    return replace(model, name=f"{model.name}+{strengthening}", strengthening=strengthening)


def pose(
    instance: Instance, model: Formulation, start: Partition | None, margin: float, deadline: Deadline
) -> Question:
    """Scale the instance, and strengthen the model if it asks for that.

    Parameters
    ----------
    instance : Instance
    model : Formulation
    start : Partition, optional
        Needed by a strengthened model.
    margin : float
        Relative tolerance of the solver.
    deadline : Deadline
        When to stop looking for conflicts, roughly.

    Returns
    -------
    Question

    Raises
    ------
    InputError
        If a strengthened model has no start.
    """
    everyone = np.arange(instance.graph.n)
    if model.strengthening is None:
        data = ScaledInstance.near(instance, start)
        return Question(data, model.cases(data), start, everyone, np.inf)
    if start is None:
        raise InputError(f"The model {model.name} needs a partition to start from; give one.")
    assert model.sizes is not None
    parts, relaxed = model.strengthening, instance.without_peaks()
    start = Partition(relaxed, start.block, start.order)
    ceiling, unit = start.bottleneck * (1 - margin), start.bottleneck or 1.0
    if simple(instance) >= ceiling:
        return Question(ScaledInstance(relaxed, unit), (), None, everyone, ceiling)
    contraction = join(relaxed, ceiling) if parts.joins else Contraction(relaxed, relaxed, everyone, everyone)
    data = ScaledInstance(contraction.instance.with_k(min(instance.k, contraction.instance.graph.n)), unit)
    sizes = model.sizes(data.k)
    facts = _facts(data.instance, sizes, ceiling, parts, deadline)
    if facts is None:
        return Question(data, (), None, contraction.group, ceiling)

    def build() -> pyo.ConcreteModel:
        m = exact(data, sizes, windows=facts.windows, stronger=parts.cuts)
        add_conflicts(m, facts.successions, facts.crowds)
        if parts.cutoff:
            m.bottleneck.setub(1.0)
        return m

    case = Case(model.name, build, lambda partition: merged(partition, sizes))
    kept = _kept(start, contraction, data.instance, case, facts.windows)
    return Question(data, (case,), kept, contraction.group, ceiling)


class _Facts(NamedTuple):
    """What holds below the ceiling, for superblocks counted from 1."""

    windows: BlockWindows
    successions: list[tuple[int, int, int]]
    crowds: list[Crowd]


def _facts(
    instance: Instance, sizes: Sequence[int], ceiling: float, parts: Strengthening, deadline: Deadline
) -> _Facts | None:
    """None if nothing satisfies them."""
    graph, n = instance.graph, instance.graph.n
    apart: dict[int, IntArray] = {}
    if parts.conflicts:
        multiples = sorted({1, *sizes})
        for i, s in enumerate(multiples):
            apart[s] = conflicts(instance, s * ceiling, deadline.share(1 / (len(multiples) - i)))
    if parts.windows:
        blocks = windows(instance, ceiling, apart.get(1))
        if (blocks.first > blocks.last).any():
            return None
    else:
        blocks = BlockWindows(np.ones(n, dtype=np.int64), np.full(n, instance.k))
    home = np.repeat(np.arange(1, len(sizes) + 1), sizes)
    first, last = home[blocks.first - 1], home[blocks.last - 1]
    reach = reachability(*graph.successors, graph.topological_order)
    facts = _Facts(BlockWindows(first, last), [], [])
    for s in sorted(set(sizes)) if parts.conflicts else ():
        wide, narrow = _matrix(apart[s], n), _matrix(apart[1], n)
        pairs = successions(wide, reach).tolist()
        groups = [(clique, 1) for clique in cliques(wide, wide & ~reach & ~reach.T)]
        groups += [(clique, s) for clique in cliques(narrow, narrow) if len(clique) > s > 1]
        for b in (b for b, size in enumerate(sizes, 1) if size == s):
            facts.successions.extend((u, v, b) for u, v in pairs if first[v] <= b <= last[u])
            for clique, limit in groups:
                nodes = tuple(v for v in clique if first[v] <= b <= last[v])
                if len(nodes) > limit:
                    facts.crowds.append(Crowd(b, nodes, limit))
    fixed = np.where(first == last, first, 0)
    if any(fixed[u] == fixed[v] == b for u, v, b in facts.successions):
        return None
    if any(sum(fixed[v] == crowd.block for v in crowd.nodes) > crowd.limit for crowd in facts.crowds):
        return None
    return facts


def _matrix(pairs: IntArray, n: int) -> BoolArray:
    apart = np.zeros((n, n), dtype=bool)
    apart[pairs[:, 0], pairs[:, 1]] = apart[pairs[:, 1], pairs[:, 0]] = True
    return apart


def _kept(
    start: Partition, contraction: Contraction, instance: Instance, case: Case, windows: BlockWindows
) -> Partition | None:
    """The start in the contracted instance, if it cuts no joined edge and lies within the windows."""
    block = block_ranks(start) - 1
    if (block[contraction.anchor][contraction.group] != block).any():
        return None
    kept = Partition(instance, block[contraction.anchor])
    home = case.superblock(kept)
    return kept if ((windows.first <= home) & (home <= windows.last)).all() else None
