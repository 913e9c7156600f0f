"""Ideals of a graph: antichains, their lattice, and lists of them.

**Width of a graph: a quick sign that it has too many ideals to list.**

Each set of nodes of which none reaches another has the predecessors of its members in an ideal of its own: w such nodes
make :math:`2^w` ideals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from instances import ComputationGraph
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.graph.views import depths
from instances.partitioning.peaks import KernelArrays
from mtpp_models.cuts.max_flow import reachability

# Of larger graphs, and where paths connect more pairs of nodes than these, in number and as a part of all pairs, the
# matching would take longer than a listing that comes to its limit.
_MOST_MATCHED, _MANY_PAIRS, _MOST_PAIRS = 400, 2_000, 0.7


def antichain(graph: ComputationGraph) -> int:
    """Size of an antichain: a set of nodes of which none reaches another.

    It is the largest there is, by Dilworth's theorem as large as the least number of chains that cover the nodes. In
    graphs of more than 400 nodes, and in those where most pairs of nodes are connected by a path, it is the largest of
    nodes with equal depths, the longest paths from the sources.

    Examples
    --------
    >>> antichain(ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3)], work=[1, 1, 1, 1], output_bytes=[1, 1, 1, 1]))
    2
    """
    if graph.n <= _MOST_MATCHED:
        reach = reachability(*graph.successors, graph.topological_order)
        np.fill_diagonal(reach, False)
        if reach.sum() <= max(_MANY_PAIRS, _MOST_PAIRS * graph.n * (graph.n - 1) / 2):
            pairs = scipy.sparse.csr_array(reach)
            return int((scipy.sparse.csgraph.maximum_bipartite_matching(pairs, perm_type="column") < 0).sum())
    return int(np.bincount(depths(graph.topological_order, *graph.predecessors)).max())


# Equal branches that change places, as arrays for the kernels, compiled by numba.
#
# The nodes of a set in a branch are its *column*, a number of 64 bits whose first bit is the node of the least number.
# A set is *settled* (in normal form) if the columns of each family fall from branch to branch: exchanges of branches
# turn any set into a settled one, and two sets that they turn into each other into the same one. The same nodes of
# equal branches have consecutive numbers, in the order of the branches, so that sets can be settled node by node, too:
#
# **Lemma.** Let G be the exchanges of equal branches that keep a settled ideal I. They move branches with the same
# column in I, which are consecutive, a *run*. Let ideals grow from I by nodes in the order of their numbers, where a
# node is left out if the branch before is of the same run and has the same column now. Then of the ideals around I that
# G turns into each other exactly one is reached: the one whose columns fall along each run.
#
# *Proof.* Let J be an ideal around I whose columns fall, and node q of branch r, v, the last one that J has beyond I.
# Without v it is an ideal, as numbers are a topological order. Its columns fall: branch r + 1 of the run lacks node q,
# which has a greater number than v, and behind q both branches have what they have in I, which is the same. So without
# v branch r is greater where it was greater before q, and else equal. There v is not left out: were the columns of
# r - 1 and r equal without it, that of r would be the greater one in J. So J is reached. The other way round, let the
# columns fall, and let v join, of a greater number than all beyond I. Where branch r - 1 is greater than r, it is by a
# node that is not behind q, and so it stays greater or becomes equal. So only ideals with falling columns are reached,
# each once, by the one order of its nodes; and G does not turn one of them into another.


Words = NDArray[np.uint64]

_ONE = np.uint64(1)
_TOP = np.uint64(1 << 63)


class Branches(NamedTuple):
    """The r branches of all families (sets of equal branches), one family after the other.

    Node numbers are a topological order.
    """

    first: IntArray  # (r,) the first branch of the family
    start: IntArray  # (r,) index in `node` of the first node of the branch
    length: IntArray  # (r,) number of its nodes
    node: IntArray  # nodes of all branches, ascending in each
    row: IntArray  # (n,) branch of each node, or -1
    place: IntArray  # (n,) index of each node within its branch
    bit: Words  # (n,) its bit in the column of the branch, if it has one

    @classmethod
    def of(cls, families: tuple[IntArray, ...], n: int) -> Branches:
        """The branches of families, each a matrix of node numbers: rows are branches, columns consecutive numbers."""
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
        """(n,) node that replaces each node when the branches of a set are exchanged into normal form."""
        column = np.zeros(len(self.first), dtype=np.uint64)
        for first in np.unique(self.first):
            columns_of(words, first, self, column)
        order = np.lexsort((~column, self.first))
        result = np.arange(len(self.row))
        result[self.node[self.start[order][self.row[self.node]] + self.place[self.node]]] = self.node
        return result


@compiled(inline="always", allocates=False)
def has(words: Words, v: int) -> bool:
    """Whether the set holds node v."""
    return (words[v >> 6] >> np.uint64(v & 63)) & _ONE == _ONE


@compiled(allocates=False)
def columns_of(words: Words, first: int, branches: Branches, column: Words) -> None:
    """Write the nodes of the set in each branch of one family into `column`, (r,), as bits."""
    r = first
    while r < len(branches.first) and branches.first[r] == first:
        column[r] = 0
        for v in branches.node[branches.start[r] : branches.start[r] + branches.length[r]]:
            if has(words, v):
                column[r] |= branches.bit[v]
        r += 1


@compiled(inline="always", allocates=False)
def follows_its_twin(v: int, below: Words, column: Words, branches: Branches) -> bool:
    """Whether v's branch has the same bits as the branch before it in both sets, so that adding v is redundant."""
    r = branches.row[v]
    return r > 0 and branches.first[r] < r and below[r - 1] == below[r] and column[r - 1] == column[r]


