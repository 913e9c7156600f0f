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


class _Agenda(NamedTuple):
    """Open nodes of the tree, the last of which comes next: (n + 2, n) states of nodes, and multipliers."""

    state: NDArray[np.int8]
    multiplier: FloatArray


class BlockTree:
    """The search for one block below a goal.

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

    def __init__(self, instance: Instance, prices: FloatArray, goal: float, deadline: Deadline | None = None) -> None:
        n, k = instance.graph.n, min(instance.k, instance.graph.n)
        self._goal, cuts = goal, BlockCuts(instance, goal)
        network, supply = cuts.network.with_supplies(n)
        worth = prices / prices.max()
        worth *= k / worth.sum()
        apart = np.zeros((n, n), dtype=bool)
        u, v = conflicts(instance, goal, deadline).T
        apart[u, v] = apart[v, u] = True
        self._question = BlockQuestion(network, supply, *linear_costs(cuts), worth, apart, cuts.reach)
        self._agenda = _Agenda(np.zeros((n + 2, n), dtype=np.int8), np.full(n + 2, float(UNIT)))

    def explore(self, deadline: Deadline) -> tuple[bool, BoolArray | None]:
        """Search to the end, to the first block, or until time is up.

        The answer is whether it is proved that no block below the goal is worth its share; else (n,) the nodes of such
        a block, or None if there was no time.
        """
        n, depth = len(self._question.worth), 1
        while depth > 0:
            if deadline.passed:
                return False, None
            depth, block = _explore(self._question, self._agenda, depth, max(1, _WORK_BETWEEN // n))
            if block.any():
                return False, block
        return True, None

    def overflow(self, block: BoolArray) -> float:
        """Time that the tree sees of what the parameters of an (n,) set of nodes exceed the memory by."""
        work = self._question.work[:, block].sum(axis=1)
        return max(0, int(work[-1] - work[0]) + constant_of(self._question.constant[-1], block)) / UNIT * self._goal


@compiled
def _explore(question: BlockQuestion, agenda: _Agenda, depth: int, budget: int) -> tuple[int, BoolArray]:
    """Explore at most `budget` nodes of the tree; what is still open, and a block if one was found."""
    n = len(question.worth)
    before, behind = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    few, many = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    state = np.empty(n, dtype=np.int8)
    while depth > 0 and budget > 0:
        depth -= 1
        budget -= 1
        state[:] = agenda.state[depth]
        multiplier = agenda.multiplier[depth]
        if not _propagate(state, question, before, behind):
            continue
        pruned, cost = False, np.inf
        for case in range(len(question.work)):
            pruned, multiplier, cost = relax(state, question, case, before, behind, multiplier, few, many)
            if pruned:
                break
        if pruned:
            continue
        # The sets are those of the last case, with overflow if there is any.
        constant = constant_of(question.constant[-1], many)
        cost += constant - constant_of(question.constant[-1], state == IN)
        overflow = float(constant)
        for v in range(n):
            if many[v]:
                overflow += question.work[-1, v] - question.work[0, v]
        if cost - min(0.0, overflow) < UNIT and _is_convex(many, question.reach):
            return depth, many
        v = _choose(state, question, few, many)
        if v < 0:
            return depth, state == IN
        for what in (OUT, IN):
            agenda.state[depth] = state
            agenda.state[depth, v] = what
            agenda.multiplier[depth] = max(multiplier, _LEAST * UNIT)
            depth += 1
    return depth, np.zeros(n, dtype=np.bool_)


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
