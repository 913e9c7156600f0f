r"""Lower bounds from prices of nodes and of kinds of devices.

For prices :math:`p \ge 0` of the nodes and :math:`q > 0` of the kinds with :math:`\sum_t N_t q_t \le \sum_v p_v`: if no
convex set that costs less than F on kind t is worth :math:`q_t`, for no t, then OPT >= F. In an answer below F each
block on kind t would be worth less than :math:`q_t`, and all nodes together less than all devices.

The proof is one tree a kind (`mtpp_models.bounds.priced.branch_and_bound`), where a node is worth :math:`p_v / q_t`,
at most 1, which says the same. A block in the way becomes cheaper in all trees as long as all nodes are worth enough,
which leaves what is done done; else it corrects the prices.
"""

from __future__ import annotations

import math

import numpy as np

from instances import Bound, Result
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import FloatArray
from instances.partitioning.partition import Partition
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.kinds.kind_prices import KindPrices, Prices
from mtpp_models.bounds.priced.branch_and_bound import BlockTree
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.simple import speed_bound, speed_shares
from mtpp_models.solvers.interface import Controls, Progress

__all__ = ["PRICED", "PricesOfKinds"]

PRICED = "priced"

# Where the first goal lies between the bound and the bottleneck, the next ones, and the last, which is below it.
_RISE, _NEXT, _NEARLY, _BELOW = 0.6, 0.6, 0.004, 1e-9
# Rounds of searches before the first proof of a goal, as trees find the blocks that matter sooner; and blocks that a
# proof meets before prices are sought again.
_ROUNDS, _BLOCKS = 3, 40
# Spare prices: the most, and the part of what prices are worth more than they need; how much cheaper a block becomes.
_SPARE, _PART, _RELIEF = 0.006, 0.5, 1e-3
# Parts of the time left: for one goal, its searches, and the pairs of nodes that no block holds.
_GOAL, _SEARCH, _PAIRS = 0.7, 0.4, 0.1
_ATTEMPTS, _SHORTEST = 60, 0.05
# Seconds for the program of prices where there is no limit.
_PROGRAM = 60.0
# Goals that are above the bound by less than this part are given up.
_LEAST = 1e-4
# How far a goal falls to the bound after a failure.
_FALL = 0.35


