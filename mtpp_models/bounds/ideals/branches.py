r"""Equal branches that change places, as arrays for the kernels, compiled by numba.

The nodes of a set in a branch are its *column*, a number of 64 bits whose first bit is the node of the least number. A
set is *settled* where the columns of each family fall from branch to branch: any set becomes settled as branches change
places, and two that become one another become the same one. The same nodes of equal branches have consecutive numbers,
in the order of the branches, so that the sets settle node by node, too:

**Lemma.** Let G be the exchanges of equal branches that keep a settled ideal I. They move branches with the same column
in I, which stand in a row, a *run*. Let ideals grow from I by nodes in the order of their numbers, where a node is left
out if the branch before is of the same run and has the same column now. Then of the ideals around I that G makes of one
another exactly one is met: the one whose columns fall along each run.

*Proof.* Let J be an ideal around I whose columns fall, and node q of branch r, v, the last one that J has beyond I.
Without v it is an ideal, as numbers are a topological order. Its columns fall: branch r + 1 of the run lacks node q,
which has a greater number than v, and behind q both branches have what they have in I, which is the same. So without v
branch r is greater where it was greater before q, and else equal. There v is not left out: were the columns of r - 1
and r equal without it, that of r would be the greater one in J. So J is met. The other way round, let the columns fall,
and let v join, of a greater number than all beyond I. Where branch r - 1 is greater than r, it is by a node that is not
behind q, and so it stays greater or becomes equal. So only ideals with falling columns are met, each once, by the one
order of its nodes; and of two of them G does not make one of the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import IntArray

__all__ = ["Branches", "Words", "columns_of", "follows_its_twin", "has", "settle"]

Words = NDArray[np.uint64]

_ONE = np.uint64(1)
_TOP = np.uint64(1 << 63)


class Branches(NamedTuple):
    """The r branches of all families, family by family, of nodes whose numbers are a topological order."""

    first: IntArray  # (r,) the first branch of the family
    start: IntArray  # (r,) where the nodes of the branch begin
    length: IntArray  # (r,) how many they are
    node: IntArray  # nodes of all branches, ascending in each
    row: IntArray  # (n,) branch of each node, or -1
    place: IntArray  # (n,) which of its nodes it is
    bit: Words  # (n,) its bit in the column of the branch, if it has one

    @classmethod
    def of(cls, families: tuple[IntArray, ...], n: int) -> Branches:
        """Arrays of families whose rows ascend, and whose columns are consecutive numbers."""
        rows = [row for family in families for row in family]
        length = np.array([len(row) for row in rows], dtype=np.int64)
        sizes = np.array([len(family) for family in families], dtype=np.int64)
        node = np.concatenate([np.zeros(0, dtype=np.int64), *rows])
        row, place = np.full(n, -1), np.zeros(n, dtype=np.int64)
        start = np.cumsum(length) - length
        row[node] = np.repeat(np.arange(len(rows)), length)
        place[node] = np.arange(len(node)) - np.repeat(start, length)
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        return cls(first, start, length, node, row, place, _TOP >> place.astype(np.uint64))

    def settling(self, words: Words) -> IntArray:
        """Exchange that settles a set: what each node becomes, (n,)."""
        column = np.zeros(len(self.first), dtype=np.uint64)
        for first in np.unique(self.first):
            columns_of(words, first, self, column)
        order = np.lexsort((~column, self.first))
        result = np.arange(len(self.row))
        result[self.node[self.start[order][self.row[self.node]] + self.place[self.node]]] = self.node
        return result


@compiled(inline="always")
def has(words: Words, v: int) -> bool:
    """Whether the set holds node v."""
    return (words[v >> 6] >> np.uint64(v & 63)) & _ONE == _ONE


@compiled
def columns_of(words: Words, first: int, branches: Branches, column: Words) -> None:
    """Write the columns of a set in the family of a first branch, among those of all branches, (r,)."""
    r = first
    while r < len(branches.first) and branches.first[r] == first:
        column[r] = 0
        for v in branches.node[branches.start[r] : branches.start[r] + branches.length[r]]:
            if has(words, v):
                column[r] |= branches.bit[v]
        r += 1


@compiled(inline="always")
def follows_its_twin(v: int, below: Words, column: Words, branches: Branches) -> bool:
    """Whether the branch before that of v has the same columns in two sets, so that its node comes first."""
    r = branches.row[v]
    return r > 0 and branches.first[r] < r and below[r - 1] == below[r] and column[r - 1] == column[r]


@compiled(inline="always")
def settle(v: int, row: int, column: Words, branch: IntArray, branches: Branches) -> int:
    """Add node v, of the branch at a place of the settled order, and move the branch to where it belongs; its place.

    `column` is that of each branch; `branch` the one at each place.
    """
    moved, to = branch[row], row
    column[moved] |= branches.bit[v]
    while to > branches.first[row] and column[branch[to - 1]] < column[moved]:
        branch[to] = branch[to - 1]
        to -= 1
    branch[to] = moved
    return to
