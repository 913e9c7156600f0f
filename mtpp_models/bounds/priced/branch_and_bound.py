r"""Branch and bound for blocks that are worth their share and cost less than a goal.

Given prices of nodes, all of them together worth k, the question is whether some convex set S with price(S) >= 1 costs
less than T. Where the bound of `mtpp_models.bounds.priced.block_relaxation` stays below T, a node of the one tied set
that is not in the other is put into the block, then kept out of it. What is in the block draws in all that lies
between, and keeps out whatever no block below T holds beside it; what is kept out cuts off what lies behind it, as seen
from the block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import Instance
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from mtpp_models.bounds.priced.block_relaxation import IN, OUT, BlockQuestion, constant_of, linear_costs, relax
from mtpp_models.cuts.block_cuts import UNIT, BlockCuts
from mtpp_models.cuts.conflicts import conflicts
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["BlockTree"]

# The multiplier at which children of a node begin is no smaller, over the goal.
_LEAST = 0.1
# Rounding must not make sets of nodes look worth less than their share.
_SHORT = 1e-9
# How much the worth of the nodes that a choice keeps out counts in it. Measured on REGAL-style graphs.
_EXCLUDED = 0.3
# Nodes of the tree explored between two looks at the clock, times the nodes of the graph.
_WORK_BETWEEN = 10_000
# Leaves of a node that is explored, and decisions, a byte each, that are kept.
_CHILDREN, _MOST_DECISIONS = 2, 2**27


class _Leaves(NamedTuple):
    """What is left of the tree: (c, n) decisions, and multipliers.

    Open ones come first, the last of them next; those that are done stand at the end. Together they hold all sets.
    """

    decided: NDArray[np.int8]
    multiplier: FloatArray

    @classmethod
    def root(cls, n: int) -> _Leaves:
        """Nothing is decided; with room for a path down the tree."""
        return cls(np.zeros((2 * n + 2, n), dtype=np.int8), np.full(2 * n + 2, float(UNIT)))

    def grown(self, done: int) -> _Leaves:
        """The same with more room in the middle."""
        size, n = self.decided.shape
        decided, multiplier = np.zeros((2 * size, n), dtype=np.int8), np.tile(self.multiplier, 2)
        keep = size - done
        decided[:keep], decided[size + keep :] = self.decided[:keep], self.decided[keep:]
        return _Leaves(decided, multiplier)


class BlockTree:
    """The search for one block below a goal; for other prices or another goal it goes on with the leaves it has.

    The leaves are decisions on nodes, and nothing that follows from a goal or from prices, so together they hold all
    convex sets, whatever goal and prices come next.

    Parameters
    ----------
    instance : Instance
    prices : (n,) floats
        Not negative, not all 0.
    goal : float
        T, positive.
    deadline : Deadline, optional
        When to stop looking for pairs of nodes that no block below the goal holds.
    """

    _leaves: _Leaves
    _open: int
    _done: int
    _lost: bool

    def __init__(self, instance: Instance, prices: FloatArray, goal: float, deadline: Deadline | None = None) -> None:
        self._instance, self._goal = instance, goal
        self._question = _question(instance, prices, goal, deadline)
        self._begin()

    def reprice(self, prices: FloatArray) -> None:
        """Search with other prices next, (n,) floats, not negative and not all 0."""
        self._question = self._question._replace(worth=_worth(prices, self._instance))
        self._reopen()

    def aim(self, goal: float, deadline: Deadline | None = None) -> None:
        """Search for a block below another goal next; what is done stays so below a lower one."""
        if goal > self._goal:
            self._reopen()
        self._goal, self._question = goal, _question(self._instance, self._question.worth, goal, deadline)

    def explore(self, deadline: Deadline) -> tuple[bool, BoolArray | None]:
        """Search to the end, to the first block, or until time is up.

        The answer is whether it is proved that no block below the goal is worth its share; else (n,) the nodes of such
        a block, or None if there was no time. Asked again, it goes on.
        """
        budget = max(1, _WORK_BETWEEN // self._instance.graph.n)
        while self._open > 0:
            if deadline.passed:
                return False, None
            self._open, self._done, block = _explore(self._question, self._leaves, self._open, self._done, budget)
            if block.any():
                return False, block
            if self._open + self._done + _CHILDREN > len(self._leaves.decided):
                self._make_room()
        return True, None

    def overflow(self, block: BoolArray) -> float:
        """Time that the tree sees of what the parameters of an (n,) set of nodes exceed the memory by."""
        work = self._question.work[:, block].sum(axis=1)
        return max(0, int(work[-1] - work[0]) + constant_of(self._question.constant[-1], block)) / UNIT * self._goal

    def _begin(self) -> None:
        """Nothing is decided; all sets are in one leaf."""
        self._leaves, self._lost = _Leaves.root(self._instance.graph.n), False
        self._open, self._done = 1, 0

    def _reopen(self) -> None:
        """What was done has to be done again, from the same leaves if none was lost."""
        if self._lost:
            return self._begin()
        for rows in self._leaves:
            rows[self._open : self._open + self._done] = rows[len(rows) - self._done :]
        self._open, self._done = self._open + self._done, 0
        return None

    def _make_room(self) -> None:
        """For more leaves; of too many, those that are done are lost."""
        if self._leaves.decided.size < _MOST_DECISIONS:
            self._leaves = self._leaves.grown(self._done)
        elif self._done:
            self._done, self._lost = 0, True
        else:
            self._begin()


def _question(instance: Instance, prices: FloatArray, goal: float, deadline: Deadline | None) -> BlockQuestion:
    cuts, n = BlockCuts(instance, goal), instance.graph.n
    network, supply = cuts.network.with_supplies(n)
    apart = np.zeros((n, n), dtype=bool)
    u, v = conflicts(instance, goal, deadline).T
    apart[u, v] = apart[v, u] = True
    return BlockQuestion(network, supply, *linear_costs(cuts), _worth(prices, instance), apart, cuts.reach)


def _worth(prices: FloatArray, instance: Instance) -> FloatArray:
    """Prices in blocks: all of them together are worth k."""
    worth = prices / prices.max()
    return worth * (min(instance.k, instance.graph.n) / worth.sum())


@compiled
def _explore(
    question: BlockQuestion, leaves: _Leaves, depth: int, done: int, budget: int
) -> tuple[int, int, BoolArray]:
    """Explore at most `budget` nodes, as long as there is room.

    How many are open and done, and a block if one was found, else no node.
    """
    n = len(question.worth)
    before, behind = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    few, many = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    state, size = np.empty(n, dtype=np.int8), len(leaves.decided)
    while depth > 0 and budget > 0 and depth + done + _CHILDREN <= size:
        budget -= 1
        last = depth - 1
        state[:] = leaves.decided[last]
        multiplier = leaves.multiplier[last]
        pruned, cost = not _propagate(state, question, before, behind), np.inf
        for case in range(len(question.work)):
            if pruned:
                break
            pruned, multiplier, cost = relax(state, question, case, before, behind, multiplier, few, many)
        multiplier = max(multiplier, _LEAST * UNIT)
        if pruned:
            done += 1
            leaves.decided[size - done] = leaves.decided[last]
            leaves.multiplier[size - done] = multiplier
            depth = last
            continue
        # The sets are those of the last case, with overflow if there is any.
        constant = constant_of(question.constant[-1], many)
        cost += constant - constant_of(question.constant[-1], state == IN)
        overflow = float(constant)
        for v in range(n):
            if many[v]:
                overflow += question.work[-1, v] - question.work[0, v]
        if cost - min(0.0, overflow) < UNIT and _is_convex(many, question.reach):
            return depth, done, many
        v = _choose(state, question, few, many)
        if v < 0:
            return depth, done, state == IN
        leaves.decided[depth] = leaves.decided[last]
        leaves.decided[last, v], leaves.decided[depth, v] = OUT, IN
        leaves.multiplier[last] = leaves.multiplier[depth] = multiplier
        depth += 1
    return depth, done, np.zeros(n, dtype=np.bool_)


@compiled
def _propagate(state: NDArray[np.int8], question: BlockQuestion, before: BoolArray, behind: BoolArray) -> bool:
    """Decide what follows; whether that is free of contradictions.

    `before` and `behind` are set to the nodes with a path to the block and from it.
    """
    n, reach = len(state), question.reach
    grown = True
    while grown:
        grown = False
        before[:] = False
        behind[:] = False
        for u in np.flatnonzero(state == IN):
            for w in range(n):
                before[w] |= reach[w, u]
                behind[w] |= reach[u, w]
                if question.apart[u, w]:
                    if state[w] == IN:
                        return False
                    state[w] = OUT
        for w in range(n):
            if before[w] and behind[w] and state[w] != IN:
                if state[w] == OUT:
                    return False
                state[w] = IN
                grown = True
    for x in np.flatnonzero(state == OUT):
        for w in range(n):
            if (behind[x] and reach[x, w]) or (before[x] and reach[w, x]):
                state[w] = OUT
    worth = 0.0
    for v in range(n):
        if state[v] != OUT:
            worth += question.worth[v]
    return worth >= 1.0 - _SHORT


@compiled
def _is_convex(block: BoolArray, reach: BoolArray) -> bool:
    inside = np.flatnonzero(block)
    for v in np.flatnonzero(~block):
        before, behind = False, False
        for u in inside:
            before |= reach[v, u]
            behind |= reach[u, v]
        if before and behind:
            return False
    return True


@compiled
def _choose(state: NDArray[np.int8], question: BlockQuestion, few: BoolArray, many: BoolArray) -> int:
    """The free node, of those in one set alone if there are some, that is worth most, and keeps out most."""
    node, best = -1, -1.0
    free = np.flatnonzero(state == 0)
    for v in free:
        score = question.worth[v]
        for w in free:
            if question.apart[v, w]:
                score += _EXCLUDED * question.worth[w]
        if many[v] and not few[v]:
            score += len(state)  # worth is at most k in all
        if score > best:
            node, best = int(v), score
    return node
