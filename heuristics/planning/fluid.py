"""The simulator of shared ports, compiled: `instances.planning.simulation` in floats.

Times within 1e-12 of each other, as a part of the time since the start, are one instant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.flows import BACKWARD, FORWARD, INPUT, WEIGHTS, Flows

__all__ = ["Log", "Orders", "run"]

_INSTANT = 1e-12


class Orders(NamedTuple):
    """Passes of each group, one after the other: ``(stage M + microbatch) 4 + kind``."""

    passes: IntArray  # (n,)
    begin: IntArray  # (G + 1,): where each group begins

    # Instead of lists, limits: a group with one stage takes what is ready of I, F and W, in this order of priority, F
    # only while fewer F than these are ahead of I and of W. Empty if the lists hold.
    ahead_of_input: IntArray  # (S,) or (0,)
    ahead_of_weights: IntArray  # (S,) or (0,)


class Log(NamedTuple):
    """Start and end of what has run, -1 where nothing has [s]; and in which order the groups took their passes."""

    start: FloatArray  # (3, S, M): forward passes, backward passes or their first parts, their second parts
    end: FloatArray
    transfer_start: FloatArray  # (2 S - 2, M)
    transfer_end: FloatArray
    allreduce_start: FloatArray  # (S,)
    allreduce_end: FloatArray
    taken: IntArray  # (n,): as `Orders.passes`

    @classmethod
    def of(cls, stages: int, microbatches: int) -> Log:
        """Room for a run."""
        return _log(stages, microbatches)


@compiled
def _log(S: int, M: int) -> Log:
    return Log(
        np.full((3, S, M), -1.0),
        np.full((3, S, M), -1.0),
        np.full((2 * S - 2, M), -1.0),
        np.full((2 * S - 2, M), -1.0),
        np.full(S, -1.0),
        np.full(S, -1.0),
        np.full(3 * S * M, -1, dtype=np.int64),
    )


@compiled
def _fair_speeds(rows: IntArray, count: int, load: FloatArray, speeds: FloatArray) -> None:
    """Fill in max-min fair speeds of the first `count` operations, whose rows of loads are given."""
    P = load.shape[1]
    free = np.ones(count, dtype=np.bool_)
    room, share = np.ones(P), np.zeros(P)
    level, left = 0.0, count
    while left > 0:
        step = 1.0 - level
        for p in range(P):
            share[p] = 0.0
            for j in range(count):
                if free[j]:
                    share[p] += load[rows[j], p]
            if share[p] * step > room[p]:
                step = room[p] / share[p]
        level += step
        if level >= 1.0 - _INSTANT:
            level = 1.0
        for p in range(P):
            room[p] -= step * share[p]
        for j in range(count):
            if free[j]:
                full = level == 1.0
                for p in range(P):
                    full = full or (load[rows[j], p] > 0.0 and room[p] <= _INSTANT)
                if full:
                    free[j] = False
                    speeds[j] = level
                    left -= 1


@compiled
def _can_start(kind: int, n: int, m: int, here: np.ndarray, log: Log) -> bool:
    if kind == FORWARD:
        return here[0, n, m]
    if kind == WEIGHTS:
        return log.end[1, n, m] >= 0.0
    return here[1, n, m] if n < here.shape[1] - 1 else log.end[0, n, m] >= 0.0


@compiled
def _push(row: int, m: int, now: float, queue: IntArray, ready: FloatArray, tail: IntArray) -> None:
    """Queue a transfer: by time, then by microbatch."""
    at = tail[row]
    while at > 0 and ready[row, at - 1] == now and queue[row, at - 1] > m:
        queue[row, at], ready[row, at] = queue[row, at - 1], ready[row, at - 1]
        at -= 1
    queue[row, at], ready[row, at] = m, now
    tail[row] += 1


@compiled
def _next_pass(
    g: int, n: int, orders: Orders, place: IntArray, counts: IntArray, here: np.ndarray, log: Log, M: int
) -> int:
    """The pass that an idle group starts now, -1 if there is none."""
    if len(orders.ahead_of_input) == 0:
        at = orders.begin[g] + place[g]
        if at == orders.begin[g + 1]:
            return -1
        kind, rest = orders.passes[at] % 4, orders.passes[at] // 4
        return orders.passes[at] if _can_start(kind, rest // M, rest % M, here, log) else -1
    f, i, w = counts[0, n], counts[1, n], counts[2, n]
    if i < M and _can_start(INPUT, n, i, here, log):
        return (n * M + i) * 4 + INPUT
    if f < M and f - i < orders.ahead_of_input[n] and f - w < orders.ahead_of_weights[n] and here[0, n, f]:
        return (n * M + f) * 4 + FORWARD
    if w < M and _can_start(WEIGHTS, n, w, here, log):
        return (n * M + w) * 4 + WEIGHTS
    return -1


@compiled
def run(flows: Flows, orders: Orders, M: int, log: Log, limit: float) -> float:
    """Run an iteration; fill in the log, and return the makespan.

    It is infinite if groups wait for each other for ever, or as soon as the time exceeds `limit`.
    """
    passes, alone, load, group, channel, C = flows
    S, G = len(group), len(orders.begin) - 1
    stage_of = np.zeros(G, dtype=np.int64)
    for n in range(S - 1, -1, -1):
        stage_of[group[n]] = n
    here = np.zeros((2, S, M), dtype=np.bool_)
    here[0, 0] = True
    queue, ready = np.zeros((2 * S - 2, M), dtype=np.int64), np.zeros((2 * S - 2, M))
    head, tail = np.zeros(2 * S - 2, dtype=np.int64), np.zeros(2 * S - 2, dtype=np.int64)
    place, counts, finished = np.zeros(G, dtype=np.int64), np.zeros((3, S), dtype=np.int64), np.zeros(S, dtype=np.int64)
    group_end, group_pass = np.full(G, np.inf), np.full(G, -1, dtype=np.int64)
    # Operations that may share ports: channels, then AllReduces.
    flow_end, left, speed = np.full(C + S, np.inf), np.zeros(C + S), np.ones(C + S)
    stamp, row, microbatch = np.zeros(C + S), np.full(C + S, -1, dtype=np.int64), np.zeros(C + S, dtype=np.int64)
    active, rows, speeds = np.zeros(C + S, dtype=np.int64), np.zeros(C + S, dtype=np.int64), np.ones(C + S)
    shares = np.zeros(3 * S - 2, dtype=np.bool_)
    for r in range(3 * S - 2):
        for p in range(load.shape[1]):
            shares[r] = shares[r] or load[r, p] > 0.0
    total = orders.begin[G] if len(orders.ahead_of_input) == 0 else 3 * S * M
    now, makespan, done = 0.0, 0.0, 0
    while now < np.inf:
        if now > limit:
            return np.inf
        changed, again = False, True
        while again:
            latest = now * (1.0 + _INSTANT)
            for g in range(G):
                if group_end[g] <= latest:
                    group_end[g] = np.inf
                    done += 1
                    kind, rest = group_pass[g] % 4, group_pass[g] // 4
                    n, m = rest // M, rest % M
                    log.end[0 if kind == FORWARD else 2 if kind == WEIGHTS else 1, n, m] = now
                    makespan = now
                    sends = n if kind == FORWARD else S - 2 + n
                    if (kind == FORWARD and n < S - 1) or (kind in (BACKWARD, INPUT) and n > 0):
                        if channel[sends] >= 0:
                            _push(sends, m, now, queue, ready, tail)
                        else:
                            log.transfer_start[sends, m] = log.transfer_end[sends, m] = now
                            here[0 if kind == FORWARD else 1, n + 1 if kind == FORWARD else n - 1, m] = True
                    if kind in (BACKWARD, WEIGHTS):
                        finished[n] += 1
                        if finished[n] == M:
                            k = C + n
                            row[k], left[k], stamp[k], speed[k] = 2 * S - 2 + n, alone[2 * S - 2 + n], now, 1.0
                            flow_end[k] = now + left[k]
                            log.allreduce_start[n] = now
                            changed = changed or shares[row[k]]
            for k in range(C + S):
                if flow_end[k] <= latest:
                    flow_end[k] = np.inf
                    makespan = now
                    changed = changed or shares[row[k]]
                    if k >= C:
                        log.allreduce_end[k - C] = now
                    else:
                        log.transfer_end[row[k], microbatch[k]] = now
                        forth = row[k] < S - 1
                        here[0 if forth else 1, row[k] + 1 if forth else row[k] - (S - 1), microbatch[k]] = True
            again = False
            for g in range(G):
                if group_end[g] < np.inf:
                    continue
                one = _next_pass(g, stage_of[g], orders, place, counts, here, log, M)
                if one >= 0:
                    kind, rest = one % 4, one // 4
                    n = rest // M
                    kept = 0 if kind == FORWARD else 2 if kind == WEIGHTS else 1
                    log.start[kept, n, rest % M] = now
                    if len(orders.ahead_of_input):
                        log.taken[(3 * M) * g + place[g]] = one
                    place[g] += 1
                    counts[kept, n] += 1
                    group_pass[g], group_end[g] = one, now + passes[kind, n]
                    again = again or group_end[g] <= latest
            for c in range(C):
                if flow_end[c] < np.inf:
                    continue
                first = -1
                for r in range(2 * S - 2):
                    if channel[r] != c or head[r] == tail[r]:
                        continue
                    if first < 0 or ready[r, head[r]] < ready[first, head[first]]:
                        first = r
                if first >= 0:
                    row[c], microbatch[c] = first, queue[first, head[first]]
                    head[first] += 1
                    left[c], stamp[c], speed[c], flow_end[c] = alone[first], now, 1.0, now + alone[first]
                    log.transfer_start[first, microbatch[c]] = now
                    changed = changed or shares[first]
                    again = again or flow_end[c] <= latest
        if changed:
            count = 0
            for k in range(C + S):
                if flow_end[k] < np.inf and shares[row[k]]:
                    active[count], rows[count] = k, row[k]
                    count += 1
            _fair_speeds(rows, count, load, speeds)
            for j in range(count):
                k = active[j]
                if speeds[j] != speed[k]:
                    left[k] = max(left[k] - (now - stamp[k]) * speed[k], 0.0)
                    stamp[k], speed[k] = now, speeds[j]
                    flow_end[k] = now + left[k] / speeds[j]
        now = np.inf
        for g in range(G):
            now = min(now, group_end[g])
        for k in range(C + S):
            now = min(now, flow_end[k])
    return makespan if done == total else np.inf
