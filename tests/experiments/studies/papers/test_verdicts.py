"""Verdicts: golden ones, and what holds for every interval."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.studies.papers.numbers import (
    Comparison,
    Measured,
    PaperNumber,
    Part,
    decide,
    judge,
    judge_item,
    percent_above,
)
from experiments.studies.report import Finding, PaperClaim
from mtpp.runs.statistics import geometric_means, paired_test

KINDS = ("equal", "at most", "at least")
HOLDS, FAILS, TIE, UNDECIDED = Finding.HOLDS, Finding.FAILS, Finding.TIE, Finding.UNDECIDED


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


def number(value: str = "1.200", column: str = "k=2") -> PaperNumber:
    return PaperNumber("mtpp", "Table 6", "exact", column, value, "ratio", "")


def held(kind: str = "at most", comparable: str = "same") -> Comparison:
    return Comparison(comparable, kind, Decimal(0), False, "graphs of our own")


def judged(*parts: Part, kind: str = "at most", clusters: int = 20) -> tuple[Finding, str]:
    return judge(number(), held(kind), Measured(parts[0], clusters, clusters, parts))


def test_all_parts_must_hold_and_one_failure_fails() -> None:
    good, bad, wide = Part(1.1, 1.0, 1.15, "a"), Part(1.4, 1.3, 1.5, "b"), Part(1.2, 1.1, 1.3, "c")
    assert judged(good, good)[0] is HOLDS
    assert judged(Part(0.9, 0.9, 0.9), Part(1.0, 1.0, 1.0), kind="order")[0] is TIE
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
    ("kind", "ends", "verdict"),
    [
        ("at most", (1.0, 1.1), HOLDS),
        ("at most", (1.5, 1.0), UNDECIDED),  # more time makes the ratio smaller
        ("at most", (1.5, 1.4), FAILS),
        ("at least", (1.5, 1.7), HOLDS),
        ("at least", (1.0, 1.3), UNDECIDED),
        ("equal", (1.2, 1.3), UNDECIDED),
        ("order", (0.8, 0.9), HOLDS),
        ("order", (0.8, 1.0), UNDECIDED),
        ("order", (1.0, 1.0), TIE),
    ],
)
def test_what_more_time_could_turn_around_is_undecided(kind: str, ends: tuple[float, float], verdict: Finding) -> None:
    """Runs that stopped before the paper's time limit decide what they decide at both ends of what they may reach."""
    found, why = judged(Part(1.2, 1.2, 1.2, ends=[Part(end, end, end) for end in ends]), kind=kind)
    assert found is verdict
    assert ("with the paper's time limit between" in why) == (verdict is UNDECIDED)


@pytest.mark.parametrize(("ratio", "verdict"), [(0.9, HOLDS), (1.0, TIE), (1 + 1e-12, TIE), (1.1, FAILS)])
def test_without_chance_only_what_is_equal_ties(ratio: float, verdict: Finding) -> None:
    assert judged(Part(ratio, ratio, ratio), kind="order")[0] is verdict


def pair_of(logs: np.ndarray) -> Part:
    """A pair of methods on networks of one graph each."""
    return Part.of(geometric_means([np.exp(logs)], range(len(logs))), test=paired_test(logs, range(len(logs))))


def test_bug_methods_that_tie_do_not_fail() -> None:
    """An order failed where no network, or a single one, told its methods apart."""
    for logs in (np.zeros(12), np.array([0.0] * 11 + [0.01]), np.array([0.0] * 10 + [-0.01, 0.02])):
        verdict, why = judged(pair_of(logs), kind="order", clusters=12)
        assert verdict is TIE
        assert "of 12 clusters" in why
    assert judged(pair_of(np.linspace(0.01, 0.02, 12)), kind="order", clusters=12)[0] is FAILS


def test_bug_where_the_paper_has_no_memory_an_order_is_judged() -> None:
    """It printed no number whose digits count."""
    assert judge(number("OOM"), held("order"), Measured(Part(0.9, 0.9, 0.9), 1, 1))[0] is HOLDS


@pytest.mark.parametrize(("rest", "verdict"), [(0.0004, TIE), (0.0006, HOLDS)])
def test_what_differs_by_less_than_the_last_printed_digit_ties(rest: float, verdict: Finding) -> None:
    """Of 1.200; the smaller difference is as sure as the larger one."""
    logs = -(1.2**-1) * rest * np.linspace(0.99, 1.01, 24)
    found, why = judged(pair_of(logs), kind="order", clusters=24)
    assert found is verdict
    assert ("equal as printed" in why) == (verdict is TIE)


@pytest.mark.parametrize("ties", [0.5, 0.75, 0.9, 1.0])
def test_exchangeable_methods_neither_hold_nor_fail(ties: float) -> None:
    """Over twelve networks, of which on some shares the two are equal: in one of twenty draws at most."""
    rng, draws = np.random.default_rng(1), 200
    found = Counter()
    for _ in range(draws):
        logs = np.where(rng.random(12) < ties, 0.0, rng.normal(0, 0.05, 12))
        found[judged(pair_of(logs), kind="order", clusters=12)[0]] += 1
    assert max(found[HOLDS], found[FAILS]) <= 0.05 * draws
    if ties > 0.5:
        assert found[TIE] > 0.9 * draws


def test_verdicts_are_corrected_for_their_number() -> None:
    """Of twenty numbers of an item; tests that can tell nothing apart do not count, nor does what has no chance."""
    rng = np.random.default_rng(2)
    clear, weak = pair_of(np.linspace(-0.02, -0.01, 12)), pair_of(np.array([0.0] * 4 + [-0.02, -0.03] * 4))
    assert weak.test is not None
    assert 0.0025 < weak.test.p < 0.05
    equal, exact = pair_of(np.zeros(12)), Part(0.9, 0.9, 0.9)

    def item(*parts: Part) -> list[Finding]:
        return [
            verdict for verdict, _ in judge_item([(number(), held("order"), Measured(part, 12, 12)) for part in parts])
        ]

    assert item(weak) == [HOLDS]
    assert item(weak, *[equal] * 19) == [HOLDS, *[TIE] * 19]
    assert item(weak, *[exact] * 19) == [HOLDS] * 20
    others = [pair_of(rng.normal(0, 0.01, 12)) for _ in range(18)]
    assert item(weak, clear, *others)[:2] == [UNDECIDED, HOLDS]


@pytest.mark.parametrize("comparable", ["no", "setting"])
def test_what_cannot_be_compared_is_not(comparable: str) -> None:
    verdict, why = judge(number(), held(comparable=comparable), Measured(Part(1.0, 1.0, 1.0), 9, 9))
    assert verdict is Finding.NOT_COMPARABLE
    assert why


def test_excess_over_the_bound_is_in_percent() -> None:
    assert percent_above(1.0741) == pytest.approx(7.41)
    assert percent_above(0.5) == -50


def test_claims_of_studies_have_the_same_findings() -> None:
    assert [PaperClaim("6", "faster", holds, "").finding for holds in (True, False, None)] == [HOLDS, FAILS, UNDECIDED]
    assert Finding.FAILS.shown == "FAILS"
