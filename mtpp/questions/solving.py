"""How a question is solved or a certificate is checked: solver, time, seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

from mtpp.questions.reading import ReadingWords
from mtpp.questions.words import Word

if TYPE_CHECKING:
    from mtpp_models import SolveOptions

__all__ = ["SEARCH", "ProofWords", "SeedWords", "SolvingWords", "VerifyWords", "solve_options"]

#: The panel of the help with words of searches and proofs.
SEARCH = "The search"
_CHECK = "The check"


class SeedWords(TypedDict, total=False):
    """Randomness."""

    seed: Annotated[int, Word("Same seed, same answer.", 0, panel=SEARCH, least=0, most=2**31 - 1)]


class ProofWords(SeedWords, total=False):
    """How models are solved, but for the time."""

    solver: Annotated[str, Word("See mtpp list solvers.", "highs", "NAME", SEARCH)]
    gap: Annotated[float, Word("Relative gap that is good enough.", 0.0, "X", SEARCH)]
    threads: Annotated[
        int,
        Word("Threads of the solver; certify gives one of several to a search beside the proofs.", 1, "N", SEARCH),
    ]


class SolvingWords(ProofWords, total=False):
    """How models are solved."""

    time_limit: Annotated[float | None, Word("For each k.", 60.0, "SECONDS", SEARCH)]


class VerifyWords(ReadingWords, total=False):
    """Words of `mtpp.verify`."""

    ideals: Annotated[
        bool, Word("Also run the program over ideals again, in plain and slow code.", False, panel=_CHECK)
    ]
    rerun: Annotated[
        bool,
        Word("Also let the solvers and programs of this machine prove again what is trusted.", False, panel=_CHECK),
    ]
    time_limit: Annotated[
        float, Word("For each certificate, and as much again for the rerun.", 60.0, "SECONDS", _CHECK)
    ]


def solve_options(words: ProofWords, time_limit: float | None) -> SolveOptions:
    """The words as a model takes them.

    Raises
    ------
    InputError
        If a value is out of its range.
    """
    from mtpp_models import SolveOptions

    return SolveOptions(words["solver"], time_limit, words["gap"], words["threads"], words["seed"])
