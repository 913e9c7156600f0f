r"""Probing: assume that two nodes share a device, or do not, and try to refute one of both.

Suppose that nodes u and v share a device, or that they do not. Where one of the two is refuted, the other one holds.
`mtpp_models.placement.bounds` refutes, and the order on a device: nodes that share one run in an order that leaves
time for both with their heads and tails, which raises these where only one order does. If u is before v on another
device, then at least L(u, v) passes between them, and P may be that. What a trial shows makes others show more, so
trials go on until none does. Source: shaving, Martin and Shmoys, "A new approach to computing optimal schedules for
the job-shop scheduling problem", 1996.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from mtpp_models.placement.bounds import ROUNDING, Shared, share_more

__all__ = ["probe_sharing"]


def probe_sharing(known: Shared, deadline: Deadline) -> Shared:
    """Probe pairs of nodes, together and apart, while there is time; return all facts found."""
    known, changed = _settled(known, deadline), True
    while changed and not known.refuted:
        changed = False
        for u, v in combinations(known.heads.instance.graph.topological_order.tolist(), 2):
            if deadline.passed or known.refuted:
                return known
            if known.device[u] == known.device[v] or known.apart[u, v]:
                continue
            together, apart = (_settled(suppose(known, u, v), deadline) for suppose in (_together, _apart))
            if together.refuted or apart.refuted:
                known, changed = apart if together.refuted else together, True
    return known


def _together(known: Shared, u: int, v: int) -> Shared:
    """Assume that u and v share a device."""
    return replace(known, device=np.where(known.device == known.device[u], known.device[v], known.device))


def _apart(known: Shared, u: int, v: int) -> Shared:
    """Assume that u and v do not share a device."""
    known = known.copied()
    known.apart[u, v] = known.apart[v, u] = True
    return known


def _settled(known: Shared, deadline: Deadline) -> Shared:
    """Derive all consequences."""
    known = share_more(known, deadline)
    while not known.refuted and not deadline.passed:
        heads, before = known.heads, known.heads.head.sum() + known.heads.tail.sum()
        rest, limit = np.where(heads.work > 0, float(heads.instance.node_gap), 0.0), known.horizon * (1 + ROUNDING)
        forward, backward = known.passes.forward, known.passes.backward
        for way, found in (forward, heads.head), (backward, heads.tail):
            if not _keep_apart(known.device, known.apart, way.between, way.apart):
                return replace(known, refuted=True)
            np.maximum(found, (way.between + (found + heads.work)).max(axis=1), out=found)
        if not _keep_order(heads.head, heads.tail, heads.work, rest, known.device, limit):
            return replace(known, refuted=True)
        known = share_more(known, deadline)
        if known.heads.head.sum() + known.heads.tail.sum() <= before + ROUNDING * limit:
            break
    return known


@compiled
def _keep_apart(device: IntArray, is_apart: NDArray[np.bool_], between: FloatArray, apart: FloatArray) -> bool:
    """Extend pairs that are apart to all nodes of both devices, and raise P to L; false if contradictory."""
    for u in range(len(device)):
        for v in range(u):
            if is_apart[u, v]:
                if device[u] == device[v]:
                    return False
                for a in range(len(device)):
                    for b in range(len(device)):
                        if device[a] == device[u] and device[b] == device[v]:
                            is_apart[a, b] = is_apart[b, a] = True
    for u in range(len(device)):
        for v in range(len(device)):
            if is_apart[u, v]:
                between[u, v] = max(between[u, v], apart[u, v])
    return True


@compiled
def _keep_order(
    head: FloatArray, tail: FloatArray, work: FloatArray, rest: FloatArray, device: IntArray, limit: float
) -> bool:
    """Raise heads and tails by orders that are the only ones; return whether every pair on one device has an order."""
    for u in range(len(head)):
        for v in range(len(head)):
            if u == v or device[u] != device[v]:
                continue
            if head[u] + work[u] + rest[u] + work[v] + tail[v] > limit:  # so v is first
                head[u] = max(head[u], head[v] + work[v] + rest[v])
                tail[v] = max(tail[v], rest[v] + work[u] + tail[u])
                if head[v] + work[v] + tail[v] > limit or head[u] + work[u] + tail[u] > limit:
                    return False
    return True
