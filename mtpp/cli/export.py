"""The verb ``mtpp export``: a cut of a file in the words of a runtime, with its certificate beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from instances import InputError, Partition, Platform
from instances.certificates.claims import Claim
from instances.errors import printable
from instances.json_files import CERTIFICATE_FORMAT, PLAN_FORMAT, TIMED_PLAN_FORMAT, Value, read_json
from instances.partitioning.answer_file import AnswerFile
from instances.partitioning.stated_serving import SERVING_FORMAT, serving_from_document
from instances.registry import find
from mtpp.cli import options
from mtpp.cli.command import takes_words
from mtpp.cli.exit_codes import DONE
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import Reading
from mtpp.stages.manifest import read_manifest

if TYPE_CHECKING:
    from instances.planning.plan import Plan
    from instances.runtimes import Runtime
    from mtpp.stages.records import Manifest

__all__ = ["export"]


@takes_words
def export(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A certificate, a partition, a serving front, a plan with its question, or a stages folder.",
        ),
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

    Of a folder of stages the certificate says where it is cut; onnxruntime-genai is told its files and tensors.

    Example: mtpp export certificate.json --for vllm
    """
    from instances.runtimes import RUNTIMES

    found = find(RUNTIMES, runtime, "runtime")
    beside = None if out is None else Path(f"{out}.certificate.json")
    Files(out=out).check(beside)
    if out is not None and out.exists() and out.samefile(file):
        raise InputError(f"--out {out}: this is the file that the cut is read from; give another name.")
    manifest = read_manifest(file) if file.is_dir() else None
    if manifest is not None:
        file = file / manifest.certificate.file
    answer, stated = _read(read_json(file), file, graph, reading)
    words = found.settings(answer) if manifest is None else _words_of_stages(found, answer, manifest)
    said = [] if stated is None else [printable(f"{answer.instance.label}: {file.name} states that {stated}")]
    text = "".join(f"{found.comment} {line}\n" for line in said if found.comment is not None) + words
    if out is None:
        printing.say(text.removesuffix("\n"))
    else:
        out.write_text(text, encoding="utf-8")
        if stated is not None and beside is not None:
            beside.write_bytes(file.read_bytes())
    printing.document(lambda: {"runtime": runtime, "words": words, "stated": said})
    return DONE


def _words_of_stages(runtime: Runtime, answer: Partition | Plan, manifest: Manifest) -> str:
    from instances.runtimes.onnxruntime_genai import StageFile, StageFileRuntime

    if not isinstance(runtime, StageFileRuntime):
        return runtime.settings(answer)
    files = [
        StageFile(
            name=stage.file.file,
            inputs=tuple(received.tensor.name for received in stage.inputs),
            outputs=tuple(sent.tensor.name for sent in stage.outputs),
        )
        for stage in manifest.stages
    ]
    return runtime.settings_for(answer, files)


def _read(document: Value, file: Path, graph: str | None, reading: Reading) -> tuple[Partition | Plan, str | None]:
    """The answer of a file, and what the file states of all answers, which nothing here checks."""
    named = document.open_members(()).get("format")
    kind = None if named is None else named.data
    if isinstance(kind, str) and kind in _WITH_GRAPH:
        if graph is not None or reading != Reading():
            raise InputError(f"{file}: it holds its graph; leave out all that says another one.")
        return _WITH_GRAPH[kind](document)
    answer = AnswerFile.of(document)
    if graph is None:
        raise InputError(
            f"{file}: it does not hold its graph; name that: mtpp export {file} {answer.graph_name or 'GRAPH'}"
        )
    # Where the words cut does not depend on speeds.
    return answer.partition(reading.load(graph), lambda k, said: Platform(k, 1.0)), None


def _certified(document: Value) -> tuple[Partition, str | None]:
    partition, claims = AnswerFile.of(document).certified()
    return partition, _bound(partition, claims)


def _serving(document: Value) -> tuple[Partition, str | None]:
    stated = serving_from_document(document)
    if not 0 <= stated.answer < len(stated.front):
        document.fail(f"there is no cut {stated.answer} among {len(stated.front)}.")
    try:
        partition = Partition(stated.instance, stated.front[stated.answer].block)
    except InputError as error:
        document.fail(str(error))
    return partition, "no cut is faster and holds more context"


def _plan(document: Value) -> tuple[Plan, str | None]:
    from instances.planning.plan import Plan
    from instances.planning.stated import plan_from_document, timeline_from_document

    timed = document.check_format(PLAN_FORMAT, TIMED_PLAN_FORMAT) == TIMED_PLAN_FORMAT
    stated = timeline_from_document(document) if timed else plan_from_document(document)
    try:
        plan = Plan(stated.instance, stated.cuts, stated.devices, getattr(stated, "recompute", ()))
    except InputError as error:
        document.fail(str(error))
    return plan, _bound(plan, stated.claims)


def _bound(answer: Partition | Plan, claims: tuple[Claim, ...]) -> str | None:
    if not claims:
        return None
    best = max(claims, key=lambda claim: claim.value)
    return f"no answer takes less than {best.value:.6g} {answer.instance.time_unit}, by {best.method}"


# Format to what reads the cut of a file that holds its graph.
_WITH_GRAPH: dict[str, Callable[[Value], tuple[Partition | Plan, str | None]]] = {
    CERTIFICATE_FORMAT: _certified,
    SERVING_FORMAT: _serving,
    PLAN_FORMAT: _plan,
    TIMED_PLAN_FORMAT: _plan,
}
