"""Operations of an iteration: their kinds, times and orders, and the simulation that defines when each runs.

Simulation, in exact numbers: each group of devices has a list of passes. At each instant, first all ends that is due;
then each idle group starts the first pass of its list that it has not run, if what that needs is there; then each idle
channel starts the transfer that became ready first, of several one forward, of the lowest stage, of the lowest
microbatch; then speeds change. A stage starts its AllReduce when its last backward pass ends; AllReduces wait for
nothing else.

Speeds of transfers and AllReduces are max-min fair: all rise together from 0 until one runs at full speed, 1, or a port
is full; what uses a full port stays as it is, the others go on. They change only where an operation starts or ends. A
pass runs at full speed. What ends within 1e-12 of the time since the start is one instant, as the loads and times that
come in are rounded. The compiled twin is `instances.planning.simulator`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray, freeze
from instances.planning.plan import Plan

_INSTANT = Fraction(1, 10**12)

#: Kinds of passes: forward; backward in one piece; its two parts, for gradients of inputs and of weights.
FORWARD, BACKWARD, INPUT, WEIGHTS = range(4)
KINDS = "FBIW"

#: A kind, a stage and a microbatch.
Pass = tuple[int, int, int]
#: Passes of each group, in the order in which the group runs them.
PassLists = tuple[tuple[Pass, ...], ...]
Loads = dict[int, Fraction]
#: `Orders.ahead_of_input` where the lists of passes hold.
NO_LIMITS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Operation:
    """One operation of an iteration."""

    kind: str  # ``forward``, ``backward``, ``send`` (activations), ``return`` (gradients) or ``allreduce``
    stage: int  # the stage that computes; for a transfer, the stage before the channel
    microbatch: int | None  # None for an AllReduce
    start: float  # seconds from the start of the iteration
    end: float  # seconds from the start of the iteration


class Moments(NamedTuple):
    """Starts or ends of all operations [s]; nan where there is no operation."""

    forward: FloatArray  # (S, M): forward passes
    backward: FloatArray  # (S, M): backward passes, or their part for the gradients of inputs
    weights: FloatArray  # (S, M): their part for the gradients of weights, where they are split
    send: FloatArray  # (S - 1, M): transfers to the next stage
    receive: FloatArray  # (S - 1, M): transfers of gradients from it
    allreduce: FloatArray  # (S,): AllReduces


def operations(start: Moments, end: Moments) -> Iterator[Operation]:
    """All operations that have a start, kind by kind."""
    for kind, starts, ends in zip(
        ("forward", "backward", "weights", "send", "return", "allreduce"), start, end, strict=True
    ):
        for place, begin in np.ndenumerate(starts):
            n, m = place if len(place) == 2 else (place[0], None)
            if not np.isnan(begin):
                yield Operation(kind, n, m, start=float(begin), end=float(ends[place]))


class Flows(NamedTuple):
    """Operations of a plan with S stages on G groups of devices, and P ports.

    Transfers stand in rows: those to the next stage, S - 1, those back, S - 1, and the AllReduces, S.
    """

    passes: FloatArray  # (4, S): of each kind in each stage [s]
    alone: FloatArray  # (3 S - 2,): of each transfer and AllReduce, if it shares nothing [s]
    speed_load: FloatArray  # (3 S - 2, P): part of each port that it takes at full speed
    group: IntArray  # (S,): group that runs each stage
    channel: IntArray  # (2 S - 2,): machine of each transfer, -1 between stages of one group
    channels: int  # number of machines

    @classmethod
    def of(cls, plan: Plan) -> Flows:
        """Flows of a plan."""
        S, f, b, i = plan.n_stages, plan.forward_time, plan.backward_time, plan.input_time
        alone = np.concatenate((plan.forward_transfer_time, plan.backward_transfer_time, plan.allreduce_time))
        group = np.array([plan.groups.index(stage) for stage in plan.devices])
        machines: dict[tuple[int, ...], int] = {}
        channel = np.full(2 * S - 2, -1)
        for n, (source, target) in enumerate(pairwise(group.tolist())):
            for row, ends in ((n, (source, target)), (S - 1 + n, (target, source))):
                if source != target:
                    pair = ends if plan.instance.full_duplex else tuple(sorted(ends))
                    channel[row] = machines.setdefault(pair, len(machines))
        loads = np.divide(plan.loads, alone[:, None], out=np.zeros_like(plan.loads), where=alone[:, None] > 0)
        return cls(
            passes=np.stack((f, b, i, np.maximum(b - i, 0.0))),
            alone=alone,
            speed_load=np.ascontiguousarray(loads),
            group=group,
            channel=channel,
            channels=len(machines),
        )


class Orders(NamedTuple):
    """Passes of each group, one group after the other, each as ``(stage M + microbatch) 4 + kind``."""

    passes: IntArray  # (n,): passes in the order of each group
    begin: IntArray  # (G + 1,): where each group begins

    # Instead of lists, limits: a group with one stage takes what is ready of I, F and W, in this order of priority, F
    # only while fewer F than these are ahead of I and of W. Empty if the lists hold.
    ahead_of_input: IntArray  # (S,) or (0,)
    ahead_of_weights: IntArray  # (S,) or (0,)


def encoded(orders: PassLists, microbatches: int) -> Orders:
    """Orders as arrays for the compiled simulator."""
    passes = [(n * microbatches + m) * 4 + kind for order in orders for kind, n, m in order]
    begin = np.cumsum([0, *map(len, orders)])
    return Orders(np.array(passes, dtype=np.int64), begin, NO_LIMITS, NO_LIMITS)


def decoded(passes: IntArray, microbatches: int) -> PassLists:
    """Orders of G groups as tuples, from (G, n) passes encoded as in `Orders.passes`."""
    return tuple(tuple((code % 4, *divmod(code // 4, microbatches)) for code in row) for row in passes.tolist())


@lru_cache(maxsize=32)
def one_forward_one_backward(groups: int, turns: int, microbatches: int) -> IntArray:
    """Passes of each group of devices in their order.

    Stage n of the `groups` · `turns` stages runs on group n modulo `groups`. With one turn, group g begins with
    groups - g forward passes; with more, stages take turns of `groups` microbatches, as Megatron-LM does (Narayanan et
    al., SC 2021).

    Returns
    -------
    (groups, 2 · turns · microbatches) integers
        As `Orders.passes`.

    Raises
    ------
    InputError
        If there are several turns and `groups` does not divide `microbatches`.
    """
    S, v, M = groups, turns, microbatches
    if v > 1 and M % S:
        raise InputError(f"Stages in turns need a number of microbatches that {S} groups divide, not {M}.")
    total, orders = v * M, np.empty((S, 2 * v * M), dtype=np.int64)
    k = np.arange(total)
    turn, microbatch = k % (S * v) // S, k // (S * v) * S + k % S
    if v == 1:
        turn, microbatch = np.zeros(total, dtype=np.int64), k
    for g in range(S):
        forward = ((turn * S + g) * M + microbatch) * 4 + FORWARD
        backward = (((v - 1 - turn) * S + g) * M + microbatch) * 4 + BACKWARD
        first = min(total, S - g - 1 if v == 1 else 2 * (S - g - 1) + (v - 1) * S)
        pairs = np.stack((forward[first:], backward[: total - first]), axis=1).ravel()
        orders[g] = np.concatenate((forward[:first], pairs, backward[total - first :]))
    freeze(orders)
    return orders


class Waiting(Exception):  # noqa: N818
    """Deadlock: groups wait for each other for ever; `first` is the pass that has waited longest."""

    def __init__(self, first: Pass) -> None:
        self.first = first
        super().__init__(f"{first} waits for ever")


@dataclass
class _Running:
    what: Pass | tuple[int, int]  # a pass, or the row and microbatch of a transfer
    start: Fraction
    remaining: Fraction  # seconds at full speed
    loads: Loads = field(default_factory=dict)
    speed: Fraction = Fraction(1)


@dataclass
class Simulation:
    """Start and end of each pass, of each transfer as (row of `Flows.alone`, microbatch), and of each AllReduce."""

    passes: dict[Pass, tuple[Fraction, Fraction]] = field(default_factory=dict)
    transfers: dict[tuple[int, int], tuple[Fraction, Fraction]] = field(default_factory=dict)

    @property
    def makespan(self) -> Fraction:
        """Time of the iteration [s]."""
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
        self.now, self.simulation = Fraction(0), Simulation()
        self.place = [0] * len(orders)
        self.running: dict[tuple[str, int], _Running] = {}  # by machine
        self.ready: dict[tuple[int, int], Fraction] = {}  # transfers that wait, and since when
        self.inputs: list[set[int]] = [set() for _ in range(self.S)]  # microbatches that forward passes may take
        self.gradients: list[set[int]] = [set() for _ in range(self.S)]  # the same of backward passes
        self.inputs[0] = set(range(microbatches))
        self.complete = [0] * self.S  # microbatches whose backward pass has ended

    def run(self) -> Simulation:
        """All operations with their times; `Waiting` if some never start."""
        while True:
            while self._start_passes() | self._start_transfers():
                self._end_due()
            if not self.running:
                break
            self._set_speeds()
            step = min(job.remaining / job.speed for job in self.running.values())
            self.now += step
            for job in self.running.values():
                job.remaining -= step * job.speed
            self._end_due()
        stuck = [(self._idle_since(order), order) for order in self.orders if order[-1] not in self.simulation.passes]
        if stuck:
            _, order = min(stuck, key=lambda pair: pair[0])
            raise Waiting(next(task for task in order if task not in self.simulation.passes))
        return self.simulation

    def _idle_since(self, order: Sequence[Pass]) -> Fraction:
        """End of the last pass that a group has run."""
        passes = self.simulation.passes
        return max((passes[task][1] for task in order if task in passes), default=Fraction(0))

    def _end_due(self) -> None:
        """End all operations that are due now."""
        due = [key for key, job in self.running.items() if job.remaining <= _INSTANT * self.now * job.speed]
        for job in [self.running.pop(key) for key in due]:
            if len(job.what) == 3:
                self._pass_ends(job.what, job.start)
            else:
                self._transfer_ends(*job.what, job.start)

    def _can_start(self, task: Pass) -> bool:
        """Whether all operations on which a pass depends have ended."""
        kind, n, m = task
        if kind == FORWARD:
            return m in self.inputs[n]
        if kind == WEIGHTS:
            return (INPUT, n, m) in self.simulation.passes
        return m in self.gradients[n] if n < self.S - 1 else (FORWARD, n, m) in self.simulation.passes

    def _start_passes(self) -> bool:
        """Start a pass in each idle group that can; return whether there was one."""
        started = False
        for group, order in enumerate(self.orders):
            if ("group", group) in self.running or self.place[group] == len(order):
                continue
            task = order[self.place[group]]
            if self._can_start(task):
                self.place[group] += 1
                self.running["group", group] = _Running(task, self.now, self.durations[task[0]][task[1]])
                started = True
        return started

    def _start_transfers(self) -> bool:
        """Start a transfer in each idle channel that has one; return whether there was one."""
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

    def _pass_ends(self, task: Pass, start: Fraction) -> None:
        kind, n, m = task
        self.simulation.passes[task] = (start, self.now)
        if kind == FORWARD and n < self.S - 1:
            self._send(n, m)
        if kind in (BACKWARD, INPUT) and n > 0:
            self._send(self.S - 2 + n, m)
        if kind in (BACKWARD, WEIGHTS):
            self.complete[n] += 1
            if self.complete[n] == self.M:
                self.running["allreduce", n] = self._transfer(2 * self.S - 2 + n, 0)

    def _send(self, row: int, m: int) -> None:
        """Queue a transfer; between stages of one group it takes no time."""
        if self.channel[row] < 0:
            self._transfer_ends(row, m, self.now)
        else:
            self.ready[row, m] = self.now

    def _transfer_ends(self, row: int, m: int, start: Fraction) -> None:
        self.simulation.transfers[row, m] = (start, self.now)
        if row < self.S - 1:
            self.inputs[row + 1].add(m)
        elif row < 2 * self.S - 2:
            self.gradients[row - self.S + 1].add(m)

    def _set_speeds(self) -> None:
        jobs = list(self.running.values())
        for job, speed in zip(jobs, fair_speeds([job.loads for job in jobs]), strict=True):
            job.speed = speed
