"""Statements of papers or expectations, compared with measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Claim"]


@dataclass(frozen=True)
class Claim:
    """A statement, and whether it holds here."""

    source: str  # paper or figure
    text: str
    holds: bool | None  # None if it is undecided, because a number is missing
    measured: str  # the numbers that decide
    beside: Sequence[float | None] = ()  # values of others in the same place; None where that was not measured

    def verdict(self, yes: str, no: str) -> str:
        """One of two words, or a dash if the claim is undecided.

        Examples
        --------
        >>> Claim("6", "faster than all", holds=False, measured="GPipe, -3 %").verdict("yes", "NO")
        'NO'
        """
        if self.holds is None:
            return "–"
        return yes if self.holds else no
