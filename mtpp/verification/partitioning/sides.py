r"""Check of bounds by the two sides of a node, where memory is tight.

Let all blocks cost less than a goal, and node w be in block i of k. Let X be w and all nodes before it, which lie in
the b = i + 1 blocks up to i, or w and all nodes behind it, which lie in the b = k - i blocks from i. Bytes count as the
time to move them, M is the room of these b blocks, and C is the room of one block plus the goal.

* Together the b blocks cost at least the work of X, and at least the work of X and the bytes that they hold, less M. A
  tensor from before w, or of w, to w or behind it is live while w runs if one block holds w and both its ends; else it
  is cut by blocks of X.
* A parameter is held once for each user of a chain of which no two fit into one block below the goal, with all that
  lies between them.
* Less than C of these tensors touches the block of w. So where those at other nodes with needs of at least z come to S,
  (S - C) / (C - z) other blocks at least have such peaks.
* Of nodes one behind the other with needs of at least z, of which no two neighbours fit into one block below the goal,
  each is in a block of its own with such a peak; that of w may be one of these.

The goal is proved if for every i one of the two X costs at least the goal on average over its b blocks, or needs more
than b blocks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate, pairwise

from mtpp.verification.partitioning.exact_instance import ExactInstance, reachable
from mtpp.verification.verdict import Clock

# Users of a parameter, at the most, among which chains are looked for.
_MOST_USERS = 8


@dataclass(frozen=True)
class _Side:
    """A node with all nodes on one side of it."""

    work: int
    load: int  # work, what is held and what passes the node
    live: int  # what passes the node
    far: Sequence[int]  # nodes with large needs, in an order
    shared: Sequence[tuple[Sequence[int], int]]  # users, in an order, and sizes of parameters with several
    passing: Sequence[tuple[int, int]]  # needs of other nodes, falling, and sizes of what passes


def holds_by_sides(exact: ExactInstance, nodes: Sequence[int], goal: Fraction, clock: Clock) -> bool:
    """Whether the sides of a node prove that some block costs at least the goal.

    Parameters
    ----------
    exact : ExactInstance
    nodes : integers
        The node, and others that may be far apart.
    goal : Fraction
        Positive.
    clock : Clock

    Raises
    ------
    OutOfTimeError
    """
    pace = min(scale.bytes * scale.unit for scale in exact.scales)
    if exact.buffer is not None or not pace or any(limit is None for limit in exact.memory):
        return False
    question = _Question(exact, pace, goal, clock)
    sides = [question.side(nodes, behind) for behind in (False, True)]
    # Chains take longest, and all users apart say whether they may be of use.
    return question.holds(sides, lambda _: 1) or (question.holds(sides, len) and question.holds(sides, question.copies))


class _Question:
    """A relaxed question: nodes on their fastest kind, devices with the most memory and fastest link."""

    def __init__(self, exact: ExactInstance, pace: Fraction, goal: Fraction, clock: Clock) -> None:
        unit = Fraction(1, math.lcm(exact.work_unit.denominator, pace.denominator))
        self._exact, self._clock, self._goal, self._size = exact, clock, goal / unit, int(pace / unit)
        time = int(exact.work_unit / unit)
        kinds = range(len(exact.counts))
        self._work = [
            min(exact.work[t][v] for t in kinds if v not in exact.barred[t]) * time if self._runs(v) else 0
            for v in range(exact.n)
        ]
        limits = [limit * self._size for limit in exact.memory if limit is not None]
        rooms = sorted((limits[t] for t in kinds for _ in range(min(exact.counts[t], exact.k))), reverse=True)
        if len(kinds) == 1:
            rooms = limits * exact.k
        self._rooms = list(accumulate(rooms[: exact.k]))
        self._least = cache(self._least_between)
        self._before = cache(lambda v: reachable(exact.before, [v]))
        self._behind = cache(lambda v: reachable(exact.after, [v]))

    def _runs(self, v: int) -> bool:
        return any(v not in barred for barred in self._exact.barred)

    def side(self, nodes: Sequence[int], behind: bool) -> _Side:
        """The first node with all nodes before it, or all behind it."""
        exact, size, node = self._exact, self._size, nodes[0]
        before, after = self._before(node), self._behind(node)
        inside, live, passing = after if behind else before, 0, list[tuple[int, int]]()
        for producer, readers, sent in exact.tensors if exact.runs_nodes else ():
            readers = readers & after
            if producer not in before or not (readers or producer == node):
                continue
            live += sent
            others = readers if behind else {producer}
            if readers and node not in others:
                passing.append((min(exact.need[v] for v in others) * size, sent * size))
        live = live if exact.runs_nodes else exact.need[node]
        place = {v: i for i, v in enumerate(exact.order)}
        users = [(sorted(users & inside, key=place.__getitem__), sent * size) for users, sent in exact.shared]
        work = sum(self._work[v] for v in inside)
        several = [(group, sent) for group, sent in users if 1 < len(group) <= _MOST_USERS]
        far = sorted(set(nodes) & inside, key=place.__getitem__)
        load = work + (self._held(inside) + live) * size
        return _Side(work, load, live * size, far, several, sorted(passing, reverse=True))

    def _held(self, inside: set[int]) -> int:
        """Bytes of parameters and states, shared ones once."""
        return sum(self._exact.params[v] for v in inside) + sum(x for users, x in self._exact.shared if users & inside)

    def holds(self, sides: Sequence[_Side], copies: Callable[[Sequence[int]], int]) -> bool:
        """Whether, for each block that the node may be in, one side costs too much or needs too many blocks.

        `copies` gives, from the users of a parameter, the least number of blocks that hold it.
        """
        k, goal, loads = self._exact.k, self._goal, list[tuple[int, int, int]]()
        for side in sides:
            peaks, more = self._peaks(side)
            again = sum(size * (copies(users) - 1) for users, size in side.shared)
            loads.append((side.load + peaks + again, side.work, more))

        def is_dear(x: int, blocks: int) -> bool:
            load, work, more = loads[x]
            return blocks <= more or max(load - self._rooms[blocks - 1], work) >= goal * blocks

        return all(is_dear(0, b) or is_dear(1, k + 1 - b) for b in range(1, k + 1))

    def _peaks(self, side: _Side) -> tuple[int, int]:
        """Least sum of peaks of the other blocks on a side, and their least number.

        Tensors that pass from one block to the next are live in both; k where even k blocks would be too few.
        """
        cap, k, total, blocks, peaks, more = self._goal + self._rooms[0], self._exact.k, 0, 0, 0, 0
        needs = {need for need, _ in side.passing} | {self._exact.need[v] * self._size for v in side.far} | {side.live}
        passing = deque(side.passing)
        for need, lower in pairwise([*sorted(needs, reverse=True), 0]):
            while passing and passing[0][0] >= need:
                total += passing.popleft()[1]
            if total > cap:
                blocks = max(blocks, k if need >= cap else math.ceil((total - cap) / (cap - need)))
            apart = self._apart([v for v in side.far if self._exact.need[v] * self._size >= need])
            more = max(more, blocks, apart - 1)
            if more >= k:
                return 0, k
            peaks += max(blocks, apart - (need <= side.live)) * (need - lower)
        return peaks, more

    def _apart(self, nodes: Sequence[int]) -> int:
        """Number of nodes, in order, of which no two share a block below the goal."""
        apart: list[int] = []
        for v in nodes:
            if not apart or self._least(apart[-1], v) >= self._goal:
                apart.append(v)
        return len(apart)

    def copies(self, users: Sequence[int]) -> int:
        """Least number of blocks with users of a parameter: the longest chain of users of which none share a block."""
        longest: list[int] = []
        for v in users:
            apart = (count for u, count in zip(users, longest, strict=False) if self._least(u, v) >= self._goal)
            longest.append(1 + max(apart, default=0))
        return max(longest)

    def _least_between(self, u: int, v: int) -> int:
        """Least cost of a block with both nodes and all between them; 0 without a path between."""
        self._clock.raise_if_late()
        if v not in self._behind(u):
            return 0
        inside = self._behind(u) & self._before(v)
        over = (self._held(inside) + max(self._exact.need[w] for w in inside)) * self._size - self._rooms[0]
        return sum(self._work[w] for w in inside) + max(0, over)
