"""Local search and simulated annealing."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heuristics.local_search.state import (
    PartitionState,
    cost_of,
    is_missed,
    move,
    peak_of,
    places_for,
    settle,
    start_state,
    times_after,
)
from heuristics.method import Limits
from heuristics.orders.orders import decode, kahn
from heuristics.orders.slicing import TABLE_NODES, slice_order
from instances import Instance, Partition
from instances.compiled import compiled
from instances.deadline import CLOCK
from instances.errors import NothingFoundError
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.peaks import KernelArrays

# Temperatures of a walk under simulated annealing.


class Cooling(NamedTuple):
    """Number of moves of a walk, and its temperature, which falls from hot to cold by the same factor at each move.

    Examples
    --------
    >>> Cooling(100, hot=4.0, cold=1.0).part(0, 50)
    Cooling(moves=50, hot=4.0, cold=2.0)
    """

    moves: int
    hot: float  # before the first move; 0 stays 0
    cold: float  # after the last one

    def part(self, done: int, moves: int) -> Cooling:
        """Cooling of the next `moves` moves, after `done` moves of this one."""
        hot, cold = (self.hot and self.hot * (self.cold / self.hot) ** (at / self.moves) for at in (done, done + moves))
        return Cooling(moves, hot, cold)


@compiled(allocates=False)
def factor_of(cooling: Cooling) -> float:
    """Factor of the temperature at each move."""
    if cooling.hot <= 0.0:
        return 1.0
    return float((cooling.cold / cooling.hot) ** (1.0 / max(1, cooling.moves)))


# Simulated annealing on partitions, compiled by numba.
#
# A move takes a node to another block between those of its predecessors and its successors, so no edge ever points
# backwards; a swap also takes a node of that block back. Either costs time proportional to the degrees of its nodes.
# Two blocks that follow each other without an edge between them may change places, which costs nothing and opens other
# moves.
#
# The search minimises the sum of the sixteenth powers of the weighted block costs over the best bottleneck, a smooth
# stand-in for their maximum. With weights of 1 blocks would stay unequal where equal ones need more transfers: if one
# block can gain a second for five that another one loses, the sum is least where their costs differ by a tenth. So
# blocks that cost more than the mean count more from then on.
#
# Where costs depend on the peak memory of an order, only moves that seem to be accepted without it pay for the peaks of
# their two blocks.


Rows = tuple[IntArray, IntArray]

#: Parts of the moves that exchange the places of two blocks, that go to the block of a neighbour rather than to any,
#: and that try a swap.
_EXCHANGES, _TO_NEIGHBOURS, _SWAPS = 0.08, 0.5, 0.5
#: A block with more nodes than this keeps its place: to look for its edges would take too long.
_EXCHANGED_NODES = 100
#: Moves between two changes of the weights, the power of a cost over the mean that a weight is multiplied by, the most
#: that such a ratio counts, and the largest weight.
_PERIOD, _GAIN, _MOST_RATIO, _MOST_WEIGHT = 1000, 0.05, 2.0, 1.25


@compiled
def anneal_partition(
    state: PartitionState, arrays: KernelArrays, rows: Rows, cooling: Cooling, weight: FloatArray, seed: int
) -> None:
    """Run simulated annealing in place from `state`.

    `rows` are the predecessors of the nodes in compressed rows, `weight` the (k,) weights of the block costs in the
    objective, 1 at first; both `state` and `weight` are updated.
    """
    np.random.seed(seed)
    n, k = len(state.block), len(state.time)
    if state.best[0] <= 0.0 or k == 1 or n == 0:
        return
    cost = np.array([cost_of(b, state, arrays) for b in range(k)])
    changed = np.zeros(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    _walk(state, arrays, rows, cooling, cost, np.empty(k), weight, *changed)


@compiled(allocates=False)
def _walk(
    state: PartitionState,
    arrays: KernelArrays,
    rows: Rows,
    cooling: Cooling,
    cost: FloatArray,
    energy: FloatArray,
    weight: FloatArray,
    is_changed: NDArray[np.bool_],
    changed: IntArray,
) -> None:
    """Run the walk in place: try as many moves as `cooling` says, and keep the best partition in `state`.

    `cost`, (k,), holds the costs of the blocks and is kept up to date; `weight`, (k,), says how much each counts;
    `energy`, (k,), `is_changed` and `changed`, (n,), are scratch.
    """
    before_start, before = rows
    block, rank, at, best = state.block, state.rank, state.at, state.best[0]
    k, n = len(cost), len(block)
    _raise_powers(cost, best, weight, energy)
    num_changed = 0  # nodes that are not where the best partition of the walk has them
    for v in range(n):
        if block[v] != state.best_block[v]:
            is_changed[v], changed[num_changed] = True, v
            num_changed += 1
    temperature, factor = cooling.hot, factor_of(cooling)
    for i in range(cooling.moves):
        temperature *= factor
        if i % _PERIOD == _PERIOD - 1:
            _balance(cost, weight)
            _raise_powers(cost, best, weight, energy)
        if np.random.random() < _EXCHANGES:
            if not arrays.is_constrained:  # else windows tell blocks apart
                _exchange(int((k - 1) * np.random.random()), state, arrays)
            continue
        draw = n * np.random.random()
        v = int(draw)
        a = block[v]
        low, high = places_for(v, state, arrays, before_start, before)
        if low == high:
            continue
        place, draw = _place(rank[a], low, high, draw - v)
        b = at[place]
        w = _partner(v, a, b, state, arrays, before_start, before) if draw < _SWAPS else v
        if w < 0 or is_missed(v, w, a, b, state, arrays):
            continue
        # The highest energy of the two blocks that is accepted.
        limit = energy[a] + energy[b] - temperature * math.log(1.0 - np.random.random())
        times = times_after(v, a, b, state, arrays)
        time_a, time_b = times
        if w != v:  # the two changes together: too little if both nodes read a tensor, else exact
            back = times_after(w, b, a, state, arrays)
            time_a += back[1] - state.time[a]
            time_b += back[0] - state.time[b]
        if _power(weight[a] * time_a / best) + _power(weight[b] * time_b / best) > limit:
            continue
        old = (state.time[a], state.time[b], state.resident[a], state.resident[b], state.peak[a], state.peak[b])
        move(v, a, b, times, state, arrays)
        if w != v:
            move(w, b, a, times_after(w, b, a, state, arrays), state, arrays)
        if arrays.needs_peaks:
            state.peak[a] = peak_of(a, block, state.reads, state.queues, arrays)
            state.peak[b] = peak_of(b, block, state.reads, state.queues, arrays)
        cost_a, cost_b = cost_of(a, state, arrays), cost_of(b, state, arrays)
        energy_a, energy_b = _power(weight[a] * cost_a / best), _power(weight[b] * cost_b / best)
        if energy_a + energy_b > limit:
            _take_back(v, w, a, b, old, state, arrays)
            continue
        cost[a], cost[b], energy[a], energy[b] = cost_a, cost_b, energy_a, energy_b
        settle(v, a, b, state)
        if w != v:
            settle(w, b, a, state)
        for u in (v, w):
            if not is_changed[u]:
                is_changed[u], changed[num_changed] = True, u
                num_changed += 1
        if cost_a < best and cost_b < best and _highest(cost) < best:
            best = _highest(cost)
            for j in range(num_changed):
                is_changed[changed[j]] = False
                state.best_block[changed[j]] = block[changed[j]]
            num_changed = 0
            for c in range(k):
                state.best_rank[c] = rank[c]
            if best <= 0.0:
                break
            _raise_powers(cost, best, weight, energy)
    state.best[0] = best


@compiled(allocates=False)
def _power(x: float) -> float:
    x *= x
    x *= x
    x *= x
    return x * x


@compiled(allocates=False)
def _raise_powers(cost: FloatArray, best: float, weight: FloatArray, energy: FloatArray) -> None:
    for b in range(len(cost)):
        energy[b] = _power(weight[b] * cost[b] / best)


@compiled(allocates=False)
def _balance(cost: FloatArray, weight: FloatArray) -> None:
    """Raise the weights of blocks that cost more than the mean and lower the others; their geometric mean stays 1."""
    mean, logarithm = 0.0, 0.0
    for b in range(len(cost)):
        mean += cost[b] / len(cost)
    for b in range(len(cost)):
        ratio = min(_MOST_RATIO, max(1.0 / _MOST_RATIO, cost[b] / mean))
        weight[b] = min(_MOST_WEIGHT, max(1.0 / _MOST_WEIGHT, weight[b] * ratio**_GAIN))
        logarithm += math.log(weight[b]) / len(cost)
    for b in range(len(cost)):
        weight[b] *= math.exp(-logarithm)


@compiled(allocates=False)
def _highest(cost: FloatArray) -> float:
    highest = 0.0
    for value in cost:
        highest = max(highest, value)
    return highest


@compiled(allocates=False)
def _exchange(place: int, state: PartitionState, arrays: KernelArrays) -> None:
    """Swap the block at `place` with the next one, unless an edge joins them or the first one has too many nodes."""
    a, b = state.at[place], state.at[place + 1]
    if state.size[a] > _EXCHANGED_NODES:
        return
    for i in range(state.end[a] - state.size[a], state.end[a]):
        v = state.members[i]
        for e in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
            if state.block[arrays.successor[e]] == b:
                return
    state.at[place], state.at[place + 1] = b, a
    state.rank[a], state.rank[b] = place + 1, place


@compiled(allocates=False)
def _place(now: int, low: int, high: int, draw: float) -> tuple[int, float]:
    """Random position other than `now` in [low, high], often an end of the range, where neighbours are.

    `draw` is uniform in [0, 1); also returns a new uniform number, the part of `draw` that the choice has not used.
    """
    if draw < _TO_NEIGHBOURS:
        draw *= 2.0 / _TO_NEIGHBOURS
        place = low if draw < 1.0 else high
        return low + high - now if place == now else place, draw % 1.0
    draw = (draw - _TO_NEIGHBOURS) / (1.0 - _TO_NEIGHBOURS) * (high - low)
    place = low + int(draw)
    return place + (place >= now), draw % 1.0


@compiled(allocates=False)
def _partner(
    v: int, a: int, b: int, state: PartitionState, arrays: KernelArrays, before_start: IntArray, before: IntArray
) -> int:
    """A random node of block b that `v` of block a can be exchanged for; `v` if b is empty, -1 if they cannot be."""
    if state.size[b] == 0:
        return v
    w = state.members[state.end[b] - 1 - int(state.size[b] * np.random.random())]
    low, high = places_for(w, state, arrays, before_start, before)
    if state.rank[a] < low or state.rank[a] > high:
        return -1
    first, last = (v, w) if state.rank[a] < state.rank[b] else (w, v)
    for e in range(arrays.successor_start[first], arrays.successor_start[first + 1]):
        if arrays.successor[e] == last:
            return -1
    return w


@compiled(allocates=False)
def _take_back(
    v: int,
    w: int,
    a: int,
    b: int,
    old: tuple[float, float, float, float, float, float],
    state: PartitionState,
    arrays: KernelArrays,
) -> None:
    """Undo the move of `v` from a to b, and of `w` from b to a unless it is `v`."""
    if w != v:
        move(w, a, b, old[:2], state, arrays)
    move(v, b, a, (old[1], old[0]), state, arrays)
    state.resident[a], state.resident[b], state.peak[a], state.peak[b] = old[2:]


# Walks under annealing and slicings of one question, as long as moves and time allow.


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
        """Whether to stop, given the best bottleneck so far; once true, it stays true."""
        self._ended = self._ended or self.remaining <= 0 or bottleneck <= 0 or self.limits.reached(bottleneck)
        return self._ended

    def take(self, moves: int) -> None:
        """Deduct `moves` tried moves from the budget."""
        self.remaining, self._taken = self.remaining - moves, self._taken + moves

    @property
    def clock(self) -> float:
        """Budget used so far: seconds where only time is limited, else moves, so that runs can be repeated."""
        deadline = self.limits.deadline.end
        return CLOCK.now() if deadline < math.inf and self.limits.evaluations is None else float(self._taken)

    @property
    def part(self) -> float:
        """Fraction of the budget that is used, at most 1."""
        deadline = self.limits.deadline.end
        passed = (CLOCK.now() - self._begin) / max(deadline - self._begin, 1e-9) if deadline < math.inf else 0.0
        return min(1.0, max(passed, self._taken / max(1, self._taken + self.remaining)))

    def size(self, planned: int, done: int, speed: float, stretch: int) -> int:
        """Total moves of a walk: `planned`, or all that the budget has left if below `stretch` times `planned`.

        `done` moves of the walk are made already; `speed` [moves/s] turns the remaining time into moves.
        """
        remaining = self.remaining
        if speed * self.limits.deadline.left < math.inf:
            remaining = min(remaining, max(1, int(speed * self.limits.deadline.left)))
        return done + remaining if done + remaining < stretch * planned else planned


class Walker:
    """Runs annealing walks on partitions of one instance, and slices their orders anew, within a budget."""

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
        """Whether the (tensors, k) table of readers fits into 2 GiB."""
        return len(instance.graph.tensors.bytes) * instance.k <= _LARGEST_TABLE

    def walk(self, start: Partition, planned: int, *, heat: float = 1.0, stretch: int = 1) -> Partition:
        """Run a walk and return its best partition; the temperature starts at `heat` times the usual one.

        Parameters
        ----------
        planned : int
            Number of moves; fewer if the budget ends before.
        stretch : int
            Use the whole remaining budget if it is less than `stretch` times `planned`.
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
        """Relative change of the 16th power of the bottleneck when an average node moves with its transfers."""
        nodes = self.instance.graph.n
        if self._work == 0:  # memory alone counts
            return 16 * self.instance.k / nodes
        bottleneck = min(start.bottleneck, self._work)  # one block, without what is beyond the memory
        return 16 * (self._work + 2 * self._transfers) / nodes / bottleneck

    def slice(self, partition: Partition) -> Partition:
        """Best of the partition and the slicings of orders that list its blocks in sequence; used after a walk."""
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