@compiled(inline="always", allocates=False)
def settle(v: int, row: int, column: Words, branch: IntArray, branches: Branches) -> int:
    """Add node v to its branch, re-sort the family by falling columns, and return the branch's new index in that order.

    `row` is its index before; `column` holds, for each branch, the set of its nodes that are in the ideal, as bits;
    `branch` the branch at each index. Both are updated.
    """
    moved, to = branch[row], row
    column[moved] |= branches.bit[v]
    while to > branches.first[row] and column[branch[to - 1]] < column[moved]:
        branch[to] = branch[to - 1]
        to -= 1
    branch[to] = moved
    return to


# The ideals of a graph, compiled by numba.
#
# An ideal is a node set that holds all predecessors of its nodes. Sets are rows of 64-bit words. Of ideals that
# exchanges of equal branches turn into each other only one is listed, the *settled* one (see above).


Indices = NDArray[np.int32]


class Lattice(NamedTuple):
    """The c ideals of a graph, sorted by size (the last holds all nodes), with their covers in compressed rows.

    A cover is an ideal with one more node. Where equal branches can be exchanged, `above` refers to its normal form
    (`settle`).
    """

    ideals: Words  # (c, w)
    work: FloatArray  # of each ideal
    cut: FloatArray  # time to send the tensors that are produced in it and read outside
    rest: FloatArray  # parameter bytes of the nodes outside
    start: IntArray  # index in `node` of the first cover of each ideal
    node: Indices  # the node that a cover adds; ascending
    above: Indices  # index of the larger ideal


class Growing(NamedTuple):
    """State of an unfinished listing of ideals."""

    lattice: Lattice  # the ideals so far, with room for more
    hashes: Words  # of the ideals
    slots: Indices  # hash table: indices of ideals
    listed: int  # number of ideals so far
    done: int  # index of the first ideal whose covers are not all listed yet; equal to `listed` if there is none


@compiled(inline="always", allocates=False)
def _contains(words: Words, other: Words) -> bool:
    """Whether the set holds all of `other`."""
    for i in range(len(words)):  # noqa: SIM110 - numba has no all() and any() of generators
        if other[i] & ~words[i]:
            return False
    return True


