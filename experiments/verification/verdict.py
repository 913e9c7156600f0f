"""What checking a certificate came to: one check per bound, and the ratios that are left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from experiments.verification.exact_instance import as_float
from instances.certificate_file import Certificate, Claim
from instances.errors import printable

__all__ = ["ROUNDING", "Check", "Verdict", "ratio_of"]

#: Stated numbers are floats, computed in some order: they may differ by this part from what they mean.
ROUNDING = Fraction(1, 10**9)


class Check(NamedTuple):
    """What came out for one bound.

    Parameters
    ----------
    claim : Claim
    proved : Fraction, optional
        What is proved here, at most the value of the claim; None if the claim is trusted or not checked.
    how : str
        In words.
    fault : str
        Why the claim cannot be true; empty if none was found.
    confirmed : bool
        Whether what the claim comes from said it again on this machine; no proof of its own.
    """

    claim: Claim
    proved: Fraction | None
    how: str
    fault: str = ""
    confirmed: bool = False


@dataclass(frozen=True)
class Verdict:
    """What is left of a certificate after checking.

    Parameters
    ----------
    certificate : Certificate
    bottleneck : Fraction, optional
        Of the partition, computed here; None if there is none.
    checks : tuple of Check
        One per bound.
    faults : tuple of str
        Each names a number, what is claimed and what it is.
    """

    certificate: Certificate
    bottleneck: Fraction | None
    checks: tuple[Check, ...]
    faults: tuple[str, ...]

    @property
    def proved_bound(self) -> Fraction | None:
        """The best bound that was proved again here."""
        return max((check.proved for check in self.checks if check.proved is not None), default=None)

    @property
    def stated_bound(self) -> Fraction | None:
        """The best bound of all, trusted ones included."""
        return max((Fraction(check.claim.value) for check in self.checks), default=None)

    @property
    def proved_ratio(self) -> Fraction | None:
        """Bottleneck over the best bound that was proved again here; None without one."""
        return ratio_of(self.bottleneck, self.proved_bound)

    @property
    def stated_ratio(self) -> Fraction | None:
        """Bottleneck over the best bound of all, trusted ones included."""
        return ratio_of(self.bottleneck, self.stated_bound)

    @property
    def rests_on_trust(self) -> bool:
        """Whether some bound is above all that were proved again or confirmed here."""
        held = [Fraction(check.claim.value) for check in self.checks if check.confirmed]
        best = max([*held, self.proved_bound or Fraction(0)])
        return self.stated_bound is not None and self.stated_bound > best * (1 + ROUNDING)

    def headlines(self) -> list[tuple[str, str]]:
        """Labels and words: what is asked, and what is known about it."""
        instance = self.certificate.instance
        unit = printable(instance.graph.time_unit)
        lines = [
            ("certificate", printable(self.certificate.file)),
            ("instance", f"{printable(instance.name)}, k = {instance.k}, graph {instance.graph.content_hash}"),
        ]
        if self.faults:
            return [*lines, ("FALSE", f"{len(self.faults)} of its numbers do not hold")]
        partition = "none"
        if self.bottleneck is not None:
            partition = f"feasible, bottleneck {as_float(self.bottleneck):.6g} {unit}, computed anew"
        best = max(self.checks, key=lambda check: check.claim.value, default=None)
        lines.append(("partition", partition))
        lines.append(("ratio", f"{_rounded_up(self.proved_ratio)} by bounds re-proved here alone"))
        if best is not None and best.proved is None:
            label = "TRUSTED" if self.rests_on_trust else ""
            lines.append((label, f"{_rounded_up(self.stated_ratio)} if {best.claim.method} holds: {best.how}"))
        return lines

    def table(self) -> list[tuple[str, ...]]:
        """One row per bound, after a header."""
        unit = printable(self.certificate.instance.graph.time_unit)
        rows: list[tuple[str, ...]] = [("method", f"value [{unit}]", "over bottleneck", "check")]
        for claim, _, how, *_ in self.checks:
            share = f"{as_float(Fraction(claim.value) / self.bottleneck):.6f}" if self.bottleneck else "–"
            rows.append((claim.method, f"{claim.value:.6g}", share, how))
        return rows


def ratio_of(bottleneck: Fraction | None, bound: Fraction | None) -> Fraction | None:
    """At least 1; None if one of them is missing, or the bound is 0 and the bottleneck is not."""
    if bottleneck is None or bound is None:
        return None
    if bound > 0:
        return max(Fraction(1), bottleneck / bound)
    return Fraction(1) if bottleneck == 0 else None


def _rounded_up(ratio: Fraction | None) -> str:
    """Six digits, never less than the ratio up to the rounding of stated numbers."""
    if ratio is None:
        return "–"
    millionths = math.ceil((ratio - ROUNDING) * 10**6)
    return f"{millionths // 10**6}.{millionths % 10**6:06d}"
