"""Choice of the next method: by measures of the question at first, then by gains so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from instances import Instance
from instances.deadline import Deadline
from instances.partitioning.kinds.problem import UnlikeInstance
from instances.partitioning.symmetry import families
from mtpp_models.bounds.algorithm import Algorithm
from mtpp_models.bounds.ideals.antichain import antichain
from mtpp_models.bounds.ideals.listing import MOST_LISTED
from mtpp_models.bounds.priced.bisection import BISECTION
from mtpp_models.bounds.priced.guessed_prices import PRICED_QUICK, QuickPrices
from mtpp_models.bounds.priced.priced import PRICED, Prices
from mtpp_models.cuts.max_flow import MOST_PAIRED
from mtpp_models.registry import KIND_MODELS, Model, find_model, prices_that_go_on

__all__ = ["Candidate", "Turn", "candidates_for", "next_candidate", "short_methods"]

# How much longer each turn is than the one before; no turn counts less in seconds.
_GROWTH, _SHORTEST = 2.0, 1e-3
# Up to so many blocks, and nodes times blocks, the exact model as published is solved early, if they are not few.
_FEW_BLOCKS, _SMALL = 4, 4_000
# Up to so many nodes times blocks of large graphs it has a short turn, strengthened, before prices, which take long:
# 0.6 s are enough for wavernn (321 nodes) in 4 blocks, and 1.3 s in 16.
_TRIED = 6_000
# Up to so many nodes times blocks times kinds of devices it finds better answers than searches.
_FEW = 1_000
# Up to so many nodes times blocks it mostly comes to its end, strengthened, in this part of the time, before prices do;
# and a short search is enough.
_FEW_PLACES, _TO_ITS_END, _SHORT_SEARCH = 250, 0.6, 0.03
# Of fewer blocks than three, prices and superblocks say no more than others do; of many the exact model says nothing.
_TWO, _MOST_BLOCKS = 2, 8
# Of more nodes, prices that are guessed prove more than prices of a program, which takes long to converge; of fewer,
# superblocks prove nothing that prices do not.
_MANY_NODES = 250
# Guessed prices have a part of the time that grows with the cube of the nodes, from and up to so many of them.
_MOST_GUESSED, _FEW_NODES, _MANY_GUESSED = 0.9, 70, 300
# Of more, prices of a program do not come to their first bound.
_MOST_PRICED_NODES = 2_000
# Time to build a model, for each block and each of its rows [s].
_ROW_SECONDS = 6e-5
# Some times what matrices of all pairs of nodes take, for each of them [s].
_PAIR_SECONDS = 5e-7
# Of more nodes, it takes longer than the first short turns.
_MOST_SHORT_PAIRS = 1_000
# Where no more nodes stand side by side there may be few enough ideals.
_NARROW = 14


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Record of one turn of a method: its time, and the best results after it."""

    method: str
    seconds: float  # by the clock of the time limit
    end: float  # seconds since the begin of the work
    bottleneck: float | None  # of the best partition
    bound: float | None  # the best one
    by: str | None  # whose bound that is


@dataclass
class Candidate:
    """Method that may have several turns."""

    method: str
    part: float  # of the time that is left, for the first turn
    model: Model | None = None  # None: the one of that name, or a search
    turn: float = 0.0  # seconds of the next one, behind the first
    spent: float = 0.0  # seconds so far
    gain: float = math.inf  # fall of the logarithm of the ratio per second in the last turn
    over: bool = False  # whether another turn is of no use
    least: float = 0.0  # seconds below which a turn comes to nothing
    behind: Candidate | None = None  # it has turns only if the last one of that was cut off
    cut_off: bool = False  # whether the last turn ended because its time was up
    once: bool = False  # whether it has one turn alone, as another would begin anew

    def deadline(self, whole: Deadline) -> Deadline:
        """End of the next turn; all time if less than half a turn would remain."""
        if whole.left == math.inf:
            return whole
        if self.spent == 0:
            self.turn = self.part * whole.left
        return whole.share(1.0 if 1.5 * self.turn > whole.left else self.turn / whole.left)

    def learn(self, seconds: float, before: float, behind: float, at_its_end: bool) -> None:
        """Record the gain of a turn: the logarithm of the ratio before and after it."""
        self.gain = (before - behind) / max(seconds, _SHORTEST) if before < math.inf else 0.0
        early = seconds < self.turn / 2
        self.cut_off = seconds >= self.turn
        # A method that stops early and has found nothing will not find more.
        self.over = self.once or at_its_end or (early and self.spent > 0 and not self.gain > 0)
        self.spent += max(seconds, _SHORTEST)
        self.turn *= _GROWTH


