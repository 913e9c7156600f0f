"""Simulation of an iteration in exact numbers: the definition of its time, slow and plain.

Each group of devices has a list of passes. At each instant, first all ends that is due; then each idle group starts the
first pass of its list that it has not run, if what that needs is there; then each idle channel starts the transfer that
became ready first, of several one forward, of the lowest stage, of the lowest microbatch; then speeds change. A stage
starts its AllReduce when its last backward pass ends; AllReduces wait for nothing else.

Speeds of transfers and AllReduces are max-min fair: all rise together from 0 until one runs at full speed, 1, or a port
is full; what uses a full port stays as it is, the others go on. They change only where an operation starts or ends. A
pass runs at full speed. What ends within 1e-12 of the time since the start is one instant, as the loads and times that
come in are rounded. The compiled twin of this is `heuristics.planning.shared_cards_simulator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from instances.planning.operation_arrays import BACKWARD, FORWARD, INPUT, WEIGHTS, Flows

_INSTANT = Fraction(1, 10**12)

__all__ = ["Pass", "Simulation", "Waiting", "fair_speeds", "simulate"]

#: A kind of `flows`, a stage and a microbatch.
Pass = tuple[int, int, int]
Loads = dict[int, Fraction]


class Waiting(Exception):  # noqa: N818
    """Groups wait for each other for ever; `first` is the pass that has done so for longest."""

    def __init__(self, first: Pass) -> None:
        self.first = first
        super().__init__(f"{first} waits for ever")


@dataclass
class _Running:
    what: Pass | tuple[int, int]  # a pass, or the row and microbatch of a transfer
    start: Fraction
    left: Fraction  # seconds at full speed
    loads: Loads = field(default_factory=dict)
    speed: Fraction = Fraction(1)


@dataclass
class Simulation:
    """Start and end of each pass, of each transfer as (row of `Flows.alone`, microbatch), and of each AllReduce."""

    passes: dict[Pass, tuple[Fraction, Fraction]] = field(default_factory=dict)
    transfers: dict[tuple[int, int], tuple[Fraction, Fraction]] = field(default_factory=dict)

    @property
    def makespan(self) -> Fraction:
        """Time of the iteration."""
        return max(end for _, end in (*self.passes.values(), *self.transfers.values()))


def simulate(flows: Flows, orders: Sequence[Sequence[Pass]], microbatches: int) -> Simulation:
    """Run the passes of each group in its order.

    Raises
    ------
    Waiting
        If they never end.
    """
    return _Run(flows, orders, microbatches).run()


def fair_speeds(loads: Sequence[Loads]) -> list[Fraction]:
    """Max-min fair speeds of operations, from the part of each port that each one takes at full speed."""
    speeds = [Fraction(1)] * len(loads)
    free = {k for k, load in enumerate(loads) if load}
    level, room = Fraction(0), dict.fromkeys((port for load in loads for port in load), Fraction(1))
    while free:
        shares = {port: sum((loads[k].get(port, Fraction(0)) for k in free), Fraction(0)) for port in room}
        step = min([Fraction(1) - level, *(room[port] / share for port, share in shares.items() if share)])
        level += step
        for port, share in shares.items():
            room[port] -= step * share
        done = {k for k in free if level == 1 or any(room[port] <= 0 for port, u in loads[k].items() if u)}
        for k in done:
            speeds[k] = level
        free -= done
    return speeds


class _Run:
    def __init__(self, flows: Flows, orders: Sequence[Sequence[Pass]], microbatches: int) -> None:
        self.S, self.M, self.orders = len(flows.group), microbatches, orders
        self.durations = [[Fraction(t) for t in row] for row in flows.passes.tolist()]
        self.alone = [Fraction(t) for t in flows.alone.tolist()]
        self.loads = [{port: Fraction(u) for port, u in enumerate(row) if u} for row in flows.speed_load.tolist()]
        self.channel, self.channels = flows.channel.tolist(), flows.channels
        self.now, self.found = Fraction(0), Simulation()
        self.place = [0] * len(orders)
        self.running: dict[tuple[str, int], _Running] = {}  # by machine
        self.ready: dict[tuple[int, int], Fraction] = {}  # transfers that wait, and since when
        self.inputs: list[set[int]] = [set() for _ in range(self.S)]  # microbatches that forward passes may take
        self.gradients: list[set[int]] = [set() for _ in range(self.S)]  # the same of backward passes
        self.inputs[0] = set(range(microbatches))
        self.complete = [0] * self.S  # microbatches whose backward pass has ended

    def run(self) -> Simulation:
        while True:
            while self._start_passes() | self._start_transfers():
                self._end_due()
            if not self.running:
                break
            self._set_speeds()
            step = min(job.left / job.speed for job in self.running.values())
            self.now += step
            for job in self.running.values():
                job.left -= step * job.speed
            self._end_due()
        stuck = [(self._idle_since(order), order) for order in self.orders if order[-1] not in self.found.passes]
        if stuck:
            _, order = min(stuck, key=lambda pair: pair[0])
            raise Waiting(next(one for one in order if one not in self.found.passes))
        return self.found

    def _idle_since(self, order: Sequence[Pass]) -> Fraction:
        return max((self.found.passes[one][1] for one in order if one in self.found.passes), default=Fraction(0))

    def _end_due(self) -> None:
        due = [key for key, job in self.running.items() if job.left <= _INSTANT * self.now * job.speed]
        for job in [self.running.pop(key) for key in due]:
            if len(job.what) == 3:
                self._pass_ends(job.what, job.start)
            else:
                self._transfer_ends(*job.what, job.start)

    def _can_start(self, one: Pass) -> bool:
        kind, n, m = one
        if kind == FORWARD:
            return m in self.inputs[n]
        if kind == WEIGHTS:
            return (INPUT, n, m) in self.found.passes
        return m in self.gradients[n] if n < self.S - 1 else (FORWARD, n, m) in self.found.passes

    def _start_passes(self) -> bool:
        started = False
        for group, order in enumerate(self.orders):
            if ("group", group) in self.running or self.place[group] == len(order):
                continue
            one = order[self.place[group]]
            if self._can_start(one):
                self.place[group] += 1
                self.running["group", group] = _Running(one, self.now, self.durations[one[0]][one[1]])
                started = True
        return started

    def _start_transfers(self) -> bool:
        started = False
        for c in range(self.channels):
            waiting = [key for key in self.ready if self.channel[key[0]] == c]
            if ("channel", c) in self.running or not waiting:
                continue
            row, m = min(waiting, key=lambda key: (self.ready[key], key))
            del self.ready[row, m]
            self.running["channel", c] = self._transfer(row, m)
            started = True
        return started

    def _transfer(self, row: int, m: int) -> _Running:
        return _Running((row, m), self.now, self.alone[row], self.loads[row])

    def _pass_ends(self, one: Pass, start: Fraction) -> None:
        kind, n, m = one
        self.found.passes[one] = (start, self.now)
        if kind == FORWARD and n < self.S - 1:
            self._send(n, m)
        if kind in (BACKWARD, INPUT) and n > 0:
            self._send(self.S - 2 + n, m)
        if kind in (BACKWARD, WEIGHTS):
            self.complete[n] += 1
            if self.complete[n] == self.M:
                self.running["allreduce", n] = self._transfer(2 * self.S - 2 + n, 0)

    def _send(self, row: int, m: int) -> None:
        if self.channel[row] < 0:
            self._transfer_ends(row, m, self.now)
        else:
            self.ready[row, m] = self.now

    def _transfer_ends(self, row: int, m: int, start: Fraction) -> None:
        self.found.transfers[row, m] = (start, self.now)
        if row < self.S - 1:
            self.inputs[row + 1].add(m)
        elif row < 2 * self.S - 2:
            self.gradients[row - self.S + 1].add(m)

    def _set_speeds(self) -> None:
        jobs = list(self.running.values())
        for job, speed in zip(jobs, fair_speeds([job.loads for job in jobs]), strict=True):
            job.speed = speed
