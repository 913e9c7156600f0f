"""Verdicts: what a paper states, the interval that was measured, and what follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from experiments.studies.claim import Verdict
from experiments.studies.papers.published import Comparison, PaperNumber
from mtpp.runs.statistics.intervals import LEAST_CLUSTERS, Means

__all__ = ["Measured", "Part", "decide", "judge", "percent_above"]

#: What more time could turn around.
Open = Literal["", "low", "high", "both"]


@dataclass(frozen=True)
class Part:
    """One interval that decides about a claim."""

    value: float
    low: float  # NaN without an interval
    high: float
    text: str = ""  # what it is, where a claim has several
    # Whether more time would make the value larger ("high"), smaller ("low"), or either; runs stopped before the
    # paper's time limit.
    open: Open = ""

    @classmethod
    def of(cls, found: Means, to: Callable[[float], float] = float, text: str = "", open: Open = "") -> Part:
        """The first row of means and its interval, in another unit."""
        value, low, high = (to(float(end[0])) for end in found[:3])
        return cls(value, low, high, text, open)

    def __str__(self) -> str:
        ends = "" if math.isnan(self.low) or self.low == self.high else f" [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.text} {self.value:.4g}{ends}".strip()


@dataclass(frozen=True)
class Measured:
    """Measure of a number of a paper, made here."""

    here: Part | None  # the number itself; None if it is missing
    graphs: int = 0
    clusters: int = 0
    parts: Sequence[Part] | None = None  # that decide; the number itself by default
    note: str = ""  # how it was measured, or why it is missing


def judge(number: PaperNumber, held: Comparison, measured: Measured | None) -> tuple[Verdict, str]:
    """Verdict on a number of a paper, and its reason."""
    if held.comparable == "setting":
        return Verdict.NOT_COMPARABLE, "a setting of the paper, shown only"
    if held.comparable == "no":
        return Verdict.NOT_COMPARABLE, held.why
    if measured is None:
        return Verdict.UNDECIDED, "not measured"
    if measured.parts is None and measured.here is None:
        return Verdict.UNDECIDED, measured.note or "not measured"
    parts = measured.parts if measured.parts is not None else [measured.here] if measured.here else []
    verdicts, reasons = [], []
    for part in parts:
        verdict, reason = _judged(number, held, part, measured.clusters)
        verdicts.append(verdict)
        reasons.append(f"{part}{reason}" if part.text or len(parts) > 1 else reason.lstrip(": "))
    found = Verdict.all_of(verdicts)
    told = [reason for reason, verdict in zip(reasons, verdicts, strict=True) if verdict is found and reason]
    return found, "; ".join(text for text in (*told, measured.note, held.why) if text)


def _judged(number: PaperNumber, held: Comparison, part: Part, clusters: int) -> tuple[Verdict, str]:
    """Verdict on one interval, and words on what leaves it open."""
    if math.isnan(part.value):
        return Verdict.UNDECIDED, ": a value is missing"
    if math.isnan(part.low + part.high):
        few = f": no interval from fewer than {LEAST_CLUSTERS} clusters" if clusters < LEAST_CLUSTERS else ""
        return Verdict.UNDECIDED, few or ": no interval"
    verdict = decide(held.kind, number.value, held.tolerance, part.low, part.high, relative=held.relative)
    if verdict in (Verdict.HOLDS, Verdict.FAILS) and _could_turn(held.kind, verdict, part.open):
        return Verdict.UNDECIDED, f": {verdict}, but runs stopped before the paper's time limit"
    return verdict, ": the interval leaves both open" if verdict is Verdict.UNDECIDED else ""


def decide(kind: str, paper: str, tolerance: Decimal, low: float, high: float, *, relative: bool = False) -> Verdict:
    """Verdict on an interval.

    Parameters
    ----------
    kind : str
        "equal": inside of the paper's number ± t, fails if apart from that; "at most" and "at least": one side of it;
        "order": a ratio below 1.
    paper : str
        The number as printed.
    tolerance : Decimal
        t is that and half of the last digit of the number.
    low, high : float
        Of the interval.
    relative : bool
        Whether the tolerance is a part of the number.

    Examples
    --------
    >>> [decide("equal", "1.18", Decimal("0.01"), *x).value for x in ((1.175, 1.185), (1.195, 1.2), (1.18, 1.2))]
    ['holds', 'fails', 'undecided']
    """
    if kind == "order":
        return _three(high < 1, low >= 1)
    value = Decimal(paper)
    t = tolerance * (abs(value) if relative else 1) + Decimal((0, (5,), int(value.as_tuple().exponent) - 1))
    least, most = float(value - t), float(value + t)
    if kind == "at most":
        return _three(high <= most, low > most)
    if kind == "at least":
        return _three(low >= least, high < least)
    assert kind == "equal"
    return _three(least <= low and high <= most, low >= most or high <= least)


def percent_above(ratio: float) -> float:
    """By how much a ratio is above 1 [%]."""
    return 100 * (ratio - 1)


def _three(holds: bool, fails: bool) -> Verdict:
    return Verdict.of(True if holds else False if fails else None)


def _could_turn(kind: str, verdict: Verdict, side: Open) -> bool:
    """Whether a value that more time moves that way could lead to the other verdict."""
    if not side or side == "both":
        return bool(side)
    if kind == "equal":
        return True
    good = "high" if kind == "at least" else "low"
    return (verdict is Verdict.HOLDS) == (side != good)
