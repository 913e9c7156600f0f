"""Choice of the node to decide next: both decisions should raise the bound (pseudo-costs).

A node that was never decided is tried both ways first (reliability branching; Achterberg, Koch & Martin, 2005).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import FloatArray
from mtpp_models.bounds.priced.block_relaxation import IN, OUT, BlockQuestion, Flows, copy_flow, no_sets
from mtpp_models.bounds.priced.decisions import bound_of
from mtpp_models.cuts.block_cuts import UNIT
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["Gains", "choose", "note", "stakes_of", "try_out", "untried"]

# How much the worth of the nodes that a choice keeps out counts beside its own, and how much more a node counts that is
# in one tied set alone. Measured on REGAL-style graphs, as is the power of each part of the score.
_EXCLUDED, _IN_ONE = 0.3, 2.0
# No gain counts less, in parts of the goal.
_LEAST_GAIN = 1e-6


class Gains(NamedTuple):
    """Rise of the bound by decisions on each node: put into the block, or kept out of it."""

    rise: FloatArray  # (2, n): in all, in parts of the goal; inside, then outside
    times: FloatArray  # (2, n)

    @classmethod
    def none(cls, n: int) -> Gains:
        """Gains before any decision."""
        return cls(np.zeros((2, n)), np.zeros((2, n)))


@compiled
def note(gains: Gains, node: int, decision: int, rise: float) -> None:
    """A decision, `IN` or `OUT`, raised the bound by so much."""
    gains.rise[decision - IN, node] += max(0.0, rise) / UNIT
    gains.times[decision - IN, node] += 1.0


@compiled
def stakes_of(state: NDArray[np.int8], question: BlockQuestion) -> FloatArray:
    """Weight of each free node, (n,): its worth and a part of the worth of nodes it excludes; 0 if not free."""
    free, stakes = np.flatnonzero(state == 0), np.zeros(len(state))
    for v in free:
        stakes[v] = max(_LEAST_GAIN, question.worth[v])
        for w in free:
            if question.apart[v, w]:
                stakes[v] += _EXCLUDED * question.worth[w]
    return stakes


@compiled
def choose(stakes: FloatArray, gains: Gains, few: BoolArray, many: BoolArray) -> int:
    """The free node, of those that were decided before, where most is to be gained; -1 if none is free."""
    node, best = -1, -1.0
    for v in np.flatnonzero(stakes):
        if gains.times[0, v] > 0:
            inside, outside = gains.rise[0, v] / gains.times[0, v], gains.rise[1, v] / gains.times[1, v]
            score = max(inside, _LEAST_GAIN) * math.sqrt(max(outside, _LEAST_GAIN) * stakes[v])
            if many[v] and not few[v]:
                score *= _IN_ONE
            if score > best:
                node, best = int(v), score
    return node


@compiled
def untried(stakes: FloatArray, gains: Gains, few: BoolArray, many: BoolArray) -> NDArray[np.intp]:
    """The free nodes that were never decided: those in one tied set alone first, and where most is at stake."""
    nodes = np.flatnonzero((stakes > 0) & (gains.times[0] == 0))
    order = stakes[nodes]
    for i, v in enumerate(nodes):
        if many[v] and not few[v]:
            order[i] += 2.0 * len(stakes)  # all nodes together are worth k
    return nodes[np.argsort(-order)]


@compiled
def try_out(
    nodes: NDArray[np.intp],
    state: NDArray[np.int8],
    question: BlockQuestion,
    flows: Flows,
    gains: Gains,
    least: int,
    multiplier: float,
) -> None:
    """Note what deciding each of the nodes either way would gain, where the bound is `least`."""
    trial, sets = state.copy(), no_sets(len(state))
    copy_flow(flows, 0, 1)
    for v in nodes:
        for decision in (IN, OUT):
            trial[:] = state
            trial[v] = decision
            reached = bound_of(trial, question, flows, sets, multiplier, False)[0]
            note(gains, int(v), decision, float(reached - least))
            copy_flow(flows, 1, 0)
