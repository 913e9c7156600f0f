"""Statements of papers or expectations, compared with measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "PaperClaim"]


class Finding(StrEnum):
    """Outcome of a comparison."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"  # a number is missing, or its interval leaves both open
    NOT_COMPARABLE = "not comparable"

    @property
    def shown(self) -> str:
        """The word in tables for people, where failures stand out."""
        return self.value.upper() if self is Finding.FAILS else self.value

    @classmethod
    def of(cls, holds: bool | None) -> Finding:
        """Finding on a statement that is true, false, or None if a number is missing."""
        return cls.UNDECIDED if holds is None else cls.HOLDS if holds else cls.FAILS

    @classmethod
    def all_of(cls, parts: Sequence[Finding]) -> Finding:
        """Finding on several statements at once: all must hold, one failure fails.

        Examples
        --------
        >>> Finding.all_of([Finding.HOLDS, Finding.UNDECIDED]).value
        'undecided'
        """
        return next(
            (finding for finding in (cls.FAILS, cls.UNDECIDED) if finding in parts),
            cls.HOLDS if parts else cls.UNDECIDED,
        )


@dataclass(frozen=True)
class PaperClaim:
    """A statement, and whether it holds here."""

    source: str  # paper or figure
    text: str
    holds: bool | None  # None if it is undecided, because a number is missing
    measured: str  # the numbers that decide
    beside: Sequence[float | None] = ()  # values of others in the same place; None where that was not measured

    @property
    def finding(self) -> Finding:
        """The same as a finding."""
        return Finding.of(self.holds)
