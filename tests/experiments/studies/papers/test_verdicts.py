"""Verdicts: golden ones, and what holds for every interval."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.studies.papers.verdicts import Comparison, Measured, Open, PaperNumber, Part, decide, judge
from experiments.studies.report import Finding, PaperClaim

KINDS = ("equal", "at most", "at least", "order")
HOLDS, FAILS, UNDECIDED = Finding.HOLDS, Finding.FAILS, Finding.UNDECIDED


@pytest.mark.parametrize(
    ("kind", "paper", "tolerance", "low", "high", "verdict"),
    [
        ("equal", "1.18", "0.01", 1.175, 1.185, HOLDS),
        ("equal", "1.18", "0.01", 1.195, 1.2, FAILS),
        ("equal", "1.18", "0.01", 1.18, 1.2, UNDECIDED),
        ("equal", "10", "0", 10, 10, HOLDS),
        ("equal", "6", "0", 5.4, 5.45, FAILS),
        ("at most", "1.044", "0.002", 1.0, 1.046, HOLDS),
        ("at most", "1.044", "0.002", 1.047, 1.05, FAILS),
        ("at most", "1.044", "0.002", 1.04, 1.05, UNDECIDED),
        ("at least", "20", "0", 19.6, 30, HOLDS),
        ("at least", "20", "0", 10, 19.4, FAILS),
        ("at least", "20", "0", 19, 21, UNDECIDED),
        ("order", "1.5", "0", 0.9, 0.99, HOLDS),
        ("order", "1.5", "0", 1.0, 1.1, FAILS),
        ("order", "1.5", "0", 0.9, 1.0, UNDECIDED),
    ],
)
def test_golden(kind: str, paper: str, tolerance: str, low: float, high: float, verdict: Finding) -> None:
    """Half of the last digit that the paper prints is added to the tolerance."""
    assert decide(kind, paper, Decimal(tolerance), low, high) is verdict


def test_a_tolerance_may_be_a_part_of_the_number() -> None:
    assert decide("equal", "157", Decimal("0.15"), 140, 180, relative=True) is HOLDS
    assert decide("equal", "157", Decimal("0.15"), 182, 190, relative=True) is FAILS


@given(st.sampled_from(KINDS), st.lists(st.floats(0.5, 2.0), min_size=4, max_size=4))
def test_more_certainty_changes_no_verdict(kind: str, ends: list[float]) -> None:
    """An interval inside of another decides as that one, if it decided."""
    low, inner, outer, high = sorted(ends)
    wide, narrow = (decide(kind, "1.2", Decimal("0.1"), *pair) for pair in ((low, high), (inner, outer)))
    assert wide in (UNDECIDED, narrow)


def number(value: str = "1.2", column: str = "k=2") -> PaperNumber:
    return PaperNumber("mtpp", "Table 6", "exact", column, value, "ratio", "")


def held(kind: str = "at most", comparable: str = "same") -> Comparison:
    return Comparison(comparable, kind, Decimal(0), False, "graphs of our own")


def judged(*parts: Part, kind: str = "at most", clusters: int = 20) -> tuple[Finding, str]:
    return judge(number(), held(kind), Measured(parts[0], clusters, clusters, parts))


def test_all_parts_must_hold_and_one_failure_fails() -> None:
    good, bad, wide = Part(1.1, 1.0, 1.15, "a"), Part(1.4, 1.3, 1.5, "b"), Part(1.2, 1.1, 1.3, "c")
    assert judged(good, good)[0] is HOLDS
    assert judged(good, wide)[0] is UNDECIDED
    assert judged(good, wide, bad) == (FAILS, "b 1.4 [1.3, 1.5]; graphs of our own")


def test_without_an_interval_nothing_is_decided() -> None:
    verdict, why = judged(Part(1.0, math.nan, math.nan), clusters=7)
    assert (verdict, why) == (UNDECIDED, "no interval from fewer than 8 clusters; graphs of our own")
    assert judged(Part(math.nan, math.nan, math.nan))[1].startswith("a value is missing")
    assert judge(number(), held(), Measured(None, note="not run in this profile")) == (
        UNDECIDED,
        "not run in this profile",
    )
    assert judge(number(), held(), None)[0] is UNDECIDED


@pytest.mark.parametrize(
    ("kind", "low", "side", "verdict"),
    [
        ("at most", 1.0, "low", HOLDS),  # more time makes the ratio even smaller
        ("at most", 1.5, "low", UNDECIDED),
        ("at least", 1.5, "high", HOLDS),
        ("at least", 1.0, "high", UNDECIDED),
        ("order", 0.8, "low", HOLDS),
        ("order", 0.8, "high", UNDECIDED),
        ("order", 1.8, "high", FAILS),
        ("order", 1.8, "low", UNDECIDED),
        ("order", 0.8, "both", UNDECIDED),
        ("equal", 1.2, "low", UNDECIDED),
        ("equal", 1.2, "", HOLDS),
    ],
)
def test_what_more_time_could_turn_around_is_undecided(kind: str, low: float, side: Open, verdict: Finding) -> None:
    """Runs that stopped before the paper's time limit decide only where their end could not matter."""
    found, why = judged(Part(low, low, low, open=side), kind=kind)
    assert found is verdict
    assert ("runs stopped before" in why) == (verdict is UNDECIDED)


@pytest.mark.parametrize("comparable", ["no", "setting"])
def test_what_cannot_be_compared_is_not(comparable: str) -> None:
    verdict, why = judge(number(), held(comparable=comparable), Measured(Part(1.0, 1.0, 1.0), 9, 9))
    assert verdict is Finding.NOT_COMPARABLE
    assert why


def test_claims_of_studies_have_the_same_findings() -> None:
    assert [PaperClaim("6", "faster", holds, "").finding for holds in (True, False, None)] == [HOLDS, FAILS, UNDECIDED]
    assert Finding.FAILS.shown == "FAILS"
