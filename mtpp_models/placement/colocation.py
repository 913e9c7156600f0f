r"""Bounds by nodes that must share a device in any step that is short enough.

Suppose that a step takes T. Nodes u before v with :math:`e_u + w_u + L(u, v) + w_v + q_v > T` (see
`mtpp_models.placement.heads`) are on one device. So are all that are linked by such pairs. That raises L, where a path
cannot cross between them; so heads and tails, as nodes that share a device run one after the other; and so there are
more such pairs. No step takes T if in the end a node takes longer with its head and tail, if some nodes of one device
do, released at their heads and with the rest of a step behind them (Jackson's bound), if a window or an interval of
`windows` and `energetic` is too full.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from instances import Bound
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from mtpp_models.placement.energetic import energetic_excess
from mtpp_models.placement.heads import ROUNDING, Heads, Passes, own_devices, pass_over
from mtpp_models.placement.windows import window_bound

__all__ = ["COLOCATION", "Shared", "colocation_bound", "share_devices", "share_more"]

COLOCATION = "colocation"

# With more nodes each pass takes long, and finds little.
_MOST_NODES = 300
# Steps of halving what is open.
_HALVINGS = 12
# Passes in each direction for one time; each may raise heads a little.
_MOST_PASSES = 30


@dataclass(frozen=True, eq=False)
class Shared:
    """Facts about every placement whose step takes at most `horizon`."""

    horizon: float
    heads: Heads  # as early as nodes can start then
    device: IntArray  # (n,) nodes with equal numbers are on one device
    apart: NDArray[np.bool_]  # (n, n) whether nodes are known to be on different devices
    passes: Passes  # with P and L
    refuted: bool  # whether there is none
    interval: list[float] | None  # the one that is too full, if that refutes it

    def copied(self) -> Shared:
        """Copy all arrays that may change."""
        ways = [
            way._replace(between=way.between.copy(), apart=way.apart.copy())
            for way in (self.passes.forward, self.passes.backward)
        ]
        return replace(
            self,
            heads=replace(self.heads, head=self.heads.head.copy(), tail=self.heads.tail.copy()),
            device=self.device.copy(),
            apart=self.apart.copy(),
            passes=self.passes._replace(forward=ways[0], backward=ways[1]),
        )


def colocation_bound(heads: Heads, least: Bound, ceiling: float, deadline: Deadline) -> Bound:
    """The largest time that is refuted; parameters as for `energetic_bound`."""
    low, high, best = least.value, ceiling, least
    if len(heads.work) > _MOST_NODES:
        return best
    for _ in range(_HALVINGS):
        if deadline.passed or not low < high * (1 - ROUNDING):
            break
        time = (low + high) / 2
        shared = share_devices(heads, time, deadline)
        if shared.refuted:
            low = time
            interval = {} if shared.interval is None else {"interval": shared.interval}
            best = Bound(time * (1 - ROUNDING), COLOCATION, False, {**heads.witness, "horizon": time, **interval})
        else:
            high = time
    return best


def share_devices(heads: Heads, horizon: float, deadline: Deadline) -> Shared:
    """Find nodes that share a device in any step of at most `horizon`, until the deadline."""
    n, passes = heads.instance.graph.n, Passes.of(heads.instance)
    known = Shared(
        horizon=horizon,
        heads=heads,
        device=own_devices(heads.instance),
        apart=np.zeros((n, n), dtype=np.bool_),
        passes=passes._replace(forward=passes.forward.with_tables(), backward=passes.backward.with_tables()),
        refuted=False,
        interval=None,
    )
    return share_more(known, deadline)


def share_more(known: Shared, deadline: Deadline) -> Shared:
    """Derive further facts from known ones, which are left unchanged."""
    limit, known = known.horizon * (1 + ROUNDING), known.copied()
    heads, device, passes = known.heads, known.device, known.passes
    head, tail = heads.head, heads.tail
    for _ in range(_MOST_PASSES):
        before = head.sum() + tail.sum()
        joined = pass_over(passes, passes.forward, head, tail, device, limit)
        again = joined if joined < 0 else pass_over(passes, passes.backward, tail, head, device, limit)
        if again < 0 or _is_too_full(known.heads, device, limit):
            return replace(known, refuted=True)
        excess, *interval = energetic_excess(known.heads, limit)
        if excess > ROUNDING * limit:
            return replace(known, refuted=True, interval=interval)
        if deadline.passed or (joined + again == 0 and head.sum() + tail.sum() == before):
            break
    return known


def _is_too_full(heads: Heads, device: IntArray, limit: float) -> bool:
    """Whether nodes of one device or a window take longer than the limit."""
    gap = float(heads.instance.node_gap)
    rest = np.where(heads.work > 0, gap, 0.0)
    longest = _longest(heads.head, heads.tail, heads.work + rest, device) - gap
    return longest > limit or window_bound(heads).value > limit


@compiled
def _longest(head: FloatArray, tail: FloatArray, takes: FloatArray, device: IntArray) -> float:
    """The most that some nodes of one device take with the least head and the least tail among them."""
    late, best = np.argsort(-head), 0.0
    for v in range(len(head)):
        total = 0.0
        for u in late:
            if device[u] == device[v] and tail[u] >= tail[v]:
                total += takes[u]
                best = max(best, head[u] + total + tail[v])
    return best
