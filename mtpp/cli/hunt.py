"""``mtpp hunt``: tests of bounds and heuristics against brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE, FALSE, INTERRUPTED
from mtpp.cli.printing import Printing
from mtpp.questions.words import SeedWords
from mtpp.text.numbers import parse_names


@command
def hunt(
    *,
    methods: Annotated[
        str,
        options.argument(
            metavar="NAME[,…]",
            help="mine.py:NAME, package.module:NAME, names of mtpp list heuristics and models, or all of these: all.",
        ),
    ],
    seconds: Annotated[float, options.of_limits(metavar="SECONDS", help="For all methods together.")] = 60.0,
    words: SeedWords,
    solver: Annotated[str, options.of_search(metavar="NAME", help="Of formulations; see mtpp list solvers.")] = "highs",
    out: Annotated[
        Path, options.of_files(metavar="FOLDER", help="Counterexamples: the graph, and the question with its optimum.")
    ] = Path("hunted"),
    printing: Printing,
) -> int:
    """Test bounds and heuristics on small random questions against brute force.

    A bound above the optimum, a partition that breaks a rule, two answers to one question, a search much longer than
    its limit or an error ends the hunt for that method; the question is made small and written. Exit code 1 then.

    Example: mtpp hunt mine.py:BOUND --seconds 60 --seed 7
    """
    from mtpp.runs.hunting import hunt_methods

    with printing.working("hunting") as live:
        outcomes = hunt_methods(parse_names(methods), seconds, words["seed"], solver, live.show)
    code = DONE
    for outcome in outcomes:
        printing.say(str(outcome))
        if outcome.counterexample is not None:
            code = FALSE
            for path in outcome.counterexample.save(out, outcome.method):
                printing.say(str(path))
    printing.document(lambda: [outcome.document() for outcome in outcomes])
    return INTERRUPTED if outcomes[-1].interrupted else code