class PricesOfKinds:
    """Bound by prices; called again for the same question, it continues."""

    def __init__(self) -> None:
        self._question: str | None = None
        self._prices: KindPrices
        self._value = 0.0
        self._proved: Prices | None = None
        self._ceiling = math.inf
        self._trees: list[BlockTree] = []  # one a kind

    def __call__(self, start: Partition, controls: Controls) -> Result:
        """Prove; the witness holds `prices` of the nodes and `shares` of the kinds."""
        instance = start.instance
        if self._question != instance.key:
            shares = speed_shares(instance)
            self._question, self._value, self._proved = instance.key, speed_bound(instance, shares), None
            self._shares, self._ceiling, self._trees = shares, start.bottleneck, []
            self._prices = KindPrices(start, controls.options.seed, controls.options.threads)
            self._threads = controls.options.threads
        self._prices.learn(start)
        closed = self._climb(start, controls)
        value = min(self._value, start.bottleneck)
        if self._proved is None:
            return Result(PRICED, instance, start, Bound(value, "simple", closed, {"shares": self._shares.tolist()}))
        witness = {
            "prices": self._proved.node.tolist(),
            "shares": self._proved.kind.tolist(),
            "seed": controls.options.seed,
        }
        return Result(PRICED, instance, start, Bound(value, PRICED, closed, witness))

    def _climb(self, start: Partition, controls: Controls) -> bool:
        """Raise the bound until time is up; whether no better one is to be expected."""
        deadline, watch, most = controls.deadline, Stopwatch(), start.bottleneck
        self._ceiling = min(self._ceiling, most)
        rise = _RISE
        for _ in range(_ATTEMPTS):
            base = max(self._value, min(controls.known, self._ceiling * (1 - _NEARLY)))
            if base >= most * (1 - PROOF_TOLERANCE):
                return self._value >= most * (1 - PROOF_TOLERANCE)
            if deadline.passed or deadline.left < _SHORTEST or self._ceiling <= self._value * (1 + PROOF_TOLERANCE):
                return deadline.left >= _SHORTEST
            near = self._ceiling - base <= _NEARLY * self._ceiling
            goal = (self._ceiling if near else base + rise * (self._ceiling - base)) * (1 - _BELOW)
            proved = self._attempt(goal, deadline.share(_GOAL))
            if proved:
                self._value = max(self._value, goal)
                rise = _NEXT
                controls.report(Progress(PRICED, watch.passed, None, self._value, None))
            elif near:
                self._ceiling -= _FALL * (self._ceiling - base)
            elif proved is None:  # known blocks leave no prices for it
                self._ceiling = min(self._ceiling, goal)
            else:
                rise *= 1 - _FALL
            if goal - base < _LEAST * goal and not proved:
                return False
        return False

    def _attempt(self, goal: float, deadline: Deadline) -> bool | None:
        """Prove a goal by any prices; whether that was done, None if known blocks leave no prices that can do so."""
        search, rounds = self._prices, _ROUNDS
        while True:
            prices = search.settle(goal, deadline.left if deadline.left < math.inf else _PROGRAM)
            if prices is None or deadline.passed:
                return False
            if prices.worth < 1:
                return None
            if rounds and search.search(prices, goal, deadline.share(_SEARCH)):
                rounds -= 1
                continue
            known = search.known
            if self._prove(prices, goal, deadline):
                return True
            if search.known == known:
                return False
            rounds = 0
            search.near(prices)

    def _tree(self, t: int, worth: FloatArray, goal: float, deadline: Deadline) -> BlockTree:
        """The tree of a kind, at its root; pairs that no block holds stay known where the goal is no higher."""
        if t == len(self._trees):
            pairs, threads = deadline.share(_PAIRS), self._threads
            self._trees.append(BlockTree(self._prices.questions[t], worth, goal, pairs, threads=threads))
        else:
            self._trees[t].aim(goal, deadline.share(_PAIRS))
            self._trees[t].reprice(worth)
        return self._trees[t]

    def _prove(self, prices: Prices, goal: float, deadline: Deadline) -> bool:
        """Search a tree a kind; the blocks in the way are learnt."""
        search, counts = self._prices, np.array(self._prices.instance.machines.counts, dtype=np.float64)
        spare = min(_SPARE, _PART * (prices.worth - 1))
        node = prices.node.copy()
        kind = prices.kind * (prices.worth * (1 - spare) / float(counts @ prices.kind))
        met = 0
        for t in range(len(kind)):
            tree = self._tree(t, _worth(node, kind[t]), goal, deadline)
            while True:
                tree.revalue(_worth(node, kind[t]))
                done, block = tree.explore(deadline)
                if done:
                    break
                if block is None:
                    return False
                met += 1
                search.add(block)  # also one that becomes cheaper, for the next prices
                lower = _relieved(node, block, kind[t])
                if lower.sum() >= counts @ kind and met < 50 * _BLOCKS:
                    node = lower
                    continue
                tree.pass_by()
                if met >= _BLOCKS or deadline.passed:
                    return False
        if not all(tree.is_done for tree in self._trees):
            return False
        self._proved = Prices(node, kind)
        search.centre = Prices(node / node.sum(), kind)
        return True


def _worth(node: FloatArray, price: float) -> FloatArray:
    """Prices of nodes in devices; 1 is enough, and more would be too large a number for flows."""
    return np.minimum(node / price, 1.0)


def _relieved(node: FloatArray, block: BoolArray, price: float) -> FloatArray:
    """Prices with which a block is worth a little less than a device."""
    return np.where(block, node * (price * (1 - _RELIEF) / node[block].sum()), node)
