"""The kernels of `mtpp_models.bounds.priced.branch_and_bound`: nodes of the tree, one after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import FloatArray
from mtpp_models.bounds.priced.block_relaxation import (
    IN,
    OUT,
    BlockQuestion,
    Flows,
    begin_flow,
    constant_of,
    copy_flow,
    relax,
)
from mtpp_models.cuts.block_cuts import UNIT
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["CHILDREN", "Leaves", "explore", "merge"]

#: Leaves of a node that is explored.
CHILDREN = 2

# The multiplier at which children of a node begin is no smaller, over the goal.
_LEAST = 0.1
# Rounding must not make sets of nodes look worth less than their share.
_SHORT = 1e-9
# How much the worth of the nodes that a choice keeps out counts in it. Measured on REGAL-style graphs.
_EXCLUDED = 0.3


class Leaves(NamedTuple):
    """What is left of the tree: (c, n) decisions, and multipliers.

    Open ones come first, the last of them next; those that are done stand at the end. Together they hold all sets.
    """

    decided: NDArray[np.int8]
    multiplier: FloatArray

    @classmethod
    def root(cls, n: int) -> Leaves:
        """Nothing is decided; with room for a path down the tree."""
        return cls(np.zeros((2 * n + 2, n), dtype=np.int8), np.full(2 * n + 2, float(UNIT)))

    def grown(self, done: int) -> Leaves:
        """The same with more room in the middle."""
        size, n = self.decided.shape
        decided, multiplier = np.zeros((2 * size, n), dtype=np.int8), np.tile(self.multiplier, 2)
        keep = size - done
        decided[:keep], decided[size + keep :] = self.decided[:keep], self.decided[keep:]
        return Leaves(decided, multiplier)


@compiled
def merge(leaves: Leaves, count: int) -> int:
    """Put leaves, of the first `count`, that follow each other and decide one node differently together; their number.

    A leaf that has been put together is not compared again.
    """
    kept, row = 0, 0
    while row < count:
        here, node, differ = leaves.decided[row], -1, 0
        if row + 1 < count:
            there = leaves.decided[row + 1]
            for v in range(len(here)):
                if here[v] != there[v]:
                    node = v
                    differ += 1 if here[v] and there[v] else 2  # who has not decided holds more than the other
                    if differ > 1:
                        break
        leaves.decided[kept], leaves.multiplier[kept] = leaves.decided[row], leaves.multiplier[row]
        if differ == 1:
            leaves.decided[kept, node] = 0
            row += 1
        kept += 1
        row += 1
    return kept


@compiled
def explore(
    question: BlockQuestion, leaves: Leaves, flows: Flows, depth: int, done: int, budget: int
) -> tuple[int, int, BoolArray]:
    """Explore at most `budget` nodes, as long as there is room.

    How many are open and done, and a block if one was found, else no node.
    """
    n = len(question.worth)
    before, behind = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    few, many = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    state, size = np.empty(n, dtype=np.int8), len(leaves.decided)
    while depth > 0 and budget > 0 and depth + done + CHILDREN <= size:
        budget -= 1
        last = depth - 1
        _go_on(question, leaves, flows, last, state)
        multiplier = leaves.multiplier[last]
        pruned, cost = not _propagate(state, question, before, behind), np.inf
        for case in range(len(question.work)):
            if pruned:
                break
            pruned, multiplier, cost = relax(state, question, case, flows, before, behind, multiplier, few, many)
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
        flows.state[0] = state
        place = 1 + last % (len(flows.row) - 1)
        copy_flow(flows, 0, place)
        flows.row[0], flows.row[place] = depth, last
        depth += 1
    return depth, done, np.zeros(n, dtype=np.bool_)


@compiled
def _go_on(question: BlockQuestion, leaves: Leaves, flows: Flows, row: int, state: NDArray[np.int8]) -> None:
    """Put the flow that a leaf goes on from at place 0; set `state` to its decisions and what followed further up."""
    place = 1 + row % (len(flows.row) - 1)
    if flows.row[0] != row:
        if flows.row[place] == row:
            copy_flow(flows, place, 0)
        else:
            begin_flow(question, flows)
    flows.row[0] = flows.row[place] = -1
    state[:] = flows.state[0]
    for v in np.flatnonzero(leaves.decided[row]):
        state[v] = leaves.decided[row, v]


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
