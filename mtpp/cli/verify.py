"""The verb ``mtpp verify``: check certificates without the programs that made them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from instances.errors import InputError
from mtpp.cli.command import Without, command
from mtpp.cli.exit_codes import DONE, FALSE, TRUSTED, WRONG
from mtpp.cli.messages import complain
from mtpp.cli.printing import Printing
from mtpp.questions.reading import ReadingWords, read_graph
from mtpp.questions.solving import VerifyWords
from mtpp.questions.words import pick

if TYPE_CHECKING:
    from mtpp.verification.verdict import Verdict

__all__ = ["verify"]

#: From good to bad; the exit code of several files is the worst.
_SEVERITY = (DONE, TRUSTED, WRONG, FALSE)


@command
def verify(
    *,
    certificates: Annotated[
        list[Path],
        typer.Argument(
            metavar="CERTIFICATE…", help="Files that certify, bound, plan, place or serve wrote with --out."
        ),
    ],
    graph: Annotated[
        str | None,
        typer.Option(metavar="GRAPH", help="A graph of your own, which that of the certificate has to be."),
    ] = None,
    words: Annotated[VerifyWords, Without({"reader", "communication", "input_work", "time_unit"})],
    printing: Printing,
) -> int:
    """Check certificates without the programs that made them.

    Costs and combinatorial bounds are computed anew in code of their own, in exact numbers: the bottleneck of a
    partition, the time of a plan in the order of operations that its file states, the step time, memory and bound of a
    placement. What only a solver can say, and the bound of a plan, is listed as trusted. Exit codes: 0 the ratio is
    proved again, or confirmed by --rerun; 4 it rests on trusted bounds; 1 a number is false, or nothing came out in
    time; 2 the file is no certificate, or lacks its question.

    Example: mtpp verify certificate.json --graph model.onnx
    """
    from instances.system.bounded_call import NotBoundedError
    from mtpp.api.verification import verified
    from mtpp.text.tables import left_aligned

    own = None if graph is None else read_graph(graph, pick(ReadingWords, words))
    code, documents = DONE, []
    for number, file in enumerate(certificates):
        try:
            with printing.working(str(file)):
                verdict = verified(file, own, graph or "", words)
        except InputError as error:
            found = complain(str(error), WRONG)
        except NotBoundedError as error:
            found = complain(f"{file}: not checked: {error}; give more --time-limit, or do not trust it.", FALSE)
        else:
            printing.say("\n" * (bool(number) and not printing.quiet) + left_aligned(_headlines(verdict, printing)))
            printing.detail(left_aligned(verdict.table()))
            documents.append(verdict.document())
            found = TRUSTED if verdict.rests_on_trust else DONE
            for fault in verdict.faults:
                found = complain(f"{file}: {fault}", FALSE)
        code = max(code, found, key=_SEVERITY.index)
    if documents:
        printing.document(lambda: documents if len(certificates) > 1 else documents[0])
    return code


def _headlines(verdict: Verdict, printing: Printing) -> list[tuple[str, str]]:
    """Labels and texts of a verdict; of a quiet one its name and the last word."""
    lines = verdict.headlines()
    return [(lines[0][1], " ".join(lines[-1]).strip())] if printing.quiet else lines
