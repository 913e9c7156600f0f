"""What checking a certificate came to: one check per bound, and the ratios that are left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from experiments.certificate_files import Certificate, Claim

__all__ = ["Check", "Verdict", "ratio_of"]


class Check(NamedTuple):
    """What came out for one bound.

    Parameters
    ----------
    claim : Claim
    proved : float, optional
        What is proved here, at most the value of the claim; None if the claim is trusted or not checked.
    how : str
        In words.
    fault : str
        Why the claim cannot be true; empty if none was found.
    """

    claim: Claim
    proved: float | None
    how: str
    fault: str = ""


@dataclass(frozen=True)
class Verdict:
    """What is left of a certificate after checking.

    Parameters
    ----------
    certificate : Certificate
    bottleneck : float, optional
        Of the partition, computed here; None if there is none.
    checks : tuple of Check
        One per bound.
    faults : tuple of str
        Each names a number, what is claimed and what it is.
    """

    certificate: Certificate
    bottleneck: float | None
    checks: tuple[Check, ...]
    faults: tuple[str, ...]

    @property
    def proved_ratio(self) -> float | None:
        """Bottleneck over the best bound that was proved again here; None without one."""
        return ratio_of(self.bottleneck, max((c.proved for c in self.checks if c.proved is not None), default=None))

    @property
    def stated_ratio(self) -> float | None:
        """Bottleneck over the best bound of all, trusted ones included."""
        return ratio_of(self.bottleneck, max((check.claim.value for check in self.checks), default=None))

    def headlines(self) -> list[tuple[str, str]]:
        """Labels and words: what is asked, and what is known about it."""
        instance = self.certificate.instance
        lines = [
            ("certificate", self.certificate.file),
            ("instance", f"{instance.name}, k = {instance.k}, graph {instance.graph.content_hash}"),
        ]
        if self.faults:
            return [*lines, ("FALSE", f"{len(self.faults)} of its numbers do not hold")]
        partition = "none"
        if self.bottleneck is not None:
            partition = f"feasible, bottleneck {self.bottleneck:.6g} {instance.graph.time_unit}, computed anew"
        best = max(self.checks, key=lambda check: check.claim.value, default=None)
        lines.append(("partition", partition))
        lines.append(("ratio", f"{_shown(self.proved_ratio)} by bounds re-proved here alone"))
        if best is not None and best.proved is None:
            lines.append(("", f"{_shown(self.stated_ratio)} with {best.claim.method}, {best.how}"))
        return lines

    def table(self) -> list[tuple[str, ...]]:
        """One row per bound, after a header."""
        header = ("method", f"value [{self.certificate.instance.graph.time_unit}]", "over bottleneck", "check")
        rows = []
        for claim, _, how, _ in self.checks:
            share = claim.value / self.bottleneck if self.bottleneck else None
            rows.append((claim.method, f"{claim.value:.6g}", _shown(share), how))
        return [header, *rows]


def ratio_of(bottleneck: float | None, bound: float | None) -> float | None:
    """At least 1; None if one of them is missing, or the bound is 0 and the bottleneck is not."""
    if bottleneck is None or bound is None:
        return None
    if bound > 0:
        return max(1.0, bottleneck / bound)
    return 1.0 if bottleneck == 0 else None


def _shown(number: float | None) -> str:
    return "–" if number is None else f"{number:.6f}"
