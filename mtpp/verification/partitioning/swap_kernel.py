r"""One ideal for all that become one another where equal branches change places, compiled.

Nodes that change places stand side by side in a topological order, branch by branch. A set is sorted where no branch
holds the first node in which it differs from the branch before. As the exchange of a chain of ideals is a chain of the
same costs, sorted ideals stand for all.

Around a sorted ideal I sets grow by nodes in their order, where a node is late if the branch before its own holds the
same, of I and now. Let J be an ideal around I, sorted among the branches that are equal in I; exchanges of these make
such a J of any other, and leave the costs of J without I as they are. J without its last node is so too: the branch
behind has none of the nodes behind that one but those of I, and lacks the next image of it, which would be later. In
what is left the node was not late, or else J were not sorted. So J is met, and by one order alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from mtpp.verification.partitioning.ideal_records import IdealQuestion

__all__ = ["is_late", "sort_branches"]

_WORD = 64

_Words = NDArray[np.uint64]


@compiled
def is_late(v: int, question: IdealQuestion, inside: NDArray[np.int8]) -> bool:
    """Whether the branch before that of a node holds the same nodes, of the ideal and of the block."""
    b = question.branch[v]
    if b <= 0 or question.family[b - 1] != question.family[b]:
        return False
    start, nodes = question.branches
    for q in range(start[b + 1] - start[b]):  # noqa: SIM110 - numba has no all() and any() of generators
        if inside[nodes[start[b] + q]] != inside[nodes[start[b - 1] + q]]:
            return False
    return True


@compiled
def sort_branches(words: _Words, code: np.uint64, question: IdealQuestion) -> np.uint64:
    """Sort the branches of a set, and return its new hash."""
    start, nodes = question.branches
    for b in range(1, len(question.family)):
        c = b
        while c > 0 and question.family[c - 1] == question.family[c] and _is_greater(c, words, question):
            for q in range(start[c + 1] - start[c]):
                u, v = nodes[start[c] + q], nodes[start[c - 1] + q]
                if _holds(words, u) != _holds(words, v):
                    words[u // _WORD] ^= np.uint64(1) << np.uint64(u % _WORD)
                    words[v // _WORD] ^= np.uint64(1) << np.uint64(v % _WORD)
                    code ^= question.code[u] ^ question.code[v]
            c -= 1
    return code


@compiled
def _is_greater(b: int, words: _Words, question: IdealQuestion) -> bool:
    """Whether a branch holds the first node in which it differs from the one before."""
    start, nodes = question.branches
    for q in range(start[b + 1] - start[b]):
        mine, other = _holds(words, nodes[start[b] + q]), _holds(words, nodes[start[b - 1] + q])
        if mine != other:
            return mine
    return False


@compiled(inline="always")
def _holds(words: _Words, v: int) -> bool:
    return (words[v // _WORD] >> np.uint64(v % _WORD)) & np.uint64(1) == np.uint64(1)
