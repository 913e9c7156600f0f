r"""Exact optima by a dynamic program over all ideals (node sets closed under predecessors), and lists of ideals.

**Exact optima without a solver: dynamic programming over ideals.**

A partition is a chain of ideals :math:`\emptyset = I_0 \subseteq I_1 \subseteq \dots \subseteq I_k = V`, and block b
is :math:`I_b \setminus I_{b-1}`. For a goal T the program finds the fewest blocks below T that hold each ideal,

.. math:: b(J) = 1 + \min \{ b(I) : I \subset J, \; f(J \setminus I) < T \},

which tells whether a partition costs less than T. The first goal is the bottleneck of a known partition: if that is
optimal, one pass proves it. Else each better partition gives the next goal. Where only the partition into one block is
known, goals rise from *simple* until a partition is below one, as low goals take little time.

Graphs of neural networks are narrow, with tens to some hundred thousand ideals. Where there are many, a single ideal
stands for all that exchanges of equal branches, such as experts, turn into each other; the witness names the branches.
Or the edges that no better partition cuts are contracted first, which leaves far fewer. Wide graphs have too many
ideals; then there is no result.

With finite memory and no activation buffer, the peak of a block counts as the most that is live at one of its nodes in
every order, with which narrow networks are proved, also in training; the models count what one node reads and writes.
Where the memory is a hard limit, blocks that do not fit are left out, and what is left tells whether anything
fits.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from instances import Bound, Instance, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import FloatArray, IntArray
from instances.graph.views import depths
from instances.partitioning.memory import needs_of
from instances.partitioning.peaks import KernelArrays, with_least_peaks
from instances.partitioning.symmetry import Contraction, families, merge
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.ideals.dynamic_program import (
    Chains,
    Passing,
    empty_block,
    extend_chains,
    least_peak,
    no_chains,
    no_passing,
    passing_tensors,
    scratch_of,
)
from mtpp_models.bounds.ideals.kinds import ideals_of_kinds
from mtpp_models.bounds.ideals.lattice import Branches, Growing, Lattice, Words, antichain, enumerate_ideals, no_ideals
from mtpp_models.cuts.conflicts import join
from mtpp_models.simple import simple

# All ideals of an instance, or one of those that exchanges of equal branches make of one another, where few enough.


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
    """The ideals of an instance, after contractions.

    Parameters
    ----------
    joined : Contraction
        Contraction of the edges that no better partition cuts.
    numbered : Contraction
        Renumbering of the contracted nodes in a topological order.
    branches : Branches
        Equal branches of the contracted graph; the lattice holds one of the ideals that their exchanges turn into each
        other.
    arrays : KernelArrays
        Arrays of the contracted and renumbered instance.
    lattice : Lattice
    passing : Passing
        Tensors that are live at nodes of the original instance which do not touch them; groups are contracted nodes.
    """

    joined: Contraction
    numbered: Contraction
    branches: Branches
    arrays: KernelArrays
    lattice: Lattice
    passing: Passing

    @property
    def instance(self) -> Instance:
        """The contracted and renumbered instance, to which the ideals belong."""
        return self.numbered.instance

    @property
    def is_up_to_exchange(self) -> bool:
        """Whether one ideal is listed for all ideals that differ only by exchanges of equal branches."""
        return len(self.branches.first) > 0

    def partition(self, chains: Chains) -> Partition:
        """The partition of the original instance by the chain of blocks that ends at the ideal of all nodes."""
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
        """(k,) lower bounds on the peak of each block [bytes], valid for every order of its nodes."""
        groups, block = self.numbered.group[self.joined.group], empty_block(self.passing)
        blocks = [np.unique(groups[partition.block == b]) for b in range(self.instance.k)]
        return np.array([least_peak(nodes, needs_of(self.instance), self.passing, block) for nodes in blocks])


@dataclass
class Turns:
    """Clock of a procedure that pauses at the end of its turn and continues in the next one.

    Parameters
    ----------
    whole : Deadline
        End of all turns; work that would take longer is not begun.
    turn : Deadline
        End of the present turn.
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
    """The ideals at which blocks that cost less than `upper` can end; None if there are too many.

    Where there are too many, and branches are equal, only one ideal is listed of those that differ by exchanges of
    equal branches. None if there are more than `limit`, by default as many as the time allows, or if listing them is
    likely to take too long.
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
    """The instance renumbered in a topological order, and its equal branches by the new numbers.

    Nodes at the same place of equal branches are consecutive.
    """
    graph = instance.graph
    # By depth, family and place in the branch; nodes that change places have the same depth.
    family, place, branch = np.full(graph.n, -1), np.arange(graph.n), np.zeros(graph.n, dtype=np.int64)
    for number, rows in enumerate(equal):
        family[rows], place[rows], branch[rows] = number, np.arange(rows.shape[1]), np.arange(len(rows))[:, None]
    order = np.lexsort((branch, place, family, depths(graph.topological_order, *graph.predecessors)))
    rank = np.argsort(order)
    return merge(instance, rank), Branches.of(tuple(np.sort(rank[rows], axis=1) for rows in equal), graph.n)


def arrays_below(instance: Instance, upper: float) -> KernelArrays:
    """Arrays of the instance; transfer times are capped at 2 · upper to keep sums exact."""
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
    """Estimate of the number of all ideals from the ideals listed so far, which are sorted by size.

    Each size still to come is assumed to have `_MEAN_LEVEL` times as many ideals as the last complete size.
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


