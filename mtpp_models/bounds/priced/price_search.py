r"""Node prices (dual values of the configuration program): the part of a block that each node is worth.

Any block of a partition with a bottleneck of at most T costs at most T. Give each node a price so that no convex set
of cost at most T is worth more than 1. If all nodes together are worth more than k, then k blocks do not cover them
and OPT > T. The best prices are the dual solution of the linear program that covers the nodes by such blocks, the
*configuration* program

.. math::

    \max \sum_v \mathrm{price}(v) \quad \text{subject to} \quad
    \sum_{v \in S} \mathrm{price}(v) \le 1 \;\; \forall S : f(S) \le T, \qquad \mathrm{price} \ge 0.

Its rows are far too many; a search finds those that the prices violate (column generation), and the prices settle where
it finds none. Here they are good guesses and need no proof: `mtpp_models.bounds.priced.priced` turns any prices into a
bound.
"""

from __future__ import annotations

import numpy as np
import scipy

from instances import Partition
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from instances.partitioning.peaks import KernelArrays
from mtpp_models.bounds.priced.blocks import Effort, Relations, heavy_blocks
from mtpp_models.bounds.priced.relaxation import LeastOverflow, block_cost
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.simple import simple
from mtpp_models.solvers.highs import solve_lp

# Searches of a round that begin with no block and with a known one.
_FRESH, _AGAIN = Effort(15, 60, 0.4), Effort(60, 15, 0.3)
# The ceiling falls to no less than this in a round, and rises to no more.
_FALL, _RISE = 0.95, 1.01
# Relative: T stands still where it moves by no more, and prices are the same.
_STILL, _SAME = 1e-6, 1e-9
# Blocks worth less than this do not scale the prices: they might hold no node of any price.
_LEAST = 1e-9
# Up to so many nodes all convex sets are listed, and nothing is searched; what counts as the same cost, and as worth 1.
_LISTED, _ROUNDING = 10, 1e-9
# Seconds that the program is always given: a search without its prices is of no use.
_PROGRAM = 1.0


