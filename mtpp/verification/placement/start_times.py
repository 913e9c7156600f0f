"""Earliest starts of nodes in any placement, proved again in whole numbers.

If u comes before v and is on another device, something between them crosses: the node p that v reads last is with v,
and then not with u, or it sends v what v reads. If u is with v, it runs before v, as do all others that are with v. So
v waits for the last of those elsewhere, and for one device to run the others; the best choice keeps with v whoever
would arrive last. The nodes before v also take all devices their work. The same holds backwards in time.

All times are rounded down to whole parts of a known step time, and none counts as more than a few of these: what a
step of shorter times takes at least, the step itself takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from instances.graph.tensors import IntArray
from instances.placement.problem import PlacementInstance
from mtpp.verification.clock import Clock, OutOfTimeError
from mtpp.verification.placement.kernels import Rows, Side, longest_group, longest_window, raise_starts
from mtpp.verification.placement.step_time import Step

__all__ = ["Known"]

# Bits of the known step time at most, and of the largest sums.
_MOST_BITS, _SUM_BITS = 50, 59
# Nodes between two looks at the clock, and the largest table of rows [bytes].
_PIECE, _LARGEST = 64, 2**31


@dataclass
class Known:
    """Facts proved so far about all steps, or about those that take at most `limit`."""

    unit: Fraction  # in the time unit of the work
    work: IntArray  # on the fastest device
    rest: IntArray  # after each node
    gap: int  # the rest of a node with work
    capacity: Fraction  # of all devices, in fastest ones
    sides: tuple[Side, Side]
    most: int  # what a time counts as at most
    early: IntArray  # when nodes can start
    late: IntArray  # least times after the end of nodes
    group: IntArray  # nodes of one group are on one device
    limit: int = -1  # none if negative

    @classmethod
    def of(cls, step: Step, instance: PlacementInstance, step_time: Fraction) -> Known:
        """Facts of a question before any deduction; all nodes run within the step time of some placement."""
        devices, n = range(instance.devices), len(step.outputs)
        bits = min(_MOST_BITS, _SUM_BITS - n.bit_length())
        unit = step_time / 2**bits
        most, scale = 2 ** (bits + 1), step.unit / unit

        def rounded(time: float) -> int:
            return min(most, int(time) * scale.numerator // scale.denominator)

        speeds = [Fraction(1)] * len(devices)
        if instance.unequal is not None:
            speeds = [Fraction(speed) for speed in instance.unequal.speeds]
        work = np.array([rounded(min(step.node_time(v, d) for d in devices)) for v in range(n)], np.int64)
        gap = rounded(step.node_gap)
        return cls(
            unit=unit,
            work=work,
            rest=np.where(work > 0, gap, 0),
            gap=gap,
            capacity=sum(speeds) / max(speeds),
            sides=_sides(step, instance, rounded, gap),
            most=most,
            early=np.zeros(n, np.int64),
            late=np.zeros(n, np.int64),
            group=np.arange(n) if len(devices) > 1 else np.zeros(n, np.int64),
        )

    @property
    def share(self) -> float:
        """One over the capacity, a little less."""
        return float(1 / self.capacity) * (1 - 2.0**-40)

    def raise_both(self, clock: Clock) -> bool:
        """Go over the nodes in both directions; return whether any fact is new.

        Raises
        ------
        OutOfTimeError
            Also if the table of rows would be too large.
        """
        known = [self.early.copy(), self.late.copy(), self.group.copy()]
        self._raise(self.sides[0], self.early, self.late, clock)
        self._raise(self.sides[1], self.late, self.early, clock)
        new = (self.early, self.late, self.group)
        return not all(np.array_equal(old, other) for old, other in zip(known, new, strict=True))

    def longest_node(self) -> int:
        """The most that a node takes with what is before and after it."""
        return int((self.early + self.work + self.late).max())

    def longest_group(self, clock: Clock) -> int:
        """The most that some nodes of one device take with what is before and after all of them, but for one rest."""
        best, by_start = 0, np.argsort(-self.early, kind="stable")
        by_group = by_start[np.argsort(self.group[by_start], kind="stable")]
        for nodes in np.split(by_group, np.flatnonzero(np.diff(self.group[by_group])) + 1):
            clock.raise_if_late()
            best = max(best, longest_group(nodes.copy(), self.work, self.rest, self.early, self.late))
        return best - self.gap

    def longest_window(self) -> int:
        """The longest time of all windows."""
        nodes = np.argsort(-self.early, kind="stable")
        return int(longest_window(nodes, self.work, self.early, self.late, self.share))

    def _raise(self, side: Side, early: IntArray, late: IntArray, clock: Clock) -> None:
        n = len(self.work)
        left = np.bincount(side.before, minlength=n)
        slots = _most_rows(side, left)
        if slots * n * 24 > _LARGEST:
            raise OutOfTimeError
        rows = Rows(
            slot=np.zeros(n, np.int64),
            left=left.astype(np.int64),
            free=np.append(np.arange(slots), slots).astype(np.int64),
            size=np.zeros(slots, np.int64),
            member=np.zeros((slots, n), np.int64),
            near=np.zeros((slots, n), np.int64),
            far=np.zeros((slots, n), np.int64),
        )
        for begin in range(0, n, _PIECE):
            clock.raise_if_late()
            end = min(begin + _PIECE, n)
            facts = (self.work, self.rest, self.group, early, late)
            raise_starts(side, rows, begin, end, *facts, self.share, self.limit, self.most)


def _most_rows(side: Side, left: IntArray) -> int:
    """The most rows that are read at one time."""
    still, now, most = left.tolist(), 0, 0
    start, before = side.start.tolist(), side.before.tolist()
    for v in side.order.tolist():
        for p in before[start[v] : start[v + 1]]:
            still[p] -= 1
            now -= still[p] == 0
        now += left[v] > 0
        most = max(most, now)
    return int(most) + 1


def _sides(step: Step, instance: PlacementInstance, rounded: Callable[[float], int], gap: int) -> tuple[Side, Side]:
    """Both directions of time."""
    n, devices = len(step.outputs), range(instance.devices)
    links = [(h, d) for h in devices for d in devices if h != d]
    if instance.unequal is None:
        links = links[:1]
    time: dict[tuple[int, int], float] = {}
    for u, tensors in enumerate(step.outputs):
        for t in tensors:
            moves = min((step.move_time(t, h, d) for h, d in links), default=0)
            for v in step.readers[t]:
                # A bus moves what goes from u to v one after the other, and rests between.
                time[u, v] = time[u, v] + step.transfer_gap + moves if (u, v) in time else moves
    arcs = [(u, v, rounded(moves)) for (u, v), moves in time.items()]
    order = _order(n, arcs)
    return _side(n, order, arcs, 0), _side(n, order[::-1], [(v, u, moves) for u, v, moves in arcs], gap)


def _side(n: int, order: list[int], arcs: list[tuple[int, int, int]], spare: int) -> Side:
    arcs = sorted(arcs, key=lambda arc: arc[1])
    counts = np.bincount([v for _, v, _ in arcs], minlength=n) if arcs else np.zeros(n, np.int64)
    return Side(
        order=np.array(order, np.int64),
        start=np.append(0, np.cumsum(counts)).astype(np.int64),
        before=np.array([u for u, _, _ in arcs], np.int64),
        sends=np.array([moves for _, _, moves in arcs], np.int64),
        spare=spare,
    )


def _order(n: int, arcs: list[tuple[int, int, int]]) -> list[int]:
    missing, after = [0] * n, [list[int]() for _ in range(n)]
    for u, v, _ in arcs:
        missing[v] += 1
        after[u].append(v)
    order = [v for v, count in enumerate(missing) if not count]
    for u in order:  # grows
        for v in after[u]:
            missing[v] -= 1
            if not missing[v]:
                order.append(v)
    return order
