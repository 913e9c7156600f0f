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

`BlockTree` searches, on several threads, for a block below a goal that is worth its share of the prices.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy
from numpy.typing import NDArray

from instances import Instance, Partition
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from instances.partitioning.peaks import KernelArrays
from mtpp_models.bounds.priced.blocks import Effort, Relations, heavy_blocks
from mtpp_models.bounds.priced.relaxation import BlockQuestion, LeastOverflow, block_cost, linear_costs
from mtpp_models.bounds.priced.trees import MOST_LEAVES, PriceProof, TreePart
from mtpp_models.cuts.conflicts import conflicts
from mtpp_models.cuts.cuts import BlockCuts
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.simple import simple
from mtpp_models.solvers.highs import solve_lp

# Branch and bound for blocks that are worth their share and cost less than a goal.
#
# Given prices of nodes, all of them together worth k, the question is whether some convex set S with price(S) >= 1
# costs less than T. Where the bound of `mtpp_models.bounds.priced.relaxation` stays below T, a node that
# `mtpp_models.bounds.priced.blocks` chooses is put into the block, then kept out of it. What is in the block draws
# in all that lies between, and keeps out whatever no block below T holds beside it; what is kept out cuts off what lies
# behind it, as seen from the block.
#
# Leaves are independent of each other, so several threads can explore parts of the tree.


# Nodes of the tree explored between two looks at the clock, times the nodes of the graph.
_WORK_BETWEEN = 10_000
# How much less than its share a block is worth that was relieved.
_RELIEF = 1e-3
# Decisions, a byte each, that are kept.
_MOST_DECISIONS = 2**27


