"""The verb ``mtpp export``: a cut of a file in the words of a runtime, with its certificate beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options
from experiments.cli.exit_codes import DONE
from experiments.cli.inputs import Reading
from experiments.cli.outputs import Files
from experiments.cli.printing import Printing
from experiments.cli.words import takes_words
from instances import InputError, Platform
from instances.certificate_file import Claim
from instances.errors import printable
from instances.json_files import PLAN_FORMAT, TIMED_PLAN_FORMAT, Value, read_json
from instances.lookup import find
from instances.partitioning.answer_file import AnswerFile

if TYPE_CHECKING:
    from instances import Partition
    from instances.planning.plan import Plan

__all__ = ["export"]

_PLANS = (PLAN_FORMAT, TIMED_PLAN_FORMAT)


@takes_words
def export(
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A certificate, a partition, or a plan with its question.")
    ],
    graph: Annotated[
        str | None, typer.Argument(metavar="[GRAPH]", help="What a partition is of; the others hold their graphs.")
    ] = None,
    runtime: options.ExportFor,
    reading: Reading,
    out: Annotated[
        Path | None,
        options.of_files(
            metavar="FILE", help="Write the words there; a certificate is copied to FILE.certificate.json."
        ),
    ] = None,
    printing: Printing,
) -> int:
    """Say where a model is cut in the words of a runtime, such as vllm or megatron.

    What the runtime cannot express is refused. With --for, partition and certify ask for what it can express alone.

    Example: mtpp export certificate.json --for vllm
    """
    from instances.runtimes import RUNTIMES

    found = find(RUNTIMES, runtime, "runtime")
    beside = None if out is None else Path(f"{out}.certificate.json")
    Files(out=out).check(beside)
    document = read_json(file)
    answer, claims = _read(document, file, graph, reading)
    words = found.words(answer)
    certified = bool(claims)
    said = [_stated(answer, claims, file)] if certified else []
    text = "".join(f"{found.comment} {line}\n" for line in said if found.comment is not None) + words
    if out is not None:
        out.write_text(text, encoding="utf-8")
        if certified and beside is not None:
            beside.write_bytes(file.read_bytes())
    if out is None:
        printing.say(text.removesuffix("\n"))
    printing.document(lambda: {"runtime": runtime, "words": words, "stated": said})
    return DONE


def _read(
    document: Value, file: Path, graph: str | None, reading: Reading
) -> tuple[Partition | Plan, tuple[Claim, ...]]:
    """The answer of a file and the bounds that it states."""
    named = document.open_members(()).get("format")
    if named is not None and named.data in _PLANS:
        _refuse_graph(file, graph, reading, "a plan")
        return _plan(document)
    answer = AnswerFile.of(document)
    if answer.holds_graph:
        _refuse_graph(file, graph, reading, "a certificate")
        return answer.certified()
    if graph is None:
        raise InputError(
            f"{file}: it does not hold its graph; name that: mtpp export {file} {answer.graph_name or 'GRAPH'}"
        )
    # Where the words cut does not depend on speeds.
    return answer.partition(reading.load(graph), lambda k, said: Platform(k, 1.0)), ()


def _plan(document: Value) -> tuple[Plan, tuple[Claim, ...]]:
    from instances.planning.plan import Plan
    from instances.planning.stated import plan_from_document, timeline_from_document

    timed = document.check_format(*_PLANS) == TIMED_PLAN_FORMAT
    stated = timeline_from_document(document) if timed else plan_from_document(document)
    try:
        return Plan(stated.instance, stated.cuts, stated.devices, getattr(stated, "recompute", ())), stated.claims
    except InputError as error:
        document.fail(str(error))


def _refuse_graph(file: Path, graph: str | None, reading: Reading, what: str) -> None:
    if graph is not None or reading != Reading():
        raise InputError(f"{file}: {what} holds its graph; leave out all that says another one.")


def _stated(answer: Partition | Plan, claims: tuple[Claim, ...], file: Path) -> str:
    """What the file says of the answer, in one line; nothing is checked here."""
    name, best = answer.instance.label, max(claims, key=lambda claim: claim.value)
    unit = answer.instance.time_unit
    return printable(
        f"{name}: {file.name} states that no answer takes less than {best.value:.6g} {unit}, by {best.method}"
    )
