"""Consequences of decisions on nodes, and a lower bound on the cost of all blocks that agree with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from mtpp_models.bounds.priced.block_relaxation import IN, OUT, BlockQuestion, Flows, Sets, relax
from mtpp_models.cuts.block_cuts import UNIT
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["bound_of"]

# Rounding must not make sets of nodes look worth less than their share.
_SHORT = 1e-9


@compiled
def bound_of(
    state: NDArray[np.int8],
    question: BlockQuestion,
    flows: Flows,
    sets: Sets,
    multiplier: float,
    patient: bool,
) -> tuple[int, float, float]:
    """Bound the cost of sets as `relax` does, in all cases; add the consequences of the decisions to `state`.

    `sets` are those of the last case, with overflow if there is any.
    """
    least, cost = UNIT, np.inf
    if _propagate(state, question, sets.before, sets.behind):
        least = 0
        for case in range(len(question.drain)):
            reached, multiplier, cost = relax(state, question, case, flows, sets, multiplier, patient)
            least = max(least, reached)
            if least >= UNIT:
                break
    return least, multiplier, cost


@compiled
def _propagate(state: NDArray[np.int8], question: BlockQuestion, before: BoolArray, behind: BoolArray) -> bool:
    """Decide all consequences; return whether they are free of contradictions.

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