def short_methods(instance: Instance) -> list[str]:
    """A search, and proofs that may settle a question in less than a second."""
    proofs = [("ideals", MOST_LISTED), ("pigeonhole", _MOST_SHORT_PAIRS)]
    return ["local-search", "pinned", *(name for name, most in proofs if instance.graph.n <= most)]


def candidates_for(instance: Instance) -> list[Candidate]:
    """Methods that take turns, in the order of their first ones.

    If all take their parts in full, the last ones have most of the time; most end much earlier, or have their end.
    """
    if isinstance(instance, UnlikeInstance):
        tried = instance.graph.n * instance.k * instance.kinds <= _FEW
        exact = [Candidate("exact", 0.3, KIND_MODELS["exact"])] if tried else []
        return [Candidate("portfolio", 0.1), *exact, Candidate(PRICED, 0.8, prices_that_go_on())]
    n, k = instance.graph.n, instance.k
    listed = n <= MOST_LISTED
    narrow, large = listed and antichain(instance.graph) <= _NARROW, n > _MANY_NODES
    # Of equal branches that stand side by side there may be few up to exchange.
    promising = narrow or (listed and bool(families(instance)))
    priced = k > _TWO and n <= _MOST_PRICED_NODES
    few = k > _TWO and n * k <= _FEW_PLACES
    # Of wide graphs prices prove more, where they say anything.
    small = k <= (_FEW_BLOCKS if narrow else _TWO) and n * k <= _SMALL
    tried = large and n * k <= _TRIED
    row = (n + 2 * instance.graph.m) * _ROW_SECONDS
    guessed = _MOST_GUESSED * min(1.0, max(n, _FEW_NODES) / _MANY_GUESSED) ** 3
    quick, prices, whole = find_model(PRICED_QUICK), find_model(PRICED), find_model("exact+all")
    superblocks = find_model("coarse-2+all")
    assert isinstance(quick, Algorithm)
    assert isinstance(prices, Algorithm)
    ideals = Candidate("ideals", 0.3)
    possible = [
        (promising, ideals),
        (n <= MOST_PAIRED and k == _TWO, Candidate(BISECTION, 0.8, find_model(BISECTION))),
        (small and not few, Candidate("exact", 0.4, find_model("exact"), least=k * row)),
        (True, Candidate("portfolio", _SHORT_SEARCH if few else 0.1)),
        (n <= MOST_PAIRED and k > _TWO, Candidate(BISECTION, 0.05, find_model(BISECTION))),
        (promising, replace(ideals, behind=ideals)),
        (n <= MOST_PAIRED, Candidate("pigeonhole", 0.1, find_model("pigeonhole"), least=n**2 * _PAIR_SECONDS)),
        (listed and not promising, Candidate("ideals", 0.1)),
        (tried, Candidate("exact+all", 0.05 if k > _TWO else 1.0, whole, least=k * row)),
        (k > _TWO and n <= MOST_PAIRED, Candidate(PRICED_QUICK, guessed, replace(quick, run=QuickPrices()))),
        (few, Candidate("exact+all", _TO_ITS_END, whole, least=k * row, once=True)),
        (large and k > _TWO, Candidate("coarse-2+all", 0.6, superblocks, least=_TWO * row)),
        (priced, Candidate(PRICED, 0.7 if k <= _MOST_BLOCKS else 1.0, replace(prices, run=Prices()))),
        (not large and k > _TWO, Candidate("coarse-2+all", 1.0, superblocks, least=_TWO * row)),
        (not (tried or few) and k <= _MOST_BLOCKS, Candidate("exact+all", 1.0, whole, least=k * row)),
    ]
    return [candidate for suits, candidate in possible if suits]


def next_candidate(candidates: Sequence[Candidate], left: float = math.inf) -> Candidate | None:
    """Return an untried candidate, else that of largest gain per second; of equal ones that of least time so far.

    None if the seconds left are too few for any.
    """
    able = [
        candidate
        for candidate in candidates
        if candidate.least <= left and (candidate.behind is None or candidate.behind.cut_off)
    ]
    untried = next((candidate for candidate in able if candidate.spent == 0), None)
    return untried or max(able, key=lambda candidate: (candidate.gain, -candidate.spent), default=None)