#: Name of the method in results.
IDEALS = "ideals"

# Costs are sums of at most some thousand terms; rounding stays far below this part of the largest term.
_ROUNDING = 1e-12
# All begins again from the partition found if that costs less than this part of the start.
_MUCH_BETTER = 0.5
# A tenth of a second or so of work between looks at the clock.
_STEPS = 2_000_000
# Every other pass looks for bottlenecks down to this part of the goal, which takes longer.
_ENOUGH = 0.99
# How far the first goal lies above *simple* where no partition is known but one block; each next step is twice as far.
_STEP = 0.1


def ideals(start: Partition, deadline: Deadline | None = None, limit: int | None = None) -> Result:
    """Optimal partition with its proof; at a limit, the best partition and bound so far.

    Over kinds of devices, `mtpp_models.bounds.ideals.kinds.ideals_of_kinds` computes it.

    Parameters
    ----------
    start : Partition
        A known partition; the better it is, the faster the search.
    deadline : Deadline, optional
        After it, the bound proved so far is returned.
    limit : int, optional
        Largest number of ideals; by default as many as the time allows.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 1, 2], output_bytes=[9, 1, 0])
    >>> start = Partition(Instance(graph, Platform(2, bandwidth=1)), [0, 1, 1])
    >>> result = ideals(start)
    >>> start.bottleneck, result.partition.bottleneck, result.proved
    (12.0, 3.0, True)
    """
    deadline = deadline or Deadline()
    if not start.instance.is_alike:
        return ideals_of_kinds(start, deadline)
    return Ideals(deadline, limit)(start, deadline)


