"""Walks under annealing and slicings of one question, as long as moves and time allow."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from contextlib import suppress

import numpy as np

from heuristics.limits import Limits
from heuristics.local_search.annealing import anneal_partition
from heuristics.local_search.cooling import Cooling
from heuristics.local_search.state import start_state
from heuristics.orders.kahn import kahn
from heuristics.orders.kernels import decode
from heuristics.orders.slicing import TABLE_NODES, slice_order
from instances import Instance, Partition
from instances.deadline import CLOCK
from instances.errors import NothingFoundError
from instances.partitioning.kernel_arrays import KernelArrays

__all__ = ["ORDER_MOVES", "Budget", "Walker", "best_of"]

#: Moves where neither time nor evaluations are limited: in all, and for each node.
_MOVES, _NODE_MOVES = 10_000_000, 200_000
#: A walk of heat 1 cools down from at most `_HOT` to at most `_COLD`.
_HOT, _COLD = 10.0, 0.02
#: Slicing an order of n nodes takes as long as this times n² moves.
ORDER_MOVES = 0.05
#: After a walk so many random orders of its blocks are sliced: fewer of large graphs, and never so many that they take
#: more than this part of the time of the walk.
_ORDERS, _SLICED_NODES, _SLICED_PART = 30, 10_000, 0.25
#: Moves between two looks at the limits, and before the first of them.
_CHUNK, _FIRST_CHUNK = 62_500, 2_000
#: The table of readers, an entry for each tensor and block, has up to 2 GiB.
_LARGEST_TABLE = 2**29


class Budget:
    """Budget that several walks share: a number of moves, and the limits of the search.

    Parameters
    ----------
    limits : Limits
        An evaluation is a move. Without limits of time or evaluations 10 million are allowed, or 200 000 a node where
        that is less.
    n : int
        Nodes of the graph.
    """

    def __init__(self, limits: Limits, n: int) -> None:
        unlimited = limits.evaluations is None and limits.deadline.left == math.inf
        limit = min(_MOVES, _NODE_MOVES * n) if unlimited else sys.maxsize
        self.limits, self.remaining = limits, limits.allow(limit)
        self._taken, self._ended, self._begin = 0, False, CLOCK.now()

    def spent(self, bottleneck: float) -> bool:
        """Whether to stop with a partition that is so good; once it is so, it stays so."""
        self._ended = self._ended or self.remaining <= 0 or bottleneck <= 0 or self.limits.reached(bottleneck)
        return self._ended

    def take(self, moves: int) -> None:
        """Note that so many moves were tried."""
        self.remaining, self._taken = self.remaining - moves, self._taken + moves

    @property
    def clock(self) -> float:
        """Budget used so far: seconds; moves where evaluations or nothing are limited, so that runs can be repeated."""
        deadline = self.limits.deadline.end
        return CLOCK.now() if deadline < math.inf and self.limits.evaluations is None else float(self._taken)

    @property
    def part(self) -> float:
        """Part of the budget that was taken so far, at most 1."""
        deadline = self.limits.deadline.end
        passed = (CLOCK.now() - self._begin) / max(deadline - self._begin, 1e-9) if deadline < math.inf else 0.0
        return min(1.0, max(passed, self._taken / max(1, self._taken + self.remaining)))

    def size(self, planned: int, done: int, speed: float, stretch: int) -> int:
        """Moves of a walk of which some are done: as planned, or all that are left if below `stretch` times as many."""
        remaining = self.remaining
        if speed * self.limits.deadline.left < math.inf:
            remaining = min(remaining, max(1, int(speed * self.limits.deadline.left)))
        return done + remaining if done + remaining < stretch * planned else planned


class Walker:
    """Walks and slicings of partitions of one instance."""

    def __init__(self, instance: Instance, rng: np.random.Generator, budget: Budget) -> None:
        n, k = instance.graph.n, instance.k
        self.instance, self._rng, self._budget = instance, rng, budget
        self._arrays, self._before = KernelArrays.of(instance), instance.graph.predecessors
        self._work, self._transfers = float(instance.graph.work.sum()), float(instance.tensor_time.sum())
        # A peak takes as long as its block.
        self._chunk = max(1, _CHUNK // (1 + n // k)) if self._arrays.needs_peaks else _CHUNK
        self._next = min(self._chunk, _FIRST_CHUNK)
        self._speed, self._walked = math.inf, 0

    @staticmethod
    def can_walk(instance: Instance) -> bool:
        """Whether the tables fit into 2 GiB."""
        return len(instance.graph.tensors.bytes) * instance.k <= _LARGEST_TABLE

    def walk(self, start: Partition, planned: int, *, heat: float = 1.0, stretch: int = 1) -> Partition:
        """Run a walk from `start` and return its best partition; the temperature falls from `heat` times the usual one.

        Parameters
        ----------
        planned : int
            Number of moves; fewer if the budget ends before.
        stretch : int
            Take all that is left of the budget if it is below so many times what is planned.
        """
        budget, scale = self._budget, self._scale(start)
        cold = _COLD * min(1.0, scale)
        hot = max(cold, heat * min(_HOT, scale))
        block, order = start.block.copy(), start.order.copy()  # writable: for others the kernel is compiled again
        state = start_state(block, order, self.instance.k, self._arrays)
        weight, begin, done = np.ones(self.instance.k), CLOCK.now(), 0
        size = budget.size(planned, 0, self._speed, stretch)
        while done < size and not budget.spent(float(state.best[0])):
            chunk = min(self._next, size - done)
            cooling, seed = Cooling(size, hot, cold).part(done, chunk), int(self._rng.integers(2**31))
            anneal_partition(state, self._arrays, self._before, cooling, weight, seed)
            done, self._next = done + chunk, self._chunk
            budget.take(chunk)
            self._speed = done / max(1e-9, CLOCK.now() - begin)
            size = budget.size(planned, done, self._speed, stretch)
        self._walked = done
        return Partition(self.instance, state.best_rank[state.best_block], start.order)

    def _scale(self, start: Partition) -> float:
        """Relative change of the bottleneck to the power of 16 when an average node moves with its transfers."""
        nodes = self.instance.graph.n
        if self._work == 0:  # memory alone counts
            return 16 * self.instance.k / nodes
        bottleneck = min(start.bottleneck, self._work)  # one block, without what is beyond the memory
        return 16 * (self._work + 2 * self._transfers) / nodes / bottleneck

    def slice(self, partition: Partition) -> Partition:
        """The best of the partition, from the last walk, and the slicings of orders that list its blocks one by one."""
        candidates, n = [partition], len(partition.block)
        if n <= TABLE_NODES:
            arrays, block = self._arrays, partition.block
            nodes = _SLICED_NODES // 20 if arrays.needs_peaks else _SLICED_NODES  # peaks of all segments take longer
            orders = min(_ORDERS, nodes // n, int(_SLICED_PART * self._walked / (ORDER_MOVES * n**2)))
            priorities = self._rng.random((max(1, orders), n)) - block
            values = decode(priorities, self.instance.k, arrays)
            position = np.argsort(partition.order)
            for priority in (-(block * n + position), priorities[values.argmin()]):
                with suppress(NothingFoundError):
                    candidates.append(slice_order(self.instance, kahn(self.instance.graph, priority)))
        return best_of(candidates)


def best_of(partitions: Iterable[Partition]) -> Partition:
    """Best partition by `preference`, the first of equal ones."""
    return min(partitions, key=lambda partition: partition.preference)
