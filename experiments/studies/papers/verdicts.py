"""Published numbers, and verdicts of runs on them."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from experiments.studies.report import Finding
from mtpp.runs.statistics import LEAST_CLUSTERS, SIGNIFICANT, Means, PairedTest

# Numbers of the three papers as they print them, and what each may be held against.


#: The papers, in the order of tables.
PAPERS = ("mtpp", "spp", "placeto")

_FOLDER = Path(__file__).parent
_OUT_OF_MEMORY = "OOM"


class PaperNumber(NamedTuple):
    """One number of a paper."""

    paper: str
    item: str  # table, figure or section
    row: str
    column: str
    value: str  # as printed, whose digits count; OOM for out of memory
    unit: str
    note: str  # what it is, and what is inferred

    @property
    def number(self) -> float | None:
        """The value; None where a method ran out of memory."""
        return None if self.value == _OUT_OF_MEMORY else float(self.value)


@dataclass(frozen=True)
class Comparison:
    """How a number of a paper is compared with a measurement."""

    comparable: str  # same (question and data), shape (on our graphs), setting (shown only), no
    kind: str  # equal, at most, at least, order; empty where nothing is compared
    tolerance: Decimal  # in the unit of the number, or a part of it
    relative: bool
    why: str  # what limits the comparison


def numbers() -> list[PaperNumber]:
    """All 459 numbers: those of ``claims.csv``, and the 63 cells of SPP's Table III."""
    return [*_claims(), *table_iii()]


def table_iii() -> list[PaperNumber]:
    """Seconds of an iteration by model, testbed and planner, from ``table3.csv``."""
    rows = []
    for cell in _read("table3.csv"):
        gain, row = cell["speedup_percent"], f"{cell['model']}, {cell['testbed']}"
        note = f"SPP is {gain} % faster" if gain else "out of memory" if cell["oom"] == "1" else ""
        value = cell["seconds"] or _OUT_OF_MEMORY
        rows.append(PaperNumber("spp", "Table III", row, cell["planner"], value, "s", note))
    return rows


def value_of(paper: str, item: str, row: str, column: str) -> float | None:
    """One number of a paper; None where a method ran out of memory.

    Raises
    ------
    KeyError
        If there is none in that place.

    Examples
    --------
    >>> value_of("placeto", "Table 1", "NASNet 2 GPUs", "expert")
    0.86
    """
    return _by_place()[paper, item, row, column].number


def comparison(number: PaperNumber) -> Comparison:
    """The comparison for a number: the first row of ``comparable.csv`` whose patterns match.

    Raises
    ------
    KeyError
        If none fits.
    """
    for paper, item, row, column, stated in _comparisons():
        patterns = ((number.item, item), (number.row, row), (number.column, column))
        if paper == number.paper and all(fnmatchcase(*pair) for pair in patterns):
            return stated
    raise KeyError(number)


@cache
def _claims() -> tuple[PaperNumber, ...]:
    return tuple(PaperNumber(**row) for row in _read("claims.csv"))


@cache
def _by_place() -> dict[tuple[str, str, str, str], PaperNumber]:
    return {number[:4]: number for number in numbers()}


@cache
def _comparisons() -> tuple[tuple[str, str, str, str, Comparison], ...]:
    rows = []
    for row in _read("comparable.csv"):
        text = row["tolerance"] or "0"
        tolerance = Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        comparison = Comparison(row["comparable"], row["kind"], tolerance, text.endswith("%"), row["why"])
        rows.append((row["paper"], row["item"], row["row"], row["column"], comparison))
    return tuple(rows)


