"""Kernels of `mtpp_models.bounds.priced.branch_and_bound`: expansion of the tree, node by node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from mtpp_models.bounds.priced.block_relaxation import (
    IN,
    OUT,
    BlockQuestion,
    Flows,
    begin_flow,
    constant_of,
    copy_flow,
    no_sets,
)
from mtpp_models.bounds.priced.branching import Gains, choose, note, stakes_of, try_out, untried
from mtpp_models.bounds.priced.decisions import bound_of
from mtpp_models.cuts.block_cuts import UNIT
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["CHILDREN", "Leaves", "explore"]

#: Leaves of a node that is explored.
CHILDREN = 2

# The multiplier at which children of a node begin is no smaller, over the goal.
_LEAST = 0.1


class Leaves(NamedTuple):
    """Leaves of the tree of decisions.

    Open ones come first, the last of them next; those that are done stand at the end. Together they hold all sets.
    """

    decided: NDArray[np.int8]  # (c, n)
    multiplier: FloatArray  # (c,)
    last: IntArray  # (c,): which node was decided last, counted from 1, negative if kept out; 0 if nobody asks
    least: IntArray  # (c,): the bound before that

    @classmethod
    def root(cls, n: int) -> Leaves:
        """Tree with one leaf in which nothing is decided, and room for a path down."""
        size = 2 * n + 2
        nothing = np.zeros(size, dtype=np.int64)
        return cls(np.zeros((size, n), dtype=np.int8), np.full(size, float(UNIT)), nothing, nothing.copy())

    def grown(self, done: int) -> Leaves:
        """The same with more room in the middle."""
        size, n = self.decided.shape
        decided = np.zeros((2 * size, n), dtype=np.int8)
        keep = size - done
        decided[:keep], decided[size + keep :] = self.decided[:keep], self.decided[keep:]
        return Leaves(decided, np.tile(self.multiplier, 2), np.tile(self.last, 2), np.tile(self.least, 2))


@compiled(nogil=True)
def explore(
    question: BlockQuestion, leaves: Leaves, flows: Flows, gains: Gains, depth: int, done: int, budget: int
) -> tuple[int, int, BoolArray]:
    """Explore at most `budget` nodes, as long as there is room.

    How many are open and done, and a block if one was found, else no node.
    """
    n = len(question.worth)
    sets = no_sets(n)
    few, many = sets.few, sets.many
    state, size = np.empty(n, dtype=np.int8), len(leaves.decided)
    while depth > 0 and budget > 0 and depth + done + CHILDREN <= size:
        budget -= 1
        row = depth - 1
        _go_on(question, leaves, flows, row, state)
        patient = (gains.times[0][state == 0] == 0).any()  # there may be nodes to try: gains from the best multiplier
        least, multiplier, cost = bound_of(state, question, flows, sets, leaves.multiplier[row], patient)
        if leaves.last[row] != 0:
            v = abs(leaves.last[row]) - 1
            note(gains, v, IN if leaves.last[row] > 0 else OUT, float(least - leaves.least[row]))
            leaves.last[row] = 0
        if least >= UNIT:
            done += 1
            leaves.decided[size - done] = leaves.decided[row]
            leaves.multiplier[size - done] = multiplier
            depth = row
            continue
        multiplier = max(multiplier, _LEAST * UNIT)
        # The sets are those of the last case, with overflow if there is any.
        constant = constant_of(question.constant[-1], many)
        cost += constant - constant_of(question.constant[-1], state == IN)
        overflow = float(constant)  # shared parameters left out, so a block may be found only further down
        for v in range(n):
            if many[v]:
                overflow += question.drain[-1, v] - question.drain[0, v]
        if cost - min(0.0, overflow) < UNIT and _is_convex(many, question.reach):
            return depth, done, many
        flows.state[0] = state
        stakes = stakes_of(state, question)
        if patient:
            nodes = untried(stakes, gains, few, many)[: max(1, budget // 2)]
            try_out(nodes, state, question, flows, gains, least, multiplier)
            budget -= 2 * len(nodes)
        v = choose(stakes, gains, few, many)
        if v < 0:
            return depth, done, state == IN
        leaves.decided[depth] = leaves.decided[row]
        leaves.decided[row, v], leaves.decided[depth, v] = OUT, IN
        leaves.last[row], leaves.last[depth] = -(v + 1), v + 1
        leaves.least[row] = leaves.least[depth] = least
        leaves.multiplier[row] = leaves.multiplier[depth] = multiplier
        place = _place(flows, row)
        copy_flow(flows, 0, place)
        flows.row[0], flows.row[place] = depth, row
        depth += 1
    return depth, done, np.zeros(n, dtype=np.bool_)


@compiled(inline="always")
def _place(flows: Flows, row: int) -> int:
    """The slot that keeps the flow of a leaf; slots 0 and 1 hold the current flow and a copy of it."""
    return 2 + row % (len(flows.row) - 2)


@compiled
def _go_on(question: BlockQuestion, leaves: Leaves, flows: Flows, row: int, state: NDArray[np.int8]) -> None:
    """Load the flow of a leaf into slot 0, and set `state`, (n,), to its decisions and what follows from them."""
    place = _place(flows, row)
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
