"""Schedule of several searches: each is tried, then the one of largest recent gain per second goes on.

The searches share the best partition and a pool of good ones. None is left without a least share of the time, as what
gains nothing at first may be what gains at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from heuristics.local_search.annealing import ORDER_MOVES, Budget, Walker, best_of
from heuristics.local_search.multilevel import SMALL_NODES, Pool
from heuristics.method import Limits
from heuristics.orders.genetic import BRKGAParameters, Population
from heuristics.orders.orders import decode, kahn
from heuristics.orders.slicing import TABLE_NODES, slice_order
from instances import Instance, Partition
from instances.graph.tensors import FloatArray
from instances.partitioning.peaks import KernelArrays

#: Least parts of the time: of each kind of walks, of genetic search, and of cycles on small and on large graphs.
_LEAST_OF_WALKS, _LEAST_OF_ORDERS, _LEAST_OF_SMALL_CYCLES, _LEAST_OF_CYCLES = 0.1, 0.25, 0.5, 0.7
#: Genetic search whose best bottleneck is so many times the best known has only this least part.
_FAR, _LEAST_OF_FAR_ORDERS = 1.04, 0.05
#: Factor on older gains and times whenever their search runs again.
_FADING = 0.5
#: First walks have so many moves, each later one twice as many, until one takes more than this part of the time.
_FIRST_WALK, _LONGEST = 250_000, 0.05
#: Heats of the walks that keep most of the partition.
_COOL = (0.1, 0.25, 0.5)
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
        Source of randomness of all searches.
    limits : Limits
        An evaluation is a move that is tried; by default 10 million, or 200 000 a node, unless time is limited.
    start : Partition
        Where the searches begin.
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
    searches = _Searches(instance, rng, budget, others)
    arms, best = searches.arms(), start
    while not budget.spent(best.bottleneck):
        arm, begin = _next(arms), budget.clock
        candidate = best_of((best, arm.run(best)))
        arm.note(_gain(best, candidate), budget.clock - begin)
        best = candidate
    return best


@dataclass(eq=False)
class _Arm:
    """A search with the time that it has used and its gains."""

    run: Callable[[Partition], Partition]
    least: float  # part of the time
    spent: float = 0.0
    rate: float | None = None  # gain per unit of time lately; None if it never ran
    _lately: float = 0.0  # the time that the rate is about

    def note(self, gain: float, spent: float) -> None:
        """Record the seconds and the gain of a turn."""
        before, spent = _FADING * self._lately, max(spent, 1e-9)
        self.spent, self._lately = self.spent + spent, before + spent
        self.rate = ((self.rate or 0.0) * before + gain) / self._lately


def _next(arms: list[_Arm]) -> _Arm:
    """The search to run next: one that never ran, else one below its share of time, else that of the highest gain."""
    total = sum(arm.spent for arm in arms)
    for arm in arms:
        if arm.rate is None:
            return arm
    late = [arm for arm in arms if arm.spent < arm.least * total]
    return min(late or arms, key=lambda arm: (0.0 if late else -(arm.rate or 0.0), arm.spent))


def _gain(before: Partition, after: Partition) -> float:
    """Decrease of the logarithm of the bottleneck; 1 for the first feasible partition, and for a bottleneck of 0."""
    if after.preference >= before.preference:
        return 0.0
    if after.bottleneck <= 0 or before.bottleneck == math.inf:  # all that there is to gain, or the first that fits
        return 1.0
    return math.log(before.bottleneck / after.bottleneck)


class _Searches:
    """The searches; each takes the best partition and returns a partition, better or not."""

    def __init__(
        self, instance: Instance, rng: np.random.Generator, budget: Budget, partitions: Sequence[Partition]
    ) -> None:
        self._instance, self._rng, self._budget = instance, rng, budget
        self._pool = Pool(instance, rng, budget, partitions)
        self._walker = Walker(instance, rng, budget)
        self._cool_moves = self._hot_moves = max(_FIRST_WALK, 10 * instance.graph.n)
        self._arrays = KernelArrays.of(instance)
        self._population: Population | None = None
        self._orders = _Arm(self._genetic, _LEAST_OF_ORDERS)

    def arms(self) -> list[_Arm]:
        """Searches suitable for the instance and the time."""
        n, remaining = self._instance.graph.n, self._budget.limits.deadline.left
        arms = [_Arm(self._cool, _LEAST_OF_WALKS), _Arm(self._hot, _LEAST_OF_WALKS)]
        if n * _LEVEL_SECONDS <= remaining / 4:
            least = _LEAST_OF_SMALL_CYCLES if n <= SMALL_NODES else _LEAST_OF_CYCLES
            arms = [_Arm(self._pool.breed, least), *arms]
        orders = min(remaining / _MOVE_SECONDS, self._budget.remaining) / 4 / (ORDER_MOVES * n**2)
        if n <= TABLE_NODES and self._instance.k > 1 and not self._instance.needs_peaks and orders >= _FEWEST_ORDERS:
            arms.append(self._orders)
        return arms

    def _cool(self, best: Partition) -> Partition:
        """Run a walk at low temperature, which keeps most of the best partition."""
        partition, self._cool_moves = self._walk(best, self._cool_moves, float(self._rng.choice(_COOL)))
        return partition

    def _hot(self, best: Partition) -> Partition:
        """Run a walk at full temperature, which depends little on its start."""
        partition, self._hot_moves = self._walk(best, self._hot_moves, 1.0)
        return partition

    def _walk(self, best: Partition, moves: int, heat: float) -> tuple[Partition, int]:
        """Run one walk from `best`; return its partition, and the number of moves for the next walk."""
        begin = self._budget.part
        partition = self._walker.slice(self._walker.walk(best, moves, heat=heat))
        self._pool.add(partition)
        return partition, moves if self._budget.part - begin > _LONGEST else 2 * moves

    def _genetic(self, best: Partition) -> Partition:
        """Advance the genetic search by one generation; return its best order, sliced."""
        n, parameters = self._instance.graph.n, BRKGAParameters()
        if self._population is None:
            count = parameters.population
            self._population = Population(self._fitness, n, self._rng, parameters, count)
        else:
            count = self._population.advance(parameters.population)
        self._budget.take(count * max(1, int(ORDER_MOVES * n**2)))
        partition = slice_order(self._instance, kahn(self._instance.graph, self._population.best))
        is_far = partition.bottleneck > _FAR * best.bottleneck
        self._orders.least = _LEAST_OF_FAR_ORDERS if is_far else _LEAST_OF_ORDERS
        return partition

    def _fitness(self, keys: FloatArray) -> FloatArray:
        return decode(keys, self._instance.k, self._arrays)
