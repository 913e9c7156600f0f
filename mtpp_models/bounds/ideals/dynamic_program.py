r"""Dynamic program over ideals, with the tensors that are live while a node runs that does not touch them.

**Tensors that pass a node while it runs, a part of the peak of its block; compiled by numba.**

Let S be a convex set of nodes and w one of them. In whatever order S runs, what is before w in the graph runs before w,
and what is behind w runs behind it. So a tensor that w does not touch is live while w runs if a node of S behind w
reads it, and a node of S before w produces it, or reads it where it comes from outside. Let P(w, S) be these tensors:

.. math:: \mathrm{peak}(S) \ge \max_{w \in S} \Big( \mathrm{need}(w) + \sum_{t \in P(w, S)} \mathrm{bytes}(t) \Big).

No P(w, S) becomes smaller as S grows, so that S can be built node by node. In training, the end of the forward pass is
passed by all that the layers of its block hand to their gradients.

S consists of nodes of the original graph; the program adds nodes of a contracted one, groups of these. Bytes are
rounded down to multiples of a power of two, so that sums are exact, and removing a group undoes exactly its addition.

**The dynamic program over ideals, compiled by numba.**

It tells whether a partition costs less than a goal: for each ideal, the fewest blocks below the goal that hold it. The
peak of a block is the most that is live at one of its nodes in every order (`passing_tensors`). What is behind an
ideal I takes at least its work and the time to receive what is cut, so where the blocks left have no room for that, I
is of no use. Nor is it if another ideal is as good: let v be a node that may follow I, and

.. math:: p_v \ge \mathrm{cut}(I + v) - \mathrm{cut}(I).

A block that holds v and no predecessor of v costs no more without v: it loses the work of v and what only v receives,
receives at most the outputs of v, and no more is live at the nodes that are left. So where as few blocks hold I + v as
hold I, what follows I follows I + v too.

Ideals that exchanges of equal branches turn into each other need equally many blocks, as an exchange turns a chain of
blocks into one of the same costs. So only one of them, I, is extended. Of the ideals J around it that exchanges turn
into each other while I stays, one is enough, as :math:`f(J \setminus I)` is the same. That is one for each *pair* of
ideals up to exchange: the same two, matched in another way, may cost more. The lemma in `lattice.py` says that none is
missed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import Instance
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.peaks import KernelArrays
from mtpp_models.bounds.ideals.lattice import Branches, Lattice, Words, columns_of, follows_its_twin, has, settle

# Of graphs with more nodes so many are watched, which takes a bit for each of them and each tensor or reader.
_MOST_WATCHED = 4096
# Sums of bytes may be off by this part.
_ROUNDING = 1e-12
# Bits of the sum of all bytes, and the exponent of the least float.
_BITS, _LEAST = 52, -1074


class Passing(NamedTuple):
    """Tensors that may be live while a node runs that does not touch them: m tensors, q nodes ("watched").

    There are e pairs of such a tensor and a group of nodes that reads it. Sets of watched nodes are rows of w = ceil(q
    / 64) words of 64 bits.
    """

    need: FloatArray  # (q,) bytes that each watched node reads and writes
    bytes: FloatArray  # (m,)
    behind: Words  # (m, w) watched nodes behind the producer
    made_start: IntArray  # (n + 1,) index of the first tensor that each group produces; tensors are sorted by group
    read_start: IntArray  # (n + 1,) index of the first pair of each group; a group may read its own tensors
    read: IntArray  # (e,) tensor of each pair
    before_readers: Words  # (e, w) watched nodes before a reader in the group that do not touch the tensor
    behind_readers: Words  # (e, w) watched nodes behind a reader in the group


class Block(NamedTuple):
    """The tensors live at each watched node of a block, updated as the block grows by groups."""

    behind: Words  # (m, w) watched nodes behind the producer or a reader of each tensor in the block
    passed: Words  # (m, w) watched nodes that the tensor passes
    bytes: FloatArray  # (q,) sum of the tensors that pass each watched node
    behind_before: Words  # (e, w) `behind` before the group joined
    brought: Words  # (e, w) nodes that the group added to `passed`


def passing_tensors(instance: Instance, group: IntArray) -> Passing:
    """The tensors that can be live while a node runs that does not touch them.

    None are listed where peaks do not depend on the order of nodes, or where all tensors fit into memory at once.

    Parameters
    ----------
    instance : Instance
    group : (n,) int
        The contracted node to which each node belongs.
    """
    graph, groups = instance.graph, int(group.max()) + 1
    if not instance.needs_peaks or instance.by_need or instance.need is not None:
        return no_passing(groups)
    if graph.held_total + graph.tensors.bytes.sum() <= (1 - _ROUNDING) * instance.platform.memory:
        return no_passing(groups)
    # Of one type, whoever has made the order read-only.
    arrays, order = KernelArrays.of(instance), graph.topological_order.copy()
    watched = order[:: -(-graph.n // _MOST_WATCHED)].copy()
    before, behind, touch = _watch(arrays, order, watched)
    passes = _can_pass(arrays, before, behind, touch)
    tensors = np.flatnonzero(passes)
    tensors = tensors[np.argsort(group[arrays.producer[tensors]], kind="stable")]
    rank = np.zeros(len(passes), dtype=np.int64)
    rank[tensors] = np.arange(len(tensors))
    edges = np.flatnonzero(passes[arrays.input_tensor])
    reader, read = np.repeat(np.arange(graph.n), np.diff(arrays.input_start))[edges], rank[arrays.input_tensor[edges]]
    by_group = np.lexsort((read, group[reader]))
    reader, read, home = reader[by_group], read[by_group], group[reader[by_group]]
    is_first = np.ones(len(read), dtype=np.bool_)
    is_first[1:] = (np.diff(read) != 0) | (np.diff(home) != 0)
    first = np.flatnonzero(is_first)
    size = arrays.tensor_bytes[tensors]
    unit = math.ldexp(1.0, max(math.frexp(float(size.sum()))[1] - _BITS, _LEAST))
    return Passing(
        need=instance.needs[watched],
        bytes=np.floor(size / unit) * unit,
        behind=behind[arrays.producer[tensors]],
        made_start=np.searchsorted(group[arrays.producer[tensors]], np.arange(groups + 1)),
        read_start=np.searchsorted(home[first], np.arange(groups + 1)),
        read=read[first],
        before_readers=_unions(before[reader], first) & ~touch[tensors[read[first]]],
        behind_readers=_unions(behind[reader], first),
    )


def no_passing(groups: int) -> Passing:
    """An empty list of passing tensors for this number of groups: peaks are then the needs of single nodes."""
    nothing, sets, start = np.zeros(0), np.zeros((0, 0), dtype=np.uint64), np.zeros(groups + 1, dtype=np.int64)
    return Passing(nothing, nothing, sets, start, start, np.zeros(0, dtype=np.int64), sets, sets)


def _unions(sets: Words, first: IntArray) -> Words:
    """Unions of consecutive rows of `sets`: for each index in `first`, the rows from there up to the next index."""
    return np.bitwise_or.reduceat(sets, first) if len(first) > 0 else sets


@compiled
def _watch(arrays: KernelArrays, order: IntArray, watched: IntArray) -> tuple[Words, Words, Words]:
    """Sets of watched nodes: before each node and behind it, (n, w) each; that make or read each tensor, (t, w)."""
    n, words = len(arrays.work), (len(watched) + 63) // 64
    bits = np.zeros((n, words), np.uint64)
    for i in range(len(watched)):
        bits[watched[i], i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    before, behind = np.zeros((n, words), np.uint64), np.zeros((n, words), np.uint64)
    touch = bits[arrays.producer]
    for v in order:
        for e in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
            before[arrays.successor[e]] |= before[v] | bits[v]
        for f in range(arrays.input_start[v], arrays.input_start[v + 1]):
            touch[arrays.input_tensor[f]] |= bits[v]
    for v in order[::-1]:
        for e in range(arrays.successor_start[v], arrays.successor_start[v + 1]):
            behind[v] |= behind[arrays.successor[e]] | bits[arrays.successor[e]]
    return before, behind, touch


@compiled
def _can_pass(arrays: KernelArrays, before: Words, behind: Words, touch: Words) -> NDArray[np.bool_]:
    """(t,) whether each tensor has bytes, and some watched node between its producer and a reader."""
    result = np.zeros(len(arrays.producer), np.bool_)
    for v in range(len(arrays.work)):
        for f in range(arrays.input_start[v], arrays.input_start[v + 1]):
            t = arrays.input_tensor[f]
            if arrays.tensor_bytes[t] > 0 and (behind[arrays.producer[t]] & before[v] & ~touch[t]).any():
                result[t] = True
    return result


@compiled
def empty_block(passing: Passing) -> Block:
    """The data of a block without nodes."""
    (tensors, words), reads = passing.behind.shape, len(passing.read)
    return Block(
        np.zeros((tensors, words), np.uint64),
        np.zeros((tensors, words), np.uint64),
        np.zeros(len(passing.need)),
        np.zeros((reads, words), np.uint64),
        np.zeros((reads, words), np.uint64),
    )


@compiled(inline="always", allocates=False)
def join_block(v: int, passing: Passing, block: Block) -> float:
    """Add group v to the block; return the most bytes live at any node where new tensors pass, 0 if there is none.

    All predecessors of v must be in the block or before it.
    """
    largest = 0.0
    for t in range(passing.made_start[v], passing.made_start[v + 1]):
        for w in range(passing.behind.shape[1]):
            block.behind[t, w] = passing.behind[t, w]
    for f in range(passing.read_start[v], passing.read_start[v + 1]):
        t = passing.read[f]
        for w in range(passing.behind.shape[1]):
            before, passed = block.behind[t, w], block.passed[t, w]
            behind = before | passing.behind_readers[f, w]
            brought = behind & passing.before_readers[f, w] & ~passed
            block.behind_before[f, w], block.brought[f, w] = before, brought
            block.behind[t, w], block.passed[t, w] = behind, passed | brought
            while brought:
                i = (w << 6) + _lowest(brought)
                block.bytes[i] += passing.bytes[t]
                largest = max(largest, block.bytes[i] + passing.need[i])
                brought &= brought - np.uint64(1)
    return largest


@compiled(inline="always", allocates=False)
def leave_block(v: int, passing: Passing, block: Block) -> None:
    """Remove group v, which was the last to join."""
    for f in range(passing.read_start[v], passing.read_start[v + 1]):
        t = passing.read[f]
        for w in range(passing.behind.shape[1]):
            brought = block.brought[f, w]
            block.behind[t, w] = block.behind_before[f, w]
            block.passed[t, w] &= ~brought
            while brought:
                block.bytes[(w << 6) + _lowest(brought)] -= passing.bytes[t]
                brought &= brought - np.uint64(1)
    for t in range(passing.made_start[v], passing.made_start[v + 1]):
        for w in range(passing.behind.shape[1]):
            block.behind[t, w] = 0


@compiled(allocates=False)
def least_peak(nodes: IntArray, need: FloatArray, passing: Passing, block: Block) -> float:
    """Most bytes that are live at some node of a set, whatever the order of its nodes.

    `nodes` are the set's groups, ascending; `block` is an empty one, which is used and left empty.
    """
    largest = 0.0
    for v in nodes:
        largest = max(largest, need[v], join_block(v, passing, block))
    for v in nodes[::-1]:
        leave_block(v, passing, block)
    return largest


@compiled(inline="always", allocates=False)
def _lowest(word: np.uint64) -> int:
    """Index, from 0, of the lowest bit of a word that is 1."""
    return math.frexp(float(word & (~word + np.uint64(1))))[1] - 1


class Chains(NamedTuple):
    """For each of the c ideals, a sequence of the fewest blocks below the goal whose union it is."""

    blocks: IntArray  # number of blocks; more than k where there is no chain
    bottleneck: FloatArray
    before: IntArray  # index of the ideal without the last block
    reached: Words  # (c, w), or (0, w) without exchanges: the ideal with branches exchanged so as to hold `before`


def no_chains(lattice: Lattice, k: int, up_to_exchange: bool) -> Chains:
    """The state before the first step: a chain of no blocks for the empty ideal, and none for the others."""
    count = len(lattice.ideals)
    reached = np.zeros((count if up_to_exchange else 0, lattice.ideals.shape[1]), np.uint64)
    if up_to_exchange:
        reached[count - 1] = lattice.ideals[count - 1]
    blocks, bottleneck = np.full(count, k + 1), np.full(count, math.inf)
    blocks[0], bottleneck[0] = 0, 0.0
    return Chains(blocks, bottleneck, np.full(count, -1), reached)


class Scratch(NamedTuple):
    """Scratch arrays of `extend_chains`: sums of a block along the path from the ideal that it extends, by depth."""

    at: IntArray  # (n + 1,) ideals on the path
    cover: IntArray  # next cover of each
    added: IntArray  # node added
    received: FloatArray  # time to receive what the block reads
    passing_on: FloatArray  # time of what goes on behind the block from those before
    resident_bytes: FloatArray
    tallest: FloatArray  # least peak
    # The ideal looked at is an image of the listed one: between which places of equal branches that of the node moved.
    left_place: IntArray
    new_place: IntArray
    below: Words  # (r,) columns of branches in the ideal that is extended
    column: Words  # and now
    branch: IntArray  # the branch that stands at each place of the listed ideal
    inside: IntArray  # (t,) readers of each tensor in the block
    using: IntArray  # users of each shared parameter in the block
    outside: IntArray  # (t,) readers of each tensor outside the ideal that is extended
    comes: IntArray  # (t,) whether its producer is in that ideal
    nodes: IntArray  # (n,) those outside it


def scratch_of(arrays: KernelArrays, branches: Branches) -> Scratch:
    """Arrays for graphs of this size, with as many equal branches."""
    n, tensors, rows = len(arrays.work), len(arrays.tensor_time), len(branches.first)
    return Scratch(
        at=np.empty(n + 1, np.int64),
        cover=np.empty(n + 1, np.int64),
        added=np.empty(n + 1, np.int64),
        received=np.empty(n + 1),
        passing_on=np.empty(n + 1),
        resident_bytes=np.empty(n + 1),
        tallest=np.empty(n + 1),
        left_place=np.empty(n + 1, np.int64),
        new_place=np.empty(n + 1, np.int64),
        below=np.zeros(rows, np.uint64),
        column=np.zeros(rows, np.uint64),
        branch=np.arange(rows),
        inside=np.zeros(tensors, np.int64),
        using=np.zeros(len(arrays.shared_bytes), np.int64),
        outside=np.zeros(tensors, np.int64),
        comes=np.zeros(tensors, np.int64),
        nodes=np.empty(n, np.int64),
    )


@compiled(allocates=False)
def extend_chains(
    arrays: KernelArrays,
    branches: Branches,
    need: FloatArray,
    passing: Passing,
    fit: bool,
    lattice: Lattice,
    k: int,
    goal: float,
    enough: float,
    first: int,
    steps: int,
    chains: Chains,
    block: Block,
    scratch: Scratch,
) -> int:
    """Extend the chains of the ideals from `first` on by a block below the goal, until `steps` covers were tried.

    Chains with bottlenecks up to `enough` count as equally good; a smaller `enough` gives better chains and takes
    longer. `block` is an empty one, which is used and left empty. Returns the index of the ideal to continue with; at
    the last one, which holds all nodes, nothing is left.
    """
    ideals, work, cut, rest, start, node, above = lattice
    blocks, bottleneck, before, reached = chains
    at, cover, added, received, passing_on, resident_bytes, tallest, left_place, new_place = scratch[:9]
    below, column, branch, inside, using, outside, comes, nodes = scratch[9:]
    last = len(ideals) - 1
    total, rows = work[last], len(branches.first)
    looked = 0
    for i in range(first, last):
        if looked > steps:
            return i
        b, remaining = blocks[i], total - work[i]
        if remaining + cut[i] >= (k - b) * goal:
            continue
        # The last block reads what is cut behind i and sends nothing.
        if max(bottleneck[i], remaining + cut[i]) < min(goal, bottleneck[last]):
            count = _nodes_behind(ideals[i], nodes)
            looked += count
            tall = least_peak(nodes[:count], need, passing, block)
            closing = max(bottleneck[i], remaining + cut[i] + _overflow(rest[i] + tall, arrays, fit))
            if closing < min(goal, bottleneck[last]):
                blocks[last], bottleneck[last], before[last] = b + 1, closing, i
        # What the blocks behind the next one have room for, and so what the next one has to do.
        room = (k - b - 1) * goal
        _readers_behind(i, arrays, lattice, outside, comes)
        if room == 0.0 or _is_absorbed(i, max(bottleneck[i], enough), outside, arrays, lattice, chains):
            continue
        for r in range(rows):
            if branches.first[r] == r:
                columns_of(ideals[i], r, branches, below)
        for r in range(rows):
            column[r] = below[r]
        at[0], cover[0], added[0] = i, start[i + 1], -1
        received[0], passing_on[0], resident_bytes[0], tallest[0] = 0.0, cut[i], 0.0, 0.0
        depth = 0
        while depth >= 0:
            cover[depth] -= 1
            e, v = cover[depth], added[depth]
            # Nodes join in their order, so that each ideal is reached once.
            if e < start[at[depth]] or (rows == 0 and node[e] < v):
                if depth > 0:
                    _count(v, -1, inside, using, arrays)
                    leave_block(v, passing, block)
                    if rows > 0 and branches.row[v] >= 0:
                        _unsettle(v, left_place[depth], new_place[depth], column, branch, branches)
                depth -= 1
                continue
            u, j, row = node[e], above[e], -1
            if rows > 0:
                row = branches.row[u]
                if row >= 0:
                    u = branches.node[branches.start[branch[row]] + branches.place[u]]
                if u < v or follows_its_twin(u, below, column, branches):
                    continue
            v = u
            looked += 1
            if j == last:
                continue
            receives, sends_on, hold = received[depth], passing_on[depth], resident_bytes[depth] + arrays.held_bytes[v]
            for f in range(arrays.input_start[v], arrays.input_start[v + 1]):
                t = arrays.input_tensor[f]
                if comes[t]:
                    if inside[t] == 0:
                        receives += arrays.tensor_time[t]
                    if inside[t] + 1 == outside[t]:
                        sends_on -= arrays.tensor_time[t]
            for f in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
                if using[arrays.shared[f]] == 0:
                    hold += arrays.shared_bytes[arrays.shared[f]]
            busy, tall = max(work[j] - work[i], remaining - room), max(tallest[depth], need[v])
            if busy + receives + _overflow(hold + tall, arrays, fit) >= goal:
                continue
            tall = max(tall, join_block(v, passing, block))
            more = receives + _overflow(hold + tall, arrays, fit)
            if busy + more >= goal:
                leave_block(v, passing, block)
                continue
            depth += 1
            at[depth], cover[depth], added[depth] = j, start[j + 1], v
            received[depth], passing_on[depth], resident_bytes[depth], tallest[depth] = receives, sends_on, hold, tall
            _count(v, 1, inside, using, arrays)
            if row >= 0:
                left_place[depth], new_place[depth] = row, settle(v, row, column, branch, branches)
            if total - work[j] + cut[j] >= room:
                continue
            cost = work[j] - work[i] + more + max(0.0, cut[j] - sends_on)
            highest = max(bottleneck[i], cost)
            if cost < goal and (b + 1 < blocks[j] or (b + 1 == blocks[j] and highest < bottleneck[j])):
                blocks[j], bottleneck[j], before[j] = b + 1, highest, i
                if rows > 0:
                    for w in range(ideals.shape[1]):
                        reached[j, w] = ideals[i, w]
                    for d in range(1, depth + 1):
                        reached[j, added[d] >> 6] |= np.uint64(1) << np.uint64(added[d] & 63)
    return last


@compiled(allocates=False)
def _nodes_behind(ideal: Words, nodes: IntArray) -> int:
    """Number of nodes outside an ideal, which become the first of `nodes`, (n,)."""
    count = 0
    for v in range(len(nodes)):
        if not has(ideal, v):
            nodes[count] = v
            count += 1
    return count


@compiled(inline="always", allocates=False)
def _unsettle(v: int, row: int, to: int, column: Words, branch: IntArray, branches: Branches) -> None:
    """Undo `settle`, which moved the branch of node `v` from index `row` to index `to`."""
    moved = branch[to]
    column[moved] ^= branches.bit[v]
    for r in range(to, row):
        branch[r] = branch[r + 1]
    branch[row] = moved


@compiled(allocates=False)
def _readers_behind(i: int, arrays: KernelArrays, lattice: Lattice, outside: IntArray, comes: IntArray) -> None:
    """Of each tensor, (t,): its number of readers outside ideal i, and 1 if its producer is in the ideal, else 0."""
    outside[:], comes[:] = 0, 0
    for v in range(len(arrays.work)):
        if has(lattice.ideals[i], v):
            for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
                comes[t] = 1
        else:
            for f in range(arrays.input_start[v], arrays.input_start[v + 1]):
                outside[arrays.input_tensor[f]] += 1


@compiled(allocates=False)
def _is_absorbed(
    i: int, highest: float, outside: IntArray, arrays: KernelArrays, lattice: Lattice, chains: Chains
) -> bool:
    """Whether a larger ideal makes ideal i superfluous.

    The larger one has one more node v, is made up of no more blocks of at most `highest`, and the next block costs no
    more without v: work of v and tensors that only v still receives are no less than the tensors that v sends.
    """
    for e in range(lattice.start[i], lattice.start[i + 1]):
        v = lattice.node[e]
        if chains.blocks[lattice.above[e]] > chains.blocks[i] or chains.bottleneck[lattice.above[e]] > highest:
            continue
        saved = arrays.work[v]
        for f in range(arrays.input_start[v], arrays.input_start[v + 1]):
            if outside[arrays.input_tensor[f]] == 1:
                saved += arrays.tensor_time[arrays.input_tensor[f]]
        for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
            if arrays.readers[t] > 0:
                saved -= arrays.tensor_time[t]
        if saved >= 0:
            return True
    return False


@compiled(inline="always", allocates=False)
def _count(v: int, change: int, inside: IntArray, using: IntArray, arrays: KernelArrays) -> None:
    """Add `change` (1 or -1) for `v` to the readers of its tensors and the users of its parameters in the block."""
    for f in range(arrays.input_start[v], arrays.input_start[v + 1]):
        inside[arrays.input_tensor[f]] += change
    for f in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
        using[arrays.shared[f]] += change


@compiled(inline="always", allocates=False)
def _overflow(resident_bytes: float, arrays: KernelArrays, fit: bool) -> float:
    """Time to stream the bytes beyond the memory; if it is a hard limit (`fit`), infinite if any, beyond rounding."""
    over = max(0.0, resident_bytes + arrays.activation_buffer - arrays.memory)
    if fit:
        return math.inf if over > _ROUNDING * resident_bytes else 0.0
    return over / arrays.bandwidth
