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

With finite memory and no activation buffer, the peak of a block counts as the largest need of its nodes, as in every
model. Where the memory is a hard limit, blocks that do not fit are left out, and what is left tells whether anything
fits.
"""

from __future__ import annotations

import math
from typing import Any

from instances import Bound, Instance, Partition, Result
from instances.deadline import Deadline
from instances.partitioning.no_fit import needs_of
from instances.partitioning.symmetry import families
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.ideals.dynamic_program import Chains, Needs, extend_chains, first_blocks, largest_needs
from mtpp_models.bounds.ideals.listing import Listing, arrays_below, list_ideals
from mtpp_models.simple import simple

__all__ = ["IDEALS", "ideals"]

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
    result = _search(start, deadline, limit)
    while (found := result.partition) is not None and _is_too_rough(result, start):
        start = found
        again = _search(start, deadline, limit)
        if not again.proved:
            break
        result = again
    return result


def _is_too_rough(result: Result, start: Partition) -> bool:
    """Whether rounding leaves a gap that would be smaller beside the better partition that is known now."""
    assert result.bound is not None
    assert result.partition is not None
    return not result.bound.optimal and result.partition.bottleneck < _MUCH_BETTER * start.bottleneck


def _search(start: Partition, deadline: Deadline, limit: int | None) -> Result:
    """Set the goal to what was found until nothing is below it."""
    instance, goal = start.instance, start.bottleneck
    best = start if goal < math.inf else None
    arrays, value = arrays_below(instance, goal), simple(instance)
    most = float(arrays.work.sum() + 2 * arrays.tensor_time.sum())
    margin = _ROUNDING * (most + _stream_time(instance))
    if best is None:
        # No block that fits costs more.
        goal = 2 * most or 1.0
    listing = list_ideals(instance, start.bottleneck, deadline, limit) if value + margin < goal < math.inf else None
    known, step = goal, _STEP
    if (start.block == start.block[:1]).all():
        goal = min(known, (1 + step) * value or known)
    enough = goal
    while listing is not None:
        chains = _chains_below(goal, enough, listing, deadline)
        if chains is None:
            break
        found = float(chains.bottleneck[-1])
        if found < goal:
            partition = listing.partition(chains)
            best = partition if best is None else min(best, partition, key=lambda partition: partition.bottleneck)
            # What took all that is below the goal is seldom the best; what took less nearly always is.
            enough = _ENOUGH * found if enough == goal else found
            known = goal = found
        elif goal < known:
            value, step = max(value, goal - margin), 2 * step
            goal = enough = min(known, (1 + step) * goal)
        elif best is None:
            reason = f"does not fit: no partition into {instance.k} blocks does, which all ideals show"
            return Result(IDEALS, instance, impossible=reason)
        else:
            value = max(value, goal - margin)
            break
    optimal = best is not None and value >= min(goal + margin, best.bottleneck) * (1 - PROOF_TOLERANCE)
    witness: dict[str, Any] = {}
    if listing is not None and listing.is_up_to_exchange:
        witness["swaps"] = [family.tolist() for family in families(instance)]
    return Result(IDEALS, instance, best, Bound(value, IDEALS, optimal, witness))


def _chains_below(goal: float, enough: float, listing: Listing, deadline: Deadline) -> Chains | None:
    """Find for each ideal the fewest blocks below the goal that hold it; None if time ends first."""
    instance, arrays, branches, lattice = listing.instance, listing.arrays, listing.branches, listing.lattice
    needs, fit = needs_of(instance), instance.platform.fit
    least = Needs(needs, *largest_needs(needs, lattice))
    chains = first_blocks(arrays, branches, least, fit, lattice, instance.k, goal)
    ideal, last = 1, len(lattice.ideals) - 1
    while ideal < last:
        if deadline.passed:
            return None
        ideal = extend_chains(arrays, branches, least, fit, lattice, instance.k, goal, enough, ideal, _STEPS, chains)
    return chains


def _stream_time(instance: Instance) -> float:
    """Time to stream everything held, with the buffer or the largest need; 0 if nothing can overflow."""
    platform = instance.platform
    held = instance.graph.held_total + (platform.activation_buffer or 0.0) + float(needs_of(instance).max())
    return held / platform.bandwidth if instance.has_overflow and held * (1 + _ROUNDING) > platform.memory else 0.0
