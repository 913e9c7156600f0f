"""All ideals of an instance, or one of those that exchanges of equal branches make of one another, where few enough."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from instances import Instance, Partition
from instances.deadline import Deadline, Stopwatch
from instances.graph.layers import depths
from instances.graph.tensors import IntArray
from instances.partitioning.kernel_arrays import KernelArrays
from instances.partitioning.reductions import Contraction, merge
from instances.partitioning.symmetry import families
from mtpp_models.bounds.ideals.antichain import antichain
from mtpp_models.bounds.ideals.branches import Branches, Words
from mtpp_models.bounds.ideals.dynamic_program import Chains
from mtpp_models.bounds.ideals.lattice import LIMIT_REACHED, Lattice, enumerate_ideals
from mtpp_models.cuts.uncut_edges import join

__all__ = ["MOST_LISTED", "Listing", "arrays_below", "count_ideals", "list_ideals"]

#: Of graphs with more nodes no ideals are listed: sets of nodes take a bit for each pair of nodes.
MOST_LISTED = 20_000

# The largest number of ideals, and of words of 64 bits for their sets.
_MOST_IDEALS, _MOST_WORDS = 4_000_000, 2**27
# Few enough that looking for joins would take longer.
_FEW_IDEALS = 20_000
# Of the time that is left, at most.
_FOR_JOINS = 0.5
# How many ideals a slow program does in a second.
_IDEALS_A_SECOND = 100_000
# Listing is tried up to a few ideals first, of which a slow machine lists those of so many nodes at once, and up to
# more as long as that is likely to take no more than a part of the time that is left.
_LISTED_AT_ONCE, _MORE, _FOR_LISTING = 2_000_000, 4, 0.5
# How many times the limit must be in sight for a listing to stop; of the levels that are left one counts as this part
# of the last one.
_CLEARLY, _MEAN_LEVEL = 4.0, 0.25


@dataclass(frozen=True, eq=False)
class Listing:
    """The ideals of an instance.

    Parameters
    ----------
    joined : Contraction
        The edges that are never cut are contracted.
    numbered : Contraction
        Of what is left, nodes are numbered in a topological order.
    branches : Branches
        Those that change places, of what is left; the lattice holds one of the ideals that become one another.
    arrays : KernelArrays
        Of the instance that is left, as the lattice counts.
    lattice : Lattice
    """

    joined: Contraction
    numbered: Contraction
    branches: Branches
    arrays: KernelArrays
    lattice: Lattice

    @property
    def instance(self) -> Instance:
        """Instance to which the ideals belong."""
        return self.numbered.instance

    @property
    def is_up_to_exchange(self) -> bool:
        """Whether one ideal stands for all that become one another as equal branches change places."""
        return len(self.branches.first) > 0

    def partition(self, chains: Chains) -> Partition:
        """The chain that holds all nodes, as a partition of the original instance."""
        n = self.instance.graph.n
        block, image = np.zeros(n, dtype=np.int64), np.arange(n)  # of the nodes of each listed ideal
        ideal = len(self.lattice.ideals) - 1
        for b in range(int(chains.blocks[ideal]) - 1, -1, -1):
            smaller = int(chains.before[ideal])
            larger = self.lattice.ideals[ideal]
            if self.is_up_to_exchange:
                larger = chains.reached[ideal]
                image = image[self.branches.settling(larger)]
            block[image[_nodes(larger & ~self.lattice.ideals[smaller], n)]] = b
            ideal = smaller
        return self.joined.expand(self.numbered.expand(Partition(self.instance, block)))


def count_ideals(instance: Instance, limit: int) -> int | None:
    """Number of ideals of the graph of an instance, or None if there are more than `limit`."""
    numbered, branches = _numbered(instance)
    count, _ = _enumerate(numbered.instance, branches, limit, math.inf)
    return None if count == LIMIT_REACHED else count


def list_ideals(instance: Instance, upper: float, deadline: Deadline, limit: int | None = None) -> Listing | None:
    """The ideals that partitions with a bottleneck below `upper` are made of.

    Where all are too many, and branches are equal, one of those that become one another. None if there are more than
    `limit`, by default those that the time is enough for, or if listing them is likely to take too long.
    """
    if limit is None:
        # Wide graphs shall not waste the time of others.
        limit = int(min(_MOST_IDEALS, max(_FEW_IDEALS, _IDEALS_A_SECOND * deadline.left)))
    whole = merge(instance, np.arange(instance.graph.n))
    listing = _listed(whole, (), min(_FEW_IDEALS, limit), upper, deadline)
    if listing is not None or not 0 < upper < math.inf:
        return listing
    equal = families(instance) if instance.graph.n <= MOST_LISTED and not deadline.passed else ()
    listing = _listed(whole, equal, limit, upper, deadline) if equal else None
    if listing is None and limit > _FEW_IDEALS and not deadline.passed:
        joined = join(instance, upper, deadline.share(_FOR_JOINS))
        listing = _listed(joined, (), limit, upper, deadline)
        if listing is None and (equal := families(joined.instance)):
            listing = _listed(joined, equal, limit, upper, deadline)
    return listing


def _listed(
    joined: Contraction, equal: tuple[IntArray, ...], limit: int, upper: float, deadline: Deadline
) -> Listing | None:
    numbered, branches = _numbered(joined.instance, equal)
    lattice = _list_within(numbered.instance, branches, limit, upper, deadline)
    if lattice is None:
        return None
    return Listing(joined, numbered, branches, arrays_below(numbered.instance, upper), lattice)


def _numbered(instance: Instance, equal: tuple[IntArray, ...] = ()) -> tuple[Contraction, Branches]:
    """The same instance, its nodes numbered in a topological order: the same nodes of equal branches in a row."""
    graph = instance.graph
    # By depth, family and place in the branch; nodes that change places have the same depth.
    family, place, branch = np.full(graph.n, -1), np.arange(graph.n), np.zeros(graph.n, dtype=np.int64)
    for number, rows in enumerate(equal):
        family[rows], place[rows], branch[rows] = number, np.arange(rows.shape[1]), np.arange(len(rows))[:, None]
    order = np.lexsort((branch, place, family, depths(graph.topological_order, *graph.predecessors)))
    rank = np.argsort(order)
    return merge(instance, rank), Branches.of(tuple(np.sort(rank[rows], axis=1) for rows in equal), graph.n)


def arrays_below(instance: Instance, upper: float) -> KernelArrays:
    """Arrays of the instance; times of tensors are capped at 2 · upper, as larger ones would cost exactness."""
    arrays = KernelArrays.of(instance)
    return arrays._replace(tensor_time=np.minimum(arrays.tensor_time, 2 * upper))


def _list_within(
    instance: Instance, branches: Branches, limit: int, upper: float, deadline: Deadline
) -> Lattice | None:
    n, has_equal = instance.graph.n, len(branches.first) > 0
    limit = min(limit, _MOST_WORDS // (_words_of(n) * (1 + has_equal)))
    if n > MOST_LISTED or (not has_equal and 2 ** antichain(instance.graph) > limit):
        return None
    most, seconds = max(1, _LISTED_AT_ONCE // n), 0.0
    while not deadline.passed and seconds <= _FOR_LISTING * deadline.left:
        watch = Stopwatch()
        count, lattice = _enumerate(instance, branches, min(most, limit), upper)
        if count != LIMIT_REACHED:
            return lattice
        if most >= limit or _in_sight(lattice.ideals[:most], n) > _CLEARLY * limit:
            return None
        most, seconds = _MORE * most, _MORE * watch.passed
    return None


def _in_sight(listed: Words, n: int) -> float:
    """Estimate the number of all ideals, of which those of the fewest nodes are listed."""

    def size(i: int) -> int:
        return int(np.unpackbits(listed[i].view(np.uint8)).sum())

    rows, level = range(len(listed)), size(-1)
    first, before = (bisect_left(rows, nodes, key=size) for nodes in (level, level - 1))
    return len(listed) + _MEAN_LEVEL * (first - before) * (n - level)


def _enumerate(instance: Instance, branches: Branches, limit: int, upper: float) -> tuple[int, Lattice]:
    salt = np.random.default_rng(0).integers(0, 2**64, instance.graph.n, dtype=np.uint64)
    return enumerate_ideals(arrays_below(instance, upper), branches, *_node_sets(instance), salt, limit)


def _node_sets(instance: Instance) -> tuple[Words, Words, Words]:
    """Predecessors of each node, readers of each tensor, users of each shared parameter."""
    graph = instance.graph
    uses = [(g, v) for g, parameter in enumerate(graph.parameters) for v in parameter.users]
    shared, user = np.array(uses, dtype=np.int64).reshape(-1, 2).T
    return (
        _words(graph.edges[:, 1], graph.edges[:, 0], graph.n, graph.n),
        _words(graph.edge_tensor, graph.tensors.consumers, len(graph.tensors.producer), graph.n),
        _words(shared, user, len(graph.parameters), graph.n),
    )


def _nodes(words: Words, n: int) -> IntArray:
    """Nodes of a set."""
    return np.unpackbits(words.view(np.uint8), bitorder="little")[:n].nonzero()[0]


def _words_of(n: int) -> int:
    """Words of 64 bits that a set of n nodes takes."""
    return (n + 63) // 64


def _words(rows: IntArray, nodes: IntArray, count: int, n: int) -> Words:
    words = np.zeros((count, _words_of(n)), dtype=np.uint64)
    np.bitwise_or.at(words, (rows, nodes >> 6), np.uint64(1) << (nodes & 63).astype(np.uint64))
    return words
