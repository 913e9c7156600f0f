r"""One ideal for all that become one another where equal branches change places, compiled.

What a set holds of each branch is read node by node; the set is sorted where no branch holds the first node in which it
differs from the branch before. Nodes that change places stand side by side in a topological order, branch by branch.

An exchange of branches makes of a chain of ideals one of the same costs. So sorted ideals stand for all. Around a
sorted ideal I grow sets by nodes in their order, where a node is late if the branch before holds the same, of I and
now. Among the sets around I that become one another while I stays, there is one in which branches that are equal in I
are sorted, and that one grows so: take away its last node, and it is still sorted, as branches behind lack that node
too, and all before it are decided. There that node was not late, for else the branch before would lack it.
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
    for q in range(start[b + 1] - start[b]):
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
