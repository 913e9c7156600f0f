r"""Stronger formulations, which exclude partitions that are no better than a known one.

**Models of superblocks that are valid only below a known bottleneck.**

A partition of bottleneck T is known and kept outside. Whatever every partition with a bottleneck below T satisfies may
be added; the bound of the instance is then :math:`\min(T, \mathrm{bound\ of\ the\ model})`, and T where the model is
infeasible. Partitions of bottleneck T itself may be lost, so nothing may be concluded from the model alone.

To leave room for rounding, T is here the known bottleneck less the tolerance of the solver. What holds for sets of
consecutive blocks holds for superblocks as well: one of s blocks costs less than s T. Unless a buffer is fixed, peaks
of activations count in the models as the largest need of a node, so that no partition costs more there than by
definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from instances.errors import nearest
from instances.graph.tensors import IntArray
from instances.partitioning.symmetry import Contraction, merge
from mtpp_models.cuts.conflicts import BlockWindows, allowed_windows, conflicts, join, windows
from mtpp_models.cuts.max_flow import MOST_PAIRED, BoolArray, reachability
from mtpp_models.formulations.constraints import CliqueRow, add_conflicts, cliques, successions
from mtpp_models.formulations.exact import exact
from mtpp_models.formulations.formulation import Case, block_ranks
from mtpp_models.formulations.scaled_instance import ScaledInstance
from mtpp_models.simple import simple
from mtpp_models.solvers.modeling import pyo

# Strengthening of the models of superblocks, whose parts can be switched off one by one.


@dataclass(frozen=True)
class Strengthening:
    """Parts of strengthened models, valid for all partitions below a known bottleneck; all on by default."""

    # Stronger rows for the tensors in the place of (9) and (10); see `mtpp_models.formulations.constraints`.
    cuts: bool = True
    # No node outside the blocks that `mtpp_models.cuts.conflicts` leaves to it.
    windows: bool = True
    # Nodes whose common block is too expensive stay apart; see `mtpp_models.formulations.constraints`.
    conflicts: bool = True
    # Edges that are too expensive to cut are contracted; see `mtpp_models.cuts.conflicts`.
    joins: bool = True
    # The known bottleneck is an upper bound of the variable.
    cutoff: bool = True

    def __str__(self) -> str:
        """Text that `of` reads: the names of the parts that are on, or of those left out if these are fewer."""
        on = [name for name, value in zip(_NAMES, astuple(self), strict=True) if value]
        off = [name for name in _NAMES if name not in on]
        return "+".join(on) if len(on) < len(off) else "-".join(["all", *off])

    @classmethod
    def of(cls, text: str) -> Strengthening:
        """Parse a text such as "all", "all-joins" or "cuts+windows".

        Raises
        ------
        InputError
            If a part is unknown.

        Examples
        --------
        >>> str(Strengthening.of("all-joins-cuts")), Strengthening.of("cuts").windows
        ('all-cuts-joins', False)
        """
        base, *off = text.split("-")
        on = _NAMES if base == "all" else tuple(base.split("+"))
        for name in (*on, *off):
            if name not in _NAMES:
                end = nearest(_NAMES, name, f"use all, all-NAME or NAME+NAME of {', '.join(_NAMES)}")
                raise InputError(f"There is no part {name!r}{end}")
        return cls(**{name: name in on and name not in off for name in _NAMES})


_NAMES = tuple(field.name for field in fields(Strengthening))


def ablation(name: str) -> tuple[str, ...]:
    """Names of a model without parts, with each single part, with all but one, and with all.

    Examples
    --------
    >>> ablation("exact")[:2], ablation("exact")[-2:]
    (('exact', 'exact+cuts'), ('exact+all-cutoff', 'exact+all'))
    """
    all_but = (f"{name}+all-{part}" for part in _NAMES)
    return (name, *(f"{name}+{part}" for part in _NAMES), *all_but, f"{name}+all")


class Facts(NamedTuple):
    """Windows and conflicts that all partitions below the cutoff satisfy, for superblocks counted from 1."""

    windows: BlockWindows
    successions: list[tuple[int, int, int]]  # u lies before v, and block b holds at most one of them
    cliques: list[CliqueRow]

    @property
    def contradict(self) -> bool:
        """Whether windows alone make a row infeasible, so that no better partition exists."""
        first, last = self.windows
        fixed = np.where(first == last, first, 0)
        return any(fixed[u] == fixed[v] == b for u, v, b in self.successions) or any(
            sum(fixed[v] == row.block for v in row.nodes) > row.limit for row in self.cliques
        )


def contract(instance: Instance, cutoff: float, parts: Strengthening, deadline: Deadline) -> Contraction | None:
    """First step: the contraction of the edges that no partition below the cutoff can cut.

    None if the constraints forbid to merge such nodes: then there is no partition below the cutoff.
    """
    everyone = np.arange(instance.graph.n)
    if not parts.joins:
        return Contraction(instance, instance, everyone, everyone)
    joined = join(instance.without_constraints(), cutoff, deadline)
    try:
        return merge(instance, joined.group) if instance.constraints else joined
    except InputError:
        return None


def collect_facts(
    instance: Instance, sizes: Sequence[int], cutoff: float, parts: Strengthening, deadline: Deadline
) -> Facts | None:
    """Second step: windows, and pairs and cliques of nodes that cannot share a block; None if they are contradictory.

    Parameters
    ----------
    instance : Instance
        The contracted instance.
    sizes : sequence of int
        Number of blocks in each superblock.
    deadline : Deadline
        When to stop, roughly. Graphs with too many nodes for matrices of pairs get neither windows nor conflicts.
    """
    if instance.graph.n > MOST_PAIRED:
        parts = replace(parts, windows=False, conflicts=False)
    apart = _conflicts(instance, {1, *sizes}, cutoff, deadline) if parts.conflicts else {}
    blocks = windows(instance, cutoff, apart.get(1), deadline) if parts.windows else _anywhere(instance)
    if (blocks.first > blocks.last).any():
        return None
    home = np.repeat(np.arange(1, len(sizes) + 1), sizes)
    where = BlockWindows(home[blocks.first - 1], home[blocks.last - 1])
    facts = Facts(where, [], [])
    if parts.conflicts:
        reach = reachability(*instance.graph.successors, instance.graph.topological_order)
        matrices = {s: _matrix(pairs, instance.graph.n) for s, pairs in apart.items()}
        pairs = _pairs(matrices, reach, where, sizes, deadline)
        facts = Facts(where, pairs, _cliques(matrices, reach, where, sizes, deadline))
    return None if facts.contradict else facts


def build(data: ScaledInstance, sizes: Sequence[int], facts: Facts, parts: Strengthening) -> pyo.ConcreteModel:
    """Third step: the model of superblocks with the windows, conflicts and cutoff of better partitions."""
    m = exact(data, sizes, windows=facts.windows, stronger=parts.cuts)
    add_conflicts(m, facts.successions, facts.cliques)
    if parts.cutoff:
        m.bottleneck.setub(1.0)
        # Between 0 and 1 alone, presolve of HiGHS (1.11 to 1.15) cuts off optima of some models.
        m.bottleneck.setlb(min(1.0, simple(data.instance) / data.unit * (1 - 1e-9)))
    return m


def restrict(
    start: Partition, contraction: Contraction, instance: Instance, case: Case, where: BlockWindows
) -> Partition | None:
    """The start as a partition of the contracted instance; None if it cuts a contracted edge or violates a window."""
    block = block_ranks(start) - 1
    if (block[contraction.anchor][contraction.group] != block).any():
        return None
    restricted = Partition(instance, block[contraction.anchor])
    assert case.superblock is not None
    home = case.superblock(restricted)
    return restricted if ((where.first <= home) & (home <= where.last)).all() else None


def _conflicts(instance: Instance, multiples: set[int], cutoff: float, deadline: Deadline) -> dict[int, IntArray]:
    """For each multiple s, (c, 2) pairs of nodes that s blocks below the cutoff cannot contain together."""
    ordered = sorted(multiples)
    return {s: conflicts(instance, s * cutoff, deadline.share(1 / (len(ordered) - i))) for i, s in enumerate(ordered)}


def _anywhere(instance: Instance) -> BlockWindows:
    n, k = instance.graph.n, instance.k
    return allowed_windows(instance, (1,) * k) or BlockWindows(np.ones(n, dtype=np.int64), np.full(n, k))


def _pairs(
    apart: Mapping[int, BoolArray], reach: BoolArray, where: BlockWindows, sizes: Sequence[int], deadline: Deadline
) -> list[tuple[int, int, int]]:
    """Triples (u, v, b) of nodes that superblock b cannot contain together, without those that others imply."""
    pairs = {s: successions(apart[s], reach, deadline).tolist() for s in set(sizes)}
    return [
        (u, v, b) for b, size in enumerate(sizes, 1) for u, v in pairs[size] if where.first[v] <= b <= where.last[u]
    ]


def _cliques(
    apart: Mapping[int, BoolArray], reach: BoolArray, where: BlockWindows, sizes: Sequence[int], deadline: Deadline
) -> list[CliqueRow]:
    """Rows of cliques of nodes for each superblock.

    A superblock of s blocks contains at most one node of a clique of pairs that s blocks keep apart, and at most s
    nodes of one of pairs that a single block keeps apart.
    """
    groups = {}
    for s in set(sizes):
        groups[s] = [(clique, 1) for clique in cliques(apart[s], apart[s] & ~reach & ~reach.T, deadline)]
        groups[s] += [(clique, s) for clique in cliques(apart[1], apart[1], deadline) if len(clique) > s > 1]
    rows = []
    for b, size in enumerate(sizes, 1):
        for clique, limit in groups[size]:
            nodes = tuple(v for v in clique if where.first[v] <= b <= where.last[v])
            if len(nodes) > limit:
                rows.append(CliqueRow(b, nodes, limit))
    return rows


def _matrix(pairs: IntArray, n: int) -> BoolArray:
    apart = np.zeros((n, n), dtype=bool)
    apart[pairs[:, 0], pairs[:, 1]] = apart[pairs[:, 1], pairs[:, 0]] = True
    return apart
