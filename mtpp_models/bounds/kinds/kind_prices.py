r"""Prices of nodes and of kinds of devices, as good guesses.

Below a goal F give each node a price p and each kind a price q so that no convex set that costs less than F on kind t
is worth more than q_t. If all nodes together are worth :math:`\sum_t N_t q_t` or more, no partition costs less than F.
The best
prices are those of the program

.. math:: \max \sum_v p_v \quad \text{subject to} \quad p(S) \le q_t \;\; \forall t, S : f_t(S) < F, \qquad
    \sum_t N_t q_t = 1, \qquad p, q \ge 0,

whose rows a search finds (column generation). Nothing here is a proof: `mtpp_models.bounds.kinds.priced` is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array, hstack, vstack

from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.kernel_arrays import KernelArrays
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance
from mtpp_models.bounds.priced.block_cost import LeastOverflow, block_cost
from mtpp_models.bounds.priced.block_search import Relations
from mtpp_models.bounds.priced.heavy_blocks import Effort, heavy_blocks
from mtpp_models.cuts.max_flow import BoolArray
from mtpp_models.simple import speed_shares
from mtpp_models.solvers.highs import solve_lp

__all__ = ["KindPrices", "Prices"]

# Searches of a round, a kind: that begin with no block and with a known one. Fewer than in
# `mtpp_models.bounds.priced.price_search`, and longer ones.
_FRESH, _AGAIN = Effort(4, 200, 0.4), Effort(12, 50, 0.2)
# Prices stay so near to the centre that they have half of what the best ones have to spare, and this much where those
# have it: with less to spare the trees of goals far below the bottleneck take ten times as long.
_HALF, _LEAST, _MOST = 0.5, 0.012, 0.9
# By how much the centre moves towards other prices after a failure.
_NEARER = 0.1
# Seconds that the program is always given.
_PROGRAM = 1.0
# A kind whose price is below this part of the largest is as good as free.
_FREE = 1e-9


class Prices(NamedTuple):
    """Prices of nodes and kinds; all devices together are worth 1."""

    node: FloatArray  # (n,)
    kind: FloatArray  # (T,)

    @property
    def worth(self) -> float:
        """Sum of the prices of all nodes."""
        return float(self.node.sum())


class KindPrices:
    """Column generation for the program of an instance.

    Parameters
    ----------
    start : Partition
        With a positive bottleneck; its blocks are the first that the prices must respect.
    seed, threads : int
        As of `PriceSearch`.
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
    def known(self) -> int:
        """Number of blocks that the prices respect."""
        return len(self._rows)

    def learn(self, start: Partition) -> None:
        """Respect the blocks of a partition as well."""
        for b in np.unique(start.block).tolist():
            self.add(start.block == b)

    def add(self, inside: BoolArray) -> bool:
        """Add a block for every kind; return whether it is new."""
        if inside.tobytes() in self._blocks:
            return False
        self._blocks[inside.tobytes()] = len(self._rows)
        self._rows.append(inside.copy())
        parts = zip(self.questions, self._overflows, strict=True)
        self._costs.append(np.array([block_cost(*part, inside) for part in parts]))
        return True

    def near(self, other: Prices) -> None:
        """Move the centre towards prices that failed."""
        mixed = self.centre.node * (1 - _NEARER) + other.node / other.worth * _NEARER
        self.centre = Prices(mixed, self.centre.kind)

    def settle(self, goal: float, seconds: float) -> Prices | None:
        """Prices for a goal that are worth as much as they need be, near the centre; None if there are none in time.

        Of the best prices a part is mixed with the centre's, as little as leaves them worth more than all devices.
        """
        rows, costs = np.array(self._rows), np.array(self._costs)
        block, kind = np.nonzero(costs < goal)
        best = self._solve(rows, block, kind, seconds)
        if best is None or best.worth < 1:
            return best
        best = self._tightened(best.node, rows, block, kind)
        low, high, found = 0.0, 1.0, best
        centre = self.centre.node / self.centre.node.sum()
        spare = best.worth - 1
        enough = 1 + min(_MOST * spare, max(_LEAST, _HALF * spare))
        for _ in range(12):
            part = (low + high) / 2
            mixed = self._tightened((1 - part) * centre + part * best.node / best.worth, rows, block, kind)
            if mixed.worth >= enough:
                high, found = part, mixed
            else:
                low = part
        return found

    def search(self, prices: Prices, goal: float, deadline: Deadline) -> int:
        """Look for blocks that are worth more than their kind; return how many are new."""
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
        """Prices by the least weighted work, and half of what each node moves; ones where that is nothing."""
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
        """An interior solution of the program: p(S) - q_t <= 0, and all devices together at most 1."""
        n, count, kinds = rows.shape[1], len(block), len(self._counts)
        inside = csr_array(rows[block].astype(np.float64))
        devices = coo_array((-np.ones(count), (np.arange(count), kind)), shape=(count, kinds))
        last = csr_array(np.concatenate((np.zeros(n), self._counts))[None])
        matrix = csr_array(vstack((hstack((inside, devices)), last)))
        gain = np.concatenate((np.ones(n), np.zeros(kinds)))
        answer = solve_lp(matrix, gain, np.append(np.zeros(count), 1.0), max(_PROGRAM, seconds))
        if answer is None or not answer[:n].sum() > 0:
            return None
        return Prices(np.clip(answer[:n], 0.0, 1.0), np.clip(answer[n:], 0.0, 1.0))

    def _tightened(self, node: FloatArray, rows: BoolArray, block: IntArray, kind: IntArray) -> Prices:
        """The prices with the least kinds that known blocks allow, scaled so that all devices are worth 1."""
        worth, least = rows @ node, np.zeros(len(self._counts))
        np.maximum.at(least, kind, worth[block])
        least = np.maximum(least, 1e-6 * node.sum() / self._counts.sum())
        total = float(self._counts @ least)
        return Prices(node / total, least / total)
