r"""Trees of `mtpp_models.bounds.priced.branch_and_bound` as witnesses, with which others prove the bound again.

A witness holds the decisions of each leaf, in a tree of its own; the multiplier with which the leaf reaches the goal,
as `block_relaxation` says; and pairs of nodes that no block below the goal holds, as few as leaves need that do not
reach the goal without. Each leaf is bounded once more here, from no flow, and with better multipliers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import Instance
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray
from mtpp_models.bounds.priced.block_relaxation import IN, OUT, BlockQuestion, Flows, begin_flow
from mtpp_models.bounds.priced.decisions import bound_of
from mtpp_models.cuts.block_cuts import UNIT
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["MOST_LEAVES", "PriceProof", "price_witness"]

#: Leaves of the largest tree that becomes a witness.
MOST_LEAVES = 50_000

# The goal in multipliers of a witness, the largest of these, and the mark of a leaf.
_GOAL, _LARGEST, _LEAF = 2**44, 2**52 - 1, -1
# Leaves between two looks at the clock; and time for a witness, of which a part is that of the proof.
_BETWEEN, _SECONDS, _PART = 20, 0.5, 0.1


class PriceProof(NamedTuple):
    """Finished search of a `BlockTree`."""

    instance: Instance
    question: BlockQuestion
    decided: NDArray[np.int8]  # (c, n): decisions of the leaves
    multiplier: FloatArray  # (c,)


def price_witness(proof: PriceProof | None, seconds: float) -> dict[str, Any]:
    """Members `tree`, `multipliers` and `apart` of a witness beside the prices of a proof; none where time is up.

    The time is half a second and a part of the seconds that the proof took.
    """
    if proof is None:
        return {}
    deadline = Deadline.after(_SECONDS + _PART * seconds)
    instance, question = proof.instance, proof.question
    entries, order = _tree(proof.decided)
    if entries is None:
        return {}
    share = question.worth.sum() / min(instance.k, instance.graph.n)  # which a block is worth in the witness
    alone = question._replace(apart=np.zeros_like(question.apart))
    flows, used = Flows.of(question), np.zeros_like(question.apart)
    decided, multiplier = proof.decided[order], proof.multiplier[order]
    row = 0
    while row < len(order):
        if deadline.passed:
            return {}
        row = _close(question, alone, flows, decided, multiplier, used, row, min(len(order), row + _BETWEEN))
        if row < 0:
            return {}
    whole = np.minimum(np.round(multiplier * (share * (_GOAL / UNIT))), _LARGEST).astype(np.int64)
    return {
        "tree": entries,
        "multipliers": whole.tolist(),
        "apart": np.argwhere(used).tolist(),
    }


def _tree(decided: NDArray[np.int8]) -> tuple[list[int] | None, NDArray[np.intp]]:
    """Entries of a tree with these leaves in pre-order, and the leaves in that order.

    Leaves of a tree have their first decision on the same node. Of several nodes that all of them decide any will do:
    each is decided below any other in all trees there are.
    """
    entries: list[int] = []
    order: list[int] = []
    stack = [np.arange(len(decided))]
    paths = [np.zeros(decided.shape[1], dtype=bool)]
    while stack:
        rows, path = stack.pop(), paths.pop()
        if len(rows) == 1:
            entries.append(_LEAF)
            order.append(int(rows[0]))
            continue
        common = (decided[rows] != 0).all(axis=0) & ~path
        if not common.any():
            return None, np.array(order)
        node = int(common.argmax())
        inside = decided[rows, node] == IN
        path[node] = True
        entries.append(node)
        stack += [rows[~inside], rows[inside]]
        paths += [path, path.copy()]
        if not (inside.any() and not inside.all()):
            return None, np.array(order)
    return entries, np.array(order)


@compiled
def _close(
    question: BlockQuestion,
    alone: BlockQuestion,
    flows: Flows,
    decided: NDArray[np.int8],
    multiplier: FloatArray,
    used: BoolArray,
    first: int,
    last: int,
) -> int:
    """Find multipliers with which leaves reach the goal, and pairs that they need; `last`, or -1 if one does not.

    `alone` is the question without pairs. `used`, (n, n), are the pairs so far, each once.
    """
    n = decided.shape[1]
    before, behind = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    few, many = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    state = np.empty(n, dtype=np.int8)
    for row in range(first, last):
        begin = multiplier[row]
        state[:] = decided[row]
        begin_flow(question, flows)
        least, found, _ = bound_of(state, alone, flows, before, behind, begin, few, many, True)
        if least < UNIT:
            state[:] = decided[row]
            begin_flow(question, flows)
            least, found, _ = bound_of(state, question, flows, before, behind, begin, few, many, True)
            if least < UNIT:
                return -1
            _use(question.apart, decided[row], state, used)
        multiplier[row] = found
    return last


@compiled
def _use(apart: BoolArray, decided: NDArray[np.int8], state: NDArray[np.int8], used: BoolArray) -> None:
    """Note for each node that is apart from the block one pair that says so, of those noted already if there is one."""
    inside = np.flatnonzero(state == IN)
    for w in range(len(decided)):
        if decided[w] == OUT:
            continue
        pair = -1
        for v in inside:
            if used[min(v, w), max(v, w)]:
                pair = -1
                break
            if pair < 0 and apart[v, w]:
                pair = v
        if pair >= 0:
            used[min(pair, w), max(pair, w)] = True
