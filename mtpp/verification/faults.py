"""Comparison of stated numbers with true ones, and messages about those that differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from instances.certificates.claims import Envelope
from mtpp.verification.fractions import as_float

__all__ = ["ROUNDING", "faults_of_copies", "faults_of_cost", "faults_of_sum", "is_near", "ratio_of", "slack", "unequal"]

#: Stated numbers are floats, computed in some order: they may differ by this part from what they mean.
ROUNDING = Fraction(1, 10**9)
# Floats below this one have fewer digits.
_LEAST_NORMAL = Fraction(1, 2**1022)


def faults_of_copies(claimed: Mapping[str, object], true: Mapping[str, object], place: str = "") -> Iterator[str]:
    """Yield a fault for each value that the file repeats of its question and that differs from it."""
    for name, value in claimed.items():
        if value != true[name]:
            yield unequal(f"{place}{name}", value, true[name])


def faults_of_cost(place: str, claimed: float | None, cost: Fraction) -> Iterator[str]:
    """The cost that a file states, against the one that was computed here."""
    if claimed is None or not is_near(claimed, cost):
        yield unequal(place, claimed, as_float(cost))


def faults_of_sum(certificate: Envelope, cost: Fraction | None) -> Iterator[str]:
    """Bounds against the cost, and the numbers that sum the certificate up."""
    best = max((claim.value for claim in certificate.claims), default=None)
    if cost is None and certificate.cost is not None:
        yield f"{certificate.cost_name}: {certificate.cost!r} is claimed without a {certificate.answer_name}"
    for claim in certificate.claims:
        if cost is not None and Fraction(claim.value) > cost + slack(cost):
            above = f"{claim.value!r} is above the {certificate.cost_name} {as_float(cost)!r}"
            yield f"{claim.place}.value ({claim.method}): {above}"
    if certificate.bound != best:
        yield unequal("bound", certificate.bound, best)
    ratio = ratio_of(cost, None if best is None else Fraction(best))
    claimed = certificate.ratio
    if claimed is None:  # files have no number for a ratio beyond the largest
        same = ratio is None or math.isinf(as_float(ratio))
    else:
        same = ratio is not None and abs(Fraction(claimed) - ratio) <= _slack_of_ratio(ratio, cost, best)
    if not same:
        yield unequal("ratio", claimed, None if ratio is None else as_float(ratio))


def is_near(claimed: float, true: Fraction) -> bool:
    """Whether a stated number is what it means, up to `ROUNDING`."""
    return abs(Fraction(claimed) - true) <= slack(true)


def slack(value: Fraction) -> Fraction:
    """The most by which a stated float may differ from what it means."""
    return ROUNDING * max(value, _LEAST_NORMAL)


def _slack_of_ratio(ratio: Fraction, cost: Fraction | None, bound: float | None) -> Fraction:
    """The most by which a ratio may differ that is one of floats."""
    return ROUNDING * ratio + (slack(cost or Fraction(0)) / Fraction(bound) if bound else 0)


def unequal(place: str, claimed: object, true: object) -> str:
    """One line for a number that does not hold."""
    return f"{place}: {claimed!r} is claimed, {true!r} is recomputed"


def ratio_of(cost: Fraction | None, bound: Fraction | None) -> Fraction | None:
    """Ratio of cost to bound, at least 1; None if one of them is missing, or the bound is 0 and the cost is not."""
    if cost is None or bound is None:
        return None
    if bound > 0:
        return max(Fraction(1), cost / bound)
    return Fraction(1) if cost == 0 else None
