"""Portfolio of searches: instant ones first, then those that gain most, as graph and time allow."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from heuristics.local_search.annealing import best_of
from heuristics.local_search.kinds import search_kinds
from heuristics.local_search.schedule import search_by_gain
from heuristics.method import Limits
from heuristics.orders.slicing import at_once
from instances import Instance, Partition
from instances.errors import NothingFoundError


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
