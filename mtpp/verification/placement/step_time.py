"""Step time of a placement from the definition, in any order or in sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np

from instances.errors import InputError, printable
from instances.graph.tensors import IntArray
from instances.placement.problem import PlacementInstance, StatedPlacement
from mtpp.verification.placement.kernels import Rows, Side, longest_group, longest_window, raise_starts
from mtpp.verification.verdict import Clock, OutOfTimeError

# Time and memory of a step under a placement, a second time from the definition (Addanki et al., NeurIPS 2019).
#
# A node is ready when all tensors that it reads are on its device. A device runs one node at a time, first ready first
# served, and rests `node_gap` after a node with work. When a node ends, its tensors are on its device, and each other
# device that reads one gets it over the bus out of there, tensor by tensor and reader by reader, one transfer at a time
# for bytes over the rate, with a rest of `transfer_gap` after it. With `broadcast` one transfer serves all devices.
#
# A tensor takes memory where it is made until its producer, its last reader there and its last transfer have ended, and
# elsewhere from the start of its transfer until its last reader there has ended.


#: Size of the numbers that a check computes with.
_MOST_BITS = 2**14


class Run(NamedTuple):
    """Times of a step: when nodes are ready, start and end, and when each tensor is on each device."""

    ready: list[float]
    start: list[float]
    end: list[float]
    stays: list[tuple[int, int, float, float]]


@dataclass(frozen=True)
class Step:
    """A question of placement as plain lists; times are integers or floats, in multiples of `unit`."""

    unit: Fraction  # in the time unit of the work
    node_time: Callable[[int, int], float]  # time of a node on a device
    move_time: Callable[[int, int, int], float]  # time of a tensor from a device to another one
    outputs: list[list[int]]  # tensors of each node
    readers: list[list[int]]  # nodes that read each tensor
    node_gap: float  # pause of a device after a node with work
    transfer_gap: float  # pause of a bus after a transfer
    broadcast: bool  # whether one transfer serves all devices

    @classmethod
    def exact(cls, instance: PlacementInstance) -> Step:
        """The question in integers: every float is an integer over a power of two.

        Raises
        ------
        InputError
            If speeds and rates have no common denominator of a reasonable size.
        """
        gaps, sizes = (float(instance.node_gap), float(instance.transfer_gap)), instance.graph.tensors.bytes.tolist()
        kind, work, speeds, rates = _kinds(instance)
        scale = max(x.as_integer_ratio()[1] for x in (*chain.from_iterable(work), *sizes, *gaps))
        # Work over speed and bytes over rate, times these numbers, are whole.
        common, shared = _multiple(speeds), _multiple(x for row in rates for x in row if math.isfinite(x))

        def whole(x: float) -> int:
            top, bottom = x.as_integer_ratio()
            return top * (scale // bottom)

        works, bytes_moved = [[whole(x) for x in row] for row in work], [whole(x) for x in sizes]
        slow = [int(common / Fraction(x)) * shared for x in speeds]
        far = [[0 if math.isinf(x) else int(shared / Fraction(x)) * common for x in row] for row in rates]
        return cls._of(
            instance,
            Fraction(1, scale * common * shared),
            lambda v, d: works[kind[d] % len(works)][v] * slow[kind[d]],
            lambda t, d, e: bytes_moved[t] * far[kind[d]][kind[e]],
            (whole(gaps[0]) * common * shared, whole(gaps[1]) * common * shared),
        )

    @classmethod
    def rounded(cls, instance: PlacementInstance) -> Step:
        """The question in floats, as used where placements are computed."""
        sizes, (kind, work, speeds, rates) = instance.graph.tensors.bytes.tolist(), _kinds(instance)
        return cls._of(
            instance,
            Fraction(1),
            lambda v, d: work[kind[d] % len(work)][v] / speeds[kind[d]],
            lambda t, d, e: sizes[t] / rates[kind[d]][kind[e]],
            (float(instance.node_gap), float(instance.transfer_gap)),
        )

    @classmethod
    def _of(
        cls,
        instance: PlacementInstance,
        unit: Fraction,
        node_time: Callable[[int, int], float],
        move_time: Callable[[int, int, int], float],
        gaps: tuple[float, float],
    ) -> Step:
        tensors = instance.graph.tensors
        first, consumers = tensors.start.tolist(), tensors.consumers.tolist()
        outputs: list[list[int]] = [[] for _ in range(instance.graph.n)]
        for t, u in enumerate(tensors.producer.tolist()):
            outputs[u].append(t)
        return cls(
            unit=unit,
            node_time=node_time,
            move_time=move_time,
            outputs=outputs,
            readers=[consumers[first[t] : first[t + 1]] for t in range(len(first) - 1)],
            node_gap=gaps[0],
            transfer_gap=gaps[1],
            broadcast=instance.broadcast,
        )

    def run(self, device: Sequence[int], sequence: Sequence[int], clock: Clock) -> Run | None:
        """Simulate a step in which every node and transfer starts as early as possible.

        The answer is None if devices wait for each other for ever. The sequence holds all nodes; those of one device
        run in this order.

        Raises
        ------
        OutOfTimeError
        """
        n = len(self.outputs)
        missing = [0] * n
        for readers in self.readers:
            for v in readers:
                missing[v] += 1
        queues: dict[int, list[int]] = {d: [] for d in device}
        for v in reversed(sequence):
            queues[device[v]].append(v)
        ready: list[float] = [0] * n  # whole numbers stay whole
        start, end = ready.copy(), ready.copy()
        device_free: dict[int, float] = dict.fromkeys(queues, 0)
        bus_free: dict[int, float] = dict.fromkeys(queues, 0)
        moves: list[list[tuple[int, float, float]]] = [[] for _ in self.readers]
        waiting, unplaced = list(queues), n
        while waiting:
            d = waiting.pop()
            clock.raise_if_late()
            while queues[d] and missing[queues[d][-1]] == 0:
                u = queues[d].pop()
                unplaced -= 1
                start[u] = max(ready[u], device_free[d])
                end[u] = start[u] + self.node_time(u, d)
                device_free[d] = end[u] + (self.node_gap if self.node_time(u, d) > 0 else 0)
                for t in self.outputs[u]:
                    bus_free[d] = self._send(t, d, device, max(bus_free[d], end[u]), moves[t])
                    arrival = {target: time for target, _, time in moves[t]} | {d: end[u]}
                    for v in self.readers[t]:
                        ready[v] = max(ready[v], arrival[device[v]])
                        missing[v] -= 1
                        if missing[v] == 0 and device[v] != d:
                            waiting.append(device[v])
        return None if unplaced else Run(ready, start, end, self.stays(device, start, end, moves))

    def _send(
        self, t: int, home: int, device: Sequence[int], free: float, moves: list[tuple[int, float, float]]
    ) -> float:
        """Send a tensor to all other devices that read it; return when the bus is free again."""
        targets = list(dict.fromkeys(device[v] for v in self.readers[t] if device[v] != home))
        for group in [targets] if self.broadcast and targets else [[target] for target in targets]:
            end = free + max(self.move_time(t, home, target) for target in group)
            moves += [(target, free, end) for target in group]
            free = end + self.transfer_gap
        return free

    def stays(
        self,
        device: Sequence[int],
        start: Sequence[float],
        end: Sequence[float],
        moves: Sequence[Sequence[tuple[int, float, float]]],
    ) -> list[tuple[int, int, float, float]]:
        """Intervals during which tensors are on devices; `moves` of a tensor are (target, start, end)."""
        stays = []
        for u, tensors in enumerate(self.outputs):
            for t in tensors:
                last = {device[u]: end[u]}
                for v in self.readers[t]:
                    last[device[v]] = max(last.get(device[v], 0), end[v])
                home = max([last[device[u]], *(arrival for _, _, arrival in moves[t])])
                stays.append((t, device[u], start[u], home))
                stays += [(t, target, begin, last[target]) for target, begin, _ in moves[t]]
        return stays


class _Kinds(NamedTuple):
    """Kinds of devices as lists."""

    kind: list[int]  # kind of each device
    work: list[list[float]]  # a row for each kind, or one for all, with the work of each node
    speeds: list[float]  # speed of each kind
    rates: list[list[float]]  # bytes per unit of time from each kind (row) to each kind


def _kinds(instance: PlacementInstance) -> _Kinds:
    """The kinds of a question; if they state works, all speeds are 1."""
    machines, works = instance.machines, instance.works
    limits = [math.inf if kind.bandwidth is None else kind.bandwidth for kind in machines.kinds]
    table = machines.rates or [[math.inf] * len(limits)] * len(limits)
    return _Kinds(
        kind=[t for t, kind in enumerate(machines.kinds) for _ in range(kind.count)],
        work=[instance.graph.work.tolist()] if works is None else works.tolist(),
        speeds=[1.0 if works is not None or kind.speed is None else kind.speed for kind in machines.kinds],
        rates=[[min(table[s][t], limits[s], limits[t]) for t in range(len(limits))] for s in range(len(limits))],
    )


def speeds_of(instance: PlacementInstance) -> list[Fraction]:
    """Largest work that a device of each kind does per unit of time, relative to the fastest kind's."""
    work = _kinds(instance).work
    if instance.works is None:
        speeds = [Fraction(speed) for speed in _kinds(instance).speeds]
        return [speed / max(speeds) for speed in speeds]
    least = [Fraction(min(times)) for times in zip(*work, strict=True)]
    return [max(x / Fraction(time) for x, time in zip(least, row, strict=True) if time > 0) for row in work]


