"""The simulator of iterations, compiled: `instances.planning.operations.simulate` in floats.

Times within 1e-12 of each other, as a part of the time since the start, are one instant. Searches, plans and their
files all take their times from it; the paper's planners alone anneal with a smaller kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.operations import BACKWARD, FORWARD, INPUT, WEIGHTS, Flows, Moments, Orders

#: Relative tolerance: times, and loads of ports, that differ by less are equal.
INSTANT = 1e-12

BoolArray = NDArray[np.bool_]

# Row of `Log.start` of each kind of pass.
_LOGGED = (0, 1, 1, 2)


class Log(NamedTuple):
    """Start and end of each operation, -1 if it has not run [s]; and the order in which groups ran their passes."""

    start: FloatArray  # (3, S, M): forward passes, backward passes or their first parts, their second parts
    end: FloatArray  # (3, S, M)
    transfer_start: FloatArray  # (2 S - 2, M): transfers to the next stage, then those back
    transfer_end: FloatArray  # (2 S - 2, M)
    allreduce_start: FloatArray  # (S,): AllReduce of each stage
    allreduce_end: FloatArray  # (S,)
    passes: IntArray  # (n,): as `Orders.passes`


@compiled
def empty_log(S: int, M: int) -> Log:
    """Allocate a log of S stages and M microbatches."""
    return Log(
        np.full((3, S, M), -1.0),
        np.full((3, S, M), -1.0),
        np.full((2 * S - 2, M), -1.0),
        np.full((2 * S - 2, M), -1.0),
        np.full(S, -1.0),
        np.full(S, -1.0),
        np.full(3 * S * M, -1, dtype=np.int64),
    )


class _Run(NamedTuple):
    """State of a simulation. Machines are the channels, then one for each AllReduce; idle ones end at infinity."""

    inputs: BoolArray  # (S, M): whether a forward pass may take a microbatch
    gradients: BoolArray  # (S, M): whether a backward pass may take a microbatch
    queue: IntArray  # (2 S - 2, M): microbatches that wait for a transfer, those of one time by number
    ready: FloatArray  # (2 S - 2, M): since when
    head: IntArray  # (2 S - 2,): first and last places of queues
    tail: IntArray
    rows: IntArray  # (2 S - 2,): of transfers, sorted by channel
    begin: IntArray  # (C + 1,): where the rows of a channel begin
    waiting: IntArray  # (C,): microbatches that wait for a channel
    used: IntArray  # (1,): machines up to the last that has worked; the others are idle
    place: IntArray  # (G,): passes that each group has started
    counts: IntArray  # (3, S): the same of each stage, as in `Log.start`
    complete: IntArray  # (S,): microbatches whose backward pass has ended
    group_end: FloatArray  # (G,)
    group_pass: IntArray  # (G,): as in `Orders.passes`
    end: FloatArray  # (C + S,)
    remaining: FloatArray  # (C + S,): seconds at full speed, at the time of the stamp
    stamp: FloatArray
    speed: FloatArray
    row: IntArray  # (C + S,): what each machine works on
    microbatch: IntArray
    shares: BoolArray  # (3 S - 2,): whether an operation uses a port
    active: IntArray  # (C + S,): room for a list of machines
    new_speed: FloatArray


def timed(flows: Flows, orders: Orders, microbatches: int) -> tuple[Moments, Moments, float]:
    """Start and end of all operations, and the time of the iteration [s], infinite if groups wait for ever.

    What has not run starts and ends at -1.
    """
    log = empty_log(len(flows.group), microbatches)
    makespan = run(flows, orders, microbatches, log, np.inf)
    start = _moments(log.start, log.transfer_start, log.allreduce_start)
    return start, _moments(log.end, log.transfer_end, log.allreduce_end), float(makespan)


def _moments(passes: FloatArray, transfers: FloatArray, allreduce: FloatArray) -> Moments:
    """The times of a log by kind of operation; nan for gradients of weights that are not passes of their own."""
    S = passes.shape[1]
    weights = np.where(passes[2] < 0, np.nan, passes[2])
    return Moments(passes[0], passes[1], weights, transfers[: S - 1], transfers[S - 1 :], allreduce)


@compiled
def run(flows: Flows, orders: Orders, M: int, log: Log, limit: float) -> float:
    """Run an iteration; fill in the log, and return the makespan.

    It is infinite if groups wait for each other for ever, or as soon as the time exceeds `limit`.
    """
    going = _begin(flows, len(flows.group), len(orders.begin) - 1, M)
    return _run(flows, orders, M, log, limit, going, np.ones(flows.speed_load.shape[1]))


@compiled(allocates=False)
def _run(flows: Flows, orders: Orders, M: int, log: Log, limit: float, going: _Run, room: FloatArray) -> float:
    """The makespan [s], infinite as in `run`; `room` has one number for each port, which is overwritten."""
    S = len(flows.group)
    total = orders.begin[-1] if len(orders.ahead_of_input) == 0 else 3 * S * M
    now, last, done = 0.0, 0.0, 0
    while now < np.inf:
        if now > limit:
            return np.inf
        last, changed, again = now, False, True
        while again:
            ended, freed = _end_passes(now, flows, M, going, log)
            done += ended
            changed = _end_transfers(now, S, going, log) or freed or changed
            again = _start_passes(now, flows, orders, M, going, log)
            instant, shared = _start_transfers(now, flows, going, log)
            again, changed = again or instant, changed or shared
        if changed:
            _share_ports(now, flows, going, room)
        now = np.inf
        for g in range(len(going.group_end)):
            now = min(now, going.group_end[g])
        for k in range(going.used[0]):
            now = min(now, going.end[k])
    return last if done == total else np.inf


@compiled
def _begin(flows: Flows, S: int, G: int, M: int) -> _Run:
    """The state before the first pass: the first stage may take all microbatches."""
    C, load = flows.channels, flows.speed_load
    rows, begin, count = np.zeros(2 * S - 2, dtype=np.int64), np.zeros(C + 1, dtype=np.int64), 0
    for c in range(C):
        for r in range(2 * S - 2):
            if flows.channel[r] == c:
                rows[count] = r
                count += 1
        begin[c + 1] = count
    shares = np.zeros(3 * S - 2, dtype=np.bool_)
    for r in range(3 * S - 2):
        for p in range(load.shape[1]):
            shares[r] = shares[r] or load[r, p] > 0.0
    inputs = np.zeros((S, M), dtype=np.bool_)
    inputs[0] = True
    return _Run(
        inputs=inputs,
        gradients=np.zeros((S, M), dtype=np.bool_),
        queue=np.zeros((2 * S - 2, M), dtype=np.int64),
        ready=np.zeros((2 * S - 2, M)),
        head=np.zeros(2 * S - 2, dtype=np.int64),
        tail=np.zeros(2 * S - 2, dtype=np.int64),
        rows=rows,
        begin=begin,
        waiting=np.zeros(C, dtype=np.int64),
        used=np.zeros(1, dtype=np.int64),
        place=np.zeros(G, dtype=np.int64),
        counts=np.zeros((3, S), dtype=np.int64),
        complete=np.zeros(S, dtype=np.int64),
        group_end=np.full(G, np.inf),
        group_pass=np.zeros(G, dtype=np.int64),
        end=np.full(C + S, np.inf),
        remaining=np.zeros(C + S),
        stamp=np.zeros(C + S),
        speed=np.ones(C + S),
        row=np.zeros(C + S, dtype=np.int64),
        microbatch=np.zeros(C + S, dtype=np.int64),
        shares=shares,
        active=np.zeros(C + S, dtype=np.int64),
        new_speed=np.ones(C + S),
    )


@compiled(allocates=False)
def _end_passes(now: float, flows: Flows, M: int, going: _Run, log: Log) -> tuple[int, bool]:
    """End the passes that are due; return how many, and whether an AllReduce began that uses a port."""
    S, C, ended, changed = len(flows.group), flows.channels, 0, False
    for g in range(len(going.group_end)):
        if going.group_end[g] > now * (1.0 + INSTANT):
            continue
        going.group_end[g] = np.inf
        ended += 1
        kind, rest = going.group_pass[g] % 4, going.group_pass[g] // 4
        n, m = rest // M, rest % M
        log.end[_LOGGED[kind], n, m] = now
        if kind == FORWARD and n < S - 1:
            _send(n, m, now, flows, going, log)
        elif kind in (BACKWARD, INPUT) and n > 0:
            _send(S - 2 + n, m, now, flows, going, log)
        if kind in (BACKWARD, WEIGHTS):
            going.complete[n] += 1
            if going.complete[n] == M:
                _start(C + n, 2 * S - 2 + n, 0, now, flows, going)
                log.allreduce_start[n] = now
                changed = changed or going.shares[2 * S - 2 + n]
    return ended, changed


@compiled(allocates=False)
def _start(machine: int, row: int, microbatch: int, now: float, flows: Flows, going: _Run) -> None:
    """Let an idle machine work on a transfer or AllReduce, at full speed until ports are shared anew."""
    going.row[machine], going.microbatch[machine] = row, microbatch
    going.remaining[machine], going.stamp[machine], going.speed[machine] = flows.alone[row], now, 1.0
    going.end[machine] = now + flows.alone[row]
    going.used[0] = max(going.used[0], machine + 1)


@compiled(allocates=False)
def _send(row: int, m: int, now: float, flows: Flows, going: _Run, log: Log) -> None:
    """Queue a transfer; between stages of one group it takes no time."""
    if flows.channel[row] < 0:
        log.transfer_start[row, m] = log.transfer_end[row, m] = now
        _arrive(row, m, len(flows.group), going)
        return
    queue, ready, at = going.queue, going.ready, going.tail[row]
    while at > 0 and ready[row, at - 1] == now and queue[row, at - 1] > m:
        queue[row, at], ready[row, at] = queue[row, at - 1], now
        at -= 1
    queue[row, at], ready[row, at] = m, now
    going.tail[row] += 1
    going.waiting[flows.channel[row]] += 1


@compiled(allocates=False)
def _arrive(row: int, m: int, S: int, going: _Run) -> None:
    """Let the stage behind a transfer take the microbatch."""
    if row < S - 1:
        going.inputs[row + 1, m] = True
    else:
        going.gradients[row - (S - 1), m] = True


@compiled(allocates=False)
def _end_transfers(now: float, S: int, going: _Run, log: Log) -> bool:
    """End the transfers and AllReduces that are due; return whether one of them used a port."""
    changed = False
    for k in range(going.used[0]):
        if going.end[k] <= now * (1.0 + INSTANT):
            going.end[k] = np.inf
            row, m = going.row[k], going.microbatch[k]
            changed = changed or going.shares[row]
            if row >= 2 * S - 2:
                log.allreduce_end[row - (2 * S - 2)] = now
            else:
                log.transfer_end[row, m] = now
                _arrive(row, m, S, going)
    return changed


@compiled(allocates=False)
def _start_passes(now: float, flows: Flows, orders: Orders, M: int, going: _Run, log: Log) -> bool:
    """Start a pass in each idle group that can; return whether one of them takes no time."""
    again = False
    for g in range(len(going.group_end)):
        if going.group_end[g] < np.inf:
            continue
        code = (
            _listed(g, orders, M, going, log) if len(orders.ahead_of_input) == 0 else _greedy(g, orders, M, going, log)
        )
        if code >= 0:
            kind, n, m = code % 4, code // 4 // M, code // 4 % M
            log.start[_LOGGED[kind], n, m] = now
            if len(orders.ahead_of_input):
                log.passes[3 * M * g + going.place[g]] = code
            going.place[g] += 1
            going.counts[_LOGGED[kind], n] += 1
            going.group_pass[g], going.group_end[g] = code, now + flows.passes[kind, n]
            again = again or going.group_end[g] <= now * (1.0 + INSTANT)
    return again


@compiled(allocates=False)
def _listed(g: int, orders: Orders, M: int, going: _Run, log: Log) -> int:
    """The next pass of a group's list, -1 if it cannot start."""
    at = orders.begin[g] + going.place[g]
    if at == orders.begin[g + 1]:
        return -1
    code = orders.passes[at]
    return code if _can_start(code % 4, code // 4 // M, code // 4 % M, going, log) else -1


@compiled(allocates=False)
def _greedy(n: int, orders: Orders, M: int, going: _Run, log: Log) -> int:
    """The pass of highest priority that a stage may start, -1 if there is none."""
    f, i, w = going.counts[0, n], going.counts[1, n], going.counts[2, n]
    if i < M and _can_start(INPUT, n, i, going, log):
        return (n * M + i) * 4 + INPUT
    within = f - i < orders.ahead_of_input[n] and f - w < orders.ahead_of_weights[n]
    if f < M and within and going.inputs[n, f]:
        return (n * M + f) * 4 + FORWARD
    if w < M and _can_start(WEIGHTS, n, w, going, log):
        return (n * M + w) * 4 + WEIGHTS
    return -1


@compiled(allocates=False)
def _can_start(kind: int, n: int, m: int, going: _Run, log: Log) -> bool:
    """Whether all that a pass needs has ended."""
    if kind == FORWARD:
        return going.inputs[n, m]
    if kind == WEIGHTS:
        return log.end[1, n, m] >= 0.0
    return going.gradients[n, m] if n < len(going.inputs) - 1 else log.end[0, n, m] >= 0.0


@compiled(allocates=False)
def _start_transfers(now: float, flows: Flows, going: _Run, log: Log) -> tuple[bool, bool]:
    """Start a transfer in each idle channel that can; return whether one takes no time, and whether one uses a port."""
    again, changed = False, False
    for c in range(flows.channels):
        if going.waiting[c] == 0 or going.end[c] < np.inf:
            continue
        first, since = -1, np.inf
        for j in range(going.begin[c], going.begin[c + 1]):
            r = going.rows[j]
            if going.head[r] < going.tail[r] and going.ready[r, going.head[r]] < since:
                first, since = r, going.ready[r, going.head[r]]
        if first >= 0:
            m = going.queue[first, going.head[first]]
            going.head[first] += 1
            going.waiting[c] -= 1
            _start(c, first, m, now, flows, going)
            log.transfer_start[first, m] = now
            changed = changed or going.shares[first]
            again = again or going.end[c] <= now * (1.0 + INSTANT)
    return again, changed


@compiled(allocates=False)
def _share_ports(now: float, flows: Flows, going: _Run, room: FloatArray) -> None:
    """Set the speeds of all operations that use ports, and when these end at their speeds."""
    count = 0
    for k in range(going.used[0]):
        if going.end[k] < np.inf and going.shares[going.row[k]]:
            going.active[count] = k
            count += 1
    fair_speeds(going.active, count, going.row, flows.speed_load, going.new_speed, room)
    for j in range(count):
        k, speed = going.active[j], going.new_speed[j]
        if speed != going.speed[k]:
            going.remaining[k] = max(going.remaining[k] - (now - going.stamp[k]) * going.speed[k], 0.0)
            going.stamp[k], going.speed[k] = now, speed
            going.end[k] = now + going.remaining[k] / speed


@compiled
def warmed_up_orders(warmup: IntArray, M: int) -> Orders:
    """Orders in which stage n runs ``warmup[n]`` forward passes, then a backward and a forward pass in turns."""
    S, at = len(warmup), 0
    passes = np.empty(2 * S * M, dtype=np.int64)
    for n in range(S):
        ahead = warmup[n]
        for m in range(ahead):
            passes[at] = (n * M + m) * 4 + FORWARD
            at += 1
        for m in range(M):
            passes[at] = (n * M + m) * 4 + BACKWARD
            at += 1
            if ahead + m < M:
                passes[at] = (n * M + ahead + m) * 4 + FORWARD
                at += 1
    none = np.zeros(0, dtype=np.int64)
    return Orders(passes, np.arange(S + 1) * (2 * M), none, none)


@compiled(allocates=False)
def fair_speeds(
    active: IntArray, count: int, row: IntArray, load: FloatArray, speeds: FloatArray, room: FloatArray
) -> None:
    """Fill in max-min fair speeds of the first `count` machines in `active`; `room` has one number for each port."""
    for p in range(len(room)):
        room[p] = 1.0
    for j in range(count):
        speeds[j] = -1.0
    level, remaining = 0.0, count
    while remaining > 0:
        step = 1.0 - level
        for p in range(len(room)):
            share = _share(p, active, count, row, load, speeds)
            if share > 0.0 and share * step > room[p]:
                step = max(room[p], 0.0) / share
        level += step
        if level >= 1.0 - INSTANT:
            level = 1.0
        for p in range(len(room)):
            room[p] -= step * _share(p, active, count, row, load, speeds)
        for j in range(count):
            if speeds[j] < 0.0:
                full = level == 1.0
                for p in range(len(room)):
                    full = full or (load[row[active[j]], p] > 0.0 and room[p] <= INSTANT)
                if full:
                    speeds[j] = level
                    remaining -= 1


@compiled(allocates=False)
def _share(p: int, active: IntArray, count: int, row: IntArray, load: FloatArray, speeds: FloatArray) -> float:
    """Sum of the loads on a port of all machines whose speed is not set: how fast it fills as their speeds rise."""
    share = 0.0
    for j in range(count):
        if speeds[j] < 0.0:
            share += load[row[active[j]], p]
    return share
