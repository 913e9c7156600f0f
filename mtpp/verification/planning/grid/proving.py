"""Bounds on plans in a grid by their names, each proved a second time."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from instances.planning.grid.problem import GridInstance
from mtpp.verification.clock import Clock
from mtpp.verification.planning.grid.bounds import MARGIN, TooManyWaysError, settings_of
from mtpp.verification.planning.grid.turns import equalised, may_hold

__all__ = ["proved_bound"]


def proved_bound(question: GridInstance, method: str, value: float, clock: Clock) -> Fraction | None:
    """Bound on all plans that is proved here, at most `value`; None if there is none.

    An `OutOfTimeError` says that the clock has run out.
    """
    settings = list(settings_of(question))
    works = [one.work for one in settings]
    if method == "work-grid":
        return min((Fraction(work) for work in works), default=Fraction(value))
    ceiling, least = value * (1 - MARGIN), value
    if method == "turns-grid":
        if question.layers < 4:
            return None
        models = zip(*map(equalised, question.chains), strict=True)
        relaxed = zip(*(settings_of(replace(question, chains=chains)) for chains in models), strict=True)
        for whole, work, these in zip(settings, works, relaxed, strict=True):
            if work < ceiling and all(may_hold(one, whole, ceiling, clock) for one in these):
                return Fraction(0)
        return Fraction(value)
    for one, work in zip(settings, works, strict=True):
        if work < ceiling:
            try:
                least = min(least, one.least_below(ceiling, clock))
            except TooManyWaysError:
                return None
    return Fraction(least)
