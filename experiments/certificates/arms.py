"""Which method comes next: by measures of the question at first, then by what each has gained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heuristics import HEURISTICS
from instances import Instance
from instances.deadline import Deadline
from mtpp_models.bounds.algorithm import Algorithm
from mtpp_models.bounds.priced.priced import PRICED
from mtpp_models.bounds.priced.quick import PRICED_QUICK, QuickPrices
from mtpp_models.registry import Model, find_model

__all__ = ["Arm", "Rung", "arms_of", "choose"]

# Seconds of a first turn, its part of the time that is left, and how much longer each turn is than the one before.
_TURN, _FIRST_PART, _GROWTH = 2.0, 0.05, 2.0
# Each method has this part of an equal share before others go on for what they gain; no turn counts less in seconds.
_FAIR, _SHORTEST = 0.4, 1e-3
# Up to so many blocks, and nodes times blocks, the exact model as published is solved early, for this part of the time.
_FEW_BLOCKS, _SMALL, _FOR_EXACT = 4, 4_000, 0.3
# Of fewer blocks than three, prices and superblocks say no more than others do; of many the exact model says nothing.
_TWO, _MOST_BLOCKS = 2, 8
# Where no level has more nodes there may be few enough ideals; then they get this part of the time.
_NARROW, _FOR_IDEALS = 14, 0.35


@dataclass(frozen=True, kw_only=True)
class Rung:
    """What a turn of a method cost, and what was known behind it."""

    method: str
    seconds: float  # by the clock of the time limit
    end: float  # seconds since the begin of the work
    bottleneck: float | None  # of the best partition
    bound: float | None  # the best one
    by: str | None  # whose bound that is


@dataclass
class Arm:
    """A method that may have several turns."""

    method: str
    model: Model | None = None  # None: a search
    part: float = _FIRST_PART  # of the time that is left, at most, for the first turn
    turn: float = _TURN  # seconds of the next one
    spent: float = 0.0  # seconds so far
    gain: float = math.inf  # fall of the logarithm of the ratio per second in the last turn
    over: bool = False  # whether another turn is of no use

    def deadline(self, whole: Deadline) -> Deadline:
        """When the next turn ends; what would leave too little for another one takes all."""
        if whole.left == math.inf:
            return whole
        if self.spent == 0:
            self.turn = max(self.part * whole.left, min(self.turn, whole.left * _FIRST_PART))
        return whole.share(1.0 if 1.5 * self.turn > whole.left else self.turn / whole.left)

    def learn(self, seconds: float, before: float, behind: float, at_its_end: bool) -> None:
        """Take down what a turn has gained: the logarithm of the ratio before and behind it."""
        if before < math.inf:
            self.gain = (before - behind) / max(seconds, _SHORTEST)
        early = seconds < self.turn / 2
        # Who stops early and has found nothing has nothing more to say.
        self.over = at_its_end or (early and self.spent > 0 and not self.gain > 0)
        self.spent += max(seconds, _SHORTEST)
        self.turn *= _GROWTH


def arms_of(instance: Instance) -> list[Arm]:
    """The methods that take turns, in the order of their first ones."""
    n, k = instance.graph.n, instance.k
    narrow, small = _level_width(instance) <= _NARROW, k <= _FEW_BLOCKS and n * k <= _SMALL
    quick = find_model(PRICED_QUICK)
    assert isinstance(quick, Algorithm)
    candidates = [
        (narrow, Arm("ideals", find_model("ideals"), _FOR_IDEALS)),
        ("multilevel" in HEURISTICS, Arm("multilevel")),
        (True, Arm("portfolio")),
        (small, Arm("exact", find_model("exact"), _FOR_EXACT)),
        (k > _TWO, Arm(PRICED_QUICK, replace(quick, run=QuickPrices()))),
        (True, Arm("pigeonhole", find_model("pigeonhole"))),
        (k > _TWO, Arm("coarse-2+all", find_model("coarse-2+all"))),
        (not narrow, Arm("ideals", find_model("ideals"))),
        (k <= _MOST_BLOCKS, Arm("exact+all", find_model("exact+all"))),
        (k > _TWO, Arm(PRICED, find_model(PRICED))),
    ]
    return [arm for suits, arm in candidates if suits]


def choose(arms: Sequence[Arm]) -> Arm:
    """The next one: who had no turn yet, then who had less than its share, then who gains most."""
    for arm in arms:
        if arm.spent == 0:
            return arm
    poorest = min(arms, key=lambda arm: arm.spent)
    if poorest.spent < _FAIR * sum(arm.spent for arm in arms) / len(arms):
        return poorest
    return max(arms, key=lambda arm: (arm.gain, -arm.spent))


def _level_width(instance: Instance) -> int:
    """Most nodes with a longest path of equal length from the sources; there are 2 to the power of them ideals."""
    graph = instance.graph
    depth = np.zeros(graph.n, dtype=np.int64)
    start, after = graph.successors
    for v in graph.topological_order.tolist():
        behind = after[start[v] : start[v + 1]]
        depth[behind] = np.maximum(depth[behind], depth[v] + 1)
    return int(np.bincount(depth).max())