@compiled
def no_ideals(arrays: KernelArrays, words: int) -> Growing:
    """The state of a listing that holds the empty ideal alone; sets have `words` words of 64 bits."""
    n, capacity = len(arrays.work), 1024
    slots = np.full(4 * capacity, -1, dtype=np.int32)
    start = np.zeros(capacity + 1, dtype=np.int64)
    node, above = np.empty(4 * capacity + n, dtype=np.int32), np.empty(4 * capacity + n, dtype=np.int32)
    for v in range(n):
        if arrays.indegree[v] == 0:
            node[start[1]] = v
            start[1] += 1
    slots[0] = 0
    rest = np.zeros(capacity)
    rest[0] = arrays.held_bytes.sum() + arrays.shared_bytes.sum()
    ideals = np.zeros((capacity, words), dtype=np.uint64)
    lattice = Lattice(ideals, np.zeros(capacity), np.zeros(capacity), rest, start, node, above)
    return Growing(lattice, np.zeros(capacity, dtype=np.uint64), slots, 1, 0)


@compiled
def enumerate_ideals(
    arrays: KernelArrays,
    branches: Branches,
    before: Words,
    readers: Words,
    users: Words,
    salt: Words,
    limit: int,
    growing: Growing,
) -> Growing:
    """Continue to list ideals by size, with their covers, to the end or up to a limit; return the new state.

    Parameters
    ----------
    arrays : KernelArrays
        Nodes are numbered in a topological order.
    branches : Branches
        Equal branches, by these numbers.
    before : (n, w) words
        Predecessors of each node.
    readers : (t, w) words
        Consumers of each tensor.
    users : (g, w) words
        Users of each shared parameter.
    salt : (n,) words
        Random words for hashing.
    limit : int
        Largest number of ideals.
    growing : Growing
        The state so far, whose arrays are reused.
    """
    n, w = before.shape
    (ideals, work, cut, rest, start, node, above), hashes, slots, count, i = growing
    capacity = len(ideals)
    larger, settled = np.empty(w, dtype=np.uint64), np.empty(w, dtype=np.uint64)
    rows = len(branches.first)
    column, branch = np.zeros(rows, dtype=np.uint64), np.arange(rows)
    while i < count:
        family = -1
        for e in range(start[i], start[i + 1]):
            v = int(node[e])
            if rows > 0 and branches.row[v] >= 0 and branches.first[branches.row[v]] != family:
                family = branches.first[branches.row[v]]
                columns_of(ideals[i], family, branches, column)
            if rows > 0 and follows_its_twin(v, column, column, branches):
                above[e] = above[e - 1]  # of the same node of the branch before
                continue
            larger[:] = ideals[i]
            larger[v >> 6] |= _ONE << np.uint64(v & 63)
            settled[:] = larger
            key = hashes[i] ^ salt[v]
            row = branches.row[v] if rows > 0 else -1
            to = row
            if row >= 0:
                to = settle(v, row, column, branch, branches)
                key = _exchange(row, to, settled, key, salt, branches)
                for r in range(to, row + 1):
                    branch[r] = r
                column[row] ^= branches.bit[v]
            slot = _slot(slots, ideals, key, settled)
            j = slots[slot]
            if j < 0:
                if count == limit:
                    lattice = Lattice(ideals, work, cut, rest, start, node, above)
                    return Growing(lattice, hashes, slots, count, i)
                if count == capacity:
                    capacity *= 2
                    ideals = _grown(ideals, capacity)
                    hashes, start = _longer(hashes, capacity), _longer(start, capacity + 1)
                    work, cut, rest = _longer(work, capacity), _longer(cut, capacity), _longer(rest, capacity)
                    slots = np.full(4 * capacity, -1, dtype=np.int32)
                    for other in range(count):
                        slots[_slot(slots, ideals, hashes[other], ideals[other])] = other
                    slot = _slot(slots, ideals, key, settled)
                if start[count] + n > len(node):
                    node, above = _longer(node, 2 * len(node)), _longer(above, 2 * len(node))
                j = slots[slot] = count
                count += 1
                ideals[j] = settled
                hashes[j] = key
                work[j] = work[i] + arrays.work[v]
                cut[j] = cut[i] + _cut_change(v, larger, arrays, readers)
                rest[j] = rest[i] - arrays.held_bytes[v]
                for f in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
                    if _contains(larger, users[arrays.shared[f]]):
                        rest[j] -= arrays.shared_bytes[arrays.shared[f]]
                start[j + 1] = _write_covers(i, v, start, node, start[j], larger, before, arrays)
                if to < row:
                    _rename(node[start[j] : start[j + 1]], row, to, branches)
            above[e] = j
        i += 1
    return Growing(Lattice(ideals[:count], work, cut, rest, start, node, above), hashes, slots, count, i)


