r"""The bound *turns-grid*, proved a second time: no groups below a time hold all layers.

With v ≥ 2 turns on each of S groups, group g begins with :math:`(v - 1) S + 2 (S - g) - 1` forward passes in
Megatron-LM's order, or with all. S divides M, so that just before its first backward pass it keeps S microbatches of
all its layers but those of its last turn, and h = min(S, 2 (S - g) - 1) of these.

- It runs M times both passes of its layers. Before them the first microbatch passes g groups, after them the last one
  does, on its way back, and then what follows the last backward pass of the first layer takes its time.
- If h < S, it has run S forward passes of all its layers before the first backward one, but only h of the last turn.
  That one needs all forward passes of the first microbatch, and the backward passes of the groups after it.

Layers between the first and the last that differ count as `equalised`: a plan keeps its orders and takes no longer.
Other groups have a layer or more in each turn, group 0 what comes before the equal layers in the first turn, the last
group what comes after them in the last turn. The second fact says how many layers the last turn can have at most, the
others then keep S microbatches. For each S, each largest degree and each degree the most equal layers of a group below
the time are counted, and the counts of groups, one of which has the largest degree, are added up over the devices of a
pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from instances.planning.grid.configurations import NONE, Configuration, ConfiguredChain
from mtpp.verification.clock import Clock
from mtpp.verification.planning.grid.bounds import Setting

__all__ = ["equalised", "may_hold"]

_NUMBERS = [one.name for one in fields(Configuration) if one.name not in ("tp", "cp", "ep", "recompute")]


def equalised(chain: ConfiguredChain) -> ConfiguredChain:
    """Chain with one kind of layers between the ends: of each way to run one the least numbers that any layer has."""
    found: dict[tuple[object, str], list[Configuration]] = {}
    for layer in chain.layers[1:-1]:
        for one in layer.configurations:
            found.setdefault((one.degrees, one.recompute), []).append(one)
    ways = []
    for (degrees, _), same in found.items():
        numbers = {name: min(getattr(one, name) for one in same) for name in _NUMBERS}
        numbers["forward"] = min(one.forward for one in found[degrees, NONE])
        ways.append(replace(same[0], **numbers))
    middle = replace(chain.layers[1], kind="equal", configurations=tuple(ways))
    return replace(chain, layers=(chain.layers[0], *[middle] * (chain.n - 2), chain.layers[-1]))


def may_hold(setting: Setting, ceiling: float, clock: Clock) -> bool:
    """Whether groups of this setting could hold all layers below a time."""
    fixed, K, M = setting.question.fixed.pp, setting.K, setting.M
    for number in range(len(setting.tensor)):
        others = _Others.of(setting, setting.tensor[: number + 1])
        for S in range(2, min(setting.chain.n // 2, K) + 1):
            if M % S == 0 and fixed in (None, S) and _groups_hold(setting, others, S, ceiling, clock):
                return True
    return False


@dataclass(frozen=True)
class _Others:
    """Least times of single layers, the first, an equal one and the last, for some degrees."""

    tensor: Sequence[int]
    forward: tuple[float, float, float]
    backward: tuple[float, float, float]
    both: tuple[float, float, float]
    transfer: float
    after: float

    @classmethod
    def of(cls, setting: Setting, tensor: Sequence[int]) -> _Others:
        places = (0, 1, setting.chain.n - 1)

        def least(*parts: int) -> tuple[float, float, float]:
            first, inner, last = (min(sum(setting.layer(t, i)[p] for p in parts) for t in tensor) for i in places)
            return first, inner, last

        moved = [setting.sent(t, i) for t in tensor for i in range(setting.chain.n - 1)]
        return cls(tensor, least(0), least(1), least(0, 1), min(moved), min(setting.after(t, 0, 1) for t in tensor))


def _groups_hold(setting: Setting, others: _Others, S: int, ceiling: float, clock: Clock) -> bool:
    """Whether S groups could hold all layers below a time."""
    largest, most = max(others.tensor), {(0, False): 0}  # layers by devices, and whether a group has the largest degree
    for g in range(S - 1, -1, -1):
        clock.raise_if_late()
        counts = {t: _layers(setting, others, t, g, S, ceiling) for t in others.tensor}
        after: dict[tuple[int, bool], int] = {}
        for (used, met), layers in most.items():
            for t, count in counts.items():
                key = used + t, met or t == largest
                if count and key[0] <= setting.K:
                    after[key] = max(after.get(key, 0), layers + count)
        most = after
    return max((layers for (_, met), layers in most.items() if met), default=-math.inf) >= setting.chain.n - 2


def _layers(setting: Setting, others: _Others, t: int, g: int, S: int, ceiling: float) -> int:
    """Most equal layers of group g of S below a time."""
    L, M, h, found = setting.chain.n, setting.M, min(S, 2 * (S - g) - 1), 0
    end = g == S - 1
    ways = others.after + (others.both[0] + (g - 1) * others.both[1] + 2 * g * others.transfer if g else 0.0)
    for count in range(1, L - 1):
        own = (0, count + 1) if g == 0 else (L - 1 - count, L) if end else (1, count + 1)
        time = setting.passes(t, *own, h)
        if time is None or M * time + ways >= ceiling:
            break
        if h < S:
            last = _last_turn(setting, others, t, g, S, ceiling, count, time)
            if last is None:
                continue
            early = setting.passes(t, 1, 1 + count - last, S)
            late = last * sum(setting.layer(t, 1)) + end * sum(setting.layer(t, L - 1))
            if early is None or M * (early + late) + ways >= ceiling:
                continue
        found = count
    return found


def _last_turn(
    setting: Setting, others: _Others, t: int, g: int, S: int, ceiling: float, count: int, time: float
) -> int | None:
    """Most equal layers in the last turn of group g, which holds `count` in all; None if none is below the time."""
    L, h, end = setting.chain.n, 2 * (S - g) - 1, g == S - 1
    own = (L - 1 - count, L) if end else (1, count + 1)
    forward, backward = others.forward, others.backward
    lead = forward[0] + (L - 2 - count) * forward[1] + count * setting.layer(t, 1)[0] + forward[2]
    lead += (3 * S - 2) * others.transfer + others.after + backward[0] + (g - 1) * backward[1]
    lead += 0.0 if end else backward[2] + (S - g - 2) * backward[1]
    lead += (S - h) * setting.layer(t, L - 1)[0] if end else 0.0
    left = ceiling - lead - setting.M * time + S * setting.forward(t, *own)
    step = (S - h) * setting.layer(t, 1)[0]
    if left < (0.0 if end else step):
        return None
    return count - 1 if step == 0 else min(count - 1, math.floor(left / step))