def capacity_of(instance: PlacementInstance) -> Fraction:
    """Work that all devices do per unit of time, relative to the fastest device."""
    counts = (kind.count for kind in instance.machines.kinds)
    return sum((count * speed for count, speed in zip(counts, speeds_of(instance), strict=True)), Fraction(0))


def devices_of_kinds(instance: PlacementInstance) -> list[int]:
    """The first device of each kind."""
    return [0, *accumulate(kind.count for kind in instance.machines.kinds)][:-1]


def _multiple(numbers: Iterable[float]) -> int:
    """Least common multiple of numbers, an integer; an `InputError` if it is huge."""
    multiple = 1
    for top in {x.as_integer_ratio()[0] for x in numbers}:
        multiple = math.lcm(multiple, top)
        if multiple.bit_length() > _MOST_BITS:
            raise InputError("There are too many different speeds or rates of devices to check exactly; round them.")
    return multiple


def peaks(instance: PlacementInstance, run: Run) -> list[Fraction]:
    """Largest sum of the tensors on each device at one time [bytes]; those that end then no longer count."""
    sizes = [Fraction(size) for size in instance.graph.tensors.bytes.tolist()]
    changes: list[list[tuple[float, Fraction]]] = [[] for _ in range(instance.devices)]
    for t, place, begin, end in run.stays:
        if begin < end:
            changes[place] += [(begin, sizes[t]), (end, -sizes[t])]
    return [max(accumulate((size for _, size in sorted(at_device)), initial=Fraction(0))) for at_device in changes]


