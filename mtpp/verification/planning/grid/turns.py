r"""The bound *turns-grid*, proved a second time: no groups below a time hold all layers.

With v turns on each of S groups, group g begins with :math:`(v - 1) S + 2 (S - g) - 1` forward passes in Megatron-LM's
order, S of each turn but the last. S divides M, so that it keeps at least h = min(S, 2 (S - g) - 1) microbatches of all
its layers. It runs M times both passes of these, between g passes of other groups each way, which have a layer or more.
For each S and each degree the most equal layers of a group below the time are counted, and the counts of groups are
added up over the devices of a pipeline. The first group has also what comes before the equal layers, the last one what
comes after them.
"""

from __future__ import annotations

import math

from mtpp.verification.clock import Clock
from mtpp.verification.planning.grid.bounds import Setting

__all__ = ["has_ends", "may_hold"]


def has_ends(setting: Setting) -> bool:
    """Whether all layers but the first and the last are equal."""
    return setting.chain.n >= 4 and len(set(setting.kind[1:-1])) == 1


def may_hold(setting: Setting, ceiling: float, clock: Clock) -> bool:
    """Whether groups of this setting could hold all layers below a time."""
    equal, K, M = setting.chain.n - 2, setting.K, setting.M
    fixed = setting.question.fixed.pp
    lead = min(setting.both(layer) for layer in range(setting.chain.n))
    inner = min(setting.both(1), setting.both(setting.chain.n - 2))
    for S in range(1, min(equal, K) + 1):
        if M % S or fixed not in (None, S):
            continue
        most: dict[int, int] = {0: 0}  # layers by devices
        for g in range(S - 1, -1, -1):
            clock.raise_if_late()
            rest = ceiling - (lead + (g - 1) * inner if g else 0.0)
            held = min(S, 2 * (S - g) - 1)
            counts = {t: _layers(setting, t, g, S, held, rest / M) for t in setting.tensor}
            after: dict[int, int] = {}
            for used, layers in most.items():
                for t, count in counts.items():
                    if count and used + t <= K:
                        after[used + t] = max(after.get(used + t, 0), layers + count)
            most = after
        if max(most.values(), default=-math.inf) >= equal:
            return True
    return False


def _layers(setting: Setting, t: int, g: int, S: int, held: int, most: float) -> int:
    """Most equal layers of group g whose passes of a microbatch take less than `most`."""
    L = setting.chain.n
    equal = L - 2
    count = 0
    while count < equal:
        first, end = {True: (0, count + 2), False: (1, count + 2)}[g == 0]
        if g == S - 1:
            first, end = (0, L) if S == 1 else (L - 2 - count, L)
        time = setting.passes(t, first, end, held)
        if time is None or time >= most:
            break
        if S == 1:
            return equal
        count += 1
    return count