@compiled(allocates=False)
def _exchange(row: int, to: int, words: Words, key: np.uint64, salt: Words, branches: Branches) -> np.uint64:
    """Move a branch of the set from index `row` back to index `to`, and shift those between; return the new hash."""
    for r in range(row, to, -1):
        for q in range(branches.length[r]):
            u, v = branches.node[branches.start[r] + q], branches.node[branches.start[r - 1] + q]
            if has(words, u) != has(words, v):
                words[u >> 6] ^= _ONE << np.uint64(u & 63)
                words[v >> 6] ^= _ONE << np.uint64(v & 63)
                key ^= salt[u] ^ salt[v]
    return key


@compiled
def _rename(nodes: Indices, row: int, to: int, branches: Branches) -> None:
    """Renumber nodes, in place, by the exchange of branches of `_exchange`, and sort them."""
    for e in range(len(nodes)):
        r = branches.row[nodes[e]]
        if to <= r <= row:
            moved = to if r == row else r + 1
            nodes[e] = branches.node[branches.start[moved] + branches.place[nodes[e]]]
    nodes.sort()


@compiled(allocates=False)
def _write_covers(
    i: int, v: int, start: IntArray, node: Indices, end: int, larger: Words, before: Words, arrays: KernelArrays
) -> int:
    """Write from `end` on, sorted, the nodes that may follow ideal i with node `v` added; return the new end.

    These are the nodes that could follow ideal i but `v`, and readers of `v` whose predecessors are all in `larger`.
    """
    first = end
    for e in range(start[i], start[i + 1]):
        if node[e] != v:
            node[end] = node[e]
            end += 1
    for f in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
        s = arrays.successor[f]
        if not _contains(larger, before[s]):
            continue
        e = end
        while e > first and node[e - 1] > s:
            e -= 1
        # Several tensors may lead from v to s.
        if e == first or node[e - 1] < s:
            for other in range(end, e, -1):
                node[other] = node[other - 1]
            node[e] = s
            end += 1
    return end


@compiled(allocates=False)
def _slot(slots: Indices, ideals: Words, key: np.uint64, words: Words) -> int:
    """Index of the slot of this ideal in the hash table, or of the free slot where it is to be inserted."""
    slot = np.int64(key & np.uint64(len(slots) - 1))
    while slots[slot] >= 0 and not _equal(ideals[slots[slot]], words):
        slot = (slot + 1) & (len(slots) - 1)
    return int(slot)


@compiled(allocates=False)
def _equal(a: Words, b: Words) -> bool:
    for i in range(len(a)):  # noqa: SIM110 - numba has no all() and any() of generators
        if a[i] != b[i]:
            return False
    return True


@compiled
def _grown(rows: Words, capacity: int) -> Words:
    result = np.zeros((capacity, rows.shape[1]), dtype=rows.dtype)
    result[: len(rows)] = rows
    return result


@compiled
def _longer(values: NDArray[Any], capacity: int) -> NDArray[Any]:
    result = np.zeros(capacity, dtype=values.dtype)
    result[: len(values)] = values
    return result


@compiled(allocates=False)
def _cut_change(v: int, larger: Words, arrays: KernelArrays, readers: Words) -> float:
    change = 0.0
    for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
        if arrays.readers[t] > 0:
            change += arrays.tensor_time[t]
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        t = arrays.input_tensor[e]
        if _contains(larger, readers[t]):
            change -= arrays.tensor_time[t]
    return change
