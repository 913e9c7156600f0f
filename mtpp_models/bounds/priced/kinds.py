r"""Lower bounds from prices of nodes and of kinds of devices, by column generation and branch and bound.

**Prices of nodes and of kinds of devices, as good guesses.**

Below a goal F give each node a price p and each kind a price q so that no convex set that costs less than F on kind t
is worth more than q_t. If all nodes together are worth :math:`\sum_t N_t q_t` or more, no partition costs less than F.
The best prices are those of the program

.. math:: \max \sum_v p_v \quad \text{subject to} \quad p(S) \le q_t \;\; \forall t, S : f_t(S) < F, \qquad
    \sum_t N_t q_t = 1, \qquad p, q \ge 0,

whose rows a search finds (column generation). They prove nothing by themselves.

**Lower bounds from prices of nodes and of kinds of devices.**

For prices :math:`p \ge 0` of the nodes and :math:`q > 0` of the kinds with :math:`\sum_t N_t q_t \le \sum_v p_v`: if no
convex set that costs less than F on kind t is worth :math:`q_t`, for no t, then OPT >= F. In an answer below F each
block on kind t would be worth less than :math:`q_t`, and all nodes together less than all devices.

The proof is one tree a kind (`mtpp_models.bounds.priced.prices`), where a node is worth :math:`p_v / q_t`,
at most 1, which is equivalent. If a block refutes the prices, its nodes become cheaper in all trees as long as all
nodes together stay worth enough, so that finished leaves stay valid; after that, the block is a new row of the program.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy

from instances import Bound, Result
from instances.deadline import Deadline, Stopwatch
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.partition import Partition
from instances.partitioning.peaks import KernelArrays
from instances.partitioning.problem import Instance
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.priced.blocks import Effort, Relations, heavy_blocks
from mtpp_models.bounds.priced.prices import BlockTree
from mtpp_models.bounds.priced.relaxation import LeastOverflow, block_cost
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.simple import simple_bound, speed_shares
from mtpp_models.solvers.highs import solve_lp
from mtpp_models.solvers.interface import Controls, Progress

# Searches of a round, a kind: that begin with no block and with a known one. Fewer than in
# `mtpp_models.bounds.priced.prices`, and longer ones.
_FRESH, _AGAIN = Effort(4, 200, 0.4), Effort(12, 50, 0.2)
# Prices stay so near to the centre that they have half of what the best ones have to spare, and this much where those
# have it: with less to spare the trees of goals far below the bottleneck take ten times as long.
_HALF, _LEAST_PRICE, _MOST = 0.5, 0.012, 0.9
# By how much the centre moves towards other prices after a failure.
_NEARER = 0.1
# Seconds that the program is always given.
_PROGRAM_OF_PRICES = 1.0
# A kind whose price is below this part of the largest is as good as free.
_FREE = 1e-9


class Prices(NamedTuple):
    """Prices of nodes, and of a device of each kind; the prices of all devices sum to 1."""

    node: FloatArray  # (n,)
    kind: FloatArray  # (T,)

    @property
    def worth(self) -> float:
        """Sum of the prices of all nodes."""
        return float(self.node.sum())


class KindPrices:
    """Column generation for the linear program of prices of nodes and kinds.

    Parameters
    ----------
    start : Partition
        With a positive bottleneck; its blocks are the first that the prices must respect.
    seed : int
        Seed of the search for blocks.
    threads : int
        Number of threads that search for blocks.
    """

    def __init__(self, start: Partition, seed: int = 0, threads: int = 1) -> None:
        self._threads = threads
        self.instance: Instance = start.instance
        self.questions = [self.instance.of_kind(t).relaxed() for t in range(self.instance.kinds)]
        self._counts = np.array(self.instance.machines.counts, dtype=np.float64)
        self._arrays = [KernelArrays.of(question) for question in self.questions]
        self._overflows = [LeastOverflow.of(question, start.bottleneck) for question in self.questions]
        self._relations = Relations.of(self.instance.graph)
        self._rng = np.random.default_rng(seed)
        self._blocks: dict[bytes, int] = {}
        self._rows: list[BoolArray] = []
        self._costs: list[FloatArray] = []
        self.centre = self._guess()
        self.learn(start)

    @property
    def block_count(self) -> int:
        """Number of blocks in the program."""
        return len(self._rows)

    def learn(self, start: Partition) -> None:
        """Add the blocks of a partition to the program."""
        for b in np.unique(start.block).tolist():
            self.add(start.block == b)

    def add(self, inside: BoolArray) -> bool:
        """Add a block, (n,) booleans, for every kind of device; return whether it is new."""
        if inside.tobytes() in self._blocks:
            return False
        self._blocks[inside.tobytes()] = len(self._rows)
        self._rows.append(inside.copy())
        parts = zip(self.questions, self._overflows, strict=True)
        self._costs.append(np.array([block_cost(*part, inside) for part in parts]))
        return True

    def near(self, other: Prices) -> None:
        """Move the stability centre of the column generation towards `other`, prices that proved no goal."""
        mixed = self.centre.node * (1 - _NEARER) + other.node / other.worth * _NEARER
        self.centre = Prices(mixed, self.centre.kind)

    def settle(self, goal: float, seconds: float) -> Prices | None:
        """Prices under which every known block below the goal is worth at most its device; None if time is up.

        If the optimal prices of all nodes sum to more than 1, the sum for all devices, they are mixed with as much of
        the stability centre as keeps the sum above 1.
        """
        rows, costs = np.array(self._rows), np.array(self._costs)
        block, kind = np.nonzero(costs < goal)
        best = self._solve(rows, block, kind, seconds)
        if best is None or best.worth < 1:
            return best
        best = self._tightened(best.node, rows, block, kind)
        low, high, nearest = 0.0, 1.0, best
        centre = self.centre.node / self.centre.node.sum()
        spare = best.worth - 1
        enough = 1 + min(_MOST * spare, max(_LEAST_PRICE, _HALF * spare))
        for _ in range(12):
            part = (low + high) / 2
            mixed = self._tightened((1 - part) * centre + part * best.node / best.worth, rows, block, kind)
            if mixed.worth >= enough:
                high, nearest = part, mixed
            else:
                low = part
        return nearest

    def search(self, prices: Prices, goal: float, deadline: Deadline) -> int:
        """Add blocks below the goal that are worth more than a device of their kind; return their number."""
        fresh = 0
        for t, arrays in enumerate(self._arrays):
            if prices.kind[t] <= _FREE * prices.kind.max():
                continue
            worth = prices.node / prices.kind[t]
            question = worth, goal, arrays, self._overflows[t], self._relations
            rows, rng, threads = np.array(self._rows), self._rng, self._threads
            for block in heavy_blocks(rows, *question, _FRESH, _AGAIN, rng, deadline, threads):
                if float(worth[block].sum()) > 1:
                    fresh += self.add(block)
            if deadline.passed:
                break
        return fresh

    def _guess(self) -> Prices:
        """Initial prices: the least time of each node on any kind, weighted by speed, plus a tenth of its transfers."""
        shares, graph = speed_shares(self.instance), self.instance.graph
        moved = np.zeros(graph.n)
        readers = np.diff(graph.tensors.start)
        np.add.at(moved, graph.tensors.producer, graph.tensors.bytes * (readers > 0))
        np.add.at(moved, graph.tensors.consumers, graph.tensors.bytes[graph.edge_tensor] / readers[graph.edge_tensor])
        rates = np.array(self.instance.bandwidths)
        guess = (shares[:, None] * (self.instance.finite_works + 0.1 * moved / rates[:, None])).min(axis=0)
        if not guess.any():
            guess = np.ones(graph.n)
        return Prices(guess / guess.sum(), 1 / (len(rates) * self._counts))

    def _solve(self, rows: BoolArray, block: IntArray, kind: IntArray, seconds: float) -> Prices | None:
        """An interior solution of the program of prices for the known blocks; None if time is up or all prices are 0.

        Its rows are p(S) - q_t <= 0 for block S = `rows[block[i]]` and t = `kind[i]`, and that the prices of all
        devices sum to at most 1.
        """
        n, count, kinds = rows.shape[1], len(block), len(self._counts)
        inside = scipy.sparse.csr_array(rows[block].astype(np.float64))
        devices = scipy.sparse.coo_array((-np.ones(count), (np.arange(count), kind)), shape=(count, kinds))
        last = scipy.sparse.csr_array(np.concatenate((np.zeros(n), self._counts))[None])
        matrix = scipy.sparse.csr_array(scipy.sparse.vstack((scipy.sparse.hstack((inside, devices)), last)))
        gain = np.concatenate((np.ones(n), np.zeros(kinds)))
        answer = solve_lp(matrix, gain, np.append(np.zeros(count), 1.0), max(_PROGRAM_OF_PRICES, seconds))
        if answer is None or not answer[:n].sum() > 0:
            return None
        return Prices(np.clip(answer[:n], 0.0, 1.0), np.clip(answer[n:], 0.0, 1.0))

    def _tightened(self, node: FloatArray, rows: BoolArray, block: IntArray, kind: IntArray) -> Prices:
        """These node prices with the least device prices that known blocks allow, scaled to sum 1 over all devices."""
        worth, least = rows @ node, np.zeros(len(self._counts))
        np.maximum.at(least, kind, worth[block])
        least = np.maximum(least, 1e-6 * node.sum() / self._counts.sum())
        total = float(self._counts @ least)
        return Prices(node / total, least / total)


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
    """Lower bound by prices of nodes and kinds; called again for the same question, it continues."""

    def __init__(self) -> None:
        self._question: str | None = None
        self._prices: KindPrices
        self._floor: Bound
        self._value = 0.0
        self._proved: Prices | None = None
        self._ceiling = math.inf
        self._trees: list[BlockTree] = []  # one a kind

    def __call__(self, start: Partition, controls: Controls) -> Result:
        """The best bound proved in time; its witness holds `prices` of the nodes and `shares` of the kinds."""
        instance = start.instance
        if start.bottleneck <= 0:
            return Result(PRICED, instance, start, simple_bound(instance))
        if self._question != instance.key:
            self._question, self._floor, self._proved = instance.key, simple_bound(instance), None
            self._value, self._ceiling, self._trees = self._floor.value, start.bottleneck, []
            self._prices = KindPrices(start, controls.options.seed, controls.options.threads)
            self._threads = controls.options.threads
        self._prices.learn(start)
        closed = self._climb(start, controls)
        if self._proved is None:
            return Result(PRICED, instance, start, replace(self._floor, optimal=closed))
        value = min(self._value, start.bottleneck)
        witness = {
            "prices": self._proved.node.tolist(),
            "shares": self._proved.kind.tolist(),
            "seed": controls.options.seed,
        }
        return Result(PRICED, instance, start, Bound(value, PRICED, closed, witness))

    def _climb(self, start: Partition, controls: Controls) -> bool:
        """Raise the bound until time is up; return whether it cannot be raised further."""
        deadline, watch, upper = controls.deadline, Stopwatch(), start.bottleneck
        self._ceiling = min(self._ceiling, upper)
        rise = _RISE
        for _ in range(_ATTEMPTS):
            base = max(self._value, min(controls.lower, self._ceiling * (1 - _NEARLY)))
            if base >= upper * (1 - PROOF_TOLERANCE):
                return self._value >= upper * (1 - PROOF_TOLERANCE)
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
        """Whether prices proved the goal; None if no prices can prove it."""
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
            count = search.block_count
            if self._prove(prices, goal, deadline):
                return True
            if search.block_count == count:
                return False
            rounds = 0
            search.near(prices)

    def _tree(self, t: int, worth: FloatArray, goal: float, deadline: Deadline) -> BlockTree:
        """The branch-and-bound tree of kind t, with one open leaf for these prices.

        Pairs of nodes that cannot share a block are kept if the goal is not higher than before.
        """
        if t == len(self._trees):
            pairs, threads = deadline.share(_PAIRS), self._threads
            self._trees.append(BlockTree(self._prices.questions[t], worth, goal, pairs, threads=threads))
        else:
            self._trees[t].aim(goal, deadline.share(_PAIRS))
            self._trees[t].reprice(worth)
        return self._trees[t]

    def _prove(self, prices: Prices, goal: float, deadline: Deadline) -> bool:
        """Whether the trees of all kinds prove the goal; blocks that prevent it are added to the program."""
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
    """(n,) node prices over the price of a device, at most 1: higher ones prove no more."""
    return np.minimum(node / price, 1.0)


def _relieved(node: FloatArray, block: BoolArray, price: float) -> FloatArray:
    """(n,) prices of nodes, lowered in the block until it is worth slightly less than a device."""
    return np.where(block, node * (price * (1 - _RELIEF) / node[block].sum()), node)
