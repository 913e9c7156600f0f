"""Compiled loops that prove bounds on placements: earliest starts, and longest groups and windows of nodes.

All times are integers with an upper limit, so that sums over all nodes stay below 2^62. The least time between the ends
of two nodes is -1 where they have to share a device.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import IntArray


class Side(NamedTuple):
    """Precedences in one direction of time: nodes in order, and the predecessors of each with least transfer times."""

    order: IntArray  # (n,)
    start: IntArray  # (n + 1,) the nodes before node v are before[start[v] : start[v + 1]]
    before: IntArray
    sends: IntArray  # least time of the transfer along each of these edges
    # Pause after the last of a device's nodes, which does not count: the node gap backwards in time, 0 forwards.
    spare: int


class Rows(NamedTuple):
    """For nodes that others still need: the nodes before each, and least times from their ends to its end.

    Rows are kept in slots, which are reused.
    """

    slot: IntArray  # (n,) of each node
    readers: IntArray  # (n,) how many nodes still read the row
    free: IntArray  # free slots, in the first places; the last number is their count
    size: IntArray  # (slots,) nodes in each
    member: IntArray  # (slots, n)
    near: IntArray  # (slots, n) least time on one device
    far: IntArray  # (slots, n) least time on two devices


@compiled
def raise_starts(
    side: Side,
    rows: Rows,
    begin: int,
    end: int,
    work: IntArray,
    rest: IntArray,
    group: IntArray,
    early: IntArray,
    late: IntArray,
    share: float,
    limit: int,
    ceiling: int,
) -> None:
    """Raise in place the earliest starts of the nodes `begin` to `end` - 1 of the order, and join their groups.

    `share` is slightly less than 1 / the capacity of all devices. Groups are joined for steps of at most `limit`; they
    are not if it is -1.
    """
    n = len(work)
    near, far, seen = np.empty(n, np.int64), np.empty(n, np.int64), np.full(n, -1, np.int64)
    for place in range(begin, end):
        v, size = side.order[place], 0
        member = np.empty(n, np.int64)
        for e in range(side.start[v], side.start[v + 1]):
            p = side.before[e]
            early[v] = max(early[v], min(ceiling, early[p] + work[p]))
            s, together = rows.slot[p], group[p] == group[v]
            for i in range(rows.size[s]):
                u, inner, best = rows.member[s, i], rows.near[s, i], rows.far[s, i]
                if not together:
                    crossing = min(ceiling, inner + side.sends[e])
                    best = crossing if best < 0 else min(best, crossing)
                if seen[u] != v:
                    seen[u], near[u], far[u] = v, inner, best
                    member[size] = u
                    size += 1
                else:
                    near[u] = max(near[u], inner)
                    far[u] = -1 if best < 0 or far[u] < 0 else max(far[u], best)
            rows.readers[p] -= 1
            if rows.readers[p] == 0:
                rows.free[rows.free[-1]] = s
                rows.free[-1] += 1
        if size > 0:
            early[v] = min(ceiling, _wait(side.spare, v, member[:size], far, work, rest, group, early, share))
        if limit >= 0:
            _join(v, member[:size], far, work, group, early, late, limit)
        if rows.readers[v] > 0:
            rows.free[-1] -= 1
            s = rows.free[rows.free[-1]]
            rows.slot[v], rows.size[s] = s, size + 1
            for i in range(size):
                u = member[i]
                rows.member[s, i], rows.near[s, i] = u, min(ceiling, near[u] + work[v])
                rows.far[s, i] = -1 if far[u] < 0 else min(ceiling, far[u] + work[v])
            rows.member[s, size], rows.near[s, size], rows.far[s, size] = v, 0, -1


@compiled
def _wait(
    spare: int,
    v: int,
    member: IntArray,
    far: IntArray,
    work: IntArray,
    rest: IntArray,
    group: IntArray,
    early: IntArray,
    share: float,
) -> int:
    """Earliest start of v after the nodes before it, for the best choice of those that run on its device."""
    size, start = len(member), early[v]
    by_start = member[np.argsort(early[member])]
    total = 0
    for i in range(size - 1, -1, -1):
        total += work[by_start[i]]
        start = max(start, early[by_start[i]] + int(total * share))
    arrival = np.empty(size, np.int64)  # of those that may be elsewhere
    elsewhere = 0
    for u in member:
        if far[u] >= 0 and group[u] == group[v]:
            far[u] = -1
    for u in member:
        if far[u] >= 0:
            arrival[elsewhere] = early[u] + work[u] + far[u]
            elsewhere += 1
    latest = np.sort(arrival[:elsewhere])[::-1]
    rank = np.full(size, -1, np.int64)  # in the order of starts; -1 for those that have to be with v
    by_arrival, arrival_rank = np.argsort(-arrival[:elsewhere]), np.empty(elsewhere, np.int64)
    for i in range(elsewhere):
        arrival_rank[by_arrival[i]] = i
    place, number = np.full(len(far), -1, np.int64), 0
    for u in member:
        if far[u] >= 0:
            place[u] = arrival_rank[number]
            number += 1
    for i in range(size):
        rank[i] = place[by_start[i]]
    low, high = 0, elsewhere  # how many more are with v
    while low < high:
        middle = (low + high) // 2
        if _through(spare, rest[v], by_start, rank, middle, work, rest, early) >= latest[middle]:
            high = middle
        else:
            low = middle + 1
    best = _through(spare, rest[v], by_start, rank, low, work, rest, early)
    if low < elsewhere:
        best = max(best, latest[low])
    if low > 0:
        fewer = _through(spare, rest[v], by_start, rank, low - 1, work, rest, early)
        best = min(best, max(fewer, latest[low - 1]))
    return max(start, best)


@compiled
def _through(
    spare: int,
    rest_of_node: int,
    by_start: IntArray,
    rank: IntArray,
    count: int,
    work: IntArray,
    rest: IntArray,
    early: IntArray,
) -> int:
    """Earliest end if one device runs the nodes of `by_start` whose rank is below `count`, by their earliest starts."""
    time, none = 0, True
    for i in range(len(by_start)):
        if rank[i] < count:
            u = by_start[i]
            time, none = max(time, early[u]) + work[u] + rest[u], False
    return time if none or spare == 0 else time - (spare - rest_of_node)


@compiled
def _join(
    v: int,
    member: IntArray,
    far: IntArray,
    work: IntArray,
    group: IntArray,
    early: IntArray,
    late: IntArray,
    limit: int,
) -> None:
    """Join with the group of v, in place, the groups of nodes before v that would be too late on another device."""
    for u in member:
        if far[u] >= 0 and early[u] + work[u] + far[u] + work[v] + late[v] > limit:
            old, new = group[u], group[v]
            for w in range(len(group)):
                if group[w] == old:
                    group[w] = new


@compiled
def longest_group(nodes: IntArray, work: IntArray, rest: IntArray, early: IntArray, late: IntArray) -> int:
    """Largest lower bound from a set of these nodes on one device: earliest start, work and pauses, least time after.

    `nodes` are in the order of falling earliest starts.
    """
    best = 0
    for last in nodes:
        total = 0
        for v in nodes:
            if late[v] >= late[last]:
                total += work[v] + rest[v]
                best = max(best, early[v] + total + late[last])
    return best


@compiled
def longest_window(nodes: IntArray, work: IntArray, early: IntArray, late: IntArray, share: float) -> int:
    """Largest lower bound from a set of these nodes on all devices: earliest start, work by `share`, least time after.

    `nodes` are in the order of falling earliest starts.
    """
    best = 0
    for last in nodes:
        total = 0
        for v in nodes:
            if late[v] >= late[last]:
                total += work[v]
                best = max(best, early[v] + int(total * share) + late[last])
    return best
