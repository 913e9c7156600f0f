"""Verdicts: what a paper states, the interval that was measured, and what follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from experiments.studies.claim import Finding
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
    def of(cls, means: Means, to: Callable[[float], float] = float, text: str = "", open: Open = "") -> Part:
        """The first row of means and its interval, in another unit."""
        value, low, high = (to(float(end[0])) for end in means[:3])
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


def judge(number: PaperNumber, comparison: Comparison, measured: Measured | None) -> tuple[Finding, str]:
    """Finding on a number of a paper, and its reason."""
    if comparison.comparable == "setting":
        return Finding.NOT_COMPARABLE, "a setting of the paper, shown only"
    if comparison.comparable == "no":
        return Finding.NOT_COMPARABLE, comparison.why
    if measured is None:
        return Finding.UNDECIDED, "not measured"
    if measured.parts is None and measured.here is None:
        return Finding.UNDECIDED, measured.note or "not measured"
    parts = measured.parts if measured.parts is not None else [measured.here] if measured.here else []
    findings, reasons = [], []
    for part in parts:
        finding, reason = _judged(number, comparison, part, measured.clusters)
        findings.append(finding)
        reasons.append(f"{part}{reason}" if part.text or len(parts) > 1 else reason.lstrip(": "))
    total = Finding.all_of(findings)
    shown = [reason for reason, finding in zip(reasons, findings, strict=True) if finding is total and reason]
    return total, "; ".join(text for text in (*shown, measured.note, comparison.why) if text)


def _judged(number: PaperNumber, comparison: Comparison, part: Part, clusters: int) -> tuple[Finding, str]:
    """Finding on one interval, and words on what leaves it open."""
    if math.isnan(part.value):
        return Finding.UNDECIDED, ": a value is missing"
    if math.isnan(part.low + part.high):
        few = f": no interval from fewer than {LEAST_CLUSTERS} clusters" if clusters < LEAST_CLUSTERS else ""
        return Finding.UNDECIDED, few or ": no interval"
    finding = decide(
        comparison.kind, number.value, comparison.tolerance, part.low, part.high, relative=comparison.relative
    )
    if finding in (Finding.HOLDS, Finding.FAILS) and _could_turn(comparison.kind, finding, part.open):
        return Finding.UNDECIDED, f": {finding}, but runs stopped before the paper's time limit"
    return finding, ": the interval leaves both open" if finding is Finding.UNDECIDED else ""


def decide(kind: str, paper: str, tolerance: Decimal, low: float, high: float, *, relative: bool = False) -> Finding:
    """Finding on an interval.

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
    lower, upper = float(value - t), float(value + t)
    if kind == "at most":
        return _three(high <= upper, low > upper)
    if kind == "at least":
        return _three(low >= lower, high < lower)
    assert kind == "equal"
    return _three(lower <= low and high <= upper, low >= upper or high <= lower)


def percent_above(ratio: float) -> float:
    """By how much a ratio is above 1 [%]."""
    return 100 * (ratio - 1)


def _three(holds: bool, fails: bool) -> Finding:
    return Finding.of(True if holds else False if fails else None)


def _could_turn(kind: str, finding: Finding, side: Open) -> bool:
    """Whether a value that more time moves that way could lead to the other finding."""
    if not side or side == "both":
        return bool(side)
    if kind == "equal":
        return True
    good = "high" if kind == "at least" else "low"
    return (finding is Finding.HOLDS) == (side != good)
