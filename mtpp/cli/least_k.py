"""What ``-k auto`` of several verbs shares: looking for the least number of blocks, and saying why it is the least."""

from __future__ import annotations

import sys
from collections.abc import Callable

from instances import Instance
from mtpp.certifying.least_k import LeastK, find_least_k
from mtpp.cli.exit_codes import IMPOSSIBLE, INTERRUPTED, NOTHING
from mtpp.cli.messages import complain
from mtpp.cli.printing import Printing
from mtpp_models import SolveOptions, SolverNotAvailableError

__all__ = ["look", "no_k", "tell"]


def look(
    question: Instance,
    enough: float,
    options: SolveOptions,
    printing: Printing,
    *,
    method: str = "portfolio",
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> LeastK:
    """Look for the least number of blocks, with progress; what a search alone cannot exclude needs `on_fault`."""
    with printing.working(f"{question.name}, k = auto") as live:
        return find_least_k(
            question,
            enough,
            options,
            method=method,
            prove=on_fault is not None,
            on_progress=live.show,
            on_fault=on_fault,
        )


def no_k(least: LeastK, printing: Printing) -> int:
    """Say why no number of blocks is known that will do; the exit code."""
    code, reason = (NOTHING, None) if least.open else (IMPOSSIBLE, least.sentence())
    printing.document(lambda: {"instance": least.question.name, "k": None, "partition": None, "impossible": reason})
    return complain(least.sentence(), INTERRUPTED if least.interrupted else code)


def tell(least: LeastK | None, printing: Printing) -> None:
    """Say what is the least number of blocks, and why; on stderr where stdout is for JSON."""
    if least is None:
        return
    if not printing.json:
        printing.detail(least.sentence())
    elif not printing.quiet:
        print(least.sentence(), file=sys.stderr)
