r"""Lower bound on the bottleneck by what blocks can hold up to each node of a path.

A relaxation of the dynamic program over ideals, for tight memory: of an ideal it keeps only its level.

**Levels.** Let :math:`w_1, \dots, w_m` lie on one path of the graph. What the first blocks of a partition hold together
is closed under predecessors, an ideal; call it a front. Its level is 0 without nodes, m + 2 with all nodes, and else 1
and the number of :math:`w_j` in it. A front of level ℓ *must* hold :math:`w_{ℓ-1}` and all before it, and *may* hold
what is neither :math:`w_ℓ` nor behind it. So a block between fronts of levels a and b must hold the nodes that no front
of level a may and each front of level b must, and may hold those that some front of level b may and not all of level a
must.

**Cost of a block.** A block S from level a to level b costs at least what it must hold costs by work and bytes alone.
It receives at least the tensors that the cheapest front of level a cuts, of those whose readers there are surely in S,
and sends at least what the cheapest front of level b cuts, of those whose producers are: two minimum cuts,
:math:`\mathrm{comm}(a, b)`. Its peak is at least the fixed buffer, or what a node in it needs, or what it surely writes
or reads up to :math:`w_j` and from there on. Of the tensors written up to :math:`w_j` in S and read from there on, each
is live while :math:`w_j` runs, or sent or received, unless it passes S by (`_Levels._passing`).

**What blocks hold.** Let all blocks cost less than T, with a memory of M bytes and the bandwidth B. Then

.. math::

    \mathrm{work}(S) &< T - \mathrm{comm}(a, b)\\
    \mathrm{work}(S) + \tfrac1B \mathrm{held}(S) &< T + \tfrac1B M - \mathrm{comm}(a, b) - \tfrac1B \mathrm{peak}(a, b).

Where the memory is a hard limit, :math:`\mathrm{held}(S) \le M - \mathrm{peak}(a, b)` besides.
A dynamic program over the number of blocks and the level adds up the most that fronts can hold, and drops a level
where that is less than what they must hold. No partition costs less than T if level m + 2 is dropped for k blocks, and
bisection finds the largest such T.

Of a parameter with several users, those of a chain hold a copy each: one lies behind the other, and the two with all
between them do not fit or cost T or more by work and bytes, so that no two of them share a block. Where a block must
hold some user and may hold none of the chain, it has less room by a copy.

**Tensors that turn.** In training most tensors pass one node, the turn, and come back from there. Of those that pass
:math:`w_t`, a block that ends before pays for what it writes, and one that begins behind it for what it reads. So their
times are added to the work of their producers and of a reader each, and only the block with :math:`w_t` is given back
what both its ends may lie in: once while :math:`w_t` runs, where it is live, and else twice. Both ways of counting hold
at a time.

Over kinds of devices the largest memories, the least works and the fastest link are those of a relaxation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from instances import Bound, ComputationGraph, Instance, Partition, Result
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from mtpp_models.cuts.max_flow import UNLIMITED, BoolArray, FlowNetwork, augment, reached_from
from mtpp_models.simple import simple_bound

LEVELS = "levels"

# Nodes of the path that count, first and then, and steps of bisection.
_MOST, _STEPS = (64, 256), 22
# Cuts that differ by less than this part of the cutoff count as equal; what sums of floats may be off by.
_EQUAL, _ROUNDING = 2e-3, 1e-11
# All tensors together as a capacity, and the first node of networks.
_CAPACITY, _SOURCE = 2.0**50, np.zeros(1, dtype=np.int64)


def levels(start: Partition, deadline: Deadline | None = None) -> Result:
    """Lower bound by the levels of a longest path (see the module), at most the bottleneck of the start.

    The witness names the nodes of the path that count: few at first, and all where time is left. Where some memory or
    bandwidth is infinite, the result is the bound *simple*.
    """
    instance, deadline = start.instance, deadline or Deadline()
    cutoff = start.bottleneck
    if cutoff == np.inf:  # it does not fit
        cutoff = start.under(replace(instance, fit=False)).bottleneck
    best, rate = simple_bound(instance), max(instance.bandwidths)
    memory_times = [kind.memory * (1.0 / rate) for kind in instance.machines.kinds]
    bound_by_memory = instance.limits_memory and rate < np.inf and np.isfinite(memory_times).all()
    if cutoff <= best.value or not bound_by_memory:
        return Result(LEVELS, instance, start, best)
    depth, before = _longest_paths(instance.graph)
    for limit in _MOST:
        path = _thinned_path(depth, before, limit)
        with np.errstate(over="ignore", invalid="ignore"):
            bounds = _Levels(instance, path, depth, cutoff, deadline)
            value = bounds.best(best.value)
        if value > best.value:
            best = Bound(value, LEVELS, witness={"nodes": path, "turn": [path[bounds.turn - 2]]})
        best = replace(best, optimal=bounds.finished and (len(path) < limit or limit == _MOST[-1]))
        if deadline.passed or best.optimal or best.value >= cutoff:
            break
    return Result(LEVELS, instance, start, best)


def _longest_paths(graph: ComputationGraph) -> tuple[IntArray, IntArray]:
    """(n,) number of edges of a longest path to each node, and the node before it on that path or -1."""
    start, successors = (rows.tolist() for rows in graph.successors)
    depth, before = [0] * graph.n, [-1] * graph.n
    for v in graph.topological_order.tolist():
        for u in successors[start[v] : start[v + 1]]:
            if depth[v] + 1 > depth[u]:
                depth[u], before[u] = depth[v] + 1, v
    return np.array(depth), np.array(before)


def _thinned_path(depth: IntArray, before: IntArray, limit: int) -> list[int]:
    """At most `limit` nodes, evenly spread, of a path with the most nodes."""
    path = [int(np.argmax(depth))]
    while before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    places = np.linspace(len(path) - 1, 0, min(len(path), limit)).astype(np.int64)
    return [path[place] for place in places.tolist()]


class _Count(NamedTuple):
    """Least work, transfers and peaks of blocks between two levels, where some tensors count as work [time units]."""

    work: FloatArray  # (n,): of each node, with the tensors that count as work
    comm: FloatArray  # least time to receive and send the other tensors
    load: FloatArray  # least such time and peak together
    back: FloatArray  # what counts as work and is neither sent nor received if both its ends are in the block


class _Line(NamedTuple):
    """A sum over the nodes of a front, with its limits: a front is the set of nodes in the first blocks."""

    added: FloatArray  # (L, L): that a block from level a to level b can add to it; -inf where there is none
    must: FloatArray  # (L,): of what a front of each level must hold
    may: FloatArray  # (L,): of what it may hold
    has_room: bool  # whether `added` is without the memory


class _Levels:
    """Least costs of blocks between two levels of fronts, for a goal [time units]; bytes count as time to move them."""

    def __init__(
        self, instance: Instance, path: Sequence[int], depth: IntArray, cutoff: float, deadline: Deadline
    ) -> None:
        graph, machines, pace = instance.graph, instance.machines, 1.0 / max(instance.bandwidths)
        self._graph, self._path, self._depth = graph, path, depth
        self._cutoff, self._deadline, self.finished = cutoff, deadline, True
        memories = np.repeat([kind.memory for kind in machines.kinds], machines.counts)
        self._rooms = np.resize(memories, instance.k) if instance.is_alike else np.sort(memories)[::-1][: instance.k]
        self._rooms = self._rooms * pace
        self._work: FloatArray = instance.work.min(axis=0)
        self._held = graph.held_bytes * pace
        self._fit, buffer = instance.fit, instance.activation_buffer
        self._need = instance.needs * pace if buffer is None else np.full(graph.n, buffer * pace)
        self._in_order = instance.need is None and not instance.by_need and buffer is None
        is_read = np.diff(graph.tensors.start) > 0
        self._time = np.where(is_read | self._in_order, graph.tensors.bytes, 0.0) * pace
        self._size = len(path) + 3
        self._may, self._must = self._levels_of_nodes()
        self._shared = [(p.bytes * pace, self._in_line(p.users)) for p in graph.parameters if p.users and p.bytes > 0]
        self._ends = [_least_above(self._may[users], self._must[users], self._size) for _, users in self._shared]
        self._between = cache(self._cost_between)
        pairs = [(p, v) for p, (_, users) in enumerate(self._shared) for v in users]
        self._used, self._user = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        self._sizes = np.array([size for size, _ in self._shared], dtype=np.float64)
        shared = np.zeros((self._size, self._size + 1))
        for (size, _), end in zip(self._shared, self._ends, strict=True):
            shared[np.arange(self._size), end] += size
        self._surely_held = self._within(self._held, np.add) + np.cumsum(shared, axis=1)[:, :-1]
        self._surely_works = self._within(self._work, np.add)
        # A block between two levels is not empty, and a fixed buffer is the peak of each such.
        peak = self._within(self._need, np.maximum)
        peak = peak if buffer is None else np.triu(np.full_like(peak, buffer * pace), 1)
        self._peak = np.maximum(peak, self._live()) if self._in_order else peak
        self.turn, reader = self._turn()
        nothing = np.zeros(len(self._time), dtype=np.bool_)
        turns = [nothing, reader >= 0] if (reader >= 0).any() else [nothing]
        self._counts = [self._count(far, reader) for far in turns]

    def best(self, low: float) -> float:
        """The largest bound that bisection proves, at most the cutoff; `low` if none is larger."""
        high = self._cutoff
        if not self._holds(low):
            return low
        if self._holds(high):
            return high
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._holds(middle) else (low, middle)
        return low

    def _levels_of_nodes(self) -> tuple[IntArray, IntArray]:
        """(n,) first level whose fronts may hold each node, and (n,) first level whose fronts must hold it."""
        graph, on_path = self._graph, np.zeros(self._graph.n, dtype=np.int64)
        on_path[self._path] = np.arange(2, self._size - 1)
        may, must = np.maximum(on_path, 1).tolist(), np.where(on_path > 0, on_path, self._size - 1).tolist()
        start, successors = (rows.tolist() for rows in graph.successors)
        order = graph.topological_order.tolist()
        for v in order:
            for u in successors[start[v] : start[v + 1]]:
                may[u] = max(may[u], may[v])
        for v in reversed(order):
            must[v] = min([must[v], *(must[u] for u in successors[start[v] : start[v + 1]])])
        return np.array(may), np.array(must)

    def _in_line(self, users: Sequence[int]) -> list[int]:
        """The distinct nodes, sorted by depth, then by number."""
        return sorted(set(users), key=lambda v: (int(self._depth[v]), v))

    def _within(self, values: FloatArray, combine: np.ufunc) -> FloatArray:
        """(L, L) sums (or other reductions) of `values` over the nodes that a block from level a to b must hold."""
        table = np.zeros((self._size + 1, self._size))
        combine.at(table, (self._may, self._must), values)
        return _from_below(combine.accumulate(table, axis=1), combine)

    def _turn(self) -> tuple[int, IntArray]:
        """The level crossed by most bytes, and (t,) a reader of each tensor that crosses it, -1 for other tensors."""
        tensors, rows = self._graph.tensors, self._graph.edge_tensor
        made, read = self._must[tensors.producer], self._may[tensors.consumers]
        last = np.zeros(len(self._time), dtype=np.int64)
        np.maximum.at(last, rows, read)
        passing, long = np.zeros(self._size + 1), np.flatnonzero(last >= made)
        np.add.at(passing, made[long], self._time[long])
        np.subtract.at(passing, last[long] + 1, self._time[long])
        turn = int(np.argmax(np.cumsum(passing)[2 : self._size - 1])) + 2
        node, reader = self._path[turn - 2], np.full(len(self._time), -1)
        beside = (tensors.producer[rows] != node) & (tensors.consumers != node)
        edges = np.flatnonzero((made[rows] <= turn) & (read >= turn) & beside)
        edges = edges[np.lexsort((tensors.consumers[edges], self._depth[tensors.consumers[edges]]))]
        reader[rows[edges]] = tensors.consumers[edges]
        return turn, reader

    def _count(self, far: BoolArray, reader: IntArray) -> _Count:
        """Sums over blocks if the tensors of a (t,) mask count as work, and all other tensors where they are cut."""
        rest, size = np.where(far, 0.0, self._time), self._size
        passing, at_turn = self._passing(rest) if self._in_order else (np.zeros((size, size)),) * 2
        comm = self._least_comm(rest)
        load = np.maximum(self._peak + comm, passing)
        if not far.any():
            return _Count(self._work, comm, load, np.zeros((size, size)))
        makers, readers = self._graph.tensors.producer[far], reader[far]
        work = self._work.copy()
        np.add.at(work, makers, self._time[far])
        np.add.at(work, readers, self._time[far])
        ends = np.zeros((size + 1, size))
        np.add.at(ends, (self._must[makers], self._may[readers]), self._time[far])
        back = _from_below(np.cumsum(ends, axis=1), np.add)
        back[self.turn :], back[:, : self.turn] = 0.0, 0.0
        least = np.maximum(load - 2 * back, at_turn - back) if self._in_order else load - 2 * back
        return _Count(work, comm, least, back)

    def _live(self) -> FloatArray:
        """(L, L) least bytes, as time, live in a block while some node of the path runs.

        These are tensors that nodes of the block write or read both up to that node and from there on.
        """
        tensors, size = self._graph.tensors, self._size
        row = np.concatenate((np.arange(len(self._time)), self._graph.edge_tensor))
        node = np.concatenate((tensors.producer, tensors.consumers))
        may, must, largest = self._may[node], self._must[node], np.zeros((size, size))
        for level in range(2, size - 1):
            first, last = np.zeros(len(self._time), dtype=np.int64), np.full(len(self._time), size)
            np.maximum.at(first, row[must <= level], may[must <= level])
            np.minimum.at(last, row[may >= level], must[may >= level])
            table = np.zeros((size + 1, size + 1))
            np.add.at(table, (first, last), self._time)
            live = _from_below(np.cumsum(table, axis=1), np.add)[:level, level:size]
            np.maximum(largest[:level, level:], live, out=largest[:level, level:])
        return largest * (1 - _ROUNDING)

    def _passing(self, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(L, L) largest time of tensors live, sent or received at a node of the path, and (L, L) that at the turn."""
        graph, tensors, size = self._graph, self._graph.tensors, self._size
        may, must = self._may[tensors.producer], self._must[tensors.producer]
        reads, ends = self._may[tensors.consumers], self._must[tensors.consumers]
        largest, at_turn = np.zeros((size, size)), np.zeros((size, size))
        for level, node in enumerate(self._path, 2):
            edges = np.flatnonzero((must[graph.edge_tensor] <= level) & (reads >= level))
            end = np.full(len(times), size)
            np.minimum.at(end, graph.edge_tensor[edges], ends[edges])
            passes = tensors.producer == node
            passes[graph.edge_tensor[edges]] = True
            passes &= times > 0
            # A tensor may pass a block by if it may be written before and read behind it.
            table = np.zeros((size, size + 1))
            np.add.at(table, (may[passes], end[passes]), times[passes])
            past = np.cumsum(np.cumsum(table[:level], axis=0)[:, ::-1], axis=1)[:, ::-1]
            live = np.maximum(0.0, times[passes].sum() * (1 - _ROUNDING) - past[:, level + 1 :])
            np.maximum(largest[:level, level:], live, out=largest[:level, level:])
            if level == self.turn:
                at_turn[:level, level:] = live
        return largest, at_turn

    def _least_comm(self, times: FloatArray) -> FloatArray:
        """(L, L) least time that a block from level a to b takes to receive and send tensors, by minimum cuts."""
        cuts = _FrontCuts(self._graph, times, self._may, self._must, _EQUAL * self._cutoff)
        received, sent = np.zeros((self._size, self._size)), np.zeros((self._size, self._size))
        for level in range(1, self._size - 1):
            if self._deadline.passed:
                self.finished = False
                break
            received[level, level:], sent[level::-1, level] = cuts.least(level, self._size)
        return received + sent

    def _holds(self, goal: float) -> bool:
        """Whether every partition has a block that costs at least the goal."""
        memory, whole, size = self._rooms[0], self._counts[0], self._size
        lines, filled = self._lines(goal), self._surely_held + whole.load
        doubt = _ROUNDING * (goal + self._rooms.sum() + filled.max())
        surely = self._surely_works + np.maximum(whole.comm, filled - memory - _ROUNDING * (filled + memory))
        impossible = np.tri(size, k=-1, dtype=np.bool_) | (surely * (1 - _ROUNDING) >= goal)
        if self._fit:
            filled = self._surely_held + self._peak
            impossible |= filled - _ROUNDING * (filled + memory) > memory
        for line in lines:
            line.added[impossible] = -np.inf
            doubt += _ROUNDING * line.may[-1]
        sums, room = [np.where(np.arange(size) == 0, 0.0, -np.inf) for _ in lines], 0.0
        for more in self._rooms:
            room += more
            short = np.zeros(size, dtype=np.bool_)
            for i, line in enumerate(lines):
                extra = room if line.has_room else 0.0
                sums[i] = np.minimum((sums[i][:, None] + line.added).max(axis=0), line.may - extra)
                short |= sums[i] + extra < line.must - doubt
            for total in sums:
                total[short] = -np.inf
        return not np.isfinite(sums[0][-1])

    def _lines(self, goal: float) -> list[_Line]:
        """Limits on what blocks below the goal add to fronts: in work, and in work with bytes, for each count."""
        lines, (resident, copies) = list[_Line](), self._copies(goal)
        must_hold, may_hold = self._sums(resident)
        for work, comm, load, back in self._counts:
            must, may = self._sums(work)
            free = np.minimum(goal - comm + 2 * back, may - must[:, None])
            lines.append(_Line(free, must, may, has_room=False))
            both = np.minimum(goal - load - copies, free + (may_hold - must_hold[:, None]) - self._rooms[-1])
            lines.append(_Line(both, must + must_hold, may + may_hold, has_room=True))
        if self._fit:
            least = np.minimum(-self._peak - copies, may_hold - must_hold[:, None] - self._rooms[-1])
            lines.append(_Line(least, must_hold, may_hold, has_room=True))
        return lines

    def _sums(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(L,) sums of `values` over nodes that fronts of each level must hold, and (L,) over those they may hold."""
        must, may = (np.bincount(levels, values, self._size) for levels in (self._must, self._may))
        return np.cumsum(must, dtype=np.float64), np.cumsum(may, dtype=np.float64)

    def _copies(self, goal: float) -> tuple[FloatArray, FloatArray]:
        """(n,) bytes of each node, as time, with copies of shared parameters; and (L, L) further copies of blocks."""
        resident, size, rows = self._held.copy(), self._size, np.arange(self._size)
        besides = np.zeros((size, size + 1))
        for (time, users), end in zip(self._shared, self._ends, strict=True):
            chain = self._chain(users, goal)
            resident[chain] += time
            begin = _least_above(self._must[chain], self._may[chain], size)
            alone = rows[end < begin]
            besides[alone, end[alone]] += time
            besides[alone, begin[alone]] -= time
        return resident, np.maximum(np.cumsum(besides, axis=1)[:, :-1], 0.0)

    def _chain(self, users: Sequence[int], goal: float) -> list[int]:
        """Users of a parameter, from the first on, of which no two consecutive ones share a block below the goal."""
        chain = [users[0]]
        for v in users[1:]:
            if self._between(chain[-1], v) * (1 - _ROUNDING) >= goal:
                chain.append(v)
        return chain

    def _cost_between(self, u: int, v: int) -> float:
        """Lower bound on the cost of a block with u and v by work and bytes; 0 without a path from u to v.

        It is infinite where such a block does not fit.
        """
        graph = self._graph
        inside = self._reached(u, graph.successors) & self._reached(v, graph.predecessors)
        if not inside[u]:
            return 0.0
        used = np.bincount(self._used, inside[self._user], len(self._shared)) > 0
        resident = self._held[inside].sum() + self._sizes[used].sum()
        filled, room = resident + self._need[inside].max(), self._rooms[0]
        over = max(0.0, filled - room - _ROUNDING * (filled + room))
        return float(self._work[inside].sum() + over) if over == 0 or not self._fit else np.inf

    def _reached(self, v: int, rows: tuple[IntArray, IntArray]) -> BoolArray:
        return reached_from(*rows, np.array([v]))


class _FrontCuts:
    """Minimum cuts around fronts; free are the nodes that a front of a level may hold, but need not.

    Cuts that differ by less than `equal` count as equal.
    """

    def __init__(self, graph: ComputationGraph, times: FloatArray, may: IntArray, must: IntArray, equal: float) -> None:
        self._graph, self._may, self._must, self._equal = graph, may, must, equal
        self._scale = _CAPACITY / (times.sum() or 1.0)
        self._capacity = np.floor(times * self._scale).astype(np.int64)
        self._late = np.zeros(len(times), dtype=np.int64)
        np.maximum.at(self._late, graph.edge_tensor, must[graph.tensors.consumers])

    def least(self, level: int, size: int) -> tuple[FloatArray, FloatArray]:
        """Least times to receive and to send the tensors cut by the fronts of a level, by the block's other level.

        A block from `level` to level + i receives at least the i-th of the (size - level,) first times, and a block
        from level - i to `level` sends at least the i-th of the (level + 1,) second times.
        """
        maker, reader, rows = self._graph.tensors.producer, self._graph.tensors.consumers, self._graph.edge_tensor
        may, must = self._may, self._must
        free = (may <= level) & (must > level)
        cut = (self._capacity > 0) & (may[maker] <= level) & (self._late > level)
        # Behind the source come the free nodes, then the tensors.
        node, tensor, made = np.cumsum(free), free.sum() + np.cumsum(cut), np.flatnonzero(cut)
        reads = np.flatnonzero(cut[rows] & free[reader])
        closes = np.flatnonzero(free[maker[rows]] & free[reader])
        outside = np.flatnonzero(cut[rows] & (may[reader] > level))
        tail = (np.where(free[maker[made]], node[maker[made]], 0), tensor[rows[reads]], node[reader[closes]])
        head = (tensor[made], node[reader[reads]], node[maker[rows[closes]]])
        forward = np.concatenate((self._capacity[made], np.full(len(reads) + len(closes), UNLIMITED)))
        nodes = 1 + int(free.sum() + cut.sum())
        place = np.argsort(np.argsort(np.concatenate((*tail, *head)), kind="stable"))
        end = np.full(nodes, size)
        np.minimum.at(end, tensor[rows[outside]], must[reader[outside]])
        network = FlowNetwork.of(
            np.concatenate(tail), np.concatenate(head), forward, np.zeros_like(forward), 0, np.zeros_like(end)
        )
        written, read = (place[: len(made)], may[maker[made]]), (place[len(made) :][: len(reads)], must[reader[reads]])

        def received(i: int) -> float:
            return self._value(network, read[0][read[1] > level + i], end <= level + i)

        def sent(i: int) -> float:
            return self._value(network, written[0][written[1] <= level - i], end < size)

        return self._rising(received, size - level), self._rising(sent, level + 1)

    def _value(self, network: FlowNetwork, unused: IntArray, drained: BoolArray) -> float:
        """Time of a maximum flow from the source to the drained nodes without some arcs."""
        residual, drain = network.capacity.copy(), np.where(drained, UNLIMITED, 0)
        residual[unused] = 0
        nowhere, reached = np.zeros(0, dtype=np.bool_), np.zeros(len(drain), dtype=np.bool_)
        flow = augment(network, residual, drain, _SOURCE, nowhere, nowhere, UNLIMITED, reached)
        return float(flow) / self._scale * (1 - _ROUNDING)

    def _rising(self, least: Callable[[int], float], count: int) -> FloatArray:
        """(count,) lower bounds on values that never fall, each too small by at most `equal`, by bisection."""
        values = np.zeros(count)
        for i in {0, count - 1}:
            values[i] = least(i)
        spans = [(0, count - 1)]
        while spans:
            i, j = spans.pop()
            values[i + 1 : j] = values[i]
            if j - i > 1 and values[j] > values[i] + self._equal:
                middle = (i + j) // 2
                values[middle] = least(middle)
                spans += [(i, middle), (middle, j)]
        return values


def _least_above(keys: IntArray, values: IntArray, size: int) -> IntArray:
    """(L,) least of the `values` whose key is above each level; `size` for levels without such a key."""
    least = np.full(size + 1, size)
    np.minimum.at(least, keys, values)
    return np.asarray(np.minimum.accumulate(least[::-1])[::-1][1:])


def _from_below(table: FloatArray, combine: np.ufunc) -> FloatArray:
    """(L, L) table whose row i combines all rows behind row i of an (L + 1, L) table."""
    return np.asarray(combine.accumulate(table[::-1], axis=0)[::-1][1:])
