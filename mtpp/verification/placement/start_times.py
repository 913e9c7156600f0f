"""Earliest starts of nodes in any placement, proved again in whole numbers and plain code.

If u comes before v and is on another device, something between them crosses: the node p that v reads last is with v,
and then not with u, or it sends v what v reads. If u is with v, it runs before v, as do all others that are with v. So
v waits for the last of those elsewhere, and for one device to run the others; the best choice keeps with v whoever
would arrive last. The nodes before v also take all devices their work. The same holds backwards in time. All that takes
time takes whole units, so that nodes start at whole units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate

from instances.placement.problem import PlacementInstance
from mtpp.verification.clock import Clock
from mtpp.verification.placement.step_time import Step

__all__ = ["Known", "Way", "ways_of"]

_Row = dict[int, tuple[int, int | None]]


@dataclass(frozen=True)
class Way:
    """Direction of time: predecessors of each node, and the least time of a transfer from them."""

    order: Sequence[int]
    before: Sequence[Sequence[tuple[int, int]]]
    spare: int  # a rest that need not fall between those that are with a node and the node


@dataclass
class Known:
    """Facts proved so far about all steps, or about those that take at most `limit`."""

    work: list[int]  # on the fastest device
    rest: list[int]  # after each node
    capacity: Fraction  # of all devices, in fastest ones
    early: list[int]  # when nodes can start
    late: list[int]  # least times after the end of nodes
    limit: Fraction | None = None
    group: list[int] = field(default_factory=list)  # nodes of one group are on one device

    @classmethod
    def of(cls, step: Step, instance: PlacementInstance) -> Known:
        """Facts of a question before any deduction."""
        devices, n = range(instance.devices), len(step.outputs)
        speeds = [Fraction(1)] * len(devices)
        if instance.unequal is not None:
            speeds = [Fraction(speed) for speed in instance.unequal.speeds]
        work = [int(min(step.node_time(v, d) for d in devices)) for v in range(n)]
        groups = list(range(n)) if len(devices) > 1 else [0] * n
        rest = [int(step.node_gap) if time else 0 for time in work]
        return cls(work, rest, sum(speeds) / max(speeds), [0] * n, [0] * n, group=groups)

    def raise_both(self, ways: tuple[Way, Way], clock: Clock) -> bool:
        """Go over the nodes in both directions; return whether any fact is new.

        Raises
        ------
        OutOfTimeError
        """
        known = (list(self.early), list(self.late), list(self.group))
        self._raise(ways[0], self.early, self.late, clock)
        self._raise(ways[1], self.late, self.early, clock)
        return known != (self.early, self.late, self.group)

    def _raise(self, way: Way, early: list[int], late: list[int], clock: Clock) -> None:
        rows: dict[int, _Row] = {}  # of nodes that someone still reads: of each before it, the time between their ends
        left = [0] * len(self.work)
        for before in way.before:
            for p, _ in before:
                left[p] += 1
        for v in way.order:
            clock.raise_if_late()
            row: _Row = {}
            for p, sends in way.before[v]:
                early[v] = max(early[v], early[p] + self.work[p])
                _widen(row, rows[p], None if self.group[p] == self.group[v] else sends)
                left[p] -= 1
                if not left[p]:
                    del rows[p]
            self._wait(way, v, row, early)
            self._join(v, row, early, late)
            if left[v]:
                time = self.work[v]
                rows[v] = {u: (near + time, None if far is None else far + time) for u, (near, far) in row.items()}
                rows[v][v] = (0, None)

    def _wait(self, way: Way, v: int, row: _Row, early: list[int]) -> None:
        by_start = sorted(row, key=lambda u: early[u])
        shares = accumulate(self.work[u] for u in reversed(by_start))
        for u, share in zip(reversed(by_start), shares, strict=True):
            early[v] = max(early[v], early[u] + math.ceil(share / self.capacity))
        here: list[int] = []  # nodes that must be with v
        arrivals = []
        for u, (near, far) in row.items():
            if far is None or self.group[u] == self.group[v]:
                row[u] = (near, None)
                here.append(u)
            else:
                arrivals.append((early[u] + self.work[u] + far, u))
        arrivals.sort(reverse=True)
        least, most = 0, len(arrivals)  # how many more are with v
        while least < most:
            count = (least + most) // 2
            if self._through(way, v, here, arrivals[:count], early) >= arrivals[count][0]:
                most = count
            else:
                least = count + 1
        choices = [self._through(way, v, here, arrivals[:least], early)]
        if least < len(arrivals):
            choices[0] = max(choices[0], arrivals[least][0])
        if least > 0:
            choices.append(max(self._through(way, v, here, arrivals[: least - 1], early), arrivals[least - 1][0]))
        early[v] = max(early[v], min(choices))

    def _through(self, way: Way, v: int, here: list[int], more: list[tuple[int, int]], early: list[int]) -> int:
        """Earliest time at which one device can have run some nodes before v."""
        time, nodes = 0, sorted([*here, *(u for _, u in more)], key=lambda u: early[u])
        for u in nodes:
            time = max(time, early[u]) + self.work[u] + self.rest[u]
        return time - (way.spare - self.rest[v] if nodes and way.spare else 0)

    def _join(self, v: int, row: _Row, early: list[int], late: list[int]) -> None:
        """Put into the group of v all nodes of the row that would be too late on another device."""
        if self.limit is None:
            return
        rest = self.work[v] + late[v]
        for u, (_, far) in row.items():
            if far is not None and early[u] + self.work[u] + far + rest > self.limit:
                old, new = self.group[u], self.group[v]
                self.group[:] = [new if g == old else g for g in self.group]


def _widen(row: _Row, source: _Row, sends: int | None) -> None:
    """Go on from a node to one that reads it; `sends` is None if both are on one device."""
    for u, (near, far) in source.items():
        crossing = None if sends is None else near + sends
        ways = [x for x in (far, crossing) if x is not None]
        best = min(ways) if ways else None
        if u in row:
            other_near, other = row[u]
            row[u] = max(near, other_near), None if best is None or other is None else max(best, other)
        else:
            row[u] = near, best


def ways_of(step: Step, instance: PlacementInstance) -> tuple[Way, Way]:
    """Both directions of time."""
    n, devices = len(step.outputs), range(instance.devices)
    links = [(h, d) for h in devices for d in devices if h != d]
    if instance.unequal is None:
        links = links[:1]
    time: dict[tuple[int, int], int] = {}
    for u, tensors in enumerate(step.outputs):
        for t in tensors:
            moves = int(min((step.move_time(t, h, d) for h, d in links), default=0))
            for v in step.readers[t]:
                # A bus moves what goes from u to v one after the other, and rests between.
                time[u, v] = time[u, v] + int(step.transfer_gap) + moves if (u, v) in time else moves
    before: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    after: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for (u, v), sends in time.items():
        before[v].append((u, sends))
        after[u].append((v, sends))
    missing = [len(row) for row in before]
    order = [v for v, count in enumerate(missing) if not count]
    for u in order:  # grows
        for v, _ in after[u]:
            missing[v] -= 1
            if not missing[v]:
                order.append(v)
    return Way(order, before, 0), Way(order[::-1], after, int(step.node_gap))
