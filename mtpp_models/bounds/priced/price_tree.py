r"""Trees of `mtpp_models.bounds.priced.branch_and_bound` as witnesses, with which others prove the bound again.

A witness holds the decisions of each leaf, in a tree of its own; the multiplier with which the leaf reaches the goal,
as `block_relaxation` says; and pairs of nodes that no block below the goal holds, as few as leaves need that do not
reach the goal without. Each leaf is bounded once more here, and pairs of leaves that are not needed become one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import Instance
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from mtpp_models.bounds.priced.block_relaxation import IN, OUT, BlockQuestion, Flows, begin_flow, no_sets
from mtpp_models.bounds.priced.decisions import bound_of
from mtpp_models.cuts.block_cuts import UNIT
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["MOST_LEAVES", "PriceProof", "before_witness", "price_witness"]

#: Leaves of the largest tree that becomes a witness.
MOST_LEAVES = 50_000

#: Entry of a tree that is a leaf.
LEAF = -1

# Digits of a multiplier that are tried first.
_DIGITS = 4
# Leaves between two looks at the clock; and time for a witness, of which a part is that of the proof.
_BETWEEN, _SECONDS, _PART = 20, 1.0, 0.1


class PriceProof(NamedTuple):
    """Finished search of a `BlockTree`."""

    instance: Instance
    question: BlockQuestion
    decided: NDArray[np.int8]  # (c, n): decisions of the leaves
    multiplier: FloatArray  # (c,)


def before_witness(deadline: Deadline) -> Deadline:
    """When proofs end, such that their witness comes a second behind the deadline at the latest."""
    return deadline.share(1 - _PART)


def price_witness(proof: PriceProof | None, seconds: float, part: float = _PART) -> dict[str, Any]:
    """Members `tree`, `multipliers` and `apart` of a witness beside the prices of a proof; none where time is up.

    The time is a second and a part of the seconds that the proof took. Multipliers are in parts of the goal, for prices
    that are worth as many blocks as there are.
    """
    if proof is None:
        return {}
    deadline = Deadline.after(_SECONDS + part * seconds)
    entries, rows = _tree(proof.decided)
    decided, multiplier = proof.decided[rows], proof.multiplier[rows]
    share = proof.question.worth.sum() / min(proof.instance.k, proof.instance.graph.n)  # what a block is worth
    multiplier *= share / UNIT
    used = np.zeros_like(proof.question.apart)
    questions = proof.question._replace(apart=used), proof.question  # the pairs noted so far, and all
    flows = Flows.of(proof.question)
    row = 0
    while row < len(rows):
        if deadline.passed:
            return {}
        end = min(len(rows), row + _BETWEEN)
        if not _close(*questions, flows, decided[row:end], multiplier[row:end], share / UNIT):
            return {}
        row = end
    entries, kept = _trimmed(entries, decided, multiplier, questions[0], flows, share / UNIT, deadline)
    return {"tree": entries, "multipliers": multiplier[kept].tolist(), "apart": np.argwhere(np.triu(used)).tolist()}


def _tree(decided: NDArray[np.int8]) -> tuple[list[int], NDArray[np.intp]]:
    """Entries of a decision tree with these leaves in pre-order, and the rows of the leaves in that order.

    Any node that all leaves decide can be the root: those with it inside and those with it outside are trees again.
    """
    entries: list[int] = []
    order: list[int] = []
    stack = [(np.arange(len(decided)), np.zeros(decided.shape[1], dtype=bool))]
    while stack:
        rows, path = stack.pop()
        if len(rows) == 1:
            entries.append(LEAF)
            order.append(int(rows[0]))
            continue
        node = int(((decided[rows] != 0).all(axis=0) & ~path).argmax())
        inside = decided[rows, node] == IN
        path[node] = True
        entries.append(node)
        stack += [(rows[~inside], path), (rows[inside], path.copy())]
    return entries, np.array(order)


def _trimmed(
    entries: list[int],
    decided: NDArray[np.int8],
    multiplier: FloatArray,
    question: BlockQuestion,
    flows: Flows,
    unit: float,
    deadline: Deadline,
) -> tuple[list[int], list[int]]:
    """Entries and rows of leaves of a smaller tree: two leaves become one where they need not decide their node.

    Rows of leaves that take the place of their pair are changed. It stops when time is up, with a tree that is valid.
    """
    stack: list[tuple[list[int], list[int]]] = []  # subtrees with their rows, reversed: the last ones first
    row = len(decided)
    for node in reversed(entries):
        if node == LEAF:
            row -= 1
            stack.append(([LEAF], [row]))
            continue
        (first, rows), (second, others) = stack.pop(), stack.pop()
        if len(rows) == len(others) == 1 and not deadline.passed:
            alone = decided[rows[0] : rows[0] + 1].copy()
            alone[0, node] = 0
            candidate = multiplier[rows[0] : rows[0] + 1].copy()
            if _close(question, question, flows, alone, candidate, unit):
                decided[rows[0]], multiplier[rows[0]] = alone[0], candidate[0]
                stack.append((first, rows))
                continue
        second += first
        second.append(node)
        others += rows
        stack.append((second, others))
    [(trimmed, kept)] = stack
    return trimmed[::-1], kept[::-1]


@compiled
def _close(
    some: BlockQuestion,
    question: BlockQuestion,
    flows: Flows,
    decided: NDArray[np.int8],
    multiplier: FloatArray,
    unit: float,
) -> bool:
    """Whether all leaves reach the goal, each with a multiplier that is written into `multiplier`.

    `some` is the question with few pairs of nodes that exclude each other, to which those are added that a leaf needs;
    `unit` is what kernels divide multipliers by.
    """
    n = decided.shape[1]
    state = np.empty(n, dtype=np.int8)
    for row in range(len(decided)):
        value = _multiplier(some, flows, decided[row], multiplier[row], unit, state)
        if value < 0:
            value = _multiplier(question, flows, decided[row], multiplier[row], unit, state)
            if value < 0:
                return False
            _use(question.apart, decided[row], state, some.apart)
        multiplier[row] = value
    return True


@compiled
def _multiplier(
    question: BlockQuestion, flows: Flows, decided: NDArray[np.int8], begin: float, unit: float, state: NDArray[np.int8]
) -> float:
    """A multiplier with which a leaf reaches the goal, rounded to few digits if it still does; -1 if there is none."""
    sets = no_sets(len(decided))
    value = begin / unit
    for patient in (True, False):
        short = _short(value * unit)
        state[:] = decided
        begin_flow(question, flows)
        least, reached, _ = bound_of(state, question, flows, sets, short / unit, patient)
        if least >= UNIT and reached == short / unit:
            return short
        if patient and least < UNIT:
            return -1.0
        if patient:
            value = reached
    return value * unit


@compiled(allocates=False)
def _short(number: float) -> float:
    """The number rounded to few digits."""
    if number <= 0.0:
        return 0.0
    scale = 10.0 ** (_DIGITS - 1 - math.floor(math.log10(number)))
    return round(number * scale) / scale


@compiled
def _use(apart: BoolArray, decided: NDArray[np.int8], state: NDArray[np.int8], used: BoolArray) -> None:
    """Mark in `used` one pair for each node that cannot join the block; pairs marked already serve again."""
    inside = np.flatnonzero(state == IN)
    for w in range(len(decided)):
        if decided[w] == OUT:
            continue
        pair = -1
        for v in inside:
            if used[v, w]:
                pair = -1
                break
            if pair < 0 and apart[v, w]:
                pair = int(v)
        if pair >= 0:
            used[pair, w] = used[w, pair] = True
