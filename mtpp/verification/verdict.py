"""Verdicts: a check for each bound, faults, and the ratios that remain; their clock and fractions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from instances.certificates import STATED, Claim, Envelope
from instances.deadline import CLOCK
from instances.errors import printable

# Limits of a check, set by the caller.


@dataclass(frozen=True)
class Limits:
    """Limits of a check, set by the caller, never by the file."""

    seconds: float


class OutOfTimeError(Exception):
    """End of a check at its time limit."""


class UndecidedError(Exception):
    """Question that a check does not decide within the memory and the steps that it may take."""


class Clock:
    """Time limit of a check, in seconds from now on, without the time in which kernels are compiled."""

    def __init__(self, seconds: float) -> None:
        self._end = CLOCK.now() + seconds

    def raise_if_late(self) -> None:
        """Raise `OutOfTimeError` where time is up."""
        if CLOCK.now() > self._end:
            raise OutOfTimeError


# Conversion of exact rational numbers to floats, for display.


def as_float(value: Fraction) -> float:
    """Convert to the nearest float, infinite beyond the largest; for display."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


# Comparison of stated numbers with true ones, and messages about those that differ.


#: Stated numbers are floats, computed in some order: they may differ by this part from what they mean.
ROUNDING = Fraction(1, 10**9)
# Floats below this one have fewer digits.
_LEAST_NORMAL = Fraction(1, 2**1022)


def faults_of_cost(claimed: float | None, cost: Fraction) -> Iterator[str]:
    """Yield a fault if the cost that a file states is not near the computed cost."""
    if claimed is None or not is_near(claimed, cost):
        yield unequal("cost", claimed, as_float(cost))


def faults_of_sum(certificate: Envelope, cost: Fraction | None, *, feasible: bool) -> Iterator[str]:
    """Yield faults of bounds above the cost, and of the best bound and the ratio that a certificate states.

    An infeasible answer may cost less than bounds on feasible answers, and needs no ratio.
    """
    best = max((claim.value for claim in certificate.claims), default=None)
    if cost is None and certificate.cost is not None:
        yield f"{certificate.cost_name}: {certificate.cost!r} is claimed without a {certificate.answer_name}"
    for claim in certificate.claims:
        if feasible and cost is not None and Fraction(claim.value) > cost + slack(cost):
            above = f"{claim.value!r} is above the {certificate.cost_name} {as_float(cost)!r}"
            yield f"{claim.place}.value ({claim.method}): {above}"
    if certificate.bound != best:
        yield unequal("bound", certificate.bound, best)
    ratio = ratio_of(cost, None if best is None else Fraction(best))
    claimed = certificate.ratio
    if claimed is None:  # files have no number for a ratio beyond the largest
        same = ratio is None or math.isinf(as_float(ratio)) or not feasible
    else:
        same = ratio is not None and abs(Fraction(claimed) - ratio) <= _slack_of_ratio(ratio, cost, best)
    if not same:
        yield unequal("ratio", claimed, None if ratio is None else as_float(ratio))


def is_near(claimed: float, true: Fraction) -> bool:
    """Whether a stated number is equal to the true value, up to `ROUNDING`."""
    return abs(Fraction(claimed) - true) <= slack(true)


def slack(value: Fraction) -> Fraction:
    """Largest difference of a stated float from the true value that counts as rounding."""
    return ROUNDING * max(value, _LEAST_NORMAL)


def _slack_of_ratio(ratio: Fraction, cost: Fraction | None, bound: float | None) -> Fraction:
    """Largest difference of a stated ratio from the true ratio that counts as rounding of cost and bound."""
    of_cost = slack(cost or Fraction(0)) / Fraction(bound) if bound else Fraction(0)
    return ROUNDING * ratio + max(ROUNDING * ratio, of_cost)


def unequal(place: str, claimed: object, true: object) -> str:
    """Message on a stated number that differs from the true value."""
    return f"{place}: {claimed!r} is claimed, {true!r} is recomputed"


def ratio_of(cost: Fraction | None, bound: Fraction | None) -> Fraction | None:
    """Ratio of cost to bound, at least 1; None if one of them is missing, or the bound is 0 and the cost is not."""
    if cost is None or bound is None:
        return None
    if bound > 0:
        return max(Fraction(1), cost / bound)
    return Fraction(1) if cost == 0 else None


# Verdict on a certificate: one check per bound, and the ratios that remain.

#: Standing of an answer whose cost bounds may be held against.
FEASIBLE = "feasible"


class Check(NamedTuple):
    """Result of the check of one bound."""

    claim: Claim
    # Bound proved here, at most the value of the claim; None if the claim is trusted or not checked.
    proved: Fraction | None
    how: str  # in words
    fault: str = ""  # why the claim cannot be true; empty if none was found
    confirmed: bool = False  # whether the claim's solver or program confirmed it on this machine, which is no proof
    late: bool = False  # whether it could be checked, but not within the limits


