"""Search for a block below a goal that is worth its share of the prices, by branch and bound on several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from instances import Instance
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from mtpp_models.bounds.priced.relaxation import BlockQuestion, linear_costs
from mtpp_models.bounds.priced.trees import MOST_LEAVES, PriceProof, TreePart
from mtpp_models.cuts.conflicts import conflicts
from mtpp_models.cuts.cuts import BlockCuts
from mtpp_models.cuts.max_flow import BoolArray

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
