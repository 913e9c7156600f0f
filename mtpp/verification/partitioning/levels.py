r"""Check of bounds by the levels of a path.

Suppose that all blocks cost less than a goal. The first blocks together hold a set of nodes with all before them, a
front; its level counts the nodes of the path in it, plus 1, and is 0 if it is empty and the last if it holds all. A
node v is in no front of a level below ``may[v]``, and in all fronts from the level ``must[v]`` on. A block between
fronts of levels a and b thus holds v surely if a < may[v] and must[v] <= b, and perhaps if a < must[v] and may[v] <= b.

* By what it surely holds such a block costs at least its work, or its work and bytes and a peak, less the memory: the
  fixed buffer, the largest need, what it touches surely up to a node of the path and from there on, or the tensors from
  before that node to it or behind it, which are live or cut. Where that is the goal or more, or a hard limit of memory
  is less than bytes and peak, there is no such block.
* It receives what the front of level a cuts and it surely reads, and sends what the front of level b cuts and it surely
  makes. No front does so for less than a minimum cut, and no cut is below a flow.
* So the work, and work and bytes, that fronts of each level can hold after each block are at most what the goal and the
  memory leave; of a hard limit bytes alone what peaks leave. They are at least what a front of that level holds surely.
* A parameter counts once for each user of a chain of which no two fit into one block, with all between them, and once
  in a block that surely has a user and cannot have one of the chain.
* Tensors from before one node of the path, the turn, to behind it may instead count as work of their makers and of one
  reader each: only the block with the turn may hold both. There they are live while it runs, and else may cost nothing.

All is in whole numbers, costs rounded down, memory and goal up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtpp.verification.partitioning.cut_kernels import Arcs, flow_value, reached
from mtpp.verification.partitioning.cuts import rows_of_pairs
from mtpp.verification.partitioning.exact_instance import ExactInstance, at_most
from mtpp.verification.verdict import Clock, UndecidedError

#: Nodes of a path at the most: tables have a row and a column for each.
MOST = 256

# What all terms add up to, in whole numbers; a capacity above all flows; less than any sum.
_TOTAL, _FREE, _NEVER = 2**57, 2**60, -(2**61)
# A level above all levels.
_NOWHERE = 2 * MOST
# Cuts that differ by less than the goal over this count as equal.
_EQUAL = 500
# Units of the goal for each term that is rounded, without which a proof may fail by rounding.
_PRECISE = 2**34
# Sets of nodes before and behind others that are kept at a time.
_KEPT = 4_096

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_Table = NDArray[np.int64]  # (L, L), from level to level


def holds_by_levels(exact: ExactInstance, path: Sequence[int], turn: int, goal: Fraction, clock: Clock) -> bool:
    """Whether the levels of a path prove that some block costs at least the goal.

    Parameters
    ----------
    exact : ExactInstance
    path : integers
        At most `MOST` nodes, each behind the one before; others prove nothing.
    turn : int
        The node of the path of which tensors from before it to behind it may count as work; without one nothing is
        proved.
    goal : Fraction
        Positive.
    clock : Clock

    Raises
    ------
    OutOfTimeError
    UndecidedError
        If nothing is proved and times have too few digits, as some are so much larger than the goal.
    """
    pace = min(scale.bytes * scale.unit for scale in exact.scales)
    limits = [limit for limit in exact.memory if limit is not None]
    if len(limits) < len(exact.memory) or not pace or turn not in path or len(path) > MOST:
        return False
    question = _Question(exact, path, _largest_memories(exact, limits), pace, goal, clock)
    if not question.is_path:
        return False
    holds = question.holds(turn)
    if not holds and question.is_coarse:
        raise UndecidedError("its times differ too much in size.")
    return holds


def _largest_memories(exact: ExactInstance, limits: Sequence[int]) -> list[int]:
    """Bytes of as many devices as there are blocks, the largest first."""
    if len(limits) == 1:
        return [limits[0]] * exact.k
    slots = zip(limits, exact.counts, strict=True)
    return sorted((limit for limit, count in slots for _ in range(min(count, exact.k))), reverse=True)[: exact.k]


class _Line(NamedTuple):
    """A sum over the nodes of a front (those in the first blocks), which goal and memory limit."""

    added: _Table  # that a block adds to it; without the memory if that counts
    must: _Ints  # (L,) of what fronts must hold
    may: _Ints  # (L,) of what they may hold
    has_memory: bool


class _Question:
    """A relaxed question in whole units: each node on its fastest kind, the largest memories, the fastest link."""

    def __init__(
        self,
        exact: ExactInstance,
        path: Sequence[int],
        memories: Sequence[int],
        pace: Fraction,
        goal: Fraction,
        clock: Clock,
    ) -> None:
        self._exact, self._path, self._clock, self._size = exact, path, clock, len(path) + 3
        kinds = range(len(exact.counts))
        runs = [[exact.work[t][v] for t in kinds if v not in exact.barred[t]] for v in range(exact.n)]
        self._in_order = exact.runs_nodes and exact.buffer is None
        sizes = [tensor.size if tensor.readers or self._in_order else 0 for tensor in exact.tensors]
        need = exact.need if exact.buffer is None else [exact.buffer] * exact.n
        self._depth = self._depths()
        used = [(sorted(users, key=self._depth_first), sent) for users, sent in exact.shared if users]
        resident = sum(exact.params) + sum(len(users) * sent for users, sent in used)
        # No block takes more memory than this, and what takes more time than all blocks have counts as twice that.
        rooms = [min(room, resident + max(need) + self._in_order * sum(sizes)) for room in memories]
        ceiling = 2 * len(rooms) * (rooms[0] * pace + goal)
        work = at_most((min(times, default=0) * exact.work_unit for times in runs), ceiling)
        times, params, needs, shared = (
            at_most((x * pace for x in column), ceiling)
            for column in (sizes, exact.params, need, [sent for _, sent in used])
        )
        copied = sum(len(users) * time for (users, _), time in zip(used, shared, strict=True))
        total = goal + sum(work) + 2 * sum(times) + sum(params) + max(needs) + copied + sum(rooms) * pace
        scale = Fraction(_TOTAL) / total
        self._goal, self._rooms = math.ceil(goal * scale), [math.ceil(room * pace * scale) for room in rooms]
        self._work, self._held, self._need, self._shared, self._time = (
            np.array([math.floor(time * scale) for time in column], dtype=np.int64)
            for column in (work, params, needs, shared, times)
        )
        #: Whether what is lost by rounding may matter.
        limit = min(self._goal, *self._rooms) if exact.fit else self._goal
        self.is_coarse = (exact.n + len(times)) * _PRECISE > limit
        self._users = [users for users, _ in used]
        self._user = np.array([v for users in self._users for v in users], dtype=np.int64)
        self._used = np.repeat(np.arange(len(used)), [len(users) for users in self._users])
        self._maker = np.array([tensor.producer for tensor in exact.tensors], dtype=np.int64)
        self._reader = np.array([v for tensor in exact.tensors for v in sorted(tensor.readers)], dtype=np.int64)
        self._read = np.repeat(np.arange(len(self._time)), [len(tensor.readers) for tensor in exact.tensors])
        self._may, self._must = self._levels()
        self._late = np.zeros(len(self._time), dtype=np.int64)  # level by which all readers are in a front
        np.maximum.at(self._late, self._read, self._must[self._reader])
        before, behind = (rows_of_pairs(exact.n, pairs) for pairs in ([(v, u) for u, v in exact.edges], exact.edges))
        self._before = lru_cache(_KEPT)(lambda v: reached(np.arange(exact.n) == v, before))
        self._behind = lru_cache(_KEPT)(lambda v: reached(np.arange(exact.n) == v, behind))

    @property
    def is_path(self) -> bool:
        """Whether the nodes of the path are distinct, and each can be reached from the one before."""
        return all(u != v and self._behind(u)[v] for u, v in pairwise(self._path))

    def holds(self, node: int) -> bool:
        """Whether no k blocks below the goal hold all nodes, as fronts could not hold what they must."""
        works, peak = self._surely(self._work, np.add), self._peak()
        resident, copies, surely_held = self._copies()
        must_hold, may_hold = self._sums(resident)
        turn, last_reader = self._path.index(node) + 2, self._last_readers(node)
        lines, impossible = list[_Line](), np.tri(self._size, k=-1, dtype=np.bool_)
        for far in (np.zeros(len(self._time), dtype=np.bool_), last_reader >= 0):
            comm = self._least_comm(np.where(far, 0, self._time))
            passing, at_turn = self._passing(np.where(far, 0, self._time), turn)
            load = np.maximum(peak + comm, passing)
            if not lines:
                impossible |= works + np.maximum(comm, surely_held + load - self._rooms[0]) >= self._goal
            work, back = self._far_work(far, last_reader, turn)
            must, may = self._sums(work)
            free = np.minimum(self._goal - comm + 2 * back, may - must[:, None])
            lines.append(_Line(free, must, may, has_memory=False))
            load = np.maximum(load - 2 * back, at_turn - back) if self._in_order else load - 2 * back
            added = np.minimum(self._goal - load - copies, free + may_hold - must_hold[:, None] - self._rooms[-1])
            lines.append(_Line(added, must + must_hold, may + may_hold, has_memory=True))
            if not (last_reader >= 0).any():
                break
        if self._exact.fit:
            impossible |= surely_held + peak > self._rooms[0]
            room = np.minimum(-peak - copies, may_hold - must_hold[:, None] - self._rooms[-1])
            lines.append(_Line(room, must_hold, may_hold, has_memory=True))
        return self._falls_short(lines, impossible)

    def _falls_short(self, lines: Sequence[_Line], impossible: _Bools) -> bool:
        """Whether, adding block by block, fronts hold less than they must at every level for k blocks."""
        sums, room = [np.where(np.arange(self._size) == 0, 0, _NEVER) for _ in lines], 0
        for more in self._rooms:
            self._clock.raise_if_late()
            room += more
            short = np.zeros(self._size, dtype=np.bool_)
            for i, line in enumerate(lines):
                extra = room if line.has_memory else 0
                best = np.where(impossible, _NEVER, sums[i][:, None] + line.added).max(axis=0)
                sums[i] = np.minimum(best, line.may - extra)
                short |= sums[i] + extra < line.must
            for total in sums:
                total[short] = _NEVER
        return bool(sums[0][-1] == _NEVER)

    def _depths(self) -> list[int]:
        """(n,) number of edges of the longest path to each node."""
        depth = [0] * self._exact.n
        for v in self._exact.order:
            depth[v] = max((depth[u] + 1 for u in self._exact.before[v]), default=0)
        return depth

    def _depth_first(self, v: int) -> tuple[int, int]:
        return self._depth[v], v

    def _levels(self) -> tuple[_Ints, _Ints]:
        """(n,) first level whose fronts may hold each node, and (n,) first level whose fronts must."""
        exact, last = self._exact, self._size - 1
        may, must = [1] * exact.n, [last] * exact.n
        for level, v in enumerate(self._path, 2):
            may[v] = must[v] = level
        for v in exact.order:
            may[v] = max([may[v], *(may[u] for u in exact.before[v])])
        for v in reversed(exact.order):
            must[v] = min([must[v], *(must[u] for u in exact.after[v])])
        return np.array(may), np.array(must)

    def _surely(self, values: _Ints, combine: np.ufunc) -> _Table:
        """(L, L) reduction of `values` over the nodes that a block from level a to level b must hold."""
        by_level = np.zeros((self._size + 1, self._size), dtype=np.int64)
        combine.at(by_level, (self._may, self._must), values)
        return _behind_each(combine.accumulate(by_level, axis=1), combine)

    def _sums(self, values: _Ints) -> tuple[_Ints, _Ints]:
        """(L,) sums over the nodes that fronts of each level must hold, and (L,) over those that they may hold."""
        sums = np.zeros((2, self._size), dtype=np.int64)
        for row, levels in zip(sums, (self._must, self._may), strict=True):
            np.add.at(row, levels, values)
        return np.cumsum(sums[0]), np.cumsum(sums[1])

    def _peak(self) -> _Table:
        """(L, L) least peaks of blocks from level a to level b."""
        if self._exact.buffer is not None:  # of a block between two levels, which is not empty
            return np.triu(np.full((self._size, self._size), self._need[0]), 1)
        peak = self._surely(self._need, np.maximum)
        touched = np.concatenate((np.arange(len(self._time)), self._read))
        node = np.concatenate((self._maker, self._reader))
        for level in range(2, 2 + len(self._path) * self._in_order):
            self._clock.raise_if_late()
            live = np.zeros((self._size + 1, self._size + 1), dtype=np.int64)
            begin, end = np.zeros(len(self._time), dtype=np.int64), np.full(len(self._time), self._size)
            early, late = self._must[node] <= level, self._may[node] >= level
            np.maximum.at(begin, touched[early], self._may[node[early]])
            np.minimum.at(end, touched[late], self._must[node[late]])
            np.add.at(live, (begin, end), self._time)
            table = _behind_each(np.cumsum(live, axis=1), np.add)[:level, level : self._size]
            np.maximum(peak[:level, level:], table, out=peak[:level, level:])
        return peak

    def _copies(self) -> tuple[_Ints, _Table, _Table]:
        """(n,) bytes of each node with copies of shared parameters; (L, L) further copies, and bytes surely held."""
        resident, rows = self._held.copy(), np.arange(self._size)
        besides, shared = np.zeros((2, self._size, self._size + 1), dtype=np.int64)
        for users, sent in zip(self._users, self._shared, strict=True):
            chain = users[:1]
            for v in users[1:]:
                if self._least_between(chain[-1], v) >= self._goal:
                    chain.append(v)
            resident[chain] += sent
            surely = _least_above(self._may[users], self._must[users], self._size)
            perhaps = _least_above(self._must[chain], self._may[chain], self._size)
            shared[rows, surely] += sent
            alone = rows[surely < perhaps]
            besides[alone, surely[alone]] += sent
            besides[alone, perhaps[alone]] -= sent
        surely_held = self._surely(self._held, np.add) + np.cumsum(shared, axis=1)[:, :-1]
        return resident, np.cumsum(besides, axis=1)[:, :-1], surely_held

    def _least_between(self, u: int, v: int) -> int:
        """Least cost, by work and bytes, of a block with two nodes and all between; 0 without a path.

        It is at least the goal if such a block does not fit.
        """
        self._clock.raise_if_late()
        inside = self._behind(u) & self._before(v)
        if not inside[v]:
            return 0
        used = np.bincount(self._used, inside[self._user], len(self._shared)) > 0
        resident = self._held[inside].sum() + self._shared[used].sum() + self._need[inside].max()
        over = max(0, resident - self._rooms[0])
        return self._goal if over and self._exact.fit else int(self._work[inside].sum() + over)

    def _last_readers(self, node: int) -> _Ints:
        """(t,) last reader behind `node` of each tensor made before it; -1 for other tensors."""
        last, turn = np.full(len(self._time), -1), self._may[node]
        for t, v in zip(self._read.tolist(), self._reader.tolist(), strict=True):
            maker = self._maker[t]
            if self._must[maker] <= turn <= self._may[v] and node not in (maker, v):
                last[t] = max(int(last[t]), v, key=lambda u: (-1, -1) if u < 0 else self._depth_first(u))
        return last

    def _far_work(self, far: _Bools, last_reader: _Ints, turn: int) -> tuple[_Ints, _Table]:
        """(n,) work with the tensors that count as work, and (L, L) what a block with the turn need not pay of it."""
        work, back = self._work.copy(), np.zeros((self._size + 1, self._size), dtype=np.int64)
        makers, readers, times = self._maker[far], last_reader[far], self._time[far]
        np.add.at(work, makers, times)
        np.add.at(work, readers, times)
        np.add.at(back, (self._must[makers], self._may[readers]), times)
        table = _behind_each(np.cumsum(back, axis=1), np.add)
        table[turn:], table[:, :turn] = 0, 0
        return work, table

    def _passing(self, times: _Ints, turn: int) -> tuple[_Table, _Table]:
        """(L, L) largest sum of tensors live, sent or received at a node of the path, and (L, L) at the turn."""
        largest, at_turn = np.zeros((2, self._size, self._size), dtype=np.int64)
        for level, node in enumerate(self._path if self._in_order else (), 2):
            self._clock.raise_if_late()
            edges = (self._must[self._maker[self._read]] <= level) & (self._may[self._reader] >= level)
            end = np.full(len(times), self._size)
            np.minimum.at(end, self._read[edges], self._must[self._reader[edges]])
            passes = (end < self._size) | (self._maker == node)
            past = np.zeros((self._size, self._size + 1), dtype=np.int64)
            np.add.at(past, (self._may[self._maker[passes]], end[passes]), times[passes])
            past = np.cumsum(np.cumsum(past[:level], axis=0)[:, ::-1], axis=1)[:, ::-1]
            live = times[passes].sum() - past[:, level + 1 :]
            np.maximum(largest[:level, level:], live, out=largest[:level, level:])
            if level == turn:
                at_turn[:level, level:] = live
        return largest, at_turn

    def _least_comm(self, times: _Ints) -> _Table:
        """(L, L) least time that a block from level a to level b takes to receive and send tensors."""
        received, sent = np.zeros((2, self._size, self._size), dtype=np.int64)
        for level in range(1, self._size - 1):
            self._clock.raise_if_late()
            front = self._front(level, times)
            received[level, level:] = _rising(
                front.received, np.arange(level, self._size).tolist(), self._goal // _EQUAL
            )
            sent[level::-1, level] = _rising(front.sent, np.arange(level, -1, -1).tolist(), self._goal // _EQUAL)
        return received + sent

    def _front(self, level: int, times: _Ints) -> _Front:
        """Network of the fronts of a level: nodes that they may hold but need not, and tensors that they may cut."""
        free = (self._may <= level) & (self._must > level)
        behind = self._may > level
        cut = (times > 0) & ~behind[self._maker] & (self._late > level)
        node, tensor = np.cumsum(free) - 1, free.sum() + np.cumsum(cut) - 1
        reads = cut[self._read] & free[self._reader]
        closes = free[self._maker[self._read]] & free[self._reader]
        makes = cut & free[self._maker]
        made = np.flatnonzero(makes)
        tail = (tensor[self._read[reads]], node[self._reader[closes]], node[self._maker[made]])
        head = (node[self._reader[reads]], node[self._maker[self._read[closes]]], tensor[made])
        count = [len(part) for part in tail]
        capacity = np.concatenate((np.full(count[0] + count[1], _FREE), times[made], np.zeros(sum(count), np.int64)))
        by = np.concatenate((self._must[self._reader[reads]], np.zeros(2 * sum(count) - count[0], np.int64)))
        above = np.full(2 * sum(count), _NOWHERE)
        above[count[0] + count[1] : sum(count)] = self._may[self._maker[made]]
        size = int(free.sum() + cut.sum())
        arcs, order = Arcs.of(np.concatenate(tail), np.concatenate(head), size)
        supply, source, end = (np.zeros(size, dtype=np.int64) for _ in range(3))
        end[:] = _NOWHERE
        given = cut & ~free[self._maker]
        supply[tensor[given]], source[tensor[given]] = times[given], self._may[self._maker[given]]
        outside = cut[self._read] & behind[self._reader]
        np.minimum.at(end, tensor[self._read[outside]], self._must[self._reader[outside]])
        return _Front(arcs, capacity[order], by[order], above[order], supply, source, end)


class _Front(NamedTuple):
    """Flow network of the possible first blocks ("fronts") up to a level: supplies must be in them, drains cannot."""

    arcs: Arcs
    capacity: _Ints  # (a,)
    read: _Ints  # (a,) the level by which a reader surely is in a front; 0 for other arcs
    made: _Ints  # (a,) the level from which a maker may be in a front; `_NOWHERE` for other arcs
    supply: _Ints  # (N,)
    source: _Ints  # (N,) as `made`, for supplies
    end: _Ints  # (N,) as `read`, the least of those behind the front; `_NOWHERE` without these

    def received(self, level: int) -> int:
        """Least time of the tensors cut by a front that have a reader in all fronts of `level`."""
        drain = np.where(self.end <= level, _FREE, 0)
        return int(flow_value(self.arcs, np.where(self.read <= level, self.capacity, 0), self.supply, drain, _FREE))

    def sent(self, level: int) -> int:
        """Least time of the tensors cut by a front whose producer is in no front of `level`."""
        capacity = np.where(self.made > level, self.capacity, 0)
        supply = np.where(self.source > level, self.supply, 0)
        return int(flow_value(self.arcs, capacity, supply, np.where(self.end < _NOWHERE, _FREE, 0), _FREE))


def _rising(value: Callable[[int], int], levels: Sequence[int], equal: int) -> _Ints:
    """(levels,) lower bounds on values that never fall, each too small by at most `equal`, by bisection."""
    values = np.zeros(len(levels), dtype=np.int64)
    for i in {0, len(levels) - 1}:
        values[i] = value(levels[i])
    spans = [(0, len(levels) - 1)]
    while spans:
        i, j = spans.pop()
        values[i + 1 : j] = values[i]
        if j - i > 1 and values[j] > values[i] + equal:
            middle = (i + j) // 2
            values[middle] = value(levels[middle])
            spans += [(i, middle), (middle, j)]
    return values


def _least_above(keys: _Ints, values: _Ints, size: int) -> _Ints:
    """(L,) least of the values whose key is above each level; `size` where there is none."""
    least = np.full(size + 1, size)
    np.minimum.at(least, keys, values)
    return np.asarray(np.minimum.accumulate(least[::-1])[::-1][1:])


def _behind_each(table: _Ints, combine: np.ufunc) -> _Table:
    """(L, L) table whose row i combines all rows behind row i of an (L + 1, L) table."""
    return np.asarray(combine.accumulate(table[::-1], axis=0)[::-1][1:])
