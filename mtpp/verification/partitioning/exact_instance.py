"""Questions in integers, with each group of nodes that share a block merged into one node."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.partitioning.constraints import Constraints
from instances.partitioning.problem import Instance

# Data of the program over ideals: the question in whole parts of a goal, the ideals met so far, where a search is.


#: Sets of nodes, a row each, as words of 64 bits.
NodeSets = NDArray[np.uint64]

_Ints = NDArray[np.int64]
_Words = NDArray[np.uint64]


class LiveTensors(NamedTuple):
    """Tensors that may be live at nodes that do not touch them, and the bytes live at nodes of the current block."""

    size: _Ints  # (t,)
    producer: _Ints  # (t,)
    readers: tuple[_Ints, _Ints]  # nodes that read each tensor
    read: tuple[_Ints, _Ints]  # tensors that each node reads
    touch: NodeSets  # (t, n / 64): producer and readers
    before: NodeSets  # (n, n / 64): nodes on all paths to each node
    behind: NodeSets  # (n, n / 64): nodes on all paths from it
    downstream: (
        NodeSets  # (t, n / 64): nodes behind its producer in the block, or behind a reader there if that is outside
    )
    earlier: NodeSets  # (e, n / 64): `downstream` before each read was added
    passed: NodeSets  # (t, n / 64): nodes of the block at which each is live
    fresh: NodeSets  # (e, n / 64): nodes that each read has added to `passed`
    bytes: _Ints  # (n,): of all that is live at each node of the block


class IdealQuestion(NamedTuple):
    """A question for the search over ideals, in integer parts of a goal.

    Pairs of arrays are compressed rows: where each row starts, (n + 1,), and numbers of tensors, parameters or nodes.
    """

    k: int
    limit: int  # what a block has to stay below
    total: int  # work of all nodes
    work: _Ints  # (n,): work of each node
    need: _Ints  # (n,): least memory besides the parameters
    params: _Ints  # (n,): parameters of one node
    time: _Ints  # (t,): time to move each tensor, sorted by producers
    readers: _Ints  # (t,): number of readers of each tensor
    producer: _Ints  # (t,): node that makes each tensor
    outputs: _Ints  # (n + 1,): starts of the tensors of each node
    read: tuple[_Ints, _Ints]  # tensors that each node reads
    used: tuple[_Ints, _Ints]  # parameters of several nodes that each node uses
    shared: _Ints  # (p,): sizes of these parameters
    behind: tuple[_Ints, _Ints]  # successors of each node
    before: _Ints  # (n,): number of predecessors of each node
    room: int  # memory for parameters and need
    fit: int  # 0 where memory does not matter, 1 where overflow takes time, 2 where it is forbidden
    code: _Words  # (n,): random numbers; the hash of a set is what they come to
    branch: _Ints  # (n,): which of the equal branches holds the node, or -1
    family: _Ints  # (b,): of each branch, whose branches stand one behind the other
    branches: tuple[_Ints, _Ints]  # nodes of each branch, in their order
    live: LiveTensors


class IdealTable(NamedTuple):
    """Ideals in the order in which the search reached them, and a hash table of their numbers."""

    ideals: _Words  # (c, n / 64)
    level: _Ints  # (c,)
    slot: _Ints  # (s,): number of an ideal, -1 where there is none; s is a power of two


class IdealSearch(NamedTuple):
    """State of a search: the path from an ideal to the current larger ideal, and the states of nodes and tensors."""

    at: _Ints  # (4,): the ideal, the depth of the path or -1 before it, ideals in the table, steps so far
    path: NDArray[np.int32]  # (n + 1,): node at each depth
    first: _Ints  # (n + 2,): where the nodes that may come next begin among `ready` at each depth
    following: _Ints  # (n + 1,): which of them comes next
    ready: NDArray[np.int32]  # nodes that may come next, of each depth
    work: _Ints  # (n + 1,): of the block at each depth, as the next ones
    received: _Ints
    sent: _Ints
    params: _Ints
    need: _Ints
    cut: _Ints  # (n + 1,): time of all tensors that are cut behind the ideal at each depth
    inside: NDArray[np.int8]  # (n,): 1 in the ideal, 2 in the block, else 0
    missing: _Ints  # (n,): number of predecessors of each node outside both
    unread: _Ints  # (t,): number of readers of each tensor outside both
    reading: _Ints  # (t,): number of readers of each tensor in the block
    using: _Ints  # (p,): number of users of each shared parameter in the block
    words: _Words  # (n / 64,): the ideal looked at
    image: _Words  # (n / 64,): the same, its branches sorted
    hash: _Words  # (1,)


# The question of a certificate in whole numbers.
#
# Every float is a whole number over a power of two, so that all times have a common unit, all bytes have one, and
# nothing is rounded. Only what the file states is read here: works, bytes, producers and readers.


#: Numbers without rounding.
Rational = int | Fraction


def at_most(values: Iterable[Rational], limit: Rational) -> list[Rational]:
    """Return the values, those above `limit` replaced by it."""
    return [value if value <= limit else limit for value in values]


class Output(NamedTuple):
    """Tensor of a node: its producer, its readers, and its bytes."""

    producer: int
    readers: frozenset[int]
    size: int


class Tensor(NamedTuple):
    """Tensor of a node: its producer, its readers, the time to move it, and its memory."""

    producer: int
    readers: frozenset[int]
    time: int
    size: int


class Scale(NamedTuple):
    """How long a unit of work, and a byte, take on devices of a kind: whole multiples of one unit of time."""

    work: int
    bytes: int  # 0 where moving takes no time
    unit: Fraction  # in the time unit of the work


class _Structure:
    """Edges between nodes, from producers to readers."""

    n: int
    tensors: Sequence[Output | Tensor]

    @cached_property
    def edges(self) -> frozenset[tuple[int, int]]:
        """Pairs of a producer and a reader."""
        return frozenset((tensor.producer, v) for tensor in self.tensors for v in tensor.readers)

    @cached_property
    def after(self) -> list[list[int]]:
        """The readers of each node's tensors."""
        return self._neighbours(0)

    @cached_property
    def before(self) -> list[list[int]]:
        """The producers of what each node reads."""
        return self._neighbours(1)

    def _neighbours(self, end: int) -> list[list[int]]:
        rows: list[list[int]] = [[] for _ in range(self.n)]
        for edge in sorted(self.edges):
            rows[edge[end]].append(edge[1 - end])
        return rows

    @cached_property
    def order(self) -> list[int]:
        """Some topological order."""
        missing = [len(nodes) for nodes in self.before]
        order = [v for v in range(self.n) if not missing[v]]
        for u in order:  # grows
            for v in self.after[u]:
                missing[v] -= 1
                if not missing[v]:
                    order.append(v)
        return order


