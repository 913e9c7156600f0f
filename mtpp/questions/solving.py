"""How a question is solved: solver, time, seed."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from instances.errors import WordError
from mtpp.questions.words import Word, words_of

if TYPE_CHECKING:
    from mtpp_models import SolveOptions

__all__ = [
    "SEARCH",
    "ProofWords",
    "SeedWords",
    "SolvingWords",
    "budgets_of",
    "seeds_of",
    "solve_options",
]

#: The panel of the help with words of searches and proofs.
SEARCH = "The search"


class SeedWords(TypedDict, total=False):
    """Randomness."""

    seed: Annotated[
        int,
        Word("Same seed, same answer, without a time limit.", 0, panel=SEARCH, least=0, most=2**31 - 1),
    ]


class ProofWords(SeedWords, total=False):
    """How models are solved, but for the time."""

    solver: Annotated[str, Word("See mtpp list solvers.", "highs", "NAME", SEARCH)]
    gap: Annotated[float, Word("Relative gap that is good enough.", 0.0, "X", SEARCH)]
    threads: Annotated[
        int,
        Word("Threads of solver and price trees; certify lets one of several search beside proofs.", 1, "N", SEARCH),
    ]


class SolvingWords(ProofWords, total=False):
    """How models are solved."""

    time_limit: Annotated[float | None, Word("For each k, or none.", 60.0, "SECONDS", SEARCH)]


def solve_options(words: ProofWords, time_limit: float | None) -> SolveOptions:
    """The words as a model takes them.

    Raises
    ------
    InputError
        If a value is out of its range.
    """
    from mtpp_models import SolveOptions

    return SolveOptions(words["solver"], time_limit, words["gap"], words["threads"], words["seed"])


def seeds_of(given: Any) -> list[int]:
    """Seeds: a number, several, or a text such as "0,1,2"; none if they are left out.

    Raises
    ------
    WordError
        If one is no whole number, or out of its range.
    """
    (_, word) = words_of(SeedWords)["seed"]
    return [int(seed) for seed in _numbers("seeds", given, operator.index, word.least, word.most)]


def budgets_of(given: Any) -> list[float | None]:
    """Seconds for heuristics: a number, several, or a text such as "1,10,60"; their own steps if they are left out.

    Raises
    ------
    WordError
        If one is no number above 0.
    """
    return list(_numbers("budgets", given, float, math.ulp(0.0), sys.float_info.max)) or [None]


def _numbers(name: str, given: Any, kind: Callable[[Any], float], least: float, most: float) -> list[float]:
    if given is None:
        return []
    several = given.split(",") if isinstance(given, str) else given if isinstance(given, Iterable) else [given]
    found = []
    for one in several:
        try:
            number = kind(one) if not isinstance(one, str) else int(one) if kind is operator.index else float(one)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if isinstance(one, bool) or not least <= number <= most:
            said = "whole numbers from 0 on" if kind is operator.index else "numbers of seconds above 0"
            raise WordError(name, given, f"give {said}.")
        found.append(number)
    return list(dict.fromkeys(found))