def resident_bytes(instance: PlacementInstance, device: Sequence[int]) -> list[Fraction]:
    """Parameters and states on each device [bytes]; a shared parameter counts once on each device that uses it."""
    total, graph = [Fraction(0)] * instance.devices, instance.graph
    for d, *sizes in zip(device, graph.param_bytes.tolist(), graph.state_bytes.tolist(), strict=True):
        total[d] += sum(map(Fraction, sizes))
    for parameter in instance.graph.parameters:
        for d in {device[v] for v in parameter.users}:
            total[d] += Fraction(float(parameter.bytes))
    return total


# Earliest starts of nodes in any placement, proved again in whole numbers.
#
# If u comes before v and is on another device, something between them crosses: the node p that v reads last is with v,
# and then not with u, or it sends v what v reads. If u is with v, it runs before v, as do all others that are with v.
# So v waits for the last of those elsewhere, and for one device to run the others; the best choice keeps with v whoever
# would arrive last. The nodes before v also take all devices their work. The same holds backwards in time.
#
# All times are rounded down to whole parts of a known step time, and none counts as more than a few of these: what a
# step of shorter times takes at least, the step itself takes.


# Bits of the known step time at most, and of the largest sums.
_MOST_BITS_OF_STARTS, _SUM_BITS = 50, 59
# Nodes between two looks at the clock, and the largest table of rows [bytes].
_PIECE, _LARGEST = 64, 2**31


