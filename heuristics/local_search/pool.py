"""Pool of partitions for crossover, which combines parts on which several of them agree.

A cycle that joins only nodes that share a block in both parents keeps what they have in common, and walks decide the
rest. Its result takes the place of the partition most like it among those that are no better, so the pool stays varied
(Sanders, Schulz: Distributed evolutionary graph partitioning, ALENEX 2012).

Which basin a pool ends in hangs on its first partitions, and it gets there soon. So once it finds nothing better, a
generation begins from nothing, unknown to the one before; then the better halves of both are crossed, and so on by
turns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heuristics.local_search.multilevel import cycle
from heuristics.local_search.walks import Budget, best_of
from instances import Instance, Partition

__all__ = ["SMALL_NODES", "Pool"]

#: Partitions in the pool, and at least before any are crossed.
_SIZE, _FEWEST = 16, 3
#: The pool is filled from nothing for at most this part of the time.
_FILLING = 0.1
#: Part of the cycles that have one parent.
_ALONE = 0.2
#: A generation ends after so many partitions in a row none of which is its best: of graphs with up to so many nodes,
#: whose generations end within a per cent of each other, and of larger ones.
SMALL_NODES = 200
_STALE_SMALL, _STALE = 48, 16


class Pool:
    """Partitions of one instance.

    Parameters
    ----------
    instance : Instance
    rng : numpy.random.Generator
    budget : Budget
    known : sequence of Partition
        Members of the first generation.
    """

    def __init__(
        self, instance: Instance, rng: np.random.Generator, budget: Budget, partitions: Sequence[Partition]
    ) -> None:
        self._instance, self._rng, self._budget = instance, rng, budget
        self._members: list[Partition] = []
        self._kept: list[Partition] = []  # of the generations before, while one begins from nothing
        self._idle, self._until = 0, _FILLING
        for partition in partitions:
            self._add(partition)

    def add(self, partition: Partition) -> None:
        """Let what another search made of the best join, if this generation does not stem from nothing, or the next."""
        if self._kept:
            self._kept.append(partition)
        else:
            self._add(partition)

    def _add(self, partition: Partition) -> None:
        """Let `partition` join if there is room, or in place of one that is no better."""
        self._idle += 1
        if any(np.array_equal(partition.block, other.block) for other in self._members):
            return
        if not self._members or partition.preference < best_of(self._members).preference:
            self._idle = 0
        if len(self._members) < _SIZE:
            self._members.append(partition)
            return
        worse = [i for i, other in enumerate(self._members) if partition.preference <= other.preference]
        if worse:
            alike = min(worse, key=lambda i: np.count_nonzero(self._members[i].block != partition.block))
            self._members[alike] = partition

    def breed(self, best: Partition) -> Partition:
        """A cycle from nothing while the pool is filled, then from one or two of its partitions.

        Parameters
        ----------
        best : Partition
            The best that is known.
        """
        if self._idle >= (_STALE_SMALL if self._instance.graph.n <= SMALL_NODES else _STALE):
            self._renew()
        if len(self._members) < (_SIZE if self._budget.part < self._until else _FEWEST):
            child = cycle(self._instance, self._rng, self._budget, best)
        else:
            first, *others = self._parents()
            child = cycle(self._instance, self._rng, self._budget, first, others)
        self._add(child)
        return child

    def _renew(self) -> None:
        """Start a generation: the first and every second one from nothing, the others from the better halves of two."""
        half = sorted(self._members, key=lambda partition: partition.preference)[: _SIZE // 2]
        survivors = [*half, *self._kept] if self._kept else []
        self._members, self._kept = [], [] if self._kept else half
        for partition in survivors:
            self._add(partition)
        self._idle, self._until = 0, self._budget.part + _FILLING * (1 - self._budget.part)

    def _parents(self) -> list[Partition]:
        """One or two partitions, the better one first; each is the better of two that are drawn."""
        drawn = [self._members[i] for i in self._rng.permutation(len(self._members))[:4]]
        if self._rng.random() < _ALONE:
            return drawn[:1]
        return sorted((best_of(drawn[::2]), best_of(drawn[1::2])), key=lambda partition: partition.preference)