class InfeasibilityCheck(NamedTuple):
    """Result of the check that a question has no answer at all."""

    reason: str  # as the file states it
    holds: bool  # whether it was proved here
    how: str  # in words
    fault: str = ""  # why it cannot be true, or is not proved by what it names; empty if none was found


def compare(claim: Claim, proved: Fraction, how: str) -> Check:
    """Check of a claim against the bound that its method proves here."""
    value = Fraction(claim.value)
    if value > proved + slack(proved):
        return Check(claim, None, "false", f"value {claim.value!r} is claimed, only {as_float(proved)!r} is proved")
    return Check(claim, min(value, proved), how)


def by_solver(claim: Claim) -> Check:
    """Check of a claim that is stated alone, or rests on trust in the solver that it names; false if it names none."""
    if claim.method == STATED:
        return Check(claim, None, "stated, not proved")
    if claim.solver is None:
        return Check(claim, None, "false", "nothing checks this method and no solver is named to be trusted")
    version = f" {printable(claim.version)}" if claim.version else ""
    return Check(claim, None, f"trusted from {claim.solver}{version}")


@dataclass(frozen=True, repr=False)
class Verdict:
    """Verdict on a certificate: cost, checks of its bounds, faults."""

    certificate: Envelope
    cost: Fraction | None  # cost of the answer, computed here; None if there is no answer
    checks: tuple[Check, ...]  # one for each bound
    faults: tuple[str, ...]  # each names a number, what is claimed and what it is
    standing: str = FEASIBLE  # standing of the answer, in words
    no_answer: InfeasibilityCheck | None = None  # where the file says that there is none
    compared: tuple[str, ...] = ()  # what of the question the caller has stated, and found true

    def __repr__(self) -> str:
        return f"<Verdict on {self.certificate.file}: {'; '.join(text for _, text in self._standing())}>"

    @property
    def proved_bound(self) -> Fraction | None:
        """The best bound that was proved again here."""
        return max((check.proved for check in self.checks if check.proved is not None), default=None)

    @property
    def stated_bound(self) -> Fraction | None:
        """The best bound of all, including those that only a solver or program claims."""
        return max((Fraction(check.claim.value) for check in self.checks), default=None)

    @property
    def proved_ratio(self) -> Fraction | None:
        """Cost over the best bound that was proved again here; None without one."""
        return ratio_of(self.cost, self.proved_bound)

    @property
    def stated_ratio(self) -> Fraction | None:
        """Cost over the best bound of all, including those that only a solver or program claims."""
        return ratio_of(self.cost, self.stated_bound)

    @property
    def rests_on_trust(self) -> bool:
        """Whether some bound is above all bounds proved or confirmed here, or the absence of answers is not proved."""
        if self.no_answer is not None:
            return not self.no_answer.holds
        confirmed = [Fraction(check.claim.value) for check in self.checks if check.confirmed]
        best = max([*confirmed, self.proved_bound or Fraction(0)])
        return self.stated_bound is not None and self.stated_bound > best + slack(best)

    @property
    def ran_out(self) -> bool:
        """Whether the ratio rests on trust because a check did not end within the limits."""
        best = max((check.claim.value for check in self.checks if check.late), default=None)
        return self.rests_on_trust and best is not None and Fraction(best) > (self.proved_bound or 0)

    @property
    def proved_of_all(self) -> str:
        """Statement on all answers that is proved here besides bounds; empty if there is none."""
        return ""

    def headlines(self) -> list[tuple[str, str]]:
        """Rows of the verdict, label and text: the question, what was compared, the answer, its ratios, and names."""
        names = f'{printable(self.certificate.file)}, called "{printable(self.certificate.label)}"'
        return [*self._question(), *self._standing(), ("file", names)]

    def _question(self) -> list[tuple[str, str]]:
        return [
            ("question", printable(self.certificate.question_words)),
            ("hash", self.certificate.true_hash),
            ("compared", ", ".join(self.compared) or "nothing: is this what you asked?"),
        ]

    def _standing(self) -> list[tuple[str, str]]:
        certificate, lines = self.certificate, list[tuple[str, str]]()
        if self.faults:
            count = len(self.faults)
            return [("FALSE", "1 statement does not hold" if count == 1 else f"{count} statements do not hold")]
        if self.no_answer is not None:
            none = (certificate.answer_name, f"none: {printable(self.no_answer.reason)}")
            return [none, ("" if self.no_answer.holds else "TRUSTED", self.no_answer.how)]
        answer = "none"
        if self.cost is not None:
            cost = f"{certificate.cost_name} {as_float(self.cost):.6g} {printable(certificate.instance.time_unit)}"
            answer = f"{self.standing}, {cost}, computed anew"
        best = max(self.checks, key=lambda check: check.claim.value, default=None)
        lines.append((certificate.answer_name, answer))
        lines.append(("ratio", f"{_rounded_up(self.proved_ratio)} by bounds re-proved here alone"))
        if best is not None and best.proved is None:
            label = "TRUSTED" if self.rests_on_trust else ""
            lines.append((label, f"{_rounded_up(self.stated_ratio)} if {best.claim.method} holds: {best.how}"))
        return lines

    def table(self) -> list[tuple[str, ...]]:
        """One row per bound, after a header."""
        unit = printable(self.certificate.instance.time_unit)
        rows: list[tuple[str, ...]] = [("method", f"value [{unit}]", f"over {self.certificate.cost_name}", "check")]
        for claim, _, how, *_ in self.checks:
            share = f"{as_float(Fraction(claim.value) / self.cost):.6f}" if self.cost else "–"
            rows.append((claim.method, f"{claim.value:.6g}", share, how))
        return rows

    def document(self) -> dict[str, Any]:
        """The verdict as members of a JSON object; numbers are floats, null if missing."""
        numbers = {
            "cost": self.cost,
            "proved_bound": self.proved_bound,
            "stated_bound": self.stated_bound,
            "proved_ratio": self.proved_ratio,
            "stated_ratio": self.stated_ratio,
        }
        checks = [
            {"method": claim.method, "value": claim.value, "proved": _number(proved), "check": how, "fault": fault}
            for claim, proved, how, fault, *_ in self.checks
        ]
        return {
            "file": self.certificate.file,
            "question": self.certificate.question_words,
            "question_hash": self.certificate.true_hash,
            "compared": list(self.compared),
            "instance": self.certificate.label,
            "time_unit": self.certificate.instance.time_unit,
            "faults": list(self.faults),
            "rests_on_trust": self.rests_on_trust,
            "ran_out": self.ran_out,
            **{name: _number(value) for name, value in numbers.items()},
            "checks": checks,
            **({} if self.no_answer is None else {"impossible": self.no_answer._asdict()}),
        }


