"""Shared by verbs with ``-k auto``: look for the least number of blocks, and say why it is the least."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from instances import Instance
from instances.errors import WordError, said
from mtpp.cli.exit_codes import IMPOSSIBLE, INTERRUPTED, NOTHING
from mtpp.cli.messages import complain
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import AUTO, PartitioningWords, enough_for, instances_of

if TYPE_CHECKING:
    from mtpp.certifying.least_k import LeastK
    from mtpp_models import SolveOptions, SolverNotAvailableError

__all__ = ["look", "no_k", "questions", "tell"]


def questions(graph: str, k: str | None, throughput: str | None, words: PartitioningWords) -> list[Instance]:
    """One question for each k; one for the least that the constraints name if k is asked for.

    Raises
    ------
    InputError
        If a word or the graph is refused.
    """
    if k == AUTO:
        return instances_of(graph, None, words, is_open=True)
    if throughput is not None:
        raise WordError("throughput", throughput, f"it is for {said('k', AUTO)}; leave it out, or give that.")
    return instances_of(graph, k, words)


def look(
    question: Instance,
    throughput: str | None,
    options: SolveOptions,
    printing: Printing,
    *,
    method: str = "portfolio",
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> LeastK:
    """Look for the least number of blocks, with progress; with `on_fault` also by proofs, not by search alone."""
    from mtpp.certifying.cheapest import find_least

    enough = enough_for(question, throughput)
    with printing.working(f"{question.name}, k = auto") as live:
        return find_least(
            question,
            enough,
            options,
            method=method,
            prove=on_fault is not None,
            on_progress=live.show,
            on_fault=on_fault,
        )


def no_k(least: LeastK, printing: Printing, files: Files) -> int:
    """Say why no number of blocks is known that will do, and write why not even the most will; the exit code."""
    most = least.known.get(least.most)
    if most is not None and not least.open and not least.by_itself:
        from mtpp.problems.answers import result_document

        files.write(partial(result_document, most))
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
