"""All ideals of an instance, or one of those that exchanges of equal branches make of one another, where few enough."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from instances import Instance, Partition
from instances.deadline import Deadline, Stopwatch
from instances.graph.layers import depths
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays
from instances.partitioning.no_fit import needs_of
from instances.partitioning.reductions import Contraction, merge
from instances.partitioning.symmetry import families
from mtpp_models.bounds.ideals.antichain import antichain
from mtpp_models.bounds.ideals.branches import Branches, Words
from mtpp_models.bounds.ideals.dynamic_program import Chains
from mtpp_models.bounds.ideals.lattice import Growing, Lattice, enumerate_ideals, no_ideals
from mtpp_models.bounds.ideals.passing_tensors import Passing, empty_block, least_peak, no_passing, passing_tensors
from mtpp_models.cuts.uncut_edges import join

__all__ = ["MOST_LISTED", "InTurns", "Listing", "Turns", "arrays_below", "count_ideals", "list_ideals"]

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
# Listing is tried up to a few ideals first, of which a slow machine lists those of so many nodes at once, then up to
# more that are likely to take no more than a part of the time that is left of a turn. No step takes less, in seconds.
_LISTED_AT_ONCE, _MORE, _FOR_LISTING, _LEAST = 2_000_000, 3, 0.5, 1e-3
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
    passing : Passing
        What is live at nodes that do not touch it: nodes of the original instance, as groups of them join a block.
    """

    joined: Contraction
    numbered: Contraction
    branches: Branches
    arrays: KernelArrays
    lattice: Lattice
    passing: Passing

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

    def least_peaks(self, partition: Partition) -> FloatArray:
        """(k,) bytes that are live at one node of each block of a partition of the original instance in every order."""
        groups, block = self.numbered.group[self.joined.group], empty_block(self.passing)
        blocks = [np.unique(groups[partition.block == b]) for b in range(self.instance.k)]
        return np.array([least_peak(nodes, needs_of(self.instance), self.passing, block) for nodes in blocks])


@dataclass
class Turns:
    """Time of a procedure that stands still at the end of a turn, and goes on in the next one.

    Parameters
    ----------
    whole : Deadline
        Of all turns together: what would take longer is not begun.
    turn : Deadline
        Of the present one.
    """

    whole: Deadline
    turn: Deadline


T = TypeVar("T")
#: A procedure in turns: it yields at the end of each, and returns its answer.
InTurns = Generator[None, None, T]


def count_ideals(instance: Instance, limit: int) -> int | None:
    """Number of ideals of the graph of an instance, or None if there are more than `limit`."""
    numbered, branches = _numbered(instance)
    growing = _begin(numbered.instance, math.inf)
    growing = _go_on(numbered.instance, branches, limit, math.inf, growing)
    return growing.listed if growing.done == growing.listed else None


def list_ideals(instance: Instance, upper: float, turns: Turns, limit: int | None = None) -> InTurns[Listing | None]:
    """The ideals that partitions with a bottleneck below `upper` are made of.

    Where all are too many, and branches are equal, one of those that become one another. None if there are more than
    `limit`, by default those that the time is enough for, or if listing them is likely to take too long.
    """
    limit = _MOST_IDEALS if limit is None else limit
    whole = merge(instance, np.arange(instance.graph.n))
    listing = yield from _listed(whole, (), min(_FEW_IDEALS, limit), upper, turns)
    if listing is not None or not 0 < upper < math.inf:
        return listing
    equal = families(instance) if instance.graph.n <= MOST_LISTED and not turns.whole.passed else ()
    listing = (yield from _listed(whole, equal, limit, upper, turns)) if equal else None
    while listing is None and limit > _FEW_IDEALS and not turns.whole.passed:
        # What cannot be joined in a turn may be in a longer one. Wide graphs shall not waste the time of others.
        now = replace(turns, whole=turns.turn)
        joined = join(instance, upper, now.turn.share(_FOR_JOINS))
        listing = yield from _listed(joined, (), limit, upper, now)
        if listing is None and (equal := families(joined.instance)):
            listing = yield from _listed(joined, equal, limit, upper, now)
        if listing is None:
            yield
    return listing