class Ideals:
    """Stateful `ideals`: called again for the same question, it continues where time was up.

    Parameters
    ----------
    whole : Deadline
        End of all calls together.
    limit : int, optional
        As for `ideals`.
    """

    _start: Partition  # the best one that is known
    _value: float  # the bound
    _optimal: bool
    _impossible: str | None  # why nothing fits
    _witness: dict[str, Any]
    _work: Iterator[None]

    def __init__(self, whole: Deadline, limit: int | None = None) -> None:
        self._turns, self._limit = Turns(whole, whole), limit
        self._question: str | None = None

    def __call__(self, start: Partition, deadline: Deadline) -> Result:
        """Run or continue, as `ideals`."""
        instance = start.instance
        if self._question != instance.key:
            self._question, self._start, self._value, self._optimal = instance.key, start, simple(instance), False
            self._witness, self._impossible = {}, None
            self._work = self._searches()
        self._turns.turn = deadline
        self._meet(start)
        next(self._work, None)
        if self._impossible is not None:
            return Result(IDEALS, instance, impossible=self._impossible)
        best = self._start if self._start.bottleneck < math.inf else None
        return Result(IDEALS, instance, best, Bound(self._value, IDEALS, self._optimal, self._witness))

    def _searches(self) -> InTurns[None]:
        """Search to the end; search again if rounding left a gap that the better partition reduces."""
        begins = True
        while begins:
            before = self._start.bottleneck
            yield from self._search()
            begins = not self._optimal and self._start.bottleneck < _MUCH_BETTER * before

    def _search(self) -> InTurns[None]:
        """List the ideals at which blocks below the bottleneck can end, then find the least bottleneck along them."""
        start, instance, goal = self._start, self._start.instance, self._start.bottleneck
        arrays = arrays_below(instance, goal)
        ceiling = float(arrays.work.sum() + 2 * arrays.tensor_time.sum())
        margin = _ROUNDING * (ceiling + _stream_time(instance))
        if goal == math.inf:
            # No block that fits costs more.
            goal = 2 * ceiling or 1.0
        if self._value + margin < goal < math.inf:
            listing = yield from list_ideals(instance, start.bottleneck, self._turns, self._limit)
            if listing is not None:
                goal = yield from self._lower(goal, margin, listing)
        best = self._start.bottleneck
        self._optimal = best < math.inf and self._value >= min(goal + margin, best) * (1 - PROOF_TOLERANCE)

    def _lower(self, goal: float, margin: float, listing: Listing) -> InTurns[float]:
        """Least bottleneck of partitions along these ideals [time unit]; better answers and bounds are recorded.

        Peaks with tensors that pass running nodes untouched take long to compute. So peaks are first the needs of
        single nodes, until a partition is better under these.
        """
        incumbent, step, no_chain, start = goal, _STEP, True, self._start
        if (start.block == start.block[:1]).all():
            goal = min(incumbent, (1 + step) * self._value or incumbent)
        enough = goal
        counted = no_passing(listing.instance.graph.n) if len(listing.passing.read) > 0 else listing.passing
        while True:
            if self._start.bottleneck < incumbent:  # as others have found
                incumbent = self._start.bottleneck
                goal, enough = min(goal, incumbent), min(enough, incumbent)
            chains = yield from _chains_below(goal, enough, listing, counted, self._turns)
            cost = float(chains.bottleneck[-1])
            if cost < goal:
                partition = listing.partition(chains)
                self._meet(with_least_peaks(partition))
                if counted is not listing.passing:
                    cost = _least_cost(partition, listing)  # with all that is live, which the chain did not count
                    if cost >= goal:
                        counted = listing.passing
                        continue
                # What took all that is below the goal is seldom the best; what took less nearly always is.
                enough = _ENOUGH * cost if enough == goal else cost
                incumbent = goal = cost
                no_chain = False  # some order may fit where that of the partition does not
                continue
            self._prove(goal - margin, listing)
            if goal < incumbent:
                step = 2 * step
                goal = enough = min(incumbent, (1 + step) * goal)
            elif no_chain and self._start.bottleneck == math.inf:
                self._impossible = (
                    f"does not fit: no partition into {listing.instance.k} blocks does, which all ideals show"
                )
                return goal
            else:
                return goal

    def _meet(self, partition: Partition) -> None:
        """Record the partition if it is the best so far."""
        if partition.bottleneck < self._start.bottleneck:
            self._start = partition

    def _prove(self, value: float, listing: Listing) -> None:
        """Record the bound if it is the best so far."""
        if value >= self._value:
            self._value = value
            equal = families(self._start.instance) if listing.is_up_to_exchange else ()
            self._witness = {"swaps": [family.tolist() for family in equal]} if equal else {}


def _chains_below(goal: float, enough: float, listing: Listing, passing: Passing, turns: Turns) -> InTurns[Chains]:
    """For each ideal, the fewest blocks below the goal that make it up, with their least bottleneck.

    Chains with bottlenecks up to `enough` count as equally good.
    """
    instance, arrays, branches, lattice = listing.instance, listing.arrays, listing.branches, listing.lattice
    need, fit = needs_of(instance), instance.platform.fit
    chains = no_chains(lattice, instance.k, listing.is_up_to_exchange)
    block, scratch = empty_block(passing), scratch_of(arrays, branches)
    question = (arrays, branches, need, passing, fit, lattice, instance.k, goal, enough)
    ideal, last = 0, len(lattice.ideals) - 1
    while ideal < last:
        if turns.turn.passed:
            yield
        else:
            ideal = extend_chains(*question, ideal, _STEPS, chains, block, scratch)
    return chains


def _least_cost(partition: Partition, listing: Listing) -> float:
    """Bottleneck of a partition with the peaks of `Listing.least_peaks`, a lower bound on its cost [time unit]."""
    platform, terms = partition.instance.platform, partition.costs
    resident_bytes = partition.param_bytes + partition.state_bytes + listing.least_peaks(partition)
    over = np.maximum(0.0, resident_bytes - platform.memory)
    overflow = np.where(over > _ROUNDING * resident_bytes, math.inf, 0.0) if platform.fit else over / platform.bandwidth
    return float((terms.work + terms.receive + terms.send + overflow).max())


def _stream_time(instance: Instance) -> float:
    """Longest time that a block can take to stream bytes beyond its memory [time unit]; 0 if none overflows."""
    platform = instance.platform
    live = float(max(needs_of(instance).max(), instance.graph.tensors.bytes.sum())) if instance.needs_peaks else 0.0
    resident_bytes = instance.graph.held_total + (platform.activation_buffer or live)
    return (
        resident_bytes / platform.bandwidth
        if instance.has_overflow and resident_bytes * (1 + _ROUNDING) > platform.memory
        else 0.0
    )
