"""Which search when: each is tried, and the one that gained most for its time lately goes on.

The searches share the best partition, and a pool of good ones that were found apart. None is left without a least share
of the time, as what gains nothing at first may be what gains at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from heuristics.limits import Limits
from heuristics.local_search.multilevel import cycle
from heuristics.local_search.walks import ORDER_MOVES, Budget, Walker, best_of
from heuristics.orders.brkga import BRKGAParameters, Population
from heuristics.orders.kahn import kahn
from heuristics.orders.kernels import decode
from heuristics.orders.slicing import TABLE_NODES, slice_order
from instances import Instance, Partition
from instances.graph.tensors import FloatArray
from instances.partitioning.kernel_arrays import KernelArrays

__all__ = ["search_by_gain"]

#: Least parts of the time: of a search that is a walk, of genetic search, and of others.
_LEAST_OF_WALKS, _LEAST_OF_ORDERS, _LEAST = 0.2, 0.25, 0.1
#: What a gain counts once its search has run again.
_FADING = 0.5
#: First walks have so many moves, each later one twice as many.
_FIRST_WALK = 250_000
#: Heats of the walks that keep most of the partition.
_COOL = (0.1, 0.25, 0.5)
#: So many partitions are kept to be crossed with the best one.
_POOL = 8
#: Genetic search takes part if a quarter of the time is likely to be enough for so many orders; a move takes about so
#: many seconds.
_FEWEST_ORDERS, _MOVE_SECONDS = 1000, 1e-7
#: Levels are made if that is likely to take less than a quarter of the time: about so many seconds a node.
_LEVEL_SECONDS = 1e-4


def search_by_gain(
    instance: Instance,
    rng: np.random.Generator,
    limits: Limits,
    start: Partition,
    others: Sequence[Partition] = (),
) -> Partition:
    """Multilevel cycles, walks and genetic search in turn, as they gain.

    Parameters
    ----------
    instance : Instance
        Without groups.
    rng : numpy.random.Generator
    limits : Limits
        An evaluation is a move that is tried; by default 10 million, or 200 000 a node, unless time is limited.
    start : Partition
    others : sequence of Partition
        More partitions, to be crossed with the best.

    Returns
    -------
    Partition
        No worse than `start`.
    """
    if not Walker.can_walk(instance):
        return start
    budget = Budget(limits, instance.graph.n)
    searches = _Searches(instance, rng, budget, list(others))
    arms, best = searches.arms(), start
    while not budget.spent(best.bottleneck):
        arm, begin = _next(arms), budget.clock
        found = best_of((best, arm.run(best)))
        arm.note(_gain(best, found), budget.clock - begin)
        best = found
    return best


@dataclass(eq=False)
class _Arm:
    """A search with what it took and gained."""

    run: Callable[[Partition], Partition]
    least: float  # part of the time
    spent: float = 0.0
    rate: float | None = None  # gain per unit of time lately; None if it never ran

    def note(self, gain: float, spent: float) -> None:
        """It took so much and gained so much."""
        rate = gain / max(spent, 1e-9)
        self.spent, self.rate = self.spent + spent, rate if self.rate is None else _FADING * (self.rate + rate)


def _next(arms: list[_Arm]) -> _Arm:
    """One that never ran, or has less than its least part, or gained most; of equal ones that which took least."""
    total = sum(arm.spent for arm in arms)
    for arm in arms:
        if arm.rate is None:
            return arm
    late = [arm for arm in arms if arm.spent < arm.least * total]
    return min(late or arms, key=lambda arm: (0.0 if late else -(arm.rate or 0.0), arm.spent))


def _gain(before: Partition, after: Partition) -> float:
    """How much smaller the logarithm of the bottleneck is."""
    if after.preference >= before.preference:
        return 0.0
    if after.bottleneck <= 0 or before.bottleneck == math.inf:  # all that there is to gain, or the first that fits
        return 1.0
    return math.log(before.bottleneck / after.bottleneck)


class _Searches:
    """The searches, each of which takes the best partition and returns one that need not be better."""

    def __init__(self, instance: Instance, rng: np.random.Generator, budget: Budget, pool: list[Partition]) -> None:
        self._instance, self._rng, self._budget, self._pool = instance, rng, budget, pool
        self._walker = Walker(instance, rng, budget)
        self._cool_moves = self._hot_moves = max(_FIRST_WALK, 10 * instance.graph.n)
        self._arrays = KernelArrays.of(instance)
        self._population: Population | None = None

    def arms(self) -> list[_Arm]:
        """Those that suit the instance and the time."""
        n, left = self._instance.graph.n, self._budget.limits.deadline.left
        found = [_Arm(self._cool, _LEAST_OF_WALKS), _Arm(self._hot, _LEAST_OF_WALKS)]
        if n * _LEVEL_SECONDS <= left / 4:
            found = [_Arm(self._fresh, _LEAST), _Arm(self._kept, _LEAST), _Arm(self._crossed, _LEAST), *found]
        orders = min(left / _MOVE_SECONDS, self._budget.left) / 4 / (ORDER_MOVES * n**2)
        if n <= TABLE_NODES and self._instance.k > 1 and not self._instance.needs_peaks and orders >= _FEWEST_ORDERS:
            found.append(_Arm(self._genetic, _LEAST_OF_ORDERS))
        return found

    def _fresh(self, best: Partition) -> Partition:
        """A multilevel cycle from nothing."""
        return self._remember(cycle(self._instance, self._rng, self._budget, best))

    def _kept(self, best: Partition) -> Partition:
        """A cycle that joins nodes within blocks of the best partition and begins from it."""
        return cycle(self._instance, self._rng, self._budget, best, ())

    def _crossed(self, best: Partition) -> Partition:
        """A cycle that joins nodes that share a block in two partitions."""
        others = [other for other in self._pool if other is not best]
        chosen = [others[self._rng.integers(len(others))]] if others else []
        return cycle(self._instance, self._rng, self._budget, best, chosen)

    def _cool(self, best: Partition) -> Partition:
        """A walk that keeps most of the best partition."""
        heat = float(self._rng.choice(_COOL))
        found = self._walker.slice(self._walker.walk(best, self._cool_moves, heat=heat, stretch=2))
        self._cool_moves *= 2
        return found

    def _hot(self, best: Partition) -> Partition:
        """A walk that forgets where it started."""
        found = self._walker.slice(self._walker.walk(best, self._hot_moves, stretch=2))
        self._hot_moves *= 2
        return self._remember(found)

    def _genetic(self, _: Partition) -> Partition:
        """A generation of orders."""
        n, parameters = self._instance.graph.n, BRKGAParameters()
        if self._population is None:
            count = parameters.population
            self._population = Population(self._fitness, n, self._rng, parameters, count)
        else:
            count = self._population.advance(parameters.population)
        self._budget.take(count * max(1, int(ORDER_MOVES * n**2)))
        return slice_order(self._instance, kahn(self._instance.graph, self._population.best))

    def _fitness(self, keys: FloatArray) -> FloatArray:
        return decode(keys, self._instance.k, self._arrays)

    def _remember(self, found: Partition) -> Partition:
        if not any(np.array_equal(found.block, other.block) for other in self._pool):
            self._pool.append(found)
            if len(self._pool) > _POOL:
                self._pool.remove(max(self._pool, key=lambda other: other.preference))
        return found