class PriceSearch:
    """Column generation for the configuration program of an instance.

    Parameters
    ----------
    start : Partition
        A known partition with a positive bottleneck; its blocks are the first that the prices must respect.
    seed : int
    threads : int
        Number of threads that search for blocks; without a deadline, the blocks do not depend on it.

    Attributes
    ----------
    instance : Instance
    threads : int
    prices : (n,) floats
        Not negative and not all 0; replaced by a new array when they change. No block that was known then and costs at
        most T is worth more than 1.
    ceiling : float
        T, between *simple* and the bottleneck of the best known partition; it moves until the nodes are worth k blocks.
    """

    def __init__(self, start: Partition, seed: int = 0, threads: int = 1) -> None:
        instance = start.instance
        self.threads = threads
        self.instance, self._arrays = instance, KernelArrays.of(instance)
        self._overflow = LeastOverflow.of(instance, start.bottleneck)
        self._relations = Relations.of(instance.graph)
        self._rng = np.random.default_rng(seed)
        self._blocks: dict[bytes, BoolArray] = {}
        self._costs: list[float] = []
        n = instance.graph.n
        self._listed = _convex_sets(self._relations.reach) if n <= _LISTED else np.zeros((0, n), dtype=bool)
        self._listed_costs = np.array([self.cost(inside) for inside in self._listed])
        self._k = min(instance.k, instance.graph.n)
        self.ceiling = start.bottleneck
        self._floor = simple(instance)
        work = instance.graph.work / self.ceiling
        self.prices: FloatArray = work if work.any() else np.full(len(work), 1 / len(work))
        self._tried = self.prices
        self.learn(start)

    @property
    def block_count(self) -> int:
        """Number of blocks in the program."""
        return len(self._blocks)

    @property
    def worth(self) -> float:
        """Sum of the prices of all nodes, divided by the number of blocks k."""
        return float(self.prices.sum()) / self._k

    def aim(self, ceiling: float) -> None:
        """Set the ceiling T: no block that costs at most T may be worth more than 1.

        The lower T is, the larger is the best sum of prices. A sum above k leaves room for blocks that are not known
        yet.
        """
        self.ceiling = self._most = ceiling
        self._scale(self.prices)

    def learn(self, start: Partition) -> None:
        """Add the blocks of a partition to the program; T is at most its bottleneck."""
        for b in range(self.instance.k):
            self.add(start.block == b)
        self.aim(min(self.ceiling, start.bottleneck))

    def add(self, inside: BoolArray) -> bool:
        """Add a block, a convex set given by (n,) booleans, to the program; return whether it is new."""
        if inside.tobytes() in self._blocks:
            return False
        self._blocks[inside.tobytes()] = inside
        self._costs.append(self.cost(inside))
        return True

    def cost(self, inside: BoolArray) -> float:
        """Cost of a block, (n,) booleans, with a lower bound on its overflow [time unit]."""
        return block_cost(self.instance, self._overflow, inside)

    def improve(self, rounds: int, deadline: Deadline | None = None) -> None:
        """Alternate between finding blocks that are worth too much and lowering the prices.

        There are at most `rounds` rounds. The deadline is checked after each search; a linear program ends at most a
        second after it.
        """
        deadline = deadline or Deadline()
        for _ in range(rounds):
            count, ceiling = len(self._blocks), self.ceiling
            self._search(deadline)
            self._settle(max(_PROGRAM, deadline.left))
            still = len(self._blocks) == count and abs(self.ceiling - ceiling) <= _STILL * ceiling
            if still or deadline.passed:
                break

    def near(self, prices: FloatArray, part: float, deadline: Deadline) -> FloatArray | None:
        """(n,) prices of largest sum within `part` of the given ones, after a search for blocks that they violate.

        No known block that costs at most T is worth more than 1, but for rounding. None if time is up.
        """
        low, width, best = prices * (1 - part), 2 * part * prices, None
        for last in (False, True):
            blocks = self._cheap_blocks().astype(np.float64)
            matrix, capacity = scipy.sparse.csr_array(blocks * width), np.maximum(0.0, 1 - blocks @ low)
            gains = solve_lp(matrix, width, capacity, max(_PROGRAM, deadline.left))
            if gains is None:
                return None
            best = low + width * np.clip(gains, 0.0, 1.0)
            if not last:
                self._tried = best
                self._search(deadline)
        return best

    def _search(self, deadline: Deadline) -> None:
        """Add blocks that cost at most T and are worth more than 1 at the current prices.

        In a small graph all convex sets are listed; in a large one simulated annealing searches for heavy ones.
        """
        if len(self._listed):
            little = self._listed_costs <= self.ceiling * (1 + _ROUNDING)
            for inside in self._listed[little & (self._listed @ self._tried > 1 + _ROUNDING)]:
                self.add(inside)
            return
        blocks, rng, threads = np.array(list(self._blocks.values())), self._rng, self.threads
        question = self._tried, self.ceiling, self._arrays, self._overflow, self._relations
        for block in heavy_blocks(blocks, *question, _FRESH, _AGAIN, rng, deadline, threads):
            self.add(block)

    def _settle(self, seconds: float) -> None:
        tested, covering = self._tried, _covering_prices(self._cheap_blocks(), seconds)
        if covering is not None:
            change = min(_RISE, max(_FALL, float(covering.sum()) / self._k))
            self.ceiling = max(self._floor, min(self._most, self.ceiling * change))
        self._scale(self.prices, tested)
        if covering is not None:
            # Halfway to the best ones so far: prices that jump about find blocks that do not matter.
            self._tried = (self.prices + covering) / 2

    def _cheap_blocks(self) -> BoolArray:
        """(b, n) booleans: the known blocks that cost at most T, a row each."""
        return np.array(list(self._blocks.values()))[np.array(self._costs) <= self.ceiling]

    def _scale(self, *candidates: FloatArray) -> None:
        """Scale price vectors so that no known block is worth more than 1; keep the one with the largest sum."""
        blocks = self._cheap_blocks()
        tops = [float((blocks @ prices).max(initial=0.0)) for prices in candidates]
        scaled = [prices / (top if top > _LEAST else 1.0) for prices, top in zip(candidates, tops, strict=True)]
        best = max(scaled, key=lambda prices: float(prices.sum()))
        if not np.allclose(best, self.prices, rtol=_SAME, atol=0.0):
            self.prices = best


def _convex_sets(reach: BoolArray) -> BoolArray:
    """(c, n) all convex sets of nodes but the empty one; `reach`, (n, n), says whether a path joins two nodes."""
    n = len(reach)
    sets = (np.arange(1, 2**n)[:, None] >> np.arange(n)) % 2 == 1
    between = (sets @ reach) & (sets @ reach.T) & ~sets
    convex: BoolArray = sets[~between.any(axis=1)]
    return convex


def _covering_prices(inside: BoolArray, seconds: float) -> FloatArray | None:
    """(n,) prices of largest sum such that no row is worth more than 1; None if time is up.

    The solution is interior, not a vertex: prices in the middle of the optimal face settle in far fewer rounds.
    """
    rows, n = inside.shape
    prices = solve_lp(scipy.sparse.csr_array(inside.astype(np.float64)), np.ones(n), np.ones(rows), seconds)
    return np.clip(prices, 0.0, 1.0) if prices is not None and prices.sum() > 0 else None