@dataclass
class TimeBounds:
    """Bounds on times, proved for all steps or for those that take at most `limit`, in integers of `unit`."""

    unit: Fraction  # in the time unit of the work
    work: IntArray  # (n,) time of each node on the fastest device
    rest: IntArray  # (n,) pause of its device after each node
    gap: int  # pause after a node with work
    capacity: Fraction  # speeds of all devices together, relative to the fastest one
    sides: tuple[Side, Side]
    ceiling: int  # what a time counts as at most
    early: IntArray  # (n,) earliest start of each node
    late: IntArray  # (n,) least time from the end of each node to the end of the step
    group: IntArray  # nodes of one group are on one device
    limit: int = -1  # none if negative

    @classmethod
    def of(cls, step: Step, instance: PlacementInstance, step_time: Fraction) -> TimeBounds:
        """Trivial bounds of a question: every node may start at 0; the unit is a fraction of `step_time`."""
        devices, n = devices_of_kinds(instance), len(step.outputs)
        bits = min(_MOST_BITS_OF_STARTS, _SUM_BITS - n.bit_length())
        unit = step_time / 2**bits
        ceiling, scale = 2 ** (bits + 1), step.unit / unit

        def rounded(time: float) -> int:
            return min(ceiling, int(time) * scale.numerator // scale.denominator)

        work = np.array([rounded(min(step.node_time(v, d) for d in devices)) for v in range(n)], np.int64)
        gap = rounded(step.node_gap)
        return cls(
            unit=unit,
            work=work,
            rest=np.where(work > 0, gap, 0),
            gap=gap,
            capacity=capacity_of(instance),
            sides=_sides(step, instance, rounded, gap),
            ceiling=ceiling,
            early=np.zeros(n, np.int64),
            late=np.zeros(n, np.int64),
            group=np.arange(n) if instance.devices > 1 else np.zeros(n, np.int64),
        )

    @property
    def share(self) -> float:
        """Time in which all devices together do a unit of work: 1 / `capacity`, rounded down."""
        return float(1 / self.capacity) * (1 - 2.0**-40)

    def raise_both(self, clock: Clock) -> bool:
        """Propagate bounds forwards and backwards; return whether any has changed.

        Raises
        ------
        OutOfTimeError
            Also if the table of rows would be too large.
        """
        before = [self.early.copy(), self.late.copy(), self.group.copy()]
        self._raise(self.sides[0], self.early, self.late, clock)
        self._raise(self.sides[1], self.late, self.early, clock)
        new = (self.early, self.late, self.group)
        return not all(np.array_equal(old, other) for old, other in zip(before, new, strict=True))

    def longest_node(self) -> int:
        """Longest time of a node with all that must come before and after it [`unit`]."""
        return int((self.early + self.work + self.late).max())

    def longest_group(self, clock: Clock) -> int:
        """Largest bound by a group's nodes on one device: earliest start, work and rests, least time after [`unit`]."""
        best, by_start = 0, np.argsort(-self.early, kind="stable")
        by_group = by_start[np.argsort(self.group[by_start], kind="stable")]
        for nodes in np.split(by_group, np.flatnonzero(np.diff(self.group[by_group])) + 1):
            clock.raise_if_late()
            best = max(best, longest_group(nodes.copy(), self.work, self.rest, self.early, self.late))
        return best - self.gap

    def longest_window(self) -> int:
        """Largest lower bound from a set of nodes: earliest start, work spread over all devices, least time after."""
        nodes = np.argsort(-self.early, kind="stable")
        return int(longest_window(nodes, self.work, self.early, self.late, self.share))

    def _raise(self, side: Side, early: IntArray, late: IntArray, clock: Clock) -> None:
        n = len(self.work)
        readers = np.bincount(side.before, minlength=n)
        slots = _most_rows(side, readers)
        if slots * n * 24 > _LARGEST:
            raise OutOfTimeError
        rows = Rows(
            slot=np.zeros(n, np.int64),
            readers=readers.astype(np.int64),
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
            raise_starts(side, rows, begin, end, *facts, self.share, self.limit, self.ceiling)


def _most_rows(side: Side, readers: IntArray) -> int:
    """Largest number of node sets kept at one time; a set is dropped after its last reader."""
    unread, now, largest = readers.tolist(), 0, 0
    start, before = side.start.tolist(), side.before.tolist()
    for v in side.order.tolist():
        for p in before[start[v] : start[v + 1]]:
            unread[p] -= 1
            now -= unread[p] == 0
        now += readers[v] > 0
        largest = max(largest, now)
    return int(largest) + 1


def _sides(step: Step, instance: PlacementInstance, rounded: Callable[[float], int], gap: int) -> tuple[Side, Side]:
    """The question forwards and backwards in time."""
    n, first = len(step.outputs), devices_of_kinds(instance)
    links = [(h, d) for h in first for d in first if h != d]
    links += [(h, h + 1) for h, kind in zip(first, instance.machines.kinds, strict=True) if kind.count > 1]
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


# Steps in which each device runs its nodes, and each bus moves its transfers, in a stated sequence.
#
# A node starts when the one before it on its device has ended and rested, and all tensors that it reads are there. A
# transfer starts when its tensor is made, and the one before it on its bus has ended and rested.


_Moves = list[tuple[int, float, float]]


def faults_of_sequences(stated: StatedPlacement, step: Step) -> Iterator[str]:
    """Yield faults of the sequences of nodes on devices, which have been checked before."""
    k, device = stated.instance.devices, stated.device
    nodes: list[list[int]] = [[] for _ in range(k)]
    moves: list[list[tuple[int, ...]]] = [[] for _ in range(k)]
    for v, d in enumerate(device):
        nodes[d].append(v)
        for t in step.outputs[v]:
            targets = sorted({device[reader] for reader in step.readers[t]} - {d})
            if targets:
                moves[d] += [(t, *targets)] if step.broadcast else [(t, target) for target in targets]
    stated_nodes, stated_moves = stated.device_order or (), stated.bus_order or ()
    if len(stated_nodes) != k or len(stated_moves) != k:
        yield f"there are sequences of {len(stated_nodes)} devices and {len(stated_moves)} buses, not of {k}"
        return
    for d in range(k):
        if sorted(stated_nodes[d]) != nodes[d]:
            yield f"device_order[{d}] does not hold the nodes of the device"
        if sorted((*move[:1], *sorted(move[1:])) for move in stated_moves[d]) != sorted(moves[d]):
            yield f"bus_order[{d}] does not hold the transfers that the devices require"


def run_in_sequence(stated: StatedPlacement, step: Step, clock: Clock) -> Run | str:
    """Simulate a step with stated sequences; return a message if it deadlocks.

    Raises
    ------
    OutOfTimeError
    """
    assert stated.device_order is not None
    assert stated.bus_order is not None
    device, k, n = stated.device, stated.instance.devices, len(step.outputs)
    producer = {t: u for u, tensors in enumerate(step.outputs) for t in tensors}
    missing = [0] * n
    for readers in step.readers:
        for v in readers:
            missing[v] += 1
    ready: list[float] = [0] * n  # whole numbers stay whole
    start, end, done = ready.copy(), ready.copy(), [False] * n
    free: list[float] = [0] * (2 * k)  # of devices, and after them of buses
    moves: list[_Moves] = [[] for _ in step.readers]
    queues: list[list[int]] = [list(reversed(row)) for row in stated.device_order]
    buses = [list(reversed(row)) for row in stated.bus_order]

    def arrive(t: int, places: Sequence[int], at: float) -> list[int]:
        """The devices on which nodes may have become ready at a time."""
        for v in (v for v in step.readers[t] if device[v] in places):
            ready[v] = max(ready[v], at)
            missing[v] -= 1
        return list(places)

    waiting = list(range(k))
    while waiting:
        x = waiting.pop()
        clock.raise_if_late()
        while x < k and queues[x] and missing[queues[x][-1]] == 0:
            u = queues[x].pop()
            start[u], time = max(ready[u], free[x]), step.node_time(u, x)
            end[u], done[u] = start[u] + time, True
            free[x] = end[u] + (step.node_gap if time > 0 else 0)
            for t in step.outputs[u]:
                arrive(t, (x,), end[u])
            waiting.append(k + x)
        while x >= k and buses[x - k] and done[producer[buses[x - k][-1][0]]]:
            t, *targets = buses[x - k].pop()
            begin = max(free[x], end[producer[t]])
            arrival = begin + max(step.move_time(t, x - k, target) for target in targets)
            free[x] = arrival + step.transfer_gap
            moves[t] += [(target, begin, arrival) for target in targets]
            waiting += arrive(t, targets, arrival)
    for d, queue in enumerate(queues):
        if queue:
            v, names = queue[-1], stated.instance.graph.names
            return f"node {v} ({printable(names[v])}), next on device {d}, waits for ever in the order of the sequences"
    return Run(ready, start, end, step.stays(device, start, end, moves))
