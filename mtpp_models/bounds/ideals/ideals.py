r"""Exact optima without a solver: dynamic programming over ideals.

A partition is a chain of ideals :math:`\emptyset = I_0 \subseteq I_1 \subseteq \dots \subseteq I_k = V`, and block b
is :math:`I_b \setminus I_{b-1}`. For a goal T the program finds the fewest blocks below T that hold each ideal,

.. math:: b(J) = 1 + \min \{ b(I) : I \subset J, \; f(J \setminus I) < T \},

which tells whether a partition costs less than T. The first goal is the bottleneck of a known partition: where that is
the best one, one pass proves it. Else goals fall to what is found; where no partition is known but one block, they rise
from *simple* until something is found, as low goals take little time.

Networks are narrow: theirs have tens to some hundred thousand ideals. Where they have many, one stands for all that
become one another as equal branches change places, such as experts; the witness names these. Or else the edges that no
better partition cuts are contracted first, which leaves far fewer. Wide graphs have too many ideals; then there is no
answer.

With finite memory and no activation buffer, the peak of a block counts as the most that is live at one of its nodes in
every order, with which narrow networks are proved, also in training; the models count what one node reads and writes.
Where the memory is a hard limit, blocks that do not fit are left out, and what is left tells whether anything
fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from instances import Bound, Instance, Partition, Result
from instances.deadline import Deadline
from instances.partitioning.least_peaks import with_least_peaks
from instances.partitioning.no_fit import needs_of
from instances.partitioning.symmetry import families
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.ideals.dynamic_program import Chains, extend_chains, no_chains
from mtpp_models.bounds.ideals.listing import InTurns, Listing, Turns, arrays_below, list_ideals
from mtpp_models.bounds.ideals.passing_tensors import Passing, no_passing
from mtpp_models.simple import simple

__all__ = ["IDEALS", "Ideals", "ideals"]

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
    """Optimal partition with the bound that proves it; at a limit, the best partition and bound so far.

    Parameters
    ----------
    start : Partition
        The better it is, the less there is to do.
    deadline : Deadline, optional
        When it passes, the bound proved by then counts.
    limit : int, optional
        Largest number of ideals; by default what the time is enough for.

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
    return Ideals(deadline, limit)(start, deadline)


class Ideals:
    """Stateful `ideals`: called again for the same question, it goes on where its time was up.

    Parameters
    ----------
    whole : Deadline
        Of all calls together.
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
        """Search until it is optimal; again if rounding left a gap that a better partition makes smaller."""
        begins = True
        while begins:
            before = self._start.bottleneck
            yield from self._search()
            begins = not self._optimal and self._start.bottleneck < _MUCH_BETTER * before

    def _search(self) -> InTurns[None]:
        """List the ideals of all blocks below the bottleneck, and lower the goal until no partition is below it."""
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
        """The least bottleneck of partitions into these ideals [time unit]; partitions and bounds are kept on the way.

        Peaks count tensors that pass a node only after a partition seemed better without them, as counting takes time.
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
        """Keep the partition if it is the best so far."""
        if partition.bottleneck < self._start.bottleneck:
            self._start = partition

    def _prove(self, value: float, listing: Listing) -> None:
        """Keep the bound if it is the best so far."""
        if value >= self._value:
            self._value = value
            equal = families(self._start.instance) if listing.is_up_to_exchange else ()
            self._witness = {"swaps": [family.tolist() for family in equal]} if equal else {}


def _chains_below(goal: float, enough: float, listing: Listing, passing: Passing, turns: Turns) -> InTurns[Chains]:
    """For each ideal the fewest blocks below the goal that together are it, and their bottleneck."""
    instance, arrays, branches, lattice = listing.instance, listing.arrays, listing.branches, listing.lattice
    need, fit = needs_of(instance), instance.platform.fit
    chains = no_chains(lattice, instance.k, listing.is_up_to_exchange)
    ideal, last = 0, len(lattice.ideals) - 1
    while ideal < last:
        if turns.turn.passed:
            yield
        else:
            first = ideal
            ideal = extend_chains(
                arrays, branches, need, passing, fit, lattice, instance.k, goal, enough, first, _STEPS, chains
            )
    return chains


def _least_cost(partition: Partition, listing: Listing) -> float:
    """Bottleneck of a partition whose peaks are those of `Listing.least_peaks`."""
    platform, terms = partition.instance.platform, partition.costs
    resident_bytes = partition.param_bytes + partition.state_bytes + listing.least_peaks(partition)
    over = np.maximum(0.0, resident_bytes - platform.memory)
    overflow = np.where(over > _ROUNDING * resident_bytes, math.inf, 0.0) if platform.fit else over / platform.bandwidth
    return float((terms.work + terms.receive + terms.send + overflow).max())


def _stream_time(instance: Instance) -> float:
    """Time to stream all that the nodes keep, with the buffer or all that is live; 0 if nothing can overflow."""
    platform = instance.platform
    live = float(max(needs_of(instance).max(), instance.graph.tensors.bytes.sum())) if instance.needs_peaks else 0.0
    resident_bytes = instance.graph.held_total + (platform.activation_buffer or live)
    return (
        resident_bytes / platform.bandwidth
        if instance.has_overflow and resident_bytes * (1 + _ROUNDING) > platform.memory
        else 0.0
    )