def verdict_of(
    certificate: Envelope,
    cost: Fraction | None,
    faults: Iterable[str],
    check: Callable[[Claim], Check],
    limits: Limits,
    *,
    fault: str | None = None,
    standing: str = FEASIBLE,
    no_answer: InfeasibilityCheck | None = None,
    judges_stated: bool = False,
) -> Verdict:
    """Verdict on a certificate whose answer is judged: each bound is proved again, if its method allows that.

    Parameters
    ----------
    certificate : Envelope
    cost : Fraction, optional
        Cost of the answer, computed anew; None without a valid answer.
    faults : iterable of str
        Faults of everything but bounds and cost.
    check : callable
        Proves a bound again, the larger ones first; where it raises an `OutOfTimeError`, the check says so.
    limits : Limits
    fault : str, optional
        Why the answer is invalid, so that cost, best bound and ratio mean nothing.
    standing, no_answer
        As in `Verdict`.
    judges_stated : bool
        Whether `check` takes bounds that are stated without a proof, as it may refute them.
    """
    places = sorted(range(len(certificate.claims)), key=lambda i: -certificate.claims[i].value)

    def proved(claim: Claim) -> Check:
        return check(claim) if judges_stated or claim.method != STATED else by_solver(claim)

    by_place = {i: _check(certificate.claims[i], proved, limits.seconds) for i in places}
    checks = tuple(by_place[i] for i in range(len(places)))
    faults = [*faults, *(f"{row.claim.place} ({row.claim.method}): {row.fault}" for row in checks if row.fault)]
    if fault is not None:
        faults.append(fault)
    else:
        faults += [] if cost is None else faults_of_cost(certificate.cost, cost)
        faults += faults_of_sum(certificate, cost, feasible=standing == FEASIBLE)
    return Verdict(certificate, cost, checks, tuple(faults), standing, no_answer)


def _check(claim: Claim, check: Callable[[Claim], Check], time_limit: float) -> Check:
    if claim.recheck != claim.kind:
        return Check(claim, None, "false", f"recheck is {claim.recheck!r} but this method has {claim.kind!r}")
    try:
        return check(claim)
    except OutOfTimeError:
        return Check(claim, None, f"not re-checked within {time_limit:g} s", late=True)


def _number(value: Fraction | None) -> float | None:
    """A float, None beyond the largest."""
    return None if value is None or math.isinf(as_float(value)) else as_float(value)


def _rounded_up(ratio: Fraction | None) -> str:
    """The ratio with six decimals, rounded up unless the excess is within `ROUNDING`."""
    if ratio is None:
        return "–"
    millionths = math.ceil((ratio - ROUNDING) * 10**6)
    return f"{millionths // 10**6}.{millionths % 10**6:06d}"
