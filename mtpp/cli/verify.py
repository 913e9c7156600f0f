"""The verb ``mtpp verify``: check certificates without the programs that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from instances.errors import InputError
from mtpp.cli import options
from mtpp.cli.command import Without, command
from mtpp.cli.exit_codes import DONE, FALSE, TRUSTED, UNCHECKED, WRONG
from mtpp.cli.messages import complain
from mtpp.cli.printing import Printing
from mtpp.questions.verifying import OwnGraph, VerifyWords

if TYPE_CHECKING:
    from mtpp.verification.verdict import Verdict

__all__ = ["verify"]

#: From good to bad; the exit code of several files is the worst.
_SEVERITY = (DONE, TRUSTED, UNCHECKED, WRONG, FALSE)


@command
def verify(
    *,
    certificates: options.Answers,
    graph: Annotated[
        str | None, typer.Option(metavar="GRAPH", help="The graph that you asked about; another one is a fault.")
    ] = None,
    words: Annotated[VerifyWords, Without({"reader", "communication", "input_work", "time_unit"})],
    printing: Printing,
) -> int:
    """Check certificates without the programs that made them.

    First the question is printed that the file answers: is it yours? State what you asked for, as -k 8 --bandwidth
    25GB/s --graph bert-base, and a difference is a fault, exit code 1.

    Costs and combinatorial bounds are computed anew in code of their own, in exact numbers: the bottleneck of a
    partition, the time of a plan in the order of operations that its file states, the step time, memory and bound of a
    placement. What only a solver can say, and the bound of a plan, is listed as trusted. Exit codes: 0 the ratio is
    proved again, or confirmed by --rerun; 4 it rests on trusted bounds; 1 a number is false, or the question another
    one; 2 the file is no certificate, or lacks its question; 6 not checked within the limits.

    Example: mtpp verify certificate.json -k 4 --bandwidth 25GB/s --graph model.onnx
    """
    from instances.system.bounded_call import NotBoundedError
    from mtpp.api.verification import verified
    from mtpp.text.tables import left_aligned

    own = None if graph is None else OwnGraph(graph, words)
    code, documents = DONE, []
    for number, file in enumerate(certificates):
        try:
            with printing.working(str(file)):
                verdict = verified(file, own, words)
        except InputError as error:
            found = complain(str(error), WRONG)
        except NotBoundedError as error:
            found = complain(f"{file}: not checked: {error}; give more --time-limit, or do not trust it.", UNCHECKED)
        else:
            printing.say("\n" * (bool(number) and not printing.quiet) + left_aligned(_headlines(verdict, printing)))
            printing.detail(left_aligned(verdict.table()))
            documents.append(verdict.document())
            found = UNCHECKED if verdict.ran_out else TRUSTED if verdict.rests_on_trust else DONE
            for fault in verdict.faults:
                found = complain(f"{file}: {fault}", FALSE)
        code = max(code, found, key=_SEVERITY.index)
    if documents:
        printing.document(lambda: documents if len(certificates) > 1 else documents[0])
    return code


def _headlines(verdict: Verdict, printing: Printing) -> list[tuple[str, str]]:
    """Labels and texts of a verdict; of a quiet one its name and the last word."""
    lines = verdict.headlines()
    return [(verdict.certificate.file, " ".join(lines[-2]).strip())] if printing.quiet else lines