class BlockTree:
    """Search for a block below a goal that is worth its share; for another goal it continues with the same leaves.

    A leaf holds decisions on nodes only, no consequences of a goal, so that the leaves together cover all convex sets,
    whatever the next goal is.

    Parameters
    ----------
    instance : Instance
    prices : (n,) floats
        Not negative, not all 0.
    goal : float
        T, positive.
    deadline : Deadline, optional
        When to stop looking for pairs of nodes that no block below the goal holds.
    spare : float
        Relative excess of the prices of all nodes over those of k blocks, so that prices in some blocks can be lowered.
    threads : int
        Threads that explore the tree; without a time limit, the same number finds the same blocks in the same order.
    """

    _aside: list[tuple[NDArray[np.int8], float]]

    def __init__(
        self,
        instance: Instance,
        prices: FloatArray,
        goal: float,
        deadline: Deadline | None = None,
        spare: float = 0.0,
        threads: int = 1,
    ) -> None:
        self._instance, self._goal, self._threads = instance, goal, threads
        self._question = _question(instance, _worth(prices, instance, spare), goal, _apart(instance, goal, deadline))
        self._parts = [TreePart.none(self._question, _MOST_DECISIONS // threads)]
        self._begin()

    @property
    def prices(self) -> FloatArray:
        """(n,) prices of the nodes in multiples of a block's share: all nodes together are worth at least k."""
        return self._question.worth

    @property
    def is_done(self) -> bool:
        """Whether the search is finished: no leaf is open or set aside."""
        return not self._is_open and not self._aside

    def relieve(self, block: BoolArray) -> bool:
        """Lower the prices in a block until it is worth less than its share; finished leaves stay valid.

        Return whether all prices together are still at least k shares; if not, no price is changed.
        """
        worth, k = self._question.worth, min(self._instance.k, self._instance.graph.n)
        lower = np.where(block, worth * ((1.0 - _RELIEF) / worth[block].sum()), worth)
        if lower.sum() < k:
            return False
        self._question = self._question._replace(worth=lower)
        return True

    def revalue(self, worth: FloatArray) -> None:
        """Continue with (n,) prices that are nowhere higher, in multiples of a block's share; leaves stay valid."""
        self._question = self._question._replace(worth=worth)

    def reprice(self, prices: FloatArray, spare: float = 0.0) -> None:
        """Start a new tree with other prices, (n,) floats, scaled to the sum k (1 + `spare`).

        Old leaves are dropped: the pseudo-costs learnt since lead to a better tree.
        """
        self._question = self._question._replace(worth=_worth(prices, self._instance, spare))
        self._begin()

    def aim(self, goal: float, deadline: Deadline | None = None) -> None:
        """Set the goal of the next search.

        If it is lower, finished leaves and pairs of nodes that cannot share a block are kept.
        """
        apart = self._question.apart
        if goal > self._goal:
            self._reopen()
            apart = _apart(self._instance, goal, deadline)
        self._put_back()
        self._goal, self._question = goal, _question(self._instance, self._question.worth, goal, apart)
        for part in self._parts:
            part.aim(self._question)

    def explore(self, deadline: Deadline) -> tuple[bool, BoolArray | None]:
        """Search until the goal is proved, a block refutes it, or time is up.

        Returns whether it is proved that no block below the goal is worth its share; and, if not, the nodes of such a
        block, (n,), or None if time is up or only leaves set aside are left. The next call continues.
        """
        budget = max(1, _WORK_BETWEEN // self._instance.graph.n)
        with ThreadPoolExecutor(self._threads) as pool:
            while self._is_open:
                if deadline.passed:
                    return False, None
                block = self._explore_parts(budget, pool)
                if block is not None:
                    return False, block
        return not self._aside, None

    def pass_by(self) -> None:
        """Set aside the leaf of the last block and look for other blocks; it is reopened for other prices or goals."""
        self._aside.append(self._parts[0].drop())

    def proof(self) -> PriceProof | None:
        """The leaves of a finished search; None if some were dropped, or they are too many for a file."""
        parts = self._parts
        if self._is_open or any(part.lost for part in parts) or sum(part.done for part in parts) > MOST_LEAVES:
            return None
        done = [slice(len(part.leaves.decided) - part.done, None) for part in parts]
        decided = np.concatenate([part.leaves.decided[rows] for part, rows in zip(parts, done, strict=True)])
        multiplier = np.concatenate([part.leaves.multiplier[rows] for part, rows in zip(parts, done, strict=True)])
        return PriceProof(self._instance, self._question, decided, multiplier)

    @property
    def _is_open(self) -> bool:
        return any(part.open for part in self._parts)

    def _explore_parts(self, budget: int, pool: ThreadPoolExecutor) -> BoolArray | None:
        """Explore `budget` nodes of each part; return the first block below the goal, or None."""
        self._share()
        busy = [part for part in self._parts if part.open]
        apply = map if len(busy) == 1 else pool.map
        blocks = list(apply(lambda part: part.explore(self._question, budget), busy))
        if not all(part.make_room() for part in busy):
            self._begin()
            return None
        for part, block in zip(busy, blocks, strict=True):
            if block.any():
                self._parts.sort(key=lambda other: other is not part)
                return block
        return None

    def _share(self) -> None:
        """Move open leaves to parts of the tree that have none; each thread has a part."""
        while True:
            donor = max(self._parts, key=lambda part: part.open)
            if donor.open <= 1:
                return
            idle = next((part for part in self._parts if not part.open), None)
            if idle is None and len(self._parts) < self._threads:
                idle = TreePart.none(self._question, donor.max_decisions)
                self._parts.append(idle)
            if idle is None:
                return
            idle.share(donor)

    def _begin(self) -> None:
        """Restart the tree with one open leaf, without decisions."""
        self._parts, self._aside = self._parts[:1], []
        self._parts[0].begin()

    def _reopen(self) -> None:
        """Reopen all finished leaves; if some were dropped, start again."""
        if any(part.lost for part in self._parts):
            self._begin()
        for part in self._parts:
            part.reopen()

    def _put_back(self) -> None:
        """Reopen the leaves that were set aside, to be explored before all others."""
        aside, self._aside = self._aside, []
        for decided, multiplier in aside:
            if not self._parts[0].make_room():
                self._begin()
                return
            self._parts[0].add(decided, multiplier)


def _question(instance: Instance, worth: FloatArray, goal: float, apart: BoolArray) -> BlockQuestion:
    cuts = BlockCuts(instance, goal)
    network, supply = cuts.network.with_supplies(instance.graph.n)
    drain, constant = linear_costs(cuts)
    drain = np.pad(drain, ((0, 0), (0, 1)))
    return BlockQuestion(network, supply, drain, constant, worth, apart, cuts.reach)


def _apart(instance: Instance, goal: float, deadline: Deadline | None) -> BoolArray:
    """(n, n) symmetric: whether no block below the goal contains both nodes."""
    apart = np.zeros((instance.graph.n, instance.graph.n), dtype=bool)
    u, v = conflicts(instance, goal, deadline).T
    apart[u, v] = apart[v, u] = True
    return apart


def _worth(prices: FloatArray, instance: Instance, spare: float) -> FloatArray:
    """(n,) prices scaled such that a block is worth 1: they sum to (1 + `spare`) times the number of blocks."""
    worth = prices / prices.max()
    return worth * ((1.0 + spare) * min(instance.k, instance.graph.n) / worth.sum())


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