def _read(name: str) -> list[dict[str, str]]:
    with open(_FOLDER / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# Verdicts: what a paper states, the interval that was measured, and what follows.


@dataclass(frozen=True)
class Part:
    """One measurement with its interval, used to decide on a claim.

    The interval of a number computed without chance, such as a plan's time, is that number; a missing end is NaN.
    """

    value: float
    low: float  # of the 95 % interval
    high: float
    text: str = ""  # what it is, where a claim has several
    at: Callable[[float], tuple[float, float]] | None = None  # interval at a level of error; None without chance
    test: PairedTest | None = None  # of the ratio of two methods
    # The least and the most that it could be if runs had the paper's time limit; none where that could change nothing.
    ends: Sequence[Part] = ()

    @classmethod
    def of(cls, means: Means, to: Callable[[float], float] = float, text: str = "", **more: Any) -> Part:
        """A part from the first of several means and its interval, both converted by `to`."""
        value, low, high = (to(float(end[0])) for end in means[:3])

        def at(level: float) -> tuple[float, float]:
            low, high = means.at(level)
            return to(float(low[0])), to(float(high[0]))

        return cls(value, low, high, text, at, **more)

    def tests(self, kind: str) -> int:
        """Number of statistical tests that this part adds to those of its item: 0 or 1."""
        if self.at is None or math.isnan(self.low):
            return 0
        return int(kind != "order" or any(end.test is None or end.test.can_reject for end in self.ends or (self,)))

    def __str__(self) -> str:
        ends = "" if math.isnan(self.low) or self.low == self.high else f" [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.text} {self.value:.4g}{ends}".strip()


@dataclass(frozen=True)
class Measured:
    """Measurement for a number of a paper."""

    part: Part | None  # the number itself; None if it is missing
    graphs: int = 0
    clusters: int = 0
    parts: Sequence[Part] | None = None  # that decide; the number itself by default
    note: str = ""  # how it was measured, or why it is missing

    @property
    def deciding(self) -> Sequence[Part]:
        """The parts of the measurement on which the verdict rests."""
        return self.parts if self.parts is not None else [self.part] if self.part else []


#: A number, what it may be held against, and its measure.
Claim = tuple[PaperNumber, Comparison, Measured | None]


def judge_item(claims: Sequence[Claim]) -> list[tuple[Finding, str]]:
    """Verdicts on all numbers of an item with reasons, corrected for the number of tests (Holm).

    Step by step all that are not decided are judged at 0.05 over the number of their tests. Tests that could tell
    nothing apart, whatever the signs of the differences, do not count (Tarone, A Modified Bonferroni Method for
    Discrete Data, 1990).
    """
    verdicts: dict[int, tuple[Finding, str]] = {}
    left = set(range(len(claims)))
    while True:
        tests = sum(_tests(claims[i]) for i in left)
        verdicts |= {i: judge(*claims[i], SIGNIFICANT / max(1, tests)) for i in left}
        decided = {i for i in left if verdicts[i][0] in (Finding.HOLDS, Finding.FAILS)}
        if not decided:
            return [verdicts[i] for i in range(len(claims))]
        left -= decided


def _tests(claim: Claim) -> int:
    _, comparison, measured = claim
    if measured is None or comparison.comparable in ("setting", "no"):
        return 0
    return sum(part.tests(comparison.kind) for part in measured.deciding)


def judge(
    number: PaperNumber, comparison: Comparison, measured: Measured | None, error: float = SIGNIFICANT
) -> tuple[Finding, str]:
    """Verdict on a number of a paper, and its reason; `error` is the level of the test."""
    if comparison.comparable == "setting":
        return Finding.NOT_COMPARABLE, "a setting of the paper, shown only"
    if comparison.comparable == "no":
        return Finding.NOT_COMPARABLE, comparison.why
    if measured is None:
        return Finding.UNDECIDED, "not measured"
    parts = measured.deciding
    if measured.parts is None and not parts:
        return Finding.UNDECIDED, measured.note or "not measured"
    findings, reasons = [], []
    for part in parts:
        finding, reason = _judged(number, comparison, part, measured.clusters, error)
        findings.append(finding)
        reasons.append(f"{part}{reason}" if part.text or len(parts) > 1 else reason.lstrip(": "))
    total = Finding.all_of(findings)
    deciding = [reason for reason, finding in zip(reasons, findings, strict=True) if finding is total and reason]
    return total, "; ".join(text for text in (*deciding, measured.note, comparison.why) if text)


def _judged(
    number: PaperNumber, comparison: Comparison, part: Part, clusters: int, error: float
) -> tuple[Finding, str]:
    """Verdict on one interval at a level of error, and the reason if it is undecided."""
    if math.isnan(part.value):
        return Finding.UNDECIDED, ": a value is missing"
    if math.isnan(part.low + part.high):
        few = f": no interval from fewer than {LEAST_CLUSTERS} clusters" if clusters < LEAST_CLUSTERS else ""
        return Finding.UNDECIDED, few or ": no interval"
    ends = part.ends or (part,)
    findings = [_finding(number, comparison, end, error) for end in ends]
    if len(set(findings)) > 1:
        reached = " and ".join(f"{end.value:.4g} ({finding})" for end, finding in zip(ends, findings, strict=True))
        return Finding.UNDECIDED, f": with the paper's time limit between {reached}"
    if findings[0] is Finding.TIE and part.test is not None:
        equal, of = part.test.clusters - part.test.differ, part.test.clusters
        return Finding.TIE, f": equal on {equal} of {of} clusters" if part.test.is_tie else ": equal as printed"
    return findings[0], ": the interval leaves both open" if findings[0] is Finding.UNDECIDED else ""


def _finding(number: PaperNumber, comparison: Comparison, part: Part, error: float) -> Finding:
    """Verdict on one interval at a level of error."""
    if comparison.kind == "order":
        return order_of(part, error, number.value)
    low, high = (part.low, part.high) if part.at is None else part.at(1 - error)
    return decide(comparison.kind, number.value, comparison.tolerance, low, high, relative=comparison.relative)


def order_of(part: Part, error: float, printed: str) -> Finding:
    """Whether the ratio of two methods is below 1, above it, or they tie.

    They tie if the interval at that level of error says that they differ by less than half of the last digit of the
    printed number. They are told apart if the p value of the paired test is below `error` and 1 outside of the 95 %
    interval, as in `Pair`. Otherwise, they tie if they are equal on most clusters. Without chance, only what
    is equal ties.
    """
    if part.test is None or part.at is None:
        equal, differ = math.isclose(part.value, 1.0, rel_tol=1e-9), True
    else:
        low, high = part.at(1 - error)
        rounding = float(_half_of_last_digit(printed) / Decimal(printed))
        equal, differ = 1 - rounding <= low and high <= 1 + rounding, part.test.p < error
    if not equal and differ and not part.low <= 1 <= part.high:
        return Finding.HOLDS if part.high < 1 else Finding.FAILS
    return Finding.TIE if equal or (part.test is not None and part.test.is_tie) else Finding.UNDECIDED


def decide(kind: str, paper: str, tolerance: Decimal, low: float, high: float, *, relative: bool = False) -> Finding:
    """Verdict on an interval.

    Parameters
    ----------
    kind : str
        "equal": inside of the paper's number ± t, fails if apart from that; "at most" and "at least": one side of it.
    paper : str
        The number as printed.
    tolerance : Decimal
        t is that and half of the last digit of the number.
    low, high : float
        Ends of the interval.
    relative : bool
        Whether the tolerance is a part of the number.

    Examples
    --------
    >>> [decide("equal", "1.18", Decimal("0.01"), *x).value for x in ((1.175, 1.185), (1.195, 1.2), (1.18, 1.2))]
    ['holds', 'fails', 'undecided']
    """
    value = Decimal(paper)
    t = tolerance * (abs(value) if relative else 1) + _half_of_last_digit(paper)
    lower, upper = float(value - t), float(value + t)
    if kind == "at most":
        return _three(high <= upper, low > upper)
    if kind == "at least":
        return _three(low >= lower, high < lower)
    assert kind == "equal"
    return _three(lower <= low and high <= upper, low >= upper or high <= lower)


def _half_of_last_digit(printed: str) -> Decimal:
    return Decimal((0, (5,), int(Decimal(printed).as_tuple().exponent) - 1))


def percent_above(ratio: float) -> float:
    """Excess of a ratio over 1 [%]."""
    return 100 * (ratio - 1)


def _three(holds: bool, fails: bool) -> Finding:
    return Finding.of(True if holds else False if fails else None)
