"""Time of a step: passes in their order, transfers as they become ready.

At each instant all that is due ends; then each idle group starts the next pass of its order if its input is there; then
each idle channel starts the transfer that has been ready for longest, of several one forward, of the lowest stage, of
the lowest microbatch. What follows the last backward pass of a stage disturbs nothing. Times within 1e-12 of each
other, as a part of the time since the start, are one instant. `instances.planning.simulation` is the same, slow and
exact, with shared network cards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray

__all__ = ["Passes", "step_time"]

_INSTANT = 1e-12


class Passes(NamedTuple):
    """Durations of a plan with C stages on S groups."""

    forward: FloatArray  # (C,): of a microbatch [s]
    backward: FloatArray  # (C,) [s]
    transfer: FloatArray  # (C - 1,): to the next stage, and as long back [s]
    after: FloatArray  # (C,): what follows the last backward pass [s]
    channel: IntArray  # (2 C - 2,): machine of each transfer forward, then of each one back
    channels: int  # number of machines


@compiled
def step_time(passes: Passes, orders: IntArray, M: int, starts: FloatArray, sent: FloatArray, limit: float) -> float:
    """Run a step; infinite if groups wait for each other for ever, or the time exceeds `limit`.

    Parameters
    ----------
    passes : Passes
    orders : (S, 2 C M / S) integers
        As `one_forward_one_backward` makes them.
    M : int
        Microbatches of a pipeline.
    starts : (2 C, M) floats
        Receives the start of each forward pass of stage n in row 2 n and of each backward pass in row 2 n + 1 [s].
    sent : (2 C - 2, M) floats
        Receives the start of each transfer [s].
    limit : float
    """
    C, (S, length) = len(passes.forward), orders.shape
    room = 2 * M * (C if S == 2 else C // S + 1)  # rows that share a channel
    place = np.zeros(S, dtype=np.int64)
    group_end = np.full(S, np.inf)
    channel_end = np.full(max(1, passes.channels), np.inf)
    working = np.zeros(max(1, passes.channels), dtype=np.int64)
    there = np.zeros((2 * C, M), dtype=np.bool_)
    there[0] = True
    ready = np.full((max(1, 2 * C - 2), M), np.inf)
    waiting = np.zeros((max(1, passes.channels), room), dtype=np.int64)
    count = np.zeros(max(1, passes.channels), dtype=np.int64)
    left = np.full(C, M)
    now, latest = 0.0, 0.0
    while now < np.inf:
        if now > limit:
            return np.inf
        moved = True
        while moved:
            moved = False
            due = now + _INSTANT * now
            for g in range(S):
                if group_end[g] <= due:
                    group_end[g] = np.inf
                    row, m = divmod(orders[g, place[g] - 1], M)
                    n = row // 2
                    moved = True
                    if row % 2 == 1:
                        left[n] -= 1
                        latest = max(latest, now + passes.after[n] if left[n] == 0 else now)
                    elif n == C - 1:
                        there[row + 1, m] = True
                    out = n if row % 2 == 0 and n < C - 1 else C - 2 + n if row % 2 == 1 and n > 0 else -1
                    if out >= 0:
                        c = passes.channel[out]
                        ready[out, m] = now
                        waiting[c, count[c]] = out * M + m
                        count[c] += 1
            for c in range(passes.channels):
                if channel_end[c] <= due:
                    channel_end[c] = np.inf
                    out, m = divmod(working[c], M)
                    there[2 * (out + 1) if out < C - 1 else 2 * (out - C + 1) + 1, m] = True
                    moved = True
            for g in range(S):
                if group_end[g] == np.inf and place[g] < length:
                    row, m = divmod(orders[g, place[g]], M)
                    if there[row, m]:
                        starts[row, m] = now
                        group_end[g] = now + (passes.forward[row // 2] if row % 2 == 0 else passes.backward[row // 2])
                        place[g] += 1
                        moved = moved or group_end[g] <= due
            for c in range(passes.channels):
                if channel_end[c] == np.inf and count[c] > 0:
                    best = 0
                    for i in range(1, count[c]):
                        one, other = waiting[c, i], waiting[c, best]
                        a, b = ready[one // M, one % M], ready[other // M, other % M]
                        if a < b or (a == b and one < other):
                            best = i
                    working[c] = waiting[c, best]
                    count[c] -= 1
                    waiting[c, best] = waiting[c, count[c]]
                    out, m = divmod(working[c], M)
                    sent[out, m] = now
                    channel_end[c] = now + passes.transfer[out if out < C - 1 else out - C + 1]
                    moved = moved or channel_end[c] <= due
        now = np.inf
        for g in range(S):
            now = min(now, group_end[g])
        for c in range(passes.channels):
            now = min(now, channel_end[c])
    for n in range(C):
        if left[n] > 0:
            return np.inf
    return latest
