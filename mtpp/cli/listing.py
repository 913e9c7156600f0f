"""The verbs ``mtpp list`` and ``mtpp versions``: what there is to choose from, and on what an answer rests."""

from __future__ import annotations

from typing import Annotated

from instances import InputError
from instances.registry import find
from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE
from mtpp.cli.options import LISTINGS
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import RelaxationWords
from mtpp.text.tables import frame_table, left_aligned, records


@command
def list_names(
    *,
    what: Annotated[str | None, options.argument(metavar="|".join(LISTINGS))] = None,
    graph: Annotated[
        str | None, options.of_question("--graph", metavar="GRAPH", help="Of models: count them for this graph and -k.")
    ] = None,
    k: Annotated[int | None, options.of_question("-k", metavar="K", help="Number of blocks, with --graph.")] = None,
    stats: Annotated[
        bool,
        options.of_search("--stats", help="With --graph, solve each model: LP, root and final bound."),
    ] = False,
    words: RelaxationWords,
    printing: Printing,
) -> int:
    """List what there is to choose from, with one line about each; without a word, what can be listed.

    Models of a question are listed with their sizes, and with what they prove in --time-limit each:
    mtpp list models --graph squeezenet -k 4 --stats --time-limit 10
    """
    if graph is not None or stats:
        return _list_models(what, graph, k, words, printing, stats=stats)
    rows = [(name,) for name in LISTINGS] if what is None else find(LISTINGS, what, "list")()
    printing.say(left_aligned([row[:1] for row in rows] if printing.quiet else rows))
    printing.document(lambda: [{"name": name, "about": about} for name, *about in rows])
    return DONE


def _list_models(
    what: str | None, graph: str | None, k: int | None, words: RelaxationWords, printing: Printing, *, stats: bool
) -> int:
    """List the models of a question with their sizes."""
    if what != "models":
        raise InputError(f"--graph and --stats: they are for mtpp list models{f', not {what}' if what else ''}.")
    if graph is None:
        raise InputError("--stats: give --graph and -k, the question that the models are of.")
    from mtpp.api.partitioning import catalogue_of

    with printing.working(f"models of {graph}"):
        frame = catalogue_of(graph, k, words, stats=stats)
    printing.say(frame_table(frame.drop(columns=["summary", "reference", "variables", "rows"])))
    printing.document(lambda: records(frame))
    return DONE


@command
def show_versions(*, printing: Printing) -> int:
    """Print the versions of everything that can change an answer."""
    from mtpp.versions import versions

    packages = versions()
    printing.say(left_aligned(list(packages.items())[: 1 if printing.quiet else None]))
    printing.document(lambda: packages)
    return DONE