def _listed(
    joined: Contraction, equal: tuple[IntArray, ...], limit: int, upper: float, turns: Turns
) -> InTurns[Listing | None]:
    numbered, branches = _numbered(joined.instance, equal)
    lattice = yield from _list_within(numbered.instance, branches, limit, upper, turns)
    if lattice is None:
        return None
    # Merged nodes that change places may differ inside, where tensors pass the nodes of one and not those of another.
    differ = bool(equal) and joined.instance.graph.n < joined.original.graph.n
    groups = numbered.group[joined.group]
    passing = no_passing(numbered.instance.graph.n) if differ else passing_tensors(joined.original, groups)
    return Listing(joined, numbered, branches, arrays_below(numbered.instance, upper), lattice, passing)


def _numbered(instance: Instance, equal: tuple[IntArray, ...] = ()) -> tuple[Contraction, Branches]:
    """The instance with its nodes in a topological order in which equal nodes of equal branches are neighbours."""
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
    instance: Instance, branches: Branches, limit: int, upper: float, turns: Turns
) -> InTurns[Lattice | None]:
    n, has_equal, second = instance.graph.n, len(branches.first) > 0, float(_IDEALS_A_SECOND)
    limit = min(limit, _MOST_WORDS // (_words_of(n) * (1 + has_equal)))
    if n > MOST_LISTED or (not has_equal and 2 ** antichain(instance.graph) > min(limit, second * turns.whole.left)):
        return None
    growing, target = _begin(instance, upper), max(1, _LISTED_AT_ONCE // n)
    while not turns.whole.passed:
        if turns.turn.passed:
            yield
            continue
        watch, busy, before = Stopwatch(), time.thread_time(), growing.listed
        growing = _go_on(instance, branches, min(target, limit), upper, growing)
        if growing.done == growing.listed:
            return growing.lattice
        # Other work of the machine may end, so it does not count in what is foreseen, only in what a turn can do.
        seconds = max(watch.passed, _LEAST)
        busy = max(min(time.thread_time() - busy, seconds), _LEAST)
        second, added = (growing.listed - before) / busy, (growing.listed - before) / seconds
        sight = _in_sight(growing.lattice.ideals[: growing.listed], n)
        if growing.listed >= limit or sight > min(_CLEARLY * limit, second * turns.whole.left):
            return None
        target = growing.listed + int(min(_MORE * growing.listed, _FOR_LISTING * added * turns.turn.left)) + 1
    return None


def _in_sight(listed: Words, n: int) -> float:
    """Estimated number of all ideals: those listed are complete up to some number of nodes.

    Each level above is taken to have `_MEAN_LEVEL` times as many ideals as the last complete one.
    """

    def size(i: int) -> int:
        return int(np.unpackbits(listed[i].view(np.uint8)).sum())

    rows, level = range(len(listed)), size(-1)
    first, before = (bisect_left(rows, nodes, key=size) for nodes in (level, level - 1))
    return len(listed) + _MEAN_LEVEL * (first - before) * (n - level)


def _begin(instance: Instance, upper: float) -> Growing:
    return no_ideals(arrays_below(instance, upper), _words_of(instance.graph.n))


def _go_on(instance: Instance, branches: Branches, limit: int, upper: float, growing: Growing) -> Growing:
    salt = np.random.default_rng(0).integers(0, 2**64, instance.graph.n, dtype=np.uint64)
    arrays = arrays_below(instance, upper)
    return enumerate_ideals(arrays, branches, *_node_sets(instance), salt, limit, growing)


def _node_sets(instance: Instance) -> tuple[Words, Words, Words]:
    """Sets of nodes as bits, one a row: predecessors of each node, readers of each tensor, users of each parameter."""
    graph = instance.graph
    uses = [(g, v) for g, parameter in enumerate(graph.parameters) for v in parameter.users]
    shared, user = np.array(uses, dtype=np.int64).reshape(-1, 2).T
    return (
        _words(graph.edges[:, 1], graph.edges[:, 0], graph.n, graph.n),
        _words(graph.edge_tensor, graph.tensors.consumers, len(graph.tensors.producer), graph.n),
        _words(shared, user, len(graph.parameters), graph.n),
    )


def _nodes(words: Words, n: int) -> IntArray:
    """The sorted numbers of the nodes of a set of n bits."""
    return np.unpackbits(words.view(np.uint8), bitorder="little")[:n].nonzero()[0]


def _words_of(n: int) -> int:
    """Number of 64-bit words that hold a set of n nodes."""
    return (n + 63) // 64


def _words(rows: IntArray, nodes: IntArray, count: int, n: int) -> Words:
    words = np.zeros((count, _words_of(n)), dtype=np.uint64)
    np.bitwise_or.at(words, (rows, nodes >> 6), np.uint64(1) << (nodes & 63).astype(np.uint64))
    return words