@dataclass(frozen=True)
class ExactInstance(_Structure):
    """Question over kinds of devices, works and bytes in whole multiples of a unit each.

    Equal devices are of one kind.
    """

    n: int  # nodes
    k: int  # blocks
    counts: Sequence[int]  # (T,) devices of each kind
    sequence: Sequence[int] | None  # kind of each place in a fixed order; None: any
    work: Sequence[Sequence[int]]  # (T, n), 0 where a kind cannot run a node
    barred: Sequence[frozenset[int]]  # (T,) nodes that each kind cannot run
    work_unit: Fraction  # in the time unit of the work
    tensors: Sequence[Output]  # those that nobody reads too: they take memory
    params: Sequence[int]  # (n,) parameters and state
    shared: Sequence[tuple[frozenset[int], int]]  # users and size of each parameter with several users
    need: Sequence[int]  # (n,) inputs and outputs, live when a node runs
    memory: Sequence[int | None]  # (T,) None if there is no limit that matters
    byte_unit: Fraction  # in bytes
    buffer: int | None  # memory kept for activations; None if the peak of the order counts
    fit: bool  # whether the memory is a hard limit
    runs_nodes: bool  # whether each node is one that an order runs, no group of several
    scales: Sequence[Scale]  # (T,)
    sending: Sequence[Sequence[Fraction]]  # (T, T) time of the sender for a unit of bytes, from each kind to each
    receiving: Sequence[Sequence[Fraction]]  # (T, T) time of the reader
    is_rated: bool  # whether there is a rate for each pair of kinds

    @classmethod
    def of(cls, instance: Instance) -> ExactInstance:
        """Read an instance."""
        graph, kinds, buffer = instance.graph, instance.machines.kinds, instance.activation_buffer
        time_scale, work = _in_whole_numbers(instance.work.tolist())
        columns = [graph.tensors.bytes.tolist(), graph.param_bytes.tolist(), graph.state_bytes.tolist()]
        columns += [[p.bytes for p in graph.parameters], [kind.memory for kind in kinds], [buffer or 0.0]]
        columns += [] if instance.need is None else [instance.need.tolist()]
        byte_scale, (sizes, params, states, shared, memories, (buffer_size,), *need) = _in_whole_numbers(columns)
        start, readers = graph.tensors.start.tolist(), graph.tensors.consumers.tolist()
        tensors = [
            Output(producer, frozenset(readers[start[t] : start[t + 1]]), size)
            for t, (producer, size) in enumerate(zip(graph.tensors.producer.tolist(), sizes, strict=True))
        ]
        paces = [_pace(rate, byte_scale) for rate in instance.bandwidths]
        sending = [[pace] * len(kinds) for pace in paces]
        receiving = [paces] * len(kinds)
        if instance.rates is not None:
            sending = receiving = [[_pace(rate, byte_scale) for rate in row] for row in instance.rates.tolist()]
        return cls(
            n=graph.n,
            k=instance.k,
            counts=instance.machines.counts,
            sequence=instance.machines.sequence if instance.machines.is_fixed else None,
            work=work,
            barred=[frozenset(v for v, x in enumerate(row) if math.isinf(x)) for row in instance.work.tolist()],
            work_unit=Fraction(1, time_scale),
            tensors=tensors,
            params=[x + y for x, y in zip(params, states, strict=True)],
            shared=[(frozenset(p.users), x) for p, x in zip(graph.parameters, shared, strict=True)],
            need=need[0] if need else _needs(graph.n, tensors),
            memory=[
                memory if math.isfinite(kind.memory) and (pace > 0 or instance.fit) else None
                for kind, memory, pace in zip(kinds, memories, paces, strict=True)
            ],
            byte_unit=Fraction(1, byte_scale),
            buffer=None if buffer is None else buffer_size,
            fit=instance.fit,
            runs_nodes=instance.need is None and not instance.by_need,
            scales=[_scale(rate, time_scale, byte_scale) for rate in instance.bandwidths],
            sending=sending,
            receiving=receiving,
            is_rated=instance.rates is not None,
        )

    def cost(self, t: int, work: int, size: int) -> Fraction:
        """Cost of a block on kind t by its work and the bytes that it moves or that overflow."""
        scale = self.scales[t]
        return (work * scale.work + size * scale.bytes) * scale.unit

    @cached_property
    def kinds(self) -> list[KindQuestion]:
        """(T,) questions of blocks on devices of one kind alone; with rates for pairs of kinds, at its fastest rate."""
        return [self._of_kind(t) for t in range(len(self.counts))]

    def _of_kind(self, t: int) -> KindQuestion:
        scale, limit = self.scales[t], self.memory[t]
        share = scale.bytes or max(1, int(self.byte_unit / scale.unit))  # moving takes no time: a byte weighs one of it
        peaks = limit is not None and self.buffer is None
        return KindQuestion(
            n=self.n,
            k=self.k,
            unit=scale.unit,
            work=[x * scale.work for x in self.work[t]],
            barred=self.barred[t],
            tensors=[
                Tensor(producer, readers_of, x * scale.bytes, x * share) for producer, readers_of, x in self.tensors
            ],
            params=[x * share for x in self.params],
            shared=[(users, x * share) for users, x in self.shared],
            memory=None if limit is None else limit * share,
            buffer=None if self.buffer is None else self.buffer * share,
            fit=self.fit,
            need=[x * share for x in self.need] if peaks else [0] * self.n,
            runs_nodes=peaks and self.runs_nodes,
        )


