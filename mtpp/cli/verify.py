"""The verb ``mtpp verify``: check certificates without the programs that made them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from instances.errors import InputError
from mtpp.cli.command import Without, takes_words
from mtpp.cli.exit_codes import DONE, FALSE, TRUSTED, WRONG
from mtpp.cli.messages import complain
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import Reading

if TYPE_CHECKING:
    from instances import ComputationGraph
    from instances.certificates.claims import Envelope
    from mtpp.verification.verdict import Verdict

__all__ = ["verify"]

#: From good to bad; what several files come to is the worst.
_SEVERITY = (DONE, TRUSTED, WRONG, FALSE)
# Seconds to read a file, beside its limits.
_PATIENCE = 20.0


@takes_words
def verify(
    *,
    certificates: Annotated[
        list[Path],
        typer.Argument(
            metavar="CERTIFICATE…", help="Files that certify, bound, plan, place or serve wrote with --out."
        ),
    ],
    ideals: Annotated[
        bool, typer.Option("--ideals", help="Also run the program over ideals again, in plain and slow code.")
    ] = False,
    rerun: Annotated[
        bool,
        typer.Option("--rerun", help="Also let the solvers and programs of this machine prove again what is trusted."),
    ] = False,
    time_limit: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="For each certificate, and as much again for --rerun."),
    ] = 60.0,
    graph: Annotated[
        str | None,
        typer.Option(metavar="GRAPH", help="A graph of your own, which that of the certificate has to be."),
    ] = None,
    reading: Annotated[Reading, Without({"reader", "communication", "input_work", "time_unit"})],
    printing: Printing,
) -> int:
    """Check certificates without the programs that made them.

    Costs and combinatorial bounds are computed anew in code of their own, in exact numbers: the bottleneck of a
    partition, the time of a plan in the order of operations that its file states, the step time, memory and bound of a
    placement. What only a solver can say, and the bound of a plan, is listed as trusted. Exit codes: 0 the ratio is
    proved again, or confirmed by --rerun; 4 it rests on trusted bounds; 1 a number is false, or nothing came out in
    time; 2 the file is no certificate, or lacks its question.

    Example: mtpp verify certificate.json --ideals --graph model.onnx
    """
    from instances.system.bounded_call import NotBoundedError, run_bounded
    from mtpp.text.tables import left_aligned

    if not 0 < time_limit < float("inf"):
        raise InputError(f"--time-limit {time_limit}: it must be positive and finite.")
    own = None if graph is None else reading.load(graph)
    code, documents = DONE, []
    for number, file in enumerate(certificates):
        words = {"own": own, "spec": graph, "ideals": ideals, "rerun": rerun, "time_limit": time_limit}
        try:
            with printing.working(str(file)):
                verdict = run_bounded(_verdict, file, seconds=2 * time_limit + _PATIENCE, **words)
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
    """What is said of a certificate; to whom wants one line, its name and the last word."""
    lines = verdict.headlines()
    return [(lines[0][1], " ".join(lines[-1]).strip())] if printing.quiet else lines


def _verdict(
    file: Path, *, own: ComputationGraph | None, spec: str | None, ideals: bool, rerun: bool, time_limit: float
) -> Verdict:
    from dataclasses import replace

    from instances.json_files import read_json
    from instances.system.bounded_call import NotBoundedError
    from mtpp.verification.clock import OutOfTimeError
    from mtpp.verification.verify import verify as check

    try:
        verdict = check(read_json(file), ideals=ideals, time_limit=time_limit)
    except OutOfTimeError:
        raise NotBoundedError(f"its cost was not known within {time_limit:g} s") from None
    if own is not None and (fault := _difference(verdict.certificate, own)):
        verdict = replace(verdict, faults=(*verdict.faults, f"instance.graph: it is not {spec}: {fault}"))
    if rerun and not verdict.faults:
        from mtpp.certificates.rerun import rerun as run_again

        verdict = run_again(verdict, time_limit=time_limit)
    return verdict


def _difference(certificate: Envelope, own: ComputationGraph) -> str:
    """Why the graph of a certificate is not the caller's; empty if it is."""
    from instances.partitioning.stated import Certificate
    from instances.placement.stated import StatedPlacement

    if not isinstance(certificate, Certificate | StatedPlacement):
        raise InputError(
            f"{certificate.file}: a plan or a serving front has a chain and no graph to compare; leave out --graph."
        )
    stated = certificate.instance.graph
    if (stated.n, stated.m) != (own.n, own.m):
        return f"{stated.n} nodes and {stated.m} edges against {own.n} and {own.m}"
    for v, (name, other) in enumerate(zip(stated.names, own.names, strict=True)):
        if name != other:
            return f"node {v} is called {name!r}, there {other!r}"
    for v in (stated.work != own.work).nonzero()[0][:1].tolist():
        return f"the work of node {v} ({own.names[v]}) is {float(stated.work[v])!r}, there {float(own.work[v])!r}"
    if stated.content_hash != own.content_hash or stated.time_unit != own.time_unit:
        return "edges, bytes, parameters or units are others"
    return ""
