"""The verb ``mtpp export``: a cut of a file as the settings of a runtime, with its certificate beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from instances.registry import find
from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing
from mtpp.questions.reading import ReadingWords

__all__ = ["export"]


@command
def export(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A certificate, a partition, a serving front, a plan with its question, or a stages folder.",
        ),
    ],
    graph: options.GraphOfFile = None,
    runtime: options.ExportFor,
    runtime_version: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Its release, where words differ.  [default: the latest that is known]"),
    ] = None,
    words: ReadingWords,
    out: Annotated[
        Path | None,
        options.of_files(
            metavar="FILE", help="Write the words there; a certificate is copied to FILE.certificate.json."
        ),
    ] = None,
    printing: Printing,
) -> int:
    """Write a cut as the settings of a runtime, such as vllm or megatron.

    What the runtime cannot express is refused. With --for, partition and certify ask for what it can express alone.

    Of a folder of stages the certificate says where it is cut; onnxruntime-genai is told its files and tensors.

    Example: mtpp export certificate.json --for vllm
    """
    from instances.runtimes import RUNTIMES
    from mtpp.api.exporting import exported

    found = find(RUNTIMES, runtime, "runtime").of_version(runtime_version)
    Files(out=out).check(None if out is None else Path(f"{out}.certificate.json"))
    answer = exported(file, found, graph, words, f"mtpp export {file}")
    if out is None:
        printing.say(answer.text.removesuffix("\n"))
    else:
        answer.write(out)
    printing.document(lambda: {"runtime": runtime, "words": answer.settings, "stated": list(answer.stated)})
    return DONE