def reachable(neighbours: Sequence[Sequence[int]], nodes: Iterable[int]) -> set[int]:
    """The nodes and all nodes reachable from them, where `neighbours` lists the successors of each node.

    With predecessors in place of successors: the nodes and all nodes from which they are reachable.
    """
    seen, stack = set(nodes), list(nodes)
    while stack:
        fresh = set(neighbours[stack.pop()]) - seen
        seen |= fresh
        stack += fresh
    return seen


def _in_whole_numbers(columns: Sequence[Sequence[float]]) -> tuple[int, list[list[int]]]:
    """The least power of two by which the floats become integers, and these integers; 0 for infinite floats."""
    finite = [[x if math.isfinite(x) else 0.0 for x in column] for column in columns]
    scale = max((x.as_integer_ratio()[1] for column in finite for x in column), default=1)
    return scale, [[_times(x, scale) for x in column] for column in finite]


def _times(x: float, scale: int) -> int:
    top, bottom = x.as_integer_ratio()
    return top * (scale // bottom)


def _pace(rate: float, scale: int) -> Fraction:
    """Time to move 1/`scale` of a byte at a rate [bytes per time unit]; 0 at an infinite rate."""
    return Fraction(0) if math.isinf(rate) else 1 / (Fraction(rate) * scale)


def _scale(rate: float, time_scale: int, byte_scale: int) -> Scale:
    top, bottom = (1, 0) if math.isinf(rate) else rate.as_integer_ratio()
    scale = max(time_scale, byte_scale)
    return Scale(scale // time_scale * top, scale // byte_scale * bottom, Fraction(1, scale * top))


def _needs(n: int, tensors: Sequence[Output]) -> list[int]:
    """(n,) bytes that each node reads and writes."""
    needs = [0] * n
    for tensor in tensors:
        for v in {tensor.producer, *tensor.readers}:
            needs[v] += tensor.size
    return needs


@dataclass(frozen=True)
class KindQuestion(_Structure):
    """Question over devices of one kind, whose times are whole multiples of a unit; bytes count as the time to move.

    Where moving takes no time and the memory is a hard limit, a byte weighs as much as a unit of time of the work.
    """

    n: int  # nodes
    k: int  # blocks
    unit: Fraction  # in the time unit of the work
    work: Sequence[int]  # of each node
    barred: frozenset[int]  # nodes that are in no block
    tensors: Sequence[Tensor]  # those that nobody reads too: they take memory
    params: Sequence[int]  # parameters and state of each node
    shared: Sequence[tuple[frozenset[int], int]]  # users and size of each parameter with several users
    memory: int | None  # None if there is no limit that matters
    buffer: int | None  # memory kept for activations; None if the peak of the order counts
    fit: bool  # whether the memory is a hard limit
    need: Sequence[int]  # memory of each node's inputs and outputs, live when it runs; 0 where no peak counts
    runs_nodes: bool  # whether peaks count, and each node is one that an order runs, no group of several

    @cached_property
    def room(self) -> int | None:
        """Memory of a block for parameters and, without a buffer, its peak [bytes]; None without a limit.

        It is negative if the buffer is larger than the memory.
        """
        return None if self.memory is None else self.memory - (self.buffer or 0)

    @cached_property
    def loads(self) -> list[int]:
        """(n,) memory of each node alone: its parameters, shared ones included, and all that it reads and writes."""
        loads = [params + need for params, need in zip(self.params, self.need, strict=True)]
        for users, size in self.shared:
            for v in users:
                loads[v] += size
        return loads

    @cached_property
    def total_load(self) -> int:
        """Lower bound on the memory of all nodes in one block."""
        return sum(self.params) + sum(size for _, size in self.shared) + max(self.need)

    @cached_property
    def may_overflow(self) -> bool:
        """Whether some block may overflow, as all nodes in one block need more than its room."""
        return self.room is not None and self.total_load > self.room

    @cached_property
    def may_overflow_in_order(self) -> bool:
        """As `may_overflow`, but with all tensors live at the same time if peaks depend on the order."""
        if not self.runs_nodes or self.room is None:
            return self.may_overflow
        return self.total_load - max(self.need) + sum(tensor.size for tensor in self.tensors) > self.room

    @property
    def excess(self) -> int:
        """Lower bound on the overflow of all blocks together."""
        if self.room is None:
            return 0
        return max(0, self.total_load - max(self.room, self.room * self.k))  # one block is not empty

    @property
    def nothing_fits(self) -> bool:
        """Whether a hard limit rules out all partitions: all blocks together are too small, or one node's block is."""
        return self.fit and self.room is not None and (self.excess > 0 or max(self.loads) > self.room)

    @cached_property
    def work_bound(self) -> Fraction:
        """Lower bound on the bottleneck, eq. (13), in the time unit of the work.

        It is the larger of the most costly node and the average cost over k blocks.
        """
        alone = self.work
        if self.room is not None:
            alone = [work + max(0, load - self.room) for work, load in zip(self.work, self.loads, strict=True)]
        return max(Fraction(max(alone)), Fraction(sum(self.work) + self.excess, self.k)) * self.unit


# Merging of nodes that must share a block: together, uncut, and all that lie between them.
#
# Written again from the words of the constraints. A node set that edges leave and come back to has to take what they
# pass along, as no edge points backwards; so, once the groups are merged, all nodes on a circle share a block.


def shared_blocks(exact: ExactInstance, constraints: Constraints) -> list[int]:
    """(n,) number of each node's group; the nodes of a group share a block in every feasible partition.

    Parameters
    ----------
    exact : ExactInstance
    constraints : Constraints
    """
    leader = list(range(exact.n))

    def lead(v: int) -> int:
        while leader[v] != v:
            leader[v] = v = leader[leader[v]]
        return v

    for nodes in (*constraints.together, *((v, *exact.after[v]) for v in constraints.uncut)):
        for v in nodes[1:]:
            leader[lead(v)] = lead(nodes[0])
    home = [lead(v) for v in range(exact.n)]
    after: defaultdict[int, set[int]] = defaultdict(set)
    before: defaultdict[int, set[int]] = defaultdict(set)
    for u, v in exact.edges:
        after[home[u]].add(home[v])
        before[home[v]].add(home[u])
    circle: dict[int, int] = {}
    for start in reversed(_by_end(sorted(set(home)), after)):  # who reaches `start` and ends later is reached by it
        stack = [start]
        while stack:
            v = stack.pop()
            if v not in circle:
                circle[v] = start
                stack += before[v]
    number = {start: i for i, start in enumerate(sorted(set(circle.values())))}
    return [number[circle[home[v]]] for v in range(exact.n)]


def merge_groups(exact: ExactInstance, group: Sequence[int]) -> ExactInstance:
    """Merge each group into one node; a partition that keeps the groups costs no less than its merged form.

    A merged node reads and writes at once at least what one of its members does.

    Parameters
    ----------
    exact : ExactInstance
    group : (n,) int
        Groups as from `shared_blocks`.
    """
    count = max(group) + 1
    need = [0] * count
    for v, g in enumerate(group):
        need[g] = max(need[g], exact.need[v])
    return replace(
        exact,
        n=count,
        work=[_sums(row, group, count) for row in exact.work],
        barred=[frozenset(group[v] for v in nodes) for nodes in exact.barred],
        tensors=[
            Output(group[producer], frozenset(group[v] for v in readers) - {group[producer]}, size)
            for producer, readers, size in exact.tensors
        ],
        params=_sums(exact.params, group, count),
        shared=[(frozenset(group[v] for v in users), size) for users, size in exact.shared],
        need=need,
        runs_nodes=exact.runs_nodes and count == exact.n,
    )


def _sums(values: Sequence[int], group: Sequence[int], count: int) -> list[int]:
    sums = [0] * count
    for value, g in zip(values, group, strict=True):
        sums[g] += value
    return sums


def _by_end(nodes: Iterable[int], after: Mapping[int, set[int]]) -> list[int]:
    """The nodes in postorder of a depth-first search."""
    seen: set[int] = set()
    done: list[int] = []
    for start in nodes:
        stack = [(start, False)]
        while stack:
            v, is_left = stack.pop()
            if is_left:
                done.append(v)
            elif v not in seen:
                seen.add(v)
                stack.append((v, True))
                stack += [(w, False) for w in after[v] if w not in seen]
    return done


# Two more nodes, before all others and behind them, without work, bytes and time.
#
# The one joins the first block that is not empty, the other the last such block. These cost as much as before, and
# there are no more blocks with nodes than the original graph has nodes.


#: More nodes, behind those of the file: the one before all others, and the one behind.
ENDS = 2


def with_ends(exact: KindQuestion) -> KindQuestion:
    """The question with a source before all nodes and a sink behind all, as its last two nodes."""
    first, last = exact.n, exact.n + 1
    sources = frozenset(v for v in range(exact.n) if not exact.before[v])
    sinks = [v for v in range(exact.n) if not exact.after[v]]
    ends = [Tensor(first, sources, 0, 0), *(Tensor(v, frozenset({last}), 0, 0) for v in sinks)]
    return replace(
        exact,
        n=exact.n + ENDS,
        k=min(exact.k, exact.n),
        work=[*exact.work, 0, 0],
        tensors=[*exact.tensors, *ends],
        params=[*exact.params, 0, 0],
        need=[*exact.need, 0, 0],
    )
