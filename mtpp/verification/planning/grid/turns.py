r"""The bound *turns-grid*, proved a second time: no groups below a time hold all layers.

With v ≥ 2 turns on each of S groups, group g begins with :math:`(v - 1) S + 2 (S - g) - 1` forward passes in
Megatron-LM's order, or with all. S divides M, so that just before its first backward pass it keeps S microbatches of
all its layers but those of its last turn, and h = min(S, 2 (S - g) - 1) of these.

- It runs M times both passes of its layers, of time τ. Before them the first microbatch passes g groups, after them
  the last one does, on its way back, and then what follows the last backward pass of the first layer takes its time.
- If h < S, or M = S, it has run S forward passes of all its layers before the first backward one, but only h of the
  last turn. That one needs all forward passes of the first microbatch, and the backward passes of the stages after it.
  When the last microbatch is back from that turn, the backward passes of all other turns are left, S of each, and those
  of the stages before it. So all stages of one microbatch, :math:`(M - S) τ`, S - h forward and S - 1 backward passes
  of the last turn follow one another, and all transfers of a microbatch.
- If M = S, a microbatch comes back to any stage, S - 1 others do after it, and the last goes on: all stages of one
  microbatch, and S - 1 backward passes of the longest stage, which is no shorter than all by their number.

Layers between the first and the last that differ count as `equalised`: a plan keeps its orders and takes no longer.
Other groups have a layer or more in each turn, group 0 what comes before the equal layers in the first turn, the last
group what comes after them in the last turn. Of equal layers they have one or more, unless the layers that are left out
are enough for all turns. The second fact says how many layers the last turn can have at most: what
it keeps less than S microbatches of them is room for recomputing less. For each S, each largest degree and each degree
the times of groups below the time are listed. The least that all groups take together, one of them with the largest
degree, is found for all numbers of layers and devices, and lists again those that are below the time beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from instances.planning.grid.configurations import NONE, Configuration, ConfiguredChain, ConfiguredLayer
from mtpp.verification.clock import Clock
from mtpp.verification.planning.grid.bounds import Setting

__all__ = ["equalised", "may_hold"]

_NUMBERS = [one.name for one in fields(Configuration) if one.name not in ("tp", "cp", "ep", "recompute")]


def equalised(chain: ConfiguredChain) -> list[ConfiguredChain]:
    """Chains of the ends and one kind of layers between them, for which no plan takes longer.

    Of each way to run one it has the least numbers of the heaviest layers, by their parameters, and by their time, of
    so many that their number times the least weight is largest. The others are left out.
    """
    found = []
    for names in (("parameters", "expert_parameters"), ("forward", "input_backward", "weight_backward")):
        weights = [sum(getattr(layer.configurations[0], name) for name in names) for layer in chain.layers[1:-1]]
        falling = sorted(weights, reverse=True)
        _, limit = max((weight * number, weight) for number, weight in enumerate(falling, 1))
        found.append([layer for layer, weight in zip(chain.layers[1:-1], weights, strict=True) if weight >= limit])
    return [_of_one_kind(chain, layers) for layers in found]


def _of_one_kind(chain: ConfiguredChain, layers: Sequence[ConfiguredLayer]) -> ConfiguredChain:
    """Chain whose layers between the ends have the least numbers of these; what they send is that of all of them."""
    found: dict[tuple[object, str], list[Configuration]] = {}
    for layer in layers:
        for one in layer.configurations:
            found.setdefault((one.degrees, one.recompute), []).append(one)
    ways = []
    for (degrees, _), same in found.items():
        numbers = {name: min(getattr(one, name) for one in same) for name in _NUMBERS}
        numbers["forward"] = min(one.forward for one in found[degrees, NONE])
        numbers["output_bytes"] = min(
            one.output_bytes for layer in chain.layers[1:-1] for one in layer.configurations if one.degrees == degrees
        )
        ways.append(replace(same[0], **numbers))
    middle = replace(layers[0], kind="equal", configurations=tuple(ways))
    return replace(chain, layers=(chain.layers[0], *[middle] * len(layers), chain.layers[-1]))


def may_hold(setting: Setting, whole: Setting, ceiling: float, clock: Clock) -> bool:
    """Whether groups could hold all layers of an equalised chain below a time; `whole` is that of the model itself."""
    fixed, v, K, M = setting.question.fixed.pp, setting.question.fixed.v or 2, setting.K, setting.M
    for number in range(len(setting.tensor)):
        others = _Others.of(setting, whole, setting.tensor[: number + 1])
        for S in range(2, min(others.layers // v, K) + 1):
            if M % S == 0 and fixed in (None, S) and _groups_hold(setting, others, S, ceiling, clock):
                return True
    return False


@dataclass(frozen=True)
class _Others:
    """Least times of what other groups have, for some degrees."""

    tensor: Sequence[int]
    layers: int  # of the model
    left: int  # of these, those that are left out
    between: dict[int, list[tuple[float, float]]]  # by degree: passes of each layer of the model between its ends
    backward: tuple[float, float, float]  # of the first layer, an equal one, the last one
    both: tuple[float, float]  # of the first layer, and of any layer between the ends
    sent: tuple[float, float, float]  # to the next stage: after any layer, others than the first, at the last degree
    after: float

    @classmethod
    def of(cls, setting: Setting, whole: Setting, tensor: Sequence[int]) -> _Others:
        n, layers = setting.chain.n, whole.chain.n
        first, equal, last = (min(setting.layer(t, i)[1] for t in tensor) for i in (0, 1, n - 1))
        between = {t: sorted({whole.layer(t, i) for i in range(1, layers - 1)}) for t in tensor}
        both = min(sum(setting.layer(t, 0)) for t in tensor), min(sum(one) for t in tensor for one in between[t])
        at_last = min(setting.sent(tensor[-1], i) for i in range(1, n - 1))
        inner = min(setting.sent(t, i) for t in tensor for i in range(1, n - 1))
        sent = min(inner, *(setting.sent(t, 0) for t in tensor)), inner, at_last
        after = min(setting.after(t, 0, 1) for t in tensor)
        return cls(tensor, layers, layers - n, between, (first, equal, last), both, sent, after)

    def transfers(self, S: int, v: int) -> float:
        """Time of all transfers of a microbatch: the group with the last degree has 2 v - 1 neighbours or more."""
        first, inner, at_last = self.sent
        return 2 * (first + (2 * v - 2) * at_last + (S - 2) * v * inner)


def _groups_hold(setting: Setting, others: _Others, S: int, ceiling: float, clock: Clock) -> bool:
    """Whether S groups could hold all layers below a time."""
    work, least = -math.inf, 0.0
    while work < least < math.inf:
        work, value = least, np.full((2, setting.K + 1, setting.chain.n - 1), math.inf)
        value[0, 0, 0] = 0.0  # least time without and with a group of the last degree, by devices and layers
        for g in range(S):
            clock.raise_if_late()
            more = np.full_like(value, math.inf)
            for t in others.tensor:
                for count, time in _times(setting, others, t, g, S, ceiling, work).items() if t <= setting.K else ():
                    longer = value[:, : setting.K + 1 - t, : -count or None] + time
                    if t == others.tensor[-1]:
                        longer = np.stack((np.full_like(longer[0], math.inf), longer.min(axis=0)))
                    more[:, t:, count:] = np.minimum(more[:, t:, count:], longer)
            value = more
        least = float(value[1, :, -1].min())
    return least < math.inf


def _times(setting: Setting, others: _Others, t: int, g: int, S: int, ceiling: float, work: float) -> dict[int, float]:
    """Time of both passes of group g with each number of equal layers that leaves it below a time."""
    L, M, h, end = setting.chain.n, setting.M, min(S, 2 * (S - g) - 1), g == S - 1
    first, inner = others.both
    ways = others.after + (first + (g - 1) * inner + 2 * g * others.sent[0] if g else 0.0)
    turn = _LastTurn.of(setting, others, t, S, h, end, ceiling - work)
    found, v = {}, setting.question.fixed.v or 2
    beside = int(others.left < v - 1)  # equal layers that turns beside the last one must hold
    for count in range(others.left < v - (g == 0 or end), L - 1):
        own = (0, count + 1) if g == 0 else (L - 1 - count, L) if end else (1, count + 1)
        least = setting.passes(t, *own, h) if own != (1, 1) else 0.0
        if least is None or M * least + ways >= ceiling:
            break
        time, most, before = least, count - beside, math.inf if h < S or M == S else -math.inf
        while most < before and time < math.inf:
            before, most = most, min(most, turn.most(time))
            more = (S - h) * (most * turn.stored[0] + turn.stored[1])
            again = setting.passes(t, *own, S, more) if h < S and most >= 0 and own != (1, 1) else least
            time = math.inf if again is None or most < 0 else max(least, again)
        if M * time + ways < ceiling:
            found[count] = time
    return found


@dataclass(frozen=True)
class _LastTurn:
    """Limits of the last turn of a group."""

    room: float  # for passes of the last turn, transfers, and those that others need [s]
    least: float  # of these
    fixed: float  # without the passes of equal layers
    layer: float  # of an equal layer
    others: int  # M - S
    stored: tuple[float, float]  # most bytes that an equal layer, and the last one if it is there, keep

    @classmethod
    def of(cls, setting: Setting, others: _Others, t: int, S: int, h: int, end: bool, room: float) -> _LastTurn:
        n = setting.chain.n

        def turn(forward: float, backward: float) -> float:
            return (S - h) * forward + (S - 1) * backward

        last, layer = turn(*setting.layer(t, n - 1)) if end else 0.0, turn(*setting.layer(t, 1))
        own = last if end else min(turn(*one) for one in others.between[t])
        first, inner, final = others.backward
        passes = first + (n - 2) * inner + final if setting.M == S else 0.0
        fixed = setting.question.fixed.v
        turns = range(2, others.layers // S + 1) if fixed is None else [fixed]
        least = min(max(own, (S - 1) * passes / (S * v)) + others.transfers(S, v) for v in turns)
        stored = setting.most_stored(t, 1), setting.most_stored(t, n - 1) if end else 0.0
        return cls(room - others.after, least, last + others.transfers(S, turns[0]), layer, setting.M - S, stored)

    def most(self, time: float) -> int:
        """Most equal layers of the last turn of a group whose passes take so long; -1 if it is too long."""
        left = self.room - self.others * time
        if left <= self.least:
            return -1
        return math.floor((left - self.fixed) / self.layer) if self.layer > 0 else 10**9
