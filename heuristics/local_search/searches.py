"""Local search, multilevel search and the portfolio: walks in rounds, and cycles, until the limits are reached."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from heuristics.local_search.annealing import Budget, Walker, best_of
from heuristics.local_search.kinds import search_kinds
from heuristics.local_search.multilevel import cycle
from heuristics.local_search.schedule import search_by_gain
from heuristics.method import Limits
from heuristics.orders.orders import kahn
from heuristics.orders.slicing import at_once, slice_order
from instances import Instance, Partition
from instances.errors import NothingFoundError

# Local search on partitions: annealing in rounds of growing length, with slicing in between.


_FIRST_ROUND = 125_000


def local_search(
    instance: Instance, rng: np.random.Generator, limits: Limits | None = None, *, start: Partition | None = None
) -> Partition:
    """Move nodes between blocks, and swap them, under simulated annealing.

    Each round begins hot, so that it hardly depends on its start, and is twice as long as the one before; its best
    partition is sliced again along orders that list its blocks, which never makes it worse (Theorem 3.4). The
    temperature is proportional to the part of a block's cost that one node has, so it is lower for larger blocks.

    Parameters
    ----------
    instance : Instance
        The question.
    rng : numpy.random.Generator
        Source of random moves and of their acceptance.
    limits : Limits, optional
        Checked every few milliseconds; an evaluation is a move that is tried. Without limits 10 million are tried, or
        200 000 a node where that is less. With a time limit, the last rounds are shortened to the time that is left.
    start : Partition, optional
        By default the slicing of the Kahn order of equal priorities.

    Returns
    -------
    Partition
        No worse than `start`; `start` itself where n · k is so large that the tables would not fit into 2 GiB.
    """
    limits = limits or Limits()
    n = instance.graph.n
    best = start or slice_order(instance, kahn(instance.graph, np.zeros(n)), limits.deadline)
    if not Walker.can_walk(instance):
        return best
    budget = Budget(limits, instance.graph.n)
    walker, planned = Walker(instance, rng, budget), max(_FIRST_ROUND, 10 * n)
    while not budget.spent(best.bottleneck):
        best = best_of((best, walker.slice(walker.walk(best, planned, stretch=3))))
        planned *= 2
    return best


def multilevel(
    instance: Instance, rng: np.random.Generator, limits: Limits | None = None, *, start: Partition | None = None
) -> Partition:
    """Cycles of coarsening and refining, each from a new coarse cut.

    Parameters
    ----------
    instance : Instance
        The question.
    rng : numpy.random.Generator
        Source of randomness of ratings, cuts and walks.
    limits : Limits, optional
        Checked every few milliseconds; an evaluation is a move that is tried. Without limits 10 million are tried, or
        200 000 a node where that is less.
    start : Partition, optional
        By default the best of one block, equal pieces and the slicing of the Kahn order of equal priorities.

    Returns
    -------
    Partition
        No worse than `start`.
    """
    limits = limits or Limits()
    budget, best = Budget(limits, instance.graph.n), start or at_once(instance, limits)
    if not Walker.can_walk(instance):
        return best
    while not budget.spent(best.bottleneck):
        best = best_of((best, cycle(instance, rng, budget, best)))
    return best


# Portfolio of searches: instant ones first, then those that gain most, as graph and time allow.


def portfolio(
    instance: Instance, rng: np.random.Generator, limits: Limits | None = None, *, starts: Iterable[Partition] = ()
) -> Partition:
    """Run the instant heuristics, then multilevel cycles, annealing and genetic search, timed by their past gains.

    One block, two orders in pieces of equal work and, where that leaves most of the time, their exact slicings come
    first. See `heuristics.local_search.schedule` for what follows. Over kinds of devices it is the search of
    `heuristics.local_search.kinds`.

    Parameters
    ----------
    instance : Instance
        Without groups: they are merged before.
    rng : numpy.random.Generator
        Source of randomness of all searches.
    limits : Limits, optional
        Checked between the steps and within the searches; an evaluation is a move that is tried, and an order of the
        genetic search counts as moves that take as long. Without a limit on time or evaluations, 10 million moves,
        or 200 000 a node where that is less; over kinds a dozen walks.
        Without a limit on time, the same seed gives the same answer.
    starts : iterable of Partition
        Partitions of the same graph into at most k blocks, to begin from.

    Returns
    -------
    Partition
        No worse than any of `starts`.

    Raises
    ------
    InputError
        If a start does not obey the instance.
    NothingFoundError
        If none fits.
    """
    limits = limits or Limits()
    candidates = [start.under(instance) for start in starts]
    if not instance.is_alike:
        return search_kinds(instance, rng, limits, candidates)
    try:
        candidates.append(at_once(instance, limits))
    except NothingFoundError:
        if not candidates:
            raise
    return search_by_gain(instance, rng, limits, best_of(candidates), candidates)
